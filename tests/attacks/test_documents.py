"""Small files that never end, or stand for more than any memory holds, are refused in one line."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tools.fuzz.workers import fuzz

from virtlab.documents import read_bytes, yaml_values
from virtlab.errors import ExperimentError, VirtlabError
from virtlab.experiment import FileMistakesError, load, load_text
from virtlab.imported.mapping import read_mapping
from virtlab.realtime.files import load_tasks
from virtlab.realtime.forms import load_study
from virtlab.realtime.hosts import load_host
from virtlab.realtime.published import check_published
from virtlab.report.gather.sources.source_figures import read_figures
from virtlab.simulator.profile import load_profile

READERS: list[tuple[str, Callable[[Path], Any]]] = [
    ("a.yaml", load),
    ("mapping.yaml", read_mapping),
    ("figures.yaml", read_figures),
    ("tasks.yaml", load_tasks),
    ("host.yaml", load_host),
    ("study.yaml", load_study),
    ("a.profile.toml", lambda path: load_profile(str(path))),
    ("published.csv", lambda path: check_published(path, sets=10)),
]
LAUGHS = "".join(
    f"{letter}: &{letter} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, letter in zip("abcdefgh", "bcdefghi", strict=True)
)
NESTED = f"a: &a [x, x]\n{LAUGHS}figures: *i\nguests: *i\ntasks: *i\n"


@pytest.fixture(params=READERS, ids=lambda one: one[0])
def reader(request: pytest.FixtureRequest) -> tuple[str, Callable[[Path], Any]]:
    return request.param  # type: ignore[no-any-return]


def refused(path: Path, read: Callable[[Path], Any]) -> str:
    with pytest.raises(ExperimentError) as caught:
        read(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_a_device_that_never_ends_is_no_file(
    reader: tuple[str, Callable[[Path], Any]], tmp_path: Path
) -> None:
    path = tmp_path / reader[0]
    path.symlink_to("/dev/zero")
    assert "is not a regular file" in refused(path, reader[1])


def test_a_pipe_that_nobody_writes_to_is_no_file(
    reader: tuple[str, Callable[[Path], Any]], tmp_path: Path
) -> None:
    path = tmp_path / reader[0]
    os.mkfifo(path)
    assert "is not a regular file" in refused(path, reader[1])


def test_a_file_of_a_terabyte_is_refused_before_it_is_read(
    reader: tuple[str, Callable[[Path], Any]], tmp_path: Path
) -> None:
    path = tmp_path / reader[0]
    with path.open("wb") as file:
        os.ftruncate(file.fileno(), 1 << 40)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "is larger than" in refused(path, reader[1])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10


def test_aliases_that_stand_for_a_billion_values_are_refused(
    reader: tuple[str, Callable[[Path], Any]], tmp_path: Path
) -> None:
    path = tmp_path / reader[0]
    path.write_text(NESTED)
    refused(path, reader[1])


@pytest.mark.slow
def test_yaml_is_bounded_in_values_and_in_depth() -> None:
    assert yaml_values("a: &a [1, 2]\nb: *a\n") == {"a": [1, 2], "b": [1, 2]}
    for text, what in (
        (NESTED, "values"),
        ("[" * 1000, "levels"),
        ("a: &a [*a]", ""),
        ("- x\n" * 60_000, "values"),
    ):
        with pytest.raises(ExperimentError) as caught:
            yaml_values(text)
        assert what in str(caught.value)


def test_a_name_that_no_file_can_have_is_refused() -> None:
    for name in ("a\0b", "a" * 5000):
        with pytest.raises(ExperimentError):
            read_bytes(Path(name))


@pytest.mark.slow
def test_a_factor_of_thousands_of_worlds_is_refused_before_they_are_built() -> None:
    text = """
version: 1
name: many
repeat: 1
factors: {n: {from: 2, to: 4000, step: 1}}
hosts: "${n}"
topology: star
roles: {probe: {workload: rtt, from: h1.g1, to: h2.g1}}
"""
    with pytest.raises(ExperimentError, match="more than 20,000 guests together"):
        load_text(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("roles", "levels", "exclusions", "word"),
    [(60, 3000, 0, "120,000 values"), (600, 300, 0, "120,000 values"), (60, 9000, 1, "120,000 values"),
     (1, 9000, 900, "900 exclusions")],
)  # fmt: skip
def test_design_points_of_more_values_than_can_be_looked_at_are_refused(
    roles: int, levels: int, exclusions: int, word: str
) -> None:
    """4,000 roles of 3,300 levels took minutes and gigabytes."""
    each = "".join(
        f'  p{number}: {{workload: rtt, from: h1.g1, to: h2.g1, count: "${{a}}"}}\n'
        for number in range(roles)
    )
    excluded = "".join(f"  - {{a: {number + 1}}}\n" for number in range(exclusions))
    text = (
        f"version: 1\nname: m\nfactors: {{a: {{from: 1, to: {levels}, step: 1}}}}\nhosts: 2\nrepeat: 1\n"
        f"topology: direct\nroles:\n{each}" + (f"exclude:\n{excluded}" if exclusions else "")
    )
    begun = time.process_time()
    with pytest.raises(FileMistakesError, match=word):
        load_text(text)
    assert time.process_time() - begun < 10, "refused before the points are resolved, or soon"


@pytest.mark.process
@pytest.mark.parametrize("question", ["budget", "sensitivity", "best"])
def test_tasks_of_more_points_than_can_be_looked_at_are_refused(question: str, tmp_path: Path) -> None:
    """Three thousand tasks took a minute for a budget, and hours for a sensitivity."""
    file = tmp_path / "tasks.csv"
    rows = "".join(f"t{number},1 ns,{1_000_000_000 + 7919 * number} ns\n" for number in range(3000))
    file.write_text(f"name,wcet,period\n{rows}")
    asked = {
        "budget": ("--period", "10 ms"),
        "sensitivity": ("--period", "10 ms", "--budget", "5 ms"),
        "best": ("--overhead", "100 us"),
    }
    call = [str(Path(sys.executable).with_name("virtlab")), "rt", question, str(file), *asked[question]]
    done = subprocess.run(call, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode not in {0, 70}, done.stdout
    assert "steps" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


@pytest.mark.slow
def test_a_world_of_millions_of_guests_is_refused_before_it_is_built() -> None:
    text = (
        "version: 1\nname: large\nhosts: 4096\nhost: {guests: 4096}\ntopology: star\n"
        "roles: {probe: {workload: rtt, from: h1.g1, to: h2.g1}}\n"
    )
    with pytest.raises(ExperimentError, match="more than 20,000 guests together"):
        load_text(text)


@pytest.mark.parametrize("period", ["1e99999999 ms", "9e999999999 s", "1/1e9999999 ms", f"{'9' * 4000} ms"])
def test_a_time_that_takes_arithmetic_without_end_is_no_time_of_a_task(period: str, tmp_path: Path) -> None:
    path = tmp_path / "tasks.csv"
    path.write_text(f"name,period,wcet\na,{period},1 ms\n")
    refused(path, load_tasks)


@pytest.mark.process
@pytest.mark.parametrize(
    "kind",
    ["baselines", "control", "datasets", "mappings", "program_outputs", "task_files", "tool_outputs"],
)
def test_what_others_damaged_is_accepted_or_refused_in_one_line(kind: str, tmp_path: Path) -> None:
    """A slice of `make fuzz`; its cases are the same every time."""
    outcome = fuzz(kind, seed=7, count=60, workers=1, folder=tmp_path)
    assert outcome.findings == []
    assert outcome.accepted + outcome.refused == 60


@pytest.mark.parametrize("place", ["settings.toml", "appliances/trap/appliance.toml"])
@pytest.mark.parametrize("end", ["/dev/zero", "a pipe", "large"])
def test_settings_and_recipes_without_end_are_not_waited_for(
    place: str, end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from virtlab.settings import load_settings
    from virtlab.testbed.platforms.appliance import recipe

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "virtlab" / place
    file.parent.mkdir(parents=True)
    if end == "a pipe":
        os.mkfifo(file)
    elif end == "large":
        file.write_text("#" * (2 << 20))
    else:
        file.symlink_to(end)
    with pytest.raises(VirtlabError, match="cannot be read"):
        load_settings() if place == "settings.toml" else recipe.load("trap")
