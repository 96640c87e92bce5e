"""Root file systems of containers, by name, in the user's cache: from a folder, an archive or a container engine.

podman and docker keep images as layers of their own; what is needed here is the file system that results. So a
container is made of the image, never started, written out as an archive, and removed.

What an image holds is somebody else's: setuid programs, and where root unpacks it devices. Only the user may
enter the folder that holds them all. Whatever an archive's members are called, GNU tar unpacks them below the
folder it is given.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from virtlab.errors import ExperimentError, MachineError
from virtlab.testbed.image.entry import EntryPoint, configuration_of, entry_point
from virtlab.testbed.image.kernels import folder
from virtlab.testbed.leader.environment import FETCHING, PLACES, of_program

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,30}\Z")
ENGINES = ("podman", "docker")
LEFT_S = 86_400
UNPACK = ("tar", "-x", "--force-local", "-f")


def rootfs_folder() -> Path:
    """The folder of the root file systems."""
    return folder() / "rootfs"


def find_rootfs(name: str) -> Path | None:
    """The root file system of that name, or None."""
    home = rootfs_folder()
    place = home / name
    if not NAME.match(name) or not place.is_dir():
        return None
    with contextlib.suppress(OSError):
        _close(home)  # one that was made when others were let in
    return place


def started_by(name: str) -> EntryPoint:
    """What an installed image starts by itself. MachineError where it is not installed, or does not say it."""
    return entry_point(name, find_rootfs(name))


def list_rootfs() -> list[str]:
    """Names of all."""
    home = rootfs_folder()
    return sorted(path.name for path in home.iterdir() if NAME.match(path.name)) if home.is_dir() else []


def add_rootfs(name: str, source: str) -> Path:
    """Keeps a root file system in place of one of that name.

    `source` is a folder, a tar archive, or `podman:IMAGE`, `docker:IMAGE`. ExperimentError when the name or the
    source is wrong, MachineError when a program is missing or fails.
    """
    if not NAME.match(name):
        raise ExperimentError(
            "name", f"'{name}' is not a valid name of an image", "use letters, digits, '-' and '_'"
        )
    home = rootfs_folder()
    try:
        home.mkdir(parents=True, exist_ok=True)
        _close(home)
        _forget_left(home)
        new = Path(tempfile.mkdtemp(prefix=".new-", dir=home))
    except OSError as error:
        raise MachineError(
            "image", f"{home} cannot be written ({error.strerror})", "set XDG_CACHE_HOME"
        ) from error
    try:
        new.chmod(0o755)
        configuration = _fill(new, source)
        if not any(new.iterdir()):
            raise ExperimentError(
                "source", f"{source} is empty", "name a folder or archive with a root file system"
            )
        place = home / name
        old = home / f".old-{new.name}"
        if place.exists():
            place.rename(old)
        configuration_of(place).unlink(missing_ok=True)
        if configuration:
            configuration_of(place).write_text(configuration, encoding="utf-8")
        new.rename(place)
        shutil.rmtree(old, ignore_errors=True)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    return place


def _close(home: Path) -> None:
    """Only the user may enter, or a setuid program of an image would be one of this machine."""
    if home.stat().st_mode & 0o077:
        home.chmod(0o700)


def _forget_left(home: Path) -> None:
    """Removes what killed processes left: what has not changed for a day."""
    for pattern in (".new-*", ".old-*"):
        for left in home.glob(pattern):
            with contextlib.suppress(OSError):
                if time.time() - left.lstat().st_ctime < LEFT_S:
                    continue
                if left.is_dir():
                    shutil.rmtree(left, ignore_errors=True)
                else:
                    left.unlink()


def remove_rootfs(name: str) -> None:
    """Forgets one. ExperimentError if none exists of that name."""
    place = find_rootfs(name)
    if place is None:
        raise ExperimentError(
            "name", f"there is no image '{name}'", f"there are {', '.join(list_rootfs()) or 'none'}"
        )
    shutil.rmtree(place)
    configuration_of(place).unlink(missing_ok=True)


def _fill(place: Path, source: str) -> str:
    """Fills a folder; what the source says of the image, as JSON, or nothing."""
    engine, _, reference = source.partition(":")
    if engine in ENGINES and reference:
        if reference.startswith("-"):
            raise ExperimentError(
                "source", f"'{reference}' is not a valid name of an image", "name one of the engine's"
            )
        return _export(place, engine, reference)
    path = Path(source).absolute()  # so that its name is neither an option nor a host
    if path.is_dir():
        _run(["cp", "-a", f"{path}/.", str(place)])
    elif path.is_file():
        _run([*UNPACK, str(path), "-C", str(place)])
    else:
        cure = "name a folder, a tar archive, podman:IMAGE or docker:IMAGE"
        raise ExperimentError("source", f"there is no '{source}'", cure)
    return ""


def _export(place: Path, engine: str, reference: str) -> str:
    program = shutil.which(engine)
    if program is None:
        raise MachineError("image", f"{engine} is missing", f"install {engine}, or name a folder or archive")
    container = _run([program, "create", reference, "/nothing"]).strip().splitlines()[-1]
    archive = place.with_name(f"{place.name}.tar")
    try:
        _run([program, "export", "--output", str(archive), container])
        _run([*UNPACK, str(archive), "-C", str(place)])
        return _run([program, "image", "inspect", "--format", "{{json .Config}}", reference])
    finally:
        archive.unlink(missing_ok=True)
        subprocess.run(
            [program, "rm", container],
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
            env=of_program(*FETCHING, *PLACES),
        )


def _run(argv: list[str]) -> str:
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env=of_program(*FETCHING, *PLACES),
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise MachineError(
            "image", f"{Path(argv[0]).name}: {lines[-1] if lines else f'code {done.returncode}'}"
        )
    return done.stdout
