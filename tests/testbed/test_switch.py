"""The soft switch on real packets: nothing leaves early, and nothing is lost uncounted."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.testbed import switch_world as worlds
from tests.testbed.switch_world import HOSTS, Conversation, SwitchError, World, line_layout

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))

# Sends one frame given in hexadecimal.
SEND = """
import socket, sys
end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
end.bind(("eth0", 0))
end.send(bytes.fromhex(sys.argv[1]))
"""
# Prints "ready", then the VLAN tag (control information) and bytes of the first frame of a test EtherType.
RECEIVE = """
import socket, struct, sys
end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
end.setsockopt(263, 8, 1)
end.bind(("eth0", 0))
end.settimeout(10)
print("ready", flush=True)
while True:
    data, extra, _, _ = end.recvmsg(2048, 256)
    if data[12:14] == bytes([0x88, 0xB5]):
        fields = struct.unpack("=IIIHHHH", extra[0][2])
        print(fields[5] if fields[0] & 16 else -1, data.hex())
        break
"""


@pytest.fixture(params=["root", "private user namespace"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    private_user = request.param != "root"
    if not private_user and os.geteuid() != 0:
        pytest.skip("needs root")
    with worlds.world(private_user=private_user) as made:
        yield made


@pytest.fixture
def plain_world() -> Iterator[World]:
    with worlds.world() as made:
        yield made


def started(world: World, switches: int, **configure: Any) -> Conversation:
    """Hosts h1 and h2 with so many switches between them, forwarding."""
    ports = worlds.two_hosts(world)
    switch = world.switch()
    switch.ask("configure", **{"ports": ports, "spin": "auto", **line_layout(switches), **configure})
    switch.ask("start")
    return switch


def ping_in_vain(world: World, command: str) -> None:
    """Pings from h1 that need no answer."""
    subprocess.run(world.inside("h1", *command.split()), capture_output=True, check=False, timeout=30)


def balance(stats: dict[str, Any]) -> tuple[int, int]:
    """Frames that came in, and what became of them, where nothing is flooded."""
    ports = stats["ports"].values()
    came = sum(port["received_packets"] for port in ports)
    left = sum(port["sent_packets"] + port["send_errors"] for port in ports)
    dropped = sum(way["drops"] for link in stats["links"].values() for way in link.values())
    filtered = sum(switch["filtered_packets"] for switch in stats["switches"].values())
    return came, left + dropped + filtered + stats["inside_packets"]


@pytest.mark.parametrize(
    ("switches", "payload_bytes", "computed_ns"),
    [(0, 1472, 244_160), (1, 1472, 488_320), (2, 1472, 732_480), (1, 1500, 502_080), (1, 18, 23_040)],
)
def test_no_echo_is_faster_than_its_serialisation(
    plain_world: World, switches: int, payload_bytes: int, computed_ns: int
) -> None:
    switch = started(plain_world, switches)
    rtts_ns = worlds.ping_rtts_ns(plain_world, count=15, interval_s=0.01, payload_bytes=payload_bytes)
    assert len(rtts_ns) == 15
    assert min(rtts_ns) >= computed_ns - 1000  # ping prints three digits
    assert min(rtts_ns) <= computed_ns + 20_000_000
    came, went = balance(switch.ask("stats"))
    assert came == went > 0


def test_the_same_switch_works_for_root_and_in_a_private_user_namespace(world: World) -> None:
    switch = started(world, 1)
    assert len(worlds.ping_rtts_ns(world, count=5, interval_s=0.01, payload_bytes=56)) == 5
    stats = switch.ask("stats")
    assert stats["ports"]["h1.up"]["received_packets"] == stats["ports"]["h2.up"]["sent_packets"] == 5
    assert stats["links"]["l0"]["ab"]["bytes"] == 5 * 98
    assert stats["lateness"]["count"] == 10
    assert stats["switches"]["s1"] == {"flooded_packets": 0, "filtered_packets": 0}


def test_a_switch_that_knows_no_station_floods_and_learns(plain_world: World) -> None:
    switch = started(plain_world, 2, forwarding={})
    for count in (1, 2):  # the first is answered before another is sent
        worlds.ping_rtts_ns(plain_world, count=count, interval_s=0.01, payload_bytes=56)
    stats = switch.ask("stats")
    assert [stats["switches"][name]["flooded_packets"] for name in ("s1", "s2")] == [1, 1]


def test_a_tag_of_a_virtual_lan_passes_untouched(plain_world: World) -> None:
    switch = started(plain_world, 2)
    receiver = subprocess.Popen(
        worlds.python_inside(plain_world, "h2", RECEIVE), stdout=subprocess.PIPE, text=True
    )
    assert receiver.stdout is not None
    assert receiver.stdout.readline() == "ready\n"
    addresses = "".join(HOSTS[name][1] for name in ("h2", "h1")).replace(":", "")
    payload = bytes(range(1, 101)).hex()
    frame = addresses + "8100607b88b5" + payload
    subprocess.run(worlds.python_inside(plain_world, "h1", SEND, frame), check=True, timeout=30)
    tag, data = receiver.communicate(timeout=20)[0].split()
    assert int(tag) == 0x607B
    assert data == addresses + "88b5" + payload
    assert switch.ask("stats")["links"]["l1"]["ab"]["bytes"] == 118


def test_offloads_left_on_are_counted_and_their_frames_kept_from_the_wire(plain_world: World) -> None:
    switch = started(plain_world, 1)
    plain_world.run("h1", "ethtool -K eth0 tx on")
    connect = "import socket; socket.create_connection(('10.0.0.2', 9), timeout=0.5)"
    subprocess.run(
        worlds.python_inside(plain_world, "h1", connect), capture_output=True, check=False, timeout=30
    )
    plain_world.run("fabric", "ip link set p1 mtu 9000")
    plain_world.run("h1", "ip link set eth0 mtu 9000")
    ping_in_vain(plain_world, f"ping -c 1 -W 1 -s 4000 {HOSTS['h2'][0]}")
    port = switch.ask("stats")["ports"]["h1.up"]
    assert port["bad_checksum"] >= 1
    assert port["oversize"] == 1


def test_a_full_queue_drops_at_its_tail_and_says_so(plain_world: World) -> None:
    switch = started(plain_world, 1, links=line_layout(1, limit_packets=4)["links"])
    ping_in_vain(plain_world, f"ping -c 1 -W 1 -s 30000 {HOSTS['h2'][0]}")
    stats = switch.ask("stats")
    first = stats["links"]["l0"]["ab"]
    assert first["drops"] == first["drops_by_reason"]["packet_limit"] > 0
    assert first["backlog_max_packets"] == 4
    assert balance(stats) == (21, 21)


@pytest.mark.parametrize(
    "queue",
    [
        {"kind": "sfq"},
        {"kind": "codel"},
        {"kind": "fq_codel", "parameters": {"ecn": True}},
        {"kind": "pie", "parameters": {"ecn": True}},
        {"kind": "tbf", "parameters": {"rate_bit_per_s": 20_000_000, "burst_bytes": 1600}},
        {"kind": "htb", "parameters": {"rate_bit_per_s": 20_000_000}},
        {"kind": "hfsc", "parameters": {"m2_bit_per_s": 20_000_000}},
    ],
    ids=lambda queue: str(queue["kind"]),
)
def test_every_discipline_carries_real_packets(plain_world: World, queue: dict[str, Any]) -> None:
    links = line_layout(1)["links"]
    links["l0"]["queue"] = {"ab": queue, "ba": queue}
    switch = started(plain_world, 1, links=links)
    rtts_ns = worlds.ping_rtts_ns(plain_world, count=5, interval_s=0.02, payload_bytes=4000)
    assert len(rtts_ns) == 5
    # Three fragments (1514, 1514, 1082 B) each way: the last is serialised twice, at 100 Mbit/s.
    assert min(rtts_ns) >= 2 * (2 * 123_040 + 2 * 87_520)
    came, went = balance(switch.ask("stats"))
    assert came == went == 30


def test_it_says_which_disciplines_it_plays(plain_world: World) -> None:
    hello = plain_world.switch().ask("hello", protocol=[1, 0])
    assert {"fifo", "sfq", "codel", "fq_codel", "pie", "tbf", "htb", "hfsc"} <= set(hello["capabilities"])


def test_counters_begin_at_zero_after_reset_and_start(plain_world: World) -> None:
    switch = started(plain_world, 1)
    worlds.ping_rtts_ns(plain_world, count=3, interval_s=0.01, payload_bytes=56)
    switch.ask("reset")
    stats = switch.ask("stats")
    assert stats["links"]["l0"]["ab"]["packets"] == stats["ports"]["h2.up"]["sent_packets"] == 0
    assert stats["lateness"] == {"count": 0, "over_200_us": 0}
    switch.ask("stop")
    ping_in_vain(plain_world, f"ping -c 2 -i 0.1 -W 1 {HOSTS['h2'][0]}")
    switch.ask("start")
    assert switch.ask("stats")["ports"]["h1.up"]["received_packets"] == 0
    assert len(worlds.ping_rtts_ns(plain_world, count=2, interval_s=0.01, payload_bytes=56)) == 2


def test_nothing_wakes_it_while_no_frame_comes(plain_world: World) -> None:
    switch = started(plain_world, 1)
    switch.ask("reset")
    time.sleep(0.5)
    stats = switch.ask("stats")
    assert stats["sleeps"] <= 3, (
        "one that the question ended, and what the kernels of its guests said of themselves"
    )
    assert stats["standstills"] == 0
    assert stats["cpu_ns"] < 100_000_000


def test_a_stopped_switch_ignores_frames_and_uses_no_processor_time_for_them(plain_world: World) -> None:
    switch = started(plain_world, 1)
    switch.ask("stop")
    switch.ask("reset")
    ping_in_vain(plain_world, f"ping -c 2 -i 0.05 -W 1 {HOSTS['h2'][0]}")
    stats = switch.ask("stats")
    assert stats["ports"]["h1.up"]["received_packets"] == 0
    assert not stats["running"]
    assert stats["cpu_ns"] < 50_000_000


def test_a_recording_holds_arrivals_and_computed_departures(plain_world: World) -> None:
    switch = started(plain_world, 1)
    switch.ask("record", frames=10)
    worlds.ping_rtts_ns(plain_world, count=1, interval_s=0.01, payload_bytes=1472)
    recorded = switch.ask("recorded")
    assert recorded["ports"] == ["h1.up", "h2.up"]
    assert [arrival[0] for arrival in recorded["arrivals"]] == [0, 1]
    for (_, arrived, captured, *_), departure in zip(
        recorded["arrivals"], recorded["departures"], strict=True
    ):
        assert captured == 1514
        assert departure[1] - arrived == 2 * 122_080
        assert departure[3] == arrived


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"ports": {"h1.up": {"ifname": "absent"}, "h2.up": {"ifname": "p2"}}}, "no interface 'absent'"),
        ({"mtu_bytes": 20}, "mtu_bytes"),
        ({"colour": "blue"}, "colour"),
        ({"spin": "sometimes"}, "sometimes"),
        ({"spin": "always", "fifo_priority": 10}, "SCHED_FIFO"),
        ({"cpu": 1_000_000}, "cpu"),
        ({"links": {"l": {"ends": ["h1.up", "h2.up"], "rate_bit_per_s": 0}}}, "links.l.rate_bit_per_s"),
        ({"forwarding": {"s1": {"02:00:00:00:00:01": "s9.p1"}}}, "s9.p1"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(
    plain_world: World, change: dict[str, Any], says: str
) -> None:
    ports = worlds.two_hosts(plain_world)
    switch = plain_world.switch()
    with pytest.raises(SwitchError, match=says):
        switch.ask("configure", **{"ports": ports, **line_layout(1), **change})
    switch.ask("configure", ports=ports, **line_layout(1))


def test_a_loop_is_refused(plain_world: World) -> None:
    ports = worlds.two_hosts(plain_world)
    layout = line_layout(2)
    layout["links"]["again"] = {"ends": ["s1.p3", "s2.p3"], "rate_bit_per_s": 100_000_000}
    with pytest.raises(SwitchError, match="loop"):
        plain_world.switch().ask("configure", ports=ports, **layout)


def test_it_ends_with_its_control_stream() -> None:
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        [str(worlds.AGENT), "switch", "--control-fd", str(theirs.fileno())], pass_fds=[theirs.fileno()]
    )
    theirs.close()
    conversation = Conversation(ours)
    hello = conversation.ask("hello", protocol=[1, 0])
    assert hello["role"] == "switch"
    with pytest.raises(SwitchError, match=r"protocol 9\.0"):
        conversation.ask("hello", protocol=[9, 0])
    with pytest.raises(SwitchError, match="configure comes before"):
        conversation.ask("start")
    ours.close()
    assert process.wait(timeout=60) == 0


def test_nonsense_on_the_control_stream_is_survived() -> None:
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        [str(worlds.AGENT), "switch", "--control-fd", str(theirs.fileno())], pass_fds=[theirs.fileno()]
    )
    theirs.close()
    ours.sendall(
        b"Welcome!\n" + worlds.control_frame(b"no json") + worlds.control_frame(json.dumps([1]).encode())
    )
    conversation = Conversation(ours)
    assert conversation.ask("clock")["raw_ns"] > 0
    assert conversation.ask("bye") == {}
    assert process.wait(timeout=60) == 0
