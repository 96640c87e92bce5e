"""The section `search` of an experiment file, typed. Few files have one, so it is loaded for those alone."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from virtlab.experiment.read import leaves
from virtlab.experiment.read.model import Part


class GoalSpec(Part):
    """The condition that a good load of a search meets."""

    loss: leaves.LossShare = Field(0.0, description="most loss of a good trial, e.g. '0 %' or '0.5 %'")
    exceed: leaves.LossShare = Field(0.5, description="share of a load's trial time that may be bad")
    trial: leaves.PositiveTime | None = Field(
        None, description="length of a final trial; absent: 1 s (mlrsearch), 60 s (bisection, rfc2544)"
    )
    initial_trial: leaves.PositiveTime | None = Field(None, description="length of the first trials")
    duration_sum: leaves.PositiveTime = Field(
        21_000_000_000, description="trial time after which a load is decided (mlrsearch)"
    )
    width: leaves.ProperShare = Field(0.005, description="width of the final interval, relative to its top")
    preceding: leaves.Count = Field(1, description="coarser targets that are met before this one (mlrsearch)")


class LatencySpec(Part):
    """Delay at stated loads (RFC 2544, 26.2)."""

    at: list[Any] = Field(
        ["100 %"], description="loads: shares of the value found, e.g. '50 %', or values of the input"
    )
    trials: leaves.Count | None = Field(None, description="of each load; absent: 20, or 3 in a quick pace")
    trial: leaves.PositiveTime | None = Field(
        None, description="length of a trial; absent: 120 s, or 1 s in a quick pace"
    )
    tag: leaves.Tagged = Field(
        "frame", description="what counts of a trial: one frame of each flow half-way through, or all frames"
    )


class FrameLossSpec(Part):
    """Loss from the highest load downwards, until two trials in a row lose nothing (RFC 2544, 26.3)."""

    step: leaves.ProperShare = Field(
        0.1, description="from one load to the next, of the highest; at most 10 %"
    )
    trial: leaves.PositiveTime | None = Field(
        None, description="length of a trial; absent: 60 s, or 500 ms in a quick pace"
    )


class BackToBackSpec(Part):
    """The longest burst at the highest load that loses nothing (RFC 2544, 26.4; RFC 9004)."""

    trials: leaves.Count | None = Field(
        None, description="searches for it, averaged; absent: 50, or 3 in a quick pace"
    )
    longest: leaves.PositiveTime | None = Field(
        None, description="longest burst tried; absent: 2 s, or 200 ms in a quick pace"
    )
    width: leaves.ProperShare = Field(
        0.01, description="a search ends at an interval of one frame, or as narrow relative to its top"
    )


class RecoverySpec(Part):
    """From the end of an overload to the last frame lost (RFC 2544, 26.5)."""

    overload: leaves.Share = Field(
        1.1, description="load of the first part, of the value found; at most 'high'"
    )
    overload_for: leaves.PositiveTime | None = Field(
        None, description="length of the first part; absent: 60 s, or 2 s in a quick pace"
    )
    drop_to: leaves.ProperShare = Field(0.5, description="load of the second part, of the first's")
    watch: leaves.PositiveTime | None = Field(
        None, description="length of the second part; absent: 10 s, or 2 s in a quick pace"
    )
    trials: leaves.Count | None = Field(None, description="averaged; absent: 5, or 3 in a quick pace")


class ResetSpec(Part):
    """From a reset of the device until it forwards again (RFC 2544, 26.6; RFC 6201)."""

    guest: leaves.Text = Field(
        description="the guest: a machine is reset by its monitor, the vNICs of others go down and up, e.g. sut.vm1"
    )
    down: leaves.Time = Field(0, description="how long it stays away")
    watch: leaves.PositiveTime | None = Field(
        None,
        description="traffic after the reset; absent: 10 s, of a machine 60 s; 3 s and 20 s in a quick pace",
    )
    trials: leaves.Count | None = Field(None, description="averaged; absent: 5, or 3 in a quick pace")


def _tests(value: Any) -> Any:
    """A list of names is those tests as they stand by default; so is a name without anything."""
    if isinstance(value, list):
        return {name: {} for name in value} if all(isinstance(name, str) for name in value) else value
    if isinstance(value, dict):
        return {name: {} if entry is None and name != "pace" else entry for name, entry in value.items()}
    return value


class TestsSpec(Part):
    """What else is tried in the same world once the search is over."""

    __test__ = False  # not a test case, whatever its name begins with
    pace: leaves.Pace = Field(
        "letter", description="how long and how often: by RFC 2544, or quick for a look"
    )
    latency: LatencySpec | None = Field(None, description="delay at the value found and at parts of it")
    frame_loss: FrameLossSpec | None = Field(None, description="loss from the highest load downwards")
    back_to_back: BackToBackSpec | None = Field(
        None, description="longest burst at the highest load without loss"
    )
    recovery: RecoverySpec | None = Field(None, description="time of recovery from an overload")
    reset: ResetSpec | None = Field(None, description="time until a guest that was reset forwards again")


class SearchSpec(Part):
    """A search for the highest value of one tunable input, inside every design point."""

    variable: leaves.Text = Field(description="the input, 'ROLE.PARAMETER', e.g. 'load.rate'")
    low: Any = Field(description="the lowest value, in the input's unit")
    high: Any = Field("wire", description="the highest value, or wire: what the sender's own link carries")
    resolution: Any = Field(
        None, description="end when the interval is as narrow (bisection); absent: by width"
    )
    method: leaves.Method | None = Field(
        None, description="mlrsearch, bisection or rfc2544; absent: mlrsearch, bisection with 'until'"
    )
    goals: list[GoalSpec] = Field([], description="what makes a load good; absent: no loss")
    until: leaves.Text | None = Field(
        None, description="a value is too much when this holds, e.g. 'probe.rtt.p99 > 1 ms'"
    )
    warmup: leaves.Time | None = Field(
        None, description="a trial at the highest load that does not count; absent: 1 s for mlrsearch"
    )
    loss_per: leaves.LossPer | None = Field(
        None,
        description="whose loss judges a load: the worst flow's, or the stream's; absent: flow, of up to 64",
    )
    tests: Annotated[TestsSpec, BeforeValidator(_tests)] | None = Field(
        None, description="what else is tried in the same world once the search is over"
    )
