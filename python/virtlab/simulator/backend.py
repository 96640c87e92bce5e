"""`Simulator`: the Backend that plays Plans in virtual time."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.metadata import version

from virtlab.errors import MachineError
from virtlab.plan import Capabilities, Observer, Plan, Refusal, Session
from virtlab.planner.queues.ports import all_ports, port_mistakes, with_port_links
from virtlab.simulator.limits import capabilities, refusals
from virtlab.simulator.once import Remembered, structure
from virtlab.simulator.profile import IDEAL_PROFILE, Profile, missing
from virtlab.simulator.session import SimulatorSession

BUILD_NS = 5_000_000
PACE = 100  # virtual seconds per real second, about, at 100 Mbit/s


_refusals: Remembered[tuple[Refusal, ...]] = Remembered()


class Simulator:
    """Guests on Linux bridges, physical switches and links, IPv4; platforms cost what the profile says."""

    def __init__(self, profile: Profile | None = None) -> None:
        self.profile = profile or IDEAL_PROFILE
        self._sound: set[bytes] = (
            set()
        )  # digests of worlds found without fault; they travel to workers with this object

    def capabilities(self) -> Capabilities:
        """What is modelled, with the reason for what is not."""
        return capabilities({**fingerprint(), "profile": self.profile.identity})

    def check(self, plan: Plan) -> list[Refusal]:
        """Every reason not to play this Plan."""
        digest = hashlib.sha256(structure(plan).encode()).digest()
        if digest in self._sound:
            return []
        if mistakes := list(port_mistakes(plan, all_ports)):
            return mistakes
        plan = with_port_links(plan, all_ports)
        key = structure(plan), self.profile.identity
        found = _refusals.of(key, lambda: tuple(self._refusals(plan)))
        if not found:
            self._sound.add(digest)
        return list(found)

    def _refusals(self, plan: Plan) -> list[Refusal]:
        unknown = [
            Refusal(path, f"profile '{self.profile.name}' holds no costs of {kind}", "use another --profile")
            for path, kind in missing(self.profile, plan)
        ]
        return refusals(plan, self.profile) + unknown

    def estimate_ns(self, plan: Plan) -> int:
        """Real time: a small part of the timeline's, as far as its waits and roles say how long it is."""
        roles = (role.parameters for role in plan.roles.values())
        length = sum(
            int(values.get("duration_ns") or (values.get("count") or 0) * (values.get("interval_ns") or 0))
            for values in roles
        )
        length += sum(action.for_ns or 0 for action in plan.timeline)
        return BUILD_NS + min(length, plan.limits.run_ns) // PACE

    def open(self, plan: Plan, observe: Observer) -> Session:
        """Lowers the Plan. MachineError when `check` refuses."""
        if found := self.check(plan):
            raise MachineError(found[0].path, found[0].reason, found[0].cure)
        return SimulatorSession(with_port_links(plan, all_ports), observe, self.profile)


@lru_cache(maxsize=1)
def fingerprint() -> dict[str, str]:
    """What a simulated result depends on: not the machine, only the model and its version."""
    return {"model": "packet by packet", "virtlab": version("virtlab")}
