"""Series and counters of a guest, against what the traffic in it must have caused."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import probe_world as pw

WHY_NOT = pw.missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")
MS = 1_000_000


def counters(probe: pw.Probe, *groups: str) -> dict[tuple[str, str], int]:
    return {
        (entity, name): value for entity, name, value in probe.ask("counters", groups=list(groups))["rows"]
    }


def test_interface_counters_rise_by_the_traffic(world: pw.World, ends: tuple[pw.Probe, pw.Probe]) -> None:
    before = counters(ends[1], "vnics")
    client, _ = pw.play(
        *ends, "udp_stream", world, frame_bytes=500, rate_bit_per_s=8_000_000, duration_ns=100 * MS
    )
    after = counters(ends[1], "vnics")
    rise = after["eth0", "received_packets"] - before["eth0", "received_packets"]
    sent = client.counters["sent_packets"]
    assert sent <= rise < sent + 20
    assert after["eth0", "received_bytes"] - before["eth0", "received_bytes"] >= sent * 496
    assert ("lo", "received_packets") not in after


@pytest.mark.skipif(shutil.which("tc") is None, reason="needs tc")
def test_backlog_and_drops_of_a_queue_are_read(world: pw.World, ends: tuple[pw.Probe, pw.Probe]) -> None:
    world.shape(world.a, "tbf", "rate", "1mbit", "burst", "5kb", "limit", "20000")
    try:
        ends[0].ask("sample", sources=[{"source": "qdisc", "every_ns": 5 * MS}])
        pw.play(
            *ends, "udp_stream", world, ip_packet_bytes=1500, rate_bit_per_s=20_000_000, duration_ns=200 * MS
        )
        ends[0].blocks.clear()
        reply = ends[0].ask("sample", sources=[])
        series = pw.decode(ends[0].blocks)[0]["series/1"]
        assert reply["rows"]["series/1"] == len(series["t_ns"])
        assert set(series["entity"]) == {"eth0"}
        backlog = series["value"][series["metric"] == "backlog"]
        assert 0 < backlog.max() <= 20_000
        drops = series["value"][series["metric"] == "qdisc_drops"]
        assert np.all(np.diff(drops) >= 0)
        assert drops[-1] > 0
        assert counters(ends[0], "qdisc")["eth0", "drops"] >= drops[-1]
    finally:
        world.a.run("tc", "qdisc", "del", "dev", "eth0", "root")


def test_series_stand_on_their_grid_and_shares_are_shares(ends: tuple[pw.Probe, pw.Probe]) -> None:
    probe = ends[0]
    every_ns = 10 * MS
    wanted = [
        {"source": source, "every_ns": every_ns} for source in ("host.cpu", "probe", "softnet", "vnics")
    ]
    begin = probe.ask("clock")["raw_ns"]
    probe.ask("sample", sources=wanted)
    time.sleep(0.2)
    probe.blocks.clear()
    assert probe.ask("sample", sources=[])["overflowed"] == 0
    end = probe.ask("clock")["raw_ns"]
    series = pw.decode(probe.blocks)[0]["series/1"]
    assert begin <= series["t_ns"].min() <= series["t_ns"].max() <= end
    for metric in ("cpu", "steal", "softirq"):
        values = series["value"][(series["metric"] == metric) & (series["entity"] == "cpu")]
        assert np.all((values >= 0) & (values <= 1))
    delay = series["value"][(series["metric"] == "run_queue_delay") & (series["entity"] == "probe")]
    assert len(delay) > 0
    assert np.all(delay >= 0)
    assert len(series["t_ns"][(series["metric"] == "received_bytes")]) <= (end - begin) / every_ns + 1


def test_unknown_sources_and_groups_are_refused(ends: tuple[pw.Probe, pw.Probe]) -> None:
    with pytest.raises(pw.ProbeError, match="no series source 'weather'"):
        ends[0].ask("sample", sources=[{"source": "weather", "every_ns": 10 * MS}])
    with pytest.raises(pw.ProbeError, match="no counter group 'weather'"):
        ends[0].ask("counters", groups=["weather"])
    with pytest.raises(pw.ProbeError, match="at least 1 ms"):
        ends[0].ask("sample", sources=[{"source": "cpu", "every_ns": 10}])


def test_every_counter_group_answers(ends: tuple[pw.Probe, pw.Probe]) -> None:
    seen = counters(ends[0], "cpu", "softnet", "vnics", "qdisc", "probe", "cgroup")
    assert seen["cpu", "idle_ns"] >= 0
    assert seen["cpu", "steal_ns"] >= 0
    assert seen["cpu0", "softnet_drops"] >= 0
    assert seen["probe", "cpu_ns"] > 0
