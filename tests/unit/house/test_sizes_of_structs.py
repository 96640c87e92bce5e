"""A struct owns one thing: at most 12 fields each, but those that a reviewed list names.

What is read from JSON or written to it has as many fields as that has keys, so it is not counted.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MOST = 12

# What has more fields, how many, and why; the list may only shrink, and a number only fall.
REVIEWED = {
    "virtlab-leader/src/kernel/links.rs LinkState": (13, "what the kernel says of an interface"),
    "virtlab-qdisc/src/build.rs Declaration": (13, "what a discipline says of itself"),
    "virtlab-qdisc/src/hfsc.rs Class": (26, "the variables of the kernel's hfsc_class"),
    "virtlab-sim/src/costs/mod.rs Costs": (13, "instants until which each resource of the platform is taken"),
    "virtlab-sim/src/workloads/psping/requests.rs Requests": (13, "one role's requests and their samples"),
    "virtlab-sim/src/workloads/rtt.rs Rtt": (16, "one role's parameters, progress and samples"),
    "virtlab-sim/src/workloads/stream.rs Stream": (24, "one role's parameters, progress and samples"),
    "virtlab-sim/src/world/mod.rs World": (17, "network, roles and timeline of one pass, and how it goes on"),
    "virtlab-tcp/src/flight.rs Flight": (13, "the scoreboard of RFC 6675 and RFC 8985"),
    "virtlab-tcp/src/receiver.rs Receiver": (17, "the receiving half of RFC 9293's control block"),
    "virtlab-tcp/src/segment.rs Segment": (13, "what a header says"),
    "virtlab-tcp/src/sender.rs Sender": (25, "the sending half of RFC 9293's control block"),
    "virtlab-tcp/src/testing.rs Trial": (
        15,
        "a test's two connections, the pipe between them, and what it counts",
    ),
    "virtlab-wire/src/line.rs Line": (13, "one side of a stream that may be cut and joined again"),
}
# What is passed through whole rooms in Python.
WATCHED = ("Gathered", "Guests", "Lowered")


def rust(text: str) -> Iterator[tuple[str, int]]:
    """Structs of a Rust source with named fields, and how many these are."""
    text = re.sub(r"//[^\n]*", "", text)
    pattern = (
        r"(?m)^((?:#\[[^\n]*\n)*)(?:pub(?:\([^)]*\))? )?struct (\w+)(?:<[^{(;]*)?\s*\{\n((?:[^}].*\n|\n)*)\}"
    )
    for struct in re.finditer(pattern, text):
        if not re.search(r"\b(?:S|Des)erialize\b", struct[1]):
            yield struct[2], len(re.findall(r"(?m)^    (?:pub(?:\([^)]*\))? )?\w+:", struct[3]))


def python(text: str) -> Iterator[tuple[str, int]]:
    """Classes of a Python source, and how many fields they declare."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            yield node.name, sum(isinstance(each, ast.AnnAssign) for each in node.body)


@cache
def structs() -> dict[str, int]:
    """How many fields each struct of the crates has, by its place."""
    crates = ROOT / "crates"
    return {
        f"{path.relative_to(crates)} {name}": fields
        for path in sorted(crates.glob("*/src/**/*.rs"))
        for name, fields in rust(path.read_text())
    }


@pytest.mark.slow
def test_only_reviewed_structs_have_more_than_twelve_fields() -> None:
    large = {place: fields for place, fields in structs().items() if fields > MOST}
    assert large == {place: fields for place, (fields, _) in REVIEWED.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    "place", ["virtlab-sim/src/network/whole.rs Network", "virtlab-fabric/src/fabric/machine.rs Fabric"]
)
def test_the_parts_of_the_simulator_are_counted(place: str) -> None:
    assert 5 < structs()[place] <= MOST


@pytest.mark.slow
@pytest.mark.parametrize("name", WATCHED)
def test_what_goes_through_whole_rooms_has_at_most_twelve_fields(name: str) -> None:
    texts = [path.read_text() for path in (ROOT / "python/virtlab").rglob("*.py")]
    texts = [text for text in texts if f"class {name}" in text]  # parsing all of them takes seconds
    found = [fields for text in texts for each, fields in python(text) if each == name]
    assert found
    assert max(found) <= MOST


def test_fields_are_counted() -> None:
    text = """
/// Doc.
#[derive(Debug)]
pub struct A<P: Clone> {
    /// One: of it.
    pub(super) one: Vec<P>,

    two: u8, // three: no
}
#[derive(Deserialize)]
struct B {
    one: u8,
}
struct C;
"""
    assert list(rust(text)) == [("A", 2)]
    assert list(python("class A:\n    one: int\n    two: int = 2\n    def three(self): ...\n")) == [("A", 2)]
