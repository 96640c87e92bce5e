"""What comes from agents on a control stream: dialogues of a trial with messages changed, moved, doubled or broken."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from tools.fuzz.agents import BLOCK, CONTROL, LEADER, Said, echoes, played
from tools.fuzz.damage import CHARACTERS, NUMBERS, damaged
from virtlab._native import encode_frame

from virtlab.errors import AgentError

COUNT = 10_000
MESSAGES = 92  # of an honest trial
QUIET_S = 0.02  # after the last spoiled message nobody answers longer than that
VALUES: list[Any] = [
    None, True, -1, 0, 1, 2**31, 2**61, 2**63, 2**64, 10**400, -(2**63), 1.5, 1e308, "", "x", "\x1b[2J\n", "a" * 9000, [],
    {}, [[]], {"what": 1}, [1, 2, 3], "guest:b", "10.0.0.1/24", "fe80::1%x/64", 35_000, 65_535, 10**10,
]  # fmt: skip
EVENTS: list[dict[str, Any]] = [
    {"event": "exited", "channel": 1, "channels": 10**10, "code": None, "signal": 9, "tail": "x"},
    {"event": "exited", "channel": -35_000, "code": 0}, {"event": "exited"}, {"event": "cut", "channel": 0},
    {"event": "finished", "role": "probe", "t_ns": 2**62, "reason": "failed", "failure": "\n x"}, {"log": [], "text": {}},
    {"event": "finished", "role": ["probe"], "t_ns": "now"}, {"re": 1, "ok": {}}, {"re": None, "error": {"what": []}},
    {"re": 1, "error": {"what": "no", "index": -5, "kernel": {}}}, {"event": "started", "role": "probe"},
]  # fmt: skip
WORDS = [
    *NUMBERS,
    *CHARACTERS,
    b"[" * 3000,
    b"{",
    b"}",
    b'"',
    b",",
    b"null",
    b'"\\ud800"',
    b"1e400",
    b"NaN",
    b"VLAB",
]


def cases(seed: int, count: int) -> Iterator[str]:
    """Names of random streams: what is spoiled is drawn while the trial is played."""
    for position in range(count):
        yield f"{seed} control streams {position}"


def run_case(case: str) -> None:
    """The trial ends as an outcome, or with one error."""
    source = random.Random(case)
    chosen = {source.randrange(MESSAGES) for _ in range(source.choice([1, 1, 1, 2, 5]))}
    if source.random() < 0.5:  # most messages compare clocks
        chosen = {number + 34 for number in chosen}
    outcome, _, _ = played(
        lambda number, said: _spoilt(source, said) if number in chosen else said.frame(), QUIET_S
    )
    if outcome.reasons:
        raise AgentError("trial", outcome.reasons[0])


def _spoilt(source: random.Random, said: Said) -> bytes:
    kind = source.choice([0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7])
    frame = said.frame()
    if kind == 0 and said.kind == CONTROL:  # a value of the message is another
        return Said(said.channel, CONTROL, _changed(source, said.body)).frame()
    if kind == 1:  # the text or the block itself is damaged
        body = json.dumps(said.body).encode() if said.kind == CONTROL else said.body
        return bytes(encode_frame(said.channel, said.kind, damaged(source, [body], WORDS)[: 1 << 20]))
    if kind == 2:  # it comes on another channel
        channel = source.choice([0, 1, 2, LEADER - 1, LEADER, LEADER + 1, LEADER + 2, LEADER + 64, 65_535])
        return Said(channel, said.kind, said.body).frame()
    if kind == 3:  # it is of another kind
        body = json.dumps(said.body).encode() if said.kind == CONTROL else said.body
        return bytes(encode_frame(said.channel, source.choice([0, 1, 2]), body))
    if kind == 4:  # the frame is broken
        return damaged(source, [frame], WORDS)
    if kind == 5:  # it comes many times
        return frame * source.choice([2, 100, 3000])
    if kind == 6:  # with something that nobody asked for
        return Said(said.channel, CONTROL, source.choice(EVENTS)).frame() * source.choice([1, 300]) + frame
    block = echoes(source.choice(["probe", "series", "other", ""]), source.choice([0, 1, 2**63]))
    return Said(source.choice([said.channel, LEADER, 2]), BLOCK, block).frame() + frame


def _changed(source: random.Random, value: Any) -> Any:
    """The same with one value in it replaced, left out or doubled."""
    if isinstance(value, dict) and value and source.random() < 0.9:
        key = source.choice(list(value))
        if source.random() < 0.15:
            return {name: each for name, each in value.items() if name != key}
        return {**value, key: _changed(source, value[key])}
    if isinstance(value, list) and value and source.random() < 0.9:
        at = source.randrange(len(value))
        if source.random() < 0.2:
            return value * source.choice([0, 2, 2000])
        return [*value[:at], _changed(source, value[at]), *value[at + 1 :]]
    return source.choice(VALUES)
