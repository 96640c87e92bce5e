"""`import virtlab as vl`: what it offers, and that each part does what the command of its name does."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

import pytest
from tools.sections import PLACE, sections

import virtlab as vl
from virtlab.api.reference_page import CLASSES, FUNCTIONS, page
from virtlab.api.sections import Sections
from virtlab.errors import ExperimentError, MachineError, VirtlabError
from virtlab.experiment import FileMistakesError
from virtlab.experiment.schema import json_schema
from virtlab.experiment.templates import template

SURFACE = {
    "Picture": "(name: 'str', title: 'str', alt: 'str', _figure: 'Figure') -> None",
    "Results": "(dataset: 'Dataset', ending: 'Ending | None' = None) -> 'None'",
    "Table": "(database: 'duckdb.DuckDBPyConnection', query: 'str') -> 'None'",
    "capacity": "(experiment: 'str | Path | Experiment', *, until: 'Sequence[str]', vary: 'str', "
    "first: 'str | None' = None, last: 'str | None' = None, step: 'str | None' = None, points: 'str | None' = None, "
    "confidence: 'float' = 0.95, "
    "runs: 'int' = 30, draws: 'int' = 8, profile: 'str | None' = None) -> 'list[Capacity]'",
    "compare": "(old: 'str | Path | Results', new: 'str | Path | Results', *, margins: 'Sequence[str]' = (), "
    "quantities: 'Sequence[str]' = (), level: 'float' = 0.95) -> 'Changes'",
    "define": "(name: 'str', **sections: 'Unpack[Sections]') -> 'Experiment'",
    "load": "(file: 'str | Path') -> 'Experiment'",
    "open": "(path: 'str | Path') -> 'Results'",
    "predict": "(experiment: 'str | Path | Experiment', *, metric: 'str | None' = None, profile: 'str | None' = None, "
    "points: 'str | None' = None, repetitions: 'int' = 5, draws: 'int' = 0) -> 'Table'",
    "run": "(experiment: 'str | Path | Experiment', *, backend: 'str | None' = None, inside: 'str | None' = None, "
    "profile: 'str | None' = None, dataset: 'str | Path | None' = None, points: 'str | None' = None, "
    "max_runs: 'int | None' = None, retry: 'bool' = False, wait: 'bool | None' = None, anonymise: 'bool | None' = None, "
    "allow_exec: 'bool' = False, progress: 'bool' = False) -> 'Results'",
}
OF_RESULTS = {
    "as_json", "exit_code", "figure", "figures", "lacking", "notes", "over_time", "report", "runs", "samples", "values",
    "verdicts",
}  # fmt: skip
OF_TABLES = {"columns", "of", "rows", "where"}


def public(made: type) -> set[str]:
    return {name for name in vars(made) if not name.startswith("_")}


def test_the_surface_is_what_programs_rely_on() -> None:
    """Whoever changes it changes programs of other people: add, and take nothing away."""
    assert [name for name in dir(vl) if name != "__version__"] == sorted(SURFACE)
    assert {name: str(inspect.signature(getattr(vl, name))) for name in SURFACE} == SURFACE
    assert public(vl.Results) == OF_RESULTS
    assert public(vl.Table) == OF_TABLES
    assert {"svg", "save"} <= public(vl.Picture)
    with pytest.raises(AttributeError):
        vl.nothing  # type: ignore[attr-defined]  # noqa: B018


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> vl.Results:
    folder = tmp_path_factory.mktemp("api")
    file = folder / "demo.yaml"
    file.write_text(template("demo", "demo"))
    return vl.run(file, backend="simulator", dataset=folder / "demo.results")


@pytest.mark.slow
def test_a_run_gives_verdicts_values_and_samples(results: vl.Results) -> None:
    assert results.exit_code == 0
    assert [one.verdict for one in results.verdicts] == ["holds"] * 3
    rtt = results.values().where(role="probe", metric="path_rtt", statistic="median")
    assert len(rtt) == 8
    levels, values = rtt.columns.index("switches"), rtt.columns.index("value")
    assert {row[levels] for row in rtt.rows()} == {"1", "2"}
    assert all(row[values] > 0 for row in rtt.rows())
    assert len(results.samples("rtt")) == 8 * 20
    assert len(results.runs()) == 8
    assert "holds" in results._repr_html_()
    with pytest.raises(ExperimentError, match="did you mean 'rtt'"):
        results.samples("rt")


@pytest.mark.slow
def test_a_table_is_a_stream_of_arrow(results: vl.Results) -> None:
    capsule = results.values().__arrow_c_stream__()
    assert "arrow_array_stream" in repr(capsule)
    import duckdb

    values = results.values()
    assert duckdb.sql("SELECT count(*) FROM values").fetchall() == [(len(values),)]


@pytest.mark.slow
def test_a_figure_shows_and_saves_itself(results: vl.Results, tmp_path: Path) -> None:
    picture = results.figure(next(name for name in results.figures if "path" in name))
    assert picture._repr_html_().startswith("<svg")
    picture.save(tmp_path / "p.png")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ExperimentError, match="neither"):
        picture.save(tmp_path / "p.gif")
    with pytest.raises(ExperimentError, match="there is no plot"):
        results.figure("nothing")


@pytest.mark.slow
def test_the_same_call_resumes_and_open_finds_the_same(results: vl.Results) -> None:
    again = vl.run(results.path.parent / "demo.yaml", backend="simulator", dataset=results.path)
    assert len(again.runs()) == 8
    assert vl.open(results.path).as_json()["verdicts"] == results.as_json()["verdicts"]


@pytest.mark.slow
def test_a_notebook_whose_event_loop_runs_can_run_experiments(results: vl.Results, tmp_path: Path) -> None:
    async def cell() -> int:
        file = results.path.parent / "demo.yaml"
        return vl.run(file, backend="simulator", dataset=tmp_path / "cell.results", max_runs=2).exit_code

    assert asyncio.run(cell()) == 4  # two of eight runs decide nothing


@pytest.mark.slow
def test_an_experiment_built_in_python_is_a_file(tmp_path: Path) -> None:
    built = vl.define(
        "echoes", factors={"size": ["64 B ip_packet", "1500 B ip_packet"]}, hosts=2, topology="line",
        link={"rate": "10 Mbit/s"}, repeat=3,
        roles={"p": {"workload": "rtt", "from": "h1.g1", "to": "h2.g1", "size": "${size}", "interval": "9 ms", "count": 5}},
        claims=["p.rtt.mean grows with size"],
    )  # fmt: skip
    file = built.write(tmp_path / "echoes.yaml")
    assert file == tmp_path / "echoes.yaml"
    assert vl.load(file).text == built.text == file.read_text()
    with pytest.raises(MachineError, match="cannot be written"):
        built.write(tmp_path / "none" / "echoes.yaml")
    assert vl.run(built, backend="simulator", dataset=tmp_path / "e.results").exit_code == 0
    with pytest.raises(FileMistakesError, match="h3"):
        vl.define(
            "wrong",
            hosts=2,
            topology="line",
            roles={"p": {"workload": "rtt", "from": "h1.g1", "to": "h3.g1"}},
        )


@pytest.mark.slow
def test_the_types_of_sections_are_those_of_the_files_schema() -> None:
    assert PLACE.read_text() == sections(), "write them again: python -m tools.sections"
    assert set(Sections.__annotations__) == set(json_schema()["properties"]) - {"version", "name"}


@pytest.mark.slow
def test_questions_are_answered(results: vl.Results) -> None:
    changes = vl.compare(results, results.path)
    assert {row.finding for row in changes.rows} == {"equivalent"}
    table = vl.predict(results.path.parent / "demo.yaml", metric="probe.path_rtt.median")
    found = {row[0]: row[table.columns.index("value")] for row in table.rows()}
    assert found["2"] - found["1"] == pytest.approx(2_441_600, rel=0.01)
    (answer,) = vl.capacity(
        results.path.parent / "demo.yaml", until=["probe.rtt.mean < 6 ms"], vary="switches", runs=3, draws=0
    )
    assert answer.largest == "1"


@pytest.mark.slow
def test_what_this_machine_or_file_cannot_is_raised(tmp_path: Path) -> None:
    with pytest.raises(VirtlabError, match="is not a backend"):
        vl.run(_demo(tmp_path), backend="nothing")
    with pytest.raises(VirtlabError, match="cannot be read"):
        vl.run(tmp_path / "none.yaml")


def _demo(folder: Path) -> Path:
    (folder / "demo.yaml").write_text(template("demo", "demo"))
    return folder / "demo.yaml"


def test_the_reference_page_is_what_the_interface_is() -> None:
    file = Path(__file__).parents[3] / "docs" / "reference" / "python.md"
    assert file.read_text() == page(), (
        "write it anew: python -m virtlab.api.reference_page > docs/reference/python.md"
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_parameter_is_documented(name: str) -> None:
    function = getattr(vl, name)
    for parameter in inspect.signature(function).parameters:
        assert f"`{parameter}`" in (function.__doc__ or "")


def test_the_reference_page_has_every_name_that_is_offered() -> None:
    offered = {*FUNCTIONS, *(made.__name__ for made in CLASSES)}
    assert offered >= set(SURFACE)
