"""Do the agent and the extension module compile for aarch64? `python -m tools.arm64`, on an x86_64 machine.

Characters of C are signed on one processor and not on the other, and structures of the kernel differ: what compiles
here may not compile there. Nothing is linked or run. The compiler needs the standard library for aarch64: it is taken
from the toolchain in use if that has it (`rustup target add aarch64-unknown-linux-gnu`), or from Debian's packages. These
are unpacked in `target/aarch64/` and not installed, with the compiler that they belong to.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = "aarch64-unknown-linux-gnu"
BUILT = ROOT / "target" / "aarch64"
PROGRAMS = ("virtlab-agent", "virtlab-py")
PACKAGES = ("rustc-web:amd64", "libstd-rust-web-dev:amd64", "libstd-rust-web-dev:arm64")


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
    """Debian's compiler and its libraries for both processors, by an apt that has lists of its own."""
    if shutil.which("apt-get") is None:
        raise SystemExit(f"virtlab: no standard library for {TARGET}; cure: rustup target add {TARGET}")
    with tempfile.TemporaryDirectory(prefix="virtlab-arm64-") as folder:
        own = Path(folder)
        for name in ("state/lists/partial", "cache/archives/partial", "debs", "root"):
            (own / name).mkdir(parents=True)
        (own / "status").touch()
        (own / "apt.conf").write_text(
            'APT::Architectures "amd64,arm64"; APT::Sandbox::User "";\n'
            f'Dir::State "{own}/state"; Dir::Cache "{own}/cache"; Dir::State::status "{own}/status";\n'
        )
        environment = {**os.environ, "APT_CONFIG": str(own / "apt.conf")}

        def apt(*command: str) -> str:
            return subprocess.run(
                command, cwd=own / "debs", env=environment, check=True, stdout=subprocess.PIPE, text=True
            ).stdout

        apt("apt-get", "update", "-qq")
        # The names of the libraries beneath hold versions: they are asked for.
        libraries = needed_by(apt, "libstd-rust-web-", *PACKAGES[1:])
        compilers = needed_by(apt, "libllvm", *(name for name in libraries if ":" not in name))
        apt("apt-get", "download", "-qq", *PACKAGES, *libraries, *compilers)
        for package in sorted((own / "debs").glob("*.deb")):
            subprocess.run(["dpkg", "-x", package, own / "root"], check=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(own / "root", place)


def needed_by(apt: Callable[..., str], begin: str, *packages: str) -> list[str]:
    """Packages that others depend on, by the beginning of their names."""
    told = apt("apt-cache", "depends", "--important", *packages)
    return sorted(set(re.findall(rf"Depends: ({begin}\S+)", told)) - set(packages))


def main() -> int:
    """0 when both compile; the compiler's errors otherwise."""
    command = ["cargo", "check", "--locked", "--quiet", "--target", TARGET]
    command += [f"--package={name}" for name in PROGRAMS]
    environment = {**os.environ, **compiler(), "CARGO_TARGET_DIR": str(BUILT)}
    code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    if code == 0:
        print(f"{' and '.join(PROGRAMS)} compile for {TARGET}")
    return code


if __name__ == "__main__":
    sys.exit(main())
