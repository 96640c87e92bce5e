"""Capabilities that the tests of a machine must not go without: $VIRTLAB_TEST_REQUIRE names them, between commas.

A test that lacks something is skipped, with the reason, so that the tests run anywhere. Where everything was installed
to be tested, a skip would hide that nothing was: there it is a failure with the same reason. What only another user
could do, or was not asked for, stays a skip.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "VIRTLAB_TEST_REQUIRE"
HERE = Path(__file__).parent / "testbed"
EXCUSED = (
    "needs root",
    "only root can become",
    "only root can hide",
    "is root's alone",
    "as root",
    "on demand",
    "another testbed run holds this machine",
    "processor",
    "have no attributes",  # kernels before 6.6: only a boot changes that
)


@dataclass(frozen=True)
class Capability:
    """What files of tests it is about, by words in their names, and why it is missing here."""

    files: tuple[str, ...]
    why: Callable[[], str | None]
    on_demand: bool = False  # nothing installs it but a command of its own


def _world() -> str | None:
    from virtlab.testbed.build.machine import findings

    found = findings().world
    return found[0] if found is not None else None


def _ovs() -> str | None:
    from virtlab.testbed.vswitches import ovs

    return ovs.missing()


def _oci() -> str | None:
    from virtlab.testbed.kinds import container_runtime as runtime

    return runtime.missing()


def _qemu() -> str | None:
    from virtlab.testbed.platforms.qemu.platform import machines_missing

    return machines_missing()


def _lab() -> str | None:
    from virtlab.testbed.lab.rules import LAB_VM

    return LAB_VM.lacking()


def _ospf() -> str | None:
    from virtlab.testbed.build import routing

    return routing.missing()


def _dask() -> str | None:
    return None if importlib.util.find_spec("distributed") is not None else "Dask is not installed"


def _shells() -> str | None:
    return next((f"{shell} is not here" for shell in ("zsh", "fish") if shutil.which(shell) is None), None)


def _receivers() -> str | None:
    from tests.process.receivers import missing

    return missing()


def _schemas() -> str | None:
    from tests.process.test_junit_schema import missing

    return missing()


def _oracles() -> str | None:
    from tests.parity.test_oracles import LACKING

    return f"{', '.join(LACKING)} are not here" if LACKING else None


def _programs() -> str | None:
    servers = ("redis-server", "redis-benchmark", "nginx", "wrk", "pgbench")
    return next((f"no {name}: apt install" for name in servers if shutil.which(name) is None), None)


def _by_files() -> None:
    """Its tests alone know: any skip of theirs is one of it."""


CAPABILITIES = {
    "world": Capability((), _world),
    "ovs": Capability(("open_vswitch",), _ovs),
    "oci": Capability(("container",), _oci),
    "qemu": Capability(("machines", "appliances"), _qemu),
    "lab": Capability(("lab_vm", "in_the_kernel"), _lab),
    "ssh": Capability(("existing_hosts",), _by_files),
    "libvirt": Capability(("libvirt",), _by_files),
    "ospf": Capability(("ospf",), _ospf),
    "dask": Capability((), _dask),
    "receivers": Capability((), _receivers),
    "shells": Capability((), _shells),
    "schemas": Capability((), _schemas),
    "oracles": Capability((), _oracles, on_demand=True),
    "programs": Capability(("howto_programs",), _programs),
    "stores": Capability(("real_stores",), _by_files),
}


def required() -> tuple[str, ...]:
    """The names in the environment. ValueError when there is one that is none."""
    names = tuple(filter(None, (name.strip() for name in os.environ.get(VARIABLE, "").split(","))))
    unknown = sorted(set(names) - set(CAPABILITIES))
    if unknown:
        raise ValueError(f"{VARIABLE}: there is no {', '.join(unknown)}; there are {', '.join(CAPABILITIES)}")
    return names


def lacking(names: Sequence[str], file: Path, reason: str) -> str | None:
    """Why the skip of a test in a file is a failure where these are required; None where it may be skipped."""
    for name in names:
        capability = CAPABILITIES[name]
        why = capability.why()
        own = any(word in file.stem for word in capability.files) and file.parent == HERE
        if (why is not None and why in reason) or (own and not any(word in reason for word in EXCUSED)):
            return f"{VARIABLE} says that this machine has '{name}', and a test of it was skipped: {reason}"
    return None
