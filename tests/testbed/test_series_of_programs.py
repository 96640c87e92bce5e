"""Series that programs print: each number with the time beside it, put on the run's clock, judged and drawn like
others.
"""

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


AT_ONCE = "timing: {warmup: 0 s, drain: 0 s}\n"


def written(script: str, metrics: dict[str, object], more: str = AT_ONCE) -> str:
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


SERVED = """\
import http.server, itertools
class Page(http.server.BaseHTTPRequestHandler):
    asked = itertools.count(1)
    def do_GET(self):
        ups = 'up{of="a"} 1\\nup{of="b"} 1\\n'
        body = f"# TYPE asked_total counter\\nasked_total {next(self.asked)}\\n{ups}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.HTTPServer(("", 8000), Page).serve_forever()
"""
POLLED = f"""\
services:
  web: {{kind: program, on: h1.g2, argv: {json.dumps(["python3", "-c", SERVED])}, ready: {{port: 8000}}}}
"""
PAGE = {
    "http": "http://{web.address}:{web.port}/metrics",
    "every": "100 ms",
    "unit": "count",
    "better": "lower",
}
ASKED = {"prometheus": "asked_total", **PAGE}
WRITES = """\
import os, time
for number in range(8):
    with open("now.new", "w") as file:
        file.write(f'{{"level": {number}}}')
    os.rename("now.new", "now.json")
    time.sleep(0.1)
print("said so")
"""


def test_a_page_of_a_server_is_polled_while_the_program_runs() -> None:
    outcome, sink = played(written("import time; time.sleep(1)", {"asked": ASKED}, POLLED + AT_ONCE))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    (block,) = [columns for name, schema, columns in sink.blocks if (name, schema) == ("client", "value/1")]
    assert block["value"].tolist() == list(range(1, len(block["value"]) + 1))
    assert 6 <= len(block["value"]) <= 15
    gaps = np.diff(block["t_ns"])
    assert 0.05e9 < np.median(gaps) < 0.2e9
    (begin,) = [mark.t_ns for name, mark in outcome.marks.items() if name.endswith(".started")]
    (end,) = [mark.t_ns for name, mark in outcome.marks.items() if name.endswith(".finished")]
    assert begin - 1e9 <= block["t_ns"].min() <= block["t_ns"].max() <= end


def test_a_file_that_the_program_writes_is_polled_and_its_output_is_its_own() -> None:
    level = {"json": "$.level", "file": "now.json", "every": "20 ms", "unit": "count", "better": "lower"}
    outcome, sink = played(written(WRITES, {"level": level}))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    (block,) = [columns for name, schema, columns in sink.blocks if (name, schema) == ("client", "value/1")]
    values = block["value"].tolist()
    assert values == sorted(values)
    assert {1, 2, 3, 4, 5, 6} <= set(values) <= set(range(8))
    assert [content for name, content in sink.artefacts.items() if name.endswith(".out")] == [b"said so\n"]


def test_a_wait_ends_at_what_is_polled() -> None:
    timeline = """
timeline:
  - {id: go, do: start, role: client}
  - {id: some, do: wait, until: {metric: client.asked, op: ">=", value: 3}, timeout: 20 s, on_timeout: fail,
     after: go.started}
  - {id: end, do: stop, role: client, after: some.done}
"""
    script = "import time; time.sleep(60)"
    outcome, sink = played(written(script, {"asked": {**ASKED, "every": "20 ms"}}, POLLED + timeline))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert outcome.marks["some.done"].t_ns - outcome.marks["go.started"].t_ns < 20e9
    assert sink.rows("client", "value/1") >= 3


@pytest.mark.parametrize(
    ("entry", "script", "words"),
    [
        ({**ASKED, "prometheus": "up"}, "time.sleep(0.3)", "after its start holds 2 numbers, and a poll is of one (metric"),
        ({**ASKED, "prometheus": "down"}, "time.sleep(0.3)", "has no sample down (metric 'v'); see the output"),
        ({**ASKED, "http": "http://{to}:9/"}, "time.sleep(0.3)", "never found: Connection refused"),
        ({**ASKED, "file": "absent"}, "time.sleep(0.3)", "of absent was polled and never found: No such file"),
        ({**ASKED, "file": "pipe"}, "os.mkfifo('pipe'); time.sleep(0.3)", "it is no regular file"),
        ({**ASKED, "file": "/dev/zero"}, "time.sleep(0.3)", "it is no regular file"),
        ({**ASKED}, "sys.exit('no such flag')", "python3: ended with code 1: no such flag"),
        ({**ASKED}, "os.kill(os.getpid(), 9)", "ended with signal 9, and wrote nothing"),
    ],
)  # fmt: skip
def test_polls_that_find_nothing_to_read_fail_the_run_with_one_line(
    entry: dict[str, str], script: str, words: str
) -> None:
    one = {key: value for key, value in entry.items() if key != "http" or "file" not in entry}
    outcome, sink = played(written(f"import os, sys, time; {script}", {"v": one}, POLLED + AT_ONCE))
    assert outcome.status == "failed"
    (reason,) = [each for each in outcome.reasons if each.startswith("roles.client: python3: ")]
    assert words in reason
    assert "\n" not in reason
    assert sink.rows("client", "value/1") == 0


def test_a_polled_program_that_leaves_another_behind_has_ended() -> None:
    script = "import subprocess, time; subprocess.Popen(['sleep', '50']); time.sleep(0.3)"
    outcome, _ = played(written(script, {"asked": ASKED}, POLLED + AT_ONCE))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    (begin,) = [mark.t_ns for name, mark in outcome.marks.items() if name.endswith(".started")]
    (end,) = [mark.t_ns for name, mark in outcome.marks.items() if name.endswith(".finished")]
    assert end - begin < 20e9
