"""Programs of the user's own as roles: what they print is judged and searched like any metric, and what they do wrong
is one line.
"""

from __future__ import annotations

import json
import re
import textwrap
import time
from pathlib import Path

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

# What the guest's interface received in 300 ms, as a rate; and the address that it was given.
WATCH = """\
import json, sys, time
def received():
    return sum(int(line.split(":")[1].split()[0]) for line in open("/proc/net/dev") if "lo:" not in line and ":" in line)
begin = time.monotonic(), received()
time.sleep(0.3)
rate = (received() - begin[1]) / (time.monotonic() - begin[0])
print(json.dumps({"seen": [{"rate": rate}], "to": sys.argv[1:]}))
"""
FILE = """\
version: 1
name: watched
hosts: 1
host: {{guests: 2}}
topology: none
roles:
  watch:
    workload: program
    from: h1.g2
    to: h1.g1
    argv: {argv}
    metrics:
      seen_rate: {{json: "$.seen[*].rate", unit: B/s, better: higher}}
  load: {{workload: udp_stream, from: h1.g1, to: h1.g2, rate: 8 Mbit/s, size: 1000 B ip_packet, as: load}}
timing: {{warmup: 100 ms, drain: 50 ms}}
collect: {{series: {{}}}}
{more}
"""
ASKED = """\
version: 1
name: asked
hosts: 1
host: {guests: 2}
topology: none
roles:
  client:
    workload: program
    from: h1.g1
    to: h1.g2
    argv: [ping, -n, -c, "5", -i, "0.01", "{to}"]
    metrics:
      answer_time: {regex: "time=(?P<answer_time>[0-9.]+) ms", unit: ms, better: lower}
collect: {series: {}}
repeat: 2
claims:
  - {id: soon, text: "client.answer_time.max < 10 s"}
  - {id: late, text: "client.answer_time.median > 10 s"}
"""
SEARCH = """\
repeat: 1
search: {variable: load.rate, low: 1 Mbit/s, high: 16 Mbit/s, until: watch.seen_rate.mean > 500 kB/s, resolution: 1 Mbit/s}
"""


def watched(folder: Path, more: str) -> Path:
    path = folder / "watched.yaml"
    argv = json.dumps(["python3", "-c", WATCH, "{to}", "{h1.g2}"])
    path.write_text(FILE.format(argv=argv, more=more))
    return path


def command(*words: str) -> object:
    """Its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return ended.value.code


def test_what_a_program_prints_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("asked.yaml").write_text(ASKED)
    assert command("run", "asked.yaml") == 2  # nobody allowed its command
    assert command("run", "asked.yaml", "--allow-exec", "--no-report") == 1  # a claim is refuted
    dataset = Dataset.open(tmp_path / "asked.results")
    run, *_ = dataset.runs("ok")
    printed = (run.folder / "artefacts" / "client.out").read_text()
    address = run.plan.world.guests["h1.g2"].vnics["eth0"].ip[0].partition("/")[0]
    assert printed.startswith(f"PING {address}")
    values = {row.path_text: row for row in run_values(dataset) if row.run == run.name}
    shown = re.search("= [0-9.]+/([0-9.]+)/", printed)  # the mean, as ping has it
    assert shown is not None
    mean = values["client.answer_time.mean"]
    assert (mean.unit, mean.samples, mean.value) == ("ns", 5, pytest.approx(float(shown[1]) * 1e6, abs=1000))


def test_what_a_program_prints_ends_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with other work runs are tainted and repeated, at last in a dataset of its own each time."""
    monkeypatch.chdir(tmp_path)
    path = watched(tmp_path, SEARCH)
    codes = (
        command("run", str(path), "--allow-exec", "--no-report", "--dataset", f"{attempt}.results")
        for attempt in range(4)
    )
    attempt = next((attempt for attempt, code in enumerate(codes) if code == 0), None)
    assert attempt is not None
    table = run_values(Dataset.open(tmp_path / f"{attempt}.results"))
    (found,) = [row.value for row in table if row.path_text == "load.limit_rate.found"]
    # 500 kB/s of frames of 1014 B as the interface counts them are 3.94 Mbit/s of IP packets.
    assert found is not None
    assert 2.5e6 < found < 5.5e6


def played(
    script: str, *, timeout: str = "20 s", more: str = "timing: {warmup: 0 s, drain: 0 s}"
) -> tuple[Outcome, worlds.MemorySink]:
    """A run of one program of a shell in a world of its own."""
    text = textwrap.dedent(f"""
        version: 1
        name: one
        hosts: 1
        host: {{guests: 2}}
        topology: none
        collect: {{series: {{}}}}
        roles:
          client:
            workload: program
            from: h1.g1
            to: h1.g2
            timeout: {timeout}
            argv: [sh, -c, {json.dumps(script)}]
            metrics: {{answer: {{json: $.ms, unit: ms, better: lower}}}}
    """) + textwrap.dedent(more)
    experiment = load_text(text)
    sink = worlds.MemorySink()
    with Testbed().open(plan_run(experiment, experiment.points()[0], 0), Unobserved()) as session:
        outcome = session.run(Trial("t0", 1), sink)
    return outcome, sink


def test_of_a_program_that_is_stopped_counts_what_it_printed() -> None:
    timeline = """
        timeline:
          - {id: go, do: start, role: client}
          - {id: some, do: wait, for: 500 ms, after: go.started}
          - {id: end, do: stop, role: client, after: some.done}
          - {id: more, do: wait, for: 500 ms, after: end.done}
    """
    outcome, sink = played("echo '{\"ms\": 3}'; while :; do sleep 0.05; done", more=timeline)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert sink.rows("client", "value/1") == 1
    assert outcome.marks["go.finished"].t_ns < outcome.marks["more.done"].t_ns


def asked_to_end(script: str) -> tuple[Outcome, worlds.MemorySink]:
    timeline = """
        timeline:
          - {id: go, do: start, role: client}
          - {id: some, do: wait, for: 500 ms, after: go.started}
          - {id: end, do: stop, role: client, after: some.done}
    """
    return played(f"{script}; while :; do sleep 0.05; done", timeout="60 s", more=timeline)


def test_a_program_that_is_asked_to_end_has_time_for_its_results() -> None:
    outcome, sink = asked_to_end('trap \'sleep 0.7; echo "{\\"ms\\": 7}"; exit 0\' TERM')
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    (block,) = [columns for name, schema, columns in sink.blocks if (name, schema) == ("client", "value/1")]
    assert [*block["metric"], *block["value"]] == ["answer", 7e6]


def test_a_program_that_does_not_end_when_asked_is_killed_and_fails_the_run() -> None:
    begun = time.monotonic()
    outcome, sink = asked_to_end("trap '' TERM; echo busy")
    assert outcome.status == "failed"
    assert "did not end within 5 s of its SIGTERM; the end of what it wrote: 'busy'" in outcome.reasons[0]
    assert 5 < time.monotonic() - begun < 60
    assert sink.rows("client", "value/1") == 0


def test_a_program_that_leaves_another_behind_has_ended() -> None:
    outcome, sink = played("(sleep 100 &) ; echo '{\"ms\": 4}'")
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    (block,) = [columns for name, schema, columns in sink.blocks if (name, schema) == ("client", "value/1")]
    assert [*block["metric"], *block["value"]] == ["answer", 4e6]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("yes aaaaaaaaaaaaaaaaaaaaaaaaa", "printed more than 8 MiB; let it print less"),
        (
            "echo begin; sleep 100",
            "still ran after 2 s; the end of what it wrote: 'begin'; give it a longer 'timeout'",
        ),
        ("echo '{'", "its output, line 2, is not JSON"),
        ("echo no route >&2; exit 3", "ended with code 3: no route"),
        ("kill -9 $$", "ended with signal 9, and wrote nothing"),
        ("printf '\\377'", "its output, line 1, is not valid UTF-8 text"),
        ("true", "its output is empty"),
        ("head -c 1000000 /dev/zero | tr '\\0' '['", "nested too deeply"),
        ("echo '{\"ms\": NaN}'", "NaN is not a valid number in JSON"),
        ("echo '{\"ms\": 1e400}'", "holds a number beyond all measure at $.ms"),
    ],
)
def test_what_a_program_does_wrong_fails_the_run_with_one_line(script: str, words: str) -> None:
    outcome, sink = played(script, timeout="2 s")
    assert outcome.status == "failed"
    (reason,) = [one for one in outcome.reasons if one.startswith("roles.client: sh: ")]
    assert words in reason
    assert "\n" not in reason
    assert sink.rows("client", "value/1") == 0


def test_a_program_that_is_not_there_fails_the_run() -> None:
    outcome, _ = played("exec no-such-program")
    assert outcome.status == "failed"
    assert "no-such-program" in outcome.reasons[0]
