"""Channels of a world: ranges that do not meet, none used up by a long campaign."""

from __future__ import annotations

import json
import socket
import threading
from itertools import pairwise
from typing import Any

import pytest
from virtlab._native import FrameDecoder, encode_frame

from virtlab.errors import MachineError
from virtlab.plan import Plan
from virtlab.testbed.build.lower import lower
from virtlab.testbed.lab import vm
from virtlab.testbed.leader import channels
from virtlab.testbed.leader.channels import (
    LAST,
    OF_A_LABORATORY,
    OF_A_WORLD,
    OF_A_WORLD_INSIDE,
    SWITCH,
    Channels,
)
from virtlab.testbed.leader.control import Control
from virtlab.testbed.vswitches.ovs import OpenVswitches

CONTROL, DATA = 0, 2  # kinds of frames
COMMANDS = 4_500


def test_no_two_owners_have_a_channel_in_common() -> None:
    everybody = sorted(OF_A_WORLD, key=lambda each: each.first)
    for one, other in pairwise(everybody):
        assert one.span.stop <= other.span.start, (one.whose, other.whose)
    assert everybody[0].first > SWITCH
    assert everybody[-1].span.stop - 1 <= LAST


def test_every_range_of_the_page_is_among_those_that_are_compared() -> None:
    ranges = {name: each for name, each in vars(channels).items() if isinstance(each, Channels)}
    assert {name for name, each in ranges.items() if each not in OF_A_WORLD} == {"INSIDE_COMMAND"}


def test_inside_a_laboratory_machine_a_world_has_all_ranges_but_that_of_existing_hosts() -> None:
    inside = [each for each in OF_A_WORLD if each != channels.EXISTING]
    assert max(each.span.stop for each in inside) <= OF_A_WORLD_INSIDE
    assert channels.INSIDE_COMMAND.first >= OF_A_WORLD_INSIDE
    # The leader inside counts from its own place, which is below the world's.
    assert channels.INSIDE_COMMAND.span.stop - vm.INSIDE <= OF_A_LABORATORY
    assert OF_A_LABORATORY + (vm.INSIDE - vm.OUTER) <= LAST


def test_places_are_apart_by_what_each_needs_and_one_too_many_is_told_with_a_cure() -> None:
    few = Channels("boxes", 100, 2, 16)
    assert (few.at(0), few.at(1)) == (100, 116)
    assert few.span == range(100, 132)
    with pytest.raises(MachineError, match="a world has channels for 2 boxes, not for 3") as told:
        few.at(2)
    assert told.value.cure


class Answering(threading.Thread):
    """The other end of a control stream: each command writes its argument and ends well."""

    def __init__(self, stream: socket.socket) -> None:
        super().__init__(daemon=True)
        self.stream = stream
        self.asked: set[int] = set()

    def run(self) -> None:
        decoder = FrameDecoder()
        while content := self.stream.recv(1 << 16):
            decoder.feed(content)
            while (frame := decoder.next_frame()) is not None:
                self._answer(*frame)

    def _answer(self, channel: int, kind: int, body: bytes) -> None:
        if channel != 0 or b'"exec"' not in body:
            return  # input of a command
        request: dict[str, Any] = json.loads(body)
        channel = int(request["channel"])
        self.asked.add(channel)
        ended = {"event": "exited", "channel": channel, "code": 0, "signal": None, "tail": ""}
        said = str(request["argv"][-1]).encode()
        self.stream.sendall(
            encode_frame(0, CONTROL, json.dumps({"re": request["id"], "ok": {"pid": 1}}).encode())
            + encode_frame(channel, DATA, b"\x01" + said)
            + encode_frame(0, CONTROL, json.dumps(ended).encode())
        )


@pytest.mark.slow
def test_thousands_of_commands_of_open_vswitch_never_come_near_a_machines_channel() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        answering = Answering(theirs)
        answering.start()
        control = Control(ours)
        plan = Plan.model_validate({"world": {"hosts": {"h1": {}}, "guests": {}}})
        switches = OpenVswitches(control, plan, lower(plan), ["h1.br"], _places={"host:h1": "0"})
        for number in range(COMMANDS):
            assert switches._run("host:h1", ["ovs-appctl", str(number)]) == str(number)
        assert answering.asked == {channels.OVS_COMMAND.first}
        assert list(control.messages(0.0)) == [], "nothing of a command that ended is kept"
        control.close()
        answering.join(10.0)
