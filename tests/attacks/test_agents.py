"""Attacks by whoever speaks on a control stream: an agent in a guest, or on a host of somebody else's.

Each of them ends the run as failed and names the guest; what others say is heard on.
"""

from __future__ import annotations

import json
import resource
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from tools.fuzz import agents
from tools.fuzz.agents import BLOCK, CONTROL, DATA, LEADER, Said
from virtlab._native import encode_frame

from virtlab.agents import Breach, Conversation, Notice
from virtlab.agents.requests.every import Hello, ReadClock
from virtlab.agents.requests.leader import Exec, Observe
from virtlab.agents.requests.probe import Collect, Disarm, StopRole
from virtlab.errors import AgentError, GuestError, VirtlabError
from virtlab.testbed.leader.control import BreachError, Control, SilenceError
from virtlab.testbed.leader.speakers import UNHEARD_BYTES
from virtlab.testbed.platforms.qemu.monitor import Monitor

PROBE = LEADER + 1
TRANSACTION = ("flow", "started_ns", "finished_ns")
LIES: dict[str, Any] = {
    "number for text": {"build": 5},
    "no clocks": {"clocks": None},
    "an infinite time": {"raw_ns": 1e400},
    "a time beyond 64 bits": {"raw_ns": 10**30},
    "a negative time": {"t_ns": -1},
    "a text for an instant": {"t_ns": "now"},
    "rows that are none": {"rows": [1, 2]},
    "rows of numbers": {"rows": [[1, 2, 3]]},
    "counters that are a list": {"counters": [1]},
    "a counter beyond 64 bits": {"counters": {"stalls": 10**25}},
    "taints of numbers": {"taints": [1]},
    "a taint of no kind": {"taints": [{"text": "starved"}]},
    "networks that are a list": {"namespaces": []},
    "nobody's network": {"namespaces": {}},
    "a port that is none": {"port": 10**6},
    "a process that is a text": {"pid": "1"},
}


def said(body: dict[str, Any], channel: int = LEADER) -> bytes:
    return Said(channel, CONTROL, body).frame()


def instead_of(chosen: Callable[[Said], bool], *frames: bytes) -> tuple[agents.Spoil, list[int]]:
    """Spoils the first message that is chosen; its number is noted."""
    noted: list[int] = []

    def spoil(number: int, message: Said) -> bytes:
        if not noted and chosen(message):
            noted.append(number)
            return b"".join(frames)
        return message.frame()

    return spoil, noted


def is_samples(message: Said) -> bool:
    return message.kind == BLOCK and message.channel == PROBE


def failed(spoil: agents.Spoil) -> str:
    """How a trial failed among such agents; it must not end in anything but an outcome or an error of ours."""
    try:
        outcome, _, _ = agents.played(spoil)
    except VirtlabError as error:
        return str(error)
    assert outcome.status == "failed"
    return " / ".join(outcome.reasons)


@pytest.mark.slow
@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_a_lie_in_any_reply_fails_the_run_and_names_the_guest(lie: dict[str, Any]) -> None:
    (key,) = lie
    spoilt: list[int] = []

    def spoil(number: int, message: Said) -> bytes:
        ok = message.body.get("ok") if message.kind == CONTROL and message.channel >= LEADER else None
        if isinstance(ok, dict) and key in ok and not spoilt:
            spoilt.append(number)
            return Said(message.channel, CONTROL, {**message.body, "ok": {**ok, **lie}}).frame()
        return message.frame()

    assert "guests.a: " in failed(spoil)
    assert spoilt


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000,
        b'{"re": 1e400}',
        b'"\\ud800"',
        b"9" * 100_000,
        b'{"event": "exited"}',
        b'{"re": 1, "error": 5}',
    ],
)
def test_no_text_is_more_than_a_breach_of_its_own_channel(text: bytes) -> None:
    (breach,) = Conversation().feed(bytes(encode_frame(9, CONTROL, text)))
    assert isinstance(breach, Breach)
    assert breach.channel == 9


@pytest.mark.parametrize(
    "exited",
    [
        {"channel": 1, "channels": 10_000_000_000},
        {"channel": 1, "channels": 64},
        {"channel": 64},
        {"channel": 0},
        {"channel": -LEADER + 2},
    ],
)
def test_nobody_tells_that_others_ended(exited: dict[str, Any]) -> None:
    told = said({"event": "exited", "code": 0, "signal": None, "tail": "", **exited})
    began = time.monotonic()
    spoil, noted = instead_of(lambda message: message.channel == LEADER, told)
    assert failed(spoil).startswith("guests.a: its agent ended with a breach of the protocol")
    assert noted
    assert time.monotonic() - began < 5


def test_a_probe_tells_of_no_end_at_all() -> None:
    told = said({"event": "exited", "channel": 1, "code": 0}, 2)
    spoil, _ = instead_of(lambda message: message.channel == 2, told)
    reason = failed(spoil)
    assert reason.startswith("guests.b: ")
    assert "breach of the protocol: it reports that 1 channels from 1 on ended" in reason


def test_a_reply_comes_from_who_was_asked() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        control = Control(ours)
        control.begin(LEADER, 64)
        asked = control.send(ReadClock())
        theirs.sendall(said({"re": asked.number, "ok": {"raw_ns": 1, "realtime_ns": 1}}))
        theirs.sendall(said({"re": asked.number, "ok": {"raw_ns": 2, "realtime_ns": 2}}, 0))
        assert control.wait(asked)["raw_ns"] == 2
        assert "which it was not asked" in str(control.ended(LEADER))
        assert control.ended(0) is None
        control.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("block", "what"),
    [
        (agents.echoes("other"), "which were not requested"),
        (agents.echoes("series"), "which were not requested"),
        (agents.block("probe", "transaction/1", 0, dict.fromkeys(TRANSACTION, ("i64", [1]))), "i64"),
        (agents.block("probe", "interval/1", 0, agents.INTERVAL), "which has none"),
        (agents.block("probe", "counter/1", 0, {}), "lacks the columns"),
        (agents.block("probe", "rtt/9", 0, {}), "unknown schema"),
        (b"\xff" * 40, "cannot be read"),
    ],
    ids=range(7),  # what is sent holds the time, and a test has the same name in every process
)  # fmt: skip
def test_a_block_is_of_the_role_that_was_asked_for(block: bytes, what: str) -> None:
    spoil, noted = instead_of(is_samples, Said(PROBE, BLOCK, block).frame())
    reason = failed(spoil)
    assert reason.startswith("guests.a: ")
    assert what in reason
    assert noted


@pytest.mark.slow
def test_a_series_gives_no_leave_to_send_other_samples_under_its_name() -> None:
    blocks = (agents.series(), agents.echoes("series", number=1))
    spoil, noted = instead_of(is_samples, *(Said(PROBE, BLOCK, block).frame() for block in blocks))
    reason = failed(spoil)
    assert reason.startswith("guests.a: ")
    assert "samples of 'series', which were not requested" in reason
    assert noted


def test_samples_of_one_end_do_not_come_from_another() -> None:
    foreign = Said(2, BLOCK, agents.echoes()).frame()

    def spoil(number: int, message: Said) -> bytes:
        del number
        return (foreign if message.channel == 2 else b"") + message.frame()

    assert failed(spoil).startswith("guests.b: ")


@pytest.mark.slow
def test_values_that_no_clock_can_show_are_no_samples() -> None:
    columns = {
        name: ("i32" if name == "flow" else "i64", [2**30 if name == "flow" else 2**62])
        for name in ("seq", "flow", "intended_ns", "sent_ns", "received_ns", "rtt_ns", "path_rtt_ns")
    }
    frame = Said(PROBE, BLOCK, agents.block("probe", "rtt/1", 0, columns)).frame()
    spoil, _ = instead_of(is_samples, frame)
    assert "beyond any measure" in failed(spoil)


@pytest.mark.slow
def test_rows_that_came_are_compared_with_those_that_were_sent() -> None:
    twice = b"".join(Said(PROBE, BLOCK, agents.echoes(number=number)).frame() for number in (0, 1))
    spoil, _ = instead_of(is_samples, twice)
    assert "it sent 10 rows of rtt/1, and says 5" in failed(spoil)


@pytest.mark.slow
@pytest.mark.parametrize(
    "frame",
    [
        Said(PROBE, DATA, bytes([1]) + bytes(1 << 20 >> 1)).frame(),
        said({"event": "progress", "words": ["x"] * 10_000}, PROBE),
        said({"event": "x"}, PROBE) * 100,
    ],
    ids=["output", "long events", "short events"],
)
def test_who_says_more_than_anybody_hears_takes_no_memory_without_bound(frame: bytes) -> None:
    ours, theirs = socket.socketpair()
    control = Control(ours)
    control.begin(LEADER, 64)
    asked = control.send(ReadClock())
    stop = threading.Event()

    def flood() -> None:
        with theirs:
            while not stop.is_set():
                try:
                    theirs.sendall(frame * max(1, (1 << 20) // len(frame)))
                except OSError:
                    return

    flooding = threading.Thread(target=flood, daemon=True)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    flooding.start()
    try:
        end = time.monotonic() + 30
        while control.ended(PROBE) is None and time.monotonic() < end:
            control.pump(0.1)
        assert "more than anybody hears" in str(control.ended(PROBE))
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < (4 * UNHEARD_BYTES) >> 10
        assert control.ended(0) is None
        assert not control.answered(asked)
    finally:
        stop.set()
        control.close()
        flooding.join(10)


@pytest.mark.slow
def test_noise_in_place_of_frames_ends_a_stream() -> None:
    false = b"VLAB" + (1 << 20).to_bytes(4, "little") + bytes(8)
    for noise in (b"welcome " * 16, false):
        conversation = Conversation()
        began, found = time.process_time(), []
        for _ in range(500):
            found += conversation.feed(noise * (65_536 // len(noise)))
            if found:
                break
        assert isinstance(found[0], Breach)
        assert time.process_time() - began < 2


def far(channels: int = 64) -> tuple[Control, socket.socket, socket.socket]:
    """A control plane with a host that has a stream of its own; the far ends of both streams."""
    ours, theirs = socket.socketpair()
    near, host = socket.socketpair()
    control = Control(ours)
    control.attach(near, 57_100, channels, lambda: "its connection ended")
    return control, theirs, host


def test_a_host_has_no_channels_of_the_next_one() -> None:
    control, theirs, host = far()
    with theirs, host:
        asked = control.send(ReadClock(), channel=57_164)  # of the next host
        host.sendall(said({"re": asked.number, "ok": {"raw_ns": 1, "realtime_ns": 1}}, 64))
        control.pump(1.0)
        assert not control.answered(asked)
        assert "it speaks on channel 64, and has 64" in str(control.ended(57_100))
        assert control.ended(57_164) is None
        control.close()


def test_a_host_that_reads_nothing_is_lost_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("virtlab.testbed.leader.control.CALL_TIMEOUT_S", 0.3)
    monkeypatch.setattr("virtlab.testbed.leader.control.BEAT_S", 0.1)
    control, theirs, host = far()
    with theirs, host:
        began = time.monotonic()
        control.tell(Exec(57_101, "x", ["x" * (1 << 19)]), channel=57_100)
        control.tell(Exec(57_101, "x", ["x" * (1 << 19)]), channel=57_100)
        assert time.monotonic() - began < 5
        assert "nothing read" in str(control.ended(57_100))
        control.close()


@pytest.mark.slow
def test_the_monitor_of_a_machine_that_floods_takes_no_memory_without_bound() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        control = Control(ours)
        control.begin(PROBE, 1, leads=False)
        monitor = Monitor(control, PROBE, "guests.v", lambda: "")
        event = b'{"event": "RTC_CHANGE", "data": {"offset": 1}}\r\n' * 1000
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in range(4000):
            theirs.sendall(encode_frame(PROBE, DATA, b"\x01" + event))
            control.pump()
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10
        with pytest.raises(GuestError, match="its monitor sent over 4 MiB unasked"):
            monitor.connect()
        monitor.close()
        control.close()


@pytest.mark.parametrize(
    "greeting",
    [
        b"[1]",
        b'{"QMP": 5}\r\n5',
        b'{"return": 1, "id": []}',
        b'"x"',
        b'{"event": 5}',
        b"\xff\xfe",
        b"9" * 5000,
    ],
    ids=["list", "two-lines", "unasked-answer", "text", "event", "no-utf-8", "long-number"],
)
def test_a_monitor_that_speaks_nonsense_as_its_leader_ends_is_one_error(
    greeting: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """What an event loop catches in a callback it logs with its traceback."""
    ours, theirs = socket.socketpair()
    with theirs:
        control = Control(ours)
        control.begin(PROBE, 1, leads=False)
        monitor = Monitor(control, PROBE, "guests.v", lambda: "")
        theirs.sendall(encode_frame(PROBE, DATA, b"\x01" + greeting + b"\r\n"))
        theirs.shutdown(socket.SHUT_WR)
        with pytest.raises(GuestError, match=r"guests\.v: its monitor"):
            monitor.connect()
        monitor.close()
        control.close()
    assert not [record.getMessage() for record in caplog.records if record.name == "asyncio"]


def test_who_was_silent_once_is_not_asked_again() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        control = Control(ours)
        control.begin(LEADER, 64)
        with pytest.raises(SilenceError, match=r"within 0\.2 s"):
            control.call(StopRole(role="probe"), channel=PROBE, timeout_s=0.2)
        theirs.recv(1 << 16)
        began = time.monotonic()
        for request in (StopRole("probe"), Collect("probe"), Disarm("probe")):
            with pytest.raises(SilenceError):
                control.call(request, channel=PROBE)
        assert time.monotonic() - began < 1
        with pytest.raises(BlockingIOError):
            theirs.recv(1, socket.MSG_DONTWAIT)
        control.begin(PROBE, 1, leads=False)  # another begins there
        control.send(Hello(), channel=PROBE)
        assert b"hello" in theirs.recv(1 << 16)
        control.close()


def test_who_broke_the_protocol_is_heard_no_more_and_others_are() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        control = Control(ours)
        control.begin(LEADER, 64)
        theirs.sendall(said({"event": "cut", "channel": 0}) + said({"log": "info", "text": "late"}))
        theirs.sendall(said({"log": "info", "text": "heard"}, 0))
        control.pump(1.0)
        heard = list(control.messages(0.0))
        assert [message.name for message in heard if isinstance(message, Notice)] == ["exited"]
        assert [getattr(message, "text", None) for message in heard] == [None, "heard"]
        with pytest.raises(AgentError, match="breach of the protocol"):
            control.call(ReadClock(), channel=PROBE)
        control.close()


def test_the_words_of_a_refusal_are_one_line() -> None:
    refusal = {"what": "no\nvirtlab: all is well", "index": -3, "kernel": {}, "cure": 5}
    (reply,) = Conversation().feed(said({"re": 1, "error": refusal}))
    assert reply.error == {"what": "no | virtlab: all is well"}  # type: ignore[union-attr]


def test_an_error_that_nobody_foresaw_is_a_breach_only_where_an_agent_spoke() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        control = Control(ours)
        asked = control.send(Observe(namespaces=["x"]))
        theirs.sendall(
            said({"re": asked.number, "ok": json.loads('{"namespaces": {"x": {"links": []}}}')}, 0)
        )
        with pytest.raises(BreachError, match="its answer to 'observe' has another shape"):
            control.wait(asked)
        control.close()
