"""Samples of a run become values as ping, iperf and the RFCs define them; what is missing is absent with a
reason."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from virtlab.analysis import RunValue, run_values, values_of_run
from virtlab.catalogue import WORKLOADS
from virtlab.metrics import MetricPath
from virtlab.metrics.benchmarks import BENCHMARKS
from virtlab.metrics.searches import SEARCHES
from virtlab.plan import Event, Mark, Outcome, Plan, Realised, RealisedObject
from virtlab.results import Dataset, RunKey, RunRecord

SECOND = 1_000_000_000
START = 50 * SECOND
GUEST = {
    "platform": "namespace",
    "host": "h1",
    "vnics": {
        "eth0": {"vswitch": "br", "mac": "02:00:00:00:00:01", "ip": ["10.0.0.1/24"], "mtu_bytes": 1500}
    },
}

Blocks = Mapping[tuple[str, str], Mapping[str, Any]]


def plan_with(role: Mapping[str, Any], *, levels: Mapping[str, str] | None = None) -> Plan:
    """Two guests on one bridge, one role named `r` that the window `measured` spans."""
    return Plan.parse(
        json.dumps(
            {
                "schema": "virtlab.plan/1",
                "point": dict(levels or {}),
                "world": {
                    "hosts": {"h1": {"at": "local"}},
                    "guests": {"a": GUEST, "b": GUEST},
                    "vswitches": {"br": {"kind": "linux_bridge", "host": "h1"}},
                },
                "roles": {"r": {"from": "a", "to": "b", **role}},
                "timeline": [{"id": "go", "do": "run", "role": "r"}],
                "windows": {"measured": {"from": "go.started", "to": "go.finished"}},
            }
        )
    )


def record_of(
    path: Path,
    plan: Plan,
    blocks: Blocks,
    *,
    window: tuple[int, int] = (START, START + 10 * SECOND),
    own: tuple[int, int] | None = None,
    clocks: Mapping[str, Any] | None = None,
    events: Sequence[Event] = (),
) -> RunRecord:
    begin, end = own or window
    outcome = Outcome(
        "ok",
        marks={"go.started": Mark(begin), "go.finished": Mark(end)},
        windows={"measured": window},
        clocks=clocks or {},
    )
    dataset = Dataset.create(path / "d.results", "version: 1\n", name="d")
    with dataset, dataset.begin_run(RunKey(0, 0, 0), plan) as writer:
        for (stream, schema), columns in blocks.items():
            writer.block(stream, schema, {name: np.asarray(column) for name, column in columns.items()})
        for event in events:
            writer.event(event)
        writer.commit(outcome, Realised({"links.l": RealisedObject({}, {}, {}, "soft_switch")}), {})
    (record,) = Dataset.open(path / "d.results").runs()
    return record


def values_of(record: RunRecord, role: str = "r") -> dict[str, float | None]:
    return {f"{v.metric}.{v.statistic}": v.value for v in values_of_run(record) if v.role == role}


def reason_of(record: RunRecord, path: str) -> str:
    wanted = MetricPath.parse(path)
    (found,) = [value for value in values_of_run(record) if value.path == wanted]
    assert found.value is None
    return found.reason


def sent(seqs: list[int], *, spacing_ns: int = 10_000_000, late_ns: int = 0) -> dict[str, Any]:
    seq = np.array(seqs, dtype=np.int64)
    intended = START + seq * spacing_ns
    return {
        "seq": seq,
        "flow": np.zeros(seq.size, np.int32),
        "intended_ns": intended,
        "sent_ns": intended + late_ns,
        "payload_bytes": np.full(seq.size, 1472, np.int32),
    }


def replies(seqs: list[int], rtt_ns: list[int], *, path_less_ns: int = 5_000) -> dict[str, Any]:
    seq, rtt = np.array(seqs, dtype=np.int64), np.array(rtt_ns, dtype=np.int64)
    at = START + seq * 10_000_000
    return {
        "seq": seq,
        "flow": np.zeros(seq.size, np.int32),
        "intended_ns": at,
        "sent_ns": at,
        "received_ns": at + rtt,
        "rtt_ns": rtt,
        "path_rtt_ns": rtt - path_less_ns,
    }


def counters(entity: str, **values: int) -> dict[str, Any]:
    size = len(values)
    return {
        "t_ns": np.full(size, START, np.int64),
        "mark": np.array(["stop"] * size, object),
        "entity": np.array([entity] * size, object),
        "counter": np.array(list(values), object),
        "value": np.array(list(values.values()), np.int64),
    }


RTT = {"workload": "rtt", "ip_packet_bytes": 1500, "interval_ns": 10_000_000, "count": 5}


def test_rtt_gives_min_avg_max_mdev_as_ping_prints_them(tmp_path: Path) -> None:
    """ping: rtt min/avg/max/mdev of 0.100, 0.200, 0.400 ms is 0.100/0.233/0.400/0.125 ms."""
    blocks = {
        ("r", "sent/1"): sent([0, 1, 2]),
        ("r", "rtt/1"): replies([0, 1, 2], [100_000, 200_000, 400_000]),
    }
    found = values_of(record_of(tmp_path, plan_with(RTT), blocks))
    assert found["rtt.min"] == 100_000
    assert found["rtt.mean"] == pytest.approx(700_000 / 3)
    assert found["rtt.max"] == 400_000
    assert found["rtt.mdev"] == pytest.approx(124_721.9, abs=0.1)
    assert found["rtt.range"] == 300_000
    assert found["rtt.median"] == 200_000
    assert found["path_rtt.min"] == 95_000
    assert found["pdv.max"] == 300_000
    assert found["ipdv.max"] == 200_000
    assert found["loss.ratio"] == 0.0
    assert found["pacing_error.max"] == 0


def test_loss_duplicates_and_reordering_are_counted_apart(tmp_path: Path) -> None:
    """5 sent: 1 never answered, 3 answered before 2, 0 answered twice."""
    blocks = {
        ("r", "sent/1"): sent([0, 1, 2, 3, 4], late_ns=700),
        ("r", "rtt/1"): replies([0, 0, 3, 2, 4], [100, 900, 100, 30_000_000, 100]),
    }
    found = values_of(record_of(tmp_path, plan_with(RTT), blocks))
    assert found["loss.ratio"] == pytest.approx(0.2)
    assert found["duplicates.count"] == 1
    assert found["duplicates.ratio"] == pytest.approx(0.2)
    assert found["reordering.count"] == 1
    assert found["reordering.ratio"] == pytest.approx(0.25)
    assert found["rtt.mean"] == pytest.approx((100 * 3 + 30_000_000) / 4)
    assert found["pacing_error.mean"] == 700


def test_no_reply_is_full_loss_and_absent_delay(tmp_path: Path) -> None:
    record = record_of(
        tmp_path, plan_with(RTT), {("r", "sent/1"): sent([0, 1]), ("r", "rtt/1"): replies([], [])}
    )
    found = values_of(record)
    assert found["loss.ratio"] == 1.0
    assert found["rtt.mean"] is None
    assert "no reply" in reason_of(record, "r.rtt.mean")


def test_a_role_without_samples_is_absent_and_never_zero(tmp_path: Path) -> None:
    record = record_of(tmp_path, plan_with(RTT), {})
    assert values_of(record)["loss.ratio"] is None
    assert "not known" in reason_of(record, "r.loss.ratio")
    assert "reported no such counter" in reason_of(record, "r.stalls.count")


def test_a_percentile_beyond_the_samples_is_absent(tmp_path: Path) -> None:
    record = record_of(tmp_path, plan_with(RTT), {("r", "rtt/1"): replies(list(range(99)), [100] * 99)})
    assert values_of(record)["rtt.p95"] == 100
    assert reason_of(record, "r.rtt.p99") == "99 samples, p99 needs 100"


def test_health_counters_of_both_ends_add_up_and_of_traffic_the_larger_counts(tmp_path: Path) -> None:
    both = {
        key: np.concatenate([a, b])
        for (key, a), b in zip(
            counters("r/client", stalls=2, stall_max_ns=5_000_000, socket_drops=1, sent_packets=10).items(),
            counters("r/server", stalls=1, stall_max_ns=7_000_000, socket_drops=3, sent_packets=9).values(),
            strict=True,
        )
    }
    blocks = {("counters", "counter/1"): both, ("r", "rtt/1"): replies([0, 1, 2], [5, 5, 5])}
    found = values_of(record_of(tmp_path, plan_with(RTT), blocks))
    assert found["stalls.count"] == 3
    assert found["stall.max"] == 7_000_000
    assert found["socket_drops.count"] == 4
    assert found["loss.ratio"] == pytest.approx(0.7)


def test_a_stall_of_the_end_that_answers_is_a_stall_and_the_longest_is_that_of_any_kind(
    tmp_path: Path,
) -> None:
    found = values_of(
        record_of(
            tmp_path,
            plan_with(RTT),
            {
                ("counters", "counter/1"): counters(
                    "r/server",
                    answer_stalls=2,
                    answer_stall_max_ns=30_000_000,
                    standstills=1,
                    standstill_max_ns=31_000_000,
                ),
                ("r", "rtt/1"): replies([0, 1, 2], [5, 5, 5]),
            },
        )
    )
    assert (found["stalls.count"], found["stall.max"]) == (2, 31_000_000)


def test_a_role_active_beyond_the_window_counts_only_inside(tmp_path: Path) -> None:
    blocks = {
        ("r", "sent/1"): sent(list(range(1000))),
        ("r", "rtt/1"): replies(list(range(1000)), list(range(1000))),
    }
    window = (START + 2 * SECOND, START + 3 * SECOND)
    record = record_of(tmp_path, plan_with(RTT), blocks, window=window, own=(START, START + 10 * SECOND))
    found = values_of(record)
    assert (found["rtt.min"], found["rtt.max"]) == (200, 299)


def test_a_role_inside_the_window_is_not_cut_at_its_edges(tmp_path: Path) -> None:
    """Its own `started` was told 1 ms after its first packet."""
    blocks = {("r", "sent/1"): sent([0, 1, 2]), ("r", "rtt/1"): replies([0, 1, 2], [5, 6, 7])}
    record = record_of(tmp_path, plan_with(RTT), blocks, own=(START + 1_000_000, START + SECOND))
    assert values_of(record)["rtt.min"] == 5


# -- variation, order, rates


UDP = {"workload": "udp_stream", "payload_bytes": 1472, "duration_ns": SECOND}


def packets(
    seqs: list[int],
    *,
    delay_ns: Any = 200_000,
    spacing_ns: int = 1_000_000,
    flows: int = 1,
    wake_ns: int = 30_000,
) -> dict[str, Any]:
    number = np.array(seqs, dtype=np.int64)
    left = START + number * spacing_ns
    arrived = left + np.broadcast_to(np.asarray(delay_ns, dtype=np.int64), number.shape)
    return {
        "seq": number // flows,
        "flow": (number % flows).astype(np.int32),
        "sent_ns": left,
        "received_ns": arrived,
        "user_ns": arrived + wake_ns,
        "payload_bytes": np.full(number.size, 1472, np.int32),
    }


def test_a_udp_stream_has_throughput_in_frames_and_goodput_in_payload(tmp_path: Path) -> None:
    blocks = {
        ("r", "packet/1"): packets(list(range(1000))),
        ("c", "counter/1"): counters("r/client", sent_packets=1000),
    }
    found = values_of(record_of(tmp_path, plan_with(UDP), blocks))
    assert found["goodput.mean"] == pytest.approx(1472 * 8 * 1000)
    assert found["throughput.mean"] == pytest.approx(1518 * 8 * 1000)
    assert found["packet_rate.mean"] == pytest.approx(1000)
    assert found["loss.ratio"] == 0
    assert found["achieved_load.mean"] == pytest.approx(1472 * 8 * 1000)
    assert found["path_owd.median"] == 200_000
    assert found["owd.median"] == 230_000
    assert found["owd.bound"] == 0
    assert found["jitter_rfc3550.final"] == 0
    assert found["offered_load.mean"] is None


def test_goodput_and_lost_rate_add_up_to_what_would_have_arrived(tmp_path: Path) -> None:
    kept = [n for n in range(1000) if n % 5 != 2]
    blocks = {
        ("r", "packet/1"): packets(kept),
        ("c", "counter/1"): counters("r/client", sent_packets=1000),
    }
    found = values_of(record_of(tmp_path, plan_with(UDP), blocks))
    assert found["loss.ratio"] == pytest.approx(0.2)
    assert found["achieved_load.mean"] == pytest.approx(1472 * 8 * 1000)
    goodput, lost = found["goodput.mean"], found["lost_rate.mean"]
    assert goodput is not None
    assert lost is not None
    assert lost / (goodput + lost) == pytest.approx(0.2)
    assert goodput + lost == pytest.approx(1472 * 8 * 1000, rel=2e-3)


def test_packets_lost_at_the_end_are_known_from_the_senders_counter(tmp_path: Path) -> None:
    blocks = {
        ("r", "packet/1"): packets(list(range(900))),
        ("c", "counter/1"): counters("r/client", sent_packets=1000),
    }
    assert values_of(record_of(tmp_path, plan_with(UDP), blocks))["loss.ratio"] == pytest.approx(0.1)


@pytest.mark.slow
def test_a_stream_of_which_nothing_arrived_is_lost_whole(tmp_path: Path) -> None:
    blocks = {("r", "packet/1"): packets([]), ("c", "counter/1"): counters("r/client", sent_packets=1000)}
    record = record_of(tmp_path, plan_with(UDP), blocks)
    assert values_of(record)["loss.ratio"] == 1.0
    assert reason_of(record, "r.goodput.mean") == "nothing arrived in the window"


@pytest.mark.slow
def test_one_way_delay_across_clocks_is_absent_unless_their_bound_is_known(tmp_path: Path) -> None:
    plan = plan_with(UDP)
    guests = {name: guest.model_copy(update={"platform": "vm"}) for name, guest in plan.world.guests.items()}
    apart = plan.model_copy(update={"world": plan.world.model_copy(update={"guests": guests})})
    blocks = {("r", "packet/1"): packets(list(range(100)))}
    record = record_of(tmp_path, apart, blocks)
    assert "different clocks" in reason_of(record, "r.owd.mean")
    assert values_of(record)["pdv.max"] == 0
    (tmp_path / "known").mkdir()
    known = record_of(
        tmp_path / "known", apart, blocks, clocks={"a": {"bound_ns": 3000}, "b": {"bound_ns": 4000}}
    )
    assert values_of(known)["owd.bound"] == 7000


@pytest.mark.slow
def test_raw_stream_loses_per_flow(tmp_path: Path) -> None:
    role = {"workload": "raw_stream", "frame_bytes": 64, "rate_pps": 1000, "duration_ns": SECOND, "flows": 4}
    kept = [n for n in range(1000) if not (n % 4 == 1 and n % 8 == 5)]
    blocks = {
        ("r", "packet/1"): packets(kept, flows=4),
        ("c", "counter/1"): counters("r/client", sent_packets=1000),
    }
    found = values_of(record_of(tmp_path, plan_with(role), blocks))
    assert found["flow_loss.max"] == pytest.approx(0.5)
    assert found["flow_loss.min"] == 0
    assert found["loss.ratio"] == pytest.approx(0.125)
    assert found["offered_load.mean"] == 64 * 8 * 1000
    assert found["throughput.mean"] == pytest.approx(64 * 8 * 875, rel=2e-3)
    assert found["fairness.jain"] == pytest.approx((3 * 250 + 125) ** 2 / (4 * (3 * 250**2 + 125**2)))


@pytest.mark.slow
def test_each_flow_of_a_raw_stream_has_its_own_loss_by_the_name_of_its_forwarder(tmp_path: Path) -> None:
    role = {
        "workload": "raw_stream", "frame_bytes": 64, "rate_pps": 1000, "duration_ns": SECOND,
        "via": ["f1", "f2", "f3", "f4"], "shares": [0.25, 0.25, 0.25, 0.25],
    }  # fmt: skip
    kept = [n for n in range(1000) if n % 4 != 3 and not (n % 4 == 1 and n % 8 == 5)]
    told = {f"flow{flow}.sent_packets": 250 for flow in range(4)}
    blocks = {
        ("r", "packet/1"): packets(kept, flows=4),
        ("c", "counter/1"): counters("r/client", sent_packets=1000, **told),
    }
    found = {str(value.path): value for value in values_of_run(record_of(tmp_path, plan_with(role), blocks))}
    assert found["r.f1.loss.ratio"].value == 0
    assert found["r.f2.loss.ratio"].value == pytest.approx(0.5)
    assert found["r.f4.loss.ratio"].value == 1
    assert found["r.f4.path_owd.mean"].value is None
    assert "nothing" in found["r.f4.path_owd.mean"].reason
    assert found["r.flow_loss.max"].value == 1
    assert found["r.f1.path_owd.mean"].samples == 250


# -- bursts, TCP, entities


def bursts(
    count: int, streams: int, burst_bytes: int, *, late: int = 0, replied: float = 1.0
) -> dict[str, Any]:
    burst = np.repeat(np.arange(count, dtype=np.int64), streams)
    stream = np.tile(np.arange(streams, dtype=np.int32), count)
    intended = START + burst * 10_000_000
    size = burst.size
    late_ns = np.where(np.arange(size) < late, 2_000_000, 1_000)
    return {
        "burst": burst,
        "stream": stream,
        "intended_ns": intended,
        "sent_ns": intended + late_ns,
        "finished_ns": intended + late_ns + 3_000_000,
        "sent_bytes": np.full(size, burst_bytes // streams),
        "replied_bytes": np.full(size, int(burst_bytes // streams * replied)),
    }


BURST = {
    "workload": "burst_load",
    "burst_bytes": 30_000,
    "period_ns": 10_000_000,
    "streams": 3,
    "direction": "request_reply",
    "origin": "from",
}


def test_achieved_load_is_what_was_really_sent(tmp_path: Path) -> None:
    found = values_of(record_of(tmp_path, plan_with(BURST), {("r", "burst/1"): bursts(100, 3, 30_000)}))
    assert found["offered_load.mean"] == pytest.approx(24e6)
    assert found["achieved_load.mean"] == pytest.approx(24e6)
    assert found["achieved_share.ratio"] == pytest.approx(1.0)
    assert found["achieved_burst.mean"] == 30_000
    assert found["late_bursts.count"] == 0
    assert found["loss.ratio"] == 0
    assert found["burst_time.median"] == 3_000_000


def test_late_bursts_and_lost_replies_are_counted(tmp_path: Path) -> None:
    blocks = {("r", "burst/1"): bursts(100, 3, 30_000, late=30, replied=0.9)}
    found = values_of(record_of(tmp_path, plan_with(BURST), blocks))
    assert found["late_bursts.ratio"] == pytest.approx(0.1)
    assert found["loss.ratio"] == pytest.approx(0.1)


def test_a_load_of_nothing_achieves_nothing_and_its_loss_is_absent(tmp_path: Path) -> None:
    record = record_of(tmp_path, plan_with({**BURST, "burst_bytes": 0}), {})
    assert values_of(record)["achieved_load.mean"] == 0
    assert reason_of(record, "r.loss.ratio") == "no load was requested of the role"
    paths = [value.path for value in values_of_run(record)]
    assert len(paths) == len(set(paths))


def test_loss_one_way_comes_from_the_far_ends_counter(tmp_path: Path) -> None:
    rows = counters("r/client", sent_packets=200)
    far = counters("r/server", received_packets=150)
    both = {key: np.concatenate([rows[key], far[key]]) for key in rows}
    blocks = {("r", "burst/1"): bursts(100, 3, 30_000), ("c", "counter/1"): both}
    found = values_of(record_of(tmp_path, plan_with({**BURST, "direction": "one_way"}), blocks))
    assert found["loss.ratio"] == pytest.approx(0.25)


def test_tcp_goodput_counts_what_the_receiver_read(tmp_path: Path) -> None:
    begin = START + np.arange(10, dtype=np.int64) * SECOND // 10
    block = {
        "flow": np.zeros(20, np.int32),
        "begin_ns": np.tile(begin, 2),
        "end_ns": np.tile(begin + SECOND // 10, 2),
        "received_bytes": np.r_[np.full(10, 1_000_000), np.zeros(10, np.int64)],
        "sent_bytes": np.r_[np.zeros(10, np.int64), np.full(10, 1_100_000)],
        "retransmits": np.r_[np.zeros(10, np.int64), np.full(10, 3)],
        "srtt_ns": np.r_[np.zeros(10, np.int64), np.full(10, 800_000)],
        "cwnd_packets": np.r_[np.zeros(10, np.int64), np.full(10, 40)],
    }
    role = {"workload": "tcp_stream", "duration_ns": SECOND}
    found = values_of(record_of(tmp_path, plan_with(role), {("r", "interval/1"): block}))
    assert found["goodput.mean"] == pytest.approx(80e6)
    assert found["goodput.min"] == pytest.approx(80e6)
    assert found["retransmits.total"] == 30
    assert found["retransmits.rate"] == pytest.approx(30)
    assert found["srtt.median"] == 800_000
    assert found["fairness.jain"] is None


def test_transactions_per_second_are_a_rate_and_their_times_a_distribution(tmp_path: Path) -> None:
    begin = START + np.arange(200, dtype=np.int64) * 500_000
    block = {"flow": np.zeros(200, np.int32), "started_ns": begin, "finished_ns": begin + 400_000}
    role = {"workload": "tcp_rr", "duration_ns": SECOND, "request_bytes": 1, "response_bytes": 1}
    found = values_of(record_of(tmp_path, plan_with(role), {("r", "transaction/1"): block}))
    assert found["transaction_rate.mean"] == pytest.approx(2000)
    assert found["transaction_time.p99"] == 400_000


def test_requests_that_became_no_transaction_are_errors_and_those_left_open_are_not(tmp_path: Path) -> None:
    begin = START + np.arange(6, dtype=np.int64) * 500_000
    block = {"flow": np.zeros(6, np.int32), "started_ns": begin, "finished_ns": begin + 400_000}
    told = counters(
        "r",
        requests=11,
        transactions=6,
        status_errors=1,
        timeouts=1,
        broken_connections=2,
        open=1,
        send_errors=0,
    )
    blocks = {("r", "transaction/1"): block, ("counters", "counter/1"): told}
    found = values_of(record_of(tmp_path, plan_with({"workload": "http_get", "duration_ns": SECOND}), blocks))
    assert found["transaction_time.mean"] == 400_000
    assert (found["request_errors.count"], found["request_errors.ratio"]) == (4, 0.4)


def test_requests_count_from_when_they_were_due_and_those_without_an_answer_as_long_as_they_waited(
    tmp_path: Path,
) -> None:
    due = START + np.arange(10, dtype=np.int64) * 1_000_000
    took = np.array([1, 1, 1, 1, 1, 5, 2, 30, 3, 9]) * 100_000
    error = np.array([0, 0, 0, 0, 0, 0, 1, 2, 3, 4], np.int32)
    sent = np.where(error == 2, -1, due + 50_000)
    block = {
        "intended_ns": due, "sent_ns": sent, "finished_ns": due + took, "entry": np.zeros(10, np.int32),
        "served_by": np.where(error == 0, 0, -1).astype(np.int32), "error": error,
    }  # fmt: skip
    role = {"workload": "request_response", "duration_ns": SECOND, "deadline_ns": 400_000}
    found = values_of(record_of(tmp_path, plan_with(role), {("r", "response/1"): block}))
    assert (found["response_time.min"], found["response_time.max"]) == (100_000, 3_000_000)
    assert found["response_time.mean"] == pytest.approx((5 * 1 + 5 + 30 + 9) / 8 * 100_000)
    assert found["client_wait.mean"] == 50_000
    assert found["request_rate.mean"] == pytest.approx(1000)
    assert found["answer_rate.mean"] == pytest.approx(6 / 5.5e-3)
    for metric in (
        "refused_requests",
        "lost_requests",
        "censored_requests",
        "request_errors",
        "late_requests",
    ):
        assert (found[f"{metric}.count"], found[f"{metric}.ratio"]) == (1, 0.1), metric


def test_requests_that_a_passive_server_forwarded_or_had_no_answer_for_are_counted(tmp_path: Path) -> None:
    due = START + np.arange(8, dtype=np.int64) * 1_000_000
    error = np.array([0, 0, 0, 0, 0, 6, 6, 1], np.int32)
    block = {
        "intended_ns": due, "sent_ns": due, "finished_ns": due + 100_000,
        "entry": np.array([0, 0, 1, 1, 1, 1, 1, 1], np.int32),
        "served_by": np.where(error == 0, 0, -1).astype(np.int32), "error": error,
    }  # fmt: skip
    role = {"workload": "request_response", "duration_ns": SECOND, "passive_share_ratio": 0.7}
    found = values_of(record_of(tmp_path, plan_with(role), {("r", "response/1"): block}))
    assert (found["forwarded_requests.count"], found["forwarded_requests.ratio"]) == (3, 3 / 8)
    assert (found["bad_gateway_requests.count"], found["bad_gateway_requests.ratio"]) == (2, 0.25)
    alone = {key: value for key, value in role.items() if key != "passive_share_ratio"}
    found = values_of(record_of(tmp_path / "alone", plan_with(alone), {("r", "response/1"): block}))
    assert not {"forwarded_requests.count", "bad_gateway_requests.count"} & found.keys()


@pytest.mark.slow
def test_series_and_counters_of_entities_become_values(tmp_path: Path) -> None:
    series = {
        "t_ns": START + np.arange(1, 11, dtype=np.int64) * SECOND,
        "entity": np.array(["h1"] * 10, object),
        "metric": np.array(["cpu"] * 10, object),
        "value": np.linspace(0.1, 1.0, 10),
    }
    first, last = (
        counters("l1.ab", drops=drops, packets=packets, residence_ns=waited_ns)
        for drops, packets, waited_ns in ((5, 10, 4_000), (12, 30, 64_000))
    )
    both = {key: np.concatenate([first[key], last[key]]) for key in first}
    blocks = {("series", "series/1"): series, ("counters", "counter/1"): both}
    record = record_of(tmp_path, plan_with(RTT), blocks)
    assert values_of(record, "h1")["cpu.mean"] == pytest.approx(0.55)
    assert values_of(record, "l1.ab")["drops.total"] == 7
    assert values_of(record, "l1.ab")["residence.mean"] == 3_000


def test_a_second_that_began_before_the_window_is_no_second_of_it(tmp_path: Path) -> None:
    half = SECOND // 2
    t_ns = START + half + np.arange(-1, 10, dtype=np.int64) * SECOND
    series = {
        "t_ns": np.tile(t_ns, 2),
        "entity": np.array(["guests.a"] * 22, object),
        "metric": np.array(["cpu_share"] * 11 + ["memory_used"] * 11, object),
        "value": np.tile(np.array([0.0, 0.2, *[0.8] * 9]), 2),
    }
    record = record_of(tmp_path, plan_with(RTT), {("series", "series/1"): series})
    found = values_of(record, "guests.a")
    assert found["cpu_share.mean"] == pytest.approx(0.8), (
        "the half second before the window was not its load's"
    )
    assert found["memory_used.min"] == pytest.approx(0.2), "at an instant in it there is as much as there is"
    assert found["memory_used.max"] == pytest.approx(0.8)


def test_a_window_without_a_whole_second_has_the_one_that_ends_in_it(tmp_path: Path) -> None:
    series = {
        "t_ns": START + SECOND // 2 + np.array([-10, 0, 30], dtype=np.int64) * SECOND,
        "entity": np.array(["guests.a"] * 3, object),
        "metric": np.array(["cpu"] * 3, object),
        "value": np.array([0.1, 0.4, 0.9]),
    }
    record = record_of(tmp_path, plan_with(RTT), {("series", "series/1"): series})
    assert values_of(record, "guests.a")["cpu.mean"] == pytest.approx(0.4)


@pytest.mark.slow
def test_a_packet_costs_what_all_processors_did_while_it_was_sent(tmp_path: Path) -> None:
    series = {
        "t_ns": np.repeat(START + np.arange(10, dtype=np.int64) * SECOND // 10, 3),
        "entity": np.array(["host.cpu", "host.cpu0", "host.cpu1"] * 10, object),
        "metric": np.array(["cpu"] * 30, object),
        "value": np.tile([0.5, 0.25, 0.75], 10),
    }
    blocks = {("r", "packet/1"): packets(list(range(100))), ("series", "series/1"): series}
    found = values_of(record_of(tmp_path, plan_with(UDP), blocks))
    rate = found["packet_rate.mean"]
    assert rate is not None
    assert found["cpu_per_packet.mean"] == pytest.approx(1e9 * (0.25 + 0.75) / rate)


def test_every_value_has_the_registrys_unit_and_no_path_comes_twice(tmp_path: Path) -> None:
    blocks = {("r", "packet/1"): packets(list(range(100)))}
    found = values_of_run(record_of(tmp_path, plan_with(UDP), blocks))
    assert all(value.unit == value.path.unit for value in found)
    assert len({value.path for value in found}) == len(found)
    # What a search finds, and what is tested after it, comes of its trials, not of packets.
    own = set(WORKLOADS["udp_stream"].metrics)
    expected = own - set(SEARCHES) - set(BENCHMARKS)
    assert {value.metric for value in found} == expected


@pytest.mark.slow
def test_only_runs_that_ended_well_are_in_the_table(tmp_path: Path) -> None:
    plan = plan_with(RTT, levels={"load": "0 B"})
    dataset = Dataset.create(tmp_path / "d.results", "version: 1\n", name="d")
    with dataset:
        for repetition, status in enumerate(("ok", "tainted", "failed", "ok")):
            repeated = plan.repeated(repetition, 1 + repetition)
            with dataset.begin_run(RunKey(0, repetition, 0), repeated) as writer:
                writer.block("r", "rtt/1", {k: np.asarray(v) for k, v in replies([0, 1], [5, 7]).items()})
                writer.commit(Outcome(status), Realised({}), {})  # type: ignore[arg-type]
    table = run_values(Dataset.open(tmp_path / "d.results"))
    assert sorted(table.runs) == ["p0000-r00-a0", "p0000-r03-a0"]
    assert table.values(MetricPath.parse("r.rtt.mean"), {"load": "0 B"}) == [6.0, 6.0]
    assert isinstance(table.rows[0], RunValue)
