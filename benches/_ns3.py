"""ns-3 as a peer of the simulator: the same star, compiled against the wheel of PyPI, where there is one.

`pip install ns3` in the environment that runs the bench, or VIRTLAB_NS3=FOLDER of an installed `ns3` package (the one
that holds `include/` and `lib64/`). It is never a dependency.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("_ns3_star.cc")
MODULES = ("csma", "bridge", "network", "core")
DEVICES = ("csma", "simple")


class AbsentError(Exception):
    """There is no ns-3 here, for this reason."""


def folder() -> Path:
    """The wheel's folder. AbsentError when there is none."""
    if named := os.environ.get("VIRTLAB_NS3"):
        found = Path(named)
    else:
        spec = importlib.util.find_spec("ns")
        if spec is None or spec.origin is None:
            raise AbsentError("ns-3 is not installed: pip install ns3, or VIRTLAB_NS3=FOLDER of its package")
        found = Path(spec.origin).parents[1] / "ns3"
    if not (found / "include" / "ns3" / "bridge-module.h").exists():
        raise AbsentError(f"{found} holds no headers of ns-3")
    if shutil.which("g++") is None:
        raise AbsentError("there is no g++ to compile ns-3's star with")
    return found


def packets_per_cpu_s(hosts: int, seconds: float, tries: int = 3) -> dict[str, int]:
    """Delivered packets per CPU second by devices, the best of some tries. AbsentError when ns-3 cannot be asked."""
    ns3 = folder()
    libraries = ns3 / "lib64"
    with tempfile.TemporaryDirectory(prefix="virtlab-bench-ns3-") as scratch:
        program = Path(scratch) / "star"
        names = [next(libraries.glob(f"libns3*-{module}.so")).name for module in MODULES]
        links = [f"-l:{name}" for name in names]
        command = ["g++", "-std=c++20", "-O2", f"-I{ns3 / 'include'}", str(SOURCE), "-o", str(program)]
        command += [f"-L{libraries}", f"-Wl,-rpath,{libraries}", *links]
        built = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        if built.returncode:
            raise AbsentError(f"ns-3's star cannot be compiled: {built.stderr.strip().splitlines()[-1]}")
        found = {}
        for devices in DEVICES:
            played = [program, str(hosts), str(seconds), devices]
            rates = []
            for _ in range(tries):
                told = subprocess.run(played, capture_output=True, text=True, check=True, timeout=300)
                delivered, cpu_s = told.stdout.split()
                rates.append(int(delivered) / float(cpu_s))
            found[devices] = round(max(rates))
    return found
