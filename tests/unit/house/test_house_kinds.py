"""A kind is spelled in its own files: what is asked of one elsewhere is asked of its declared traits.

Counted are source files that hold a kind's name as a whole quoted literal. Where the same word is something else
(`namespace` the kernel's object that a command runs in, `run` the unit of a campaign) `OTHER_SENSES` has the file,
or the folder of files in which it is nothing but that. It is reviewed by hand.

A file that imports a kind's declaration, or anything else from the declaration's own file, knows the kind as well as
one that spells it. So files are counted with these, too, against bounds of their own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest
from tools.sections import PLACE as WRITTEN

from virtlab.catalogue import ACTIONS, PLATFORMS, QDISCS, SERVICES, VSWITCHES, WORKLOADS

ROOT = Path(__file__).parents[3]
MOST = 6  # of any kind
MEAN = 3  # of all kinds
MOST_KNOWING = 17  # files of any kind, with those that import of its declaration
ALL_KNOWING = 248  # of all kinds together; both may only shrink
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
        "python/virtlab/analysis/effects/added.py": METRIC,
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


SORTS: Mapping[str, Mapping[str, object]] = {
    "actions": ACTIONS, "platforms": PLATFORMS, "qdiscs": QDISCS, "services": SERVICES, "vswitches": VSWITCHES,
    "workloads": WORKLOADS,
}  # fmt: skip


@cache
def declared() -> dict[str, dict[str, str]]:
    """Module of a declaration -> the constants of the kinds that it declares, and the kinds."""
    found: dict[str, dict[str, str]] = {}
    for sort, kinds in SORTS.items():
        package = f"virtlab.catalogue.{sort}"
        for kind in kinds:
            module = kind.replace("-", "_")
            if not (ROOT / "python" / package.replace(".", "/") / f"{module}.py").exists():
                (module,) = (
                    Path(path).stem for path in spelled(kind) if Path(path).parent.name == sort
                )  # several kinds in a file
            found.setdefault(f"{package}.{module}", {})[kind.replace("-", "_").upper()] = kind
    return found


def imported_of(node: ast.ImportFrom) -> set[str]:
    """The kinds of whose declarations a statement imports anything."""
    found: set[str] = set()
    for name in (alias.name for alias in node.names):
        whole = declared().get(f"{node.module}.{name}")
        of_module = whole or declared().get(str(node.module), {})
        of_package = {
            constant: kind
            for module, kinds in declared().items()
            if module.rpartition(".")[0] == node.module
            for constant, kind in kinds.items()
        }
        if name in of_module or name in of_package:
            found.add(of_module.get(name) or of_package[name])
        else:
            found |= set(of_module.values())
    return found


@cache
def knowing() -> dict[str, frozenset[str]]:
    """Kind -> the files that spell it or import of its declaration, but for the list of its sort."""
    found = {kind: set(named(kind)) for kind in KINDS}
    lists = {f"python/virtlab/catalogue/{sort}/__init__.py" for sort in SORTS}
    for path, text in sources().items():
        if path.endswith(".py") and path not in lists and "virtlab.catalogue" in text:
            for node in ast.walk(ast.parse(text)):
                for kind in imported_of(node) if isinstance(node, ast.ImportFrom) else ():
                    found[kind].add(path)
    return {kind: frozenset(files) for kind, files in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("heading", "names", "beside"),
    [
        ("The queue discipline PIE", r"\b(?:pie|Pie|PIE)\b", "benches/*.py"),
        ("The workload `http_get`", "http_get|HttpGet|HTTP_GET", "python/virtlab/**/*.json"),
    ],
)
def test_the_page_of_what_a_kind_costs_names_every_file_that_spells_it(
    heading: str, names: str, beside: str
) -> None:
    page = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
    section = page.partition(f"## {heading}")[2].partition("\n## ")[0]
    others = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in ROOT.glob(beside)}
    texts = sources() | others
    del texts["python/virtlab/units/nearest.py"]  # its example has a pie, as a word that no other is near
    spelling = {path for path, text in texts.items() if re.search(names, text)}
    assert set(re.findall(r"^\| `([\w./-]+)` \|", section, re.MULTILINE)) == spelling
    assert section.startswith(f": {len(spelling)} files\n")


@pytest.mark.slow
def test_few_files_know_a_kind_by_its_name_or_by_its_declaration() -> None:
    files = {kind: len(paths) for kind, paths in knowing().items()}
    assert max(files.values()) <= MOST_KNOWING, files
    assert sum(files.values()) <= ALL_KNOWING, files


@pytest.mark.slow
def test_an_import_of_a_declaration_counts_for_its_kind_alone() -> None:
    def kinds(line: str) -> set[str]:
        (node,) = ast.parse(line).body
        assert isinstance(node, ast.ImportFrom)
        return imported_of(node)

    assert kinds("from virtlab.catalogue.actions import RESET, begins") == {"reset"}
    assert kinds("from virtlab.catalogue.workloads.raw_stream import RAW_STREAM") == {"raw_stream"}
    assert kinds("from virtlab.catalogue.workloads.rtt import anything") == {"rtt"}
    assert kinds("from virtlab.catalogue.workloads import rtt") == {"rtt"}
    assert kinds("from virtlab.catalogue.qdiscs.fifo import PFIFO") == {"pfifo"}
    assert kinds("from virtlab.catalogue.qdiscs.fifo import anything") == {
        "fifo",
        "pfifo",
        "bfifo",
        "pfifo_fast",
    }
    assert kinds("from virtlab.catalogue import WORKLOADS") == set()


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
