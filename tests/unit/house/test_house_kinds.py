"""A kind is spelled in its own files: what is asked of one elsewhere is asked of its declared traits.

Counted are source files that hold a kind's name as a whole quoted literal. Where the same word is something else
(`namespace` the kernel's object that a command runs in, `run` the unit of a campaign) `OTHER_SENSES` has the file,
or the folder of files in which it is nothing but that. It is reviewed by hand.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from tools.sections import PLACE as WRITTEN

from virtlab.catalogue import ACTIONS, PLATFORMS, QDISCS, SERVICES, VSWITCHES, WORKLOADS

ROOT = Path(__file__).parents[3]
MOST = 6  # of any kind
MEAN = 3  # of all kinds
KEY = "a key of requests to an agent and of what is read back: the kernel's namespace"
LINKS = "how links are realised, as `realise` names it"
METRIC = "the metric, of whichever workload"
REQUEST = "a request to an agent, which no action is"
SCRIPT = "the name that a shell's script has in its list of arguments"
ANCHOR = "where a text is anchored"
MONITOR = "a command of QEMU's monitor"
COLUMN = "a column of ovs-vsctl's commands"
TEST = "a test of benchmarks, after RFC 2544 and RFC 6201"
MARK = "the mark at which a role's own counters are read"
UNIT = "the unit of a campaign"
CLOCK = "the clock of a run"
FOLDER = "the folder /run"
BROUGHT = "the files that a program brings"
OTHER_SENSES: dict[str, dict[str, str]] = {
    "rtt": {
        "crates/virtlab-agent/src/probe/workload/meters/iperf3.rs": "a field of iperf3's output",
        "python/virtlab/analysis/claims/__init__.py": METRIC,
        "python/virtlab/analysis/effects.py": METRIC,
        "python/virtlab/analysis/workloads/psping.py": METRIC,
        "python/virtlab/analysis/workloads/rtt.py": METRIC,
        "python/virtlab/catalogue/workloads/psping.py": METRIC,
        "python/virtlab/cli/prediction/predict.py": METRIC,
        "python/virtlab/imported/iperf3.py": "a field of iperf3's output",
        "python/virtlab/imported/psping.py": METRIC,
        "python/virtlab/metrics/__init__.py": METRIC,
        "python/virtlab/metrics/network.py": METRIC,
        "python/virtlab/metrics/path.py": METRIC,
        "python/virtlab/prediction/validation.py": METRIC,
        "python/virtlab/report/gather/contrasts/bounds.py": METRIC,
        "python/virtlab/report/gather/contrasts/comparison.py": METRIC,
        "python/virtlab/report/gather/distributions/samples.py": METRIC,
        "python/virtlab/report/gather/selection.py": METRIC,
        "python/virtlab/report/names.py": METRIC,
        "python/virtlab/stats/__init__.py": METRIC,
        "python/virtlab/stats/estimate.py": METRIC,
    },
    "namespace": {
        "crates/virtlab-leader/src/world/operation.rs": KEY,
        "python/virtlab/testbed/steps/operations.py": KEY,
        "python/virtlab/testbed/readback.py": KEY,
        "python/virtlab/testbed/build/world.py": KEY,
        "python/virtlab/testbed/platforms/xen/domains.py": KEY,
    },
    "netem": {
        "python/virtlab/experiment/read/leaves.py": LINKS,
        "python/virtlab/plan/backend.py": LINKS,
        "python/virtlab/plan/model.py": LINKS,
        "python/virtlab/report/gather/queues.py": LINKS,
        "python/virtlab/testbed/build/fabric.py": LINKS,
        "python/virtlab/testbed/build/lower.py": LINKS,
        "python/virtlab/testbed/kinds/findings.py": LINKS,
        "python/virtlab/testbed/build/link_refusals.py": LINKS,
        "python/virtlab/testbed/refusals.py": LINKS,
    },
    "libvirt": {"python/virtlab/realtime/export.py": "a format of parameters for a scheduler"},
    "qemu": {
        "python/virtlab/testbed/platforms/qemu/kvm.py": "the emulator, as doctor lists it",
        "python/virtlab/testbed/image/firmware.py": "a folder of the system",
        "python/virtlab/testbed/lab/vm.py": "the emulator's version among conditions of a run",
    },
    "xen": {
        "python/virtlab/cli/machine/image.py": "the flavour of a kernel",
        "python/virtlab/cli/experiment/run.py": "a laboratory machine, as --in names it",
        "python/virtlab/realtime/export.py": "a format of parameters for a scheduler",
        "python/virtlab/testbed/image/kernels.py": "the flavour of a kernel",
        "python/virtlab/testbed/image/xen.py": "the hypervisor's file, and a folder for its package",
    },
    "psping": {"python/virtlab/imported/readers.py": "the tool, whatever it measured"},
    "exec": {
        "crates/virtlab-leader/src/answer.rs": REQUEST,
    },
    "reset": {
        "python/virtlab/campaign/execution/search.py": TEST,
        "python/virtlab/campaign/execution/trial.py": TEST,
        "python/virtlab/experiment/schema.py": TEST,
        "python/virtlab/experiment/work/benchmark.py": TEST,
        "python/virtlab/metrics/benchmarks.py": TEST,
        "python/virtlab/testbed/platforms/qemu/machines.py": MONITOR,
    },
    "run": {
        "python/virtlab/analysis/judging/text.py": UNIT,
        "python/virtlab/campaign/": UNIT,
        "python/virtlab/cli/": "a command, and the unit of a campaign",
        "python/virtlab/plan/seeds.py": UNIT,
        "python/virtlab/realtime/": "a key of rt-app's tasks",
        "python/virtlab/report/": UNIT,
        "python/virtlab/results/": UNIT,
        "python/virtlab/simulator/session.py": CLOCK,
        "python/virtlab/testbed/image/initramfs.py": FOLDER,
        "python/virtlab/testbed/kinds/container_runtime.py": "a command of container runtimes",
        "python/virtlab/testbed/platforms/container/bundle.py": FOLDER,
        "python/virtlab/testbed/platforms/container/engine.py": "a command of podman, and a folder",
        "python/virtlab/testbed/play/run.py": CLOCK,
    },
    "set": {
        "python/virtlab/testbed/queues/ovs.py": COLUMN,
        "python/virtlab/testbed/vswitches/ovs_applied.py": COLUMN,
        "python/virtlab/testbed/vswitches/ovs_rules.py": COLUMN,
    },
    "start": {
        "crates/virtlab-agent/src/probe/workload/meters/iperf3.rs": "a field of iperf3's output",
        "crates/virtlab-agent/src/switch/request.rs": REQUEST,
        "python/virtlab/imported/iperf3.py": "a field of iperf3's output",
        "python/virtlab/plan/blocks.py": MARK,
        "python/virtlab/report/figures/": ANCHOR,
        "python/virtlab/testbed/build/routing.py": SCRIPT,
        "python/virtlab/testbed/platforms/libvirt/domains.py": "a command of virsh",
    },
    "stop": {
        "crates/virtlab-sim/src/samples/readings.rs": MARK,
        "python/virtlab/campaign/dispatch/local.py": "that a campaign is interrupted",
        "python/virtlab/plan/blocks.py": MARK,
        "python/virtlab/testbed/platforms/appliance/appliances.py": MONITOR,
        "python/virtlab/testbed/platforms/qemu/machines.py": MONITOR,
    },
    "wait": {"python/virtlab/testbed/vswitches/ovs.py": SCRIPT},
    "files": {
        "python/virtlab/catalogue/kinds.py": BROUGHT,
        "python/virtlab/catalogue/services/program.py": BROUGHT,
        "python/virtlab/catalogue/workloads/program.py": BROUGHT,
        "python/virtlab/cli/guest_commands.py": BROUGHT,
        "python/virtlab/testbed/services/files.py": BROUGHT,
    },
}
MOST_OTHERS = 85  # entries of that list; where one goes, this goes down with it
# Each once: `program` is a workload and a service, and its files are counted together.
KINDS = sorted({*WORKLOADS, *PLATFORMS, *VSWITCHES, *QDISCS, *ACTIONS, *SERVICES})


def is_test(path: Path) -> bool:
    """Whether a file is one of a crate's own tests; `campaign/tests` are tests of devices, and sources of ours."""
    return path.parts[0] == "crates" and path.parts[2] == "tests"


@cache
def sources() -> dict[str, str]:
    """Path from the root -> text, of everything but tests, and what a tool writes from the declarations."""
    files = [*(ROOT / "python/virtlab").rglob("*.py"), *(ROOT / "crates").rglob("*.rs")]
    return {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for path in files
        if not is_test(path.relative_to(ROOT)) and path != WRITTEN
    }


@cache
def literals() -> dict[str, set[str]]:
    """Quoted word -> the files that hold it. A match takes its first quote alone, so none hides another."""
    found: dict[str, set[str]] = {}
    for path, text in sources().items():
        for match in re.finditer(r"""(["'])(?=([\w.-]+)\1)""", text):
            found.setdefault(match[2], set()).add(path)
    return found


def spelled(kind: str) -> frozenset[str]:
    """Files that hold a kind's name as a quoted literal."""
    assert re.fullmatch(r"[\w.-]+", kind)
    return frozenset(literals().get(kind, ()))


def within(path: str, entry: str) -> bool:
    """Whether an entry of the list, a file or a folder, has that file."""
    return path.startswith(entry) if entry.endswith("/") else path == entry


@cache
def named(kind: str) -> frozenset[str]:
    """Files that spell a kind, and mean it."""
    others = OTHER_SENSES.get(kind, {})
    return frozenset(path for path in spelled(kind) if not any(within(path, entry) for entry in others))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_spelled_in_its_own_files(kind: str) -> None:
    assert len(named(kind)) <= MOST, sorted(named(kind))


@pytest.mark.slow
def test_all_kinds_together_are_spelled_in_three_files_each_on_average() -> None:
    files = {kind: len(named(kind)) for kind in KINDS}
    assert sum(files.values()) <= MEAN * len(KINDS), files


@pytest.mark.slow
def test_a_declaration_spells_its_kind() -> None:
    assert all(any("/catalogue/" in path for path in named(kind)) for kind in KINDS)


def test_the_list_of_other_senses_shrinks_and_its_ceiling_with_it() -> None:
    assert sum(map(len, OTHER_SENSES.values())) == MOST_OTHERS


@pytest.mark.slow
def test_the_list_of_other_senses_names_only_what_is_there() -> None:
    assert set(OTHER_SENSES) <= set(KINDS)
    gone = {
        (kind, entry)
        for kind, files in OTHER_SENSES.items()
        for entry in files
        if not any(within(path, entry) for path in spelled(kind))
    }
    assert not gone
