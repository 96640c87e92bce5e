"""The pages say what is there: every link leads somewhere, every option is a command's, every key and name is
listed.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from virtlab.catalogue import WORKLOADS
from virtlab.catalogue.collected import COUNTERS, SERIES
from virtlab.cli.reference import page
from virtlab.cli.table import COMMANDS, declaration
from virtlab.experiment.read.mistakes import Mistakes
from virtlab.experiment.read.tree import read_tree
from virtlab.experiment.schema import json_schema
from virtlab.results import Manifest, RunKey, RunRecord
from virtlab.settings import Settings

ROOT = Path(__file__).parents[3]
REFERENCE = ROOT / "docs" / "reference"
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "experiments/**/*.md", "published/*.md")
    for path in ROOT.glob(pattern)
    if ".results" not in str(path)
)
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def named(*pages: str) -> set[str]:
    """Words in code of some reference pages, inline or in blocks."""
    found: set[str] = set()
    for name in pages:
        text = (REFERENCE / name).read_text()
        code = [*BLOCK.findall(text), *re.findall(r"`[^`\n]+`", BLOCK.sub("", text))]
        found |= set(re.findall(r"[A-Za-z_][A-Za-z0-9_.]*", " ".join(code)))
    return found | {part for word in found for part in word.split(".")}


def test_the_page_of_commands_is_what_their_help_says() -> None:
    assert (REFERENCE / "commands.md").read_text() == page(), (
        "write it anew: python -m virtlab.cli.reference > docs/reference/commands.md"
    )


def anchor(heading: str) -> str:
    """A heading's name in a link, as forges make it."""
    return re.sub(r"[^\w\- ]", "", heading.replace("`", "").strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(path: Path) -> None:
    astray = []
    for target in re.findall(r"\]\(([^)\s]+)\)", BLOCK.sub("", path.read_text())):
        file, _, place = target.partition("#")
        if "://" in target:
            continue
        there = (path.parent / file).resolve() if file else path
        if not there.exists():
            astray.append(target)
        elif place:
            headings = re.findall(r"^#+ (.*)$", BLOCK.sub("", there.read_text()), re.MULTILINE)
            astray += [] if place in map(anchor, headings) else [target]
    assert astray == []


@cache
def places() -> list[str]:
    """Every file and folder of the sources, with a slash before it, and one behind a folder."""
    tops = ("python/virtlab", "crates", "docs", "tests", "benches", "tools")
    below = [path for top in tops for path in (ROOT / top).rglob("*") if "__pycache__" not in path.parts]
    above = [*(ROOT / top for top in tops), *(path for path in ROOT.iterdir() if path.is_file())]
    return [f"/{path.relative_to(ROOT)}{'/' if path.is_dir() else ''}" for path in (*below, *above)]


PATH = re.compile(r"`((?:[\w.-]+/)*[\w.-]+(?:\.(?:py|rs|md|toml|json|lock|j2)|/))`")
UNIT = re.compile(r"\n{2,}|\n(?=\||\d+\. |- )")  # ends a paragraph, a row of a table or an item of a list


def there(word: str) -> list[str]:
    """The places that a path means, named from any folder on; NAME is any kind's."""
    ends = re.compile("/" + re.escape(word).replace("NAME", "[^/]+") + "$")
    return [place for place in places() if ends.search(place)]


def gone(text: str) -> list[str]:
    """Paths of a text that are nowhere. A name alone is of a folder or beside a file that its paragraph, row or item
    names, or at the top.
    """
    missing = []
    for unit in UNIT.split(BLOCK.sub("", text)):
        words = PATH.findall(unit)
        long = [place for word in words if "/" in word for place in there(word)]
        near = {place if place.endswith("/") else place.rpartition("/")[0] + "/" for place in long}
        for word in words:
            found = there(word)
            if "/" not in word:
                found = [
                    place for place in found if place.count("/") == 1 or any(map(place.startswith, near))
                ]
            missing += [] if found else [word]
    return missing


@pytest.mark.slow
@pytest.mark.parametrize("page", ["ARCHITECTURE.md", "docs/explanation/architecture.md"])
def test_every_path_that_a_page_about_the_code_names_is_there(page: str) -> None:
    text = (ROOT / page).read_text()
    assert len(PATH.findall(BLOCK.sub("", text))) > 20
    assert gone(text) == []


@pytest.mark.slow
def test_a_path_that_is_gone_is_found_also_where_another_folder_has_a_file_of_that_name() -> None:
    text = (
        "`testbed/kinds/registry.py` finds it (`protocol.py`), in `virtlab-wire/line.rs`.\n\n`protocol.py`\n"
    )
    assert gone(text) == ["protocol.py", "virtlab-wire/line.rs", "protocol.py"]
    assert gone("`campaign/search/` has `protocol.py`, and `Cargo.toml` `testbed/vswitches/NAME.py`") == []


@pytest.mark.parametrize("path", sorted(REFERENCE.glob("*.md")), ids=lambda path: path.stem)
def test_yaml_of_the_reference_pages_is_yaml(path: Path) -> None:
    for block in re.findall(r"^```yaml\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL):
        mistakes = Mistakes()
        assert read_tree(block, mistakes) is not None, [str(mistake) for mistake in mistakes]


def test_the_page_of_a_study_names_all_its_files() -> None:
    missing = []
    for readme in (ROOT / "experiments").glob("*/README.md"):
        text = readme.read_text()
        files = [path for path in readme.parent.iterdir() if path.suffix in {".yaml", ".toml"}]
        missing += [path for path in files if path.name not in text]
    assert missing == []


def options(name: str) -> dict[str, set[str]]:
    """Options of a command, or of its parts by their names."""
    command = declaration(name)
    parts = getattr(command, "commands", None) or {"": command}
    return {
        part: {"--help"} | {word for given in one.params for word in (*given.opts, *given.secondary_opts)}
        for part, one in parts.items()
    }


OPTIONS = {name: options(name) for name in COMMANDS}


def commands(text: str) -> Iterator[str]:
    """Every `virtlab ...` in code of a page, a line each."""
    for block in BLOCK.findall(text):
        if block.startswith("```python"):
            continue  # `import virtlab as vl` is no command
        for line in block.replace("\\\n", " ").splitlines():
            yield from re.findall(r"(?:^|[$| ])virtlab ([a-z].*)", line.partition("  #")[0])
    prose = BLOCK.sub("", text)
    yield from re.findall(r"^ {4,}virtlab ([a-z].*)", prose.replace("\\\n", " "), re.MULTILINE)
    yield from re.findall(r"`virtlab ([a-z][^`]*)`", prose)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_of_a_page_exists_with_its_options(path: Path) -> None:
    wrong = []
    for line in commands(path.read_text()):
        words = shlex.split(re.split(r" -- | \| | && | > ", line)[0].replace("'", '"'))
        known = OPTIONS.get(words[0])
        if known is None:
            wrong.append(line)
            continue
        part = "" if "" in known else next(iter(words[1:]), "")
        if part not in known:
            wrong += [line] if part and not part.startswith("-") and part.islower() else []
            continue
        given = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        wrong += [f"{line}: {option}" for option in sorted(given - known[part])]
    assert wrong == []


def keys(schema: Any) -> Iterator[str]:
    """Every key that a file may hold somewhere."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        for value in schema.values():
            yield from keys(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from keys(value)


@pytest.mark.slow
def test_every_key_of_a_file_is_in_the_reference() -> None:
    known = named("experiment-file.md", "disks.md", "search.md", "workloads.md", "claims.md", "services.md")
    curves = {
        f"{curve}_{part}" for curve in ("rt", "ls", "ul") for part in ("m1", "d", "m2")
    }  # `ls_...` there
    assert {"rt_m1", "ls_...", "ul_..."} <= known
    assert sorted(set(keys(json_schema())) - known - curves) == []


def test_every_series_and_every_group_of_counters_is_in_the_reference() -> None:
    assert sorted({*SERIES, *COUNTERS} - named("experiment-file.md")) == []


def test_the_reference_says_of_series_and_counters_what_their_declarations_say() -> None:
    page = (REFERENCE / "experiment-file.md").read_text().splitlines()
    names = {f"`{name}`": each for name, each in SERIES.items()} | {
        " (or ".join(f"`{name}`" for name in each.names) + ")" * len(each.other_names): each
        for each in COUNTERS.values()
    }
    rows = [
        f"| {name} | {each.meaning} | {each.source} | {each.simulated or 'no'} |"
        for name, each in names.items()
    ]
    assert [row for row in rows if row not in page] == []


def test_the_leader_samples_the_metrics_that_declarations_name() -> None:
    machine = ROOT / "crates" / "virtlab-leader" / "src" / "machine"
    text = "".join(path.read_text() for path in machine.glob("*.rs"))
    sources = re.search(r"const SOURCES: [^=]*= \[(.*?)\];", text, re.DOTALL)
    assert sources is not None
    by_agents = {name: each for name, each in SERIES.items() if each.sampler == "agent"}
    assert set(re.findall(r'"([^"]+)"', sources[1])) == set(by_agents)
    metrics = {metric for each in by_agents.values() for metric in each.metrics}
    assert sorted(metric for metric in metrics if f'"{metric}"' not in text) == []


def test_the_house_lists_what_a_plan_says_of_every_workload() -> None:
    rows = (ROOT / "ARCHITECTURE.md").read_text().splitlines()
    missing = []
    for workload in WORKLOADS.values():
        row = next(row for row in rows if row.startswith(f"| `{workload.name}`"))
        for parameter in workload.parameters:
            size = parameter.name == "size" and "size" in row
            if not size and parameter.plan not in row and parameter.plan != "dscp":
                missing.append(f"{workload.name}.{parameter.plan}")
    assert missing == []


def test_every_field_of_a_manifest_and_of_a_run_is_in_the_reference(tmp_path: Path) -> None:
    manifest = Manifest("n", "now", "testbed", 1, "0")
    record = RunRecord(tmp_path, RunKey(0, 0, 0), {}, 1, "0", "testbed", "ok", overrides={"load.rate": 1})
    assert sorted({*manifest.as_json(), *record.as_json()} - named("dataset.md")) == []


def test_every_setting_is_in_the_reference() -> None:
    known = named("settings.md")
    for field in fields(Settings):
        assert {field.name, f"VIRTLAB_{field.name.upper()}"} <= known
        assert field.name == "results" or f"--{field.name}" in OPTIONS["run"][""]
