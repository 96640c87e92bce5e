"""`virtlab explain`, what completion offers, and manual pages: all from what is declared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from virtlab.catalogue import QDISCS, WORKLOADS
from virtlab.cli.main import main
from virtlab.cli.manual import pages
from virtlab.cli.table import COMMANDS, declaration
from virtlab.cli.words import entries as module
from virtlab.cli.words.completing import candidates, escaped
from virtlab.cli.words.entries import entries, found
from virtlab.experiment.templates import template
from virtlab.metrics import METRICS, STATISTICS
from virtlab.testbed.play.taints import clock_taint, switch_taints

ROOT = Path(__file__).parents[3]


def virtlab(*arguments: str) -> int:
    """The command in this process; its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


def test_the_glossary_of_the_program_is_that_of_the_documentation() -> None:
    own = Path(str(module.__file__)).with_name("glossary.md")
    assert own.read_text() == (ROOT / "docs" / "reference" / "glossary.md").read_text(), (
        "copy it again: cp docs/reference/glossary.md python/virtlab/cli/words/"
    )


def test_every_metric_statistic_kind_command_and_term_is_explained() -> None:
    for name in [
        *METRICS,
        *STATISTICS,
        *WORKLOADS,
        *QDISCS,
        *COMMANDS,
        "tainted",
        "run",
        "trial",
        "soft switch",
    ]:
        assert found(name), name
    assert all(one.what and one.names for one in entries())
    assert not any("](" in one.what or "**" in one.what for one in entries())


def test_every_taint_of_the_testbed_is_explained_as_it_is_printed() -> None:
    port = {"ring_drops": 3, "oversize": 1, "bad_checksum": 1}
    stats = {
        "lateness": {"count": 9, "late_share": 0.5, "max_ns": 40_000_000}, "standstills": 2, "clock_steps": 1,
        "ports": {"a": port},
    }  # fmt: skip
    tainted, failed = switch_taints(stats)
    stepped = clock_taint({"realtime_ns": 0, "raw_ns": 0}, {"realtime_ns": 10**9, "raw_ns": 0})
    assert len(tainted) == 5
    for message in [*tainted, *stepped]:
        assert {one.kind for one in found(f"roles.probe: {message}")} == {"taint"}, message
    for message in failed:
        assert found(message)[0].kind == "failure", message


def test_exit_codes_are_explained_and_an_unknown_word_gets_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert virtlab("explain", "exit", "code", "4") == 0
    assert "undecided" in capsys.readouterr().out
    assert virtlab("explain", "medain") == 2
    assert capsys.readouterr().err == (
        "virtlab: explain: 'medain' is not a word that virtlab knows; did you mean 'median'?\n"
    )
    page = (ROOT / "docs" / "reference" / "commands.md").read_text()
    for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE):
        assert found(code)[0].kind == "exit code"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo.yaml").write_text(template("load", "demo"))
    (tmp_path / "x.results").mkdir()
    (tmp_path / "x.results" / "manifest.json").write_text("{}")
    (tmp_path / "other").mkdir()


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        (["de"], ["demo"]),
        (["run", "--max"], ["--max-runs"]),
        (["run", "--backend", "s"], ["simulator"]),
        (["run", "d"], ["demo.yaml"]),
        (["report", ""], ["x.results"]),
        (["rt", "ana"], ["analyze"]),
        (["run", "demo.yaml", "--points", "load=2"], ["load=20 kB"]),
        (["run", "demo.yaml", "--points", "load", "=", "2"], ["load=20 kB"]),
        (["completion", "z"], ["zsh"]),
        (["nothing", "x"], []),
        (["run", "none.yaml", "--points", "l"], []),
    ],
)
def test_completion_offers_what_may_follow(line: list[str], offered: list[str]) -> None:
    assert candidates(line) == offered


@pytest.mark.usefixtures("place")
def test_metrics_of_the_named_files_roles_are_offered() -> None:
    given = candidates(["predict", "demo.yaml", "--metric", "probe.rtt.m"])
    assert {"probe.rtt.mean", "probe.rtt.median", "probe.rtt.max"} <= set(given)
    assert all(word.startswith("probe.rtt.m") for word in given)


def test_bash_is_given_what_follows_the_last_equals_sign() -> None:
    assert escaped(["load=30 kB"], "bash", ["--points", "load", "=", "3"]) == ["30\\ kB"]
    assert escaped(["load=30 kB"], "zsh", ["load=3"]) == ["load=30\\ kB"]
    assert escaped(["load=30 kB"], "fish", ["load=3"]) == ["load=30 kB"]


def test_there_is_a_manual_page_per_command_that_holds_its_options() -> None:
    found_pages = pages()
    assert set(found_pages) == {"virtlab.1", *(f"virtlab-{name}.1" for name in COMMANDS)}
    for name, text in found_pages.items():
        assert text.startswith('.TH "VIRTLAB')
        for line in text.splitlines():
            assert not line.startswith("'"), name
            assert not line.startswith(".") or re.match(r"\.(TH|SH|TP|PP|B|BR|nf|fi)\b", line), (name, line)
    assert "\\-\\-backend" in found_pages["virtlab-run.1"]


def commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """A command, or those below it."""
    children = getattr(command, "commands", None)
    if children is None:
        yield name, command
        return
    for child, below in children.items():
        yield from commands(f"{name} {child}", below)


def test_the_help_of_every_command_holds_an_example_of_it() -> None:
    every = [found for name in COMMANDS for found in commands(name, declaration(name))]
    assert len(every) > 30
    for name, command in every:
        _, _, example = re.sub(r"\bExamples:", "Example:", command.help or "").partition("Example:")
        assert f"virtlab {name}" in example, name
