"""A service without a command: what the image of its containers starts, where they have one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.experiment.test_experiment_schema import SCHEMA, fits, values_of

from virtlab.cli.guest_commands import executed
from virtlab.errors import ExperimentError
from virtlab.experiment import load_text
from virtlab.planner import plan_run
from virtlab.testbed.image.entry import configuration_of
from virtlab.testbed.image.rootfs import rootfs_folder

FILE = """
version: 1
name: images
hosts: {{h1: {{}}, h2: {{{host}}}}}
topology: none
link: {{rate: 100 Mbit/s}}
services:
  web: {{kind: program, on: [{on}], ready: {{port: 8080}}{more}}}
roles:
  probe: {{workload: rtt, from: h1.g1, to: h2.g1}}
"""
CONTAINER = "platform: container, image: served"


def text(host: str = CONTAINER, on: str = "h2.g1", more: str = "") -> str:
    return FILE.format(host=host, on=on, more=more)


def test_an_image_may_say_what_a_service_is() -> None:
    experiment = load_text(text())
    plan = plan_run(experiment, experiment.points()[0], 0)
    assert plan.world.services["web"].parameters == {}


@pytest.mark.parametrize(
    ("host", "on"),
    [("platform: container", "h2.g1"), ("", "h2.g1"), (CONTAINER, "h1.g1"), (CONTAINER, "h1.g1, h2.g1")],
)
def test_where_no_image_says_it_the_command_is_missing(host: str, on: str) -> None:
    with pytest.raises(ExperimentError) as caught:
        load_text(text(host, on))
    (line,) = [line for line in str(caught.value).splitlines() if "'argv' of program is missing" in line]
    assert "services.web: " in line
    assert "or take containers with an 'image' that says it" in line


def test_the_words_of_an_image_are_listed_where_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (unknown,) = executed(load_text(text()))
    assert unknown.text() == "container h2.g1: what image served starts"
    place = rootfs_folder() / "served"
    place.mkdir(parents=True)
    configuration_of(place).write_text(json.dumps({"Entrypoint": ["serve", "a b"], "Cmd": ["-f"]}))
    (known,) = executed(load_text(text()))
    assert known.text() == "container h2.g1: serve 'a b' -f (of image served)"
    assert known.json()["image"] == "served"
    (own,) = executed(load_text(text(more=", argv: [sleep, '9']")))
    assert own.text() == "container h2.g1: sleep 9"
    assert "image" not in own.json()


def test_an_editor_takes_a_service_without_a_command() -> None:
    assert fits(values_of(text()), SCHEMA)
    assert not fits(values_of(text(more=", argv: 9")), SCHEMA)
