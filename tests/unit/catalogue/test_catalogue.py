"""What a file can name: every declaration is complete, known to its neighbours, and documented."""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from virtlab.catalogue import PLATFORMS, QDISCS, SERVICES, VSWITCHES, WORKLOADS, Parameter, Platform, Workload
from virtlab.catalogue.actions import playable
from virtlab.metrics import METRICS
from virtlab.plan import BLOCKS

ROOT = Path(__file__).parents[3]
REFERENCE = (ROOT / "docs" / "reference" / "workloads.md").read_text()
FILE_REFERENCE = (ROOT / "docs" / "reference" / "experiment-file.md").read_text()
ENTRIES = [*WORKLOADS.values(), *PLATFORMS.values(), *VSWITCHES.values(), *QDISCS.values()]
PARAMETERS = [
    pytest.param(entry, parameter, id=f"{entry.name}.{parameter.name}")
    for entry in [*WORKLOADS.values(), *QDISCS.values()]
    for parameter in entry.parameters
]


def defaults(workload: Workload) -> dict[str, object]:
    """Plan values of a workload of which a file says nothing but what it must."""
    values: dict[str, object] = {}
    for parameter in workload.parameters:
        written = parameter.default if parameter.default is not None else None
        if written is None and parameter.required:
            written = parameter.kind.example
            written = YAML(typ="safe").load(written) if written.startswith(("[", "{")) else written
        if written is not None:
            values |= parameter.plan_values(written)
    return values


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_a_declaration_names_its_arms_and_what_it_means(entry: Workload) -> None:
    assert entry.meaning
    assert set(entry.arms) == {"testbed", "simulator"}
    assert all(reason is None or reason for reason in entry.arms.values())


@pytest.mark.parametrize(("entry", "parameter"), PARAMETERS)
def test_a_parameter_takes_its_own_example_and_default(entry: Workload, parameter: Parameter) -> None:
    examples = {
        "count": 100,
        "truth value": True,
        "802.1p priority": 5,
        "weight": 2,
        "port": 8080,
    }  # these are no text in a file
    example = parameter.kind.example
    written = YAML(typ="safe").load(example) if example.startswith(("[", "{")) else example
    assert parameter.plan_values(examples.get(parameter.kind.name, written))
    if parameter.default is not None:
        assert parameter.plan_values(parameter.default)
    bare = re.search(r"_(ns|bytes|bit_per_s|per_s|pps|ratio)$", parameter.plan)
    assert (
        bare
        or parameter.kind.name
        in {
            "choice",
            "count",
            "truth value",
            "DSCP",
            "802.1p priority",
            "weight",
            "path",
            "command",
            "port",
            "guest",
            "name",
            "file beside the experiment file",
            "files",
            "directory",
            "user",
            "cost of a program",
        }
        or parameter.kind.name.startswith(("list", "split"))
    )


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=lambda workload: workload.name)
def test_a_workload_with_its_defaults_can_run(workload: Workload) -> None:
    values = defaults(workload)
    assert workload.check(values) == []
    duration_ns = workload.duration_ns(values)
    assert (duration_ns is None) is (workload.part == "load")
    rows = workload.rows(values, 10**9)
    assert set(rows) <= set(workload.streams)  # psping's ICMP ping keeps other rows than its other tests
    assert set(rows) <= set(BLOCKS)
    assert all(BLOCKS[schema].disk_bytes for schema in rows)
    assert all(count > 0 for count in rows.values())


def test_every_default_that_files_and_plans_share_is_that_of_a_parameter() -> None:
    shared = json.loads((ROOT / "python/virtlab/catalogue/workloads/defaults.json").read_text())
    del shared["tcp_stream"]["interval_ns"]  # of rows; a file says nothing of it
    for name in ("subtasks", "demand_variation_ratio"):  # Plans without such a demand leave them out
        del shared["request_response"][name]
    for workload, values in shared.items():
        assert {name: defaults(WORKLOADS[workload])[name] for name in values} == values


def test_every_workload_measures_metrics_of_the_registry_that_are_of_roles() -> None:
    for workload in WORKLOADS.values():
        assert workload.metrics
        assert {METRICS[key].of for key in workload.metrics} == {"role"}


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=lambda workload: workload.name)
def test_a_workload_and_its_parameters_are_in_the_reference(workload: Workload) -> None:
    section = REFERENCE.partition(f"## `{workload.name}`: {workload.meaning}\n")[2].partition("\n## ")[0]
    assert section
    for parameter in workload.parameters:
        assert f"`{parameter.name}`" in section
    assert all(f"`{meter}`" in section for meter in workload.meters if meter != "virtlab")


def test_disciplines_and_their_parameters_are_in_the_reference() -> None:
    for name, discipline in QDISCS.items():
        names = " ".join(parameter.name for parameter in discipline.parameters)
        row = f"| `{name}` | {', '.join(discipline.limit)} | {f'`{names}` ' if names else ''}|"
        assert row in FILE_REFERENCE


@pytest.mark.parametrize(
    ("workload", "values", "expected"),
    [
        ("rtt", {"payload_bytes": 65_501}, "more than an echo can carry"),
        ("rtt", {"ip_packet_bytes": 27}, "less than its headers"),
        ("burst_load", {"burst_bytes": 65_508, "streams": 1}, "at least 2 streams"),
        ("burst_load", {"burst_bytes": 2, "streams": 3}, "cannot be shared by 3 streams"),
        ("burst_load", {"phase_ns": 10_000_000}, "not shorter than the period"),
        ("udp_stream", {"payload_bytes": 15}, "no room for sequence number"),
        ("udp_stream", {"payload_bytes": 65_508}, "more than one datagram can carry"),
        ("psping", {"test": "ping", "protocol": "udp"}, "write icmp or tcp"),
        ("psping", {"protocol": "icmp"}, "write tcp or udp"),
        ("psping", {"protocol": "udp", "request_bytes": 65_508}, "at most '65507 B'"),
        ("psping", {"request_bytes": 0}, "at least '1 B'"),
        ("psping", {"test": "ping", "protocol": "icmp", "limit_ns": 1}, "remove 'at_most'"),
        ("raw_stream", {"frame_bytes": 63}, "does not exist"),
        ("rt_tasks", {"tasks": []}, "there is no task"),
        ("rt_tasks", {"period_ns": 99_999}, "the kernel takes no such period"),
        ("rt_tasks", {"budget_ns": 10_000_001}, "more than one CPU"),
        ("rt_tasks", {"overhead_ns": 10_000_000}, "leaves nothing"),
        ("rt_tasks", {"server": "quota", "budget_ns": 999_999}, "at least 1 ms"),
        (
            "rt_tasks",
            {"server": "quota", "competitors": [{"period_ns": 9, "budget_ns": 1}]},
            "under SCHED_DEADLINE",
        ),
        ("rt_tasks", {"duration_ns": 495_999_999}, "write between '496 ms' and '120 s'"),
        ("rt_tasks", {"phases": 10_000}, "longer than 2 min"),
    ],
)
def test_values_that_do_not_go_together_are_refused(
    workload: str, values: dict[str, int], expected: str
) -> None:
    entry = WORKLOADS[workload]
    sizes = {"frame_bytes", "ip_packet_bytes", "payload_bytes"}
    base = {
        key: value for key, value in defaults(entry).items() if not (sizes & set(values) and key in sizes)
    }
    ((_, text),) = entry.check(base | values)
    assert expected in text


def test_the_largest_burst_of_a_stream_is_accepted() -> None:
    entry = WORKLOADS["burst_load"]
    assert entry.check(defaults(entry) | {"burst_bytes": 3 * 65_507, "streams": 3}) == []


# What a platform has of its own, and the action that a timeline would play it with.
PLAYED_BY = {"migration": "migrate", "snapshots": "snapshot"}


@pytest.mark.parametrize("feature", PLAYED_BY)
@pytest.mark.parametrize("platform", PLATFORMS.values(), ids=lambda platform: platform.name)
def test_a_platform_claims_only_what_a_timeline_can_play(platform: Platform, feature: str) -> None:
    text = getattr(platform.features, feature)
    of_another = text.endswith("; not played by virtlab")
    if PLAYED_BY[feature] in playable():
        assert not of_another, "it is played now"
    else:
        assert of_another or text.split(":")[0] in {"none", "not ours"}


@pytest.mark.parametrize(
    ("package", "declared"), [("workloads", WORKLOADS), ("qdiscs", QDISCS), ("services", SERVICES)]
)
def test_each_declaration_of_a_package_is_found_by_its_name(
    package: str, declared: Mapping[str, Any]
) -> None:
    assert [entry.name for entry in declared.values()] == list(declared)
    folder = import_module(f"virtlab.catalogue.{package}")
    modules = [
        import_module(f"{folder.__name__}.{entry.name}") for entry in pkgutil.iter_modules(folder.__path__)
    ]
    kinds = {type(entry) for entry in declared.values()}
    there = {value.name for module in modules for value in vars(module).values() if type(value) in kinds}
    assert there == set(declared)
