"""Series that programs print: each number with the time beside it, put on the run's clock, judged and drawn like others."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import testbed_world as worlds

from virtlab.analysis import run_values
from virtlab.cli.main import main
from virtlab.experiment import load_text
from virtlab.plan import Outcome, Trial, Unobserved
from virtlab.planner import plan_run
from virtlab.results import Dataset
from virtlab.testbed import Testbed

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))

# Three lines, 200 ms apart, each with the same instant in three forms, and a number that rises.
PRINTS = """\
import datetime, time
begin = time.monotonic()
for number in range(3):
    now = time.time()
    text = datetime.datetime.fromtimestamp(now, datetime.UTC).isoformat()
    print(f"after={(time.monotonic() - begin) * 1e3:.3f} unix={now:.6f} iso={text} level={number + 1}", flush=True)
    time.sleep(0.2)
"""
LEVEL = r"after=(?P<after>\S+) unix=(?P<unix>\S+) iso=(?P<iso>\S+) level=(?P<{}>\S+)"
AS_PRINTED = {
    "by_start": {"time": "after", "time_unit": "ms"},
    "by_epoch": {"time": "unix", "clock": "epoch"},
    "by_text": {"time": "iso", "clock": "iso8601"},
}
METRICS = {
    key: {"regex": LEVEL.format(key), "unit": "count", "better": "lower", **entry}
    for key, entry in AS_PRINTED.items()
}
FILE = """\
version: 1
name: course
hosts: 1
host: {{guests: 2}}
topology: none
collect: {{series: {{}}}}
{more}
roles:
  client:
    workload: program
    from: h1.g1
    to: h1.g2
    timeout: 20 s
    argv: {argv}
    metrics: {metrics}
"""


def written(script: str, metrics: dict[str, object], more: str = "timing: {warmup: 0 s, drain: 0 s}") -> str:
    argv = json.dumps(["python3", "-c", script])
    return FILE.format(argv=argv, metrics=json.dumps(metrics), more=more)


def played(text: str) -> tuple[Outcome, worlds.MemorySink]:
    experiment = load_text(text)
    sink = worlds.MemorySink()
    with Testbed().open(plan_run(experiment, experiment.points()[0], 0), Unobserved()) as session:
        outcome = session.run(Trial("t0", 1), sink)
    return outcome, sink


def test_a_time_is_the_same_instant_of_the_run_however_it_is_printed() -> None:
    outcome, sink = played(written(PRINTS, METRICS))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    (block,) = [columns for name, schema, columns in sink.blocks if (name, schema) == ("client", "value/1")]
    at = {key: block["t_ns"][block["metric"] == key] for key in METRICS}
    (begin,) = [mark.t_ns for name, mark in outcome.marks.items() if name.endswith(".started")]
    (end,) = [mark.t_ns for name, mark in outcome.marks.items() if name.endswith(".finished")]
    for key, instants in at.items():
        assert (block["value"][block["metric"] == key] == [1, 2, 3]).all()
        assert (begin - 1e6 <= instants).all(), key
        assert (instants <= end).all(), key
        assert (np.diff(instants) >= 0.199e9).all(), key
    assert abs(at["by_epoch"] - at["by_text"]).max() < 2e6  # both are of one reading of one clock
    # What counts from the start counts from when it was told to start: Python took a while to get there.
    assert (at["by_start"] < at["by_epoch"]).all()
    assert (at["by_epoch"] - at["by_start"] < 15e9).all()


def test_a_series_is_judged_by_its_part_in_the_window_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    metrics = {"level": {"json_lines": "$.level", "time": "$.at", "unit": "count", "better": "lower"}}
    script = "import json\nfor at in range(20): print(json.dumps({'at': at / 20, 'level': at}), flush=True)\n"
    script += "import time; time.sleep(1.2)"
    timeline = """
timeline:
  - {id: go, do: start, role: client}
  - {id: half, do: wait, for: 500 ms, after: go.started}
  - {id: rest, do: wait, for: 450 ms, after: half.done}
windows: {measured: {from: half.done, to: rest.done}}
repeat: 2
claims: [{id: late-half, text: "client.level.min >= 10"}]
"""
    Path("course.yaml").write_text(written(script, metrics, timeline))
    with pytest.raises(SystemExit) as ended:
        main(["run", "course.yaml", "--allow-exec"])
    assert ended.value.code == 0
    dataset = Dataset.open(tmp_path / "course.results")
    values = {(row.run, row.path_text): row.value for row in run_values(dataset)}
    for run in dataset.runs("ok"):
        assert values[run.name, "client.level.min"] in {10, 11}  # to be told takes some ms
        assert values[run.name, "client.level.max"] in {18, 19}
        assert run.samples("client", "value/1")["value"].tolist() == [*range(20)]  # all is kept
    assert (dataset.path / "report" / "figures" / "series-of-client-level.svg").exists()
    assert "over time" in (dataset.path / "report" / "report.html").read_text()


@pytest.mark.parametrize(
    ("line", "more", "words"),
    [
        ("t=soon v=1", {}, "match 1 of t, 'soon' is not a number, and no time (metric 'v')"),
        ("t=1,5 v=1", {}, "has a comma, where '.' begins the decimals"),
        ("t=1700000000 v=1", {}, "s after the program ended (metric 'v'); say with 'clock' what its times count"),
        ("t=2 v=1", {"clock": "epoch"}, "s before the program began (metric 'v'); say with 'clock'"),
        ("t=2026-01-31T12:00:00 v=1", {"clock": "iso8601"}, "has no zone (metric 'v'); print times with their zone"),
        ("t=1e400 v=1", {}, "is beyond all times (metric 'v')"),
    ],
)  # fmt: skip
def test_a_time_that_is_none_of_the_run_fails_it_with_one_line(
    line: str, more: dict[str, str], words: str
) -> None:
    entry = {"regex": r"t=(?P<t>\S+) v=(?P<v>\S+)", "time": "t", "unit": "count", "better": "lower", **more}
    outcome, sink = played(written(f"print({line!r})", {"v": entry}))
    assert outcome.status == "failed"
    (reason,) = [one for one in outcome.reasons if one.startswith("roles.client: python3: its output ")]
    assert words in reason
    assert "\n" not in reason
    assert sink.rows("client", "value/1") == 0
