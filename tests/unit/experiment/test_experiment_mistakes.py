"""Every mistake of a file is found at once, each with its place, what is wrong and the cure."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest

from virtlab.errors import ExperimentError
from virtlab.experiment import FileMistakesError, load, load_bytes, load_text

WRONG = sorted((Path(__file__).parents[2] / "golden" / "experiments" / "wrong").glob("*.yaml"))

RIGHT = """
version: 1
name: right
hosts: 2
topology: line
roles:
  probe: {workload: rtt, from: h1.g1, to: h2.g1}
"""


def mistakes_of(text: str) -> list[str]:
    with pytest.raises(FileMistakesError) as caught:
        load_text(text)
    return [str(mistake) for mistake in caught.value.mistakes]


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_a_wrong_file_has_exactly_its_known_mistakes(path: Path) -> None:
    with pytest.raises(FileMistakesError) as caught:
        load(path)
    assert [str(mistake) for mistake in caught.value.mistakes] == path.with_suffix(
        ".txt"
    ).read_text().splitlines()
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_every_mistake_says_where_what_and_the_cure(path: Path) -> None:
    with pytest.raises(FileMistakesError) as caught:
        load(path)
    lines = path.read_text().split("\n")
    for mistake in caught.value.mistakes:
        assert mistake.what
        assert mistake.cure
        assert 1 <= mistake.line <= len(lines)
        assert 1 <= mistake.column <= len(lines[mistake.line - 1]) + 1


def test_a_right_file_has_none() -> None:
    assert [dict(point.levels) for point in load_text(RIGHT).points()] == [{}]


def test_an_error_of_several_mistakes_survives_pickling() -> None:
    with pytest.raises(FileMistakesError) as caught:
        load(WRONG[0])
    assert pickle.loads(pickle.dumps(caught.value)).mistakes == caught.value.mistakes


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("hosts: 2", "hosts: 2\ntoplogy: 1"), "did you mean 'topology'?"),
        (("topology: line", "topology: line\nlink: {rate: 100 Mbit/s, raet: 1}"), "did you mean 'rate'?"),
        (("to: h2.g1", "to: h2.g1, intervall: 1 s"), "did you mean 'interval'?"),
        (("to: h2.g1", "to: h2.g1, workloda: x"), "did you mean 'workload'?"),
        (("to: h2.g1", "to: h2.gl"), "did you mean 'h2.g1'?"),
        (("topology: line", "topology: lien"), "did you mean 'line'?"),
        (("workload: rtt", "workload: rt"), "did you mean 'rtt'?"),
        (("topology: line", "topology: line\nlink: {queue: {kind: fq_code}}"), "did you mean 'fq_codel'?"),
    ],
)
def test_a_misspelt_word_is_met_with_the_nearest(change: tuple[str, str], expected: str) -> None:
    (mistake,) = mistakes_of(RIGHT.replace(*change))
    assert expected in mistake


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        ("{rate: 0 Mbit/s}", "carries nothing"),
        ("{rate: -1 Mbit/s}", "must be more than zero"),
        ("{rate: 401 Gbit/s}", "between '1 bit/s' and '400 Gbit/s'"),
        ("{rate: 0.5 bit/s}", "not a whole number"),
        ("{rate: 100}", "has no unit"),
        ("{rate: 1e99999 bit/s}", "beyond any quantity"),
        ("{rate: [1]}", "a list is not a quantity"),
        ("{queue: {kind: codel, limit: 10 kB}}", "number of packets"),
        ("{queue: {kind: tbf, limit: 10 kB, burst: 1 kB}}", "'rate' of tbf is missing"),
        ("{queue: {kind: fifo, limit: 0 packets}}", "less than what is possible"),
        ("{queue: 5}", "is not a queue"),
        ("{queue: {by: me}}", "not one of auto, kernel, virtlab"),
        ("{ends: [h1]}", "write exactly two"),
        ("{ends: [h1, h2]}", "write it in 'links'"),
        ("fast", "is not a mapping"),
    ],
)
def test_an_impossible_link_is_refused(link: str, expected: str) -> None:
    assert any(expected in mistake for mistake in mistakes_of(RIGHT + f"link: {link}\n"))


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("hosts: 0", "0 hosts are not possible"),
        ("hosts: [a, a]", "named twice"),
        ("hosts: {h1: {guests: 0}, h2: {}}", "0 guests on a host"),
        ("hosts: {h1: {guests: {}}, h2: {}}", "without guests"),
        ("hosts: {h1: {guests: many}, h2: {}}", "does not name guests"),
        ("hosts: {1h: {}, h2: {}}", "is not a valid name"),
        ("hosts: {h1: {guests: 2000}, h2: {}}", "exceed the 1024 ports"),
        ("hosts: {h1: {guests: 2, vswitch: none}, h2: {}}", "without a virtual switch"),
        ("hosts: {h1: {platform: native, guests: 2}, h2: {}}", "1 per host"),
        ("hosts: 3\ntopology: none", "a single cable connects two hosts"),
    ],
)
def test_impossible_hosts_are_refused(part: str, expected: str) -> None:
    text = (
        RIGHT.replace("hosts: 2", part)
        if "topology" not in part
        else RIGHT.replace("hosts: 2\ntopology: line", part)
    )
    assert any(expected in mistake for mistake in mistakes_of(text))


def test_a_loop_is_named_at_the_link_that_closes_it() -> None:
    text = RIGHT.replace(
        "topology: line",
        "switches: 2\nlinks: {a: {ends: [h1, s1]}, b: {ends: [s1, s2]}, c: {ends: [s2, s1]}, d: {ends: [s2, h2]}}",
    )
    (mistake,) = mistakes_of(text)
    assert "links.c.ends: c closes a loop" in mistake


def test_a_loop_through_a_bridge_of_a_host_is_one_too() -> None:
    text = RIGHT.replace(
        "topology: line",
        "switches: 1\nlinks: {a: {ends: [h1, s1]}, b: {ends: [h1, s1]}, c: {ends: [s1, h2]}}",
    )
    (mistake,) = mistakes_of(text)
    assert "links.b.ends: b closes a loop" in mistake


def test_a_loop_through_routers_is_none() -> None:
    ends = ["[h1, r1]", "[r1, r2]", "[r2, r3]", "[r3, r1]", "[r3, h2]"]
    links = ", ".join(f"l{number}: {{ends: {pair}}}" for number, pair in enumerate(ends))
    routers = f"routers: 3\nlinks: {{{links}}}"
    assert len(load_text(RIGHT.replace("topology: line", routers)).points()) == 1


def test_two_hosts_without_a_way_between_them_cannot_talk() -> None:
    (mistake,) = mistakes_of(RIGHT.replace("topology: line\n", ""))
    assert "there is no way from h1.g1 to h2.g1" in mistake


def test_guests_of_one_host_talk_without_a_topology() -> None:
    text = (
        RIGHT.replace("topology: line\n", "")
        .replace("hosts: 2", "hosts: 1\nhost: {guests: 2}")
        .replace("h2.g1", "h1.g2")
    )
    assert len(load_text(text).points()) == 1


def test_a_mistake_in_a_level_is_told_where_the_level_stands_and_where_it_is_used() -> None:
    text = RIGHT.replace("to: h2.g1", 'to: h2.g1, interval: "${pace}"') + "factors: {pace: [1 ms, 10]}\n"
    (mistake,) = mistakes_of(text)
    line = text.split("\n").index("factors: {pace: [1 ms, 10]}") + 1
    assert mistake.startswith(f"line {line}, column 24: roles.probe.interval (pace = 10): '10' has no unit")


def test_a_combination_that_cannot_be_is_found_before_anything_is_built() -> None:
    load_role = (
        "  load: {workload: burst_load, from: h1.g1, to: h2.g1, burst: '${load}', streams: '${streams}'}\n"
    )
    factors = "factors: {load: [1 kB, 80 kB], streams: [1, 2]}\n"
    (mistake,) = mistakes_of(RIGHT + load_role + factors)
    assert "load = 80 kB" in mistake
    assert "1 stream" in mistake
    exclude = "exclude: [{load: 80 kB, streams: 1}]\n"
    assert len(load_text(RIGHT + load_role + factors + exclude).points()) == 3


@pytest.mark.slow
def test_a_matrix_beyond_the_bound_is_refused_unless_it_is_meant() -> None:
    text = (
        RIGHT.replace("to: h2.g1", 'to: h2.g1, count: "${n}"')
        + "factors: {n: {from: 1, to: 4000, step: 1}}\n"
    )
    (mistake,) = mistakes_of(text)
    assert "4,000 design points make 12,000 runs" in mistake
    assert "--yes" in mistake
    assert len(load_text(text, runs_max=None).points()) == 4000


def test_a_file_that_is_no_text_is_refused() -> None:
    with pytest.raises(FileMistakesError, match="not valid UTF-8 text"):
        load_bytes(b"version: 1\nname: \xff\n")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="cannot be read"):
        load(tmp_path / "absent.yaml")


def test_aliases_cannot_grow_without_bound() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    (mistake,) = mistakes_of("\n".join(lines))
    assert "too many values" in mistake


def test_an_alias_that_contains_itself_is_refused() -> None:
    assert "contains itself" in mistakes_of("version: 1\nhosts: &a {h1: *a}\n")[0]


@pytest.mark.slow
def test_deep_nesting_is_refused() -> None:
    assert "nested too deeply" in mistakes_of("[" * 500 + "]" * 500)[0]


def test_no_cure_is_lost_in_the_text_of_the_error() -> None:
    with pytest.raises(FileMistakesError) as caught:
        load(WRONG[0])
    assert re.match(r".*\d+ mistakes?\n  line \d+", str(caught.value))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("topology: line", "topology: line\nswitches: {s2: {processing: 1 us}}"), "no design point has a switch 's2'"),
        (("topology: line", "topology: line\nlinks: {s1-s2: {rate: 1 Mbit/s}}"), "no design point has a link 's1-s2'"),
        (("topology: line", "switches: 2\nlinks: {a: {ends: [h1, s1]}, b: {ends: [s1, h2]}}"), "no cable leads to 's2'"),
        (("topology: line", "topology: {shape: none, switches: 2}"), "has no 2 switches"),
        (("topology: line", "topology: none\nhost: {joins: s1}"), "there is no switch to join"),
        (("topology: line", "topology: line\ncollect: {packets: [prob]}"), "did you mean 'probe'?"),
        (
            ("topology: line", "topology: line\ntiming: {}\ntimeline: [{id: a, do: run, role: probe}]"),
            "the timeline says when things happen",
        ),
        (("workload: rtt", "workload: rtt, enabled: false"), "every role is switched off"),
        (("from: h1.g1, to", "from: [h1.g1], to"), "is not a guest"),
        (("to: h2.g1", "to: h2.g1, as: load"), "cannot be a load"),
        (("to: h2.g1", "to: h2.g1, meter: iperf3"), "not one of virtlab, ping"),
        (("to: h2.g1", "to: h2.g1, family: ipv6"), "no ipv6 addresses"),
        (("  probe:", "  settle:"), "a word of the timeline"),
    ],
)  # fmt: skip
def test_nothing_that_a_file_says_is_ignored(change: tuple[str, str], expected: str) -> None:
    found = mistakes_of(RIGHT.replace(*change))
    assert any(expected in mistake for mistake in found), found


def test_a_guest_that_is_not_there_is_named_even_where_role_and_network_are_wrong_too() -> None:
    wrong = RIGHT.replace("topology: line", "topology: {shape: line, switchs: 2}")
    found = mistakes_of(wrong.replace("to: h2.g1", "to: h9.g1, sizes: 3"))
    for expected in ("there is no guest 'h9.g1'", "switchs", "sizes"):
        assert any(expected in mistake for mistake in found), found
