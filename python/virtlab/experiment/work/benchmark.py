"""`tests` of a search: what else is tried in the same world once the highest load is known.

The tests are those of RFC 2544, section 26, beside throughput, which the search itself finds: latency, frame loss
rate, back-to-back frames, system recovery, reset. `pace: letter` is how long and how often the RFC asks for, `quick`
is for a look. Loads are shares of what the search finds or values of its input. Here they are checked and typed;
`campaign.benchmark` makes the trials.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from virtlab.catalogue import PLATFORMS
from virtlab.catalogue.declaration import Parameter
from virtlab.catalogue.kinds import shown
from virtlab.experiment.read.findings import Findings
from virtlab.experiment.read.search_model import TestsSpec
from virtlab.experiment.work.roles import RoleSpec
from virtlab.experiment.world.topology import Wiring
from virtlab.units import Ratio, nearest
from virtlab.units.factors import NS_PER_S

STEP_MAX = 0.1
PACES: Mapping[str, Mapping[str, int]] = {
    "letter": {
        "latency_trials": 20, "latency_trial": 120 * NS_PER_S, "loss_trial": 60 * NS_PER_S, "burst_trials": 50,
        "burst_longest": 2 * NS_PER_S,
        "overload_for": 60 * NS_PER_S, "recovery_watch": 10 * NS_PER_S, "recovery_trials": 5,
        "reset_watch": 10 * NS_PER_S, "reset_trials": 5,
    },
    "quick": {
        "latency_trials": 3, "latency_trial": NS_PER_S, "loss_trial": NS_PER_S // 2, "burst_trials": 3,
        "burst_longest": NS_PER_S // 5,
        "overload_for": 2 * NS_PER_S, "recovery_watch": 2 * NS_PER_S, "recovery_trials": 3,
        "reset_watch": 3 * NS_PER_S, "reset_trials": 3,
    },
}  # fmt: skip
RESET_AFTER_NS = NS_PER_S // 2  # traffic before a reset
BOOT_WATCH_NS = {
    "letter": 60 * NS_PER_S,
    "quick": 20 * NS_PER_S,
}  # traffic after that of a guest which boots a kernel of its own
_SHARE = re.compile(r"\s*[0-9.]+\s*(%|ratio)\s*\Z")


@dataclass(frozen=True, slots=True)
class StatedLoad:
    """A load of the latency test: `share` of what the search finds, or a `value` of its input; `part` names it."""

    part: str
    share: float | None = None
    value: int | None = None


@dataclass(frozen=True, slots=True)
class LatencyTest:
    """Delay at stated loads."""

    loads: tuple[StatedLoad, ...]
    trials: int
    trial_ns: int
    tagged: bool  # one frame of each flow counts, else all


@dataclass(frozen=True, slots=True)
class FrameLossTest:
    """Loss from the highest load downwards."""

    step: float
    trial_ns: int


@dataclass(frozen=True, slots=True)
class BackToBackTest:
    """Longest burst at the highest load without loss."""

    trials: int
    longest_ns: int
    width: float


@dataclass(frozen=True, slots=True)
class RecoveryTest:
    """From the end of an overload to the last frame lost."""

    overload: float
    overload_ns: int
    drop_to: float
    watch_ns: int
    trials: int


@dataclass(frozen=True, slots=True)
class ResetTest:
    """From the reset of a guest until it forwards again."""

    guest: str
    down_ns: int
    watch_ns: int
    trials: int


@dataclass(frozen=True, slots=True)
class TestsFor:
    """The tests that a file requests; None: not requested."""

    __test__ = False  # not a test case, whatever its name begins with
    pace: str
    latency: LatencyTest | None = None
    frame_loss: FrameLossTest | None = None
    back_to_back: BackToBackTest | None = None
    recovery: RecoveryTest | None = None
    reset: ResetTest | None = None

    @property
    def longest_trial_ns(self) -> int:
        """The longest trial that one of them makes."""
        return max(
            self.latency.trial_ns if self.latency else 0,
            self.frame_loss.trial_ns if self.frame_loss else 0,
            self.back_to_back.longest_ns if self.back_to_back else 0,
            self.recovery.overload_ns + self.recovery.watch_ns if self.recovery else 0,
            RESET_AFTER_NS + self.reset.down_ns + self.reset.watch_ns if self.reset else 0,
        )

    def parts(self) -> tuple[str, ...]:
        """What values of single loads are called behind the role: `at50` of `flows.at50`."""
        found = [load.part for load in self.latency.loads] if self.latency else []
        if self.frame_loss:
            found += [part_of_highest(share) for share in shares_down(self.frame_loss.step)]
        return tuple(found)


def shares_down(step: float) -> list[float]:
    """Shares of the highest load that the frame-loss test may try, from all of it down.

    >>> shares_down(0.25)
    [1.0, 0.75, 0.5, 0.25]
    """
    count = int(1.0 / step + 1e-9)
    return [share for at in range(count + 1) if (share := round(1.0 - at * step, 9)) > 0]


def part_of_highest(share: float) -> str:
    """The name of a share of the highest load.

    >>> part_of_highest(0.9), part_of_highest(0.125)
    ('max90', 'max12_5')
    """
    return f"max{100 * share:g}".replace(".", "_")


def read_tests(
    findings: Findings, spec: TestsSpec | None, parameter: Parameter, role: RoleSpec, wiring: Wiring | None
) -> TestsFor | None:
    """The tests of a search whose input is a stream's rate; None for no tests, or after a mistake."""
    if spec is None:
        return None
    pace = PACES[spec.pace]
    asked = (spec.latency, spec.frame_loss, spec.back_to_back, spec.recovery, spec.reset)
    if all(one is None for one in asked):
        cure = "write e.g. 'tests: [latency, frame_loss, back_to_back, recovery]'"
        findings.add(("search", "tests"), "no test is requested", cure)
        return None
    return TestsFor(
        spec.pace,
        _latency(findings, spec, pace, parameter),
        _frame_loss(findings, spec, pace),
        None
        if spec.back_to_back is None
        else BackToBackTest(
            spec.back_to_back.trials or pace["burst_trials"],
            spec.back_to_back.longest or pace["burst_longest"],
            spec.back_to_back.width,
        ),
        _recovery(findings, spec, pace),
        _reset(findings, spec, pace, role, wiring),
    )


def _latency(
    findings: Findings, spec: TestsSpec, pace: Mapping[str, int], parameter: Parameter
) -> LatencyTest | None:
    own = spec.latency
    if own is None:
        return None
    at = ("search", "tests", "latency", "at")
    if not own.at:
        findings.add(at, "an empty list names no load", "write e.g. '[10 %, 50 %, 90 %, 100 %]'")
    loads: list[StatedLoad] = []
    for place, written in enumerate(own.at):
        try:
            load = _stated(written, parameter)
        except ValueError as error:
            findings.add_text((*at, place), str(error))
            continue
        if any(load.part == other.part for other in loads):
            findings.add((*at, place), f"'{shown(written)}' is in the list already", "name each load once")
        loads.append(load)
    return LatencyTest(
        tuple(loads),
        own.trials or pace["latency_trials"],
        own.trial or pace["latency_trial"],
        own.tag == "frame",
    )


def _stated(written: Any, parameter: Parameter) -> StatedLoad:
    """A load as the file has it: '50 %', or a value of the searched input.

    >>> from virtlab.catalogue.workloads.raw_stream import RAW_STREAM
    >>> rate = RAW_STREAM.parameter("rate")
    >>> _stated("0.5 %", rate).part, _stated("240 packet/s", rate).part
    ('at0_5', 'rate240')
    """
    if isinstance(written, str) and _SHARE.match(written):
        share = Ratio.parse(written).ratio
        if not 0 < share <= 1:
            raise ValueError(
                f"'{shown(written)}' of the load found is not a load to test; write above 0 % and up to 100 %"
            )
        return StatedLoad(f"at{100 * share:g}".replace(".", "_"), share=share)
    value = int(parameter.plan_values(written)[parameter.plan])
    return StatedLoad(f"rate{value}", value=value)


def _frame_loss(findings: Findings, spec: TestsSpec, pace: Mapping[str, int]) -> FrameLossTest | None:
    own = spec.frame_loss
    if own is None:
        return None
    if own.step > STEP_MAX + 1e-9:
        findings.add(
            ("search", "tests", "frame_loss", "step"),
            f"steps of {100 * own.step:g} % are wider than RFC 2544 allows",
            "write at most '10 %'",
        )
    return FrameLossTest(own.step, own.trial or pace["loss_trial"])


def _recovery(findings: Findings, spec: TestsSpec, pace: Mapping[str, int]) -> RecoveryTest | None:
    own = spec.recovery
    if own is None:
        return None
    if own.overload <= 1:
        findings.add(
            ("search", "tests", "recovery", "overload"),
            f"{100 * own.overload:g} % of the load found overloads nothing",
            "write more than '100 %', e.g. '110 %'",
        )
    return RecoveryTest(
        own.overload,
        own.overload_for or pace["overload_for"],
        own.drop_to,
        own.watch or pace["recovery_watch"],
        own.trials or pace["recovery_trials"],
    )


def _reset(
    findings: Findings, spec: TestsSpec, pace: Mapping[str, int], role: RoleSpec, wiring: Wiring | None
) -> ResetTest | None:
    own = spec.reset
    if own is None:
        return None
    at = ("search", "tests", "reset", "guest")
    guests = [] if wiring is None else list(wiring.stations)
    if wiring is not None and own.guest not in guests:
        cure = nearest(own.guest, guests) or f"there are {', '.join(guests[:8])}"
        findings.add(at, f"there is no guest '{shown(own.guest)}'", cure)
    elif own.guest in {role.source, role.target}:
        findings.add(at, f"{own.guest} sends or receives, and forwards nothing", "name a guest that forwards")
    elif role.parameters.get("via") and own.guest not in role.parameters["via"]:
        findings.add(at, f"no flow of {role.name} goes by way of {own.guest}", "name a guest of its 'via'")
    station = None if wiring is None else wiring.stations.get(own.guest)
    boots = station is not None and PLATFORMS[station.platform].features.own_kernel
    watch = BOOT_WATCH_NS[spec.pace] if boots else pace["reset_watch"]
    return ResetTest(own.guest, own.down, own.watch or watch, own.trials or pace["reset_trials"])
