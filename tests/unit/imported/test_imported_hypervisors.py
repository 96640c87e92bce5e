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
        ("1499876018821,9", "2017/07/12 16:13:38,9", 3, "no number of ms"),
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


def test_an_output_that_is_missing_is_named_and_nothing_is_made(outputs: Path, tmp_path: Path) -> None:
    (outputs.parent / "vmware/1x12/3000/others.jtl").unlink()
    with pytest.raises(ExperimentError, match=r"1x12/3000/others\.jtl"):
        import_results(read_mapping(outputs), tmp_path / "vmware.results")
    assert not (tmp_path / "vmware.results").exists()
