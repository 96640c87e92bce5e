"""A kind is spelled in its own files: what is asked of one elsewhere is asked of its declared traits.

Counted are source files that hold a kind's name as a whole quoted literal. Where the same word is something else
(`namespace` the kernel's object that a command runs in, `xen` a format) `OTHER_SENSES` has the file, reviewed by hand.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from virtlab.catalogue import ACTIONS, PLATFORMS, QDISCS, VSWITCHES, WORKLOADS

ROOT = Path(__file__).parents[3]
MOST = 6  # of any kind that is not in the table
# Kinds that more files spell than that, and how many: a row may only shrink, and goes when it is down to `MOST`.
CEILINGS = {
    "start": 14,
    "stop": 9,
    "exec": 18,
    "reset": 9,
}
KEY = "a key of requests to an agent and of what is read back: the kernel's namespace"
LINKS = "how links are realised, as `realise` names it"
METRIC = "the metric, of whichever workload"
OTHER_SENSES: dict[str, dict[str, str]] = {
    "rtt": {
        "crates/virtlab-agent/src/probe/workload/meter_iperf3.rs": "a field of iperf3's output",
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
        "python/virtlab/report/gather/bounds.py": METRIC,
        "python/virtlab/report/gather/comparison.py": METRIC,
        "python/virtlab/report/gather/samples.py": METRIC,
        "python/virtlab/report/gather/selection.py": METRIC,
        "python/virtlab/report/names.py": METRIC,
        "python/virtlab/stats/__init__.py": METRIC,
        "python/virtlab/stats/estimate.py": METRIC,
    },
    "namespace": {
        "crates/virtlab-agent/src/leader/world/operation.rs": KEY,
        "python/virtlab/testbed/build/machine.py": KEY,
        "python/virtlab/testbed/steps/operations.py": KEY,
        "python/virtlab/testbed/build/pinning.py": KEY,
        "python/virtlab/testbed/readback.py": KEY,
        "python/virtlab/testbed/build/routing.py": KEY,
        "python/virtlab/testbed/build/world.py": KEY,
        "python/virtlab/testbed/lab/vm.py": KEY,
        "python/virtlab/testbed/lab/xen.py": KEY,
        "python/virtlab/testbed/leader/execution.py": KEY,
        "python/virtlab/testbed/leader/queries.py": KEY,
        "python/virtlab/testbed/platforms/appliance/appliances.py": KEY,
        "python/virtlab/testbed/platforms/container/containers.py": KEY,
        "python/virtlab/testbed/platforms/qemu/machines.py": KEY,
        "python/virtlab/testbed/platforms/xen/domains.py": KEY,
        "python/virtlab/testbed/platforms/xen/watching.py": KEY,
        "python/virtlab/testbed/play/probes.py": KEY,
        "python/virtlab/testbed/vswitches/ovs.py": KEY,
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
}
A_RUN = "run"  # also the unit of a campaign, a command, and a key of rows: not counted
KINDS = [kind for kind in (*WORKLOADS, *PLATFORMS, *VSWITCHES, *QDISCS, *ACTIONS) if kind != A_RUN]


@cache
def sources() -> dict[str, str]:
    """Path from the root -> text, of everything but tests."""
    files = [*(ROOT / "python/virtlab").rglob("*.py"), *(ROOT / "crates").rglob("*.rs")]
    return {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for path in files
        if "tests" not in path.relative_to(ROOT).parts
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


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_spelled_in_its_own_files(kind: str) -> None:
    files = spelled(kind) - OTHER_SENSES.get(kind, {}).keys()
    assert len(files) <= CEILINGS.get(kind, MOST), sorted(files)


def test_the_table_of_ceilings_and_the_list_of_other_senses_name_only_what_is_there() -> None:
    assert set(CEILINGS) <= set(KINDS)
    assert all(ceiling > MOST for ceiling in CEILINGS.values())
    gone = {kind: files.keys() - spelled(kind) for kind, files in OTHER_SENSES.items()}
    assert not any(gone.values()), gone


def test_a_workload_a_platform_or_a_virtual_switch_is_spelled_in_three_files_on_average() -> None:
    kinds = [*WORKLOADS, *PLATFORMS, *VSWITCHES]
    files = [len(spelled(kind) - OTHER_SENSES.get(kind, {}).keys()) for kind in kinds]
    assert sum(files) / len(kinds) <= 3
