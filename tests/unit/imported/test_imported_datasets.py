"""Imported results as datasets: whose runs they are, what their values are, and how mistakes are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from virtlab.analysis.values_file import values_of
from virtlab.errors import ExperimentError, VirtlabError
from virtlab.imported import ImportFile, ImportRun, Sources, import_results, read_mapping
from virtlab.results import Dataset, RunRecord

SAMPLES = Path(__file__).parents[2] / "golden" / "imported"
STUDY = """\
version: 1
name: study
hosts: {h1: {}, h2: {}}
topology: line
link: {rate: 100 Mbit/s}
factors: {size: [128 B ip_packet, 1000 B ip_packet]}
roles:
  probe: {workload: rtt, from: h1.g1, to: h2.g1, size: "${size}", interval: 50 ms, count: 8}
  bulk: {workload: tcp_stream, from: h1.g1, to: h2.g1, duration: 3 s}
claims:
  - {id: quick, text: "probe.rtt.median <= 1 ms"}
repeat: {minimum: 2}
"""
MAPPING = """\
version: 1
experiment: study.yaml
source: ESXi 8.0
runs:
  - levels: {size: 0.128 kB ip_packet}
    roles: {probe: ping.txt, bulk: iperf3-tcp.json}
    series: [sar.txt]
  - levels: {size: 128 B ip_packet}
    roles: {probe: {file: ping-stamped.txt, tool: ping}, bulk: iperf3-tcp.txt}
    series: [esxtop.csv, iostat.json]
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for path in SAMPLES.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "esxi.yaml").write_text(MAPPING)
    return tmp_path


def imported(place: Path, text: str = MAPPING) -> list[RunRecord]:
    (place / "esxi.yaml").write_text(text)
    import_results(read_mapping(place / "esxi.yaml"), place / "esxi.results")
    return Dataset.open(place / "esxi.results").runs()


def values(record: RunRecord) -> dict[str, float | None]:
    return {str(one.path): one.value for one in values_of(record)}


@pytest.mark.slow
def test_runs_are_of_the_experiments_design_points_with_repetitions(place: Path) -> None:
    records = imported(place)
    assert [record.name for record in records] == ["p0000-r00-a0", "p0000-r01-a0"]
    assert {record.levels["size"] for record in records} == {"128 B ip_packet"}
    assert {record.backend for record in records} == {"imported"}
    assert {record.link_realisation for record in records} == {"imported from ESXi 8.0"}
    assert len({record.seed for record in records}) == 2


@pytest.mark.slow
def test_values_come_of_samples_else_of_the_tools_own_statistics(place: Path) -> None:
    first, second = map(values, imported(place))
    assert first["probe.rtt.min"] == 12_000
    assert first["probe.rtt.median"] == 28_000
    assert first["probe.loss.ratio"] == 0
    assert first["bulk.goodput.mean"] == pytest.approx(4618774586.706)
    assert first["bulk.retransmits.total"] == 24
    assert first["host.cpu.cpu.max"] == 1.0
    assert second["bulk.goodput.mean"] == 5.39e9
    assert second["guests.web1.run_queue_delay.mean"] == pytest.approx(3e7)


@pytest.mark.slow
def test_what_no_tool_says_is_absent_with_that_reason(place: Path) -> None:
    record = imported(place)[0]
    found = {str(one.path): one for one in values_of(record)}
    for path in ("probe.pacing_error.mean", "probe.path_rtt.mean", "bulk.goodput.min"):
        assert found[path].value is None
        assert found[path].reason == "the tool that measured it does not say"


@pytest.mark.slow
def test_provenance_is_the_sources_and_nothing_of_this_machine(place: Path) -> None:
    import platform

    record = imported(place)[0]
    manifest = json.loads((place / "esxi.results" / "manifest.json").read_text())
    assert manifest["machine"] == {"source": "ESXi 8.0"}
    assert (manifest["backend"], manifest["conditions"], record.conditions) == ("imported", {}, {})
    assert platform.release() not in (record.folder / "run.json").read_text()
    tool = record.realised.objects["import.probe"]
    assert (tool.by, tool.applied["file"], len(tool.applied["sha256"])) == ("ping", "ping.txt", 64)
    assert record.clocks["bound_ns"] is None
    kept = {path.name: path.read_bytes() for path in record.artefacts()}
    assert kept["probe-ping.txt"] == (SAMPLES / "ping.txt").read_bytes()


@pytest.mark.slow
def test_a_report_judges_claims_and_stands_beside_simulated_runs(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from virtlab.cli.main import app

    monkeypatch.chdir(place)
    imported(place)
    run = CliRunner().invoke
    assert (
        run(app, ["run", "study.yaml", "--backend", "simulator", "--jobs", "1", "--no-report"]).exit_code == 0
    )
    done = run(app, ["report", "study.results", "--with", "esxi.results", "--figures", "none", "--json"])
    assert done.exit_code == 0, done.output
    beside = json.loads(done.output)["beside"]
    of_rtt = [one for one in beside if one["path"] == "probe.rtt.median"]
    assert {one["source"] for one in of_rtt} == {"imported from ESXi 8.0"}
    assert all(one["difference"]["low"] is not None for one in of_rtt)
    done = run(app, ["report", "esxi.results", "--figures", "none", "--json"])
    assert json.loads(done.output)["verdicts"][0]["verdict"] == "holds"


@pytest.mark.slow
def test_a_difference_to_the_experiment_is_said(place: Path) -> None:
    (place / "esxi.yaml").write_text(MAPPING)
    made = import_results(read_mapping(place / "esxi.yaml"), place / "esxi.results")
    assert (
        made.differences[-1] == "ping-stamped.txt: ip_packet_bytes is 84, the experiment says 128 for probe"
    )


@pytest.mark.slow
def test_two_files_of_one_entity_are_not_mixed_and_hosts_are_told_apart(place: Path) -> None:
    (place / "other.txt").write_text(
        (SAMPLES / "sar.txt")
        .read_text()
        .replace(
            "78.50      0.00     21.50      0.00      0.00      0.00",
            "10.00      0.00      0.00      0.00      0.00     90.00",
        )
    )
    runs = (
        MAPPING.partition("  - levels")[0]
        + "  - levels: {size: 128 B ip_packet}\n    roles: {probe: ping.txt}\n"
    )
    (place / "esxi.yaml").write_text(runs + "    series: [sar.txt, other.txt]\n")
    made = import_results(read_mapping(place / "esxi.yaml"), place / "mixed.results")
    assert len(made.differences) == 1
    assert made.differences[0].startswith("other.txt: host.cpu.cpu, host.cpu.steal, ")
    assert "host: NAME" in made.differences[0]
    assert values(Dataset.open(place / "mixed.results").runs()[0])["host.cpu.cpu.min"] == pytest.approx(0.995)
    hosts = "    series: [{file: sar.txt, host: h1}, {file: other.txt, host: h2}]\n"
    found = values(imported(place, runs + hosts)[0])
    assert found["hosts.h1.cpu.cpu.min"] == pytest.approx(0.995)
    assert found["hosts.h2.cpu.cpu.min"] == pytest.approx(0.1)
    assert found["hosts.h2.eth0.network_received.max"] == 0


@pytest.mark.slow
def test_what_a_tool_does_not_tell_as_expected_is_said(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from virtlab.cli.main import app

    monkeypatch.chdir(place)
    Path("esxi.yaml").write_text(MAPPING.replace("sar.txt", "vcenter.csv").replace(", iostat.json", ""))
    done = CliRunner().invoke(app, ["import", "esxi.yaml", "--output", "esxi.results"])
    assert done.exit_code == 0, done.output
    assert "note: vcenter.csv: no 'cpu' of web1 as a whole" in done.output


@pytest.mark.slow
def test_a_comma_that_begins_decimals_is_told_with_its_cure(place: Path) -> None:
    text = (SAMPLES / "sar.txt").read_text()
    (place / "sar.txt").write_text(text.replace(".", ","))
    with pytest.raises(ExperimentError, match=r"sar\.txt, line 4: .* has a comma") as caught:
        imported(place)
    assert "LC_ALL=C" in caught.value.cure


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("version: 1", "version: 2", "version: is 2"),
        ("source: ESXi 8.0", "origin: ESXi", "origin: is not a key here"),
        ("probe: ping.txt", "prob: ping.txt", "is not a role of that design point"),
        ("probe: ping.txt", "probe: sar.txt", "the role is rtt"),
        ("probe: ping.txt", "probe: iperf3-tcp.json", "can be tcp_stream"),
        ("probe: ping.txt", "probe: missing.txt", "cannot be read"),
        ("series: [sar.txt]", "series: [ping.txt]", "measures roles"),
        ("series: [sar.txt]", "series: [{file: sar.txt, host: 1}]", "1 is not a valid name"),
        ("probe: ping.txt", "probe: {file: ping.txt, host: h1}", "host: is not a key here"),
        ("tool: ping", "tool: pong", "is not a tool"),
        ("tool: ping", "tool: [ping]", "is not a tool"),
        ("probe: ping.txt", 'probe: "ping\\0.txt"', "names no file"),
        ("probe: ping.txt", 'probe: ""', "names no file"),
        ("0.128 kB ip_packet", "5 kB ip_packet", "no design point"),
        ("levels: {size: 0.128 kB ip_packet}", "levels: {}", "2 design points"),
        ("levels: {size:", "levels: {bits:", "is not a factor"),
        ("  - levels", "  - level", "level: is not a key here"),
        ("runs:", "runs: [", "line 5: is not YAML"),
        ("probe: ping.txt", "probe: study.yaml", "is not an output of"),
    ],
)
def test_a_mistake_is_one_clear_error_and_leaves_nothing(place: Path, old: str, new: str, what: str) -> None:
    (place / "esxi.yaml").write_text(MAPPING.replace(old, new, 1))
    with pytest.raises(VirtlabError) as caught:
        import_results(read_mapping(place / "esxi.yaml"), place / "esxi.results")
    assert what in str(caught.value)
    assert caught.value.exit_code == 2
    assert not (place / "esxi.results").exists()


@pytest.mark.slow
def test_a_level_that_yaml_takes_for_true_or_a_number_is_the_experiments(place: Path) -> None:
    text = STUDY.replace("factors: {", "factors: {noise: [true, false], guests: [1, 2], ")
    text = text.replace("h2: {}}", 'h2: {guests: "${guests}"}}')
    (place / "study.yaml").write_text(text + 'network: {ipv6: "fd00::/48", ipv6_noise: "${noise}"}\n')
    mapping = MAPPING.replace("levels: {size", "levels: {noise: false, guests: 2, size")
    (place / "esxi.yaml").write_text(mapping)
    sources = read_mapping(place / "esxi.yaml")
    assert {run.levels["noise"] for run in sources.runs} == {"false"}
    assert import_results(sources, place / "esxi.results").runs == len(sources.runs)


@pytest.mark.slow
def test_the_line_of_a_broken_output_stands_in_the_error(place: Path) -> None:
    text = (place / "ping.txt").read_text().replace("time=0.027 ms", "time=fast")
    (place / "ping.txt").write_text(text)
    with pytest.raises(ExperimentError, match=r"ping\.txt, line 5: a reply without its time"):
        import_results(read_mapping(place / "esxi.yaml"), place / "esxi.results")


@pytest.mark.slow
def test_utf_16_as_windows_writes_it_is_read(place: Path) -> None:
    (place / "ping.txt").write_bytes((SAMPLES / "ping.txt").read_text().encode("utf-16"))
    assert values(imported(place)[0])["probe.rtt.min"] == 12_000


@pytest.mark.slow
def test_flags_say_the_same_as_a_mapping(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from virtlab.cli.main import app

    monkeypatch.chdir(place)
    words = ["import", "ping.txt", "ping-stamped.txt", "--role", "probe", "--experiment", "study.yaml"]
    level = ["--level", "size=128 B ip_packet", "--source", "ESXi 8.0"]
    done = CliRunner().invoke(app, [*words, *level, "--output", "flags.results"])
    assert done.exit_code == 0, done.output
    assert [record.repetition for record in Dataset.open("flags.results").runs()] == [0, 1]
    done = CliRunner().invoke(
        app, [*words, *level, "--level", "size=1500 B ip_packet", "--output", "x.results"]
    )
    assert "has two levels" in str(done.exception), "the second level replaces the first"
    sources = Sources(
        Path("study.yaml"),
        "ESXi 8.0",
        (ImportRun("x", {"size": "128 B ip_packet"}, {"probe": ImportFile(Path("ping.txt"))}),),
    )
    assert import_results(sources, Path("one.results")).runs == 1
