"""Recipes of appliances that are wrong: each mistake is told with its place and what to write instead."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from virtlab.errors import MachineError
from virtlab.experiment import load_text
from virtlab.planner import plan_run
from virtlab.testbed.platforms.appliance import recipe

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "measure-through-an-appliance.md"
RECIPES = re.findall(
    r"<!-- file: appliances/(\w+)/appliance.toml -->\n```toml\n(.*?)^```", PAGE.read_text(), re.M | re.S
)
WHOLE = struct.pack(">4sIQIIQ", b"QFI\xfb", 2, 0, 0, 16, 1 << 20).ljust(80, b"\0")  # a disk of the kind qcow2
FILE = """
version: 1
name: through
hosts: [h1, h2]
routers: {r1: {platform: appliance, image: router}}
links: {left: {ends: [h1, r1]}, right: {ends: [r1, h2]}}
roles: {probe: {workload: rtt, from: h1.g1, to: h2.g1, size: 200 B ip_packet, interval: 20 ms, count: 20}}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "virtlab" / "appliances" / "router"
    folder.mkdir(parents=True)
    (folder / "own.img").touch()
    return folder / "appliance.toml"


@pytest.mark.parametrize(
    ("line", "what", "cure"),
    [
        ("memory = '256'", "memory: ", "256 MiB"),
        ("prompt = '('", "prompt: '(' is not a regular expression", "backslash"),
        ("[[step]]\nexpect = 'a'\ntimeout = 'soon'", "timeout: ", "60 s"),
        ("[[step]]\nexpect = '['", "expect: '[' is not a regular expression", "backslash"),
        ("[iso]\n'/etc/passwd' = ''", "iso: '/etc/passwd' is outside the image", "inside"),
        ("[iso]\n'a/../../b' = ''", "iso: 'a/../../b' is outside the image", "inside"),
        ("[iso]\n'a' = ''\n'a/b' = ''", "iso: 'a' is a file and a folder", "otherwise"),
        ("[iso]\n'a' = 7", "iso: is not a table of files", "[iso]"),
        ("iso = 'a'", "iso: is not a table of files", "[iso]"),
        ("step = 5", "step: is not a list of steps", "[[step]]"),
        ("interface = 'eth{n}'", "interface: 'eth{n}' cannot be filled in", "eth{number}"),
    ],
)
def test_a_mistake_in_a_recipe_is_told_with_its_cure(place: Path, line: str, what: str, cure: str) -> None:
    place.write_text(f"disk = 'own.img'\n{line}\n")
    with pytest.raises(MachineError) as error:
        recipe.load("router")
    assert error.value.where.startswith(str(place))
    assert what in error.value.what
    assert cure in error.value.cure


@pytest.mark.slow
def test_a_template_that_names_what_is_not_there_is_told_what_there_is(place: Path) -> None:
    place.write_text("disk = 'own.img'\n")
    experiment = load_text(FILE)
    plan = plan_run(experiment, experiment.points()[0], 0)
    with pytest.raises(MachineError, match=r"'ports' is undefined") as error:
        recipe.filled("{{ ports }}", recipe.load("router"), plan, "r1")
    assert error.value.cure == "a template knows name, vnics, routes, forwards"
    for wrong in ("{{ 1 // 0 }}", "{{ vnics | length + name }}", "{% if %}"):
        with pytest.raises(MachineError, match="its template cannot be filled in") as error:
            recipe.filled(wrong, recipe.load("router"), plan, "r1")
        assert error.value.cure
    assert recipe.filled("{{ vnics | length }}", recipe.load("router"), plan, "r1") == "2"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "text"), RECIPES, ids=[name for name, _ in RECIPES])
def test_a_recipe_of_the_documentation_is_read_and_filled(place: Path, name: str, text: str) -> None:
    place.write_text(text)
    for disk in re.findall(r'^\w+ = "([\w.-]+\.(?:img|qcow2))"', text, re.M):
        (place.parent / disk).write_bytes(WHOLE)
    experiment = load_text(FILE)
    plan = plan_run(experiment, experiment.points()[0], 0)
    found = recipe.load("router")
    texts = [*found.iso.values(), *(step.send for step in found.steps if step.send)]
    filled = [recipe.filled(each, found, plan, "r1") for each in texts]
    addresses = [ip.split("/")[0] for vnic in plan.world.guests["r1"].vnics.values() for ip in vnic.ip]
    assert len(addresses) == 2
    assert all(address in "".join(filled) for address in addresses), f"{name} tells its router its addresses"


@pytest.mark.slow
def test_the_address_lines_of_ios_name_interfaces_from_one_on(place: Path) -> None:
    place.write_text(dict(RECIPES)["csr1000v"])
    (place.parent / "csr1000v.qcow2").write_bytes(WHOLE)
    experiment = load_text(FILE)
    plan = plan_run(experiment, experiment.points()[0], 0)
    found = recipe.load("router")
    lines = recipe.filled(found.iso["iosxe_config.txt"], found, plan, "r1").split("\n")
    said = [line for line in lines if line.strip()]
    assert said[0] == "hostname r1"
    assert [line for line in said if line.startswith("interface")] == [
        "interface GigabitEthernet1",
        "interface GigabitEthernet2",
    ]
    assert all(re.fullmatch(r" ip address [\d.]+ 255\.[\d.]+", line) for line in said if "address" in line)
