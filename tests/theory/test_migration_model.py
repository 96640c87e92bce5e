"""The model of migrations: published and computed vectors, bounds beside the literature, and its command."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtlab.cli.main import main
from virtlab.prediction.migration import Course, Fixed, Moved, Order, Policy, courses, least

ROOT = Path(__file__).parents[2]
MIB = float(1 << 20)
GIB = float(1 << 30)
RATE = 128 * MIB


def one(memory_bytes: float, dirty: float, working_set: float | None = None, **policy: Any) -> Course:
    return courses([Moved(memory_bytes, dirty, working_set)], RATE, Policy(**policy))[0]


@pytest.mark.parametrize(
    ("dirty_mib", "working_set_mib", "rounds", "total_s", "pause_s"),
    [
        (32.0, None, 4, "42.6250", "0.12500"),
        (64.0, None, 7, "63.7500", "0.25000"),
        (115.2, None, 45, "317.4863", "0.27929"),
        (160.0, 30.0, 1, "32.2344", "0.23438"),
    ],
)
def test_pre_copy_of_four_gibibytes(
    dirty_mib: float, working_set_mib: float | None, rounds: int, total_s: str, pause_s: str
) -> None:
    found = one(4 * GIB, dirty_mib * MIB, None if working_set_mib is None else working_set_mib * MIB)
    assert (found.end, len(found.rounds)) == ("converged", rounds)
    assert found.total_s == pytest.approx(float(total_s), abs=0.5e-4 + 1e-9)
    assert found.pause_s == pytest.approx(float(pause_s), abs=0.5e-5 + 1e-9)


def test_a_working_set_that_is_written_faster_than_sent_needs_its_own_time_as_limit() -> None:
    moved = [Moved(4 * GIB, 160 * MIB, 512 * MIB)]
    assert courses(moved, RATE)[0].end == "never"
    assert least(moved, RATE).downtime_limit_ns == 4_000_000_000


def test_the_published_guest_of_fourteen_gigabytes_takes_about_two_minutes() -> None:
    with (ROOT / "published" / "hypervisor_comparison.csv").open() as file:
        stated = {
            row["platform"]: row for row in csv.DictReader(file) if row["metric"] == "total_migration_time"
        }
    assert {(row["value"], row["unit"], row["qualifier"]) for row in stated.values()} == {
        ("2", "min", "about")
    }
    found = courses([Moved(14e9, 5 * MIB)], 941e6 / 8)[0]
    assert len(found.rounds) == 2
    assert found.total_s == pytest.approx(124.564, abs=0.5e-3)
    assert found.pause_s == pytest.approx(0.2365, abs=0.5e-4)


def test_bounds_beside_the_literature_are_those_of_its_table() -> None:
    """Only these rows state memory or bandwidth beside a total; the page says what follows from each."""
    with (ROOT / "published" / "live_migration_literature.csv").open() as file:
        totals = {
            row["source_work"]: (row["condition"], float(row["value"]))
            for row in csv.DictReader(file)
            if row["metric"] == "total_migration_time" and "+" not in row["platform"]
        }
    page = (ROOT / "docs/reference/migration.md").read_text()
    condition, seconds = totals["Du et al. (Microwiper)"]
    assert condition.startswith("VM memory 1024 MB")
    assert f"{1024 / seconds:.1f} MB/s, {1024 * 8 / seconds:.0f} Mbit/s" in page
    condition, seconds = totals["Jo et al."]
    assert condition == "network 500 Mbit/s"
    assert f"at most {500e6 / 8 * seconds / 1e9:.1f} GB" in page
    assert f"V / R is {14e9 / (941e6 / 8):.1f} s" in page


def test_hot_and_post_copy_send_all_of_it_once() -> None:
    hot, post_copy = one(4 * GIB, 160 * MIB, mode="hot"), one(4 * GIB, 160 * MIB, mode="post_copy")
    assert (hot.pause_s, hot.total_s) == (32.0, 32.0)
    assert (post_copy.pause_s, post_copy.total_s) == (0.0, 32.0)


@pytest.mark.parametrize(("order", "all_s"), [("in_turn", 146.25), ("together", 255.75)])
def test_four_guests_share_the_bandwidth(order: Order, all_s: float) -> None:
    found = courses([Moved(4 * GIB, 16 * MIB)] * 4, RATE, order=order)
    assert max(course.begin_s + course.total_s for course in found) == all_s


@pytest.mark.slow
@given(
    st.floats(1e7, 1e11), st.floats(0, 1e8), st.floats(1e6, 1e9), st.floats(0.001, 1.0),
    st.sampled_from(["textbook", "qemu"]),
)  # fmt: skip
def test_a_pause_is_within_its_limit_and_all_that_is_sent_takes_its_time(
    memory: float, dirty: float, working_set: float, limit_s: float, rule: Any
) -> None:
    fixed = Fixed(setup_s=0.25, device_state_s=0.01, reconvergence_s=0.5)
    policy = Policy(rule=rule, downtime_limit_s=limit_s)
    found = courses([Moved(memory, dirty, working_set, fixed)], RATE, policy)[0]
    if found.end == "converged":
        assert found.pause_s <= limit_s + 0.01 + 1e-6
        assert found.total_s - 0.26 == pytest.approx(found.bytes / RATE, rel=1e-6, abs=1e-6)
        assert found.blackout_s == pytest.approx(found.pause_s + 0.5)
        assert found.bytes >= memory * (1 - 1e-9)


@pytest.mark.slow
@given(st.floats(1e8, 1e10), st.floats(1e6, 3e8), st.floats(0.01, 1.0), st.floats(2.0, 500.0))
def test_what_is_least_is_enough_and_a_little_less_is_not(
    memory: float, dirty: float, limit_s: float, within_s: float
) -> None:
    policy = Policy(downtime_limit_s=limit_s)
    moved = Moved(memory, dirty)
    rate = least([moved], RATE, policy, within_s=within_s).bandwidth_byte_per_s

    def arrives(bandwidth: float) -> bool:
        found = courses([moved], bandwidth, policy)[0]
        return found.end == "converged" and found.total_s <= within_s

    assert rate is not None
    assert arrives(rate)
    assert rate == 1 or not arrives(rate - 1)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = 0
    try:
        main(["migration", *arguments])
    except SystemExit as end:
        code = int(end.code or 0)
    caught = capsys.readouterr()
    return code, caught.out, caught.err


FOUR = ("--memory", "4 GiB", "--bandwidth", "128 MiB/s")


def test_the_command_says_what_the_model_says(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, *FOUR, "--dirty-rate", "64 MiB/s", "--json")
    said = json.loads(out)
    assert (code, said["arrived"], said["kept"], said["all_s"]) == (0, True, True, 63.75)
    assert [round(each["bytes"] / MIB) for each in said["guests"][0]["rounds"]] == [
        4096 >> n for n in range(7)
    ]


def test_the_command_ends_with_1_where_a_guest_never_arrives(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, *FOUR, "--dirty-rate", "160 MiB/s", "--working-set", "512 MiB")
    assert code == 1
    assert "never arrives" in out
    assert "smallest downtime limit to arrive: 4 s" in out
    assert run(capsys, *FOUR, "--within", "31 s")[0] == 1
    assert run(capsys, *FOUR, "--within", "32 s")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--memory", "4", "--bandwidth", "1 Gbit/s"), "--memory: '4' has no unit"),
        (("--memory", "0 B", "--bandwidth", "1 Gbit/s"), "--memory: a guest without memory"),
        (("--memory", "4 GiB", "--bandwidth", "0 B/s"), "--bandwidth: nothing moves"),
        ((*FOUR, "--dirty-rate", "-3 B/s"), "--dirty-rate: '-3 B/s' must be zero or more"),
        ((*FOUR, "--mode", "cold"), "add --shutdown and --boot"),
        ((*FOUR, "--mode", "warm"), "--mode"),
    ],
)
def test_a_mistake_is_named_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err
