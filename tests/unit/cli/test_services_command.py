"""`virtlab services`: the tables are what the catalogue declares."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from virtlab.catalogue import SERVICES
from virtlab.catalogue.services.store import STORE
from virtlab.cli.main import app


def test_every_kind_and_every_form_of_a_store_is_there() -> None:
    result = CliRunner().invoke(app, ["services", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert [row["name"] for row in found["services"]] == list(SERVICES)
    of_program = next(row for row in found["services"] if row["name"] == "program")
    assert "simulated_as" in of_program["simulator"]
    assert of_program["testbed"] is None
    (lookup,) = (each for each in STORE.parameters if each.name == "lookup")
    of_ours = [form["name"] for form in found["stores"] if form["kind"] == STORE.name]
    assert of_ours == [f"lookup: {level}" for level in lookup.kind.schema["enum"]]
    assert {form["kind"] for form in found["stores"]} == {
        kind.name for kind in SERVICES.values() if kind.forms
    }


def test_parameters_that_forms_name_exist() -> None:
    for kind in SERVICES.values():
        names = {each.name for each in kind.parameters}
        for form in kind.forms:
            quoted = {word for text in form[1:-1] for word in text.split("'")[1::2]}
            assert quoted <= names, form


@pytest.mark.slow
def test_people_read_who_heals() -> None:
    result = CliRunner().invoke(app, ["services"])
    assert result.exit_code == 0, result.output
    assert "who heals" in result.output
    assert "implements none of the systems" in result.output
