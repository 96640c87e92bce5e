"""Programs of this machine for an initial file system: each with the libraries that its loader would find here.

A dynamic program names its loader and the libraries that it needs; `ldd` says where they are. All keep their
places, so the loader finds them inside as it does here.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from virtlab.errors import MachineError
from virtlab.testbed.leader.environment import of_program

_LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x[0-9a-f]+\)")


def paths_of(names: Iterable[str], files: Iterable[Path] = ()) -> dict[str, Path] | None:
    """Programs with their libraries, and files: place inside -> file here. None when one of them is missing."""
    out = {str(path): path for path in files}
    if any(not path.is_file() for path in out.values()):
        return None
    for name in names:
        program = shutil.which(name)
        if program is None:
            return None
        out[f"bin/{name}"] = Path(program).resolve()
        for library in libraries(Path(program).resolve()):
            out[str(library)] = library.resolve()
    return out


def libraries(program: Path) -> list[Path]:
    """What it needs to be loaded: libraries, and the loader. MachineError if one is missing, or this cannot be
    found out.
    """
    try:
        done = subprocess.run(
            ["ldd", str(program)],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            env=of_program(),
        )
    except FileNotFoundError:
        raise MachineError("image", "ldd is missing", "install libc-bin") from None
    if "not found" in done.stdout:
        lacking = next(line.strip() for line in done.stdout.splitlines() if "not found" in line)
        raise MachineError("image", f"{program}: {lacking}", "install it, or remove the program's package")
    return parsed(done.stdout)


def parsed(output: str) -> list[Path]:
    """Paths in what `ldd` says.

    >>> parsed("\\tlibm.so.6 => /lib/libm.so.6 (0x00007f)\\n\\tlinux-vdso.so.1 (0x00007f)\\n\\t/lib64/ld.so.2 (0x00007f)\\n")
    [PosixPath('/lib/libm.so.6'), PosixPath('/lib64/ld.so.2')]
    """
    return [Path(match[1]) for line in output.splitlines() if (match := _LIBRARY.search(line))]


def digest(files: Mapping[str, Path]) -> bytes:
    """Changes when one of the files does."""
    state = hashlib.sha256()
    for place, path in sorted(files.items()):
        facts = path.stat()
        state.update(f"{place} {path} {facts.st_size} {facts.st_mtime_ns}\0".encode())
    return state.digest()
