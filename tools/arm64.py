"""virtlab for aarch64, made and tried on an x86_64 machine: `python -m tools.arm64 WHAT`.

check            do the agent and the extension module compile? (`make arm64`)
wheel FOLDER     a wheel in that folder that an index takes, the agent of aarch64 inside (`make arm64-wheel`)
test [FOLDER]    the tests of the pure crates, by qemu's user emulation; and the agent in that folder's wheel

Characters of C are signed on one processor and not on the other, and structures of the kernel differ: what works here
may not work there. The compiler needs the standard library for aarch64: it is taken from the toolchain in use if that
has it (`rustup target add aarch64-unknown-linux-gnu`), or from Debian's packages. These are unpacked in
`target/aarch64/` and not installed, with the compiler that they belong to.

Two linkers are at work, as on x86_64. The extension module is linked by zig against the oldest glibc that a wheel may
meet. The agent is static, and zig has no static glibc: gcc's cross compiler links it with Debian's.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.platform_tag import PLATFORM, assert_platform

from virtlab.testbed.image import elf

ROOT = Path(__file__).resolve().parents[1]
MACHINE = 183  # EM_AARCH64
TARGET = "aarch64-unknown-linux-gnu"
BUILT = ROOT / "target" / "aarch64"
SOURCES = BUILT / "sources"
Apt = Callable[..., str]
OWN_AGENT = ROOT / "python" / "virtlab" / "_bin" / "virtlab-agent"
BINARIES = Path(sys.executable).parent
PROGRAMS = ("virtlab-agent", "virtlab-py")
IMPURE = (*PROGRAMS, "virtlab-leader", "virtlab-system")  # programs, and parts of the agent
PURE = ("--workspace", *(f"--exclude={name}" for name in IMPURE))
PACKAGES = ("rustc-web:amd64", "libstd-rust-web-dev:amd64", "libstd-rust-web-dev:arm64")
EMULATOR = "qemu-aarch64-static"
GCC = "aarch64-linux-gnu-gcc"
OBJCOPY = "aarch64-linux-gnu-objcopy"
LARGEST_AGENT_BYTES = 5_000_000
# What lies beside `python/` and `crates/` and is needed where a wheel is made.
BESIDE = (
    "Cargo.toml",
    "Cargo.lock",
    "LICENSE",
    "NOTICE",
    "licences",
    "README.md",
    "pyproject.toml",
    "tools/backend",
)


def compiler() -> dict[str, str]:
    """What the environment must say so that cargo finds a compiler with the library for aarch64."""
    found = subprocess.run(["rustc", "--print", "sysroot"], check=True, capture_output=True, text=True)
    if (Path(found.stdout.strip()) / "lib" / "rustlib" / TARGET).is_dir():
        return {}
    place = BUILT / "rust"
    if not place.is_dir():
        unpacked(place)
    return {
        "RUSTC": str(place / "usr" / "bin" / "rustc"),
        "LD_LIBRARY_PATH": str(place / "usr" / "lib" / "x86_64-linux-gnu"),
    }


def unpacked(place: Path) -> None:
    """Debian's compiler and its libraries for both processors."""
    if shutil.which("apt-get") is None:
        raise SystemExit(f"virtlab: no standard library for {TARGET}; cure: rustup target add {TARGET}")
    with packages("amd64", "arm64") as (apt, folder):
        # The names of the libraries beneath hold versions: they are asked for.
        libraries = needed_by(apt, "libstd-rust-web-", *PACKAGES[1:])
        compilers = needed_by(apt, "libllvm", *(name for name in libraries if ":" not in name))
        apt("apt-get", "download", "-qq", *PACKAGES, *libraries, *compilers)
        unpack(folder, place)


@contextmanager
def packages(*architectures: str) -> Iterator[tuple[Apt, Path]]:
    """An apt with lists of its own, on a system of these processors with nothing installed, and the folder it works
    in.
    """
    with tempfile.TemporaryDirectory(prefix="virtlab-arm64-") as folder:
        own = Path(folder)
        for name in ("state/lists/partial", "cache/archives/partial", "debs"):
            (own / name).mkdir(parents=True)
        (own / "status").touch()
        (own / "apt.conf").write_text(
            f'APT::Architecture "{architectures[0]}"; APT::Architectures "{",".join(architectures)}";\n'
            f'APT::Sandbox::User ""; Dir::State "{own}/state"; Dir::Cache "{own}/cache";\n'
            f'Dir::State::status "{own}/status";\n'
        )
        environment = {**os.environ, "APT_CONFIG": str(own / "apt.conf")}

        def apt(*command: str) -> str:
            return subprocess.run(
                command, cwd=own / "debs", env=environment, check=True, stdout=subprocess.PIPE, text=True
            ).stdout

        apt("apt-get", "update", "-qq")
        yield apt, own


def unpack(own: Path, place: Path) -> None:
    """Packages that an apt downloaded into its folder, unpacked together, which takes place whole or not at all."""
    for package in sorted([*own.glob("debs/*.deb"), *own.glob("cache/archives/*.deb")]):
        subprocess.run(["dpkg", "-x", package, own / "root"], check=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(own / "root", place)


def needed_by(apt: Apt, begin: str, *packages: str) -> list[str]:
    """Packages that others depend on, by the beginning of their names."""
    told = apt("apt-cache", "depends", "--important", *packages)
    return sorted(set(re.findall(rf"Depends: ({begin}\S+)", told)) - set(packages))


def require(*programs: str) -> None:
    """SystemExit with the cure if a program is not here."""
    packages = {EMULATOR: "qemu-user-static"}
    lacking = [name for name in programs if shutil.which(name) is None]
    cures = [packages.get(name, "gcc-aarch64-linux-gnu libc6-dev-arm64-cross") for name in lacking]
    if lacking:
        raise SystemExit(
            f"virtlab: {', '.join(lacking)} not found; cure: apt-get install {' '.join(dict.fromkeys(cures))}"
        )


def built_by(static: bool) -> dict[str, str]:
    """The environment of a build for aarch64; `static`: what is linked needs nothing of a system but its kernel."""
    prefix = f"CARGO_TARGET_{TARGET.upper().replace('-', '_')}"
    own = {"CARGO_TARGET_DIR": str(BUILT), **compiler()}
    if static:
        own |= {f"{prefix}_LINKER": GCC, f"{prefix}_RUNNER": EMULATOR}
        own[f"{prefix}_RUSTFLAGS"] = "-C target-feature=+crt-static -C force-unwind-tables=no"
    return {**os.environ, **own, "PATH": f"{BINARIES}:{os.environ['PATH']}"}


def run(*command: str | Path, cwd: Path = ROOT, static: bool = False) -> None:
    """A command of a build. CalledProcessError when it fails."""
    subprocess.run(command, cwd=cwd, env=built_by(static), check=True)


def check() -> None:
    """Compiles both programs without linking them."""
    packages = [f"--package={name}" for name in PROGRAMS]
    run("cargo", "check", "--locked", "--quiet", "--target", TARGET, *packages)
    print(f"{' and '.join(PROGRAMS)} compile for {TARGET}")


def agent(place: Path) -> None:
    """The agent, static and stripped, where a wheel has it; what debuggers read stays beside what was built."""
    require(GCC, OBJCOPY)
    command = ["cargo", "build", "--locked", "--quiet", "--release", "--target", TARGET]
    run(*command, "--package=virtlab-agent", static=True)
    whole = BUILT / TARGET / "release" / "virtlab-agent"
    debug = BUILT / "virtlab-agent.debug"
    run(OBJCOPY, "--only-keep-debug", whole, debug)
    place.parent.mkdir(parents=True)
    run(OBJCOPY, "--strip-all", f"--add-gnu-debuglink={debug.name}", whole, place, cwd=BUILT)
    verify(place.read_bytes())


def verify(binary: bytes) -> None:
    """AssertionError unless these are a static program for aarch64 of a bounded size."""
    machine = int.from_bytes(binary[18:20], "little")
    assert elf.is_elf(binary), "the agent is not a program of 64 bits"
    assert machine == MACHINE, f"the agent is for another processor (e_machine {machine})"
    assert elf.is_static(binary), f"the agent is not static: it needs {elf.interpreter(binary)}"
    assert not elf.needed(binary), f"the agent is not static: it needs {', '.join(elf.needed(binary))}"
    assert len(binary) <= LARGEST_AGENT_BYTES, f"the agent has {len(binary):,} B"


def wheel(folder: Path) -> Path:
    """Makes the wheel from a copy of the sources, in which the agent is that of aarch64."""
    shutil.rmtree(SOURCES, ignore_errors=True)
    leave = shutil.ignore_patterns("__pycache__", "*.so", "_bin")
    for name in ("crates", "python", *BESIDE):
        source, place = ROOT / name, SOURCES / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, place, ignore=leave)
        else:
            shutil.copy2(source, place)
    agent(SOURCES / "python" / "virtlab" / "_bin" / "virtlab-agent")
    command = [BINARIES / "maturin", "build", "--quiet", "--profile", "shipped", "--locked", "--zig"]
    command += ["--target", TARGET, "--compatibility", PLATFORM, "-o", folder]
    run(*command, cwd=SOURCES)
    (made,) = folder.glob("virtlab-*_aarch64.whl")
    assert_platform(made)
    return made


def try_agent(folder: Path) -> None:
    """The agent of the wheel says its version, and is of the same sources as the one of this machine."""
    (made,) = folder.glob("virtlab-*_aarch64.whl")
    with tempfile.TemporaryDirectory(prefix="virtlab-arm64-") as place:
        with zipfile.ZipFile(made) as archive:
            name = "virtlab/_bin/virtlab-agent"
            assert archive.getinfo(name).external_attr >> 16 & 0o111, "the agent cannot be started"
            program = Path(archive.extract(name, place))
        verify(program.read_bytes())
        program.chmod(0o755)
        told = subprocess.run(
            [EMULATOR, program, "--version"], check=True, stdout=subprocess.PIPE, text=True
        ).stdout.strip()
        builds = {build_of(one.read_bytes()) for one in (program, OWN_AGENT)}
    assert len(builds) == 1, f"the agents of the two processors were made of different sources: {builds}"
    print(
        f"{made.name}: the agent inside says {told}; its build is {builds.pop()}, as the one of this machine"
    )


def build_of(binary: bytes) -> str:
    """The build that an agent names: a version and a hash of its sources."""
    (found,) = set(re.findall(rb"\d+\.\d+\.\d+\+[0-9a-f]{16}", binary))
    return found.decode()


def test(folder: Path | None) -> None:
    """The tests of the pure crates, and what fuzzing sends to agents, each a static program of aarch64."""
    require(GCC, EMULATOR)
    if folder is not None:
        try_agent(folder)
    os.environ["PROPTEST_RNG_SEED"] = "20"
    command = ["cargo", "test", "--locked", "--quiet", "--target", TARGET]
    run(*command, "--lib", "--tests", *PURE, static=True)
    run(*command, "--test=corpus", "--package=virtlab-agent", static=True)


def main() -> int:
    """0 when all is well; the failing command's error otherwise."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["check", "wheel", "test"])
    parser.add_argument("folder", type=Path, nargs="?", help="where the wheel is or will be")
    asked = parser.parse_args()
    if platform.machine() != "x86_64":
        raise SystemExit("virtlab: this makes and tries wheels for aarch64 on x86_64; cure: make manylinux")
    folder = asked.folder and asked.folder.resolve()
    if asked.what == "check":
        check()
    elif asked.what == "test":
        test(folder)
    elif folder is None:
        parser.error("wheel: a folder is missing")
    else:
        wheel(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
