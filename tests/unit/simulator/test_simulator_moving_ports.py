"""A guest that moves in the simulator behind a port with a queue: its port at each host waits from the start."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.unit.simulator.test_simulator_moves import Kept, S, planned, played

from virtlab.plan import Plan
from virtlab.planner.queues.ports import all_ports, with_port_links

MOVE = "bandwidth: 500 MB/s, downtime_limit: 100 ms, timeout: 60 s"
PROBE = "size: 100 B ip_packet, interval: 5 ms"
FLOOD = "size: 1000 B ip_packet, interval: 500 us, protocol: udp"
REST = "  - {id: rest, do: wait, for: 4 s, after: end.done}\n"
OCTETS = 1000 + 18 + 20  # of a frame on a wire
GONE = {
    "  - {id: go, do: migrate, guest: h1.g1, to: h2, MOVE, after: load.started + 1 s}\n": "",
    "{any: [go.finished, go.cancelled]}": "load.started + 1 s",
}
HERE, THERE = "links.h1.g1.eth0.ab", "links.h1.g1.eth0@h2.ab"
FIFO = "{kind: fifo, limit: 40 packets}"
DISCIPLINES = {
    "fifo": FIFO,
    "pfifo": "{kind: pfifo, limit: 40 packets}",
    "bfifo": "{kind: bfifo, limit: 40 kB}",
    "pfifo_fast": "{kind: pfifo_fast}",
    "sfq": "{kind: sfq}",
    "codel": "{kind: codel}",
    "fq_codel": "{kind: fq_codel}",
    "pie": "{kind: pie}",
    "tbf": "{kind: tbf, rate: 4 Mbit/s, burst: 10 kB, limit: 40 kB}",
    "htb": "{kind: htb, classes: {a: {rate: 4 Mbit/s}}, default: a}",
    "hfsc": "{kind: hfsc, m2: 4 Mbit/s}",
    "prio": "{kind: prio, classes: {a: {}, b: {}}, default: a, match: [{class: b, protocol: icmp}]}",
    "drr": "{kind: drr, classes: {a: {}}, default: a}",
    "netem": "{kind: netem, delay: 3 ms, loss: 2 %}",
}


def queued(
    here: str | None,
    there: str | None,
    traffic: str = FLOOD,
    *,
    host: str = "",
    swap: dict[str, str] | None = None,
    arp: str = "static",
) -> Plan:
    """A Plan of a guest of 64 MB that moves from h1, whose ports say `here`, to h2, whose say `there`."""
    said = {
        "h1: {platform: qemu, memory: 256 MB}": f"h1: {{platform: qemu, memory: 64 MB{_more(here)}}}",
        "  h2: {}\n": f"  h2: {{{_more(there).removeprefix(', ')}}}\n",
        PROBE: traffic,
        "timeout: 100 ms": "timeout: 9 s",
        "windows: {measured": REST + "windows: {measured",
        "link: {rate: RATE}": f"{host}link: {{rate: RATE}}\ncollect: {{counters: [links, vnics]}}",
    }
    return planned(MOVE, swap={**(swap or {}), **said}, arp=arp)


def _more(said: str | None) -> str:
    return f", {said}" if said else ""


def port(rate: str | None, queue: str = FIFO) -> str:
    return f"queue: {queue}" + (f", port_rate: {rate}" if rate else "")


def at_the_end(sink: Kept) -> dict[tuple[str, str], float]:
    """(entity, counter) -> value, by the last mark."""
    (columns,) = [columns for _, schema, columns in sink.blocks if schema == "counter/1"]
    last = columns["t_ns"] == columns["t_ns"].max()
    names = zip(columns["entity"][last], columns["counter"][last], columns["value"][last], strict=True)
    return {(str(entity), str(counter)): float(value) for entity, counter, value in names}


def asked(sink: Kept) -> tuple[Any, Any]:
    """When each request was sent that was answered, and how long that took."""
    kept = [columns for _, schema, columns in sink.blocks if schema == "rtt/1"]
    return tuple(np.concatenate([columns[name] for columns in kept]) for name in ("sent_ns", "rtt_ns"))  # type: ignore[return-value]


@pytest.mark.slow
@pytest.mark.parametrize("kind", DISCIPLINES)
def test_every_frame_is_told_of_by_one_of_both_ports_whatever_queues_there(kind: str) -> None:
    said = port("10 Mbit/s", DISCIPLINES[kind])
    outcome, sink = played(queued(said, said))
    told = at_the_end(sink)
    assert outcome.status == "ok"
    come, left = 0.0, 0.0
    for at in (HERE, THERE):
        assert told[at, "packets"] > 500, at
        left += told[at, "packets"]
        come += told[at, "packets"] + told[at, "drops"] + told[at, "backlog_packets"]
    assert come == told["guests.h3.g1.vnics.eth0", "sent_packets"], "no other wire loses any"
    # What left a port has come to the guest, or was lost where the guest was or stood still.
    vnic = "guests.h1.g1.vnics.eth0"
    assert left == told[vnic, "received_packets"] + told[vnic, "rx_dropped"]
    sent_ns, _ = asked(sink)
    assert (sent_ns > sink.at("go.resumed")).sum() > 100, "clients find it behind its other port"


@pytest.mark.slow
def test_a_guest_waits_behind_the_port_of_the_host_where_it_is() -> None:
    _, sink = played(queued(port("4 Mbit/s"), port("1 Mbit/s", "{kind: fifo, limit: 20 packets}")))
    sent_ns, rtt_ns = asked(sink)
    paused, resumed = sink.at("go.paused"), sink.at("go.resumed")
    before, after = (
        rtt_ns[(sent_ns + rtt_ns < paused) & (sent_ns > S // 2)],
        rtt_ns[sent_ns > resumed + S // 2],
    )
    # A full queue lets a frame in when one leaves, so that each waits for all others: backlog / rate.
    for found, rate, most in ((before, 4e6, 40), (after, 1e6, 20)):
        own_ns = OCTETS * 8 / rate * 1e9
        # There, and as fast back; the wires between take 100 Mbit/s.
        wires_ns = 4 * OCTETS * 8 / 100e6 * 1e9 + 2 * own_ns
        assert np.median(found) == pytest.approx(most * own_ns + wires_ns, rel=0.03)


@pytest.mark.slow
def test_what_waits_at_the_old_port_is_lost_and_comes_out_there() -> None:
    """As on the testbed, where a port goes on handing frames to a tap that nobody reads."""
    _, sink = played(queued(port("1 Mbit/s", "{kind: fifo, limit: 200 packets}"), port("50 Mbit/s")))
    told = at_the_end(sink)
    sent_ns, rtt_ns = asked(sink)
    paused, resumed = sink.at("go.paused"), sink.at("go.resumed")
    late = (sent_ns < paused) & (sent_ns + rtt_ns > resumed)
    assert not late.any(), "nothing that was sent before comes to the guest at its new host"
    backlog_ns = 200 * OCTETS * 8e-6 * 1e9
    assert backlog_ns > resumed - paused + S, "some of it came out after the guest had left"
    assert told["guests.h1.g1.vnics.eth0", "rx_dropped"] >= 200
    assert told[HERE, "backlog_packets"] == 0 or backlog_ns > S


@pytest.mark.slow
@pytest.mark.parametrize(("here", "there"), [(port("10 Mbit/s"), None), (None, port("10 Mbit/s"))])
def test_a_guest_moves_between_a_port_with_a_queue_and_one_without(
    here: str | None, there: str | None
) -> None:
    _, sink = played(queued(here, there))
    told = at_the_end(sink)
    assert ((HERE, "packets") in told, (THERE, "packets") in told) == (here is not None, there is not None)
    sent_ns, rtt_ns = asked(sink)
    paused, resumed = sink.at("go.paused"), sink.at("go.resumed")
    before, after = rtt_ns[sent_ns + rtt_ns < paused], rtt_ns[sent_ns > resumed + S // 10]
    slower, faster = (before, after) if here is not None else (after, before)
    assert np.median(slower) > 20 * np.median(faster)


@pytest.mark.slow
def test_switches_that_learn_find_it_behind_its_other_port() -> None:
    said = port("10 Mbit/s")
    _, sink = played(queued(said, said, arp="live"))
    told = at_the_end(sink)
    assert all(told[at, "packets"] > 500 for at in (HERE, THERE))
    sent_ns, _ = asked(sink)
    assert (sent_ns > sink.at("go.resumed")).sum() > 100


def test_a_port_without_a_rate_hands_on_what_comes_at_both_hosts() -> None:
    _, sink = played(queued(port(None), port(None), PROBE))
    told = at_the_end(sink)
    assert all(told[at, "packets"] > 50 and told[at, "drops"] == 0 for at in (HERE, THERE))


@pytest.mark.slow
def test_there_and_back_the_first_port_serves_again() -> None:
    again = {
        "  - {id: settle,": "  - {id: back, do: migrate, guest: h1.g1, to: h1, MOVE, after: go.finished + 1 s}\n"
        "  - {id: settle,",
        "{any: [go.finished, go.cancelled]}": "back.finished",
    }
    _, sink = played(queued(port("2 Mbit/s"), port("4 Mbit/s"), swap=again))
    sent_ns, rtt_ns = asked(sink)
    times = [rtt_ns[(sent_ns > begin) & (sent_ns + rtt_ns < end)] for begin, end in (
        (S // 2, sink.at("go.paused")),
        (sink.at("go.resumed") + S // 2, sink.at("back.paused")),
        (sink.at("back.resumed") + S // 2, sent_ns.max() + S),
    )]  # fmt: skip
    first, second, third = (np.median(each) for each in times)
    assert first == pytest.approx(2 * second, rel=0.05)
    assert third == pytest.approx(first, rel=0.02)


@pytest.mark.slow
def test_until_it_moves_nothing_differs_from_the_file_without_a_move() -> None:
    said = port("10 Mbit/s", "{kind: fq_codel}")
    still = queued(said, said, swap=GONE)
    assert with_port_links(still, all_ports).world.links.keys() == {
        *still.world.links, *(f"h{number}.g1.eth0" for number in (1, 2)),
    }  # fmt: skip
    (_, moves), (_, stays) = played(queued(said, said)), played(still)
    until = moves.at("go.paused")
    pairs = []
    for sink in (moves, stays):
        sent_ns, rtt_ns = asked(sink)
        own = sent_ns + rtt_ns < until
        pairs.append((sent_ns[own].tobytes(), rtt_ns[own].tobytes()))
    assert pairs[0] == pairs[1]
    assert len(pairs[0][0]) > 1000


@pytest.mark.slow
def test_hosts_that_say_the_same_say_it_once() -> None:
    said = port("10 Mbit/s")
    (same,) = queued(said, said).world.guests["h1.g1"].vnics.values()
    (other,) = queued(said, port("5 Mbit/s")).world.guests["h1.g1"].vnics.values()
    assert same.there == {}
    assert [(host, each.port_rate_bit_per_s) for host, each in other.there.items()] == [("h2", 5_000_000)]
