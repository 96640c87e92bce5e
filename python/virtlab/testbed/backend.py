"""`Testbed`: the Backend that plays Plans for real."""

from __future__ import annotations

from virtlab.open_files import allow
from virtlab.plan import Capabilities, Observer, Plan, Refusal, Session
from virtlab.planner.timeline import plan_length_ns
from virtlab.testbed.build.machine import findings, fingerprint
from virtlab.testbed.leader.shortage import open_files, too_few_open_files
from virtlab.testbed.refusals import capabilities, refusals
from virtlab.testbed.session import TestbedSession

BUILD_NS = 300_000_000
BUILD_PER_GUEST_NS = 5_000_000


class Testbed:
    """Guests as network namespaces of a private world; links by netem or by the soft switch."""

    __test__ = False  # not a test case, whatever its name begins with

    def capabilities(self) -> Capabilities:
        """The kinds that work here, as found by trying them."""
        return capabilities(findings(), fingerprint())

    def check(self, plan: Plan) -> list[Refusal]:
        """Every reason not to open this Plan here, each with its cure."""
        return list(too_few_open_files(plan)) or refusals(plan, findings())

    def estimate_ns(self, plan: Plan) -> int:
        """Build and teardown, and the timeline where its length is known."""
        return BUILD_NS + BUILD_PER_GUEST_NS * len(plan.world.guests) + plan_length_ns(plan)

    def open(self, plan: Plan, observe: Observer) -> Session:
        """Builds the world. MachineError or GuestError when that fails; nothing is left."""
        allow(open_files(plan))
        return TestbedSession(plan, findings().machine, observe)
