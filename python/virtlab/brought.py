"""Files of any bytes that an experiment file brings into guests: read beside it, kept by their digest.

A Plan names such a file by its digest alone, so it says what ran however the file was called. The bytes are kept in the
user's cache, where a backend finds them, also when a dataset is resumed without the file. What lies beside an
experiment file may come from somebody else, so no name on the way is followed through a link, and nothing but a regular
file is read.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path

from virtlab.errors import DatasetError
from virtlab.folders import Folder
from virtlab.lazy import pattern

FILE_MAX_BYTES = 32 << 20
ALL_MAX_BYTES = 1 << 30  # of all that is kept: four experiments of the largest size
UNUSED_S = 60 * 86_400  # after which a file that no experiment brought is forgotten
DIGEST = pattern(r"[0-9a-f]{64}\Z")


def read_beside(folder: Path, name: str, most_bytes: int = FILE_MAX_BYTES) -> bytes:
    """The bytes of a file below a folder. ValueError("WHAT; CURE") where they cannot be read."""
    *below, last = name.split("/")
    try:
        with Folder.open(folder, *below) as inner:
            return inner.regular(last, most_bytes)
    except DatasetError as error:
        raise ValueError(
            f"{error.where} {error.what}; name a file below the experiment file's folder"
        ) from None
    except OSError as error:
        what = error.strerror or str(error)
        raise ValueError(
            f"'{name}' cannot be read ({what}); put a regular file of at most {max(most_bytes >> 20, 1)} MiB there"
        ) from None


def digest_of(content: bytes) -> str:
    """By which a file is named."""
    return hashlib.sha256(content).hexdigest()


def keep(content: bytes) -> None:
    """Keeps a file for the worlds that bring it. A cache that cannot be written is no mistake here: it is one there."""
    with suppress(OSError, DatasetError, RuntimeError), Folder.open(_place(), make=True) as folder:
        name = digest_of(content)
        if folder.read(name, FILE_MAX_BYTES) is None:
            folder.write(name, content)
        os.utime(folder.path / name)
        _forget(folder, name)


def find(digest: str) -> bytes | None:
    """The bytes of that digest; None where they are not kept."""
    if not DIGEST.match(digest):
        return None
    with suppress(OSError, DatasetError, RuntimeError), Folder.open(_place()) as folder:
        content = folder.read(digest, FILE_MAX_BYTES)
        if content is not None and digest_of(content) == digest:
            with suppress(OSError):  # a cache that can only be read keeps what it has
                os.utime(folder.path / digest)
            return content
    return None


def _forget(folder: Folder, newest: str) -> None:
    """Removes what was unused too long, then what was used longest ago, until the rest is small enough."""
    kept = [
        (entry.stat(follow_symlinks=False), entry.name)
        for entry in os.scandir(folder.path)
        if DIGEST.match(entry.name) and entry.name != newest
    ]
    room = ALL_MAX_BYTES - (folder.path / newest).lstat().st_size
    for status, name in sorted(kept, key=lambda each: each[0].st_mtime, reverse=True):
        room -= status.st_size
        if room < 0 or time.time() - status.st_mtime > UNUSED_S:
            folder.remove(name)


def _place() -> Path:
    """`virtlab/brought` in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "virtlab" / "brought"
