"""Layouts that tools really write, by version and option: the numbers are ours, the columns and words theirs."""

from __future__ import annotations

import pytest

from virtlab.imported.output import ToolOutput, UnreadableError
from virtlab.imported.readers import read

XENTOP_HEAD = (
    "      NAME  STATE   CPU(sec) CPU(%)     MEM(k) MEM(%)  MAXMEM(k) MAXMEM(%) VCPUS NETS NETTX(k) NETRX(k) "
    "VBDS   VBD_OO   VBD_RD   VBD_WR  VBD_RSECT  VBD_WSECT SSID"
)
XENTOP_REST = "    1    2   165109   866210    3        0   585552  2096100   20973752   32326786    0"


def xentop(*rows: str, head: str = XENTOP_HEAD) -> str:
    """Two iterations of the same rows."""
    return "\n".join([head, *rows, head, *rows]) + "\n"


def summed(text: str) -> dict[str, float]:
    return {f"{one.metric}.{one.statistic}": one.value for one in read(text).summaries}


def at(output: ToolOutput) -> dict[tuple[str, str], float]:
    return {(one.entity, one.metric): one.value for one in output.points}


def test_xentop_with_full_names_networks_processors_and_disks() -> None:
    output = read(
        xentop(
            "  Domain-0 -----r      18423    3.5     523912    8.3   no limit       n/a" + XENTOP_REST,
            "VCPUs(sec):   0:      11586s   1:          1s",
            "BB - backup2 --b---      11235   62.5    3145728    4.7    3145728       4.7" + XENTOP_REST,
            "VCPUs(sec):   0:      11235s",
            "Net0 RX: 482159350480bytes 484063974pkts        0err        0drop  TX: 107249393069bytes 34227pkts 0err 0drop",
            "VBD BlkBack 51713 [ca: 1]  OO:        0   RD:       85   WR:        1  RSECT:       1870  WSECT:          2",
        )
    )
    found = at(output)
    assert found["guests.BB - backup2", "cpu"] == pytest.approx(0.625)
    assert found["guests.BB - backup2", "memory_used"] == 3_145_728 * 1024
    assert found["domain-0", "cpu"] == pytest.approx(0.035)
    assert len(output.points) == 4


def test_xentop_of_an_older_version_with_fewer_columns() -> None:
    head = "      NAME  STATE   CPU(sec) CPU(%)     MEM(k) MEM(%)  MAXMEM(k) MAXMEM(%)"
    output = read(
        xentop("    vm2057 --b---         54  127.3     262144    1.0     262144       1.0", head=head)
    )
    assert at(output)["guests.vm2057", "cpu"] == pytest.approx(1.273)


def test_a_line_of_xentop_that_is_no_domain_is_told_with_its_number() -> None:
    with pytest.raises(UnreadableError, match="not a line of a domain") as caught:
        read(xentop("what is this doing here, among the domains"))
    assert caught.value.line == 2


NETPERF = (
    "MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 10.0.0.2 () port 0 AF_INET : demo\n"
)


def test_netperf_with_interim_results_of_its_demo_mode() -> None:
    text = NETPERF + (
        "Interim result:  128.46 10^6bits/s over 1.064 seconds ending at 1377579676.901\n"
        "Interim result:   94.10 10^6bits/s over 1.000 seconds ending at 1377579677.901\n"
        "Recv   Send    Send                          \n"
        "Socket Socket  Message  Elapsed              \n"
        "Size   Size    Size     Time     Throughput  \n"
        "bytes  bytes   bytes    secs.    10^6bits/sec  \n\n"
        " 87380  16384    256    10.02      93.87   \n"
    )
    assert summed(text) == {"goodput.mean": pytest.approx(93.87e6)}
    assert read(text).facts["message_bytes"] == 256


def test_netperf_with_utilisation_of_both_ends() -> None:
    text = NETPERF.replace(" : demo", "") + (
        "Recv   Send    Send                          Utilization       Service Demand\n"
        "Socket Socket  Message  Elapsed              Send     Recv     Send    Recv\n"
        "Size   Size    Size     Time     Throughput  local    remote   local   remote\n"
        "bytes  bytes   bytes    secs.    10^6bits/s  % S      % S      us/KB   us/KB\n\n"
        " 87380  16384  16384    10.00        94.13   3.33     -1.00    0.393   -1.000\n"
    )
    assert summed(text) == {"goodput.mean": pytest.approx(94.13e6)}


def test_netperf_omni_as_csv_with_latencies() -> None:
    text = (
        "MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 10.0.0.2 () port 20005 AF_INET : "
        "histogram\n"
        "Throughput,Throughput Units,50th Percentile Latency Microseconds,90th Percentile Latency Microseconds,"
        "99th Percentile Latency Microseconds,Stddev Latency Microseconds,Minimum Latency Microseconds,"
        "Maximum Latency Microseconds,Confidence Iterations Run,Throughput Confidence Width (%)\n"
        "6298.50,Trans/s,150,201,390,61.27,101,2906,1,-1.000\n"
    )
    found = summed(text)
    assert found["transaction_rate.mean"] == 6298.5
    assert found["transaction_time.median"] == 150_000
    assert found["transaction_time.max"] == 2_906_000
    assert read(text).workloads == ("tcp_rr",)


@pytest.mark.parametrize("test", ["TCP STREAM", "UDP STREAM"])
def test_netperf_omni_as_csv_of_a_stream(test: str) -> None:
    text = NETPERF.replace("TCP STREAM", test) + "Throughput,Throughput Units\n93.5,10^6bits/s\n"
    assert summed(text) == {"goodput.mean": pytest.approx(93.5e6)}
    assert read(text).workloads == ("tcp_stream" if test.startswith("TCP") else "udp_stream",)


NETPERF_UDP = NETPERF.replace("TCP STREAM", "UDP STREAM")


def test_netperf_omni_over_udp_tells_what_came_and_loss_where_both_ends_were_asked() -> None:
    text = NETPERF_UDP + "THROUGHPUT=956.80\nTHROUGHPUT_UNITS=10^6bits/s\n"
    output = read(text)
    assert summed(text) == {"goodput.mean": 956.8e6}
    assert output.notes == ["no loss: add LOCAL_SEND_CALLS and REMOTE_RECV_CALLS to -k or -o"]
    text += "LOCAL_SEND_THROUGHPUT=1177.60\nLOCAL_SEND_CALLS=1000000\nREMOTE_RECV_CALLS=812500\n"
    assert summed(text) == {
        "goodput.mean": 956.8e6, "achieved_load.mean": pytest.approx(1177.6e6), "loss.ratio": pytest.approx(0.1875),
        "lost_rate.mean": pytest.approx(220.8e6),
    }  # fmt: skip
    assert read(text).notes == []
    received = (
        "OMNI Receive TEST from 0.0.0.0 () port 0 AF_INET to 10.0.0.2 () port 0 AF_INET : demo\n"
        "Throughput,Throughput Units,Protocol,Local Send Calls,Local Recv Calls,Remote Send Calls,Remote Recv Calls\n"
        "75.0,10^6bits/s,UDP,0,75,100,0\n"
    )
    assert summed(received)["loss.ratio"] == 0.25


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (NETPERF_UDP.replace("demo", "no control : demo") + "THROUGHPUT=9\nTHROUGHPUT_UNITS=10^6bits/s\n", "-N"),
        (NETPERF_UDP + "THROUGHPUT=9\nTHROUGHPUT_UNITS=10^6bits/s\nREMOTE_RECV_CALLS=0\n", "-N"),
        (
            NETPERF.replace(" : demo", " : no control")
            + "Throughput  \n10^6bits/sec  \n\n 87380  16384  16384    10.00      93.87   \n",
            "-N",
        ),
        (NETPERF_UDP + "THROUGHPUT=9\nTHROUGHPUT_UNITS=10^6bits/s\nLOCAL_SEND_CALLS=1\nREMOTE_RECV_CALLS=2\n", "2 of 1"),
        ("THROUGHPUT=93.5\nTHROUGHPUT_UNITS=10^6bits/s\n", "whether it was TCP or UDP"),
        ("THROUGHPUT=9\nTHROUGHPUT_UNITS=10^6bits/s\nPROTOCOL=TCP\nDIRECTION=Send|Recv\n", "both ways"),
        ("THROUGHPUT=9\nTHROUGHPUT_UNITS=Trans/s\nPROTOCOL=TCP\nDIRECTION=Connect|Send|Recv\n", "no workload"),
        (NETPERF.replace("STREAM", "Connect/Request/Response") + "THROUGHPUT=9\nTHROUGHPUT_UNITS=Trans/s\n", "no workload"),
        (
            NETPERF.replace("STREAM", "REQUEST/RESPONSE")
            + "Throughput \n10^6bits/sec   \n\n16384  87380  1        1       10.00    0.40   \n16384  87380\n",
            "both ways",
        ),
    ],
)  # fmt: skip
def test_netperf_that_counted_something_else_is_refused(text: str, what: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        read(text)
    assert what in caught.value.what


def test_netperf_with_a_burst_has_several_transactions_on_their_way_at_once() -> None:
    text = (
        NETPERF.replace("STREAM", "REQUEST/RESPONSE").replace("\n", " : first burst 3\n")
        + "bytes  Bytes  bytes    bytes   secs.    per sec   \n\n16384  87380  1  1  10.00    20000.00\n16384  87380\n"
    )
    assert summed(text) == {"transaction_rate.mean": 20_000, "transaction_time.mean": pytest.approx(200_000)}


@pytest.mark.parametrize(("unit", "bits"), [("10^0bits", 1), ("GBytes", 8 * 2**30), ("Bytes", 8)])
def test_netperf_in_whatever_unit_it_was_asked_for(unit: str, bits: int) -> None:
    assert summed(NETPERF + f"THROUGHPUT=2\nTHROUGHPUT_UNITS={unit}/s\n") == {"goodput.mean": 2 * bits}
    table = f"Throughput  \n{unit}/sec  \n\n 87380  16384  16384    10.00      2.00   \n"
    assert summed(NETPERF + table) == {"goodput.mean": 2 * bits}


def test_netperf_omni_as_csv_that_ends_early_is_refused_with_its_line() -> None:
    with pytest.raises(UnreadableError, match="has 1 values under 2 names") as caught:
        read(NETPERF + "Throughput,Throughput Units\n93.5\n")
    assert caught.value.line == 3


PSPING = (
    "PsPing v{} - PsPing - ping, latency, bandwidth measurement utility\nCopyright (C) {} Mark Russinovich\n"
)
PSPING_HEADS = {"2.01": PSPING.format("2.01", "2012-2014"), "2.10": PSPING.format("2.10", "2012-2016")}
PSPING_STATISTICS = (
    "\nTCP connect statistics for 10.20.0.5:80:\n"
    "  Sent = 3, Received = 3, Lost = 0 (0% loss),\n  Minimum = 3.44ms, Maximum = 4.81ms, Average = 4.01ms\n"
)


@pytest.mark.parametrize("version", PSPING_HEADS)
def test_psping_until_it_is_stopped_in_both_of_its_versions(version: str) -> None:
    source = "" if version == "2.01" else " from 10.20.0.4:4995{}:"
    lines = "\r\n".join(
        f"Connecting to 10.20.0.5:80{' (warmup)' if number == 0 else ''}:{source.format(number)} {time}ms"
        for number, time in enumerate(("6.21", "3.79", "3.44", "4.81"))
    )
    text = PSPING_HEADS[version] + "Sysinternals - www.sysinternals.com\n\nTCP connect to 10.20.0.5:80:\n"
    text += "Infinite iterations (warmup 1) connecting test:\n" + lines + PSPING_STATISTICS
    found = summed(text)
    assert (found["connect_time.min"], found["connect_time.max"]) == (3_440_000, 4_810_000)
    assert found["loss.ratio"] == 0


def test_esxtop_of_a_host_whose_columns_are_mostly_of_no_interest() -> None:
    columns = [
        "(PDH-CSV 4.0) (UTC)(0)", r"\\dl360-esx1\Physical Cpu Load\Cpu Load (1 Minute Avg)",
        r"\\dl360-esx1\Physical Cpu(_Total)\% Core Util Time", r"\\dl360-esx1\Physical Cpu(_Total)\% Util Time",
        r"\\dl360-esx1\Vcpu(52311:web1:52317:vmx-vcpu-0:web1)\% Ready", r"\\dl360-esx1\Group Cpu(52311:web, one)\% Ready",
        r"\\dl360-esx1\Interrupt Vector(0x21)\Total Interrupts/sec",
    ]  # fmt: skip
    rows = [["05/15/2018 02:13:06", "0.81", "2.28", "1.21", "0.10", "4.00", "13"]]
    rows.append(["05/15/2018 02:13:11", "0.80", "2.30", "1.25", "0.11", "", "12"])
    text = "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in [columns, *rows])
    output = read(text)
    points = {(one.t_ns, one.entity, one.metric): one.value for one in output.points}
    assert points[0, "host.cpu", "cpu"] == pytest.approx(0.0121)
    assert points[5 * 10**9, "host.cpu", "cpu"] == pytest.approx(0.0125)
    assert points[0, "guests.web, one", "run_queue_delay"] == pytest.approx(4e7)
    assert len(output.points) == 3, "an empty cell is missing, not zero"


VCENTER = {
    "windows": (
        "#TYPE VMware.VimAutomation.ViCore.Impl.V1.Stat.FloatSampleImpl\r\n"
        '"Value","Timestamp","MetricId","Unit","Description","Entity","EntityId","IntervalSecs","Instance","Uid"\r\n'
        '"31.5","15.05.2018 02:13:40","cpu.usage.average","%","a, b","web, one","VirtualMachine-vm-42","20","","/V=/x"\r\n'
        '"29.5","15.05.2018 02:13:20","cpu.usage.average","%","a, b","web, one","VirtualMachine-vm-42","20","","/V=/x"\r\n'
    ),
    "selected": (
        '"MetricID";"TimeStamp";"Value";"Entity"\n'
        "cpu.usage.average;5/15/2018 2:13:20 AM;29.5;web, one\n"
        "CPU.Usage.Average;5/15/2018 2:13:40 AM;31.5;web, one\n"
    ),
    "tabs": (
        "Entity\tMetricId\tTimestamp\tValue\n"
        "web, one\tcpu.usage.average\t2018-05-15T02:13:20+02:00\t29.5\n"
        "web, one\tcpu.usage.average\t2018-05-15T02:13:40+02:00\t31.5\n"
    ),
}


@pytest.mark.parametrize("layout", VCENTER)
def test_vcenter_by_columns_separators_and_letters_of_whoever_exported_it(layout: str) -> None:
    output = read(VCENTER[layout])
    assert output.tool == "vcenter"
    assert [(one.t_ns, one.entity, one.metric) for one in output.points] == [
        (0, "guests.web, one", "cpu_share"), (20 * 10**9, "guests.web, one", "cpu_share"),
    ]  # fmt: skip
    assert [one.value for one in output.points] == pytest.approx([0.295, 0.315])


def test_vcenter_of_disks_and_readiness_in_old_and_new_spelling() -> None:
    text = "MetricId,Timestamp,Value,Entity,IntervalSecs,Instance\n" + "".join(
        f"{metric},5/15/2018 2:13:20 AM,{value},db1,{seconds},{instance}\n"
        for metric, value, seconds, instance in (
            ("virtualdisk.totalreadlatency.average", 4, 20, "scsi0:0"),
            ("virtualDisk.totalWriteLatency.average", 6, 20, "scsi0:0"),
            ("disk.read.average", 512, 300, ""),
            ("cpu.ready.summation", 1500, 300, "0"),
            ("mem.consumed.average", 2048, 300, ""),
        )
    )
    assert at(read(text)) == {
        ("guests.db1.scsi0:0", "disk_read_time"): 4e6,
        ("guests.db1.scsi0:0", "disk_write_time"): 6e6,
        ("guests.db1", "disk_read"): 512 * 1024,
        ("guests.db1.vcpu0", "run_queue_delay"): 5e6,
        ("guests.db1", "memory_used"): 2 * 2**20,
    }


@pytest.mark.parametrize(
    ("text", "what", "line"),
    [
        (
            "MetricId,Timestamp,Value,Entity\ncpu.usage.average,5/15/2018 2:13:20 AM,1\n",
            "more or less values",
            2,
        ),
        (
            "MetricId,Timestamp,Value,Entity\ncpu.usage.average,02:13:20,1,a\n",
            "not an instant with its day",
            2,
        ),
        (
            "MetricId,Timestamp,Value,Entity\ncpu.ready.summation,5/15/2018 2:13:20 AM,1,a\n",
            "IntervalSecs",
            0,
        ),
        (
            "MetricId,Timestamp,Value,Entity\nmem.usage.average,5/15/2018 2:13:20 AM,1,a\n",
            "no row of a metric",
            0,
        ),
    ],
)
def test_vcenter_that_lacks_something_is_refused(text: str, what: str, line: int) -> None:
    with pytest.raises(UnreadableError, match=what) as caught:
        read(text)
    assert line in {0, caught.value.line}


def test_a_decimal_comma_of_sysstat_is_refused_and_never_read_as_thousands() -> None:
    iostat = (
        "Linux 6.1.0-amd64 (host) \t21.11.2026 \t_x86_64_\t(2 CPU)\n\n"
        + 2
        * "Device   r/s   rkB/s  r_await   w/s   wkB/s  w_await  %util\nvda  {r}  8,00  0,52  1,00  4,00  0,69  1,06\n\n"
    )
    with pytest.raises(UnreadableError, match="'29,00' has a comma") as caught:
        read(iostat.replace("{r}", "29,00"))
    assert (caught.value.line, "LC_ALL=C" in caught.value.cure) == (7, True)
    with pytest.raises(UnreadableError, match=r"'1,234' has a comma"):
        read(iostat.replace("{r}", "1,234"))
    assert at(read(iostat.replace("{r}", "29").replace(",", ".")))["host.vda", "disk_read_time"] == 520_000


SAR_GERMAN = (
    "Linux 6.1.0-amd64 (host) \t21.11.2026 \t_x86_64_\t(2 CPU)\n\n"
    "17:29:21        CPU     %user     %nice   %system   %iowait    %steal     %idle\n"
    "17:29:22        all     78,50      0,00     21,50      0,00      0,00      0,00\n\n"
    "17:29:21    kbmemfree   kbavail kbmemused  %memused kbdirty\n17:29:22  19499080  22696964   1591020      6,45  36340\n"
)


def test_rows_of_sar_with_decimal_commas_are_not_taken_for_headings_and_lost() -> None:
    with pytest.raises(UnreadableError, match="'78,50' has a comma") as caught:
        read(SAR_GERMAN)
    assert caught.value.line == 4
    with pytest.raises(UnreadableError, match="is not a row of sar") as caught:
        read(SAR_GERMAN.replace(",", ".") + "\nDurchschn.:     all     69.65      0.00     30.10\n")
    assert "LC_ALL=C" in caught.value.cure


def test_domains_whose_names_xentop_cut_to_the_same_are_not_mixed() -> None:
    with pytest.raises(UnreadableError, match=r"'guests\.webserver-' twice") as caught:
        read(
            xentop(
                *2
                * ["webserver- --b---      11235   62.5    3145728    4.7    3145728       4.7" + XENTOP_REST]
            )
        )
    assert "xentop -f" in caught.value.cure


def esxtop(*columns: tuple[str, str]) -> str:
    """One sample of these columns of a host."""
    head = ["(PDH-CSV 4.0) (UTC)(0)", *(rf"\\esx1\{name}" for name, _ in columns)]
    row = ["05/15/2018 02:13:06", *(value for _, value in columns)]
    return "".join(",".join(f'"{cell}"' for cell in cells) + "\n" for cells in (head, row))


def test_ports_of_esxtop_are_the_hosts_unless_a_world_of_a_guest_uses_them() -> None:
    rate = r"MBits Received/sec"
    output = read(
        esxtop(
            (rf"Network Port(vSwitch0:33554434:vmnic0)\{rate}", "9"),
            (rf"Network Port(vSwitch0:33554436:vmk0)\{rate}", "1"),
            (rf"Network Port(vSwitch0:33554433:Management)\{rate}", "2"),
            (rf"Network Port(vSwitch0:33554437:Shadow of vmnic1)\{rate}", "0"),
            (rf"Network Port(DvsPortset-0:33554440:52311:web1.eth0)\{rate}", "4"),
            (rf"Network Port(vSwitch6:134217730:36139:db: one)\{rate}", "3"),
            (rf"Network Port(vSwitch7:134217731:36139:db: one)\{rate}", "5"),
        )
    )
    assert at(output) == {
        ("host.vmnic0", "network_received"): 9e6,
        ("host.vmk0", "network_received"): 1e6,
        ("host.Management", "network_received"): 2e6,
        ("host.Shadow of vmnic1", "network_received"): 0,
        ("guests.web1.eth0", "network_received"): 4e6,
        ("guests.db: one", "network_received"): 8e6,
    }
    assert len(output.points) == 6, "two ports of one name are no two samples"


def test_groups_of_esxis_own_processes_are_no_guests() -> None:
    own = [
        (rf"Group Cpu({group})\% Used", "100")
        for group in ("0:host", "1:idle", "2:system", "8:helper", "3867:hostd.3867")
    ]
    guest = (r"Group Cpu(52311:web.2019)\% Used", "150")
    plain = read(esxtop(*own, (r"Group Cpu(52311:web1)\% Used", "150")))
    assert at(plain) == {("guests.web1", "cpu"): 1.5}
    twice = read(esxtop((r"Group Cpu(7:sh)\% Used", "1"), (r"Group Cpu(9:sh)\% Used", "2")))
    assert at(twice) == {("guests.sh", "cpu"): 0.01, ("guests.sh.9", "cpu"): 0.02}
    for proof in (
        r"Vcpu(52311:web.2019:52317:vmx-vcpu-0:web.2019)\% Ready",
        r"Virtual Disk(web.2019)\MBytes Read/sec",
        r"Network Port(vSwitch0:33554440:52311:web.2019.eth0)\MBits Received/sec",
    ):
        found = at(read(esxtop(*own, guest, (proof, "0"))))
        assert {key: value for key, value in found.items() if key[1] == "cpu"} == {
            ("guests.web.2019", "cpu"): 1.5
        }


PSPING_LOST = """\
PsPing v2.12 - PsPing - ping, latency, bandwidth measurement utility

Pinging 10.0.0.2 with 32 bytes of data:
5 iterations (warmup 1) ping test:
Request timed out.

Ping statistics for 10.0.0.2:
  Sent = 4, Received = 0, Lost = 4 (100% loss),
"""


def test_ping_of_windows_over_ipv6_and_what_a_router_answered_it() -> None:
    output = read(
        "Pinging 2001:db8::2 with 32 bytes of data:\n"
        "Reply from 2001:db8::2: time=3ms \n"
        "Reply from 2001:db8::2: time=5ms \n"
        "Reply from 2001:db8::9: Destination host unreachable.\n"
        "Request timed out.\n\n"
        "Ping statistics for 2001:db8::2:\n    Packets: Sent = 4, Received = 3, Lost = 1 (25% loss),\n"
    )
    assert output.blocks["rtt/1"]["rtt_ns"] == [3_000_000, 5_000_000]
    assert output.counters["sent_packets"] == 4


def test_psping_without_any_answer_has_its_loss_alone() -> None:
    text = PSPING_LOST + "Minimum = 0.00ms, Maximum = 0.00ms, Average = 0.00ms\n"
    assert summed(text) == {"loss.ratio": 1.0}


@pytest.mark.parametrize(
    ("line", "protocol"),
    [
        ("Pinging 10.0.0.2 with 32 bytes of data:", "icmp"),
        ("TCP connect to 10.0.0.2:445:", "tcp"),
        ("TCP sender bandwidth test connected to 10.0.0.2:5000", "tcp"),
        ("UDP latency test connected to 10.0.0.2:5000", "udp"),
    ],
)
def test_psping_says_which_protocol_it_was(line: str, protocol: str) -> None:
    text = PSPING_LOST.replace("Pinging 10.0.0.2 with 32 bytes of data:", line)
    output = read(text + "Minimum = 0.28ms, Maximum = 0.35ms, Average = 0.31ms\n")
    assert output.facts["protocol"] == protocol


def test_ping6_of_the_bsds() -> None:
    output = read(
        "PING6(56=40+8+8 bytes) 2001:db8::1 --> 2001:db8::2\n"
        "16 bytes from 2001:db8::2, icmp_seq=0 hlim=64 time=0.171 ms\n"
        "16 bytes from 2001:db8::2, icmp_seq=1 hlim=64 time=0.151 ms\n\n"
        "--- 2001:db8::2 ping6 statistics ---\n"
        "2 packets transmitted, 2 packets received, 0.0% packet loss\n"
    )
    assert output.blocks["rtt/1"]["rtt_ns"] == [171_000, 151_000]
    assert output.facts == {"payload_bytes": 8, "ip_packet_bytes": 56}


def iperf2(stream: str, end: str, rate: str, more: str = "") -> str:
    """A row of iperf 2's CSV."""
    return f"20261121172945,127.0.0.1,49050,127.0.0.1,5401,{stream},0.0-{end},1,{rate}{more}\n"


def test_a_report_of_iperf_2s_server_that_is_shorter_than_the_test_is_still_of_udp() -> None:
    text = iperf2("3", "10.1", "5250000") + iperf2("3", "10.0", "4200000", ",0.050,20,100,20.000,0")
    assert read(text).workloads == ("udp_stream",)
    assert summed(text) == {
        "goodput.mean": 4.2e6, "jitter_rfc3550.final": 50_000, "loss.ratio": 0.2, "lost_rate.mean": 1.05e6,
        "achieved_load.mean": 5.25e6,
    }  # fmt: skip


def test_streams_of_iperf_2_are_taken_together_and_tests_not() -> None:
    two = iperf2("3", "2.0", "7") + iperf2("4", "2.1", "8")
    assert summed(two + iperf2("-1", "2.0", "15")) == {"goodput.mean": 15}
    assert summed(iperf2("-1", "2.0", "15") + two) == {"goodput.mean": 15}
    with pytest.raises(UnreadableError, match="holds 2 tests"):
        read(two)
    assert summed(iperf2("3", "1.0", "6") + iperf2("3", "2.0", "7")) == {"goodput.mean": 7}


def test_iperf3_both_ways_at_once_is_no_one_stream() -> None:
    rows = "".join(
        f"[{stream}][{way}-C]   0.00-2.00   sec  1.00 MBytes  {rate} Mbits/sec                  receiver\n"
        for stream, way, rate in (("SUM", "TX", "4.00"), ("SUM", "RX", "9.00"))
    )
    with pytest.raises(UnreadableError, match="--bidir") as caught:
        read("Connecting to host 127.0.0.1, port 5306\n" + rows)
    assert caught.value.line == 2
