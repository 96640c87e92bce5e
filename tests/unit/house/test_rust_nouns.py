"""Functions, parameters and fields of the Rust crates are called by what they are, as those of Python are.

`what` is the middle of an error (where, what, cure), and only that. The list is reviewed by hand, and may only shrink.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.house.test_house import NO_NOUNS

ROOT = Path(__file__).parents[3] / "crates"
NOT_YET = (  # whose names are still to be reviewed
    "virtlab-store/",
    "virtlab-agent/src/probe/workload/objects/",
    "virtlab-sim/src/servers/stores/",
    "virtlab-sim/src/workloads/store/",
    "virtlab-sim/src/transfers.rs",
)
ERROR = "an error says where, what, and the cure"
JSON = "a key of what the control plane sends"
LATER = "to be renamed with the next change there"
ALLOWED = {
    "virtlab-agent/src/probe/workload/by_threads.rs told": LATER,
    "virtlab-agent/src/rt/mod.rs what": ERROR,
    "virtlab-fabric/src/fabric/graph.rs asked": LATER,
    "virtlab-fabric/src/fabric/graph.rs ways": LATER,
    "virtlab-fabric/src/layout.rs new(what)": ERROR,
    "virtlab-fabric/src/layout.rs what": ERROR,
    "virtlab-leader/src/world/apply.rs what": ERROR,
    "virtlab-load/src/parameters/mod.rs new(what)": ERROR,
    "virtlab-load/src/parameters/mod.rs what": ERROR,
    "virtlab-load/src/size.rs what": ERROR,
    "virtlab-qdisc/src/build.rs new(what)": ERROR,
    "virtlab-qdisc/src/build.rs what": ERROR,
    "virtlab-rt/src/error.rs fits(what)": ERROR,
    "virtlab-rt/src/error.rs what": ERROR,
    "virtlab-sim/src/input/mod.rs kept": JSON,
    "virtlab-sim/src/input/mod.rs ways": JSON,
    "virtlab-sim/src/input/stores.rs ways": JSON,
    "virtlab-sim/src/network/traffic/moves.rs write_memory(asked)": LATER,
    "virtlab-sim/src/world/mod.rs beside": LATER,
    "virtlab-sim/src/world/mod.rs kept": LATER,
    "virtlab-sim/src/world/mod.rs told": LATER,
}


def named(text: str) -> Iterator[str]:
    """Functions as NAME, parameters as FUNCTION(NAME), fields of structs and of variants as NAME."""
    text = re.sub(r"//[^\n]*", "", text)
    for function in re.finditer(r"\bfn (\w+)(?:<[^>]*>)?\(((?:[^()]|\([^()]*\))*)\)", text):
        yield function[1]
        yield from (f"{function[1]}({name})" for name in re.findall(r"(?<![\w:])(\w+):(?!:)", function[2]))
    for body in re.findall(r"\b(?:struct|enum) \w+(?:<[^{;(]*>)?[^{;(]*\{((?:[^{}]|\{[^{}]*\})*)\}", text):
        yield from re.findall(r"(?m)^\s*(?:pub(?:\([^)]*\))? )?(\w+):(?!:)", body)


def without_noun(text: str) -> set[str]:
    """Those of a source that say nothing."""
    return {name for name in named(text) if name.strip(")").split("(")[-1].strip("_") in NO_NOUNS}


@pytest.mark.slow
def test_functions_parameters_and_fields_say_what_they_are() -> None:
    found = {
        f"{place} {name}"
        for path in sorted(ROOT.glob("*/src/**/*.rs"))
        if not (place := path.relative_to(ROOT).as_posix()).startswith(NOT_YET)
        for name in without_noun(path.read_text(encoding="utf-8"))
    }
    assert found == set(ALLOWED)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("fn f(found: &[u8], mut kept: Vec<(u8, u8)>, g: u8) {}", {"f(found)", "f(kept)"}),
        ("impl A { pub const fn told(&self) -> u8 { 0 } }", {"told"}),
        ("pub struct A<T: B> {\n    /// What.\n    pub(crate) ways: Vec<T>,\n    way: u8,\n}", {"ways"}),
        ("enum E {\n    Late {\n        what: String,\n    },\n}", {"what"}),
        ("fn f(one_way: u8, founder: found::Kept) { let kept: u8 = 0; }", set()),
    ],
)
def test_a_name_that_says_nothing_is_seen(text: str, names: set[str]) -> None:
    assert without_noun(text) == names
