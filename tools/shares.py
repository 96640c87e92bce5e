"""Tests in shares: as many pytest processes as processors, each with its share of the files, for `make quick`.

pytest-xdist collects every test in each of its processes and sends three reports per test; for thousands of tests of
milliseconds that is a third of all work. Here each process collects its own files, and nothing is sent. Files are dealt
out by how long they took last time, the longest first, each to the share that has least; a new file counts by its size.
What tests write lies in memory: a disk that each of thousands of `fsync` waits for takes longer than many of the tests.

    python -m tools.shares -m "not slow" tests/unit python
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SECONDS = ROOT / ".pytest_cache" / "seconds_of_files.json"
OWN = "VIRTLAB_SHARE"  # where a share notes how long its files took; beside it lies the list of them
MEMORY = Path("/dev/shm")
BYTES_PER_SECOND = 100_000  # of a file that was not timed yet
PROMPT = ">>>"


def files_of(places: Iterable[Path]) -> list[Path]:
    """The files that hold tests: those that pytest looks into by their names, and those with examples in their
    texts.
    """
    return [
        path
        for place in places
        for path in (sorted(place.rglob("*.py")) if place.is_dir() else [place])
        if path.name.startswith("test_") or PROMPT in path.read_text(encoding="utf-8")
    ]


def shares(files: Sequence[Path], seconds: Mapping[str, float], count: int) -> list[list[Path]]:
    """Every file in one share; the shares take about as long as each other."""

    def lasts(path: Path) -> float:
        return seconds.get(str(path)) or path.stat().st_size / BYTES_PER_SECOND

    dealt: list[tuple[float, list[Path]]] = [(0.0, []) for _ in range(count)]
    for path in sorted(files, key=lambda path: (-lasts(path), path)):
        place = min(range(count), key=lambda place: dealt[place][0])
        dealt[place] = (dealt[place][0] + lasts(path), [*dealt[place][1], path])
    return [sorted(share) for _, share in dealt if share]


def main(arguments: Sequence[str]) -> int:
    """Runs pytest with these arguments, its paths dealt out; the exit code is that of the first share that failed."""
    places = [word for word in arguments if (ROOT / word).exists()]
    dealt = shares(files_of(map(Path, places)), remembered(), len(os.sched_getaffinity(0)))
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as folder:
        notes = [Path(folder) / f"{number}.json" for number in range(len(dealt))]
        started = []
        for share, note in zip(dealt, notes, strict=True):
            note.with_suffix(".files").write_text("\n".join(str(path.resolve()) for path in share))
            written = f"--basetemp={note.with_suffix('')}"
            started.append(
                subprocess.Popen(
                    [sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "tools.shares", written, *arguments],
                    env=os.environ | {OWN: str(note)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                )
            )  # fmt: skip
        for each in started:
            print(each.communicate()[0], end="")
        remember(note for note in notes if note.exists())
    return next((each.returncode for each in started if each.returncode), 0)


def remembered() -> dict[str, float]:
    """File -> how long its tests took last time; empty where nothing was noted."""
    try:
        return {str(path): float(lasts) for path, lasts in json.loads(SECONDS.read_text()).items()}
    except (OSError, ValueError, AttributeError):
        return {}


def remember(notes: Iterable[Path]) -> None:
    """Keeps what the shares noted, beside what is known of other files; nothing, where they noted nothing."""
    noted: dict[str, float] = {}
    for note in notes:
        noted |= json.loads(note.read_text())
    if not noted:
        return
    seconds = remembered() | noted
    with suppress(OSError):
        SECONDS.parent.mkdir(exist_ok=True)
        SECONDS.write_text(json.dumps({path: round(lasts, 3) for path, lasts in seconds.items()}, indent=0))


# As a plug-in of a share: its own files, and the processor time of each, in which another share's work does not show.
_files = frozenset(
    Path(os.environ[OWN]).with_suffix(".files").read_text().splitlines() if OWN in os.environ else ()
)
_spent: defaultdict[str, float] = defaultdict(float)


def _timed(path: Path) -> Generator[None, object, object]:
    begun = time.process_time()
    try:
        return (yield)
    finally:
        _spent[os.path.relpath(path, ROOT)] += time.process_time() - begun


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Files of other shares, and those without tests. (Named on the command line, any module would be one of tests.)"""
    mine = not _files or collection_path.suffix != ".py" or str(collection_path) in _files
    return None if mine else True


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, object, object]:
    """Imports count for the file that is collected."""
    return (yield from _timed(collector.path))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """From its first fixture to its last."""
    return (yield from _timed(item.path))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Notes what was measured; where tests were only listed, that says nothing about how long they take."""
    if OWN in os.environ and not session.config.option.collectonly:
        Path(os.environ[OWN]).write_text(json.dumps(_spent))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
