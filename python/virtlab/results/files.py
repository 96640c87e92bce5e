"""Files that survive a crash: written beside their place, flushed, moved in by one rename, the folder
flushed.

POSIX promises neither the bytes of a file nor its name in a folder until both were fsynced; a rename is
atomic, and durable once the folder was. So whatever has its final name is whole.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from virtlab.folders import Folder

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


def flush_folder(path: Path) -> None:
    """Makes the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_file(path: Path) -> None:
    """Makes the bytes of a file durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_tree(root: Path) -> None:
    """Makes every file and folder below `root`, and `root` itself, durable, leaves first."""
    for folder, _, files in os.walk(root, topdown=False):
        for name in files:
            flush_file(Path(folder, name))
        flush_folder(Path(folder))


def write_durably(path: Path, text: str) -> None:
    """Puts a whole file in place by one rename; after a crash there is the old one or the new one."""
    with Folder.open(path.parent) as folder:
        folder.write(path.name, text.encode(), durable=True)


def flush_trees(roots: Sequence[Path]) -> None:
    """Makes all that lies below the roots, which lie in one file system, durable.

    Several at once by syncfs(2) where there is one: one flush of the file system, not one for each file.
    """
    flush = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None) if len(roots) > 1 else None
    if flush is None:
        for root in roots:
            flush_tree(root)
        return
    descriptor = os.open(roots[0], os.O_RDONLY | os.O_DIRECTORY)
    try:
        if flush(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(roots[0]))
    finally:
        os.close(descriptor)


def move_in(folders: Sequence[tuple[Path, Path]]) -> None:
    """Makes finished folders of one file system durable and gives each its name: `(partial, final)`.

    FileExistsError when a name is taken.
    """
    for _, final in folders:
        if final.exists():
            raise FileExistsError(final)
    flush_trees([partial for partial, _ in folders])
    for partial, final in folders:
        partial.rename(final)
    for parent in {final.parent for _, final in folders}:
        flush_folder(parent)


def remove_tree(path: Path) -> None:
    """Removes a folder, missing or not."""
    shutil.rmtree(path, ignore_errors=True)


def as_json(values: Any) -> str:
    """JSON as people read it: indented, keys in the order given, one trailing newline."""
    return json.dumps(values, indent=2, ensure_ascii=False, default=str) + "\n"


one_line = json.JSONEncoder(ensure_ascii=False, default=str).encode  # JSON without line breaks; made once


def as_json_by_line(values: Mapping[str, Any]) -> str:
    """JSON of which each key of the outermost object has a line: as people look through it, and a tenth of the work of
    indenting what lies inside.
    """
    lines = (f"  {json.dumps(key)}: {one_line(value)}" for key, value in values.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"
