"""`virtlab migration`: pause and total time of guests that move to another host, by a model of their rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Annotated, Any, TypeVar

import typer

from virtlab.cli.options import AsJson
from virtlab.errors import ExperimentError
from virtlab.prediction.migration import Course, Least, Mode, Order, Rule
from virtlab.terminal import json_text, say

app = typer.Typer(add_completion=False)
Value = TypeVar("Value")


@app.command()
def migration(
    *,
    memory: Annotated[
        str, typer.Option(help="V: memory of the guest that is not zero, e.g. '4 GiB'", show_default=False)
    ],
    bandwidth: Annotated[str, typer.Option(help="R: e.g. '128 MiB/s', or '941 Mbit/s'", show_default=False)],
    dirty_rate: Annotated[
        str, typer.Option(help="D: how fast the guest dirties memory that was clean")
    ] = "0 B/s",
    working_set: Annotated[
        str | None, typer.Option(help="W: how much it writes to at all; default: all", show_default=False)
    ] = None,
    mode: Annotated[Mode, typer.Option(help="how it moves")] = "pre_copy",
    rule: Annotated[Rule, typer.Option(help="when pre-copy pauses it")] = "textbook",
    downtime_limit: Annotated[
        str, typer.Option(help="L: the longest pause that pre-copy aims at")
    ] = "300 ms",
    rounds_limit: Annotated[
        int | None,
        typer.Option(help="after so many rounds it pauses, whatever is left", min=1, show_default=False),
    ] = None,
    guests: Annotated[int, typer.Option(help="how many such guests move", min=1, max=1000)] = 1,
    order: Annotated[Order, typer.Option(help="of several: each alone, or all sharing R")] = "in_turn",
    setup: Annotated[str, typer.Option(help="from the request to the first byte")] = "0 s",
    device_state: Annotated[str, typer.Option(help="of the pause, for the state of devices")] = "0 s",
    reconvergence: Annotated[str, typer.Option(help="after the pause, until clients reach it")] = "0 s",
    shutdown: Annotated[str, typer.Option(help="of cold: until the guest is off")] = "0 s",
    boot: Annotated[str, typer.Option(help="of cold: from its start until it serves")] = "0 s",
    within: Annotated[
        str | None,
        typer.Option(help="all must have arrived by then, for what would be enough", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """How long a guest is paused while it moves to another host, how long all of it takes, and what would be enough.

    Computed by a model of pre-copy's rounds; nothing is built or measured. Exit code 1 when a guest never arrives, or
    not within the time that --within gives.

    Example: virtlab migration --memory '4 GiB' --bandwidth '128 MiB/s' --dirty-rate '64 MiB/s'

    Example: virtlab migration --memory '14 GB' --bandwidth '941 Mbit/s' --dirty-rate '5 MiB/s' --rule qemu --json
    """
    from virtlab.prediction.migration import Fixed, Moved, Policy, courses, least

    if mode == "cold" and (not _seconds(shutdown, "--shutdown") or not _seconds(boot, "--boot")):
        what = "cold migration is a shutdown and a boot, and their times are not given"
        raise ExperimentError("--mode", what, "add --shutdown and --boot, as measured")
    fixed = Fixed(
        _seconds(setup, "--setup"), _seconds(device_state, "--device-state"),
        _seconds(reconvergence, "--reconvergence"), _seconds(shutdown, "--shutdown"), _seconds(boot, "--boot"),
    )  # fmt: skip
    one = Moved(
        _bytes(memory, "--memory"),
        _rate(dirty_rate, "--dirty-rate"),
        None if working_set is None else _bytes(working_set, "--working-set"),
        fixed,
    )
    if not one.memory_bytes:
        raise ExperimentError("--memory", "a guest without memory does not move", "write e.g. '4 GiB'")
    limit_s = _seconds(downtime_limit, "--downtime-limit")
    policy = Policy(mode, rule, limit_s, rounds_limit=rounds_limit)
    rate = _rate(bandwidth, "--bandwidth")
    if not rate:
        raise ExperimentError("--bandwidth", "nothing moves at no bandwidth", "write e.g. '128 MiB/s'")
    within_s = None if within is None else _seconds(within, "--within")
    found = courses([one] * guests, rate, policy, order)
    enough = least([one] * guests, rate, policy, order, within_s=within_s)
    all_s = max(course.begin_s + course.total_s for course in found)
    arrived = all(course.end != "never" for course in found)
    kept = arrived and (within_s is None or all_s <= within_s)
    if as_json:
        content: dict[str, Any] = {
            "arrived": arrived, "kept": kept, "all_s": all_s if arrived else None,
            "guests": [asdict(course) for course in found], "least": asdict(enough),
        }  # fmt: skip
        say(json_text(content, indent=2, allow_nan=False))
    else:
        say("computed by a model; not measured")
        for line in [*_lines(found, all_s), *_least_lines(enough, mode, within)]:
            say(line)
    if not kept:
        raise typer.Exit(1)


def _lines(courses: Sequence[Course], all_s: float) -> list[str]:
    alike = all(_alike(course, courses[0]) for course in courses)
    lines = []
    for number, course in enumerate(courses[:1] if alike else courses, 1):
        name = "" if len(courses) == 1 else "each guest: " if alike else f"guest {number}: "
        if course.end == "never":
            lines.append(
                f"{name}never arrives: rounds do not become smaller than R L ({len(course.rounds)} looked at)"
            )
            continue
        rounds = f"{len(course.rounds)} rounds, " if course.rounds else ""
        forced = " (forced by --rounds-limit)" if course.end == "forced" else ""
        lines.append(
            f"{name}{rounds}pause {_time(course.pause_s)}{forced}, blackout {_time(course.blackout_s)}, "
            f"total {_time(course.total_s)}, {_size(course.bytes)} sent"
        )
        lines += _round_lines(course)
    if len(courses) > 1 and all(course.end != "never" for course in courses):
        lines.append(f"all {len(courses)} guests: {_time(all_s)}")
    return lines


def _alike(course: Course, other: Course) -> bool:
    return (course.end, course.rounds, course.pause_s, course.total_s) == (
        other.end,
        other.rounds,
        other.pause_s,
        other.total_s,
    )


def _round_lines(course: Course) -> list[str]:
    """The first and last rounds."""
    lines = [
        f"  round {place:>3}  {_size(one.bytes):>10} in {_time(one.seconds):>10}, {_size(one.remaining_bytes)} remain"
        for place, one in enumerate(course.rounds, 1)
    ]
    left_out = len(lines) - 8
    return lines if left_out <= 0 else [*lines[:4], f"  ... {left_out} more ...", *lines[-4:]]


def _least_lines(enough: Least, mode: Mode, within: str | None) -> list[str]:
    wanted = "to arrive" if within is None else f"to arrive within {within}"
    rate, limit, throttle = enough.bandwidth_byte_per_s, enough.downtime_limit_ns, enough.throttle_percent
    lines = []
    if mode != "cold":
        lines = [
            f"smallest bandwidth {wanted}: {'no bandwidth is enough' if rate is None else f'{rate} B/s'}"
        ]
    if mode == "pre_copy":
        lines += [
            f"smallest downtime limit {wanted}: {_smallest(limit, 'limit', lambda ns: _time(ns / 1e9))}",
            f"smallest throttle {wanted}: {_smallest(throttle, 'throttle', lambda percent: f'{percent} %')}",
        ]
    return lines


def _smallest(value: int | None, name: str, show: Callable[[int], str]) -> str:
    if value is None:
        return f"no {name} is enough"
    return show(value) if value else f"any {name} is enough"


def _time(seconds: float) -> str:
    from virtlab.units import show_quantity

    return show_quantity(seconds * 1e9, "ns", 6)


def _size(size: float) -> str:
    from virtlab.units import show_quantity

    return show_quantity(size, "bytes", 4)


def _seconds(text: str, option: str) -> float:
    from virtlab.units import Duration

    return _parsed(lambda value: Duration.parse(value).ns / 1e9, text, option)


def _bytes(text: str, option: str) -> float:
    from virtlab.units import Size

    return _parsed(lambda value: float(Size.parse(value).size_bytes), text, option)


def _rate(text: str, option: str) -> float:
    """In byte/s, of bits or bytes a second."""
    from virtlab.units import Bitrate, parse_quantity, split_quantity

    def parse(text: str) -> float:
        parts = split_quantity(text)
        if parts is not None and parts[1] in Bitrate.units:
            return Bitrate.parse(text).bit_per_s / 8
        rate = parse_quantity(text, "byte/s")
        if rate < 0:
            raise ValueError(f"'{text}' must be zero or more")
        return rate

    return _parsed(parse, text, option)


def _parsed(parse: Callable[[str], Value], text: str, option: str) -> Value:
    try:
        return parse(text)
    except ValueError as error:
        raise ExperimentError(option, str(error)) from None
