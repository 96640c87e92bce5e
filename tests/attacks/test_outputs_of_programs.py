"""What programs print and agents poll is hostile: small outputs that stand for more than any memory or patience
holds.
"""

from __future__ import annotations

import base64
import struct
import tracemalloc
import zlib
from collections.abc import Callable

import pytest

from virtlab.outputs import UnreadableError, parse, read_output, read_poll
from virtlab.outputs.histogram_log import PAYLOAD_MAX
from virtlab.outputs.polled import FRAME_MAX_BYTES, MOST_BYTES, POLL_BYTES, Polls
from virtlab.testbed.kinds.clock import OurClock
from virtlab.testbed.play.instants import SLACK_NS
from virtlab.testbed.play.polled_metrics import PolledMetrics

OF = {"unit": "1/s", "better": "higher"}
POLLED = {**OF, "json": "$", "http": "http://10.0.0.1/", "every": "10 ms"}


def histogram(payload: bytes) -> bytes:
    """A line of an HdrHistogram log with these counts."""
    head = struct.pack(">iiiiqqd", 0x1C849303, len(payload), 0, 5, 1, 3_600_000_000, 1.0)
    packed = zlib.compress(head + payload)
    return b"0.1,1,2," + base64.b64encode(struct.pack(">ii", 0x1C849304, len(packed)) + packed) + b"\n"


@pytest.mark.slow
def test_a_log_of_small_histograms_that_unpack_to_gigabytes_is_refused() -> None:
    log = histogram(bytes(PAYLOAD_MAX)) * 1500
    assert len(log) < 9_000_000
    with pytest.raises(UnreadableError, match="more than 8 MiB when they are unpacked") as caught:
        read_output({"rate": parse("rate", {**OF, "hdr_histogram": "*"})}, log[: 8 << 20])
    assert caught.value.line == 3


def test_empty_buckets_cost_nothing_and_count_nothing() -> None:
    samples = read_output(
        {"rate": parse("rate", {**OF, "hdr_histogram": "*"})}, histogram(bytes(70_000) + b"\x06")
    )["rate"]
    assert samples.counts == [3]
    assert samples.values == [70_000.0]


@pytest.mark.slow
def test_a_long_path_to_many_numbers_is_not_repeated_for_each() -> None:
    name = "a" * 990
    document = f'{{"{name}": [{",".join("1" * 100_000)}]}}'.encode()
    entry = parse("rate", {**OF, "json": f"$['{name}'][*]"})
    tracemalloc.start()
    try:
        assert len(read_output({"rate": entry}, document)["rate"].values) == 100_000
        assert tracemalloc.get_traced_memory()[1] < 100_000 * 400
    finally:
        tracemalloc.stop()


def of_polls(count: int = 1) -> PolledMetrics:
    polled = PolledMetrics.of({f"m{at}": {**POLLED, "every": f"{10 + at} ms"} for at in range(count)})
    assert polled is not None
    return polled


@pytest.mark.parametrize(
    "frames",
    [
        lambda: b"x" * 70,
        lambda: b"output %d\n" % (FRAME_MAX_BYTES + 1),
        lambda: b"output 99999999\n",
        lambda: b"found 7 1 1\n1",
    ],
)
def test_an_agent_whose_frames_are_none_takes_no_memory_and_fails_the_run_at_once(
    frames: Callable[[], bytes],
) -> None:
    polled = of_polls()
    polled.polls.take(frames())
    tracemalloc.start()
    try:
        for _ in range(64):
            assert polled.polls.take(bytes(1 << 20)) == b""
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()
    why = polled.unusable()
    assert why is not None
    assert "no frame of an agent" in why.what


@pytest.mark.slow
def test_an_agent_that_polls_without_a_pause_fails_the_run_before_its_program_ends() -> None:
    polled = of_polls()
    long = b"found 0 1 1000000\n" + bytes(1_000_000)
    for frames in [long] * (MOST_BYTES // 1_000_000) + [b"found 0 1 0\n" * (1_000_000 // POLL_BYTES)]:
        assert polled.unusable() is None
        polled.polls.take(frames)
    why = polled.unusable()
    assert why is not None
    assert "more than 32 MiB" in why.what


def test_more_polls_than_were_asked_for_are_not_read() -> None:
    polled = of_polls()
    second = 1_000_000_000
    asked = (second + 2 * SLACK_NS) // 10_000_000 + 1
    polled.polls.take(b"found 0 1000000 1\n7" * asked)
    assert len(list(polled.samples(OurClock(), 0, second))) == asked
    polled.polls.take(b"found 0 1000000 1\n7")
    with pytest.raises(UnreadableError, match="more often than asked"):
        list(polled.samples(OurClock(), 0, second))


@pytest.mark.slow
def test_thousands_of_polls_are_matched_in_one_database() -> None:
    entry = parse("rate", {**OF, "regex": "(?P<rate>[0-9]+)"})
    assert {read_poll("rate", entry, b"%d up" % number) for number in range(2000)} == set(
        map(float, range(2000))
    )


def test_a_frame_cut_anywhere_is_whole_again() -> None:
    polls = Polls(1)
    whole = b"output 3\nabcfound 0 17 2\nup"
    assert b"".join(polls.take(whole[at : at + 1]) for at in range(len(whole))) == b"abc"
    assert polls.by_source[0][0].text == b"up"
