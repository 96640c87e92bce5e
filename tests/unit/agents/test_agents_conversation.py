"""The tongue of the agent, against frames that both languages read (tests/golden/wire/frames.json)."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtlab._native import encode_frame

from virtlab.agents import Block, Breach, Conversation, Data, Log, Notice, Reply, decode_samples
from virtlab.errors import AgentError

GOLDEN = json.loads(
    (Path(__file__).parents[2] / "golden" / "wire" / "frames.json").read_text(encoding="utf-8")
)


def body_of(frame: dict[str, Any]) -> bytes:
    return frame["text"].encode() if "text" in frame else bytes.fromhex(frame["body_hex"])


@pytest.mark.parametrize("frame", GOLDEN, ids=[frame["name"] for frame in GOLDEN])
def test_golden_frames_are_written_byte_for_byte(frame: dict[str, Any]) -> None:
    assert encode_frame(frame["channel"], frame["kind"], body_of(frame)).hex() == frame["frame_hex"]


def test_golden_frames_are_read_as_what_they_are() -> None:
    heard = [frame for frame in GOLDEN if frame["name"] != "request"]
    stream = b"".join(bytes.fromhex(frame["frame_hex"]) for frame in heard)
    conversation = Conversation()
    found = [message for at in range(0, len(stream), 7) for message in conversation.feed(stream[at : at + 7])]
    kinds = {frame["name"]: message for frame, message in zip(heard, found, strict=True)}
    reply, refusal = kinds["reply"], kinds["refusal"]
    assert reply == Reply(0, 7, {"t_ns": 12}, None)
    assert isinstance(refusal, Reply)
    assert refusal.error is not None
    assert (refusal.error["index"], refusal.error["kernel"]) == (3, "File exists")
    assert kinds["event"] == Notice(
        2, "finished", {"event": "finished", "role": "probe", "t_ns": 123, "reason": "complete"}
    )
    assert kinds["log"] == Log(3, "warning", "slow")
    assert kinds["output"] == Data(20000, 1, b"hello\n")
    block = kinds["block"]
    assert isinstance(block, Block)
    samples = decode_samples(block.body)
    assert (samples.stream, samples.schema, samples.number, samples.rows) == ("series", "series/1", 0, 2)
    assert samples.columns["metric"].tolist() == ["cpu", "steal"]
    assert samples.columns["value"].tolist() == [0.5, 0.25]
    assert conversation.stray_bytes == 0


def test_a_request_is_the_golden_one() -> None:
    number, frame = Conversation().request("start", {"role": "probe", "at_ns": 5}, channel=2)
    golden = next(frame for frame in GOLDEN if frame["name"] == "request")
    assert number == 1
    assert frame.hex() == golden["frame_hex"]


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"re": "x"}', '{"re": 1}', "no json", '{"re": null, "ok": {}}']
)
def test_a_control_frame_that_says_nothing_is_a_breach_by_its_channel(text: str) -> None:
    (breach,) = Conversation().feed(bytes(encode_frame(3, 0, text.encode())))
    assert isinstance(breach, Breach)
    assert breach.channel == 3
    assert "control frame" in breach.what


@pytest.mark.slow
@given(st.binary(max_size=400))
def test_no_bytes_do_harm_to_a_conversation_or_a_block(content: bytes) -> None:
    conversation = Conversation()
    conversation.feed(content)
    conversation.feed(bytes(encode_frame(0, 0, content)))
    with contextlib.suppress(AgentError):
        decode_samples(content)


def test_a_block_that_lacks_a_column_is_an_error() -> None:
    head = json.dumps({"stream": "s", "schema": "transaction/1", "number": 0, "n": 0, "columns": []}).encode()
    with pytest.raises(AgentError, match="lacks the columns flow, started_ns, finished_ns"):
        decode_samples(len(head).to_bytes(4, "little") + head)


def test_names_without_a_word_are_an_error() -> None:
    head = json.dumps(
        {
            "stream": "s", "schema": "series/1", "number": 0, "n": 1,
            "columns": [
                {"name": "t_ns", "dtype": "i64"}, {"name": "entity", "dtype": "i32"},
                {"name": "metric", "dtype": "i32"}, {"name": "value", "dtype": "f64"},
            ],
            "dictionary": {"entity": ["a"], "metric": ["b"]},
        }
    ).encode()  # fmt: skip
    body = bytearray(len(head).to_bytes(4, "little") + head)
    for column in ((1).to_bytes(8, "little"), (5).to_bytes(4, "little"), bytes(4), bytes(8)):
        body += bytes(-len(body) % 8) + column
    with pytest.raises(AgentError, match="codes without a name"):
        decode_samples(bytes(body))
