"""`virtlab platforms`: what each platform declares of itself, and whether it works on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from virtlab.cli.machine.features import print_features
from virtlab.cli.options import AsJson
from virtlab.terminal import json_text, say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from virtlab.catalogue import Platform

app = typer.Typer(add_completion=False)


@app.command()
def platforms(
    *,
    as_json: AsJson = False,
    tried: Annotated[bool, typer.Option(help="find out what works on this machine")] = True,
) -> None:
    """The feature table of the platforms that a guest can be on: kind, limits, over-allocation, migration, licence.

    Example: virtlab platforms --json
    """
    from virtlab.catalogue import PLATFORMS

    here: Mapping[str, str | None] = {}
    if tried:
        from virtlab.testbed import Testbed

        here = Testbed().capabilities().platforms
    rows = [_facts(platform, here, tried=tried) for platform in PLATFORMS.values()]
    machine = _machine() if tried else {}
    if as_json:
        content = {"schema": "virtlab.platforms/1", "platforms": rows}
        say(json_text(content | ({"machine": machine} if tried else {}), indent=2))
        return
    print_features(rows, LABELS, _said)
    if tried:
        say(_said_of_machine(machine))


def _facts(platform: Platform, here: Mapping[str, str | None], *, tried: bool) -> dict[str, Any]:
    features = platform.features
    facts: dict[str, Any] = {
        "name": platform.name,
        "meaning": platform.meaning,
        "type": features.type,
        "virtualisation": list(features.virtualisation),
        "own_kernel": features.own_kernel,
        "guests_per_host": platform.guests_max,
        "virtual_switch": platform.vswitch,
        "limits": list(platform.limits),
        "pools": "pool" in platform.limits,
        "overallocation_of_processors": _of_processors(platform),
        "overallocation_of_memory": _of_memory(platform),
        "disks": list(platform.disk),
        "vnic_models": list(platform.vnic_models),
        "migration": features.migration,
        "snapshots": features.snapshots,
        "licence": features.licence,
        "simulator": platform.arms["simulator"],
    }
    if tried:
        facts["here"] = here.get(platform.name, "this testbed does not start it")
    return facts


def _of_processors(platform: Platform) -> str:
    if "pool" not in platform.limits:
        return "not ours to give"
    return "vCPUs in a pool" if "vcpus" in platform.limits else "threads of servers in a pool"


def _of_memory(platform: Platform) -> str:
    if "pool" not in platform.limits:
        return "not ours to give"
    if platform.shares_kernel:
        return "limits in a pool"
    return (
        "balloons in a pool" if "balloon" in platform.limits else "none: its memory is there from the start"
    )


def _machine() -> dict[str, Any]:
    """What this machine has for guests: processors, memory, swap, and whether its kernel tells memory pressure."""
    from virtlab.testbed.machine import has_pressure, memory_bytes, processors, swap_bytes

    return {
        "processors": processors(),
        "memory_bytes": memory_bytes(),
        "swap_bytes": swap_bytes(),
        "memory_pressure": has_pressure(),
    }


def _said_of_machine(machine: Mapping[str, Any]) -> str:
    swap = f"{machine['swap_bytes'] / 2**30:.4g} GiB of swap" if machine["swap_bytes"] else "no swap"
    pressure = "is told" if machine["memory_pressure"] else "is not told"
    return (
        f"this machine: {machine['processors']} processors, {machine['memory_bytes'] / 2**30:.4g} GiB of memory, {swap}; "
        f"memory pressure {pressure} by its kernel"
    )


LABELS = {
    "meaning": "a guest is", "type": "type", "virtualisation": "virtualisation", "own_kernel": "own kernel",
    "guests_per_host": "guests on a host", "virtual_switch": "on a virtual switch", "limits": "limits",
    "pools": "in pools", "overallocation_of_processors": "over-allocation of processors",
    "overallocation_of_memory": "over-allocation of memory", "disks": "disk of its own",
    "vnic_models": "vNIC models", "migration": "migration", "snapshots": "snapshots", "licence": "licence",
    "simulator": "simulated", "here": "on this machine",
}  # fmt: skip


def _said(key: str, value: Any) -> str:
    if key in {"here", "simulator"}:
        return "yes" if value is None else f"no: {value}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(value) or "none"
    if value is None:
        return "any number"
    return str(value)
