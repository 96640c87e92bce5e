"""Experiment files to start from; `virtlab init` writes one. `@NAME@` stands for the experiment's name."""

from __future__ import annotations

from importlib.resources import files

TEMPLATES: dict[str, str] = {
    "delay": "round-trip time against packet size",
    "load": "delay and loss while other guests load the switches",
    "throughput": "UDP and TCP throughput, native beside guests",
    "router": "a router in place of a switch, IPv4 and IPv6",
    "demo": "what a second switch costs; the experiment of `virtlab demo`",
}


def template(kind: str, name: str) -> str:
    """The text of a template for an experiment of that name."""
    return files(__package__).joinpath(f"{kind}.yaml").read_text(encoding="utf-8").replace("@NAME@", name)
