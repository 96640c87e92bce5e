"""Under what conditions the numbers came about: machine, kernel, versions; what was built, applied and read
back.

Values are grouped over runs: a condition that was the same everywhere is listed once, one that changed is listed
with how often each value held.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from virtlab.report.gather.model import Realisation
from virtlab.report.words import plural
from virtlab.units import Size, display

if TYPE_CHECKING:
    import duckdb

    from virtlab.results import Dataset, RunRecord

_CAPACITY = {
    "capacity_small_pps": "most frames of 64 B per second, in virtlab doctor's flood",
    "capacity_full_pps": "most frames of 1518 B per second, in virtlab doctor's flood",
}
_MEASURED = frozenset({"sleep_overshoot_p50_ns", "sleep_overshoot_p99_ns", "spin_budget_ns", *_CAPACITY})
_QUALITY = {
    "lateness_p50_ns": "lateness of frames, p50",
    "lateness_p99_ns": "lateness of frames, p99",
    "lateness_max_ns": "lateness of frames, largest",
    "added_delay_p50_ns": "added delay, p50",
    "added_delay_p99_ns": "added delay, p99",
}
LATE_SHARE = "frames more than 200 µs late"


def machine(dataset: Dataset, records: Sequence[RunRecord]) -> dict[str, dict[str, str]]:
    """Groups of named facts: the machine, what could change between runs, versions, what the backend says of
    itself.
    """
    manifest = dataset.manifest
    groups = {
        "Machine": {_words(name): _value(name, value) for name, value in manifest.machine.items()},
        "Kernel, clock and load, per run": _over_runs([_during(record) for record in records]),
        "Backend": {_words(name): _value(name, value) for name, value in manifest.fingerprint.items()},
        "Versions": {name: str(value) for name, value in manifest.versions.items()},
        "Versions of what built the runs": _over_runs([record.realised.versions for record in records]),
    }
    groups["Dataset"] = {
        "created": manifest.created,
        "seed": str(manifest.seed),
        "experiment file": manifest.experiment_sha256[:16],
    }
    return {title: facts for title, facts in groups.items() if facts}


def _during(record: RunRecord) -> dict[str, Any]:
    """The conditions of a run, and the share of CPU time that the machine below took from it."""
    steal = record.clocks.get("steal_ratio")
    return {**record.conditions, **({} if steal is None else {"steal ratio": round(steal, 5)})}


def _words(name: str) -> str:
    return name.removesuffix("_bytes").replace("_", " ")


def _value(name: str, value: Any) -> str:
    if name.endswith("_bytes") and isinstance(value, int):
        gibibytes = value / 2**30
        return f"{gibibytes:.1f} GiB" if gibibytes >= 1 else str(Size(value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _over_runs(facts: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Each fact once when all runs agree, else its values with how many runs had each; numbers as a range."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(key for one in facts for key in one):
        values = Counter(_value(name, one[name]) for one in facts if name in one)
        if len(values) == 1:
            found[_words(name)] = next(iter(values))
        elif len(values) > 4 and (numbers := _numbers(values)):
            found[_words(name)] = f"{min(numbers):g} to {max(numbers):g}"
        else:
            shown = [f"{text} ({plural(count, 'run')})" for text, count in values.most_common(4)]
            more = len(values) - len(shown)
            found[_words(name)] = "; ".join(shown) + (f"; {more} more" if more else "")
    return found


def _numbers(values: Iterable[str]) -> list[float]:
    try:
        return [float(value) for value in values]
    except ValueError:
        return []


def realised(records: Iterable[RunRecord]) -> tuple[Realisation, ...]:
    """Every state that an object of the world had, with the number of runs in which it was so.

    What the soft switch measured of itself at its start differs in every run and is shown with the links' quality
    instead.
    """
    states: dict[tuple[str, str], list[Any]] = {}
    for record in records:
        for path, thing in record.realised.objects.items():
            read_back = {name: value for name, value in thing.read_back.items() if name not in _MEASURED}
            parts = [thing.by, thing.intended, thing.applied, read_back]
            key = json.dumps(parts, sort_keys=True, default=str)
            states.setdefault((path, key), [parts, 0])[1] += 1
    return tuple(
        Realisation(path, parts[0], parts[1], parts[2], parts[3], runs)
        for (path, _), (parts, runs) in sorted(states.items(), key=lambda pair: pair[0])
    )


def without_effect(records: Iterable[RunRecord]) -> list[str]:
    """What the file says and a simulated world has no part for, and what such a world took for something that the file
    leaves to the machine: one sentence each, with the objects that say it."""
    said: dict[tuple[str, str], dict[str, None]] = {}
    assumed: dict[str, dict[str, None]] = {}
    for record in records:
        for path, thing in record.realised.objects.items():
            for what, why in thing.applied.get("without_effect", {}).items():
                said.setdefault((what, why), {})[path] = None
            if (taken := thing.applied.get("assumed")) is not None:
                assumed.setdefault(str(taken), {})[path] = None
    return [
        *(
            f"In the simulated world {what} of {_few(list(paths))} changes nothing: {why}."
            for (what, why), paths in said.items()
        ),
        *(f"In the simulated world of {_few(list(paths))}, {what}." for what, paths in assumed.items()),
    ]


def _few(names: Sequence[str], most: int = 4) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def link_quality(db: duckdb.DuckDBPyConnection, records: Iterable[RunRecord]) -> tuple[dict[str, str], ...]:
    """What the links' realisation says of its own quality: each figure smallest, median and largest over the valid
    runs.

    Counters are as read at the end of each run; measured overshoot of sleeps, and the most frames per second that
    doctor has seen it pass on this machine, as read when the switch was set up.
    """
    found: dict[tuple[str, str], list[float]] = {}
    rows = db.execute(
        "SELECT run, link_realisation, counter, arg_max(value, t_ns) FROM counter "
        "WHERE entity = 'soft_switch' AND status = 'ok' GROUP BY ALL"
    ).fetchall()
    of_run: dict[tuple[str, str], dict[str, float]] = {}
    for run, links, counter, value in rows:
        of_run.setdefault((run, links), {})[counter] = float(value)
    for (_, links), values in of_run.items():
        for key, title in _QUALITY.items():
            if key in values:
                found.setdefault((links, title), []).append(values[key])
        if values.get("lateness_count"):
            share = values.get("lateness_over_200_us", 0.0) / values["lateness_count"]
            found.setdefault((links, LATE_SHARE), []).append(share)
    for record in records:
        overshoot = [
            float(thing.read_back["sleep_overshoot_p99_ns"])
            for path, thing in record.realised.objects.items()
            if path.startswith("links.") and "sleep_overshoot_p99_ns" in thing.read_back
        ]
        if overshoot:
            found.setdefault((record.link_realisation, "sleeps end late, p99"), []).append(max(overshoot))
        for key, title in _CAPACITY.items():
            told = [
                float(thing.read_back[key])
                for path, thing in record.realised.objects.items()
                if path.startswith("links.") and key in thing.read_back
            ]
            if told:
                found.setdefault((record.link_realisation, title), []).append(max(told))
    return tuple(_spread(links, title, sorted(values)) for (links, title), values in sorted(found.items()))


def _spread(links: str, title: str, values: list[float]) -> dict[str, str]:
    unit = "ratio" if title == LATE_SHARE else "1/s" if title in _CAPACITY.values() else "ns"
    shown = display(unit, values)
    ends = {"smallest": values[0], "median": values[len(values) // 2], "largest": values[-1]}
    texts = {name: shown.text(value) for name, value in ends.items()}
    return {"links": links, "figure": title, **texts, "runs": str(len(values))}
