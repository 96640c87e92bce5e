"""The keys of a role's parameters in a Plan are spelled in two languages: by the catalogue, which reads files, and by
the structures of `virtlab-load`, which agent and simulator read. Both refuse unknown keys, but only when a role is
armed. So the sources are compared here: the keys that `Parameter`s write, and the fields that serde accepts.

Whatever one side alone has is listed with its reason, and each entry has to be needed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from virtlab.catalogue import WORKLOADS
from virtlab.units import PacketSize

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "crates/virtlab-load/src/parameters"
OF_ALL_SIZES = "*_bytes"  # a size of packets, whose key says of which layer it is
IN_NO_STRUCTURE = {
    "program": "its command runs as it is, and the simulator plays the workload of `simulated_as`"
}

CODE_POINT = "each player reads it for every workload, apart from these structures"
OF_THE_WORLD = "a setting of the guest's kernel on the testbed; the simulator reads it apart"
OF_THE_SERVICE = "becomes a part of the address of the service's server"
ENTERED = "the planner resolves it to one server, or to `round_robin`"
CATALOGUE_ALONE: Mapping[str, Mapping[str, str]] = {
    "rtt": {"dscp": CODE_POINT},
    "burst_load": {"dscp": CODE_POINT},
    "udp_stream": {"dscp": CODE_POINT},
    "tcp_stream": {"dscp": CODE_POINT, "ecn": OF_THE_WORLD},
    "tcp_rr": {"dscp": CODE_POINT, "ecn": OF_THE_WORLD},
    "http_get": {
        "dscp": CODE_POINT, "ecn": OF_THE_WORLD, "port": OF_THE_SERVICE, "server": ENTERED,
    },
    "request_response": {
        "dscp": CODE_POINT, "ecn": OF_THE_WORLD, "port": OF_THE_SERVICE, "server": ENTERED,
        "trace": "the file's name; its instants become `trace_ns`",
    },
    "psping": {"histogram_buckets": "of the report"},
    "raw_stream": {"dscp": CODE_POINT, "split": "becomes `shares`"},
}  # fmt: skip

SERVICE = "of a role that ends at a service: its name, from `to`"
ROWS = "a test of the agent alone asks for them"
SIZES = "several sizes in place of one: the other key of the parameter `size`"
STRUCTURE_ALONE: Mapping[str, Mapping[str, str]] = {
    "burst_load": {"duration_ns": "of tests alone: a file has it play until it is stopped"},
    "udp_stream": {"keep_sent": ROWS},
    "raw_stream": {"keep_sent": ROWS},
    "tcp_stream": {"interval_ns": "of rows, from `defaults.json`; a file says nothing of it"},
    "http_get": {"service": SERVICE},
    "request_response": {
        "service": SERVICE,
        "entries": "servers of the service, whose addresses are known when the world is built",
        "round_robin": "what `server: round_robin` becomes",
        "trace_ns": "the instants of `trace`",
        "work_per_s": "measured on the machine before a role is armed",
    },
    "objects": {"service": SERVICE, "object_sizes": SIZES},
    "files": {"object_sizes": SIZES},
}

FIELD = re.compile(r"((?:[ \t]*#\[[^\n]*\]\n)*)[ \t]*pub (\w+): ([^\n]+),\n")


def fields(source: str, structure: str) -> set[str]:
    """The keys that serde accepts for a structure of a source, as it renames them, with those that it flattens."""
    body = re.search(rf"^pub struct {structure}(?:<\w+>)? \{{\n(.*?)^\}}", source, re.MULTILINE | re.DOTALL)
    assert body, structure
    found: set[str] = set()
    for attributes, name, kind in FIELD.findall(
        re.sub(r"^[ \t]*///[^\n]*\n", "", body[1], flags=re.MULTILINE)
    ):
        renamed = re.search(r'\brename = "([^"]+)"', attributes)
        if re.search(r"\bflatten\b", attributes):
            found |= fields(source, kind)
        elif not re.search(r"\bskip\b", attributes):
            found.add(renamed[1] if renamed else name)
    return found


def in_rust(workload: str) -> set[str]:
    """Of the structure that has the workload's name, with those of `mod.rs` that it may flatten."""
    source = (FOLDER / f"{workload}.rs").read_text() + (FOLDER / "mod.rs").read_text()
    return fields(source, workload.title().replace("_", ""))


def in_the_catalogue(workload: str) -> set[str]:
    keys = {parameter.plan for parameter in WORKLOADS[workload].parameters}
    sizes = {f"{layer}_bytes" for layer in PacketSize.layers} if OF_ALL_SIZES in keys else set()
    return keys - {OF_ALL_SIZES} | sizes


@pytest.mark.parametrize("workload", sorted(set(WORKLOADS) - set(IN_NO_STRUCTURE)))
def test_catalogue_and_players_have_the_same_keys(workload: str) -> None:
    catalogue, rust = in_the_catalogue(workload), in_rust(workload)
    assert catalogue - rust == set(CATALOGUE_ALONE.get(workload, {}))
    assert rust - catalogue == set(STRUCTURE_ALONE.get(workload, {}))


def test_every_workload_has_a_structure_or_a_reason() -> None:
    structures = {path.stem for path in FOLDER.glob("*.rs")} - {"mod"}
    assert structures == set(WORKLOADS) - set(IN_NO_STRUCTURE)


def test_fields_that_are_renamed_flattened_or_skipped_are_read_as_serde_does() -> None:
    source = (
        "pub struct Top<T> {\n    /// One.\n    pub one: u8,\n    #[serde(default)]\n"
        '    #[serde(rename = "second")]\n    pub two: Vec<T>,\n    #[serde(flatten)]\n    pub rest: Rest,\n'
        "    #[serde(skip)]\n    pub own: u8,\n}\n\npub struct Rest {\n    pub three: u8,\n}\n"
    )
    assert fields(source, "Top") == {"one", "second", "three"}
