"""The JSON Schema (2020-12) of experiment files, for completion and checks in editors.

It is made of the types of the sections and the declarations of the catalogue, so it cannot differ from what
is accepted in keys, words and units. `${factor}` is allowed wherever a value may vary. What needs the whole
file at once (dangling names, loops, address pools) only `virtlab check` finds.
"""

from __future__ import annotations

from typing import Any

from virtlab.catalogue import PLATFORMS, QDISCS, SERVICES, VSWITCHES, WORKLOADS
from virtlab.catalogue.actions import ACTIONS, EVENTS, playable
from virtlab.catalogue.declaration import Parameter
from virtlab.catalogue.kinds import ARGV, COUNT, DURATION, FLAG, LIMIT, POSITIVE_DURATION, TEXT
from virtlab.catalogue.qdiscs import DEFAULT_QDISC
from virtlab.catalogue.queueing import QueueDiscipline
from virtlab.catalogue.sockets import PORT
from virtlab.experiment.load import SEED_MAX
from virtlab.experiment.read.leaves import NAME_SCHEMA
from virtlab.experiment.read.model import SECTIONS, RepeatSpec
from virtlab.experiment.read.search_model import SearchSpec, TestsSpec
from virtlab.experiment.work.moves import COMPRESSION, DISK, MODE, OVER
from virtlab.experiment.world.classes import CONDITIONS

IDENTITY = "https://json-schema.org/draft/2020-12/schema"
REFERENCE: dict[str, Any] = {
    "type": "string",
    "pattern": r"\$\{[^{}]+\}",
    "description": "the level of a factor; in quotes inside { } or [ ]",
}
Schema = dict[str, Any]

DESCRIPTIONS = {
    "hosts": "machines that run guests: how many, their names, or names with properties",
    "host": "what all hosts have in common",
    "topology": "a shape that wires all hosts: line, star, tree, none (a cable between two hosts)",
    "switches": "physical switches of an explicit graph, or properties of a topology's",
    "switch": "what all switches have in common",
    "routers": "machines that forward between their ports",
    "router": "what all routers have in common",
    "links": "cables: those of an explicit graph with their ends, or what differs on a topology's",
    "link": "what all links have in common",
    "network": "addresses, MTU and what else holds for the whole network",
    "timing": "warm-up, pause and drain where no timeline says it",
    "collect": "what is kept of a run",
    "limits": "bounds of one run",
    "search": "the highest value of one tunable input that a goal allows, found at every design point",
}


def json_schema() -> Schema:
    """The schema as plain values; the same for the same version of virtlab."""
    definitions: Schema = {"reference": REFERENCE, "queue": _queue()}
    properties: Schema = {
        "version": {"const": 1, "description": "version of the file format"},
        "name": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,62}$", "description": "names the folder of results"},
        "title": {"type": "string", "description": "one line for people"},
        "seed": {"type": "integer", "minimum": 0, "maximum": SEED_MAX - 1,
        "description": "of all that is random", "default": 1},
        "factors": _factors(),
        "exclude": {
            "type": "array", "items": {"type": "object", "minProperties": 1},
            "description": "combinations to leave out: factor -> level or list of levels",
        },
    }  # fmt: skip
    for name, kind in {**SECTIONS, "search": SearchSpec}.items():
        properties[name] = _or_reference(_section(name, kind, definitions)) | {
            "description": DESCRIPTIONS[name]
        }
    properties["roles"] = {
        "type": "object", "patternProperties": {NAME_SCHEMA["pattern"]: _role()}, "additionalProperties": False,
        "minProperties": 1, "description": "named workloads: what measures, and what loads",
    }  # fmt: skip
    properties["services"] = _services()
    properties["traces"] = {
        "type": "object",
        "additionalProperties": {"type": "string"},
        "description": "lines of traces by name, where they are not in files beside this one",
    }
    properties["brought"] = {
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "properties": {
                "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
                "bytes": {"type": "integer"},
            },
            "required": ["sha256", "bytes"],
            "additionalProperties": False,
        },
        "description": "digests of the files that programs bring, by name; absent: of those beside this one",
    }
    properties["timeline"] = {
        "type": "array", "items": _action(), "minItems": 1, "description": "what happens during a run; absent: the usual",
    }  # fmt: skip
    properties["windows"] = {
        "type": "object",
        "additionalProperties": {
            "type": "object",
            "properties": {"from": _event(), "to": _event()},
            "required": ["from", "to"],
        },
        "description": "named intervals between two events, over which metrics are computed",
    }
    properties["repeat"] = {
        "anyOf": [{"type": "integer", "minimum": 1}, _section("repeat", RepeatSpec, definitions)],
        "description": "how often each design point is run",
    }
    properties["claims"] = {
        "type": "array",
        "items": _claim(),
        "description": "what is expected; each is judged",
    }
    return {
        "$schema": IDENTITY,
        "title": "virtlab experiment",
        "type": "object",
        "properties": properties,
        "required": ["version", "name", "hosts", "roles"],
        "additionalProperties": False,
        "$defs": dict(sorted(definitions.items())),
    }


def _or_reference(schema: Schema) -> Schema:
    """The schema, or a reference; a description stays outside, where editors look for it."""
    description = {"description": schema.pop("description")} if "description" in schema else {}
    choices = schema.pop("anyOf") if set(schema) == {"anyOf"} else [schema]
    return {"anyOf": [*choices, {"$ref": "#/$defs/reference"}], **description}


def _section(name: str, kind: Any, definitions: Schema) -> Schema:
    """The schema of a typed section: references allowed, defaults in SI units left out, shorthands added."""
    from pydantic import TypeAdapter

    made = TypeAdapter(kind).json_schema()
    for title, definition in made.pop("$defs", {}).items():
        definitions.setdefault(title, _cleaned(definition))
    schema = _cleaned(made)
    if name == "topology":
        shapes = {"enum": ["line", "star", "tree", "none", "direct"]}
        return {"anyOf": [shapes, schema]}
    if name in {"hosts", "switches", "routers"}:
        return _counted(schema)
    return schema


def _counted(schema: Schema) -> Schema:
    return {
        "anyOf": [
            {"type": "integer", "minimum": 1},
            {"type": "array", "items": NAME_SCHEMA, "minItems": 1},
            schema,
        ]
    }


def _cleaned(schema: Schema) -> Schema:
    """pydantic's schema of a model as the file has it."""
    if "properties" in schema:
        properties = {key: _property(key, value) for key, value in schema["properties"].items()}
        wanted = ("type", "description", "required", "additionalProperties")
        kept: Schema = {key: schema[key] for key in wanted if key in schema}
        return {**kept, "properties": properties}
    cleaned: Schema = {key: value for key, value in schema.items() if key not in {"title", "default"}}
    for key in ("additionalProperties", "items"):
        if isinstance(cleaned.get(key), dict):
            cleaned[key] = _or_reference(_cleaned(cleaned[key]))
    if "patternProperties" in cleaned:
        cleaned["patternProperties"] = {
            pattern: _or_reference(_cleaned(value)) for pattern, value in cleaned["patternProperties"].items()
        }
        cleaned["additionalProperties"] = False
    if "anyOf" in cleaned:
        choices = [_cleaned(choice) for choice in cleaned["anyOf"] if choice != {"type": "null"}]
        rest = {key: value for key, value in cleaned.items() if key != "anyOf"}
        cleaned = {**choices[0], **rest} if len(choices) == 1 else {"anyOf": choices, **rest}
    match cleaned.pop("x-names", None):
        case "platforms":
            cleaned = {"enum": list(PLATFORMS), "description": cleaned.get("description", "")}
        case "vnic_models":
            models = dict.fromkeys(model for platform in PLATFORMS.values() for model in platform.vnic_models)
            cleaned = {"enum": list(models), "description": cleaned.get("description", "")}
        case "vswitches":
            cleaned = {"enum": [*VSWITCHES, "none"], "description": cleaned.get("description", "")}
    return cleaned


def _property(key: str, value: Schema) -> Schema:
    cleaned = _cleaned(value)
    if key in {"queue", "queue_back"}:
        cleaned = {"$ref": "#/$defs/queue", "description": value.get("description", "")}
    if key == "tests":  # their names alone, or what differs of each
        description = {"description": cleaned.pop("description", "")}
        named = {
            "type": "array",
            "items": {"enum": [name for name in TestsSpec.model_fields if name not in {"pace", "reset"}]},
            "minItems": 1,
        }
        return _or_reference({"anyOf": [named, cleaned]}) | description
    if key in TestsSpec.model_fields and "$ref" in cleaned:
        description = {"description": cleaned.pop("description", "")}
        return _or_reference({"anyOf": [cleaned, {"type": "null"}]}) | description
    if key == "guests":
        description = {"description": cleaned.pop("description", "")}
        return _or_reference(_counted(cleaned)) | description
    return _or_reference(cleaned)


def _parameters(parameters: tuple[Parameter, ...]) -> Schema:
    properties = {}
    for parameter in parameters:
        schema = {**parameter.kind.schema, "description": parameter.meaning}
        if parameter.default is not None:
            schema["default"] = parameter.default
        properties[parameter.name] = _or_reference(schema)
    return properties


def _queue() -> Schema:
    limit = _or_reference({**LIMIT.schema, "description": "how much it holds, in packets or bytes"})
    by = _or_reference({"enum": ["auto", "kernel", "virtlab"], "description": "whose implementation"})
    choices: list[Schema] = [{"enum": list(QDISCS)}]
    for name, discipline in QDISCS.items():
        properties: Schema = {
            "kind": {"const": name, "description": discipline.meaning},
            "by": by,
            "limit": limit,
        }
        required = [parameter.name for parameter in discipline.parameters if parameter.required]
        if discipline.classes:
            choices.append(_classed(name, discipline, by))
        if not discipline.bare:
            continue
        if name != DEFAULT_QDISC:
            required.insert(0, "kind")
        choices.append({
            "type": "object", "properties": properties | _parameters(discipline.parameters), "required": required,
            "additionalProperties": False,
        })  # fmt: skip
    open_kind = {
        "type": "object",
        "properties": {"kind": {"$ref": "#/$defs/reference"}},
        "required": ["kind"],
    }
    return {"anyOf": [*choices, open_kind, {"$ref": "#/$defs/reference"}]}


def _classed(name: str, discipline: QueueDiscipline, by: Schema) -> Schema:
    """A queue with classes and the rules by which frames go to them."""
    own = {"limit": _or_reference({**LIMIT.schema, "description": "how many packets it holds"})}
    if discipline.tree:
        own["parent"] = {"type": "string", "description": "the class above it"}
    entry = {
        "type": ["object", "null"], "properties": own | _parameters(discipline.classes), "additionalProperties": False,
    }  # fmt: skip
    conditions: Schema = {key: {} for key in CONDITIONS}
    rule = {
        "type": "object", "properties": {"class": {"type": "string"}, **conditions}, "required": ["class"],
        "additionalProperties": False,
    }  # fmt: skip
    properties: Schema = {
        "kind": {"const": name, "description": discipline.meaning},
        "by": by,
        "classes": {
            "type": "object",
            "additionalProperties": entry,
            "minProperties": 1,
            "description": "by name",
        },
        "match": {"type": "array", "items": rule, "description": "rules; the first that holds decides"},
        "default": {"type": "string", "description": "class of frames that match no rule"},
    }
    return {
        "type": "object", "properties": properties, "required": ["kind", "classes", "default"],
        "additionalProperties": False,
    }  # fmt: skip


def _role() -> Schema:
    choices: list[Schema] = []
    guest = {"type": "string", "description": "a guest, e.g. h1.g1"}
    for name, workload in WORKLOADS.items():
        common: Schema = {
            "workload": {"const": name, "description": workload.meaning},
            "from": guest,
            "to": guest
            if workload.at_service is None
            else {"type": "string", "description": "a guest, e.g. h1.g1, or a service"},
            "as": _or_reference(
                {"enum": ["measure", "load"], "description": f"its part; default {workload.part}"}
            ),
            "meter": _or_reference(
                {"enum": list(workload.meters), "description": "what makes and measures the traffic"}
            ),
            "family": _or_reference(
                {"enum": ["ipv4", "ipv6"], "description": "which addresses; default: the first"}
            ),
            "enabled": _or_reference({**FLAG.schema, "description": "false: this role makes no traffic"}),
        }
        required = [each.name for each in workload.parameters if each.required and not each.in_image]
        ends = ["from"] if workload.alone else ["from", "to"]
        if workload.alone:
            del common["to"]
        choices.append({
            "type": "object", "properties": common | _parameters(workload.parameters),
            "required": ["workload", *ends, *required], "additionalProperties": False, "description": workload.meaning,
        })  # fmt: skip
    open_workload = {
        "type": "object",
        "properties": {"workload": {"$ref": "#/$defs/reference"}},
        "required": ["workload"],
    }
    return {"anyOf": [*choices, open_workload, {"$ref": "#/$defs/reference"}]}


def _services() -> Schema:
    name = {"type": "string"}
    names = {"anyOf": [name, {"type": "array", "items": name, "minItems": 1}]}
    choices: list[Schema] = []
    for kind, declared in SERVICES.items():
        common: Schema = {
            "kind": {"const": kind, "description": declared.meaning},
            "on": _or_reference({**names, "description": "its guests, e.g. h2.g1"}),
            "needs": _or_reference({**names, "description": "services that are ready before it starts"}),
            "ready": _ready(listens=declared.port is not None),
        }
        required = [each.name for each in declared.parameters if each.required and not each.in_image]
        choices.append({
            "type": "object", "properties": common | _parameters(declared.parameters),
            "required": ["kind", "on", *required], "additionalProperties": False, "description": declared.meaning,
        })  # fmt: skip
    return {
        "type": "object", "patternProperties": {NAME_SCHEMA["pattern"]: {"anyOf": choices}},
        "additionalProperties": False, "description": "systems under test on guests, which run as long as the world does",
    }  # fmt: skip


def _ready(*, listens: bool) -> Schema:
    """One check, and how often and for how long it is tried; of a kind that `listens` it is that of its port."""
    times: Schema = {
        "every": _or_reference({**POSITIVE_DURATION.schema, "description": "how often; default 100 ms"}),
        "timeout": _or_reference({**POSITIVE_DURATION.schema, "description": "for how long; default 30 s"}),
    }
    port = _or_reference({**PORT.schema, "description": "TCP port of its guest that accepts a connection"})
    if listens:
        what = "at which port it listens, and for how long that is waited for"
        return {
            "type": "object", "properties": {"port": port} | times, "additionalProperties": False, "description": what
        }  # fmt: skip
    path = {"type": "string", "pattern": "^/[!-~]*$"}
    checks: list[tuple[str, Schema]] = [
        ("port", {
            "port": port,
            "http": _or_reference({**path, "description": "path that it answers with a status below 400"}),
        }),
        ("line", {"line": _or_reference({**TEXT.schema, "description": "text that a line of its output holds"})}),
        ("argv", {"argv": {**ARGV.schema, "description": "command in its guest that ends with code 0"}}),
    ]  # fmt: skip
    choices = [
        {"type": "object", "properties": own | times, "required": [key], "additionalProperties": False}
        for key, own in checks
    ]
    return {"anyOf": choices, "description": "when it can be used; absent: once it was started"}


def _factors() -> Schema:
    scalar = {"type": ["string", "number", "boolean"]}
    bound = {"type": ["string", "integer", "number"]}
    span = {
        "type": "object", "properties": {"from": bound, "to": bound, "step": bound}, "required": ["from", "to", "step"],
        "additionalProperties": False,
    }  # fmt: skip
    named = {
        "type": "object",
        "minProperties": 1,
        "not": {"anyOf": [{"required": [key]} for key in ("from", "to", "step")]},
    }
    return {
        "type": "object",
        "additionalProperties": {"anyOf": [{"type": "array", "items": scalar, "minItems": 1}, span, named]},
        "description": "what varies: a list of levels, a range, or named levels of several values",
    }


def _event() -> Schema:
    return {
        "type": "string",
        "pattern": rf"^[A-Za-z][A-Za-z0-9_-]*\.({'|'.join(EVENTS)})$",
        "examples": ["probe.finished"],
    }


def _action() -> Schema:
    events = {"type": "array", "items": _event(), "minItems": 1}
    after = {
        "anyOf": [
            {"type": "string", "description": "EVENT, or EVENT + TIME"},
            {
                "type": "object",
                "properties": {"any": events},
                "required": ["any"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "properties": {"all": events},
                "required": ["all"],
                "additionalProperties": False,
            },
        ]
    }
    own: Schema = {
        "role": {"type": "string"}, "guest": {"type": "string"}, "link": {"type": "string"},
        "parameter": {"type": "string"}, "value": {},
        "for": _or_reference(dict(DURATION.schema)), "until": {"type": "object"},
        "service": {"type": "string"}, "op": {"type": "string"}, "args": {"type": "object"},
        "argv": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "to": {"type": "string"}, "mode": _or_reference(dict(MODE.schema)), "over": _or_reference(dict(OVER.schema)),
        "bandwidth": {"type": "string"}, "downtime_limit": _or_reference(dict(POSITIVE_DURATION.schema)),
        "rounds_limit": _or_reference(dict(COUNT.schema)), "auto_converge": _or_reference(dict(FLAG.schema)),
        "compression": _or_reference(dict(COMPRESSION.schema)), "connections": _or_reference(dict(COUNT.schema)),
        "disk": _or_reference(dict(DISK.schema)),
        "pool": {"type": "string"},
        "recover_after": _or_reference(dict(POSITIVE_DURATION.schema)),
    }  # fmt: skip
    common: Schema = {
        "id": NAME_SCHEMA, "after": after, "timeout": _or_reference(dict(POSITIVE_DURATION.schema)),
        "on_timeout": {"enum": ["fail", "cancel", "censor"]},
    }  # fmt: skip
    return {
        "anyOf": [
            {
                "type": "object", "properties": {"do": {"const": do}, **common,
                **{key: own[key] for key in ACTIONS[do].keys}},
                "required": ["id", "do"], "additionalProperties": False,
            }
            for do in playable()
        ]
    }  # fmt: skip


def _claim() -> Schema:
    published = {
        "type": "object",
        "properties": {
            "file": {"type": "string"}, "metric": {"type": "string"}, "where": {"type": "object"},
            "level_column": {"type": "string"},
        },
        "required": ["file", "metric"], "additionalProperties": False,
        "description": "rows of a published table that are shown beside the claim",
    }  # fmt: skip
    text = {"type": "string", "examples": ["probe.rtt.mean grows with load", "load.loss.ratio <= 0.1 %"]}
    full = {
        "type": "object",
        "properties": {
            "id": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,62}$"},
            "title": {"type": "string", "description": "the claim in words, with which its verdict begins"},
            "text": text,
            "published": published,
        },
        "required": ["text"],
        "additionalProperties": False,
    }
    return {"anyOf": [text, full]}
