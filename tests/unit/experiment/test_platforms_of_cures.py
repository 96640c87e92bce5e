"""A key that the guests of a platform cannot have: the cure names every platform whose guests can."""

from __future__ import annotations

import pytest

from virtlab.catalogue import PLATFORMS
from virtlab.errors import ExperimentError
from virtlab.experiment import load_text

FILE = """
version: 1
name: cured
topology: none
hosts: {{h1: {{guests: {{a: {{platform: {platform}, {key}}}, b: {{}}}}}}}}
roles: {{probe: {{workload: rtt, from: h1.a, to: h1.b, interval: 10 ms, count: 10}}}}
"""


@pytest.mark.parametrize(
    ("key", "platform", "able"),
    [
        ("vcpus: 2", "namespace", "qemu | xen | appliance"),
        ("balloon: 64 MiB", "namespace", "qemu"),
        ("image: own.qcow2", "container", "qemu"),
        ("image: web", "namespace", "container | appliance"),
        ("firmware: uefi", "container", "qemu"),
        ("vnic_model: e1000", "namespace", "qemu | appliance"),
        ("runtime: crun", "namespace", "container"),
        ("seccomp: default", "namespace", "container"),
        ("user_namespace: own", "namespace", "container"),
    ],
)
def test_a_cure_names_every_platform_that_has_it(key: str, platform: str, able: str) -> None:
    with pytest.raises(ExperimentError) as caught:
        load_text(FILE.format(key=key, platform=platform))
    name = key.partition(":")[0]
    assert f"guests.a.{name}: " in str(caught.value)
    assert f"; remove it, or write 'platform: {able}'" in str(caught.value)
    assert set(able.split(" | ")) <= set(PLATFORMS)
