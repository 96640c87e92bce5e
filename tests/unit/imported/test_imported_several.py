"""Outputs of several tests, of traffic both ways, and of a side that does not know: refused, not guessed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from virtlab.imported.output import UnreadableError
from virtlab.imported.readers import read

GOLDEN = Path(__file__).parents[2] / "golden" / "imported"
# One test each; what `>>` makes of two of them was read as one of them, silently.
ONE_TEST = (
    "iperf2-tcp.txt",
    "iperf2-udp.txt",
    "iperf3-tcp.txt",
    "iperf3-udp.txt",
    "netperf-omni.txt",
    "netperf-tcp-rr.txt",
    "netperf-tcp-stream.txt",
    "netperf-udp-stream.txt",
    "ping-windows.txt",
    "psping-icmp.txt",
    "psping-latency.txt",
    "psping-bandwidth.txt",
)
CLIENT = """\
------------------------------------------------------------
Client connecting to 10.0.0.2, TCP port 5001
TCP window size: 16.0 KByte (default)
------------------------------------------------------------
"""


def text(name: str) -> str:
    return (GOLDEN / name).read_text(encoding="utf-8")


def summed(output: str) -> dict[str, float]:
    return {f"{one.metric}.{one.statistic}": one.value for one in read(output).summaries}


@pytest.mark.parametrize("name", ONE_TEST)
def test_two_tests_in_one_file_are_refused_at_the_second(name: str) -> None:
    one = text(name)
    with pytest.raises(UnreadableError, match="holds several") as caught:
        read(one + one)
    assert caught.value.line > len(one.splitlines())


def test_a_ping_without_any_reply_before_another_is_not_lost() -> None:
    dead = "PING 10.0.0.9 (10.0.0.9) 56(84) bytes of data.\n\n3 packets transmitted, 0 received, 100% packet loss\n"
    with pytest.raises(UnreadableError, match="several runs of ping"):
        read(dead + text("ping.txt"))


def test_iperf_2_both_ways_at_once_is_no_one_stream() -> None:
    rows = """\
[  1] local 10.0.0.1 port 41612 connected with 10.0.0.2 port 5001 (full-duplex)
[ ID] Interval       Transfer     Bandwidth
[  1] 0.0000-2.0002 sec  1.42 GBytes  6.09 Gbits/sec
[ *1] 0.0000-2.0000 sec   835 MBytes  3.50 Gbits/sec
[SUM] 0.0000-2.0028 sec  2.23 GBytes  9.58 Gbits/sec
"""
    with pytest.raises(UnreadableError, match="both ways") as caught:
        read(CLIENT + rows)
    assert caught.value.line == 5
    csv = "20261121172945,10.0.0.1,38708,10.0.0.2,5001,1,0.0-2.0,2588409916,10353484361\n"
    back = "20261121172945,10.0.0.1,5001,::,0,1,0.0-2.0,847249408,3383146480\n"
    assert summed(csv) == {"goodput.mean": 10353484361}
    with pytest.raises(UnreadableError, match="holds 2 tests"):
        read(csv + back)


def test_iperf_2_in_both_roles_is_two_tests() -> None:
    with pytest.raises(UnreadableError, match="in turn"):
        read(text("iperf2-tcp.txt") + "Server listening on TCP port 5001\n")


def test_iperf_2_back_to_the_client_is_what_the_client_received() -> None:
    rows = """\
[  1] local 10.0.0.1 port 43778 connected with 10.0.0.2 port 5001 (reverse)
[ ID] Interval       Transfer     Bandwidth
[ *1] 0.0000-1.0000 sec   900 MBytes  7.55 Gbits/sec
[ *1] 0.0000-2.0129 sec  1.71 GBytes  7.30 Gbits/sec
"""
    output = read(CLIENT + rows)
    assert [one.value for one in output.summaries] == [7.3e9]
    assert "of" not in output.facts, "it is said to be what the client wrote"
    server = read("Server listening on TCP port 5001\n" + rows.replace("*", " "))
    assert "server wrote" in server.facts["of"]
    udp = rows.replace("7.30 Gbits/sec", "5.00 Mbits/sec   0.002 ms 10/100 (10%)").replace("GBytes", "MBytes")
    assert summed(CLIENT.replace("TCP", "UDP") + udp)["loss.ratio"] == 0.1


def test_iperf_2_with_its_sum_alone_and_in_bytes() -> None:
    rows = "[SUM-2] 0.0000-2.0046 sec  6.37 GBytes  27.3 Gbits/sec\n"
    assert summed(CLIENT + rows) == {"goodput.mean": 27.3e9}
    rows = "[  1] 0.0000-2.0020 sec  3819 MBytes  1908 MBytes/sec\n"
    assert summed(CLIENT + rows) == {"goodput.mean": 1908 * 8 * 2**20}


def test_iperf3_in_bytes_counts_them_in_powers_of_1024() -> None:
    row = "[  5]   0.00-2.00   sec  1958 MBytes   979 MBytes/sec                  receiver\n"
    assert summed("Connecting to host 10.0.0.2, port 5201\n" + row) == {"goodput.mean": 979 * 8 * 2**20}


def test_a_server_of_iperf3_tells_what_it_received_and_nothing_of_the_other_side() -> None:
    report: dict[str, Any] = json.loads(text("iperf3-udp.json"))
    del report["start"]["connecting_to"]
    report["start"]["accepted_connection"] = {"host": "10.0.0.1", "port": 48788}
    report["end"]["sum_sent"] = {"bytes": 0, "bits_per_second": 0, "packets": 0, "sender": True}
    output = summed(json.dumps(report))
    assert output["goodput.mean"] > 0
    assert "achieved_load.mean" not in output, "the server's 0 is taken for what was sent"
    report["start"]["test_start"]["reverse"] = 1
    with pytest.raises(UnreadableError, match="server that sent"):
        read(json.dumps(report))


def test_what_a_server_of_iperf3_said_of_the_same_test_is_no_second_one() -> None:
    one = text("iperf3-tcp.txt")
    rows = "".join(line + "\n" for line in one.splitlines() if "receiver" in line)
    assert summed(one + "\nServer output:\n" + rows) == summed(one)


def test_iperf3_over_another_protocol_is_no_stream_of_tcp() -> None:
    report: dict[str, Any] = json.loads(text("iperf3-tcp.json"))
    report["start"]["test_start"]["protocol"] = "SCTP"
    with pytest.raises(UnreadableError, match="SCTP"):
        read(json.dumps(report))


def test_sadf_of_networks_or_memory_alone_is_recognised() -> None:
    report: dict[str, Any] = json.loads(text("sadf.json"))
    for one in report["sysstat"]["hosts"][0]["statistics"]:
        one.pop("cpu-load", None)
        one["memory"] = {"memused": 1024}
    output = read(json.dumps(report))
    assert output.tool == "sar"
    assert {(each.entity, each.metric, each.value) for each in output.points if each.entity == "host"} == {
        ("host", "memory_used", float(1 << 20))
    }


@pytest.mark.parametrize(
    ("read_key", "written_key", "unit"),
    [("rMB/s", "wMB/s", 1 << 20), ("MB_read/s", "MB_wrtn/s", 1 << 20), ("rsec/s", "wsec/s", 512),
     ("Blk_read/s", "Blk_wrtn/s", 512)],
)  # fmt: skip
def test_iostat_in_whatever_unit_it_was_asked_for(read_key: str, written_key: str, unit: int) -> None:
    head = "Linux 6.1.0-amd64 (host) \t11/21/26 \t_x86_64_\t(2 CPU)\n"
    rows = f"\nDevice             tps    {read_key}    {written_key}\nvda              14.00         3.00        36.00\n"
    output = {(one.entity, one.metric): one.value for one in read(head + rows + rows).points}
    disks = {"host.vda", "host.disks"}
    assert output == {
        (disk, metric): size * unit
        for disk in disks
        for metric, size in (("disk_read", 3), ("disk_written", 36))
    }
