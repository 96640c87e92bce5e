"""What may follow on a command line: commands, options, their choices, levels, metrics, datasets, files.

It reads the experiment file that the line names, if it can, and says nothing where it cannot: a shell then completes
names of files by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from virtlab.cli.table import COMMANDS, declaration
from virtlab.errors import VirtlabError

EXPERIMENTS = frozenset({"check", "plan", "run", "predict", "capacity", "recommend", "calibrate", "up"})
DATASETS = frozenset({"report", "export", "compare", "trend", "validate"})
METRICS = frozenset({"--metric", "--quantity"})
LIMITS = frozenset({"--until", "--margin", "--minimize", "--maximize"})


def candidates(given: Sequence[str]) -> list[str]:
    """What the last of the words may become; the words after `virtlab`, as a shell splits them."""
    *before, last = _joined(given)
    if not before:
        return _beginning(last, COMMANDS)
    name, *rest = before
    if name not in COMMANDS:
        return []
    command = declaration(name)
    children = getattr(command, "commands", None)
    if children:
        if not rest:
            return _beginning(last, children)
        name, command, rest = f"{name} {rest[0]}", children.get(rest[0]), rest[1:]
        if command is None:
            return []
    if last.startswith("-"):
        options = [
            one for each in command.params if not each.hidden for one in (*each.opts, *each.secondary_opts)
        ]
        return _beginning(last, [*(one for one in options if one.startswith("--")), "--help"])
    option = _option(command, rest)
    if option is not None:
        return _beginning(last, _values(option, rest))
    return _beginning(last, _arguments(name, last))


def escaped(words: Iterable[str], shell: str, given: Sequence[str]) -> list[str]:
    """As the shell takes them. bash ends words at '=', so it is given what follows the last one."""
    if shell == "fish":
        return list(words)
    last = _joined(given)[-1]
    cut = last.rfind("=") + 1 if shell == "bash" and "=" in last else 0
    return [re.sub(r"([^\w.,=%+/:@-])", r"\\\1", one[cut:]) for one in words]


def _joined(given: Sequence[str]) -> list[str]:
    """Words that bash split at '=' put together again, and escapes taken out."""
    found: list[str] = []
    for word in given or [""]:
        plain = word.replace("\\ ", " ").strip("'\"")
        if found and (plain == "=" or found[-1].endswith("=")):
            found[-1] += plain
        else:
            found.append(plain)
    return found


def _beginning(text: str, words: Iterable[str]) -> list[str]:
    return [word for word in dict.fromkeys(words) if word.startswith(text)]


def _option(command: Any, rest: Sequence[str]) -> Any:
    """The option whose value comes next; None where an argument does."""
    if not rest or not rest[-1].startswith("-"):
        return None
    for each in command.params:
        if rest[-1] in each.opts and each.opts[0].startswith("-") and not getattr(each, "is_flag", False):
            return each
    return None


def _values(option: Any, rest: Sequence[str]) -> list[str]:
    """Completions for the value of an option."""
    names = set(option.opts)
    if choices := _choices(option.bare_type):
        return choices
    if "--backend" in names:
        return ["testbed", "simulator"]
    if "--in" in names:
        return ["lab-vm", "xen"]
    if "--to" in names:
        from virtlab.report.exchange.push.destination import RECEIVERS

        return [f"{name}=" for name in RECEIVERS]
    if "--profile" in names:
        return ["ideal", "local"]
    if "--figures" in names:
        return ["png", "svg", "none"]
    if "--template" in names:
        from virtlab.experiment.templates import TEMPLATES

        return list(TEMPLATES)
    if "--tool" in names:
        from virtlab.imported.readers import READERS

        return list(READERS)
    if "--kind" in names:
        return _kinds_of_samples(rest)
    experiment = _experiment(rest)
    if experiment is None:
        return _of_a_baseline(rest) if names & METRICS else []
    if "--point" in names:
        return [str(point.index) for point in experiment.points()]
    if "--points" in names:
        return [f"{name}={level}" for name, levels in experiment.factors.items() for level in levels]
    if "--stream" in names:
        return list(experiment.role_workloads())
    if "--vary" in names:
        return list(experiment.factors)
    if names & (METRICS | LIMITS):
        return _paths(experiment.role_workloads())
    return []


def _choices(declared: Any) -> list[str]:
    """The texts of a `Literal`, alone or beside None."""
    if get_origin(declared) is Literal:
        return [str(one) for one in get_args(declared)]
    return [text for part in get_args(declared) for text in _choices(part)]


def _experiment(rest: Sequence[str]) -> Any:
    """The experiment that the line names: a file, or the dataset's own."""
    from virtlab.experiment import load

    for word in rest:
        path = Path(word)
        file = path / "experiment.yaml" if path.is_dir() else path
        if not word.startswith("-") and file.suffix == ".yaml" and file.is_file():
            try:
                return load(file, runs_max=None)
            except (VirtlabError, OSError):
                return None
    return None


def _kinds_of_samples(rest: Sequence[str]) -> list[str]:
    """Those that the dataset on the line holds."""
    from virtlab.results import Dataset
    from virtlab.results.export import kinds

    for word in rest:
        if (Path(word) / "manifest.json").is_file():
            try:
                return kinds(Dataset.open(Path(word)))
            except (VirtlabError, OSError):
                return []
    return []


def _of_a_baseline(rest: Sequence[str]) -> list[str]:
    """The quantities that the baseline file on the line holds."""
    from virtlab.changes import Baseline

    for word in rest:
        if word.endswith(".json") and Path(word).is_file():
            try:
                return [one.path for one in Baseline.load(Path(word)).quantities]
            except (VirtlabError, OSError):
                return []
    return []


def _paths(roles: dict[str, str]) -> list[str]:
    from virtlab.catalogue import WORKLOADS
    from virtlab.metrics import METRICS as KNOWN

    return [
        f"{role}.{metric}.{statistic}"
        for role, workload in roles.items()
        for metric in (WORKLOADS[workload].metrics if workload in WORKLOADS else ())
        for statistic in KNOWN[metric].statistics
    ]


def _arguments(name: str, last: str) -> list[str]:
    if name == "explain":
        from virtlab.cli.words.entries import entries

        return [each for one in entries() for each in one.names]
    if name == "completion":
        return ["bash", "zsh", "fish"]
    if name == "image remove":
        from virtlab.testbed.image.rootfs import list_rootfs

        return list_rootfs()
    if name not in EXPERIMENTS | DATASETS:
        return []
    folder = Path(last).parent if "/" in last else Path()
    try:
        there = sorted(folder.iterdir())
    except OSError:
        return []
    if name in DATASETS:
        return [str(path) for path in there if (path / "manifest.json").is_file() or path.suffix == ".json"]
    return [
        f"{path}/" if path.is_dir() else str(path)
        for path in there
        if path.suffix == ".yaml" or path.is_dir()
    ]
