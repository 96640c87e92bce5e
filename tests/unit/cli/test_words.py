"""`virtlab explain`, what completion offers, and manual pages: all from what is declared."""

from __future__ import annotations

import ast
import errno
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from virtlab.campaign import MachineLock
from virtlab.catalogue import QDISCS, WORKLOADS
from virtlab.cli.guest_commands import refuse_unless_allowed
from virtlab.cli.main import ROOM, main
from virtlab.cli.manual import pages
from virtlab.cli.table import COMMANDS, declaration
from virtlab.cli.words import entries as module
from virtlab.cli.words.completing import candidates, escaped
from virtlab.cli.words.entries import entries, entries_of
from virtlab.errors import VirtlabError
from virtlab.experiment import load_text
from virtlab.experiment.templates import template
from virtlab.folders import only_files_and_folders
from virtlab.metrics import METRICS, STATISTICS
from virtlab.open_files import require
from virtlab.testbed.image.rootfs import rootfs_folder
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


@pytest.mark.slow
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
        assert entries_of(name), name
    assert all(one.what and one.names for one in entries())
    assert not any("](" in one.what or "**" in one.what for one in entries())


AGENT = [
    path
    for name in ("virtlab-agent", "virtlab-leader")
    for path in sorted((ROOT / "crates" / name / "src").rglob("*.rs"))
]
TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)


def filled(text: str) -> str:
    """A format of Rust with a number for each of its fields, and lines put together."""
    return re.sub(r"\{[^}]*\}", "7", re.sub(r"\\\n\s*", "", text))


def taints_of_the_agent() -> list[str]:
    """Every taint that a probe adds to its report, as it is printed, from where its source adds it."""
    every = {path: path.read_text().split("#[cfg(test)]", maxsplit=1)[0] for path in AGENT}
    told = []
    for path, source in every.items():
        for kind, added in re.findall(r"\.taint\(\s*(?:taint::)?Kind::(\w+),(.*?)\);\n", source, re.DOTALL):
            made = (
                re.search(r"let text = format!\((.*?)\);", source, re.DOTALL)
                if added.strip() == "text"
                else None
            )
            text = TEXT.search(made[1] if made is not None else added)
            assert text is not None or added.strip() == "failure", f"{path.name}: {added}"
            name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind).lower()
            told.append(f"{name}: {filled(text[1]) if text is not None else 'it ended'}")
        assert len(re.findall(r"\btaints\.push\(", source)) == (path.name == "report.rs"), path.name
    return told


def said(expression: ast.expr, names: dict[str, ast.expr]) -> str:
    """A text of Python with a number for each of its fields."""
    match expression:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(said(part, names) for part in parts)
        case ast.FormattedValue(value=ast.Name(id=name)) if name in names:
            return said(names[name], names)
        case ast.Name(id=name) if name in names:
            return said(names[name], names)
        case ast.Call(func=ast.Name(id="Reason"), args=[where, text, *kind]):
            return ": ".join(said(part, names) for part in (where, *kind, text))
        case ast.Call(func=ast.Name(id="stood_still"), args=[where, *_]):
            return f"{said(where, names)}: starved: it stood still 7 times for 20 ms or longer, at most 7 ms"
        case ast.Name(id="STARVED"):
            return "starved"
        case ast.Name(id="SOFT_SWITCH"):
            return "soft switch"
    return "7"


WHAT_TAINTS = ROOT / "python" / "virtlab" / "testbed" / "play" / "taints.py"  # its functions return taints

MENTIONED = r"taint|disturbed|_doubtful"  # in each file that taints: what is looked for below


def taints_of_python() -> list[str]:
    """Every text by which Python taints a run: added to a list of taints, or the reason of an outcome."""
    told = []
    tellers = {
        one.name for one in ast.parse(WHAT_TAINTS.read_text()).body if isinstance(one, ast.FunctionDef)
    }
    for path in sorted((ROOT / "python" / "virtlab").rglob("*.py")):
        source = path.read_text()
        for function in ast.walk(ast.parse(source)) if re.search(MENTIONED, source) else ():
            if not isinstance(function, ast.FunctionDef):
                continue
            names = {
                one.targets[0].id: one.value
                for one in ast.walk(function)
                if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)
            }
            returned = path == WHAT_TAINTS or function.name == "_doubtful"
            lists = {"tainted", "disturbed"}
            for one in ast.walk(function):
                match one:
                    case ast.AugAssign(target=ast.Attribute(attr="taints"), value=added):
                        asked = (
                            added.func.id
                            if isinstance(added, ast.Call) and isinstance(added.func, ast.Name)
                            else ""
                        )
                        assert asked in tellers or ast.unparse(added) == "tainted", (
                            f"{path.name}: {ast.unparse(one)}"
                        )
                    case ast.Call(
                        func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[text]
                    ) if name in lists:
                        told.append(said(text, names))
                    case ast.Call(
                        func=ast.Attribute(value=ast.Attribute(attr="taints"), attr="append"), args=[text]
                    ):
                        told.append(said(text, names))
                    case ast.Call(
                        func=ast.Name(id="Outcome"),
                        args=[ast.Constant(value="tainted"), ast.Tuple(elts=[text])],
                    ):
                        told.append(said(text, names))
                    case ast.Return(value=ast.List(elts=[text]) | ast.ListComp(elt=text)) if returned:
                        told.append(said(text, names))
    return told


@pytest.mark.slow
def test_every_taint_that_the_code_can_raise_is_explained_as_it_is_printed() -> None:
    agent, python = taints_of_the_agent(), taints_of_python()
    assert {text.split(":")[0] for text in agent} == {
        "starved", "socket_drops", "ring_drops", "spool_overflow", "failed", "clock_step", "supply_broken",
    }  # fmt: skip
    assert len(agent) >= 9
    assert len(python) >= 12
    for message in [*(f"roles.probe: guest h1.g1: {text}" for text in agent), *python]:
        kind = "failure" if ": failed:" in message else "taint"
        assert [one.kind for one in entries_of(message)] == [kind], message


@pytest.mark.slow
def test_the_taints_of_a_switch_and_of_a_clock_are_explained_as_they_are_told() -> None:
    port = {"ring_drops": 3, "oversize": 1, "bad_checksum": 1}
    stats = {
        "lateness": {"count": 9, "late_share": 0.5, "max_ns": 40_000_000}, "standstills": 2, "clock_steps": 1,
        "ports": {"a": port},
    }  # fmt: skip
    tainted, failed = switch_taints(stats)
    stepped = clock_taint({"realtime_ns": 0, "raw_ns": 0}, {"realtime_ns": 10**9, "raw_ns": 0})
    assert len(tainted) == 5
    for message in map(str, [*tainted, *stepped]):
        assert [one.kind for one in entries_of(f"roles.probe: {message}")] == ["taint"], message
    for message in map(str, failed):
        assert [one.kind for one in entries_of(message)] == ["failure"], message


def refused(attempt: Callable[[], object]) -> str:
    """What is printed of an attempt that is refused."""
    with pytest.raises(VirtlabError) as error:
        attempt()
    return f"virtlab: {error.value}"


def refusals(folder: Path) -> dict[str, str]:
    """A name of the entry -> a refusal as the program prints it."""
    ordered = template("demo", "demo").split("timing:")[0]
    ordered += "timeline: [{id: list, do: exec, guest: h1.g1, argv: [ls]}]\nrepeat: 1\n"
    (folder / "x.results").mkdir()
    (folder / "x.results" / "run").symlink_to("/etc/passwd")
    first, second = MachineLock("a", folder=folder), MachineLock("b", folder=folder)
    with first:
        first.acquire(wait=False)
        held = refused(lambda: second.acquire(wait=False))
    no_room = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data")
    return {
        "--allow-exec": refused(lambda: refuse_unless_allowed(load_text(ordered), None, allowed=False)),
        "through anything but files and folders": refused(
            lambda: only_files_and_folders(folder / "x.results")
        ),
        "open files, and": refused(lambda: require(10**9, "report", "reading 7 runs")),
        "machine lock": held,
        "the disk is full": f"virtlab: {no_room.filename}: {no_room.strerror}; {ROOM}",
        "has no unit": refused(lambda: load_text(template("demo", "demo").replace("10 Mbit/s", "10"))),
    }


@pytest.mark.slow
def test_refusals_are_explained_as_they_are_printed(tmp_path: Path) -> None:
    for name, message in refusals(tmp_path).items():
        (entry,) = entries_of(message)
        assert entry.kind == "refusal", message
        assert name in entry.names, message
        assert entry.cure


@pytest.mark.slow
def test_what_finds_a_message_stands_in_the_code_or_is_the_systems() -> None:
    """An entry for a message that nothing prints any more is dead."""
    sources = [*(ROOT / "python" / "virtlab").rglob("*.py"), *AGENT]
    own = "\n".join([*(path.read_text() for path in sources), *taints_of_the_agent()]).lower()
    system = [os.strerror(number).lower() for number in errno.errorcode]
    for one in entries():
        if one.kind in {"taint", "failure", "refusal"}:
            for name in one.names:
                assert name.lower() in own or name.lower() in system, name


@pytest.mark.slow
def test_no_term_stands_for_a_message_that_nobody_explains() -> None:
    """A message says by itself what to do; a text that does not is unknown."""
    (entry,) = entries_of(
        "virtlab: hosts.h1.pools: share of the median link is unknown; name a pool of the run"
    )
    assert (entry.kind, entry.cure) == ("message", "name a pool of the run")
    assert entries_of("the sample of this run is a metric that nobody knows") == []


@pytest.mark.slow
def test_words_of_verdicts_comparisons_and_runs_are_explained() -> None:
    for word in (
        "holds", "refuted", "undecided", "equivalent", "worse", "better", "different", "margin", "baseline", "taint",
        "cancelled", "pushback", "spool_overflow:", "socket_drops:", "claim", "verdict",
    ):  # fmt: skip
        assert all(word.removesuffix(":") in one.names for one in entries_of(word)), word
        assert entries_of(word), word
    assert {one.kind for one in entries_of("spool_overflow")} <= {"taint", "metric"}


@pytest.mark.slow
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
        assert entries_of(code)[0].kind == "exit code"


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
        (["up", "demo.yaml", "--point", "7"], ["7"]),
        (["init", "x", "--template", "d"], ["delay", "demo"]),
        (["import", "a.txt", "--tool", "iperf"], ["iperf3", "iperf2"]),
        (["report", "x.results", "--figures", ""], ["png", "svg", "none"]),
        (["image", "re"], ["remove"]),
        (["nothing", "x"], []),
        (["run", "none.yaml", "--points", "l"], []),
    ],
)
def test_completion_offers_what_may_follow(line: list[str], offered: list[str]) -> None:
    assert candidates(line) == offered


@pytest.mark.slow
@pytest.mark.usefixtures("place")
def test_metrics_of_the_named_files_roles_are_offered() -> None:
    given = candidates(["predict", "demo.yaml", "--metric", "probe.rtt.m"])
    assert {"probe.rtt.mean", "probe.rtt.median", "probe.rtt.max"} <= set(given)
    assert all(word.startswith("probe.rtt.m") for word in given)


@pytest.mark.slow
def test_what_a_dataset_a_baseline_and_the_cache_hold_is_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("demo.yaml").write_text(template("demo", "demo").replace("minimum: 4", "minimum: 2"))
    assert virtlab("run", "demo.yaml", "--backend", "simulator", "--jobs", "1", "--no-report") in {0, 4}
    assert candidates(["export", "demo.results", "--kind", ""]) == ["counter", "packet", "rtt", "sent"]
    assert candidates(["export", "demo.results", "--stream", ""]) == ["probe", "stream"]
    given = candidates(["compare", "demo.results", "--quantity", "probe.rtt.me"])
    assert (
        given
        == candidates(["validate", "demo.results", "--metric", "probe.rtt.me"])
        == ["probe.rtt.mean", "probe.rtt.median"]
    )
    assert virtlab("compare", "demo.results", "--save-baseline", "base.json") == 0
    kept = candidates(["compare", "base.json", "--quantity", ""])
    assert "probe.path_rtt.median" in kept
    assert all(path.count(".") >= 2 for path in kept)
    Path("other.json").write_text("{")
    assert candidates(["compare", "other.json", "--quantity", ""]) == []
    (rootfs_folder() / "small").mkdir(parents=True)
    assert candidates(["image", "remove", ""]) == ["small"]


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


@pytest.mark.slow
def test_manual_pages_are_written_where_they_are_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert virtlab("manual") == 0
    place = tmp_path / ".local" / "share" / "man" / "man1"
    (place / "virtlab.1").write_text("of another version")
    assert virtlab("manual") == 0
    assert {path.name: path.read_text() for path in place.iterdir()} == pages()
    (tmp_path / "file").write_text("")
    assert virtlab("manual", str(tmp_path / "file")) == 3
    assert f"virtlab: {tmp_path / 'file'}: cannot be written" in capsys.readouterr().err


def commands(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """A command, and those below it."""
    yield name, command
    for child, below in getattr(command, "commands", {}).items():
        yield from commands(f"{name} {child}", below)


def test_the_help_of_every_command_holds_an_example_of_it() -> None:
    every = [found for name in COMMANDS for found in commands(name, declaration(name))]
    assert {"image", "rt"} < {name for name, _ in every}
    for name, command in every:
        _, _, example = re.sub(r"\bExamples:", "Example:", command.help or "").partition("Example:")
        assert f"virtlab {name}" in example, name
