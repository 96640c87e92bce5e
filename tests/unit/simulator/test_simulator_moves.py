"""Guests that move in the simulator: by the model of their rounds, over links that others use, and found where they
went.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import virtlab as vl
from virtlab.cli.main import app
from virtlab.errors import ExperimentError
from virtlab.experiment import load_text
from virtlab.metrics import MetricPath
from virtlab.plan import Columns, Event, Outcome, Plan, Trial
from virtlab.planner import plan_run
from virtlab.prediction.bound import bounds_of
from virtlab.prediction.migration import Moved, Policy, courses
from virtlab.prediction.migration.enough import enough
from virtlab.prediction.questions.explain import explain
from virtlab.simulator import Simulator
from virtlab.simulator.profile import IDEAL_PROFILE, Parameter, Profile

S = 1_000_000_000
MEGABYTE = 10**6
FILE = """\
version: 1
name: move
title: A guest moves
hosts:
  h1: {platform: qemu, memory: 256 MB}
  h2: {}
  h3: {}
topology: star
link: {rate: RATE}
network: {arp: ARP}
roles:
  probe: {workload: rtt, from: h3.g1, to: h1.g1, size: 100 B ip_packet, interval: 5 ms, count: 100000, timeout: 100 ms}
MORE
timeline:
  - {id: load, do: start, role: probe}
  - {id: go, do: migrate, guest: h1.g1, to: h2, MOVE, after: load.started + 1 s}
  - {id: settle, do: wait, for: 1 s, after: {any: [go.finished, go.cancelled]}}
  - {id: end, do: stop, role: probe, after: settle.done}
windows: {measured: {from: load.started, to: end.done}}
"""


class Kept:
    """A sink in memory."""

    def __init__(self) -> None:
        self.blocks: list[tuple[str, str, Columns]] = []
        self.events: list[Event] = []

    def block(self, stream: str, schema: str, columns: Columns) -> None:
        self.blocks.append((stream, schema, columns))

    def event(self, event: Event) -> None:
        self.events.append(event)

    def artefact(self, name: str, chunks: Iterable[bytes]) -> None:
        del name, chunks

    def column(self, stream: str, name: str) -> Any:
        found = [columns[name] for own, _, columns in self.blocks if own == stream and name in columns]
        return np.concatenate(found)

    def moved(self, metric: str) -> list[float]:
        pairs = zip(self.column("migration", "metric"), self.column("migration", "value"), strict=True)
        return [float(value) for name, value in pairs if name == metric]

    def at(self, what: str) -> int:
        return next(event.t_ns for event in self.events if event.what == what)


class Still:
    def progress(self, what: str, done_ratio: float | None = None) -> None:
        del what, done_ratio

    def cancelled(self) -> bool:
        return False


def planned(
    move: str,
    *,
    rate: str = "100 Mbit/s",
    arp: str = "live",
    more: str = "",
    swap: Mapping[str, str] | None = None,
) -> Plan:
    experiment = load_text(written(move, rate=rate, arp=arp, more=more, swap=swap))
    return plan_run(experiment, experiment.points()[0], 0)


def written(
    move: str,
    *,
    rate: str = "100 Mbit/s",
    arp: str = "live",
    more: str = "",
    swap: Mapping[str, str] | None = None,
) -> str:
    """The file."""
    text = FILE
    for word, value in {**(swap or {}), "MOVE": move, "RATE": rate, "ARP": arp, "MORE": more}.items():
        text = text.replace(word, value)
    return text


def played(plan: Plan, profile: Profile = IDEAL_PROFILE) -> tuple[Outcome, Kept]:
    backend = Simulator(profile)
    assert backend.check(plan) == []
    sink = Kept()
    with backend.open(plan, Still()) as session:
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status == "ok", outcome.reasons
    return outcome, sink


def answered(sink: Kept) -> Any:
    return np.sort(sink.column("probe", "sent_ns")[-1:]), np.sort(
        np.concatenate([c["sent_ns"] + c["rtt_ns"] for s, k, c in sink.blocks if k == "rtt/1"])
    )


PACE = "bandwidth: 30 MB/s, downtime_limit: 100 ms, timeout: 60 s"


@pytest.mark.slow
@pytest.mark.parametrize("arp", ["live", "static"])
def test_a_guest_is_silent_while_it_is_paused_and_is_found_at_the_other_host(arp: str) -> None:
    outcome, sink = played(planned(PACE, arp=arp))
    assert {"go.started", "go.finished", "go.done"} <= set(outcome.marks)
    paused, resumed = sink.at("go.paused"), sink.at("go.resumed")
    assert resumed == outcome.marks["go.finished"].t_ns
    one = courses([Moved(256 * MEGABYTE)], 30e6, Policy(rule="qemu", downtime_limit_s=0.1))[0]
    assert sink.moved("pause") == [pytest.approx(one.pause_s * S, abs=2)]
    assert sink.moved("migration_time") == [pytest.approx(one.total_s * S, abs=2)]
    assert sink.moved("migration_sent") == [pytest.approx(256e6, rel=1e-9)]
    assert sink.moved("migration_rounds") == [len(one.rounds) + 2]
    assert resumed - paused == sink.moved("pause")[0]
    remaining = sink.moved("migration_remaining")
    assert remaining == sorted(remaining, reverse=True)
    assert len(remaining) == pytest.approx(one.total_s / 0.05, abs=1)
    _, arrived = answered(sink)
    assert not ((arrived > paused) & (arrived < resumed)).any()
    assert (arrived > resumed).sum() > 150, "clients find it at the other host"
    gap = np.diff(arrived).max()
    assert resumed - paused <= gap <= resumed - paused + 10 * 10**6


@pytest.mark.slow
def test_the_time_of_reconvergence_is_part_of_the_blackout_and_not_of_the_pause() -> None:
    profile = Profile("own", parameters={
        "platform.qemu.send_ns": Parameter(0.0), "platform.namespace.send_ns": Parameter(0.0),
        "vswitch.linux_bridge.packet_ns": Parameter(0.0), "links.departure_ns": Parameter(0.0),
        "migration.reconvergence_ns": Parameter(50e6), "migration.device_ns": Parameter(20e6),
        "migration.setup_ns": Parameter(30e6),
    })  # fmt: skip
    _, plain = played(planned(PACE))
    _, sink = played(planned(PACE), profile)
    pause = sink.moved("pause")[0]
    assert pause == pytest.approx(plain.moved("pause")[0] + 20e6, abs=2)
    assert sink.moved("migration_time")[0] == pytest.approx(plain.moved("migration_time")[0] + 50e6, abs=2)
    _, arrived = answered(sink)
    assert pause + 50e6 <= np.diff(arrived).max() <= pause + 60e6


@pytest.mark.parametrize(
    ("mode", "pause_s", "total_s"), [("hot", 6.4, 6.4), ("post_copy", 0.0, 6.4), ("cold", 3.0, 3.0)]
)
def test_each_mode_pauses_as_its_model_says(mode: str, pause_s: float, total_s: float) -> None:
    _, sink = played(planned(f"mode: {mode}, bandwidth: 40 MB/s, timeout: 60 s"))
    assert sink.moved("pause") == [pytest.approx(pause_s * S, abs=2)]
    assert sink.moved("migration_time") == [pytest.approx(total_s * S, abs=2)]
    _, arrived = answered(sink)
    assert (arrived > sink.at("go.resumed")).sum() > 150


@pytest.mark.slow
def test_a_move_that_takes_too_long_is_cancelled_and_the_guest_stays() -> None:
    outcome, sink = played(planned("bandwidth: 1 MB/s, timeout: 2 s, on_timeout: cancel"))
    assert {"go.started", "go.cancelled"} <= set(outcome.marks)
    assert "go.finished" not in outcome.marks
    _, arrived = answered(sink)
    assert np.diff(arrived).max() < 10 * 10**6, "nobody noticed"
    assert (arrived > outcome.marks["go.cancelled"].t_ns).sum() > 150


@pytest.mark.slow
def test_over_the_network_it_takes_what_a_link_carries_of_tcp() -> None:
    _, sink = played(planned("over: network, bandwidth: 1 GB/s, timeout: 60 s"))
    rate = 100e6 / 8 * 1448 / 1538
    assert sink.moved("migration_time")[0] / S == pytest.approx(256e6 / rate, rel=0.01)


OTHER = "  other: {workload: tcp_stream, from: h3.g1, to: h2.g1, duration: 30 s}"
COPY = "  copy: {workload: tcp_stream, from: h1.g1, to: h2.g1, duration: 30 s}"


def goodput(sink: Kept, role: str, begin_ns: int, end_ns: int) -> float:
    """Bytes a second that came to a stream's receiver."""
    ends, come = sink.column(role, "end_ns"), sink.column(role, "received_bytes")
    inside = (ends > begin_ns) & (ends <= end_ns)
    return float(come[inside].sum()) / (end_ns - begin_ns) * S


FAIR = {"link: {rate: RATE}": "link: {rate: RATE, queue: {kind: fq_codel}}"}


@pytest.mark.slow
@pytest.mark.parametrize("beside", [False, True])
def test_a_copy_and_a_stream_of_tcp_have_the_same_share_within_5_percent(beside: bool) -> None:
    """The same copy as packets of TCP and as a fluid, alone and beside another stream on one of the links, whose queue
    is fair: in a FIFO the shares of two streams depend on their phases (S. Floyd, V. Jacobson, Internetworking 3,
    1992).
    """
    other = OTHER if beside else ""
    begin = "  - {id: load, do: start, role: probe}"
    both = begin + ("\n  - {id: others, do: start, role: other, after: load.started}" if beside else "")
    _, fluid = played(
        planned("over: network, bandwidth: 1 GB/s, timeout: 60 s", more=other, swap={begin: both, **FAIR})
    )
    copied = f"{both}\n  - {{id: copy, do: start, role: copy, after: load.started}}"
    copied += "\n  - {id: long, do: wait, for: 28 s, after: load.started}"
    moved = "  - {id: go, do: migrate, guest: h1.g1, to: h2, MOVE, after: load.started + 1 s}\n"
    waits = {"{any: [go.finished, go.cancelled]}": "long.done"}
    _, packets = played(
        planned("", more=f"{other}\n{COPY}", swap={moved: "", begin: copied, **waits, **FAIR})
    )
    at, left = fluid.column("migration", "t_ns"), fluid.column("migration", "value")
    names = fluid.column("migration", "metric")
    inside = (names == "migration_remaining") & (at > 3 * S) & (at < 20 * S)
    as_fluid = -np.diff(left[inside][[0, -1]])[0] / np.diff(at[inside][[0, -1]])[0] * S
    as_packets = goodput(packets, "copy", 3 * S, 20 * S)
    assert as_fluid == pytest.approx(as_packets, rel=0.05)
    if beside:
        found = goodput(fluid, "other", 3 * S, 20 * S)
        assert found == pytest.approx(goodput(packets, "other", 3 * S, 20 * S), rel=0.05)


@pytest.mark.slow
def test_packets_beside_a_copy_find_half_of_the_link() -> None:
    _, sink = played(planned("over: network, bandwidth: 1 GB/s, downtime_limit: 100 ms, timeout: 60 s"))
    begun, paused = sink.at("go.started"), sink.at("go.paused")
    sent = np.concatenate([c["sent_ns"] for _, k, c in sink.blocks if k == "rtt/1"])
    rtt = np.concatenate([c["rtt_ns"] for _, k, c in sink.blocks if k == "rtt/1"])
    before = rtt[sent < begun - 10**7]
    during = rtt[(sent > begun + 10**7) & (sent < paused - 10**8)]
    # 138 octets over four lines; of these one, towards the guest's clients, is the copy's too.
    line_ns = 138 * 8 * 10
    assert np.median(before) == pytest.approx(4 * line_ns, rel=0.1)
    assert np.median(during) - np.median(before) == pytest.approx(line_ns, rel=0.15)


@pytest.mark.slow
def test_fourteen_gigabytes_over_a_gigabit_take_no_time_to_play() -> None:
    plan = planned(
        "over: network, timeout: 200 s",
        rate="1 Gbit/s",
        swap={"256 MB": "14 GB", "interval: 5 ms": "interval: 100 ms"},
    )
    begun = time.process_time()
    _, sink = played(plan)
    assert time.process_time() - begun < 2.0
    assert sink.moved("migration_time")[0] / S == pytest.approx(14e9 / (125e6 * 1448 / 1538), rel=0.01)


@pytest.mark.slow
def test_a_server_that_moves_answers_what_it_had_begun_after_its_pause() -> None:
    more = (
        "  ask: {workload: request_response, from: h3.g1, to: h1.g1, duration: 60 s, rate: 200 request/s, demand: 8 ms, "
        "threads: 4, connections: 4, timeout: 5 s}"
    )
    plan = planned(
        f"{PACE}", more=more,
        swap={
            "  - {id: load, do: start, role: probe}":
                "  - {id: load, do: start, role: probe}\n  - {id: asking, do: start, role: ask}",
            "  - {id: end, do: stop, role: probe, after: settle.done}":
                "  - {id: end, do: stop, role: probe, after: settle.done}\n"
                "  - {id: asked, do: stop, role: ask, after: settle.done}",
            "memory: 256 MB": "memory: 256 MB, vcpus: 4",
        },
    )  # fmt: skip
    _, sink = played(plan)
    paused, resumed = sink.at("go.paused"), sink.at("go.resumed")
    kept = [columns for _, schema, columns in sink.blocks if schema == "response/1"]
    sent, finished, error = (
        np.concatenate([columns[name] for columns in kept]) for name in ("sent_ns", "finished_ns", "error")
    )
    ended = error > 0
    assert (sent[ended] > sent.max() - 20 * 10**6).all(), (
        "TCP sends again what was lost; the last were under way"
    )
    sent, finished = sent[~ended], finished[~ended]
    assert not ((finished > paused) & (finished < resumed)).any()
    under_way = (sent < paused) & (finished > resumed)
    assert under_way.sum() >= 1
    times = finished - sent
    assert times[under_way].min() >= resumed - paused + 8 * 10**6, "no work is done in the pause"
    assert (sent > resumed).sum() > 150
    assert np.median(times[sent > resumed + S // 2]) == pytest.approx(
        np.median(times[sent < paused]), rel=0.01
    )


WRITES = "  writes: {workload: dirty, from: h1.g1, rate: 8 MB/s, working_set: 96 MiB}"
FASTER = WRITES.replace("8 MB/s", "40 MB/s")
WRITING = {
    "  - {id: load, do: start, role: probe}": "  - {id: load, do: start, role: probe}\n"
    "  - {id: writing, do: start, role: writes}",
    "  - {id: end, do: stop, role: probe, after: settle.done}": "  - {id: end, do: stop, role: probe, after: settle.done}\n"
    "  - {id: written, do: stop, role: writes, after: settle.done}",
}


@pytest.mark.slow
def test_what_a_guest_writes_is_copied_again_as_the_model_says() -> None:
    outcome, sink = played(planned(PACE, more=WRITES, swap=WRITING))
    moved = Moved(256 * MEGABYTE, dirty_byte_per_s=8e6, working_set_bytes=96 << 20)
    one = courses([moved], 30e6, Policy(rule="qemu", downtime_limit_s=0.1))[0]
    assert len(one.rounds) >= 2
    assert sink.moved("pause") == [pytest.approx(one.pause_s * S, abs=10)]
    assert sink.moved("migration_time") == [pytest.approx(one.total_s * S, abs=10)]
    assert sink.moved("migration_rounds") == [len(one.rounds) + 2]
    assert max(sink.moved("dirty_rate")) == pytest.approx(8e6, rel=1e-6)
    # A row per round, and the rest of the copy in the pause.
    wrote = [min(8e6 * one_round.seconds, 96 << 20) for one_round in one.rounds]
    assert sink.moved("migration_dirtied") == pytest.approx(wrote, rel=1e-6)
    (paused_bytes,) = sink.moved("migration_sent_paused")
    assert paused_bytes == pytest.approx(one.rounds[-1].remaining_bytes, rel=1e-6)
    rows = next(columns for _, schema, columns in sink.blocks if schema == "memory/1")
    begun, ended = outcome.marks["writing.started"].t_ns, outcome.marks["written.done"].t_ns
    ran = ended - begun - sink.moved("pause")[0]
    assert rows["written_pages"].sum() * 4096 == pytest.approx(8e6 * ran / S, abs=4096)
    paused, resumed = sink.at("go.paused"), sink.at("go.resumed")
    assert not ((rows["end_ns"] > paused) & (rows["begin_ns"] < resumed)).any(), "it stood still"


@pytest.mark.slow
def test_more_than_the_bandwidth_is_never_copied_and_the_time_out_ends_it() -> None:
    outcome, sink = played(
        planned("bandwidth: 30 MB/s, timeout: 20 s, on_timeout: cancel", more=FASTER, swap=WRITING)
    )
    assert outcome.marks["go.cancelled"].t_ns - outcome.marks["go.started"].t_ns == 20 * S
    assert min(sink.moved("migration_remaining")) > 30e6 * 0.2, "a window less than its limit at least"


def test_no_bound_is_stated_while_a_guest_moves() -> None:
    bound = bounds_of(planned(PACE, arp="static"), IDEAL_PROFILE)["probe"]
    assert isinstance(bound, str)
    assert "h1.g1 moves meanwhile" in bound


@pytest.mark.slow
def test_a_guest_whose_writers_have_stopped_arrives() -> None:
    stopped = {
        **WRITING,
        "  - {id: settle,": "  - {id: written, do: stop, role: writes, after: go.started + 2 s}\n  - {id: settle,",
    }
    last = next(key for key in WRITING if "id: end" in key)
    stopped[last] = last
    outcome, sink = played(planned("bandwidth: 30 MB/s, timeout: 40 s", more=FASTER, swap=stopped))
    assert "go.finished" in outcome.marks
    rows = next(columns for stream, kind, columns in sink.blocks if kind == "memory/1" and stream == "writes")
    assert rows["end_ns"].max() < outcome.marks["go.started"].t_ns + 3 * S
    assert sink.moved("migration_time")[0] < 15 * S


@pytest.mark.slow
def test_predict_says_what_would_be_enough() -> None:
    plan = planned("bandwidth: 30 MB/s, timeout: 20 s", more=FASTER, swap=WRITING)
    (one,) = enough(plan, IDEAL_PROFILE)
    assert one.course.end == "never"
    found = one.least
    assert found is not None
    assert found.bandwidth_byte_per_s is not None
    moved = Moved(256 * MEGABYTE, dirty_byte_per_s=40e6, working_set_bytes=96 << 20)
    policy = Policy(rule="qemu")
    assert courses([moved], found.bandwidth_byte_per_s, policy)[0].end == "converged"
    assert courses([moved], 0.9 * found.bandwidth_byte_per_s, policy)[0].end == "never"
    assert "it never arrives; enough to arrive: a bandwidth of" in one.line()
    assert "a downtime limit of" in one.line()
    assert "a throttle of" in one.line()
    assert (
        enough(
            planned(
                "",
                swap={
                    "  - {id: go, do: migrate, guest: h1.g1, to: h2, MOVE, after: load.started + 1 s}": "",
                    "after: {any: [go.finished, go.cancelled]}": "after: load.started",
                },
            ),
            IDEAL_PROFILE,
        )
        == []
    )


@pytest.mark.parametrize("mode", ["hot", "cold", "post_copy"])
def test_a_mode_without_rounds_arrives_at_any_bandwidth(mode: str) -> None:
    (one,) = enough(planned(f"timeout: 20 s, mode: {mode}"), IDEAL_PROFILE)
    assert one.least is None
    assert one.line().endswith("it arrives at any bandwidth")


@pytest.mark.slow
def test_moves_are_predicted_beside_metrics(tmp_path: Path) -> None:
    text = FILE
    for word, value in {"MOVE": PACE, "RATE": "1 Gbit/s", "ARP": "static", "MORE": ""}.items():
        text = text.replace(word, value)
    (tmp_path / "move.yaml").write_text(text)
    table = vl.predict(tmp_path / "move.yaml", metric="probe.rtt.mean", repetitions=2)
    assert [row[table.columns.index("metric")] for row in table.rows()] == ["probe.rtt.mean"]
    asked = ["predict", str(tmp_path / "move.yaml"), "--metric", "probe.rtt.mean", "--json"]
    answer = json.loads(CliRunner().invoke(app, asked).stdout)
    assert [one["metric"] for one in answer["predictions"]] == ["probe.rtt.mean"]
    assert [(one["guest"], one["enough"]["downtime_limit_ns"]) for one in answer["moves"]] == [("h1.g1", 0)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "beside_ms"), [("guests.h1.g1.pause.mean", 20), ("probe.blackout.max", 20 + 50)]
)
def test_a_pause_is_explained_by_memory_by_what_is_written_and_by_fixed_times(
    path: str, beside_ms: int
) -> None:
    text = written(PACE, more=WRITES, swap=WRITING)
    free = (
        "platform.qemu.send_ns",
        "platform.namespace.send_ns",
        "vswitch.linux_bridge.packet_ns",
        "links.departure_ns",
    )
    beside = {"migration.device_ns": Parameter(20e6), "migration.reconvergence_ns": Parameter(50e6)}
    profile = Profile("own", parameters={**dict.fromkeys(free, Parameter(0.0)), **beside})
    terms, total = explain(load_text(text), profile, MetricPath.parse(path), 0, repetitions=2)
    found = {term.name: term.estimate.point for term in terms}
    names = ["copy of memory that is not written", "writes during the copy", "moves: times beside memory"]
    assert list(found)[:3] == names
    policy = Policy(rule="qemu", downtime_limit_s=0.1)
    unwritten = courses([Moved(256 * MEGABYTE)], 30e6, policy)[0]
    writes = Moved(256 * MEGABYTE, dirty_byte_per_s=8e6, working_set_bytes=96 << 20)
    both = courses([writes], 30e6, policy)[0]
    within = 11e6  # a request every 5 ms, at both ends of both worlds
    assert found[names[0]] == pytest.approx(unwritten.pause_s * S, abs=within)
    assert found[names[1]] == pytest.approx((both.pause_s - unwritten.pause_s) * S, abs=within)
    assert found[names[2]] == pytest.approx(beside_ms * 1e6, abs=within)
    assert sum(found.values()) == pytest.approx(total.point)


def test_a_metric_of_no_role_is_not_explained() -> None:
    with pytest.raises(ExperimentError, match="of no role and of no guest that moves"):
        explain(
            load_text(written(PACE)), IDEAL_PROFILE, MetricPath.parse("hosts.h1.cpu.mean"), 0, repetitions=2
        )


@pytest.mark.slow
def test_after_so_many_rounds_a_guest_pauses_whatever_is_left() -> None:
    limited = planned("bandwidth: 30 MB/s, rounds_limit: 3, timeout: 60 s", more=FASTER, swap=WRITING)
    _, sink = played(limited)
    moved = Moved(256 * MEGABYTE, dirty_byte_per_s=40e6, working_set_bytes=96 << 20)
    one = courses([moved], 30e6, Policy(rule="qemu", rounds_limit=3))[0]
    assert (one.end, len(one.rounds)) == ("forced", 3)
    assert sink.moved("migration_rounds") == [3 + 2]
    assert sink.moved("pause") == [pytest.approx(one.pause_s * S, abs=10)]
    assert one.pause_s > 1, "much more than the limit of 300 ms was left"


@pytest.mark.slow
def test_a_guest_that_writes_faster_than_it_is_copied_is_slowed_until_it_arrives() -> None:
    slowed = planned("bandwidth: 30 MB/s, auto_converge: true, timeout: 200 s", more=FASTER, swap=WRITING)
    outcome, sink = played(slowed)
    assert "go.finished" in outcome.marks
    throttle = sink.moved("migration_throttle")
    assert throttle == sorted(throttle)
    assert throttle[0] == 0.2
    assert np.diff(sorted(set(throttle))) == pytest.approx(0.1)
    moved = Moved(256 * MEGABYTE, dirty_byte_per_s=40e6, working_set_bytes=96 << 20)
    policy = Policy(rule="qemu", auto_converge=True)
    one = courses([moved], 30e6, policy)[0]
    assert sink.moved("pause") == [pytest.approx(one.pause_s * S, abs=10)]
    assert sink.moved("migration_time") == [pytest.approx(one.total_s * S, abs=100)]
    # As much as `predict` says is enough, or a step of 10 % more.
    enough_percent = enough(planned("bandwidth: 30 MB/s", more=FASTER, swap=WRITING), IDEAL_PROFILE)[0]
    assert enough_percent.least.throttle_percent is not None
    assert enough_percent.least.throttle_percent / 100 <= max(throttle) + 1e-9
    rows = next(columns for _, schema, columns in sink.blocks if schema == "memory/1")
    due = rows["written_pages"] + rows["missed_pages"]
    at_its_most = (rows["begin_ns"] > sink.at("go.paused") - S) & (rows["end_ns"] < sink.at("go.paused"))
    share = rows["written_pages"][at_its_most].sum() / due[at_its_most].sum()
    assert share == pytest.approx(1 - max(throttle), abs=0.01)
    after = rows["begin_ns"] > sink.at("go.resumed")
    assert rows["missed_pages"][after].sum() == 0, "at its destination it is slowed no longer"


@pytest.mark.slow
def test_each_connection_of_a_copy_has_a_share_beside_a_stream_of_tcp() -> None:
    begin = "  - {id: load, do: start, role: probe}"
    both = begin + "\n  - {id: others, do: start, role: other, after: load.started}"
    told = {}
    for connections in (None, 4):
        more = f", connections: {connections}" if connections else ""
        move = f"over: network, bandwidth: 1 GB/s, timeout: 60 s{more}"
        _, sink = played(planned(move, more=OTHER, swap={begin: both, **FAIR}))
        told[connections] = goodput(sink, "other", 3 * S, 12 * S)
    line = 100e6 / 8 * 1448 / 1538
    assert told[None] == pytest.approx(line / 2, rel=0.05)
    assert told[4] == pytest.approx(line / 5, rel=0.05)
    _, alone = played(planned("over: network, bandwidth: 1 GB/s, timeout: 60 s, connections: 4"))
    assert alone.moved("migration_time")[0] / S == pytest.approx(256e6 / line, rel=0.01)
    _, limited = played(planned(f"{PACE}, connections: 4"))
    _, one = played(planned(PACE))
    assert limited.moved("migration_time") == one.moved("migration_time"), "the bandwidth is of all together"


ASKED = (
    "  ask: {workload: request_response, from: h3.g1, to: h1.g1, duration: 60 s, rate: 200 request/s, demand: 8 ms, "
    "threads: 4, connections: 4, timeout: 5 s}"
)


@pytest.mark.parametrize(
    ("move", "more", "path", "words"),
    [
        ("compression: zlib", "", "compression", "how much of it compresses"),
        ("auto_converge: true", ASKED, "auto_converge", "the model slows what a guest writes, and not 'ask'"),
        ("mode: hot, rounds_limit: 3", "", "rounds_limit", "'hot' has no rounds"),
        ("mode: hot, auto_converge: true", "", "auto_converge", "'hot' has no rounds"),
        ("mode: post_copy, connections: 4", "", "connections", "one by one"),
        ("connections: 99", "", "connections", "99 connections"),
        ("mode: post_copy, recover_after: 2 s, on_timeout: fail", "", "recover_after", "no copy breaks"),
    ],
)
def test_what_the_model_does_not_know_is_refused(move: str, more: str, path: str, words: str) -> None:
    swap = {}
    if more:
        begin = "  - {id: load, do: start, role: probe}"
        swap = {begin: f"{begin}\n  - {{id: asking, do: start, role: ask}}"}
    found = Simulator().check(planned(f"bandwidth: 30 MB/s, timeout: 60 s, {move}", more=more, swap=swap))
    assert [refusal.path for refusal in found] == [f"timeline.go.{path}"]
    assert words in found[0].reason
    assert found[0].cure


@pytest.mark.parametrize(
    ("move", "swap", "words"),
    [
        ("timeout: 9 s", {", memory: 256 MB": ""}, "how much memory"),
        ("timeout: 9 s", {"platform: qemu, memory: 256 MB": ""}, "no memory of its own"),
        ("timeout: 9 s, mode: post_copy, on_timeout: cancel", {}, "cannot be cancelled"),
        ("timeout: 9 s, mode: post_copy, on_timeout: censor", {}, "lost when its time-out passes"),
        ("timeout: 9 s", {"to: h1.g1": "to: h2.g1", "from: h3.g1": "from: h1.g1"}, "its clock"),
        ("timeout: 9 s", {"to: h2, MOVE": "to: h1, MOVE"}, "not another host"),
    ],
)
def test_what_cannot_move_is_refused(move: str, swap: dict[str, str], words: str) -> None:
    found = Simulator().check(planned(move, swap=swap))
    assert any(words in refusal.reason and refusal.cure for refusal in found), found


@pytest.mark.slow
def test_a_guest_is_isolated_at_its_destination_too() -> None:
    swap = {
        "h1: {platform: qemu, memory: 256 MB}": "h1: {platform: qemu, memory: 256 MB, vswitches: {br: {isolate: true}}}",
        "h2: {}": "h2: {vswitches: {br: {isolate: true}}}",
    }
    more = (
        "  beside: {workload: rtt, from: h2.g1, to: h1.g1, interval: 10 ms, count: 100000, timeout: 100 ms}"
    )
    text = (
        written(PACE, more=more, swap=swap)
        .replace("timeline:\n", "timeline:\n  - {id: too, do: start, role: beside}\n")
        .replace("windows:", "  - {id: over, do: stop, role: beside, after: settle.done}\nwindows:")
    )
    experiment = load_text(text)
    _, sink = played(plan_run(experiment, experiment.points()[0], 0))

    def replies(role: str) -> Any:
        found = [c["sent_ns"] + c["rtt_ns"] for s, k, c in sink.blocks if (s, k) == (role, "rtt/1")]
        return np.sort(np.concatenate(found))

    paused, resumed = sink.at("go.paused"), sink.at("go.resumed")
    # As long as they stand at two switches they reach each other over the links, and no more at one.
    assert (replies("beside") < paused).sum() > 100
    assert (replies("beside") > resumed).sum() == 0
    assert (replies("probe") > resumed).sum() > 100
