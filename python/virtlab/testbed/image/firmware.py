"""UEFI firmware for virtual machines, found by the descriptions that its packages install for QEMU, never guessed
by path.

A description names the interface, the processors and boards, the file that is executed, and a template of the
memory that keeps variables (boot entries). The first that fits is taken, in the order of their names: no secure
boot, since what a disk boots need not be signed, and no system management mode, since that is slow to emulate. Both
files are only read; what a machine writes into its variables ends with it.

Source: docs/interop/firmware.json of QEMU.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from virtlab.testbed.image.disk import escaped

FOLDERS = (Path("/etc/qemu/firmware"), Path("/usr/share/qemu/firmware"))
BOARD = "pc-i440fx-"
CURE = "install ovmf, or remove 'firmware' where the disk can be started by a BIOS"
_UNWANTED = {"requires-smm", "enrolled-keys"}


@dataclass(frozen=True, slots=True)
class Firmware:
    """Two images of flash memory: what is executed, and the template of its variables."""

    executed: Path
    variables: Path

    def drives(self) -> list[str]:
        """QEMU's words for it."""
        return [
            "-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={escaped(self.executed)}",
            "-drive", f"if=pflash,unit=1,format=raw,snapshot=on,file={escaped(self.variables)}",
        ]  # fmt: skip

    def facts(self) -> dict[str, object]:
        """The firmware's identity, for the record of a run."""
        content = self.executed.read_bytes()
        return {"firmware": self.executed.name, "firmware_sha256": hashlib.sha256(content).hexdigest()}


def find() -> Firmware | None:
    """The firmware of this machine; None if none exists."""
    return next(_fitting(), None)


def _fitting() -> Iterator[Firmware]:
    for path in _descriptions():
        try:
            said = json.loads(path.read_text(encoding="utf-8"))
            found = _firmware(said)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue  # somebody else's mistake; others may be sound
        if found is not None and found.executed.is_file() and found.variables.is_file():
            yield found


def _descriptions() -> list[Path]:
    """In the order of their names; one in an earlier folder takes the place of its namesake in a later one."""
    config = os.environ.get("XDG_CONFIG_HOME")
    own = (Path(config) if config else Path.home() / ".config") / "qemu" / "firmware"
    by_name: dict[str, Path] = {}
    for folder in (own, *FOLDERS):
        for path in folder.glob("*.json") if folder.is_dir() else ():
            by_name.setdefault(path.name, path)
    return [by_name[name] for name in sorted(by_name)]


def _firmware(description: Mapping[str, Any]) -> Firmware | None:
    """What a description is of; None where it does not fit."""
    mapping = description["mapping"]
    if "uefi" not in description["interface-types"] or _UNWANTED & set(description["features"]):
        return None
    if mapping["device"] != "flash" or mapping.get("mode", "split") != "split":
        return None
    boards = [
        board
        for target in description["targets"]
        if target["architecture"] == "x86_64"
        for board in target["machines"]
    ]
    if not any(board.startswith(BOARD) for board in boards):
        return None
    parts = (mapping["executable"], mapping["nvram-template"])
    if any(part["format"] != "raw" for part in parts):
        return None
    return Firmware(*(Path(part["filename"]) for part in parts))
