"""Outputs of other tools: what is read of them, and that what no tool wrote is refused with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from virtlab.catalogue import measuring
from virtlab.imported.output import ToolOutput, UnreadableError
from virtlab.imported.readers import READERS, read
from virtlab.metrics import METRICS

SAMPLES = Path(__file__).parents[2] / "golden" / "imported"
REFUSED = {"iperf2-udp.csv", "iperf2-tcp-server.txt", "sadf-cpu.csv"}


def text(name: str) -> str:
    return (SAMPLES / name).read_text()


def summed(name: str) -> dict[str, float]:
    return {f"{one.metric}.{one.statistic}": one.value for one in read(text(name)).summaries}


def points(name: str) -> dict[tuple[int, str, str], float]:
    return {(one.t_ns, one.entity, one.metric): one.value for one in read(text(name)).points}


@pytest.mark.parametrize("path", sorted(SAMPLES.iterdir()), ids=lambda path: path.name)
def test_every_sample_is_recognised_and_says_what_the_registry_knows(path: Path) -> None:
    if path.name in REFUSED:
        with pytest.raises(UnreadableError):
            read(path.read_text())
        return
    output = read(path.read_text())
    assert path.name.startswith((output.tool, {"sar": "sadf"}.get(output.tool, output.tool)))
    sound(output)
    assert output.summaries or output.blocks or output.points


def sound(output: ToolOutput) -> None:
    """Whatever is told is a number of a metric of the registry, for a workload that measures it."""
    for one in output.summaries:
        assert one.statistic in METRICS[one.metric].statistics
        assert set(output.workloads) <= set(measuring(one.metric)), one
        assert one.value >= 0
        assert one.samples >= 0
    for point in output.points:
        assert METRICS[point.metric].of == "entity"
        assert point.value >= 0
        assert point.t_ns >= 0
    for columns in output.blocks.values():
        assert len({len(values) for values in columns.values()}) == 1
        assert all(-(2**62) < value < 2**62 for values in columns.values() for value in values)


def test_ping_gives_round_trips_and_how_many_were_sent() -> None:
    output = read(text("ping.txt"))
    rows = output.blocks["rtt/1"]
    assert rows["rtt_ns"][:3] == [12_000, 19_000, 18_000]
    assert rows["seq"] == list(range(1, 9))
    assert set(rows["path_rtt_ns"]) == {-1}
    assert output.counters == {"sent_packets": 8, "duplicate_packets": 0}
    assert (output.facts["payload_bytes"], output.facts["ip_packet_bytes"]) == (100, 128)
    assert "no instants" in output.clock


def test_ping_with_stamps_has_instants() -> None:
    rows = read(text("ping-stamped.txt")).blocks["rtt/1"]
    assert rows["received_ns"][0] == 0
    assert 50_000_000 < rows["received_ns"][1] < 70_000_000
    assert [b - a for a, b in zip(rows["sent_ns"], rows["received_ns"], strict=True)] == rows["rtt_ns"]


def test_less_than_a_millisecond_is_no_number() -> None:
    output = read(text("ping-windows.txt"))
    assert output.blocks == {}
    assert summed("ping-windows.txt") == {"loss.ratio": 0.25}
    assert output.facts["coarse_replies"] == 1


def test_what_a_router_wrote_is_no_reply_though_windows_counts_it() -> None:
    lines = (
        text("ping-windows.txt")
        .replace("time<1ms", "time=1ms")
        .replace("Received = 3, Lost = 1 (25%", "Received = 4, Lost = 0 (0%")
    )
    output = read(lines.replace("Request timed out.", "Reply from 10.0.0.9: Destination host unreachable."))
    assert (len(output.blocks["rtt/1"]["seq"]), output.counters["sent_packets"]) == (3, 4)
    with pytest.raises(UnreadableError, match="a part is missing"):
        read(lines)


def test_sequence_numbers_that_begin_again_are_of_later_requests() -> None:
    seqs = (65534, 65535, 1, 0, 2)
    lines = [f"64 bytes from 10.0.0.2: icmp_seq={seq} ttl=64 time=0.1 ms" for seq in seqs]
    head, end = (
        "PING 10.0.0.2 (10.0.0.2) 56(84) bytes of data.",
        "65541 packets transmitted, 5 received, 99% packet loss",
    )
    rows = read("\n".join([head, *lines, end])).blocks["rtt/1"]
    assert rows["seq"] == [65534, 65535, 65537, 65536, 65538]
    late = [*lines[:1], lines[3], lines[1], lines[2]]
    assert read("\n".join([head, *late, end.replace("5 rec", "4 rec")])).blocks["rtt/1"]["seq"] == [
        65534,
        65536,
        65535,
        65537,
    ]


def test_duplicates_are_counted_and_are_no_samples() -> None:
    lines = text("ping.txt").splitlines()
    output = read("\n".join([*lines[:2], lines[1] + " (DUP!)", *lines[2:]]))
    assert len(output.blocks["rtt/1"]["seq"]) == 8
    assert output.counters["duplicate_packets"] == 1


def test_psping_tells_connections_round_trips_and_bytes_per_second() -> None:
    tcp = summed("psping-tcp.txt")
    assert tcp["connect_time.min"] == 490_000
    assert tcp["connect_time.median"] == 550_000
    assert tcp["loss.ratio"] == 0
    icmp = summed("psping-icmp.txt")
    assert icmp["loss.ratio"] == 0.25
    assert icmp["rtt.max"] == 350_000
    latency = summed("psping-latency.txt")
    assert (latency["rtt.min"], latency["rtt.mean"], latency["rtt.max"]) == (140_000, 210_000, 940_000)
    assert summed("psping-bandwidth.txt")["bandwidth.mean"] == 104.5 * 2**20


def test_iperf3_tells_what_the_receiver_got() -> None:
    output = read(text("iperf3-tcp.json"))
    values = summed("iperf3-tcp.json")
    assert values["goodput.mean"] == pytest.approx(4618774586.706)
    assert values["retransmits.total"] == 24
    assert sum(output.blocks["interval/1"]["sent_bytes"]) == 1735262208
    assert output.blocks["interval/1"]["srtt_ns"][0] == 215_000
    assert summed("iperf3-tcp-two.txt") == {"goodput.mean": 3.93e9, "retransmits.total": 0}
    assert summed("iperf3-tcp.txt") == {"goodput.mean": 5.39e9, "retransmits.total": 3}


def test_iperf3_tells_loss_and_jitter_of_datagrams() -> None:
    values = summed("iperf3-udp.json")
    assert values["jitter_rfc3550.final"] == pytest.approx(311_865.87, abs=0.01)
    assert values["goodput.mean"] == pytest.approx(5066892.83, abs=0.01)
    lossy = text("iperf3-udp.txt").replace("0.020 ms  0/58 (0%)", "0.020 ms  29/58 (50%)")
    found = {f"{one.metric}.{one.statistic}": one.value for one in read(lossy).summaries}
    assert found["loss.ratio"] == 0.5
    assert found["lost_rate.mean"] == found["goodput.mean"] == 5.07e6


def test_iperf2_tells_the_whole_test_and_not_an_interval() -> None:
    assert summed("iperf2-tcp.txt") == {"goodput.mean": 10.9e9}
    assert summed("iperf2-tcp.csv") == {"goodput.mean": 1921954800}
    assert summed("iperf2-udp-server.txt")["jitter_rfc3550.final"] == 3000
    assert summed("iperf2-udp.txt")["achieved_load.mean"] == 5.25e6


def test_a_report_that_did_not_arrive_is_no_number() -> None:
    with pytest.raises(UnreadableError, match="did not arrive") as caught:
        read(text("iperf2-udp.csv"))
    assert caught.value.line == 1
    with pytest.raises(UnreadableError, match="holds several tests"):
        read(text("iperf2-tcp-server.txt"))


def test_netperf_tells_streams_datagrams_and_transactions() -> None:
    stream = read(text("netperf-tcp-stream.txt"))
    assert summed("netperf-tcp-stream.txt") == {"goodput.mean": pytest.approx(93.87e6)}
    assert (stream.facts["message_bytes"], stream.facts["send_buffer_bytes"]) == (16384, 16384)
    datagrams = summed("netperf-udp-stream.txt")
    assert datagrams["loss.ratio"] == pytest.approx(0.1875)
    assert datagrams["goodput.mean"] == pytest.approx(956.8e6)
    assert datagrams["achieved_load.mean"] == pytest.approx(1177.6e6)
    rr = summed("netperf-tcp-rr.txt")
    assert rr == {"transaction_rate.mean": 5000, "transaction_time.mean": 200_000}
    omni = summed("netperf-omni.txt")
    assert (omni["transaction_rate.mean"], omni["transaction_time.p99"]) == (21500.4, 85_000)


def test_sar_tells_busy_stolen_and_interfaces() -> None:
    values = points("sar.txt")
    assert values[0, "host.cpu", "cpu"] == 1.0
    assert values[2_000_000_000, "host.cpu", "steal"] == pytest.approx(0.005)
    assert values[0, "host.eth0", "network_received"] == 0
    assert points("sar-plain.txt")[0, "host", "memory_used"] == 1_591_020 * 1024
    assert points("sadf.json")[1_000_000_000, "host.cpu", "cpu"] == 1.0


def test_iostat_is_without_its_report_since_boot() -> None:
    values = points("iostat.txt")
    assert {t_ns for t_ns, _, _ in values} == {1_000_000_000, 2_000_000_000}
    assert values[1_000_000_000, "host.vda", "disk_read"] == 728 * 1024
    assert values[1_000_000_000, "host.vda", "disk_read_time"] == 210_000
    assert (1_000_000_000, "host.vda", "disk_write_time") not in values, "no write has no time"
    assert points("iostat.json")[0, "host.vda", "disk_busy"] == pytest.approx(0.0356)


def test_hypervisors_tell_of_their_guests() -> None:
    xen = points("xentop.txt")
    assert xen == {
        (0, "domain-0", "cpu"): 0.075, (0, "domain-0", "memory_used"): 2**30, (0, "guests.web1", "cpu"): 1.5,
        (0, "guests.web1", "memory_used"): 2**29,
    }  # fmt: skip
    esx = points("esxtop.csv")
    assert esx[5_000_000_000, "host.cpu", "cpu"] == pytest.approx(0.3)
    assert esx[0, "guests.web1", "cpu"] == 1.5
    assert esx[0, "guests.web1", "run_queue_delay"] == 2e7
    assert esx[0, "guests.web1.eth0", "network_received"] == 94e6
    assert esx[0, "guests.web1.scsi0.0", "disk_read"] == 1.5 * 2**20
    vcenter = points("vcenter.csv")
    assert vcenter[0, "guests.web1", "cpu_share"] == pytest.approx(0.245)
    assert vcenter[20_000_000_000, "guests.web1", "cpu_share"] == pytest.approx(0.255)
    assert vcenter[20_000_000_000, "guests.web1", "run_queue_delay"] == 2e7
    assert vcenter[20_000_000_000, "guests.web1.4000", "network_received"] == 8 * 2**20


@pytest.mark.parametrize(
    ("name", "old", "new", "line", "what"),
    [
        ("ping.txt", "time=0.027 ms", "time=fast", 5, "without its time"),
        ("ping.txt", "8 packets transmitted", "3 packets transmitted", 12, "8 replies to 3"),
        ("ping.txt", "8 received", "7 received", 0, "a part is missing"),
        ("iperf3-tcp.json", '"sum_received"', '"sum_lost"', 0, "lacks 'sum_received'"),
        ("iperf3-tcp.json", "{", "[", 1, "is not an output"),
        ("iperf3-tcp.json", '"reverse":\t0', '"bidir":\t1', 0, "was run with --bidir"),
        ("iperf3-udp.txt", "0.020 ms  0/58", "0.020 ms  59/58", 10, "59 of 58"),
        ("netperf-tcp-stream.txt", "87380  16384  16384", "16384", 7, "five numbers"),
        ("netperf-tcp-rr.txt", "TCP REQUEST", "UDP REQUEST", 7, "no workload here"),
        ("sar.txt", "78.50      0.00", "78.50", 4, "6 values under 7"),
        ("xentop.txt", "150.0     524288", "524288", 6, "18 values under 19"),
        ("esxtop.csv", '"12.5","20.0",', '"12.5",', 2, "7 values under 8"),
        ("esxtop.csv", "01/31/2024 10:00:10", "yesterday", 3, "not an instant"),
        ("vcenter.csv", '"400"', '"much"', 5, "is not a number"),
        ("vcenter.csv", '"MetricId"', '"Metric"', 0, "is not an output"),
    ],
)
def test_a_mistake_is_told_with_its_line(name: str, old: str, new: str, line: int, what: str) -> None:
    broken = text(name).replace(old, new, 1)
    assert broken != text(name)
    with pytest.raises(UnreadableError) as caught:
        read(broken)
    assert what in caught.value.what
    assert caught.value.line == (0 if "is not an output" in what else line)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
@pytest.mark.parametrize("tool", list(READERS))
def test_whatever_stands_in_a_file_is_read_soundly_or_refused(tool: str, data: st.DataObject) -> None:
    names = sorted(
        path.name
        for path in SAMPLES.iterdir()
        if path.name.startswith((tool, "sadf" if tool == "sar" else tool))
    )
    whole = text(data.draw(st.sampled_from(names)))
    at = data.draw(st.integers(0, len(whole)))
    length = data.draw(st.integers(0, 40))
    instead = data.draw(
        st.one_of(
            st.text(max_size=20), st.sampled_from(["-1", "nan", "1e999", ",,", "\n", "9" * 40, "{", "]"])
        )
    )
    broken = whole[:at] + instead + whole[at + length :]
    output, error = attempt(broken, tool)
    if output is not None:
        sound(output)
    else:
        assert error is not None
        assert error.what
        assert 0 <= error.line <= broken.count("\n") + 2


def attempt(content: str, tool: str | None) -> tuple[ToolOutput | None, UnreadableError | None]:
    """What is read, or how it is refused; anything else is a mistake of ours."""
    try:
        return read(content, tool), None
    except UnreadableError as error:
        return None, error


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200), st.sampled_from([None, *READERS]))
def test_any_text_is_refused_or_read(content: str, tool: str | None) -> None:
    output, error = attempt(content, tool)
    assert (output is None) != (error is None)
    if output is not None:
        sound(output)


def test_virt_top_tells_domains_from_their_second_sample_by_the_exact_time_between() -> None:
    """16 processors, of which app1 had a quarter: 12.012012 s of 3.003003 s, more than the seconds of the clock."""
    told = points("virt-top.csv")
    assert told[3_000_000_000, "guests.app1", "cpu"] == pytest.approx(4)
    assert told[3_000_000_000, "guests.app1", "disk_written"] == pytest.approx(30_030_000 / 3.003003)
    assert told[3_000_000_000, "guests.app2", "network_sent"] == pytest.approx(750_750 * 8 / 3.003003)
    assert told[6_000_000_000, "guests.app1", "disk_written"] == pytest.approx(8e6)
    assert {entity for _, entity, _ in told} == {"guests.app1", "guests.app2"}, "app3 was there once"
    assert all("host" in note for note in read(text("virt-top.csv")).notes)


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        (",4096,15015000,", ",15015000,", 3, "a domain lacks some"),
        (",2,app2,6006006000.", ",2,,6006006000.", 3, "without a name"),
        ("30030000", "many", 3, "WRBY"),
        ("19:50:05", "ten to eight", 3, "not an instant"),
        ("Domain ID,Domain name", "ID,Domain name", 1, "headings"),
    ],
)
def test_what_virt_top_cannot_have_written_is_refused_with_its_line(
    old: str, new: str, line: int, what: str
) -> None:
    whole = text("virt-top.csv")
    assert old in whole
    with pytest.raises(UnreadableError) as found:
        read(whole.replace(old, new, 1))
    assert (found.value.line, what in str(found.value)) == (line, True), str(found.value)


@pytest.mark.parametrize("first", ["a\rb", '"a', "a" * 200_000], ids=["return", "quote", "long"])
def test_a_first_line_that_no_tool_wrote_is_refused(first: str) -> None:
    with pytest.raises(UnreadableError, match="is not an output of"):
        read(f"{first}\n1,2\n")
