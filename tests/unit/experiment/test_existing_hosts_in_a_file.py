"""Hosts that exist already, as a file names them: what becomes of them in a Plan, and what a file may not say."""

from __future__ import annotations

from pathlib import Path

import pytest

from virtlab.errors import ExperimentError
from virtlab.experiment import load
from virtlab.planner import plan_run

FILE = """
version: 1
name: existing
title: Two hosts that exist already
hosts:
  h1: {platform: ssh, address: root@lab-a}
  h2: {platform: ssh, address: "ssh://lab-b:2222", interface: eth1MORE}
roles:
  probe: {workload: rtt, from: h1.g1, to: h2.g1, interval: 10 ms, count: 10}
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "existing.yaml"
    file.write_text(text)
    return file


def test_a_plan_names_where_such_hosts_are_and_leaves_open_what_is_read_from_them(tmp_path: Path) -> None:
    experiment = load(written(tmp_path, FILE.replace("MORE", "")))
    plan = plan_run(experiment, experiment.points()[0], 0)
    assert plan.world.hosts["h2"].model_dump(exclude_none=True, exclude_defaults=True) == {
        "at": "ssh", "address": "ssh://lab-b:2222", "interface": "eth1",
    }  # fmt: skip
    vnic = plan.world.guests["h1.g1"].vnics["eth0"]
    assert (vnic.network, vnic.mac, vnic.ip) == ("own", "", ())
    assert plan.world.links == {}
    assert plan == type(plan).parse(plan.canonical())


def test_a_vxlan_has_addresses_of_the_file(tmp_path: Path) -> None:
    text = FILE.replace("MORE", "") + "host: {network: vxlan}\nnetwork: {mtu: 1450 B}\n"
    experiment = load(written(tmp_path, text))
    world = plan_run(experiment, experiment.points()[0], 0).world
    vnics = [guest.vnics["eth0"] for guest in world.guests.values()]
    assert [vnic.ip for vnic in vnics] == [("10.0.0.1/24",), ("10.0.0.2/24",)]
    assert all(
        vnic.network == "vxlan" and vnic.mac.startswith("02:") and vnic.mtu_bytes == 1450 for vnic in vnics
    )


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("address: root@lab-a", "address: -oProxyCommand=x", "not an address for ssh"),
        (", address: root@lab-a", "", "nothing says how ssh reaches it"),
        ("MORE", ", mtu: 1400 B", "mtu of a host that exists already is read, not set"),
        ("MORE", ", cpu: 50 %", "cpu of a host that exists already is read, not set"),
        ("MORE", ", domain: guest1", "is of a domain of libvirt"),
        ("eth1MORE", "eth1}\n  h3: {address: root@lab-c", "a host of platform namespace is made here"),
        ("roles:", "topology: line\nroles:", "a cable leads to a host that exists already"),
        (
            "MORE",
            ", vswitch: ovs-netdev",
            "virtual switches of a host that exists already are whatever is there",
        ),
        (
            "MORE",
            ", port_rate: 10 Mbit/s",
            "line 7, .*hosts.h2.port_rate: there is no port of a virtual switch",
        ),
        ("MORE", ", network: vxlan", "no way from h1.g1 to h2.g1; let both be hosts that exist already"),
        (
            "platform: ssh, address: root",
            "platform: libvirt, address: root",
            "nothing says which domain it is",
        ),
    ],
)
def test_what_a_file_may_not_say_is_told_with_its_place(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    with pytest.raises(ExperimentError, match=words):
        load(written(tmp_path, FILE.replace(old, new).replace("MORE", "")))
