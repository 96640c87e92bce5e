"""Results of a hypervisor that does not run here: requests, use of processors and writes, as levels of the study."""

from __future__ import annotations

from pathlib import Path

import pytest

import virtlab
from virtlab.analysis.values_file import values_of
from virtlab.documents import yaml_values
from virtlab.errors import ExperimentError
from virtlab.imported import import_results, read_mapping
from virtlab.imported.output import UnreadableError
from virtlab.imported.readers import read
from virtlab.results import Dataset

ROOT = Path(__file__).parents[3]
LOG = (ROOT / "tests" / "golden" / "imported" / "jmeter.jtl").read_text()
VEGETA = (ROOT / "tests" / "golden" / "imported" / "vegeta.csv").read_text()
STUDY = ROOT / "experiments" / "hypervisor-application"
ESX = (
    '"(PDH-CSV 4.0) (UTC)(0)","\\\\esx1\\Physical Cpu(_Total)\\% Util Time",'
    '"\\\\esx1\\Physical Disk Adapter(vmhba0)\\MBytes Written/sec",'
    '"\\\\esx1\\Physical Disk Adapter(vmhba1)\\MBytes Written/sec"\n'
    '"01/31/2024 10:00:05","40.0","3.0","1.0"\n"01/31/2024 10:00:10","44.0","2.0","1.0"\n'
)


def test_requests_of_a_log_are_in_the_order_in_which_they_began_and_end_as_it_says() -> None:
    output = read(LOG)
    rows = output.blocks["response/1"]
    assert (output.tool, output.workloads) == ("jmeter", ("request_response",))
    assert rows["intended_ns"] == [0, 10_000_000, 12_000_000, 31_000_000, 41_000_000, 61_000_000, 62_000_000]
    assert [b - a for a, b in zip(rows["intended_ns"], rows["finished_ns"], strict=True)] == [
        12_000_000, 14_000_000, 9_000_000, 21_000_000, 10_000_000, 2_000_000_000, 3_000_000,
    ]  # fmt: skip
    assert rows["error"] == [0, 0, 0, 5, 0, 2, 3], "answered; with an error; given up; broken"
    assert rows["sent_ns"][0] == 1_000_000, "once it was connected"
    assert any("1 rows of transaction controllers" in note for note in output.notes)


@pytest.mark.parametrize(
    ("old", "new", "line", "what"),
    [
        ("timeStamp,elapsed", "timeStamp,time", 0, "is not an output"),
        (",success,", ",outcome,", 1, "no column success"),
        ("1499876018821,9", "2017/07/12 16:13:38,9", 3, "not a number of ms"),
        ("1499876018821,9", "1499876018821,nine", 3, "elapsed"),
        (
            "text,true,,220,129,2,2,http://10.0.0.2:7000/,9,0,0",
            "text,maybe,,220,129,2,2,x,9,0,0",
            3,
            "neither true",
        ),
        (",9,0,0\n", ",9\n", 3, "has not 17 values"),
    ],
)
def test_what_jmeter_cannot_have_written_is_refused_with_its_line(
    old: str, new: str, line: int, what: str
) -> None:
    assert old in LOG
    with pytest.raises(UnreadableError) as found:
        read(LOG.replace(old, new, 1))
    assert (found.value.line, what in str(found.value)) == (line, True), str(found.value)


def test_its_xml_and_a_log_without_a_request_are_refused() -> None:
    for text, what in (
        ('<?xml version="1.0"?>\n<testResults version="1.2">\n', "XML"),
        (LOG[: LOG.index("\n") + 1], "no request"),
    ):
        with pytest.raises(UnreadableError, match=what):
            read(text)


def test_requests_of_vegeta_are_in_the_order_in_which_they_began_to_the_nanosecond() -> None:
    output = read(VEGETA)
    rows = output.blocks["response/1"]
    assert (output.tool, output.workloads) == ("vegeta", ("request_response",))
    assert rows["intended_ns"][:3] == [0, 25_554_034, 49_876_923]
    assert rows["finished_ns"][0] == 11_356_730
    assert rows["error"] == [0] * 7 + [2, 6, 5, 1], "given up; a bad gateway; answered with an error; refused"
    assert "2 requests were answered with an error" in output.notes


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("446853037335,200,", "446853037335,fine,", "code 'fine'"),
        (",11356730,", ",11.4,", "latency '11.4'"),
        (",11356730,", ",9999999999999999999,", "more ns than a century"),
        (",0,GET,", ",GET,", "has 11 values and not 12"),
    ],
)
def test_what_vegeta_cannot_have_written_is_refused_with_its_line(old: str, new: str, what: str) -> None:
    assert old in VEGETA
    with pytest.raises(UnreadableError) as found:
        read(VEGETA.replace(old, new, 1), "vegeta")
    assert (found.value.line, what in str(found.value)) == (1, True), str(found.value)


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    """The study's mapping, with an output wherever it names one."""
    for name in ("published.yaml", "elsewhere/vmware.import.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text((STUDY / name).read_text())
    mapping = tmp_path / "elsewhere" / "vmware.import.yaml"
    for run in yaml_values(mapping.read_text())["runs"]:
        for name in run["roles"].values():
            (mapping.parent / name).parent.mkdir(parents=True, exist_ok=True)
            (mapping.parent / name).write_text(LOG)
        (mapping.parent / run["series"][0]["file"]).write_text(ESX)
    return mapping


@pytest.mark.slow
def test_outputs_of_vmware_are_its_level_of_the_study(outputs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "vmware.results"
    import_results(read_mapping(outputs), folder)
    runs = Dataset.open(folder).runs()
    assert len(runs) == 15
    assert {run.levels["hypervisor"] for run in runs} == {"vmware"}
    found = {f"{each.role}.{each.metric}.{each.statistic}": each.value for each in values_of(runs[0])}
    assert found["hosts.h1.cpu.mean"] == pytest.approx(0.42)
    assert found["hosts.h1.disks.disk_written.mean"] == pytest.approx(3.5 * 2**20)
    assert found["clients.response_time.mean"] == pytest.approx((12 + 14 + 9 + 10 + 2000) / 5 * 1e6)
    assert found["clients.request_errors.count"] == 1
    assert found["clients.forwarded_requests.count"] is None, "nothing says which server answered"


@pytest.mark.slow
def test_claims_of_the_study_are_judged_by_levels_that_were_imported(outputs: Path, tmp_path: Path) -> None:
    """VMware twice, beside a host without a hypervisor whose requests take a little longer the second time."""
    text = outputs.read_text()
    runs = text[text.index("  - levels") :]
    again = runs.replace("hypervisor: vmware", "hypervisor: native").replace("clients.jtl", "native.jtl")
    outputs.write_text(text + runs + runs.replace("hypervisor: vmware", "hypervisor: native") + again)
    for path in outputs.parent.rglob("clients.jtl"):
        path.with_name("native.jtl").write_text(LOG.replace(",12,bill", ",13,bill"))
    folder = tmp_path / "both.results"
    import_results(read_mapping(outputs), folder)
    verdicts = {verdict.name: verdict for verdict in virtlab.open(folder).verdicts}
    assert verdicts["vmware-answers-like-native-with-16"].verdict == "holds"
    assert verdicts["xen-answers-latest-with-16"].verdict == "undecided", "Xen was not measured"


SAR = """\
Linux 6.1.0-amd64 (kvm1) \t2026-11-21 \t_x86_64_\t(16 CPU)

17:29:25        CPU     %user     %nice   %system   %iowait    %steal     %idle
17:29:26        all     30.00      0.00     10.00      0.00      0.00     60.00
"""
IOSTAT = """\
Linux 6.1.0-amd64 (kvm1) \t2026-11-21 \t_x86_64_\t(16 CPU)

Device             tps    kB_read/s    kB_wrtn/s    kB_read    kB_wrtn
sda             120.00         0.00         1.00          0       1000

Device             tps    kB_read/s    kB_wrtn/s    kB_read    kB_wrtn
sda             120.00         0.00      1000.00          0       1000
sda1            120.00         0.00      1000.00          0       1000
sdb              60.00         0.00      2000.00          0       2000
dm-0             60.00         0.00      2000.00          0       2000
"""
XENTOP_HEAD = "      NAME  STATE   CPU(sec) CPU(%)     MEM(k) MEM(%)\n"
XENTOP = (
    XENTOP_HEAD
    + "  Domain-0 -----r        120    0.0    1048576   12.5\n      app1 --b---         30    0.0     524288    6.2\n"
)
XENTOP += XENTOP.replace("120    0.0", "120   80.0").replace(" 30    0.0", " 36  600.0")
VCENTER = (
    '"Value","Timestamp","MetricId","Unit","Entity","EntityId","IntervalSecs","Instance"\n'
    '"40","1/31/2024 10:00:20 AM","cpu.usage.average","%","esx1.lab","HostSystem-host-9","20",""\n'
    '"3000","1/31/2024 10:00:20 AM","disk.write.average","KBps","esx1.lab","HostSystem-host-9","20",""\n'
)
ONE = """\
version: 1
experiment: published.yaml
source: two hosts of 16 processors
runs:
  - levels: {hypervisor: HYPERVISOR, cores: 2x6, load: 500 request/s}
    roles: {clients: requests.csv, others: requests.csv}
    series: [FILES]
"""


def values_by(tmp_path: Path, hypervisor: str, host: str = "h1", **files: str) -> dict[str, float | None]:
    """The values of one run of the study, whose series are these files, each of one host."""
    (tmp_path / "published.yaml").write_text((STUDY / "published.yaml").read_text())
    (tmp_path / "requests.csv").write_text(VEGETA)
    for name, content in files.items():
        (tmp_path / f"{name}.txt").write_text(content)
    named = ", ".join(f"{{file: {name}.txt, host: {host}}}" for name in files)
    mapping = tmp_path / "one.import.yaml"
    mapping.write_text(ONE.replace("HYPERVISOR", hypervisor).replace("FILES", named))
    import_results(read_mapping(mapping), tmp_path / "one.results")
    (run,) = Dataset.open(tmp_path / "one.results").runs()
    return {f"{each.role}.{each.metric}.{each.statistic}": each.value for each in values_of(run)}


@pytest.mark.slow
def test_what_each_tool_of_the_source_tells_of_a_host_is_what_the_claims_name(tmp_path: Path) -> None:
    """KVM and native by sar and iostat, Xen by xentop and iostat, VMware by vCenter: its processors and its writes."""
    for hypervisor, files in {
        "kvm": {"sar": SAR, "iostat": IOSTAT}, "xen": {"xentop": XENTOP, "iostat": IOSTAT}, "vmware": {"vcenter": VCENTER},
    }.items():  # fmt: skip
        place = tmp_path / hypervisor
        place.mkdir()
        found = values_by(place, hypervisor, **files)
        busy = 0.425 if hypervisor == "xen" else 0.4  # Domain-0 and app1: 0.8 and 6 of 16 processors
        assert found["hosts.h1.cpu.mean"] == pytest.approx(busy), hypervisor
        assert found["hosts.h1.disks.disk_written.mean"] == pytest.approx(3000 * 1024), hypervisor


@pytest.mark.slow
def test_a_guest_is_called_as_in_the_experiment_with_its_share_of_its_vcpus(tmp_path: Path) -> None:
    table = (ROOT / "tests" / "golden" / "imported" / "virt-top.csv").read_text()
    found = values_by(tmp_path, "kvm", top=table)
    assert found["guests.h1.app1.cpu.mean"] == pytest.approx(4)
    assert found["guests.h1.app1.cpu_share.mean"] == pytest.approx(4 / 6)
    assert "guests.app1.cpu.mean" not in found
    assert "hosts.h1.cpu.mean" not in found, "virt-top does not tell it"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("host", "more", "what"),
    [
        ("h9", "", "'h9' is not a host of that design point"),
        ("h1", VCENTER.splitlines()[1].replace("esx1", "esx2").replace("-9", "-8"), "has 2 hosts there"),
    ],
)
def test_a_host_that_cannot_be_the_one_that_was_named_is_refused(
    tmp_path: Path, host: str, more: str, what: str
) -> None:
    with pytest.raises(ExperimentError, match=what):
        values_by(tmp_path, "vmware", host, vcenter=VCENTER + more)


@pytest.mark.slow
def test_an_output_that_is_missing_is_named_and_nothing_is_made(outputs: Path, tmp_path: Path) -> None:
    (outputs.parent / "vmware/1x12/3000/others.jtl").unlink()
    with pytest.raises(ExperimentError, match=r"1x12/3000/others\.jtl"):
        import_results(read_mapping(outputs), tmp_path / "vmware.results")
    assert not (tmp_path / "vmware.results").exists()
