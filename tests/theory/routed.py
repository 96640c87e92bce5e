"""Two guests and a licensed router between them, for tests of both arms."""

from __future__ import annotations

import json
from ipaddress import ip_address, ip_network
from itertools import pairwise
from typing import Any

from virtlab.experiment import load_text
from virtlab.plan import Plan
from virtlab.planner import plan_run

FILE = """\
version: 1
name: routed
seed: 5
hosts: {{h1: {{vswitch: linux_bridge}}, h2: {{vswitch: linux_bridge}}}}
routers: [{routers}]
router: {{platform: namespace{router}}}
link: {{rate: 1 Gbit/s, realise: shaping}}
links:
{links}
roles:
{roles}
{timeline}
"""


def routed(
    roles: dict[str, dict[str, Any]], *, router: str = "", routers: int = 1, timeline: str = ""
) -> Plan:
    """A line of routers; `router` says more of each, as a file does: ', licence: 2.5 Mbit/s'."""
    names = [f"r{number + 1}" for number in range(routers)]
    stations = ["h1", *names, "h2"]
    links = [f"  l{at}: {{ends: [{one}, {other}]}}" for at, (one, other) in enumerate(pairwise(stations))]
    lines = [
        f"  {name}: {json.dumps({'from': 'h1.g1', 'to': 'h2.g1', **said})}" for name, said in roles.items()
    ]
    experiment = load_text(
        FILE.format(
            routers=", ".join(names),
            router=router,
            links="\n".join(links),
            roles="\n".join(lines),
            timeline=timeline,
        )
    )
    return plan_run(experiment, experiment.points()[0], 0)


def in_ipv6(plan: Plan) -> Plan:
    """The same with every network one of IPv6."""
    values = json.loads(plan.canonical())
    text = json.dumps(values["world"])
    for vnic in (v for guest in values["world"]["guests"].values() for v in guest["vnics"].values()):
        for old in vnic["ip"]:
            address = old.partition("/")[0]
            text = text.replace(f'"{old}"', f'"{_six(address)}/64"').replace(
                f'"{address}"', f'"{_six(address)}"'
            )
    world = json.loads(text)
    for routes in world["routes"].values():
        for route in routes:
            network = route["to"].partition("/")[0]
            route["to"] = str(ip_network(f"{_six(network)}/64", strict=False))
    values["world"] = world
    return Plan.parse(json.dumps(values))


def _six(address: str) -> str:
    """10.a.b.c as fd00:0:a:b::c, so that networks of 24 bits become networks of 64."""
    _, one, two, last = address.split(".")
    return str(ip_address(f"fd00:0:{one}:{two}::{last}"))
