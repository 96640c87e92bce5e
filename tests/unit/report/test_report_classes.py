"""Classes of queues show as figures: waits and drops, in the directions in which they are worst."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from virtlab.report.figures.machines.classes import class_figures
from virtlab.report.gather.model import ClassSeen


def seen(
    direction: str, name: str, wait_ns: float, dropped: float = 0.0, setting: str = "load 50 kB"
) -> ClassSeen:
    return ClassSeen(setting, direction, name, 3, wait_ns, 2 * wait_ns, dropped)


def figures(*classes: ClassSeen) -> Any:
    return class_figures(SimpleNamespace(world=SimpleNamespace(classes=classes)))  # type: ignore[arg-type]


def test_waits_and_drops_of_the_worst_directions_are_drawn_a_bar_per_class() -> None:
    found = figures(
        seen("s1 → h2", "c1", 1e6), seen("s1 → h2", "c4", 12e6, 0.3),
        seen("h1 → s1", "c1", 2e5), seen("h1 → s1", "c4", 3e5),
        seen("h2 → s1", "c1", 1e3), seen("h2 → s1", "c4", 2e3),
    )  # fmt: skip
    waits, drops = found
    assert (waits.name, drops.name) == ("waits-of-classes", "drops-of-classes")
    bars = [row for row in waits.spec["data"]["values"] if row["kind"] == 0]
    assert {(row["panel"], row["class"], row["x"], row["high"]) for row in bars} == {
        ("s1 → h2", "c1", 1.0, 2.0), ("s1 → h2", "c4", 12.0, 24.0), ("h1 → s1", "c1", 0.2, 0.4),
        ("h1 → s1", "c4", 0.3, 0.6),
    }  # fmt: skip
    assert "wait (ms)" in str(waits.spec)
    assert "12 ms of class c4" in waits.alt
    assert {row["x"] for row in drops.spec["data"]["values"]} == {0.0, 30.0}


def test_where_nothing_was_dropped_only_waits_are_drawn() -> None:
    (waits,) = figures(seen("a → b", "voice", 10.0), seen("a → b", "rest", 30.0))
    assert waits.name == "waits-of-classes"


def test_a_queue_without_classes_or_with_one_in_use_has_no_figure() -> None:
    assert figures(seen("a → b", "", 1e6)) == []
    assert figures(seen("a → b", "c4", 1e6), seen("b → a", "c4", 1e6)) == []
