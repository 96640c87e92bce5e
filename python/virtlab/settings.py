"""A person's own defaults: a flag wins over the environment (`VIRTLAB_NAME`), that over the settings file,
that over ours.

The file is `~/.config/virtlab/settings.toml` (below `$XDG_CONFIG_HOME` when that is set); a missing file is
no mistake, an unknown key or a value of the wrong kind is one. What it trusts (`Trusted`) comes from the file alone: no
flag, variable or experiment file can say it, and the file must be its user's own.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from virtlab.errors import ExperimentError
from virtlab.folders import read_with_state

LARGEST_BYTES = 1 << 20
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
    """Defaults that a user can set for all runs."""

    backend: str = "testbed"  # who plays the runs
    profile: str = "ideal"  # what platforms cost in the simulator
    results: str = "."  # the folder that datasets are put into
    wait: bool = True  # wait for another run on this machine, or be refused
    report: bool = True  # write the report after the runs
    anonymise: bool = False  # leave the machine's name out of new datasets


@dataclass(frozen=True, slots=True)
class Trusted:
    """What a user lets experiment files do that they may not do by themselves."""

    hypervisors: Mapping[str, str]  # name that a file may use -> libvirt's URI
    allow_exec: tuple[str, ...]  # SHA-256 of experiment files whose commands may run on this machine


TRUSTING = {
    "hypervisors": '[hypervisors] and NAME = "URI" lines',
    "allow_exec": 'allow_exec = ["SHA-256 of a file", ...]',
}
DIGEST = re.compile(r"[0-9a-f]{64}\Z")


def settings_file(environment: Mapping[str, str] = os.environ) -> Path:
    """The path of the user's settings."""
    home = environment.get("XDG_CONFIG_HOME") or str(Path("~/.config").expanduser())
    return Path(home) / "virtlab" / "settings.toml"


def load_settings(environment: Mapping[str, str] = os.environ, **flags: Any) -> Settings:
    """Settings by flag (None: not given), environment, file, default. ExperimentError when one is wrong."""
    from_file = _read(settings_file(environment))[0]
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


def load_trusted(environment: Mapping[str, str] = os.environ) -> Trusted:
    """What the user's own settings file trusts. ExperimentError when it is wrong, or somebody else could have written
    it.
    """
    path = settings_file(environment)
    values, state = _read(path)
    found = {name: value for name, value in values.items() if name in TRUSTING}
    if not found or state is None:
        return Trusted({}, ())
    if state.st_uid != os.geteuid() or state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        what = f"says what to trust ({', '.join(found)}), and others than its user can write it"
        raise ExperimentError(str(path), what, f"chown {os.geteuid()} {path}; chmod go-w {path}")
    return Trusted(found.get("hypervisors", {}), tuple(found.get("allow_exec", ())))


def _from_text(variable: str, text: str, kind: type) -> Any:
    if kind is str:
        return text
    if text.strip().lower() not in WORDS:
        raise ExperimentError(
            variable, f"'{text}' is neither true nor false", f"write {variable}=true or =false"
        )
    return WORDS[text.strip().lower()]


def _read(path: Path) -> tuple[dict[str, Any], os.stat_result | None]:
    """Keys and values, and the file's state with its owner; None for a missing file."""
    import tomllib

    try:
        content, state = read_with_state(path, LARGEST_BYTES)
        values = tomllib.loads(content.decode())
    except FileNotFoundError:
        return {}, None
    except (OSError, ValueError, RecursionError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise ExperimentError(
            str(path), f"cannot be read ({why})", "write KEY = VALUE lines, or remove it"
        ) from None
    known = {field.name: type(field.default) for field in fields(Settings)}
    for name, value in values.items():
        if name in TRUSTING:
            if not _trusting(name, value):
                raise ExperimentError(str(path), f"{name} is of the wrong kind", f"write {TRUSTING[name]}")
            continue
        if name not in known:
            names = ", ".join([*known, *TRUSTING])
            raise ExperimentError(str(path), f"'{name}' is not a setting", f"use one of {names}")
        if type(value) is not known[name]:
            example = "true" if known[name] is bool else '"text"'
            raise ExperimentError(
                str(path), f"{name} = {value!r} is of the wrong kind", f"write {name} = {example}"
            )
    return values, state


def _trusting(name: str, value: Any) -> bool:
    """Whether a value is of the kind of that key."""
    if name == "hypervisors":
        return isinstance(value, dict) and all(isinstance(uri, str) for uri in value.values())
    return isinstance(value, list) and all(isinstance(each, str) and DIGEST.match(each) for each in value)
