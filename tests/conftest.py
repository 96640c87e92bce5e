"""What every test may lean on. Tests that build real worlds do so one after the other in one process of several
(`--dist loadgroup`): beside each other they would measure each other. Those whose guests are programs of their own
(machines, containers, switches, other hosts) are a second such group, machines that move or carry a world (moves, the
laboratory) a third, and pages of the documentation, whose commands hold the lock of the machine, a fourth. The closing
lines say how long each took: the longest bounds how long all tests take. What is required is not skipped
(`required.py`). Tests of what takes long to make, or of files of the studies, which take long to read, stay in one
process.

A test that starts processes or worlds depends on the time that a shared machine gives them. If it fails, it is repeated
once before it is judged; the closing lines count and list the tests that needed it. Other tests are judged at once, and
so is one that ran into its time limit.
"""

from __future__ import annotations

import gc
import os
from collections import defaultdict
from collections.abc import Generator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests import alone, required, turns, variants

from virtlab.testbed.build import idle

# How long an example takes, or is made in, is the machine's business: no test is timed. The examples are the same every
# time, so what fails has a cause in what was changed; others are drawn with HYPOTHESIS_PROFILE=search, fewer with
# quick.
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("search"), derandomize=True)
settings.register_profile("quick", settings.get_profile("same"), max_examples=20)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

REAL = ("testbed", "parity", "contract")
OF_PROCESSES = (*REAL, "docs", "process")
REPEATED = pytest.mark.flaky(reruns=1, rerun_except=["from pytest-timeout"])
GROUPS = {  # of real worlds, by words in the names of files; a file takes the first that has one of its words
    "moves": ("migration", "lab_vm"),
    "programs": (
        "appliance",
        "container",
        "existing",
        "kept",
        "libvirt",
        "machine",
        "open_vswitch",
        "xen",
    ),
}
OTHERS, PAGES, STUDIES = "machine", "pages", "studies"
# Who begins first: pages after machines and moves, as commands of a page and runs of others' worlds wait for each
# other.
ORDER = (OTHERS, "programs", "moves", PAGES)
LIMITS_S = {
    OTHERS: 1440,
    "programs": 960,
    "moves": 960,
    PAGES: 480,
}  # of each group, as `.ci/run` has of each part
LONGEST_NAME = 200  # of a value in the name of a test
_seconds: defaultdict[str, float] = defaultdict(float)  # of each group, where several processes test


def group_of(stem: str) -> str:
    """The group of a file of real worlds."""
    return next((name for name, words in GROUPS.items() if any(word in stem for word in words)), OTHERS)


def place(item: pytest.Item) -> tuple[int, bool]:
    """Where a test is in the order of groups: those of no group of real worlds come last. Within its group it is first
    when no other may run beside it, as long tests that it waits for have hardly begun then.
    """
    marker = item.get_closest_marker("xdist_group")
    group = marker.args[0] if marker is not None else ""
    order = ORDER.index(group) if group in ORDER else len(ORDER)
    return order, item.get_closest_marker("undisturbed") is None


@cache
def made_once(path: Path) -> str | None:
    """The group of a file whose tests share what takes long to make: in one process it is made once."""
    source = path.read_text(encoding="utf-8")
    if "from tests.shipped import" in source:
        return STUDIES
    return path.relative_to(Path(__file__).parent).as_posix() if 'scope="module"' in source else None


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Megabytes that a test is given are no name of it: each name is sent between processes several times."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_NAME:
        return f"{argname}-of-{len(val)}"
    return None


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before groups are read
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """One group of each kind, one of a file that makes something once; tests that depend on the machine are
    repeated.
    """
    here = Path(__file__).parent
    grouped = []
    for item in items:
        folder = item.path.relative_to(here).parts[0] if item.path.is_relative_to(here) else ""
        if folder in OF_PROCESSES or item.get_closest_marker("process") is not None:
            item.add_marker(REPEATED)
        if folder:
            variants.mark(item, item.path.relative_to(here).as_posix())
        if folder in REAL:
            item.add_marker(pytest.mark.xdist_group(group_of(item.path.stem)))
            grouped.append(item)
        elif folder == "docs":
            item.add_marker(pytest.mark.xdist_group(PAGES))
        elif folder and (group := made_once(item.path)) is not None:
            item.add_marker(pytest.mark.xdist_group(group))
    if getattr(config.option, "loadscopereorder", True) is False:
        items.sort(key=place)
    yield
    if getattr(config.option, "loadgroup", False) and not all("@" in item.nodeid for item in grouped):
        raise pytest.UsageError(
            "these versions of pytest and pytest-xdist make no groups; install the locked ones"
        )


def pytest_configure(config: pytest.Config) -> None:
    """Names that are none are told at once."""
    try:
        required.required()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    alone.watch()
    if idle.is_virtual():  # processes answer each other at once, however busy the machine beneath is
        idle.hold_awake()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """How long each group takes is counted: the longest one bounds how long all tests take."""
    test, _, group = report.nodeid.rpartition("@")
    if test and group in {*GROUPS, OTHERS, PAGES}:
        _seconds[group] += report.duration


def over_limit(group: str, seconds: float) -> str:
    """What is added where a group took longer than it may: tests of it are moved, or run on demand."""
    return f" (over its limit of {LIMITS_S[group]} s)" if seconds > LIMITS_S[group] else ""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line of groups, the longest first, with those that are over their limits."""
    if _seconds:
        longest = sorted(_seconds.items(), key=lambda each: -each[1])
        said = ", ".join(f"{name} {seconds:.0f} s{over_limit(name, seconds)}" for name, seconds in longest)
        terminalreporter.write_line(f"groups of tests that build real worlds: {said}")


def pytest_collection_finish() -> None:
    """What was imported stays, so that no collection of garbage looks through it again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)  # a time limit begins with the turn
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool | None, bool | None]:
    """A test has its turn from its first fixture to its last, and one that must be alone is."""
    with turns.turn(undisturbed=item.get_closest_marker("undisturbed") is not None):
        alone.begin(item)
        try:
            return (yield)
        finally:
            alone.end()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skip for the want of what is required is a failure."""
    report = yield
    names = required.required()
    if names and report.skipped and not hasattr(report, "wasxfail") and isinstance(report.longrepr, tuple):
        why = required.lacking(names, item.path, str(report.longrepr[2]).removeprefix("Skipped: "))
        if why is not None:
            report.outcome, report.longrepr = "failed", why
    return report
