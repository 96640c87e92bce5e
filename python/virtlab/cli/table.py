"""The table of commands: `virtlab --help` costs no more than this file."""

from __future__ import annotations

import functools
import importlib
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """Where a command is declared, below this folder, and what `virtlab --help` says of it."""

    module: str
    help: str


COMMANDS: dict[str, Entry] = {
    "demo": Entry("experiment.demo", "see an experiment answered, simulated and with real packets, in a minute"),
    "init": Entry("experiment.init", "write a study to start from"),
    "check": Entry("experiment.check", "find every mistake of an experiment file"),
    "plan": Entry("experiment.plan", "show the runs, their order, time and disk; one point's Plan and Steps"),
    "run": Entry("experiment.run", "run an experiment, or resume it"),
    "report": Entry("dataset.report", "write the report of a dataset again"),
    "compare": Entry("dataset.compare", "two datasets against each other: better, worse, equivalent, undecided"),
    "trend": Entry("dataset.trend", "the values of many datasets over time, and the steps in them"),
    "calibrate": Entry("prediction.calibrate", "measure what this machine's platforms cost, for the simulator"),
    "predict": Entry("prediction.predict", "what an experiment would measure, by simulation with a platform profile"),
    "capacity": Entry("prediction.capacity", "the largest level of an input that keeps limits, and what limits it"),
    "recommend": Entry("prediction.recommend", "the best level of an input, those as good, and those that break a limit"),
    "migration": Entry("prediction.migration", "pause and total time of guests that move to another host, by a model"),
    "validate": Entry("prediction.validate", "how far predictions are from a dataset, one factor level left out at a time"),
    "import": Entry("dataset.import_", "results that other tools made elsewhere, as a dataset"),
    "export": Entry("dataset.export", "samples and values as CSV, JSON or Parquet; estimates to Prometheus, OTLP, InfluxDB"),
    "schema": Entry("experiment.schema", "the JSON Schema of experiment files"),
    "platforms": Entry("machine.platforms", "what guests can be, and what of it works here"),
    "services": Entry("machine.services", "what services can be, and the forms of a store"),
    "image": Entry("machine.image", "what virtual machines boot, and what containers hold"),
    "doctor": Entry("machine.doctor", "what this machine can and cannot do, with the cure for each"),
    "up": Entry("testbed.up", "build a testbed and keep it"),
    "shell": Entry("testbed.shell", "a shell in a guest of a kept testbed"),
    "exec": Entry("testbed.exec", "run a command in a guest of a kept testbed"),
    "down": Entry("testbed.down", "take a kept testbed down"),
    "explain": Entry("words.explain", "what a word, an exit code or a message means, and what to do"),
    "completion": Entry("words.completion", "the script that completes commands in bash, zsh or fish"),
    "manual": Entry("words.manual", "write the manual pages, for `man`"),
    "bench": Entry("prediction.bench", "how fast the simulator is here"),
    "rt": Entry("rt", "period and budget of a VM with hard deadlines inside"),
}  # fmt: skip


@functools.cache
def declaration(name: str) -> Any:
    """A command with its options, as its file declares it; imports that file."""
    import typer

    return typer.main.get_command(importlib.import_module(f"virtlab.cli.{COMMANDS[name].module}").app)
