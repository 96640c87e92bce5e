"""What an image of a container engine starts by itself: its entry point, as the engine's own words have it.

Source: OCI image specification 1.0, config.md ('Entrypoint', 'Cmd', 'Env', 'WorkingDir', 'User'). It is kept beside the
root file system, which has no word of it. A folder or an archive with a root file system alone says nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from virtlab.errors import MachineError

CURE = "write its 'argv', or add the image again, from podman:IMAGE or docker:IMAGE"


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """A program with its arguments, and how it is started."""

    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str | None = None


def configuration_of(rootfs: Path) -> Path:
    """Where the words about a root file system are kept."""
    return rootfs.with_name(f"{rootfs.name}.config.json")


def parse(text: str) -> EntryPoint | None:
    """An image's configuration; None where it starts nothing. ValueError("WHAT") where it cannot be read.

    >>> parse('{"Entrypoint": ["serve"], "Cmd": ["-p", "80"], "Env": ["MODE=a=b"], "WorkingDir": "/srv"}')
    EntryPoint(argv=('serve', '-p', '80'), environment={'MODE': 'a=b'}, folder='/srv', user=None)
    >>> parse('{"Cmd": null}')
    """
    said = json.loads(text)
    if not isinstance(said, dict):
        raise ValueError("is not a mapping")
    argv = (*_words(said, "Entrypoint"), *_words(said, "Cmd"))
    if not argv:
        return None
    pairs = (word.partition("=") for word in _words(said, "Env"))
    user = str(said.get("User") or "")
    return EntryPoint(
        argv, {name: value for name, _, value in pairs}, str(said.get("WorkingDir") or "/"), user or None
    )


def _words(said: Mapping[str, Any], key: str) -> tuple[str, ...]:
    words = said.get(key) or []
    if not isinstance(words, list) or not all(isinstance(word, str) and "\0" not in word for word in words):
        raise ValueError(f"has a '{key}' that is not a list of words")
    return tuple(words)


def entry_point(name: str, rootfs: Path | None) -> EntryPoint:
    """The entry point of an image by its name. MachineError with the cure where it has none."""
    try:
        text = configuration_of(rootfs).read_text(encoding="utf-8") if rootfs is not None else "{}"
        found = parse(text)
    except FileNotFoundError:
        found = None
    except (OSError, ValueError) as error:
        raise MachineError("image", f"what '{name}' starts cannot be read: it {error}", CURE) from error
    if found is None:
        raise MachineError("image", f"image '{name}' names no program of its own", CURE)
    if found.user is not None and ":" in found.user:
        what = f"image '{name}' wants user and group '{found.user}', and a program's group is its user's"
        raise MachineError("image", what, "write 'argv' and 'user'")
    return found
