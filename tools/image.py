"""Builds the container image, and tries it: `python -m tools.image build`, `python -m tools.image test`.

`build` makes `virtlab:VERSION` from the wheel in `dist/` by buildah, in the user's own storage. `test` needs no
registry: its base is a Debian made by mmdebstrap, its storage a folder that is removed again. There
`virtlab demo --real` must decide every claim, in one of three tries, with the one flag that podman needs, and must be
refused in one line where system calls are filtered as docker filters them. `--save FILE` keeps that image as an archive
that `podman load` and `docker load` read.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SUITE = "bookworm"  # the one of the Containerfile's base
CERTIFICATES = Path(
    "/etc/ssl/certs"
)  # this machine's: pip may have to pass a proxy with a certificate of its own
WRITABLE = ("--security-opt", "unmask=ALL")  # /proc/sys of the world; docker: systempaths=unconfined
# What the default profile of docker withholds from a container without CAP_SYS_ADMIN, and podman's does not.
WITHHELD = ("unshare", "mount", "umount2", "setns", "fsopen", "pivot_root")
LIMITS = (
    "--ulimit",
    "nofile=1024:1024",
    "--ulimit",
    "nproc=1000:1000",
)  # the defaults are above those of some machines
REFUSED, UNDECIDED = 3, 4  # exit codes
TRIES = 3  # of what a busy machine leaves undecided
PROGRAMS = ("buildah", "mmdebstrap", "podman", "runc")


def name() -> str:
    """The image's name with its version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return f"localhost/virtlab:{project['version']}"


def build(base: str | None, *storage: str) -> None:
    """Builds the image. Processes of the build share this machine's network and no more than its root needs."""
    command = [
        "buildah",
        *storage,
        "build",
        "--isolation",
        "chroot",
        "--tag",
        name(),
        "--file",
        "Containerfile",
    ]
    command += ["--build-arg", f"BASE={base}"] if base else []
    command += ["--volume", f"{CERTIFICATES}:{CERTIFICATES}:ro"] if base and CERTIFICATES.is_dir() else []
    run(*command, ".")


def made_base(folder: Path, *storage: str) -> str:
    """The name of a base image: a minimal Debian from its packages."""
    archive = folder / "base.tar"
    run("mmdebstrap", "--quiet", "--variant=minbase", "--include=ca-certificates", SUITE, archive)
    container = run("buildah", *storage, "from", "scratch").strip()
    run("buildah", *storage, "add", "--quiet", container, archive, "/")
    run("buildah", *storage, "commit", "--quiet", "--rm", container, "localhost/base")
    archive.unlink()
    return "localhost/base"


def started(storage: list[str], flags: tuple[str, ...], *words: str) -> subprocess.CompletedProcess[str]:
    """A command of virtlab in a new container without a network."""
    engine = ["podman", *storage, "--runtime", "runc", "--cgroup-manager", "cgroupfs"]
    command = [*engine, "run", "--rm", "--network", "none", *LIMITS, *flags, name(), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def tried(storage: list[str], folder: Path) -> dict[str, Any]:
    """What the image answered. AssertionError when that is wrong."""
    profile = folder / "withheld.json"
    rule = {"names": WITHHELD, "action": "SCMP_ACT_ERRNO", "errnoRet": errno.EPERM}
    profile.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}))
    filtered = started(storage, (*WRITABLE, "--security-opt", f"seccomp={profile}"), "demo", "--real")
    said = filtered.stderr.strip().splitlines()
    assert filtered.returncode == REFUSED, f"filtered: exit code {filtered.returncode}: {said}"
    answers = []
    for number in range(TRIES):
        work = folder / f"work-{number}"
        work.mkdir()
        work.chmod(0o777)  # the image's user is not ours
        done = started(storage, (*WRITABLE, "--volume", f"{work}:/work"), "demo", "--real", "--json")
        records = sorted((work / "virtlab-demo" / "testbed.results" / "runs").glob("*/run.json"))
        runs = Counter(json.loads(record.read_text())["status"] for record in records)
        answers.append(judged(done, runs))
        if answers[-1]["decided"]:
            return {"filtered": said[-1], "tries": answers}
    runs = " and ".join(str(dict(one["runs"])) for one in answers)
    raise AssertionError(
        f"a claim or a run stayed open in {TRIES} tries, of runs {runs}: try again on a quieter machine"
    )


def judged(done: subprocess.CompletedProcess[str], runs: Counter[str]) -> dict[str, Any]:
    """What one demonstration answered, and whether it decided every claim. AssertionError when it is wrong."""
    assert done.returncode in {0, UNDECIDED}, f"exit code {done.returncode}: {done.stderr}"
    answers = json.loads(done.stdout)["answers"]
    simulated = {one["id"]: one["verdict"] for one in answers["simulator"]["verdicts"]}
    real = {one["id"]: one["verdict"] for one in answers["testbed"]["verdicts"]}
    assert simulated == dict.fromkeys(real, "holds") != {}, answers
    assert set() < runs.keys() <= {"ok", "tainted"}, runs  # a busy machine taints
    decided = (
        done.returncode == 0
    )  # else a claim is open, or runs are missing that the machine had no time for
    assert set(real.values()) <= {"holds", "undecided"}, real
    assert not decided or set(real.values()) == {"holds"}, real
    return {"verdicts": real, "runs": runs, "decided": decided}


def test(save: Path | None) -> None:
    """Builds the image on a base of its own and tries it."""
    if lacking := [program for program in PROGRAMS if shutil.which(program) is None]:
        raise SystemExit(
            f"virtlab: {', '.join(lacking)} not found; cure: apt-get install {' '.join(lacking)}"
        )
    with tempfile.TemporaryDirectory(prefix="virtlab-image-") as folder:
        place = Path(folder)
        storage = ["--root", f"{place}/storage", "--runroot", f"{place}/run", "--storage-driver", "vfs"]
        try:
            build(made_base(place, *storage), *storage)
            print(json.dumps(tried(storage, place)), flush=True)
            if save is not None:
                save.unlink(missing_ok=True)
                run("buildah", *storage, "push", "--quiet", name(), f"docker-archive:{save}:{name()}")
        finally:
            run("buildah", *storage, "rm", "--all")
            run("buildah", *storage, "rmi", "--all", "--force")


def run(*command: str | Path) -> str:
    """Output of a command, whose errors go where ours go. CalledProcessError when it fails."""
    environment = {**os.environ, "BUILDAH_ISOLATION": "chroot"}
    return subprocess.run(
        command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def main() -> int:
    """0 when the image was built, or answered as it must."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["build", "test"])
    parser.add_argument("--base", help="of build: the image to build on (debian:12-slim)")
    parser.add_argument("--save", type=Path, help="of test: the file to keep the image in")
    asked = parser.parse_args()
    if asked.what == "build":
        build(asked.base)
        print(name())
    else:
        test(asked.save and asked.save.resolve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
