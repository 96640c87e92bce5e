"""A simulated world that plays trials: `Session` of the simulator."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from types import TracebackType
from typing import Any, Self

from virtlab.catalogue.actions import restarts_guest
from virtlab.catalogue.collected import COUNTERS, Counters
from virtlab.catalogue.qdiscs import DEFAULT_QDISC
from virtlab.errors import ExperimentError, MachineError
from virtlab.lazy import np
from virtlab.plan import (
    Access,
    Event,
    Mark,
    Observer,
    Outcome,
    Plan,
    Realised,
    RealisedObject,
    Sink,
    Trial,
)
from virtlab.plan.model import plan_of
from virtlab.planner.queues.pushback import BURST_FRAMES, UPLINK_PACKETS, shared_queues
from virtlab.simulator.clients import Programs, played
from virtlab.simulator.disks import counted, sampled_disks
from virtlab.simulator.lower import as_played, licence, lower, queue, reseeded, vnic_path
from virtlab.simulator.moves import switch_overs, timed
from virtlab.simulator.nominal import assumed, held_by_nominal_rate, with_nominal_rates
from virtlab.simulator.once import Remembered, structure
from virtlab.simulator.ospf import REALISED, converged
from virtlab.simulator.pools import pools, sharing_processors, supplied
from virtlab.simulator.profile import IDEAL_PROFILE, Profile, costs
from virtlab.simulator.usage import sampled
from virtlab.simulator.without_effect import by_path, sentences, without_effect, without_passages

EVENTS_AT_ONCE = 200_000  # between two looks at the observer
BLOCK_ROWS = 100_000
RESET_HOW = "its vNICs are down for as long as asked; coming up takes no time"
NAMES = frozenset({"mark", "entity", "counter", "metric"})


class SimulatorSession:
    """A context manager; there is nothing to leave behind."""

    realised: Realised

    def __init__(self, plan: Plan, observe: Observer, profile: Profile = IDEAL_PROFILE) -> None:
        declared = ordered_once(plan)
        self.plan = played(declared)
        self._programs = Programs(declared)
        self.profile = profile
        self._observe = observe
        self.realised = realised_once(plan, profile)

    def run(self, trial: Trial, sink: Sink) -> Outcome:
        """Plays the timeline once. ExperimentError when a parameter is not tunable, MachineError when one cannot be."""
        from virtlab._native import Simulation

        overrides = self._overrides(trial)
        try:
            plan = trial.plan(self.plan)
            once = plan is self.plan and not overrides
            lowered = lowered_once(plan, trial.seed) if once else lower(plan, trial.seed, overrides)
            held = held_by_nominal_rate(plan, self.profile, overrides)
            lowered = with_nominal_rates(as_played(lowered, plan, self.profile), held)
            lowered = timed(supplied(lowered, plan, self.profile.value), plan, self.profile.value)
            lowered["costs"] = costs(self.profile, self.plan, trial.seed)
            world = Simulation(json.dumps(lowered))
        except ValueError as error:
            path, reason, cure = error.args[0][0]
            raise MachineError(path, reason, cure) from error
        limit_ns = max(self.plan.limits.run_ns, 1)
        while not self._observe.cancelled():
            over = world.play(EVENTS_AT_ONCE)
            self._observe.progress("simulate", 1.0 if over else min(world.now_ns / limit_ns, 1.0))
            if over:
                return self._keep(world.outcome(), sink, plan)
        return Outcome("cancelled")

    def _overrides(self, trial: Trial) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for key, value in trial.overrides.items():
            name, _, parameter = key.partition(".")
            if name not in self.plan.roles or parameter not in self.plan.roles[name].tunable:
                cure = f"list {parameter} in roles.{name}.tunable"
                raise ExperimentError(f"trial.{key}", "is not tunable in this Plan", cure)
            found.setdefault(name, {})[parameter] = value
        return found

    def _keep(self, outcome: Mapping[str, Any], sink: Sink, plan: Plan) -> Outcome:
        assumptions = [f"roles.{role}: {what}" for role, what in assumed(self.plan, self.profile).items()]
        changing_nothing = sentences(without_effect(self.plan, self.profile))
        full = [
            f"links.{line}: {frames} frames of messages came when more waited than the queue takes; packets would have "
            "been lost there, and 'transfers: packets' says what that does"
            for line, frames in outcome["over_limits"]
        ]
        for text in (
            *full,
            *unsampled(self.plan),
            *self._programs.missing(),
            *changing_nothing,
            *assumptions,
        ):
            sink.event(Event(0, "log.info", {"text": text}))
        resets = {f"{action.id}.started": action for action in plan.timeline if restarts_guest(action.do)}
        told = switch_overs(plan, outcome["happened"])
        for t_ns, what in outcome["happened"]:
            sink.event(Event(t_ns, what, told.get(what, {})))
            if (action := resets.get(what)) is not None:
                sink.event(Event(t_ns, f"{action.id}.how", {"guest": action.guest, "text": RESET_HOW}))
        answers: dict[str, Mapping[str, Any]] = {}
        for stream, schema, columns in outcome["tables"]:
            if stream in self._programs:
                answers[stream] = columns
                continue
            arrays = {
                name: np.array(column, dtype=object) if name in NAMES else column
                for name, column in columns.items()
            }
            rows = len(next(iter(arrays.values())))
            for low in range(0, rows, BLOCK_ROWS):
                part = {name: column[low : low + BLOCK_ROWS] for name, column in arrays.items()}
                sink.block(stream, schema, part)
        for name, values in self._programs.blocks(outcome["happened"], answers):
            sink.block(name, "value/1", values)
        reasons = (*outcome["reasons"], *self._programs.late(outcome["happened"]))
        return Outcome(
            status="failed" if reasons else "ok",
            reasons=reasons,
            marks={name: Mark(t_ns) for name, t_ns in outcome["marks"].items()},
            windows={name: (low, high) for name, (low, high) in outcome["windows"].items()},
            clocks={"run": "virtual", "bound_ns": 0, "events": outcome["events"], "world": self._world()},
            censored=tuple(outcome["censored"]),
        )

    def _world(self) -> str:
        """Digest of what is played, seeds apart: equal ones are one and the same world, whatever their levels are
        called.
        """
        return world_once(self.plan, self.profile)

    def describe(self) -> Access:
        """Addresses only; a simulated guest has no shell."""
        return Access(
            {
                name: tuple(text for vnic in guest.vnics.values() for text in vnic.ip)
                for name, guest in self.plan.world.guests.items()
            }
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._observe.progress("done", 1.0)


def unsampled(plan: Plan) -> list[str]:
    """What the Plan wants collected and an ideal world does not have: missing, not zero."""
    has = sampled(plan) | sampled_disks(plan)
    found = [
        f"series {each.source}: an ideal platform has none to sample"
        for each in plan.collect.series
        if each.source not in has
    ]
    found += [
        f"counters {group}: an ideal platform has none"
        for group in plan.collect.counters
        if not _counts(plan, COUNTERS.get(group))
    ]
    return found


def _counts(plan: Plan, group: Counters | None) -> bool:
    return group is not None and bool(group.simulated) and not (group.of_disks and not counted(plan))


def realise(plan: Plan, profile: Profile = IDEAL_PROFILE) -> Realised:
    """The world as it is simulated: links by 'simulated', all else by 'simulator', with the profile."""
    world = plan.world
    named = {"profile": profile.identity}
    found = converged(plan)
    nothing = by_path(without_effect(plan, profile))

    def unheeded(path: str) -> dict[str, Any]:
        return {"without_effect": nothing[path]} if path in nothing else {}

    links_by = "simulated" if profile.is_ideal else f"simulated with {profile.identity}"
    objects: dict[str, RealisedObject] = {}
    for name, guest in world.guests.items():
        intended = guest.model_dump(mode="json", exclude={"vnics"})
        made: dict[str, Any] = named | unheeded(f"guests.{name}")
        if name in found:
            made |= {"routing": REALISED, "routes": [route.model_dump(mode="json") for route in found[name]]}
        objects[f"guests.{name}"] = RealisedObject(intended, made, made, "simulator")
        for vnic_name, vnic in guest.vnics.items():
            applied: dict[str, Any] = dict(named)
            if vnic.pushback_bit_per_s is not None:
                applied |= {"pushback_bit_per_s": vnic.pushback_bit_per_s, "burst_frames": BURST_FRAMES}
            if (bucket := licence(guest, vnic)) is not None:
                applied["licence"] = bucket
            values = vnic.model_dump(mode="json")
            objects[vnic_path(name, vnic_name)] = RealisedObject(values, applied, applied, "simulator")
    given = supplied(pools(plan), plan, profile.value).get("pools", [])
    for each, one in zip(sharing_processors(plan), given, strict=True):
        turns = {key: value for key, value in one.get("slices", {}).items() if key != "shares"}
        supply = (
            {
                key: one[key]
                for key in ("processors", "idle", "contention", "spin_ns", "completion_ns")
                if key in one
            }
            | turns
            | unheeded(each.path)
        )
        objects[each.path] = RealisedObject({"cpus": each.cpus}, supply, supply, "simulator")
    for name, vswitch in world.vswitches.items():
        values = vswitch.model_dump(mode="json")
        bridged = named | unheeded(f"vswitches.{name}")
        objects[f"vswitches.{name}"] = RealisedObject(values, bridged, bridged, "simulator")
    for name, switch in world.switches.items():
        values = {"processing_ns": switch.processing_ns}
        objects[f"switches.{name}"] = RealisedObject(
            switch.model_dump(mode="json"), values, values, "simulator"
        )
    for name, link in world.links.items():
        values = {
            "rate_bit_per_s": link.rate_bit_per_s,
            "propagation_ns": link.propagation_ns,
            "queue": {"ab": queue(link.queue.ab), "ba": queue(link.queue.ba)},
        }
        objects[f"links.{name}"] = RealisedObject(link.model_dump(mode="json"), values, values, links_by)
    for shared in shared_queues(plan):
        values = {
            "kind": DEFAULT_QDISC,
            "limit_packets": UPLINK_PACKETS,
            "rate_bit_per_s": shared.rate_bit_per_s,
            "burst_frames": BURST_FRAMES,
        }
        intended = {"pushback": "uplink", "host": shared.host, "link": shared.link}
        objects[shared.path] = RealisedObject(intended, values, values, "simulator")
    for name, routes in world.routes.items():
        values = {"routes": [route.model_dump(mode="json") for route in routes]}
        objects[f"routes.{name}"] = RealisedObject(values, values, values, "simulator")
    for role, what in assumed(plan, profile).items():
        path = f"roles.{role}"
        made = {"assumed": what} | unheeded(path)
        objects[path] = RealisedObject({"what": "as fast as possible"}, made, made, "simulator")
    for path in (path for path in nothing if path not in objects):
        intended = {"what": list(nothing[path])}
        objects[path] = RealisedObject(intended, unheeded(path), unheeded(path), "simulator")
    return Realised(objects, {"virtlab": own_version(), **named})


@cache
def own_version() -> str:
    """The version of virtlab that is installed."""
    return version("virtlab")


_realised: Remembered[Realised] = Remembered()
_lowered: Remembered[dict[str, Any]] = Remembered()
_worlds: Remembered[str] = Remembered()


def ordered_once(plan: Plan) -> Plan:
    """The Plan with its maps by name: the order in which they came changes nothing."""
    return plan_of(structure(plan), plan.repetition, plan.seed)


def realised_once(plan: Plan, profile: Profile) -> Realised:
    """`realise`, once for all runs of a world."""
    return _realised.of((structure(plan), profile.identity), lambda: realise(plan, profile))


def world_once(plan: Plan, profile: Profile) -> str:
    """Digest of a world as the core plays it, without its seeds; once for all its runs."""

    def digest() -> str:
        paid = costs(profile, plan, 0)
        lowered = as_played(lowered_once(plan, 0), plan, profile)
        lowered = with_nominal_rates(lowered, held_by_nominal_rate(plan, profile))
        lowered = timed(supplied(lowered, plan, profile.value), plan, profile.value)
        played = {**(without_passages(lowered) if paid is None else lowered), "costs": paid}
        return hashlib.sha256(json.dumps(played, sort_keys=True).encode()).hexdigest()[:16]

    return _worlds.of((structure(plan), profile.identity), digest)


def lowered_once(plan: Plan, seed: int) -> dict[str, Any]:
    """`lower`, once for all runs of a world; only seeds differ."""
    return reseeded(_lowered.of(structure(plan), lambda: lower(plan, seed)), plan, seed)
