"""Every reason not to simulate a Plan, each with its path and its cure: what is not modelled is refused, never left
out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from virtlab.catalogue import ACTIONS, PLATFORMS, QDISCS, VSWITCHES, WORKLOADS
from virtlab.catalogue.actions import commands_guest
from virtlab.catalogue.declaration import NOT_PLAYED
from virtlab.catalogue.declaration import played as played_by
from virtlab.catalogue.workloads.program import MOST
from virtlab.catalogue.workloads.request_response import NAME as ASKING
from virtlab.plan import Capabilities, Plan, Refusal
from virtlab.plan.blocks import BLOCKS
from virtlab.planner.check import discipline_mistakes, mistakes
from virtlab.planner.guests.stores import refusals_of_stores
from virtlab.planner.topology.layer_two import LayerTwo
from virtlab.simulator.clients import played, refusals_of_clients
from virtlab.simulator.disks import refusals_of_buffers
from virtlab.simulator.lower import lower
from virtlab.simulator.moves import refused as refusals_of_moves
from virtlab.simulator.moves import timed
from virtlab.simulator.nominal import held_by_nominal_rate, with_nominal_rates
from virtlab.simulator.paths import wayless
from virtlab.simulator.pools import refusals_of_processors, refusals_of_turns, supplied
from virtlab.simulator.profile import IDEAL_PROFILE, Profile, costs
from virtlab.simulator.programs import slept_ns
from virtlab.simulator.services import as_simulated, refusals_of_services
from virtlab.simulator.stores import refusals_of_transfers
from virtlab.units import show_count

ARM = "simulator"


def refusals(plan: Plan, profile: Profile = IDEAL_PROFILE) -> list[Refusal]:
    """Every refusal of a Plan; empty when it can be played on a platform of that profile."""
    found = [*discipline_mistakes(plan, ARM), *mistakes(plan, ARM, LayerTwo(plan))]
    for check in (
        _world,
        _guests,
        _commands,
        refusals_of_services,
        refusals_of_clients,
        refusals_of_stores,
        refusals_of_transfers,
        refusals_of_buffers,
        refusals_of_processors,
        refusals_of_moves,
    ):
        found += check(plan)
    found += refusals_of_turns(plan, profile.value, profile.name)
    if found:
        return found
    plan = played(plan)
    if found := list(_samples(plan)):
        return found
    lowered = lower(plan, plan.seed)
    return list(_core(plan, profile, lowered)) or list(wayless(plan, lowered))


def memory_bytes() -> int:
    """The memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _samples(plan: Plan) -> Iterator[Refusal]:
    """A simulated run holds its samples in memory until it ends, once as they come and once as columns."""
    for name, role in plan.roles.items():
        declaration = WORKLOADS[role.workload]
        values = declaration.complete(as_simulated(plan, role))
        length_ns = min(declaration.duration_ns(values) or plan.limits.run_ns, plan.limits.run_ns)
        rows = declaration.rows(values, length_ns)
        if declared_most := values.get(MOST) if role.workload == ASKING else None:
            rows = {schema: min(count, declared_most) for schema, count in rows.items()}
        held = sum(2 * 8 * len(BLOCKS[schema].columns) * count for schema, count in rows.items())
        if held > memory_bytes():
            reason = f"{show_count(max(rows.values()))} samples take about {held >> 30} GiB of memory in a simulated run"
            cure = "take fewer or shorter, and more runs of them (repeat)"
            yield Refusal(f"roles.{name}", f"{reason}, more than this machine has", cure)


def _core(plan: Plan, profile: Profile, lowered: Mapping[str, Any]) -> Iterator[Refusal]:
    """What the core itself finds: sizes, parameters, disciplines."""
    from virtlab._native import Simulation

    try:
        held = with_nominal_rates(lowered, held_by_nominal_rate(plan, profile))
        held = timed(supplied(held, plan, profile.value), plan, profile.value)
        Simulation(json.dumps({**held, "costs": costs(profile, plan, plan.seed)}))
    except ValueError as error:
        for path, reason, cure in error.args[0]:
            yield Refusal(path, reason, cure)


def _world(plan: Plan) -> Iterator[Refusal]:
    world = plan.world
    kinds = played_by(VSWITCHES, ARM)
    for name, vswitch in world.vswitches.items():
        if vswitch.kind not in kinds:
            reason = f"'{vswitch.kind}' is not modelled"
            yield Refusal(f"vswitches.{name}.kind", reason, f"write {' or '.join(kinds)}")


def _guests(plan: Plan) -> Iterator[Refusal]:
    platforms = played_by(PLATFORMS, ARM)  # what each costs, a profile says
    for name, guest in plan.world.guests.items():
        if guest.platform not in platforms:
            platform = PLATFORMS.get(guest.platform)
            why = "there is no such platform" if platform is None else platform.arms.get(ARM, NOT_PLAYED)
            reason = f"'{guest.platform}' guests are not modelled: {why}"
            yield Refusal(f"guests.{name}.platform", reason, f"write 'platform: {' | '.join(platforms)}'")


def _commands(plan: Plan) -> Iterator[Refusal]:
    for action in plan.timeline:
        if commands_guest(action.do) and action.timeout_ns is None and slept_ns(action) > plan.limits.run_ns:
            reason = f"it sleeps longer than a run may take, {plan.limits.run_ns / 1e9:g} s"
            cure = "let it sleep shorter, or raise the limit of a run"
            yield Refusal(f"timeline.{action.id}.argv", reason, cure)


def capabilities(fingerprint: Mapping[str, str]) -> Capabilities:
    """What is modelled, with the reason for what is not."""
    return Capabilities(
        backend="simulator",
        platforms=dict.fromkeys(played_by(PLATFORMS, ARM)),
        vswitches=dict.fromkeys(played_by(VSWITCHES, ARM)),
        qdiscs={f"{kind}/virtlab": None for kind in played_by(QDISCS, ARM)},
        workloads=dict.fromkeys(played_by(WORKLOADS, ARM)),
        actions={name: entry.arms.get(ARM, NOT_PLAYED) for name, entry in ACTIONS.items()},
        links={"simulated": None},
        parallel_sessions=1024,
        fingerprint=fingerprint,
    )
