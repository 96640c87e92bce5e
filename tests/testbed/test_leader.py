"""The leader as its protocol says: batches are whole or nothing, children report their ends, unknown words are
errors.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import testbed_world as worlds

from virtlab.agents import Data, Notice
from virtlab.agents.requests.every import ReadClock
from virtlab.agents.requests.leader import Apply, Exec, Kill, Observe, Resize, Spawn, TryQdiscs
from virtlab.agents.requests.request import Anything, Request
from virtlab.testbed.leader.control import Control, RefusedError
from virtlab.testbed.leader.process import Leader

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))

NAMESPACE = {"op": "namespace", "name": "x"}
BRIDGE = {"op": "bridge", "namespace": "x", "name": "br"}


@pytest.fixture
def control() -> Iterator[Control]:
    with Leader.start() as leader:
        yield leader.control


def apply(control: Control, *batch: dict[str, Any]) -> None:
    control.call(Apply(batch=list(batch)))


def until_exit(control: Control, channel: int, timeout_s: float = 60.0) -> tuple[bytes, bytes, Notice]:
    """Output, errors and the end of a command."""
    written = {1: b"", 2: b""}
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        for message in control.messages(0.1):
            if isinstance(message, Data) and message.channel == channel:
                written[message.stream] += message.content
            elif isinstance(message, Notice) and message.details.get("channel") == channel:
                return written[1], written[2], message
    raise AssertionError("it did not end")


def test_a_batch_that_fails_leaves_nothing_of_it(control: Control) -> None:
    apply(control, NAMESPACE)
    with pytest.raises(RefusedError) as refused:
        apply(
            control,
            BRIDGE,
            {"op": "link", "namespace": "x", "link": "br", "up": True},
            {"op": "address", "namespace": "x", "link": "br", "address": "10.1.1.1/24"},
            {"op": "address", "namespace": "x", "link": "br", "address": "10.1.1.1/24"},
        )
    assert refused.value.error["index"] == 3
    assert "exists" in refused.value.error["kernel"].lower()
    seen = control.call(Observe(namespaces=["x"]))["namespaces"]["x"]
    assert set(seen["links"]) == {"lo"}
    apply(control, BRIDGE)  # the name and the index are free again


def test_a_value_of_the_namespace_is_put_back_when_its_batch_fails(control: Control) -> None:
    apply(control, NAMESPACE)
    forward = {"op": "sysctl", "namespace": "x", "path": "net/ipv4/ip_forward", "value": "1"}
    with pytest.raises(RefusedError) as refused:
        apply(control, forward, {"op": "link", "namespace": "x", "link": "nowhere", "up": True})
    assert refused.value.error["index"] == 1
    control.call(Exec(channel=5, namespace="x", argv=["cat", "/proc/sys/net/ipv4/ip_forward"]))
    output, _, _ = until_exit(control, 5)
    assert output == b"0\n"


def test_a_namespace_of_a_failed_batch_is_forgotten(control: Control) -> None:
    with pytest.raises(RefusedError):
        apply(control, NAMESPACE, {"op": "link", "namespace": "x", "link": "nowhere", "up": True})
    with pytest.raises(RefusedError, match="no namespace 'x'"):
        control.call(Observe(namespaces=["x"]))


def test_an_interface_that_went_and_came_again_as_another_is_claimed_anew(control: Control) -> None:
    """As a hypervisor's end of a guest's port does when the guest is made anew."""
    mac = "fe:00:00:00:00:07"
    brought = f"ip link add born address {mac} type veth peer name far"
    claim = {"op": "claim", "namespace": "x", "name": "port", "mac": mac}
    up = {"op": "link", "namespace": "x", "link": "port", "up": True}
    apply(control, NAMESPACE, BRIDGE)
    for channel, command in enumerate(
        (brought, f"ip link del port && ip link add aside0 type bridge && {brought}")
    ):
        control.call(Exec(channel=5 + channel, namespace="x", argv=["sh", "-c", command]))
        *_, ended = until_exit(control, 5 + channel)
        assert ended.details["code"] == 0
        apply(control, claim, {**up, "up": False, "master": "br"}, up)
        seen = control.call(Observe(namespaces=["x"]))["namespaces"]["x"]["links"]
        assert seen["port"]["mac"] == mac
        assert seen["port"]["master"] == "br"
        assert "born" not in seen


@dataclass(frozen=True)
class Unknown(Request[Anything]):
    """A request that is none."""

    do: str  # type: ignore[misc]
    fields: dict[str, Any]

    def wire(self) -> dict[str, Any]:
        return self.fields


@pytest.mark.parametrize(
    ("do", "fields"),
    [
        ("fly", {}),
        ("clock", {"loud": True}),
        ("apply", {"batch": [{"op": "teleport"}]}),
        ("apply", {"batch": [{**NAMESPACE, "colour": "red"}]}),
        ("spawn", {"channel": 9, "role": "leader", "namespace": "x"}),
        ("sample", {"sources": [{"source": "moon", "every_ns": 10**9}]}),
        ("kill", {"channel": 77, "signal": 9}),
        ("hello", {"protocol": [2, 0]}),
    ],
)
def test_what_is_not_known_is_an_error_reply(control: Control, do: str, fields: dict[str, Any]) -> None:
    with pytest.raises(RefusedError):
        control.call(Unknown(do, fields))
    assert control.call(ReadClock())["raw_ns"] > 0


@pytest.mark.parametrize("path", ["net/../kernel/hostname", "kernel/hostname", "/etc/passwd"])
def test_only_values_of_a_network_namespace_can_be_written(control: Control, path: str) -> None:
    apply(control, NAMESPACE)
    with pytest.raises(RefusedError, match="under net/"):
        apply(control, {"op": "sysctl", "namespace": "x", "path": path, "value": "1"})


def test_a_command_streams_input_output_and_errors(control: Control) -> None:
    apply(control, NAMESPACE)
    content = bytes(range(256)) * 4096
    control.call(Exec(channel=5, namespace="x", argv=["sh", "-c", "cat; echo late >&2; exit 3"]))
    control.data(5, content)
    control.data(5, b"")
    output, errors, end = until_exit(control, 5)
    assert output == content
    assert errors == b"late\n"
    assert (end.details["code"], end.details["signal"], end.details["tail"]) == (3, None, "late")


def test_a_command_that_does_not_exist_is_refused_at_once(control: Control) -> None:
    apply(control, NAMESPACE)
    with pytest.raises(RefusedError, match="no-such-program"):
        control.call(Exec(channel=5, namespace="x", argv=["no-such-program"]))


def test_a_terminal_has_the_size_it_was_given_and_the_next(control: Control) -> None:
    apply(control, NAMESPACE)
    script = "stty size; read line; stty size"
    control.call(
        Exec(channel=5, namespace="x", argv=["sh", "-c", script], terminal={"rows": 33, "columns": 101}),
    )
    control.call(Resize(channel=5, rows=44, columns=99))
    control.data(5, b"go\n")
    output, _, end = until_exit(control, 5)
    assert end.details["code"] == 0
    assert b"44 99" in output


def test_a_killed_agent_reports_its_signal(control: Control) -> None:
    apply(control, NAMESPACE)
    control.call(Spawn(channel=5, role="probe", namespace="x"))
    control.greet(5)
    control.call(Kill(channel=5, signal=9))
    _, _, end = until_exit(control, 5)
    assert end.details["signal"] == 9
    control.call(Spawn(channel=5, role="probe", namespace="x"))  # the channel is free again
    assert control.greet(5)["role"] == "probe"


def test_orphans_of_the_world_are_collected(control: Control) -> None:
    apply(control, NAMESPACE)
    control.call(Exec(channel=5, namespace="x", argv=["sh", "-c", "(sleep 0.1 &) ; exit 0"]))
    until_exit(control, 5)
    look = "grep -lE '^State:.Z|^Name:.sleep' /proc/[0-9]*/status"
    end = time.monotonic() + 60
    output = b"not looked yet"
    while (
        output and time.monotonic() < end
    ):  # the orphan sleeps, and then nobody but the world's first asks how it ended
        control.call(Exec(channel=6, namespace="x", argv=["sh", "-c", look]))
        output, _, _ = until_exit(control, 6)
    assert output == b""


def test_stray_bytes_before_a_frame_do_no_harm(control: Control) -> None:
    control._write(b"Welcome to nowhere\n", 0)
    assert control.call(ReadClock())["raw_ns"] > 0


def test_every_discipline_is_tried_and_told(control: Control) -> None:
    kinds = control.call(TryQdiscs(kinds=["pfifo", "no_such_thing"]))["kinds"]
    assert kinds["pfifo"] is None
    assert kinds["no_such_thing"]
