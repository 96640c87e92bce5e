"""`virtlab services`: what each kind of service declares of itself, and the forms that a store can have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from virtlab.cli.machine.features import print_features
from virtlab.cli.options import AsJson
from virtlab.terminal import json_text, say

if TYPE_CHECKING:
    from virtlab.catalogue.declaration import ServiceKind

app = typer.Typer(add_completion=False)

LABELS = {
    "meaning": "it is", "speaks": "protocols of its clients", "operations": "operations of the timeline",
    "progresses": "what a wait can wait for", "port": "port", "testbed": "on the testbed", "simulator": "in the simulator",
}  # fmt: skip
STORE_LABELS = {
    "interface": "interface", "lookup": "lookup", "placement": "copies lie on", "redundancy": "redundancy",
    "heals": "who heals", "like": "as in",
}  # fmt: skip


@app.command()
def services(*, as_json: AsJson = False) -> None:
    """The feature tables of the kinds of services and of the forms of a store: interface, lookup, redundancy, who
    heals.

    Example: virtlab services --json
    """
    from virtlab.catalogue import SERVICES

    kinds = [_facts(kind) for kind in SERVICES.values()]
    forms = [form._asdict() | {"kind": kind.name} for kind in SERVICES.values() for form in kind.forms]
    if as_json:
        say(json_text({"schema": "virtlab.services/1", "services": kinds, "stores": forms}, indent=2))
        return
    print_features(kinds, LABELS, _said)
    say("")
    print_features(
        [form | {"name": f"{form['kind']}, {form['name']}"} for form in forms], STORE_LABELS, _said
    )
    say(
        "Of kind `store` they are virtlab's own reference store, a model for study: it implements none of the systems named."
    )


def _facts(kind: ServiceKind) -> dict[str, Any]:
    return {
        "name": kind.name,
        "meaning": kind.meaning,
        "speaks": sorted(kind.speaks),
        "operations": {name: operation.meaning for name, operation in kind.operations.items()},
        "progresses": dict(kind.progresses),
        "port": kind.port,
        "testbed": kind.arms["testbed"],
        "simulator": kind.arms["simulator"],
    }


def _said(key: str, value: Any) -> str:
    if key in {"testbed", "simulator"}:
        return "yes" if value is None else f"no: {value}"
    if value is None:
        return "the file says it"
    if isinstance(value, dict):
        return "\n".join(f"{name}: {meaning}" for name, meaning in value.items()) or "none"
    return ", ".join(value) if isinstance(value, list) else str(value)
