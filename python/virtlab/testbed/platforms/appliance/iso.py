"""The ISO image that an appliance finds its configuration on: a recipe's files, filled in, in a folder of this run
alone.

Such files may hold passwords. So the folder is its user's alone, and gone with the run. It is in the ledger before it
is made: what an owner left who was killed goes when an appliance with such an image is next started.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from virtlab.errors import MachineError
from virtlab.testbed.image import folder
from virtlab.testbed.leader import far_ledger
from virtlab.testbed.leader.environment import of_program

KIND = "iso"
PROGRAMS = ("xorrisofs", "genisoimage", "mkisofs")


def program_here() -> str | None:
    """The program on this machine that writes ISO images."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


@dataclass(frozen=True, slots=True)
class Iso:
    """An image on disk, until `close`."""

    path: Path
    _entry: far_ledger.Entry

    def close(self) -> None:
        """Removes it."""
        self._entry.close(gone=_removed(str(self.path.parent)))


def write(files: Mapping[str, str], label: str) -> Iso:
    """An image with these files. MachineError when there is no room for it, or no program that makes it."""
    program = program_here()
    if program is None:
        raise MachineError("appliance", "nothing here writes ISO images", "install xorriso")
    home = folder()
    far_ledger.sweep(KIND, str(home), _removed)
    cure = "make room, or set XDG_CACHE_HOME"
    try:
        home.mkdir(parents=True, exist_ok=True)
        place = Path(tempfile.mktemp(prefix="appliance-", dir=home))  # noqa: S306 - noted first; `mkdir` refuses what is there
    except OSError as error:
        raise MachineError("appliance", f"{home} cannot be written ({error.strerror})", cure) from error
    made = Iso(place / "configuration.iso", far_ledger.note(KIND, str(home), str(place)))
    try:
        tree = place / "tree"
        place.mkdir(mode=0o700)
        tree.mkdir()
        for name, text in files.items():
            file = tree / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        argv = [program, "-quiet", "-J", "-r", "-V", label, str(tree)]
        with made.path.open("wb") as image:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=image,
                stderr=subprocess.PIPE,
                check=False,
                env=of_program(),
            )
        shutil.rmtree(tree)
    except BaseException as error:
        made.close()
        if isinstance(error, OSError):
            what = f"{home} cannot be written ({error.strerror})"
            raise MachineError("appliance", what, cure) from error
        raise
    if done.returncode != 0:
        made.close()
        said = done.stderr.decode(errors="replace").strip()[-500:]
        raise MachineError("appliance", f"{program} made no image in {home}: {said}", cure)
    return made


def _removed(place: str) -> bool:
    """Removes a folder; whether it is gone."""
    shutil.rmtree(place, ignore_errors=True)
    return not Path(place).exists()
