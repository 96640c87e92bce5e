"""The talk with a console as a machine of bytes and time, and recipes as data."""

from __future__ import annotations

import re

import pytest

from virtlab.testbed.platforms.appliance.console import Talk, Wanted

S = 10**9
PROMPT = re.compile(r"# $")


def step(expect: str, send: str | None) -> Wanted:
    return Wanted(re.compile(expect), send, S, expect)


def test_lines_are_sent_as_the_console_asks_for_them() -> None:
    talk = Talk([step("login: $", "root"), step("# $", "ip link"), step("# $", None)])
    assert talk.hear(b"booting\r\nrouter lo", 0) == b""
    assert talk.hear(b"gin: ", 1) == b"root\r"
    assert talk.hear(b"root\r\n# ", 2) == b"ip link\r"
    assert not talk.over
    assert talk.hear(b"ip link\r\n1: lo\r\n# ", 3) == b""
    assert talk.over


def test_a_prompt_in_the_echo_of_what_was_sent_is_no_answer() -> None:
    talk = Talk([step("# $", "echo '# "), step("# $", "next")])
    assert talk.hear(b"# ", 0) == b"echo '# \r"
    assert talk.hear(b"echo '# ", 1) == b"", "that is the echo"
    assert talk.hear(b"\r\n# ", 2) == b"next\r"


LONG = "set protocols static route6 2001:db8:0:1::/64 next-hop 2001:db8:0:2::1 distance 10"


@pytest.mark.parametrize(
    "back",
    [
        LONG.encode(),
        LONG[:68].encode() + b"\r\r\n" + LONG[68:].encode(),  # busybox
        LONG[:68].encode() + b" \r" + LONG[68:].encode(),  # bash
        LONG[:68].encode() + b"\r# $" + LONG[30:].encode(),  # IOS
        LONG[:68].encode()
        + b"\r# <"
        + LONG[30:72].encode()
        + b"\x1b[K"
        + LONG[72:].encode(),  # bash, TERM=dumb
    ],
)
def test_a_line_longer_than_the_terminal_is_wide_comes_back_in_pieces(back: bytes) -> None:
    talk = Talk([step("# $", LONG), step("# $", "next"), step("# $", None)])
    assert talk.hear(b"# ", 0) == LONG.encode() + b"\r"
    for number in range(len(back)):
        assert talk.hear(back[number : number + 1], 1) == b"", "the line is still coming back"
    assert talk.hear(b"\r\n# ", 2) == b"next\r"
    assert talk.hear(b"next\r\n# ", 3) == b""
    assert talk.over


def test_escape_sequences_are_left_out_wherever_a_read_cuts_them() -> None:
    talk = Talk([step("# $", "a")])
    assert talk.hear(b"router# \x1b", 0) == b"a\r"
    talk = Talk([step("# $", "a")])
    assert talk.hear(b"rou\x1b[1;3", 0) == b""
    assert talk.hear(b"2mter# \x1b[6n", 1) == b"a\r"


def test_a_refusal_ends_the_talk_with_its_line() -> None:
    talk = Talk([step("# $", "frob"), Wanted(PROMPT, None, S, "after 'frob'")], re.compile("not found.*"))
    talk.hear(b"# ", 0)
    talk.hear(b"frob\r\nsh: frob: not found\r\n# ", 1)
    assert talk.refused == "sh: frob: not found"
    assert not talk.over


def test_a_password_is_not_waited_for_as_an_echo() -> None:
    talk = Talk([step("Password: $", "secret"), step("# $", None)])
    assert talk.hear(b"Password: ", 0) == b"secret\r"
    talk.hear(b"\r\n# ", 1)
    assert talk.over


def test_what_does_not_come_in_time_is_named() -> None:
    talk = Talk([step("login: $", "root")])
    talk.hear(b"", 0)
    assert talk.late(S - 1) is None
    late = talk.late(S)
    assert late is not None
    assert late.description == "login: $"
