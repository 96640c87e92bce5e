"""Every agent says which build it is: its version, and a hash of the sources that it was made of."""

from __future__ import annotations

import os
import re

import pytest
import testbed_world as worlds

from virtlab import __version__
from virtlab.agents.requests.leader import Apply, Spawn
from virtlab.testbed.leader.process import Leader, agent_path
from virtlab.testbed.steps.operations import NamespaceAdd

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))


def test_leader_probe_and_switch_are_of_one_build_that_names_its_sources() -> None:
    with Leader.start() as leader:
        control = leader.control
        control.call(Apply(batch=[NamespaceAdd("guest:a").json()]))
        for channel, role in ((1, "switch"), (2, "probe")):
            control.call(Spawn(channel=channel, role=role, namespace="guest:a"))
        builds = {leader.hello["build"], *(control.greet(channel)["build"] for channel in (1, 2))}
    (build,) = builds
    assert re.fullmatch(rf"{re.escape(__version__)}\+[0-9a-f]{{16}}", build)


@pytest.mark.skipif("VIRTLAB_AGENT" in os.environ, reason="another agent was named")
def test_the_agent_is_small_and_its_symbols_are_in_a_file_beside() -> None:
    binary = agent_path()
    assert binary.stat().st_size <= 5_000_000
    symbols = binary.with_name("virtlab-agent.debug")
    assert symbols.name.encode() in binary.read_bytes()  # what a debugger looks for
    assert b".debug_line" in symbols.read_bytes()
