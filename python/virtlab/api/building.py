"""Experiments as Python values: the sections of a file, checked as the file is, and written as YAML."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Unpack

    from virtlab.api.sections import Sections
    from virtlab.experiment import Experiment


def define(name: str, **sections: Unpack[Sections]) -> Experiment:
    """An experiment built in Python, called `name`; each of `sections` is what the file has under that key.

    Sections are dicts, lists, texts and numbers. The result's `.text` is the file; `.write(PATH)` writes it.
    A type checker knows the keys of every section, and which of them have to be there; sections that a program puts
    together are passed as `**sections` of a `dict[str, Any]`. FileMistakesError with every mistake at once.

    >>> echoes = define(
    ...     "echoes", hosts=2, topology="line", link={"rate": "10 Mbit/s"},
    ...     roles={"probe": {"workload": "rtt", "from": "h1.g1", "to": "h2.g1", "size": "64 B ip_packet",
    ...                      "interval": "10 ms", "count": 10}},
    ... )
    >>> print(echoes.text.splitlines()[2])
    hosts: 2
    """
    from ruamel.yaml import YAML

    from virtlab.experiment import load_text

    yaml, out = YAML(typ="safe", pure=True), io.StringIO()
    yaml.default_flow_style = None
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 110
    yaml.dump({"version": 1, "name": name, **sections}, out)
    return load_text(out.getvalue(), name=name)


def load(file: str | Path) -> Experiment:
    """The experiment of `file`, the path of an experiment file. FileMistakesError with every mistake at once."""
    from virtlab.experiment import load as load_file

    return load_file(file)


def given(experiment: str | Path | Experiment) -> Experiment:
    """An experiment as it is, or that of a file."""
    return load(experiment) if isinstance(experiment, (str, Path)) else experiment
