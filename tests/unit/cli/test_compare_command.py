"""`virtlab compare` from dataset to exit code, with simulated datasets of two versions of a file."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from virtlab.cli.main import main

TEXT = """
version: 1
name: guard
factors: {{switches: [1, 2]}}
hosts: 2
topology: {{shape: line, switches: "${{switches}}"}}
link: {{rate: {rate}}}
roles:
  probe: {{workload: rtt, from: h1.g1, to: h2.g1, size: 1500 B ip_packet, interval: 10.3 ms, count: 60}}
  load: {{workload: burst_load, from: h1.g1, to: h2.g1, burst: 20 kB, period: 10 ms, streams: 2, phase: random}}
timing: {{warmup: 20 ms}}
repeat: 5
seed: {seed}
claims: ["probe.rtt.mean: switches 2 > 1"]
"""


def virtlab(*arguments: object) -> int:
    """The command in this process; its exit code."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`a` and `again` of one system and different seeds, `slow` with half the rate."""
    folder = tmp_path_factory.mktemp("compare")
    for name, rate, seed in (("a", "100 Mbit/s", 1), ("again", "100 Mbit/s", 2), ("slow", "50 Mbit/s", 3)):
        file = folder / f"{name}.yaml"
        file.write_text(TEXT.format(rate=rate, seed=seed))
        data = folder / f"{name}.results"
        code = virtlab("run", file, "--backend", "simulator", "--jobs", "1", "--no-report", "--dataset", data)
        assert code in {0, 4}
    return folder


@pytest.fixture(autouse=True)
def place(datasets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(datasets)


@pytest.mark.slow
def test_half_the_rate_is_worse_in_every_form(datasets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    code = virtlab("compare", "a.results", "slow.results", "--json", "--junit", "c.xml", "--markdown", "c.md")
    told = json.loads(capsys.readouterr().out)
    assert code == told["exit_code"] == 1
    rtt = [row for row in told["changes"] if row["path"] == "probe.rtt.mean"]
    assert [row["finding"] for row in rtt] == ["worse", "worse"]
    assert [row["levels"] for row in rtt] == [{"switches": "1"}, {"switches": "2"}]
    assert any("experiment file differs" in note for note in told["notes"])
    suite = ElementTree.parse(datasets / "c.xml").getroot()[0]
    assert int(suite.attrib["failures"]) == sum(row["finding"] == "worse" for row in told["changes"])
    assert "probe.rtt.mean" in (datasets / "c.md").read_text().replace("\\", "")


@pytest.mark.slow
def test_equal_systems_raise_no_alarm(capsys: pytest.CaptureFixture[str]) -> None:
    assert virtlab("compare", "a.results", "again.results", "--margin", "20 %") in {0, 4}
    assert "worse" not in capsys.readouterr().out


@pytest.mark.slow
def test_a_baseline_stands_for_its_dataset(datasets: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert virtlab("compare", "a.results", "--save-baseline", "b.json") == 0
    assert (datasets / "b.json").stat().st_size < 4096
    capsys.readouterr()
    codes, told = [], []
    for old in ("a.results", "b.json"):
        codes.append(virtlab("compare", old, "slow.results", "--json"))
        told.append(json.loads(capsys.readouterr().out)["changes"])
    assert codes == [1, 1]
    assert told[0] == told[1]


@pytest.mark.slow
def test_two_datasets_of_one_name_are_told_apart_by_their_paths(
    datasets: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (datasets / "before").mkdir()
    (datasets / "before" / "a.results").symlink_to(datasets / "again.results")
    capsys.readouterr()
    forms = ["--margin", "20 %", "--junit", "p.xml", "--markdown", "p.md"]
    for old, names in (
        ("before/a.results", ["a.results", "before/a.results"]),
        ("again.results", ["a.results", "again.results"]),
    ):
        assert virtlab("compare", old, "a.results", *forms) in {0, 4}
        heading = capsys.readouterr().out.splitlines()[0]
        assert re.findall(r"[\w/]+\.results", heading) == names
        assert re.findall(r"[\w/]+\.results", (datasets / "p.md").read_text().splitlines()[0]) == names


@pytest.mark.slow
def test_mistakes_of_the_command_line_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["a.results"], ["none.json", "a.results"], ["a.yaml", "a.results"], ["a.results", "again.results", "--margin", "5"],
        ["a.results", "again.results", "--quantity", "probe.rtt.maen"],
    ):  # fmt: skip
        capsys.readouterr()
        assert virtlab("compare", *words) == 2, words
        assert capsys.readouterr().err.count("\n") == 1, words


@pytest.mark.slow
def test_run_and_check_write_the_same_forms(datasets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = datasets / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    code = virtlab(
        "run", "a.yaml", "--backend", "simulator", "--no-report", "--dataset", "a.results", "--junit", "r.xml", "--jobs", 1,
        "--markdown", summary,
    )  # fmt: skip
    assert code == 0
    assert ElementTree.parse(datasets / "r.xml").getroot()[0].attrib["tests"] == "1"
    assert virtlab("check", "a.yaml", "--markdown", summary) == 0
    text = summary.read_text()
    assert text.startswith("before\n### ")
    assert text.count("### ") == 2
    (datasets / "wrong.yaml").write_text("version: 1\nname: w\nhosts: x\n")
    assert virtlab("check", "wrong.yaml", "--junit", "w.xml", "--markdown", "w.md") == 2
    assert int(ElementTree.parse(datasets / "w.xml").getroot()[0].attrib["failures"]) >= 1
    assert (datasets / "w.md").read_text().startswith("### wrong.yaml")


@pytest.mark.slow
def test_a_file_that_cannot_be_written_is_told_before_any_run(
    datasets: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = virtlab(
        "run", "a.yaml", "--backend", "simulator", "--dataset", "new.results", "--junit", "no/where.xml"
    )
    assert code == 3
    assert capsys.readouterr().err.startswith("virtlab: --junit no/where.xml: cannot be written")
    assert not (datasets / "new.results").exists()


@pytest.mark.slow
def test_a_trend_finds_the_step_and_writes_one_page_without_a_script(
    datasets: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert virtlab("compare", "a.results", "--save-baseline", "b.json") == 0
    assert virtlab("compare", "slow.results", "--save-baseline", "s.json") == 0
    names = []
    for number, source in enumerate("bbbbssss", 1):
        values = json.loads((datasets / f"{source}.json").read_text())
        values |= {"created": f"2026-01-0{number}T00:00:00Z", "name": f"day {number} <b>"}
        for each in values["quantities"]:
            for measured in each["measured"]:
                measured["values"] = [value * (1 + number / 1000) for value in measured["values"]]
        names.append(f"day{number}.json")
        (datasets / names[-1]).write_text(json.dumps(values))
    capsys.readouterr()
    assert virtlab("trend", *reversed(names), "--json") == 0
    told = json.loads(capsys.readouterr().out)
    steps = [step for step in told["steps"] if step["path"] == "probe.rtt.mean"]
    assert [(step["dataset"], step["finding"]) for step in steps] == [("day 5 <b>", "worse")] * 2
    page = (datasets / "trend.html").read_text()
    assert "<script" not in page
    assert "day 5 &lt;b&gt;" in page
    assert page.count("<figure>") == told["series"]
    monkeypatch.setitem(sys.modules, "vl_convert", None)  # nothing draws pictures: the page does
    assert virtlab("trend", *names) == 0
    page = (datasets / "trend.html").read_text()
    assert page.count("<script") == 4
    assert page.count(" data-plot=") == told["series"]
    assert "day 5 <b>" not in page


@pytest.mark.slow
def test_a_trend_of_what_is_no_dataset_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert virtlab("trend", "a.yaml") == 2
    assert virtlab("trend", "a.results", "--quantity", "probe.rtt.maen") == 2
    assert capsys.readouterr().err.count("\n") == 2
