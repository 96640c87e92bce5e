"""The wheel for aarch64 in a whole machine of that processor, which qemu emulates:
`python -m tools.arm64_machine dist`.

User emulation, by which `tools/arm64.py` tries programs, translates system calls into those of this machine. Here the
kernel is that of aarch64, too: Debian's, with Debian's Python, the locked packages and the wheel in an initial file
system. Inside, the agent's unit tests run as root, and `virtlab demo --real` as an ordinary user: the simulator's
claims must hold, and on the testbed no run may fail. An emulated processor is slow and its runs are tainted, so the
claims of the testbed may stay undecided.
"""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools import arm64

from virtlab.testbed.image.archive import Archive

ROOT = arm64.ROOT
QEMU = "qemu-system-aarch64"
BASE = ("python3.11", "libstdc++6", "busybox-static", "linux-image-cloud-arm64")
GLIBC = ("2_17", "2_24", "2_26", "2_27", "2_28")  # what wheels of packages are tagged with, up to ours
TESTS = arm64.BUILT / "tests-of-the-agent"
UNDECIDED = 4  # exit code
MEMORY_MB = 3072
LONGEST_S = 3600
MARK = "virtlab-answer: "
PASSWD = "root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/tmp:/bin/sh\n"
LEFT_OUT = ("boot", "usr/share/doc", "usr/share/locale", "usr/share/man")
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/sbin:/usr/bin HOME=/root
mkdir -p /proc /sys /dev /tmp /root
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts none /dev/pts
mount -t tmpfs none /dev/shm
mount -t tmpfs none /tmp
chmod 1777 /tmp /dev/shm
ip link set lo up
python3.11 /inside.py
poweroff -f
"""
# What runs in the machine: each answer is one line on its console.
INSIDE = f"""
import json, os, pathlib, subprocess

MARK = {MARK!r}
PROGRAM = ["python3.11", "-c", "from virtlab.cli.startup import start; start()"]

def ordinary():
    os.setgroups([])
    os.setgid(1000)
    os.setuid(1000)

def answer(what, command, before=None, folder="/tmp"):
    environment = {{**os.environ, "HOME": folder, "PYTHONPATH": "/packages"}}
    done = subprocess.run(command, cwd=folder, env=environment, preexec_fn=before, capture_output=True, text=True)
    said = {{"what": what, "code": done.returncode, "out": done.stdout[-1_000_000:], "err": done.stderr[-3000:]}}
    print(MARK + json.dumps(said), flush=True)

answer("machine", ["uname", "-srm"])
for test in sorted(pathlib.Path("/tests").iterdir()):
    answer("test " + test.name, [str(test), "--test-threads", "2"])
os.mkdir("/tmp/user")
os.chown("/tmp/user", 1000, 1000)
answer("version", [*PROGRAM, "--version"], ordinary, "/tmp/user")
answer("demo", [*PROGRAM, "demo", "--real", "--json"], ordinary, "/tmp/user")
runs = pathlib.Path("/tmp/user").rglob("testbed.results/runs/*/run.json")
statuses = [json.loads(one.read_text())["status"] for one in runs]
print(MARK + json.dumps({{"what": "runs", "code": 0, "out": json.dumps(statuses), "err": ""}}), flush=True)
"""


def depmod() -> str | None:
    """The program that says which drivers need which; it lies where ordinary users do not look."""
    return shutil.which("depmod") or shutil.which("depmod", path="/usr/sbin:/sbin")


def base() -> Path:
    """The system: packages with all that they depend on, unpacked; kept for the next time."""
    place = arm64.BUILT / "debian"
    if not place.is_dir():
        with arm64.packages("arm64") as (apt, folder):
            apt("apt-get", "install", "--download-only", "-y", "-qq", "--no-install-recommends", *BASE)
            arm64.unpack(folder, place)
    (modules,) = (place / "lib" / "modules").iterdir()
    subprocess.run([str(depmod()), "--basedir", place, modules.name], check=True)
    return place


def packages(wheel: Path, place: Path) -> None:
    """What the wheel needs and the wheel, for aarch64, compiled."""
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", place]
    pip += [
        "--only-binary",
        ":all:",
        "--no-deps",
        "--no-compile",
        "--implementation",
        "cp",
        "--python-version",
        "3.11",
    ]
    pip += [f"--platform=manylinux_{version}_aarch64" for version in GLIBC]
    subprocess.run([*pip, "--require-hashes", "-r", ROOT / "requirements.lock"], check=True)
    shutil.rmtree(place / "bin")  # commands of this machine's Python
    subprocess.run([*pip, wheel], check=True)
    # An initial file system has no times, by which Python would know that a source is as it was compiled.
    compiling = ["-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", "-j", "2"]
    subprocess.run(
        [sys.executable, *compiling, "-s", place, "-p", "/packages", place],
        check=False,
        stdout=subprocess.DEVNULL,
    )


def tests() -> None:
    """The tests of the agent as static programs."""
    command = [
        "cargo",
        "test",
        "--locked",
        "--no-run",
        "--target",
        arm64.TARGET,
        "--package=virtlab-agent",
        "--package=virtlab-leader",
        "--package=virtlab-system",
        "--lib",
    ]
    done = subprocess.run(
        [*command, "--message-format=json"], cwd=ROOT, env=arm64.built_by(static=True), check=True,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    shutil.rmtree(TESTS, ignore_errors=True)
    TESTS.mkdir(parents=True)
    for line in done.stdout.splitlines():
        told = json.loads(line)
        if told.get("executable") and told["profile"]["test"]:
            arm64.run(arm64.OBJCOPY, "--strip-all", told["executable"], TESTS / told["target"]["name"])


def files(folder: Path, prefix: str) -> Iterator[tuple[str, Path]]:
    """Everything in a folder, parents first, with its name inside."""
    for path in sorted(folder.rglob("*")):
        yield f"{prefix}{path.relative_to(folder)}", path


def file_system(system: Path, installed: Path) -> bytes:
    """The initial file system: Debian, the packages, the agent's tests, and what runs them."""
    archive = Archive()
    archive.file("init", INIT.encode(), executable=True)
    archive.file("inside.py", INSIDE.encode())
    archive.file("etc/passwd", PASSWD.encode())
    for name, path in [*files(system, ""), *files(installed, "packages/"), *files(TESTS, "tests/")]:
        mode = path.lstat().st_mode
        if name.startswith(LEFT_OUT):
            continue
        if stat.S_ISLNK(mode):
            archive.link(name, str(path.readlink()))
        elif stat.S_ISDIR(mode):
            archive.folder(name)
        elif stat.S_ISREG(mode):
            archive.file(name, path.read_bytes(), executable=bool(mode & stat.S_IXUSR))
    return bytes(archive)


@contextmanager
def booted(system: Path, archive: Path) -> Iterator[Iterator[str]]:
    """The lines of the machine's console, until it is switched off."""
    (kernel,) = (system / "boot").glob("vmlinuz-*")
    command = [
        QEMU,
        "-nodefaults",
        "-no-user-config",
        "-nographic",
        "-no-reboot",
        "-M",
        "virt",
        "-accel",
        "tcg,thread=multi",
    ]
    command += ["-cpu", "cortex-a57", "-smp", "2", "-m", str(MEMORY_MB), "-serial", "stdio"]
    command += ["-kernel", kernel, "-initrd", archive, "-append", "console=ttyAMA0 quiet panic=-1"]
    machine = subprocess.Popen(
        ["timeout", str(LONGEST_S), *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    assert machine.stdout is not None
    try:
        yield machine.stdout
    finally:
        machine.terminate()
        machine.wait()


def judged(answers: dict[str, dict[str, Any]]) -> None:
    """Prints what the machine answered. AssertionError when that is wrong."""
    assert "runs" in answers, f"the machine ended after {list(answers)}"
    wrong = {what: told for what, told in answers.items() if told["code"] != 0 and what != "demo"}
    assert not wrong, json.dumps(wrong, indent=1)
    demo = answers["demo"]
    assert demo["code"] in {0, UNDECIDED}, json.dumps(demo, indent=1)
    verdicts = {
        arm: {one["id"]: one["verdict"] for one in told["verdicts"]}
        for arm, told in json.loads(demo["out"])["answers"].items()
    }
    assert verdicts["simulator"] == dict.fromkeys(verdicts["testbed"], "holds") != {}, verdicts
    runs = json.loads(answers["runs"]["out"])
    assert set() < set(runs) <= {"ok", "tainted"}, runs
    tested = sorted(what for what in answers if what.startswith("test "))
    assert tested
    print(
        f"{answers['machine']['out'].strip()}: {answers['version']['out'].strip()}; {', '.join(tested)} passed"
    )
    print(f"demo: {verdicts}; {runs.count('ok')} of {len(runs)} real runs were good, the others tainted")


def main() -> int:
    """0 when everything in the machine worked."""
    if shutil.which(QEMU) is None or depmod() is None:
        raise SystemExit(f"virtlab: {QEMU} or depmod not found; cure: apt-get install qemu-system-arm kmod")
    (wheel,) = Path(sys.argv[1]).resolve().glob("virtlab-*_aarch64.whl")
    arm64.require(arm64.GCC, arm64.OBJCOPY)
    tests()
    system = base()
    answers: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="virtlab-arm64-") as folder:
        place = Path(folder)
        packages(wheel, place / "packages")
        (place / "initrd").write_bytes(file_system(system, place / "packages"))
        with booted(system, place / "initrd") as console:
            for line in console:
                _, marked, told = line.partition(MARK)
                if marked:
                    answer = json.loads(told)
                    answers[answer["what"]] = answer
                else:
                    print(line.rstrip(), file=sys.stderr)
    judged(answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
