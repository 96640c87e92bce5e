"""What an appliance boots and how its console is talked through: a recipe, installed on this machine by its user.

An experiment file names a recipe and holds nothing that runs here; so recipes lie in a folder of the user's
configuration, one folder each, with `appliance.toml` and the images that it names. Texts that are sent are Jinja
templates, filled in with the Plan's addresses and routes in a sandbox.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_interface, ip_network
from pathlib import Path, PurePosixPath
from typing import Any

from virtlab.errors import MachineError
from virtlab.folders import read_bounded
from virtlab.plan import Plan
from virtlab.testbed.image.disk import of_kind
from virtlab.units import Duration, Size

FILE = "appliance.toml"
LARGEST_BYTES = 1 << 20
STEP_TIMEOUT_NS = 60_000_000_000
MEMORY_BYTES = 256 << 20
_KEYS = {
    "disk",
    "format",
    "kernel",
    "initramfs",
    "append",
    "memory",
    "prompt",
    "fail",
    "interface",
    "step",
    "iso",
    "label",
}
_STEP_KEYS = {"expect", "send", "timeout"}
_EXAMPLES = {"memory": 'write e.g. memory = "256 MiB"', "timeout": 'write e.g. timeout = "60 s"'}
FORMATS = ("raw", "qcow2", "vdi", "vhdx")  # vmdk names files in its header, and QEMU opens them


@dataclass(frozen=True, slots=True)
class Exchange:
    """Wait until the console says `expect` (a regular expression), then send `send`, line by line."""

    expect: re.Pattern[str]
    send: str
    timeout_ns: int


@dataclass(frozen=True, slots=True)
class Recipe:
    """An appliance. `prompt` is waited for after each line; `fail` is what it says when it refuses one."""

    name: str
    disk: Path | None
    format: str
    kernel: Path | None
    initramfs: Path | None
    append: str
    memory_bytes: int
    prompt: re.Pattern[str] | None
    fail: re.Pattern[str] | None
    interface: str  # its name for a vNIC, by number: 'eth{number}'
    steps: tuple[Exchange, ...]
    iso: Mapping[str, str] = field(default_factory=dict)  # file -> template
    label: str = "cidata"


def folder() -> Path:
    """Where recipes are: `virtlab/appliances` in the user's configuration."""
    named = os.environ.get("XDG_CONFIG_HOME")
    return (Path(named) if named else Path.home() / ".config") / "virtlab" / "appliances"


def names() -> list[str]:
    """Recipes that are installed."""
    return sorted(path.parent.name for path in folder().glob(f"*/{FILE}"))


def load(name: str) -> Recipe:
    """A recipe by name. MachineError that says where, what and the cure."""
    path = folder() / name / FILE
    where = str(path)
    try:
        said = tomllib.loads(read_bounded(path, LARGEST_BYTES).decode())
    except FileNotFoundError:
        listed = ", ".join(names()) or "none"
        raise MachineError(
            "appliance", f"there is no recipe {path} (installed: {listed})", "write one"
        ) from None
    except OSError as error:
        raise MachineError(where, f"cannot be read ({error.strerror})", "put a readable file there") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MachineError(where, f"is not a TOML: {error}", "see the reference of appliances") from error
    unknown = sorted(set(said) - _KEYS)
    if unknown:
        raise MachineError(
            where, f"there is no key {', '.join(unknown)}", f"there are {', '.join(sorted(_KEYS))}"
        )
    files = {key: _file(path, said, key) for key in ("disk", "kernel", "initramfs")}
    if (files["disk"] is None) == (files["kernel"] is None):
        raise MachineError(where, "boots a 'disk' or a 'kernel', exactly one of them", "name its image")
    kind = said.get("format", "raw")
    if kind not in FORMATS:
        cure = f"write {', '.join(FORMATS)}; a disk of another kind is converted: `qemu-img convert -O qcow2`"
        raise MachineError(where, f"'{kind}' is not a format of a disk here", cure)
    if files["disk"] is not None:
        of_kind(f"{where}: disk", files["disk"], kind)
    return Recipe(
        name=name,
        disk=files["disk"],
        format=kind,
        kernel=files["kernel"],
        initramfs=files["initramfs"],
        append=str(said.get("append", "console=ttyS0")),
        memory_bytes=_quantity(where, "memory", said, Size).size_bytes if "memory" in said else MEMORY_BYTES,
        prompt=_pattern(where, "prompt", said),
        fail=_pattern(where, "fail", said),
        interface=_interface(where, str(said.get("interface", "eth{number}"))),
        steps=tuple(
            _step(f"{where}: step {number}", each) for number, each in enumerate(_steps(where, said), 1)
        ),
        iso=_iso(where, said.get("iso", {})),
        label=str(said.get("label", "cidata")),
    )


def _file(path: Path, section: Mapping[str, Any], key: str) -> Path | None:
    if key not in section:
        return None
    found = path.parent / str(section[key])
    if not found.is_file():
        raise MachineError(str(path), f"{key}: there is no file {found}", "put it there")
    return found


def _iso(where: str, section: Any) -> dict[str, str]:
    """Files of an ISO image; each has a place of its own inside it."""
    if not isinstance(section, dict) or not all(isinstance(text, str) for text in section.values()):
        raise MachineError(where, "iso: is not a table of files", "write '\"NAME\" = \"...\"' below '[iso]'")
    for name in section:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not path.parts:
            raise MachineError(where, f"iso: '{name}' is outside the image", "name a file inside")
        if any(path != other and path in other.parents for other in map(PurePosixPath, section)):
            raise MachineError(where, f"iso: '{name}' is a file and a folder", "name one of them otherwise")
    return dict(section)


def _quantity(where: str, key: str, section: Mapping[str, Any], kind: Any) -> Any:
    try:
        return kind.parse(str(section[key]))
    except ValueError as error:
        raise MachineError(where, f"{key}: {error}", _EXAMPLES[key]) from error


def _pattern(where: str, key: str, section: Mapping[str, Any]) -> re.Pattern[str] | None:
    if key not in section:
        return None
    try:
        return re.compile(str(section[key]), re.MULTILINE)
    except re.error as error:
        what = f"{key}: '{section[key]}' is not a regular expression: {error}"
        cure = "write a backslash before a sign that means itself, and the whole in single quotes"
        raise MachineError(where, what, cure) from error


def _interface(where: str, section: str) -> str:
    try:
        section.format(number=0)
    except (LookupError, ValueError) as error:
        what = f"interface: '{section}' cannot be filled in: {error!r}"
        raise MachineError(where, what, 'write e.g. interface = "eth{number}"') from error
    return section


def _steps(where: str, section: Mapping[str, Any]) -> list[Any]:
    steps = section.get("step", [])
    if not isinstance(steps, list):
        raise MachineError(where, "step: is not a list of steps", "write each below a '[[step]]' of its own")
    return steps


def _step(where: str, section: Any) -> Exchange:
    if not isinstance(section, dict) or set(section) - _STEP_KEYS or "expect" not in section:
        raise MachineError(
            where, "is not a step", "write 'expect', and 'send' or 'timeout' where they are needed"
        )
    expect = _pattern(where, "expect", section)
    assert expect is not None
    timeout_ns = (
        _quantity(where, "timeout", section, Duration).ns if "timeout" in section else STEP_TIMEOUT_NS
    )
    return Exchange(expect, str(section.get("send", "")), timeout_ns)


def filled(text: str, recipe: Recipe, plan: Plan, guest: str) -> str:
    """A template with a guest's name, vNICs, addresses, routes. MachineError for an invalid template, or one that
    names what is not there.
    """
    from jinja2 import StrictUndefined, TemplateError
    from jinja2.sandbox import SandboxedEnvironment

    environment = SandboxedEnvironment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    try:
        return environment.from_string(text).render(facts(recipe, plan, guest))
    except (TemplateError, TypeError, ValueError, ArithmeticError) as error:
        names = ", ".join(facts(recipe, plan, guest))
        what = f"its template cannot be filled in: {error}"
        raise MachineError(f"appliance {recipe.name}", what, f"a template knows {names}") from error


def facts(recipe: Recipe, plan: Plan, guest: str) -> dict[str, Any]:
    """The variables that a template can use."""
    entry = plan.world.guests[guest]
    vnics = []
    of: dict[str, str] = {}
    for number, (name, vnic) in enumerate(entry.vnics.items()):
        of[name] = recipe.interface.format(number=number)
        addresses = [ip_interface(text) for text in vnic.ip]
        vnics.append(
            {
                "name": name,
                "number": number,
                "interface": of[name],
                "mac": vnic.mac,
                "mtu_bytes": vnic.mtu_bytes,
                "addresses": [
                    {
                        "version": each.version,
                        "ip": str(each.ip),
                        "prefix": each.network.prefixlen,
                        "netmask": str(each.netmask),
                        "text": str(each),
                    }
                    for each in addresses
                ],
            }
        )
    routes = [
        {
            "to": route.to,
            "network": str(ip_network(route.to, strict=False).network_address),
            "netmask": str(ip_network(route.to, strict=False).netmask),
            "via": route.via,
            "interface": of[route.vnic],
        }
        for route in plan.world.routes.get(guest, ())
    ]
    return {"name": guest, "vnics": vnics, "routes": routes, "forwards": entry.forwards}
