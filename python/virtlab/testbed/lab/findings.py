"""What the laboratory machine's kernel has: asked of the kernel inside, by trying, and kept for that image.

A kernel package, our agent and an accelerator decide the answer, so it is kept under a digest of the three; a new agent
or package asks again, and so does a version of virtlab that loads or asks for more.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from virtlab.agents.requests.leader import Apply, TryQdiscs
from virtlab.catalogue.vswitches.ovs_kernel import OVS_KERNEL
from virtlab.catalogue.vswitches.ovs_netdev import OVS_NETDEV
from virtlab.errors import MachineError
from virtlab.testbed.build.machine import KERNEL_QDISCS, workloads_of
from virtlab.testbed.image import Image, folder
from virtlab.testbed.image.initramfs import programs_of_machines
from virtlab.testbed.kinds.findings import Findings
from virtlab.testbed.lab.queries import output_of
from virtlab.testbed.lab.vm import LabMachine
from virtlab.testbed.steps.operations import NamespaceAdd
from virtlab.testbed.vswitches.ovs import NO_MODULE, PROGRAMS

TRIAL = "trial:lab"
ASKED = 3  # what is loaded and asked; with another number all images are asked again
AUTOMATIC_LINK = "kernel"  # netem where it can queue so, else token buckets: there is no soft switch inside


def stored(image: Image, accelerator: str) -> Findings | None:
    """What was found of this image before; None when nothing was."""
    try:
        said = json.loads(_place(image, accelerator).read_text(encoding="utf-8"))
        if set(said["qdiscs"]) != set(KERNEL_QDISCS):
            return None
        said["switch_qdiscs"] = tuple(said["switch_qdiscs"])
        if said["probe_workloads"] is not None:
            said["probe_workloads"] = tuple(said["probe_workloads"])
        if said.get("small_system") is not None:
            said["small_system"] = tuple(said["small_system"])
        return Findings(**said)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def find(machine: LabMachine, image: Image) -> Findings:
    """Tries in a world of its own, and keeps what came of it. MachineError when the kernel is another than was
    booted.
    """
    world = machine.world()
    try:
        control = machine.control
        control.call(Apply([NamespaceAdd(TRIAL).json()]))
        kernel = ask(machine, ["uname", "-r"]).strip()
        if kernel != machine.facts.kernel:
            what = f"runs Linux {kernel}, not {machine.facts.kernel} as its package says"
            raise MachineError(machine.where, what, "build its image again: `virtlab image build`")
        network = ask(machine, ["ls", "/proc/sys/net"]).split()
        inside = ask(machine, ["ls", "/bin", "/sys/module"]).split()
        tried = control.call(TryQdiscs(list(KERNEL_QDISCS)), timeout_s=120.0)["kinds"]
    finally:
        world.end()
    found = Findings(
        world=None,
        qdiscs=dict(tried),
        root=True,
        has_ipv6="ipv6" in network,
        filters_bridges="bridge" in network,
        switch_qdiscs=(),
        probe_workloads=workloads_of(world.hello),
        small_system=programs_of_machines(),
        open_vswitch=_open_vswitch(inside),
        automatic_link=AUTOMATIC_LINK,
        xen=machine.has_xen,
    )
    place = _place(image, machine.facts.accelerator)
    new = place.with_suffix(f".{os.getpid()}")
    with contextlib.suppress(OSError):
        new.write_text(json.dumps(asdict(found)), encoding="utf-8")
        new.replace(place)
        for old in place.parent.glob("lab-*.json"):
            if old != place and old.stat().st_mtime < place.stat().st_mtime - 86_400:
                old.unlink(missing_ok=True)
    return found


def _open_vswitch(inside: Sequence[str]) -> dict[str, str | None]:
    """Why Open vSwitch with each datapath cannot run inside, from names of programs and modules there."""
    lacking = [program for program in PROGRAMS if program not in inside]
    absent = (
        f"the laboratory machine has no {', '.join(lacking)}: Open vSwitch is taken along from here"
        if lacking
        else None
    )
    return {
        OVS_KERNEL.name: absent or (None if "openvswitch" in inside else NO_MODULE),
        OVS_NETDEV.name: absent or (None if "tun" in inside else "the kernel inside has no tun loaded"),
    }


def ask(machine: LabMachine, argv: list[str]) -> str:
    """What a command writes inside. MachineError when it fails."""
    return output_of(machine.control, TRIAL, argv)


def _place(image: Image, accelerator: str) -> Path:
    return folder() / f"lab-{image.initramfs.stem}-{accelerator}-{ASKED}.json"
