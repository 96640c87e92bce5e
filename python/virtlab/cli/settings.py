"""A person's own defaults: a flag wins over the environment (`VIRTLAB_NAME`), that over the settings file,
that over ours.

The file is `~/.config/virtlab/settings.toml` (below `$XDG_CONFIG_HOME` when that is set); a missing file is
no mistake, an unknown key or a value of the wrong kind is one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from virtlab.errors import ExperimentError

WORDS = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be set once for all runs."""

    backend: str = "testbed"  # who plays the runs
    profile: str = "ideal"  # what platforms cost in the simulator
    results: str = "."  # the folder that datasets are put into
    wait: bool = True  # wait for another run on this machine, or be refused
    report: bool = True  # write the report after the runs
    anonymise: bool = False  # leave the machine's name out of new datasets


def settings_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the settings file is looked for."""
    home = environment.get("XDG_CONFIG_HOME") or str(Path("~/.config").expanduser())
    return Path(home) / "virtlab" / "settings.toml"


def load_settings(environment: Mapping[str, str] = os.environ, **flags: Any) -> Settings:
    """Settings by flag (None: not given), environment, file, default. ExperimentError when one is wrong."""
    from_file = _read(settings_file(environment))
    found: dict[str, Any] = {}
    for field in fields(Settings):
        kind = type(field.default)
        variable = f"VIRTLAB_{field.name.upper()}"
        if flags.get(field.name) is not None:
            found[field.name] = flags[field.name]
        elif variable in environment:
            found[field.name] = _from_text(variable, environment[variable], kind)
        elif field.name in from_file:
            found[field.name] = from_file[field.name]
    return Settings(**found)


def _from_text(variable: str, text: str, kind: type) -> Any:
    if kind is str:
        return text
    if text.strip().lower() not in WORDS:
        raise ExperimentError(
            variable, f"'{text}' is neither true nor false", f"write {variable}=true or =false"
        )
    return WORDS[text.strip().lower()]


def _read(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ExperimentError(
            str(path), f"cannot be read ({error})", "write KEY = VALUE lines, or remove it"
        ) from None
    known = {field.name: type(field.default) for field in fields(Settings)}
    for name, value in values.items():
        if name not in known:
            raise ExperimentError(str(path), f"'{name}' is no setting", f"use one of {', '.join(known)}")
        if type(value) is not known[name]:
            example = "true" if known[name] is bool else '"text"'
            raise ExperimentError(
                str(path), f"{name} = {value!r} is of the wrong kind", f"write {name} = {example}"
            )
    return values
