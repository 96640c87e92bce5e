"""Platform profiles: what a platform costs, as a small TOML file that `virtlab calibrate` fits.

What forwarding costs calibration fits, too, but not when a guest falls asleep (`doze_ns`, `rouse_ns`): that a
profile is given. Frames wait for their guest's forwarding in a backlog of 1000, Linux's default, and what finds it
full is dropped; so forwarding costs make a capacity. Guests forward one frame at a time each, on as many processors
as there are.

A parameter has a value, an interval, and whether the measurements could separate it from the others; its unit is in its
name (`_ns` per packet, call or message, `_byte_ns` per byte, `_ratio` a share of a processor or of its speed). A table
of wake-ups or of lateness is a list of quantiles. The `ideal` profile is built in and costs nothing. A profile is known
by its name and the digest of its content.

The parameters, and where a world pays them:

| parameter | paid |
|---|---|
| `platform.KIND.MODEL.*` | as `platform.KIND.*`, by guests whose vNICs are such devices (`e1000`; virtio may have none) |
| `platform.KIND.send_ns` | by every send call of a process in such a guest |
| `platform.KIND.message_ns` | by a process for every message that has come |
| `platform.KIND.crossing_ns`, `platform.KIND.crossing_byte_ns` | by a frame at every crossing of a guest's vNIC |
| `vswitch.KIND.packet_ns`, `vswitch.KIND.byte_ns` | by a frame at every crossing of a virtual switch |
| `qdisc.htb.packet_ns` | by a frame that a vNIC with pushback, or its host's shared queue, lets go |
| `flood.WORKLOAD.packet_ns`, `flood.WORKLOAD.byte_ns` | by every send call right after another one, instead of `send_ns` |
| `links.departure_ns` | by a frame that leaves whatever realises links and physical switches; inner hops are model time |
| `links.frame_ns`, `links.frame_byte_ns` | least time between two frames that leave it at one port |
| `qdisc.KIND.frame_ns` | as much more with a discipline of virtlab's other than FIFO at the links |
| `platform.KIND.forward_ns`, `platform.KIND.forward_byte_ns` | by a packet that a guest forwards at layer 3 |
| `platform.KIND.bridge_ns`, `platform.KIND.bridge_byte_ns` | by a frame that a guest forwards at layer 2 |
| `platform.KIND.rouse_ns` | by a frame that comes to a forwarding guest after `doze_ns` without any: it sleeps |
| `platform.KIND.steer_ns` | by a frame that comes to a guest with `pin` while it has nothing to do: its processor is woken |
| `vswitch.KIND.upcall_ns` | by a frame for which the switch's datapath has no entry: its rules are asked |
| `flow.first_packet_ns` | by the first packet of a flow, beyond the others |
| `platform.KIND.idle_vcpu_ratio` | by a pool: the part of a processor that each vCPU of such a guest takes |
| `platform.KIND.request_ns` | by a server that works in such a guest, for each request: work beyond its demand |
| `pool.contention_ratio` | by vCPUs of a pool: the part of their speed that they lose where they are many more (`pools`) |
| `pool.slice_ns` | how long a vCPU of a pool runs while others wait; absent: all work at once (`pools`) |
| `pool.switch_ns` | by a processor of a pool that takes another vCPU than its last |
| `pool.credit_ns` | how often turns by credit have it handed out; absent: fair shares |
| `pool.grouping_ratio` | 0: vCPUs that take turns have alike; 1: guests have alike |
| `pool.spin_ns` | how long a thread of a server in a pool spins for a lock, on its vCPU, before it sleeps |
| `pool.completion_ns` | by a vCPU of a pool for each request that its guest's disk has done, before a server knows |
| `busy.crossing_ns` | as much more by a frame at a crossing of a vNIC while every processor has work |

While every processor has work a process wakes by the table `wakeup.busy` where there is one, whatever its guest's own.
"""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from virtlab.catalogue import PLATFORMS, VSWITCHES, WORKLOADS
from virtlab.documents import read_text
from virtlab.errors import ExperimentError
from virtlab.plan import Guest, Plan, Vnic
from virtlab.planner.queues.pushback import sharing
from virtlab.settings import load_settings
from virtlab.simulator.shares import pinned, quota, together, upcall_costs
from virtlab.simulator.stay import stay_byte_ns

SCHEMA = "virtlab.profile/1"
IDEAL = "ideal"
LOCAL = "local"
TABLES = (
    "wakeup.sleep", "wakeup.poll", "wakeup.sleep.links", "wakeup.poll.links", "links.lateness", "links.notice",
    "wakeup.busy",
)  # fmt: skip
BUSY_CROSSING, BUSY_WAKEUP = "busy.crossing_ns", "wakeup.busy"
FLOODS = tuple(sorted(name for name, workload in WORKLOADS.items() if workload.pace is not None))
PICOSECONDS = 1000
DEFAULT_MODEL = "virtio"  # of a guest with a kernel of its own
BACKLOG_PACKETS = 1000  # net.core.netdev_max_backlog


@dataclass(frozen=True, slots=True)
class Parameter:
    """A cost in ns; `low` and `high` are its 95 % interval; `identified` False: the data could not separate it."""

    value: float
    low: float | None = None
    high: float | None = None
    identified: bool = True
    why: str = ""


@dataclass(frozen=True, slots=True)
class Quantiles:
    """A distribution in ns, linear between its quantiles. `low` and `high` are the 95 % interval of its median."""

    probability: tuple[float, ...]
    ns: tuple[float, ...]
    low: float | None = None
    high: float | None = None

    def shifted(self, by_ns: float) -> Quantiles:
        """The same quantiles later, or earlier, but nothing before 0."""
        return Quantiles(self.probability, tuple(max(0.0, ns + by_ns) for ns in self.ns))


@dataclass(frozen=True)
class Profile:
    """Costs of a platform. `fit` holds the residuals, `provenance` where and when it was measured.

    `draws`: of some costs, how far each of several resamples of the measurements puts them from their values, in
    ns. One place in all of these lists is one resample: costs that are known as a sum only move against each other
    there. Of a table it is the median that moves.
    """

    name: str
    processors: int = 1
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    tables: Mapping[str, Quantiles] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    fit: Mapping[str, Any] = field(default_factory=dict)
    draws: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def is_ideal(self) -> bool:
        """Whether nothing costs anything."""
        return not self.parameters and not self.tables

    @property
    def identity(self) -> str:
        """`ideal`, or the name and a digest of what it costs: results of two are never pooled."""
        if self.is_ideal:
            return IDEAL
        content = {
            "processors": self.processors,
            "parameters": {name: f"{each.value:.6g}" for name, each in self.parameters.items()},
            "tables": {
                name: [f"{number:.6g}" for number in (*each.probability, *each.ns)]
                for name, each in self.tables.items()
            },
        }
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
        return f"{self.name}-{digest[:12]}"

    def value(self, name: str) -> float:
        """A parameter's value; 0 where the profile has none."""
        found = self.parameters.get(name)
        return 0.0 if found is None else found.value

    def text(self) -> str:
        """The file."""
        lines = [f'schema = "{SCHEMA}"', f"name = {_toml(self.name)}", f"processors = {self.processors}"]
        for title, pairs in (("provenance", self.provenance), ("fit", self.fit)):
            lines += ["", f"[{title}]", *(f"{_key(key)} = {_toml(value)}" for key, value in pairs.items())]
        for name, one in self.parameters.items():
            lines += ["", f"[parameters.{json.dumps(name)}]", f"value = {one.value:.6g}"]
            lines += [
                f"{end} = {number:.6g}"
                for end in ("low", "high")
                if (number := getattr(one, end)) is not None
            ]
            lines.append(f"identified = {_toml(one.identified)}")
            lines += [f"why = {_toml(one.why)}"] if one.why else []
        for name, table in self.tables.items():
            lines += ["", f"[tables.{json.dumps(name)}]"]
            lines.append(f"probability = {_toml([float(f'{value:.6g}') for value in table.probability])}")
            lines.append(f"ns = {_toml([float(f'{value:.6g}') for value in table.ns])}")
            lines += [
                f"{end} = {number:.6g}"
                for end in ("low", "high")
                if (number := getattr(table, end)) is not None
            ]
        if self.draws:
            lines += ["", "[draws]"]
            for name, moved in self.draws.items():
                lines.append(f"{json.dumps(name)} = {_toml([float(f'{value:.6g}') for value in moved])}")
        return "\n".join(lines) + "\n"


IDEAL_PROFILE = Profile(IDEAL)


def _key(key: str) -> str:
    return key if key.replace("_", "").isalnum() and key.isascii() else json.dumps(key)


def _toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def local_file() -> Path:
    """Where `virtlab calibrate` puts the profile of this machine."""
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path("~/.config").expanduser())
    return Path(home) / "virtlab" / "local.profile.toml"


def load_profile(name: str) -> Profile:
    """`ideal`, `local` (what `virtlab calibrate` wrote on this machine) or a path. ExperimentError for anything
    else.
    """
    if name == IDEAL:
        return IDEAL_PROFILE
    path = local_file() if name == LOCAL else Path(name)
    try:
        values = tomllib.loads(read_text(path))
    except ExperimentError:
        if path.exists():
            raise
        cure = "run `virtlab calibrate`, or write 'ideal' or the path of a profile"
        what = f"there is no profile '{name}'" + (f" ({path})" if name == LOCAL else "")
        raise ExperimentError("--profile", what, cure) from None
    except (ValueError, RecursionError) as error:
        raise ExperimentError(str(path), f"is not a profile ({error})", "calibrate again") from None
    try:
        profile = _parsed(values)
        # What `virtlab calibrate` writes has a design; until hosts had a choice it did not say who queued.
        is_older = "design" in profile.provenance and "pushback" not in profile.provenance
    except (KeyError, TypeError, ValueError) as error:
        raise ExperimentError(str(path), f"is not a profile: {error}", "calibrate again") from None
    if is_older:
        what = "was calibrated before guests shared the queue of their host's wire"
        raise ExperimentError(str(path), what, "run `virtlab calibrate` again")
    return profile


def chosen_profile(name: str | None) -> Profile:
    """The profile of this name; None: the one of the user's settings."""
    return load_profile(load_settings(profile=name).profile)


def _parsed(values: dict[str, Any]) -> Profile:
    if values.get("schema") != SCHEMA:
        raise ValueError(f"schema is {values.get('schema')!r}, this virtlab reads {SCHEMA}")
    parameters = {name: Parameter(**each) for name, each in values.get("parameters", {}).items()}
    for name, one in parameters.items():
        if not isinstance(one.value, int | float) or not 0 <= one.value < 1e12:
            raise ValueError(f"parameters.{name}.value must be 0 ns or more")
    tables = {}
    for name, each in values.get("tables", {}).items():
        table = Quantiles(
            tuple(map(float, each["probability"])),
            tuple(map(float, each["ns"])),
            each.get("low"),
            each.get("high"),
        )
        if name not in TABLES:
            raise ValueError(f"tables.{name} is unknown; known are {', '.join(TABLES)}")
        rising = sorted(table.ns) == list(table.ns) and sorted(set(table.probability)) == list(
            table.probability
        )
        ends = table.probability[:1] == (0.0,) and table.probability[-1:] == (1.0,)
        if not rising or not ends or len(table.ns) != len(table.probability) or table.ns[0] < 0:
            raise ValueError(f"tables.{name} must rise, from probability 0 to 1")
        tables[name] = table
    processors = values["processors"]
    if not isinstance(processors, int) or processors < 1:
        raise ValueError("processors must be 1 or more")
    return Profile(
        str(values["name"]),
        processors,
        parameters,
        tables,
        values.get("provenance", {}),
        values.get("fit", {}),
        _draws(values.get("draws", {})),
    )


def _draws(values: Mapping[str, Any]) -> dict[str, tuple[float, ...]]:
    found = {name: tuple(map(float, moved)) for name, moved in values.items()}
    if len({len(moved) for moved in found.values()}) > 1:
        raise ValueError("draws must be of one length")
    return found


def missing(profile: Profile, plan: Plan) -> list[tuple[str, str]]:
    """Path in the Plan and kind of what the profile does not know."""
    if profile.is_ideal:
        return []
    known = {name.rpartition(".")[0] for name in profile.parameters}
    found = [
        (f"guests.{name}.platform", kind)
        for name, guest in plan.world.guests.items()
        for kind in dict.fromkeys(_kind(profile, guest, vnic) for vnic in guest.vnics.values())
        if kind not in known
    ]
    found += [
        (f"vswitches.{name}.kind", f"vswitch.{vswitch.kind}")
        for name, vswitch in plan.world.vswitches.items()
        if f"vswitch.{vswitch.kind}" not in known
    ]
    if plan.world.links and "links" not in known:
        found.append(("links", "links"))
    return found


def costs(profile: Profile, plan: Plan, seed: int) -> dict[str, Any] | None:
    """The core's costs of this world; None when it is ideal."""
    if profile.is_ideal:
        return None
    guests, vnics = [], []
    processors = pinned(plan, profile.processors)
    floods = {role.from_: role.workload for role in plan.roles.values() if role.workload in FLOODS}

    def cost(packet: str, byte: str = "", *more: str) -> dict[str, int]:
        per_byte = profile.value(byte) * PICOSECONDS if byte else 0.0
        packets = sum(map(profile.value, (packet, *more)))
        return {"packet_ns": round(packets), "byte_ps": round(per_byte)}

    shared = sharing(plan)
    for name, guest in plan.world.guests.items():
        kind = _kind(profile, guest, next(iter(guest.vnics.values()), None))
        flood = f"flood.{floods.get(name)}"
        again = f"{flood}.packet_ns" in profile.parameters
        guests.append(
            {
                "send_ns": round(profile.value(f"{kind}.send_ns")),
                "message_ns": round(profile.value(f"{kind}.message_ns")),
                "again": cost(f"{flood}.packet_ns", f"{flood}.byte_ns") if again else None,
                "wakeup": _table(profile, *wakeups(plan, guest.idle)),
                "forwarding": _forwarding(guest, kind, profile, cost, processors.get(name)),
                **quota(guest),
            }
        )
        for vnic in guest.vnics.values():
            kind = _kind(profile, guest, vnic)
            held = vnic.pushback_bit_per_s is not None or vnic.vswitch in shared
            vnics.append(
                {
                    "crossing": cost(f"{kind}.crossing_ns", f"{kind}.crossing_byte_ns"),
                    "qdisc": cost("qdisc.htb.packet_ns") if held else {"packet_ns": 0, "byte_ps": 0},
                    **together(vnic),
                }
            )
    return {
        "seed": seed >> 1,
        "processors": profile.processors,
        "first_packet_ns": round(profile.value("flow.first_packet_ns")),
        "guests": guests,
        "vnics": vnics,
        "vswitches": [
            cost(f"vswitch.{each.kind}.packet_ns", f"vswitch.{each.kind}.byte_ns")
            for each in plan.world.vswitches.values()
        ],
        **upcall_costs(plan, profile.value),
        **_busy(profile),
        "fabric": {
            "departure": cost("links.departure_ns"),
            "frame": cost("links.frame_ns", "links.frame_byte_ns", *_disciplines(plan)),
            "lateness": _table(profile, "links.lateness"),
            "notice": _table(profile, "links.notice"),
            "stay_byte_ps": round(stay_byte_ns(plan) * PICOSECONDS),
        },
    }


def _kind(profile: Profile, guest: Guest, vnic: Vnic | None) -> str:
    """Under what name a guest's costs stand: its platform's, or where its vNIC's device is named, that device's.

    A profile that says `platform.qemu.*` says it of QEMU's default device, virtio.
    """
    own = f"platform.{guest.platform}"
    model = None if vnic is None else vnic.model
    named = f"{own}.{model}."
    if model is None or (
        model == DEFAULT_MODEL and not any(name.startswith(named) for name in profile.parameters)
    ):
        return own
    return named.removesuffix(".")


def _busy(profile: Profile) -> dict[str, Any]:
    """What holds while every processor has work; nothing where the profile does not know."""
    if BUSY_CROSSING not in profile.parameters and BUSY_WAKEUP not in profile.tables:
        return {}
    crossing_ns = round(profile.value(BUSY_CROSSING))
    return {"busy": {"wakeup": _table(profile, BUSY_WAKEUP), "crossing_ns": crossing_ns}}


def wakeups(plan: Plan, idle: str) -> tuple[str, ...]:
    """Tables that hold a receiver's wake-up in this world, the best first. Where links are played, or a virtual
    switch is a process, these have a processor of their own, and what they deliver wakes a process on another one,
    which was idle.
    """
    own = f"wakeup.{idle}"
    elsewhere = plan.world.links or any(
        VSWITCHES[each.kind].process for each in plan.world.vswitches.values()
    )
    return (f"{own}.links", own) if elsewhere else (own,)


def _disciplines(plan: Plan) -> tuple[str, ...]:
    kinds = {queue.kind for link in plan.world.links.values() for queue in (link.queue.ab, link.queue.ba)}
    return tuple(f"qdisc.{kind}.frame_ns" for kind in sorted(kinds)) if len(kinds) == 1 else ()


def _forwarding(
    guest: Guest,
    kind: str,
    profile: Profile,
    cost: Callable[[str, str], dict[str, int]],
    processor: int | None,
) -> dict[str, Any] | None:
    """What a guest pays for each frame that it forwards; None where it forwards none, or for nothing."""
    if not (guest.forwards or guest.bridges):
        return None
    what = "bridge" if guest.bridges else "forward"
    paid = cost(f"{kind}.{what}_ns", f"{kind}.{what}_byte_ns")
    rouse_ns = round(profile.value(f"{kind}.rouse_ns")) if guest.idle == "sleep" else 0
    steer_ns = round(profile.value(f"{kind}.steer_ns")) if processor is not None else 0
    if not any((*paid.values(), rouse_ns, steer_ns)):
        return None
    doze_ns = round(profile.value(f"{kind}.doze_ns"))
    asleep = {"doze_ns": doze_ns} if doze_ns else {}
    steered = {} if processor is None else {"processor": processor, "steer_ns": steer_ns}
    own = {"own": True} if not PLATFORMS[guest.platform].shares_kernel else {}
    return {
        "cost": paid,
        "rouse_ns": rouse_ns,
        **asleep,
        **steered,
        **own,
        "backlog_packets": BACKLOG_PACKETS,
    }


def _table(profile: Profile, *names: str) -> dict[str, list[float]]:
    table = next((profile.tables[name] for name in names if name in profile.tables), Quantiles((), ()))
    return {"probability": list(table.probability), "ns": list(table.ns)}
