"""A dataset: runs appear whole or not at all, one process writes, damage is told with its cure."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from virtlab.errors import AgentError, DatasetError
from virtlab.plan import BLOCKS, Event, Mark, Outcome, Plan, Realised, RealisedObject
from virtlab.results import Dataset, RunKey, RunRecord, RunWriter, Stream

GOLDEN_PLAN = Path(__file__).parents[2] / "golden" / "plans" / "switched_network.json"
PLAN = Plan.parse(GOLDEN_PLAN.read_bytes())
OK = Outcome("ok", marks={"measure.started": Mark(5, 1)}, windows={"measured": (5, 905)})
REALISED = Realised(
    {"links.s1-s2": RealisedObject({"rate_bit_per_s": 10**8}, {"rate_bit_per_s": 10**8}, {}, "soft_switch")},
    {"agent": "0.1.0"},
)


def new_dataset(folder: Path, text: str = "version: 1\n") -> Dataset:
    return Dataset.create(folder / "study.results", text, name="study", seed=7, backend="closed_form")


def rtt_block(first: int, count: int) -> dict[str, np.ndarray]:
    seq = np.arange(first, first + count, dtype=np.int64)
    block = dict.fromkeys(BLOCKS["rtt/1"].columns, seq * 10)
    return block | {"seq": seq, "flow": np.zeros(count, dtype=np.int32)}


def planned(key: RunKey) -> Plan:
    """A Plan of this run alone."""
    return PLAN.repeated(key.repetition, PLAN.seed + 100 * key.point + key.repetition)


def finished_run(dataset: Dataset, key: RunKey, *, rows: int = 10, outcome: Outcome = OK) -> RunRecord:
    with dataset.begin_run(key, planned(key)) as writer:
        writer.block("probe", "rtt/1", rtt_block(0, rows))
        return writer.commit(outcome, REALISED, {"build": 3})


def test_what_was_committed_is_read_back(tmp_path: Path) -> None:
    plan = planned(RunKey(3, 2, 0))
    with new_dataset(tmp_path) as dataset, dataset.begin_run(RunKey(3, 2, 0), plan) as writer:
        writer.block("probe", "rtt/1", rtt_block(0, 10))
        writer.event(Event(7, "measure.started", {"role": "probe"}))
        writer.artefact("console.txt", [b"login", b": "])
        writer.log("info", "built", guests=2)
        writer.commit(OK, REALISED, {"build": 3})
    (record,) = Dataset.open(tmp_path / "study.results").runs()
    assert (record.name, record.point, record.repetition, record.attempt) == ("p0003-r02-a0", 3, 2, 0)
    assert record.levels == PLAN.point
    assert record.plan == plan
    assert record.plan_identity == plan.identity()
    assert record.outcome == OK
    assert record.realised == REALISED
    assert record.link_realisation == "soft_switch"
    assert record.timings["build"] == 3
    assert record.streams() == [Stream("probe", "rtt/1")]
    samples = record.samples("probe", "rtt/1")
    assert list(samples) == list(BLOCKS["rtt/1"].columns)
    assert samples["rtt_ns"].tolist() == list(range(0, 100, 10))
    assert samples["flow"].dtype == np.int32
    assert record.events() == [Event(7, "measure.started", {"role": "probe"})]
    assert [path.read_bytes() for path in record.artefacts()] == [b"login: "]
    assert [entry["what"] for entry in record.log()] == ["measure.started", "built"]


@pytest.mark.slow
def test_blocks_beyond_memory_are_spilled_and_stay_in_order(tmp_path: Path) -> None:
    with new_dataset(tmp_path) as dataset:
        with dataset.begin_run(RunKey(0, 0, 0), PLAN, memory_bytes=4096) as writer:
            for number in range(50):
                writer.block("probe", "rtt/1", rtt_block(number * 20, 20))
            writer.block("load", "rtt/1", rtt_block(0, 3))
            record = writer.commit(OK, REALISED)
        assert record.samples("probe", "rtt/1")["seq"].tolist() == list(range(1000))
        assert record.rows == {"load.rtt-1": 3, "probe.rtt-1": 1000}
        assert sorted(path.name for path in record.folder.iterdir()) == [
            "log.jsonl",
            "plan.json",
            "run.json",
            "samples",
        ]


def test_a_run_without_commit_leaves_nothing(tmp_path: Path) -> None:
    with new_dataset(tmp_path) as dataset:
        with dataset.begin_run(RunKey(0, 0, 0), PLAN) as writer:
            writer.block("probe", "rtt/1", rtt_block(0, 10))
        assert dataset.runs() == []
        assert list((dataset.path / "runs").iterdir()) == []


def test_leftovers_of_a_killed_run_are_invisible_and_swept(tmp_path: Path) -> None:
    with new_dataset(tmp_path) as dataset:
        writer = dataset.begin_run(RunKey(0, 0, 0), PLAN)
        writer.block("probe", "rtt/1", rtt_block(0, 10))
        assert Dataset.open(dataset.path).runs() == []
    with Dataset.open(dataset.path, writing=True):
        assert list((dataset.path / "runs").iterdir()) == []


def test_a_run_is_never_overwritten(tmp_path: Path) -> None:
    with new_dataset(tmp_path) as dataset:
        finished_run(dataset, RunKey(0, 0, 0))
        with pytest.raises(DatasetError, match="never overwritten"):
            dataset.begin_run(RunKey(0, 0, 0), PLAN)


@pytest.mark.parametrize(
    ("stream", "schema", "block", "problem"),
    [
        ("probe", "rtt/9", {}, "unknown schema"),
        ("probe", "rtt/1", {"seq": np.arange(3)}, "other columns"),
        ("probe", "rtt/1", rtt_block(0, 3) | {"seq": np.arange(4)}, "differ in length"),
        ("probe", "rtt/1", rtt_block(0, 3) | {"seq": np.ones(3)}, "holds float64"),
        ("../probe", "rtt/1", rtt_block(0, 3), "not a valid name for a stream"),
    ],
)
def test_a_block_that_does_not_fit_its_schema_is_refused(
    tmp_path: Path, stream: str, schema: str, block: dict[str, np.ndarray], problem: str
) -> None:
    with new_dataset(tmp_path) as dataset:
        writer = dataset.begin_run(RunKey(0, 0, 0), PLAN)
        with pytest.raises(AgentError, match=problem):
            writer.block(stream, schema, block)


def test_an_artefact_cannot_leave_its_folder(tmp_path: Path) -> None:
    with new_dataset(tmp_path) as dataset, dataset.begin_run(RunKey(0, 0, 0), PLAN) as writer:
        for name in ("../run.json", ".hidden", "a/b", ""):
            with pytest.raises(AgentError):
                writer.artefact(name, [b"x"])


def test_names_and_empty_streams_survive(tmp_path: Path) -> None:
    with new_dataset(tmp_path) as dataset, dataset.begin_run(RunKey(0, 0, 0), PLAN) as writer:
        series = {
            "t_ns": np.arange(2),
            "entity": np.array(["h1", "grün"], dtype=object),
            "metric": np.array(["cpu", "cpu"]),
            "value": np.array([0.5, np.nan]),
        }
        writer.block("host.cpu", "series/1", series)
        writer.block("probe", "rtt/1", rtt_block(0, 0))
        record = writer.commit(OK, REALISED)
        assert record.samples("host.cpu", "series/1")["entity"].tolist() == ["h1", "grün"]
        assert record.has("probe", "rtt/1")
        assert record.samples("probe", "rtt/1")["rtt_ns"].dtype == np.int64
        assert not record.has("probe", "sent/1")
        assert record.samples("probe", "sent/1")["seq"].size == 0


def test_runs_are_listed_in_order_and_by_status(tmp_path: Path) -> None:
    with new_dataset(tmp_path) as dataset:
        finished_run(dataset, RunKey(11, 0, 0))
        finished_run(dataset, RunKey(2, 0, 0), outcome=Outcome("tainted", ("stall",)))
        finished_run(dataset, RunKey(2, 0, 1))
        assert [run.name for run in dataset.runs()] == ["p0002-r00-a0", "p0002-r00-a1", "p0011-r00-a0"]
        assert [run.name for run in dataset.runs("tainted")] == ["p0002-r00-a0"]
        assert len(dataset.runs(["ok", "tainted"])) == 3
        assert dataset.run("p0002-r00-a0").reasons == ("stall",)
        with pytest.raises(DatasetError, match="no run"):
            dataset.run("p0009-r00-a0")


@pytest.mark.slow
def test_one_database_stands_over_all_runs(tmp_path: Path) -> None:
    with new_dataset(tmp_path) as dataset:
        finished_run(dataset, RunKey(0, 0, 0), rows=5)
        finished_run(dataset, RunKey(0, 1, 0), rows=7, outcome=Outcome("tainted"))
        answer = dataset.query(
            "SELECT run, load, count(*) AS n FROM rtt WHERE stream = 'probe' GROUP BY ALL ORDER BY run"
        )
        assert answer["run"].tolist() == ["p0000-r00-a0", "p0000-r01-a0"]
        assert answer["load"].tolist() == ["30 kB", "30 kB"]
        assert answer["n"].tolist() == [5, 7]
        assert dataset.query("SELECT count(*) AS n FROM runs WHERE status = 'ok'")["n"].tolist() == [1]
        for view in ("packet", "sent", "burst", "interval", "transaction", "series", "counter"):
            assert dataset.query(f"SELECT * FROM {view}")["run"].size == 0
        with pytest.raises(DatasetError, match=r"dataset\.md"):
            dataset.query("SELECT nonsense")


@pytest.mark.slow
def test_a_factor_named_as_a_column_gets_a_name_of_its_own(tmp_path: Path) -> None:
    plan = PLAN.model_copy(update={"point": {"seed": "1", "a b": "x"}})
    with new_dataset(tmp_path) as dataset:
        with dataset.begin_run(RunKey(0, 0, 0), plan) as writer:
            writer.commit(OK, REALISED)
        answer = dataset.query('SELECT factor_seed, "a b", seed FROM runs')
        assert (answer["factor_seed"][0], answer["a b"][0], answer["seed"][0]) == ("1", "x", plan.seed)


@pytest.mark.slow
def test_samples_older_than_a_column_are_readable(tmp_path: Path) -> None:
    with new_dataset(tmp_path) as dataset:
        record = finished_run(dataset, RunKey(0, 0, 0), rows=4)
        path = record.folder / "samples" / "probe.rtt-1.parquet"
        from virtlab.results.parquet import connection

        older = path.with_suffix(".older")
        connection().execute(
            f"COPY (SELECT * EXCLUDE path_rtt_ns FROM '{path}') TO '{older}' (FORMAT parquet)"
        )
        older.rename(path)
        column = record.samples("probe", "rtt/1")["path_rtt_ns"]
        assert np.ma.count_masked(column) == 4
        view = dataset.query("SELECT seq, path_rtt_ns FROM rtt ORDER BY seq")
        assert view["seq"].tolist() == [0, 1, 2, 3]
        assert np.ma.count_masked(view["path_rtt_ns"]) == 4


def test_only_the_columns_that_are_asked_for_are_read(tmp_path: Path) -> None:
    with new_dataset(tmp_path) as dataset:
        record = finished_run(dataset, RunKey(0, 0, 0), rows=3)
        assert list(record.samples("probe", "rtt/1", ["rtt_ns", "seq"])) == ["rtt_ns", "seq"]
        assert record.samples("probe", "rtt/1", ["seq"])["seq"].tolist() == [0, 1, 2]
        assert list(record.samples("probe", "sent/1", ["seq"])) == ["seq"]
        with pytest.raises(KeyError):
            record.samples("probe", "rtt/1", ["colour"])


def test_a_manifest_of_a_newer_minor_version_is_read_but_not_written(tmp_path: Path) -> None:
    with new_dataset(tmp_path) as dataset:
        finished_run(dataset, RunKey(0, 0, 0))
    path = dataset.path / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"minor": 9, "colour": "red"}))
    newer = Dataset.open(dataset.path)
    assert len(newer.runs()) == 1
    assert newer.manifest.extra == {"colour": "red"}
    with pytest.raises(DatasetError, match="newer virtlab"):
        Dataset.open(dataset.path, writing=True)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("manifest.json", "{"),
        ("manifest.json", "[]"),
        ("manifest.json", '{"schema": "virtlab.dataset/2"}'),
        ("manifest.json", '{"schema": "virtlab.dataset/1"}'),
        ("runs/p0000-r00-a0/run.json", "{"),
        ("runs/p0000-r00-a0/run.json", "[1]"),
        ("runs/p0000-r00-a0/run.json", '{"schema": "virtlab.run/2"}'),
        ("runs/p0000-r00-a0/run.json", '{"schema": "virtlab.run/1"}'),
    ],
)
def test_damage_is_told_with_its_place_and_cure(tmp_path: Path, name: str, content: str) -> None:
    with new_dataset(tmp_path) as dataset:
        finished_run(dataset, RunKey(0, 0, 0))
    (dataset.path / name).write_text(content)
    with pytest.raises(DatasetError) as caught:
        Dataset.open(dataset.path).runs()
    assert caught.value.where == str(dataset.path / name)
    assert caught.value.cure


def test_damaged_samples_are_told_with_their_place_and_cure(tmp_path: Path) -> None:
    with new_dataset(tmp_path) as dataset:
        record = finished_run(dataset, RunKey(0, 0, 0))
    path = record.folder / "samples" / "probe.rtt-1.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DatasetError, match="cannot be read") as caught:
        record.samples("probe", "rtt/1")
    assert caught.value.where == str(path)
    (record.folder / "plan.json").write_text("{}")
    with pytest.raises(DatasetError, match="not a Plan"):
        _ = Dataset.open(dataset.path).runs()[0].plan


def test_a_foreign_folder_is_no_dataset_and_no_place_for_one(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no manifest"):
        Dataset.open(tmp_path)
    with pytest.raises(DatasetError, match="no such folder"):
        Dataset.open(tmp_path / "nowhere")
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(DatasetError, match="in the way"):
        Dataset.create(tmp_path, "", name="x")
    with new_dataset(tmp_path) as dataset:
        with pytest.raises(DatasetError, match="already"):
            Dataset.create(dataset.path, "", name="x")
        (dataset.path / "runs" / "notes").mkdir()
        with pytest.raises(DatasetError, match="does not belong"):
            dataset.runs()


def test_a_creation_that_was_cut_short_is_begun_again(tmp_path: Path) -> None:
    new_dataset(tmp_path).close()
    (tmp_path / "study.results" / "manifest.json").unlink()
    with new_dataset(tmp_path, "version: 1 # again\n") as dataset:
        assert dataset.experiment_text == "version: 1 # again\n"


def test_a_changed_experiment_inside_the_dataset_is_found(tmp_path: Path) -> None:
    with new_dataset(tmp_path) as dataset:
        (dataset.path / "experiment.yaml").write_text("version: 2\n")
        with pytest.raises(DatasetError, match="changed inside"):
            _ = dataset.experiment_text


def test_an_anonymous_dataset_names_no_machine(tmp_path: Path) -> None:
    fingerprint = {"host_name": "secret-host", "cpu": "x"}
    with Dataset.create(tmp_path / "d", "", name="d", fingerprint=fingerprint, anonymise=True) as dataset:
        finished_run(dataset, RunKey(0, 0, 0))
    text = (dataset.path / "manifest.json").read_text() + (
        dataset.path / "runs/p0000-r00-a0/run.json"
    ).read_text()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    for secret in (os.uname().nodename, "secret-host", boot):
        assert secret not in text
    assert dataset.manifest.fingerprint == {"cpu": "x"}


def test_every_file_is_flushed_before_the_run_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Follows the order of system calls: fsyncs of the run's files, the rename, the fsync of `runs`."""
    steps: list[tuple[str, str]] = []
    fsync, rename = os.fsync, Path.rename

    def watched_fsync(descriptor: int) -> None:
        steps.append(("fsync", str(Path(f"/proc/self/fd/{descriptor}").readlink())))
        fsync(descriptor)

    def watched_rename(self: Path, target: Path) -> Path:
        steps.append(("rename", str(target)))
        return rename(self, target)

    with new_dataset(tmp_path) as dataset, dataset.begin_run(RunKey(0, 0, 0), PLAN) as writer:
        writer.block("probe", "rtt/1", rtt_block(0, 10))
        writer.artefact("console.txt", [b"x"])
        monkeypatch.setattr(os, "fsync", watched_fsync)
        monkeypatch.setattr(Path, "rename", watched_rename)
        writer.commit(OK, REALISED)
    runs = str(dataset.path / "runs")
    at = next(index for index, step in enumerate(steps) if step == ("rename", f"{runs}/p0000-r00-a0"))
    flushed = {path.rpartition("/runs/")[2].partition("/")[2] for what, path in steps[:at] if what == "fsync"}
    files = "artefacts/console.txt", "samples/probe.rtt-1.parquet", "run.json", "plan.json", "log.jsonl"
    assert flushed >= {*files, "artefacts", "samples", ""}
    assert steps[at + 1] == ("fsync", runs)


def test_a_writer_is_a_sink() -> None:
    from virtlab.plan import Sink

    assert issubclass(RunWriter, Sink)


def test_the_reference_page_names_every_column_of_every_schema() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/dataset.md").read_text()
    for schema in BLOCKS.values():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{schema.id}` |"))
        assert row.endswith("| " + ", ".join(f"`{column}`" for column in schema.columns) + " |")


@pytest.mark.slow
def test_a_dataset_of_version_1_0_stays_readable() -> None:
    """A frozen dataset, written when version 1.0 was current; it must never be written again."""
    dataset = Dataset.open(Path(__file__).parents[2] / "golden/datasets/small-1.0")
    assert dataset.name == "small"
    assert dataset.experiment_text.startswith("version: 1")
    assert len(dataset.runs()) == 5
    assert len(dataset.runs("tainted")) == 1
    for record in dataset.runs("ok"):
        assert record.plan.identity() == record.plan_identity
        assert record.windows["measured"][1] > record.windows["measured"][0]
        assert record.samples("probe", "rtt/1")["rtt_ns"].min() >= 244_160 * (record.point + 1)
    assert dataset.query("SELECT count(*) AS n FROM sent WHERE status = 'ok'")["n"].tolist() == [200]
