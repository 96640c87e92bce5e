"""Why an appliance cannot be used here, found before anything is built."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from virtlab.catalogue.platforms.appliance import APPLIANCE
from virtlab.errors import MachineError
from virtlab.plan import Guest, Plan, Refusal
from virtlab.testbed.kinds.platform import GuestPlatform, Running, Surroundings
from virtlab.testbed.kinds.tap import tun_missing
from virtlab.testbed.platforms.appliance import iso, recipe
from virtlab.testbed.platforms.qemu.acceleration import own_bytes
from virtlab.testbed.platforms.qemu.command import PROGRAM

if TYPE_CHECKING:
    from virtlab.testbed.kinds.findings import Findings


def appliances_missing() -> str | None:
    """Why no appliance can be started here; None when one can."""
    if shutil.which(PROGRAM) is None:
        return f"{PROGRAM} is missing"
    return tun_missing()


def appliance_refusals(path: str, name: str, plan: Plan, findings: Findings) -> Iterator[Refusal]:
    """Every refusal of one guest."""
    del findings
    guest = plan.world.guests[name]
    why = appliances_missing()
    if why is not None:
        yield Refusal(f"{path}.platform", why, "install qemu-system-x86; as root: chmod 0666 /dev/net/tun")
    if guest.image is None:
        yield Refusal(f"{path}.image", "no recipe is named", "write 'image: NAME'")
    else:
        try:
            wanted = recipe.load(guest.image)
            for text in [*(step.send for step in wanted.steps), *wanted.iso.values()]:
                recipe.filled(text, wanted, plan, name)
            if wanted.iso and iso.program_here() is None:
                yield Refusal(f"{path}.image", "nothing here writes ISO images", "install xorriso")
        except MachineError as error:
            yield Refusal(f"{path}.image", f"{error.where}: {error.what}", error.cure or "mend the recipe")
    if guest.bridges or guest.routing == "ospf" or guest.pin != "none" or guest.licence_bit_per_s is not None:
        reason = "how an appliance forwards is its own matter"
        yield Refusal(path, reason, "write no 'layer2', 'ospf', 'pin' or 'licence'; put it into its recipe")
    for own, vnic in guest.vnics.items():
        if vnic.vswitch is None:
            yield Refusal(
                f"{path}.vnics.{own}",
                "an appliance stands on virtual switches",
                "write 'vswitch: linux_bridge'",
            )
        if vnic.model is not None and vnic.model not in APPLIANCE.vnic_models:
            yield Refusal(
                f"{path}.vnics.{own}.model",
                f"there is no device '{vnic.model}'",
                "write virtio, e1000 or e1000e",
            )


def _running(world: Surroundings, names: Sequence[str]) -> Running:
    from virtlab.testbed.platforms.appliance.appliances import Appliances

    return Appliances(world.control, world.plan, world.lowered, names, world.tasks)


def memory_of(guest: Guest) -> int:
    """What an appliance takes: what the file says, or its recipe (one that cannot be read is refused anyhow); QEMU's
    own.
    """
    if guest.memory_bytes is not None or guest.image is None:
        return (guest.memory_bytes or recipe.MEMORY_BYTES) + own_bytes()
    try:
        return recipe.load(guest.image).memory_bytes + own_bytes()
    except MachineError:
        return recipe.MEMORY_BYTES + own_bytes()


IMPLEMENTATION = GuestPlatform(
    lambda _: appliances_missing(), appliance_refusals, _running, memory_of=memory_of
)
