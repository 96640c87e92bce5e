"""The published JSON Schema accepts what is accepted, and refuses what an editor can see to be wrong."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from virtlab.catalogue import QDISCS, WORKLOADS
from virtlab.experiment.read.mistakes import Mistakes
from virtlab.experiment.read.tree import read_tree
from virtlab.experiment.schema import json_schema
from virtlab.experiment.templates import TEMPLATES, template

ROOT = Path(__file__).parents[3]
FILES = [
    path
    for path in sorted(
        [
            *(ROOT / "experiments" / "switched-network").glob("*.yaml"),
            *(ROOT / "experiments" / "forwarding-fairness").glob("*.yaml"),
            *(ROOT / "experiments" / "rfc2544").glob("*.yaml"),
            *(ROOT / "tests/golden/experiments/right").glob("*.yaml"),
        ]
    )
    # Files of `virtlab rt study` compute and describe no experiment.
    if path.name not in {"figures.yaml", "statements.yaml"}
    and "study: realtime-vm" not in path.read_text(encoding="utf-8")
]
SCHEMA = json_schema()
TYPES = {"string": str, "object": dict, "array": list, "null": type(None)}


def fits(value: Any, schema: Any) -> bool:
    """Whether a value fits a schema, for the words that ours uses (an unknown word fails)."""
    if schema == {}:
        return True
    checks = {
        "$ref": lambda name: fits(value, SCHEMA["$defs"][name.rpartition("/")[2]]),
        "anyOf": lambda options: any(fits(value, option) for option in options),
        "not": lambda inner: not fits(value, inner),
        "enum": lambda options: value in options,
        "const": lambda constant: value == constant and isinstance(value, bool) == isinstance(constant, bool),
        "type": lambda kind: any(
            of_type(value, name) for name in ([kind] if isinstance(kind, str) else kind)
        ),
        "pattern": lambda pattern: not isinstance(value, str) or re.search(pattern, value) is not None,
        "minLength": lambda least: not isinstance(value, str) or len(value) >= least,
        "minimum": lambda least: not of_type(value, "number") or value >= least,
        "maximum": lambda most: not of_type(value, "number") or value <= most,
        "minItems": lambda least: not isinstance(value, list) or len(value) >= least,
        "maxItems": lambda most: not isinstance(value, list) or len(value) <= most,
        "minProperties": lambda least: not isinstance(value, dict) or len(value) >= least,
        "required": lambda keys: not isinstance(value, dict) or set(keys) <= set(value),
        "items": lambda inner: not isinstance(value, list) or all(fits(item, inner) for item in value),
        "prefixItems": lambda inner: not isinstance(value, list) or all(map(fits, value, inner)),
        "properties": lambda inner: (
            not isinstance(value, dict) or all(fits(value[key], inner[key]) for key in inner if key in value)
        ),
        "patternProperties": lambda _: True,
        "additionalProperties": lambda inner: (
            not isinstance(value, dict) or all(others_fit(schema, inner, key) for key in value)
        ),
    }

    def others_fit(holder: dict[str, Any], inner: Any, key: str) -> bool:
        patterns = holder.get("patternProperties", {})
        matched = [part for pattern, part in patterns.items() if re.search(pattern, key)]
        if key in holder.get("properties", {}) or matched:
            return all(fits(value[key], part) for part in matched)
        return inner is not False and (inner is True or fits(value[key], inner))

    words = {
        key: word
        for key, word in schema.items()
        if key not in {"description", "examples", "default", "title", "$schema", "$defs"}
    }
    return all(checks[key](word) for key, word in words.items())


def of_type(value: Any, name: str) -> bool:
    if name in {"integer", "number"}:
        return isinstance(value, int if name == "integer" else (int, float)) and not isinstance(value, bool)
    if name == "boolean":
        return isinstance(value, bool)
    return isinstance(value, TYPES[name])


def values_of(text: str) -> dict[str, Any]:
    tree = read_tree(text, Mistakes())
    assert tree is not None
    values = tree.plain()
    assert isinstance(values, dict)
    return values


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_right_file_fits_the_schema(path: Path) -> None:
    assert fits(values_of(path.read_text()), SCHEMA)


@pytest.mark.parametrize("kind", TEMPLATES)
def test_a_template_fits_the_schema(kind: str) -> None:
    values = values_of(template(kind, "mine"))
    assert fits(values, SCHEMA)
    assert all(claim["title"] for claim in values["claims"])  # which reports show


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("hostss",), 2), (("version",), 2), (("name",), "Has Blanks"), (("link", "rate"), "100"), (("link", "rate"), 100),
        (("link", "rate"), "100 Mb"), (("link", "queue"), {"kind": "fifoo"}), (("link", "queue"),
        {"kind": "fifo", "target": "5 ms"}),
        (("host", "platform"), "vm"), (("host", "guests"), 0), (("topology",), "ring"), (("topology", "switches"), -1),
        (("network", "mtu"), 1500), (("roles", "probe", "size"), "1500 B"), (("roles", "probe", "workload"), "ping"),
        (("roles", "probe", "cuont"), 5), (("roles", "probe", "interval"), "10"), (("roles",), {}), (("repeat",), 0),
        (("factors",), {"x": []}), (("factors",), {"x": {"from": 1, "to": 2}}), (("claims",), [{"id": "a"}]),
        (("services",), {"web": {"kind": "program", "argv": ["x"]}}),
        (("services",), {"web": {"kind": "web", "on": "h2.g1", "argv": ["x"]}}),
        (("services",), {"web": {"kind": "program", "on": "h2.g1", "argv": ["x"], "ready": {"http": "/"}}}),
        (("services",), {"web": {"kind": "program", "on": "h2.g1", "argv": ["x"], "ready": {"port": 1, "line": "up"}}}),
        (("timeline",), [{"id": "a", "do": "jump"}]), (("windows",), {"w": {"from": "a.started"}}), (("seed",), -1),
    ],
)  # fmt: skip
def test_what_an_editor_can_see_to_be_wrong_does_not_fit(path: tuple[str, ...], value: Any) -> None:
    right: dict[str, Any] = {
        "version": 1, "name": "x", "hosts": 2, "host": {"guests": 1}, "topology": {"shape": "line"}, "network": {},
        "link": {"rate": "1 Gbit/s"}, "roles": {"probe": {"workload": "rtt", "from": "h1.g1", "to": "h2.g1"}},
    }  # fmt: skip
    assert fits(right, SCHEMA)
    wrong = copy.deepcopy(right)
    holder = wrong
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    assert not fits(wrong, SCHEMA)


def test_a_reference_fits_at_every_leaf() -> None:
    fixed = {
        "version", "name", "title", "seed", "repeat", "claims", "factors", "exclude", "timeline", "windows", "roles",
        "services", "traces", "brought",
    }  # fmt: skip
    for section, schema in SCHEMA["properties"].items():
        assert fits("${level}", schema) is (section not in fixed or section in {"title"}), section
    for name, definition in SCHEMA["$defs"].items():
        if name in {"reference", "queue", "UntilSpec"}:
            continue
        for key, schema in definition["properties"].items():
            assert fits("${level.key}", schema), f"{name}.{key}"


def test_every_key_is_described() -> None:
    for name, definition in SCHEMA["$defs"].items():
        for key, schema in definition.get("properties", {}).items():
            assert schema.get("description"), f"{name}.{key}"
    for section, schema in SCHEMA["properties"].items():
        assert schema.get("description"), section


def test_every_workload_and_discipline_is_in_the_schema() -> None:
    text = json.dumps(SCHEMA)
    for name in [*WORKLOADS, *QDISCS]:
        assert f'{{"const": "{name}"' in text
