"""Metrics of the tests that follow a search, in the same world: those of RFC 2544 beside throughput.

They belong to a role, and to a load of it: `flows.at50.latency.mean` is at 50 % of the throughput found,
`flows.rate240.latency.mean` at 240 frames (or bits) per second, `flows.max90.frame_loss.ratio` at 90 % of the highest
load, and `flows.at50.sut.vm3.latency.mean` of one flow alone.
"""

from __future__ import annotations

from virtlab.metrics.metric import Metric, by_key

_TRIALS = ("mean", "min", "max", "sd")

BENCHMARKS = by_key(
    Metric(
        "latency", "ns", "lower",
        "One-way delay at a stated load, up to the receiver's kernel stamp: of one frame per trial, tagged half-way, or "
        "of all frames (`tag`). mean, min, max and sd are over trials; quantiles are of the frames that count, of all "
        "trials together, to 0.3 %.", "RFC 2544, 26.2", (*_TRIALS, "median", "p90", "p99"), "role", "latency",
    ),
    Metric(
        "split_latency", "ns", "lower",
        "Latency over flows of unequal shares of the load: q mean(weak flows) + (1 - q) mean(strong flows), q the weak "
        "ones' share of the whole; the plain mean over flows where all shares are equal. Mean over trials.",
        "published forwarding study, its sums and its case without weak guests mended", ("mean",), "role",
        "combined latency",
    ),
    Metric(
        "frame_loss", "ratio", "lower", "Share of the frames of a stated load that was lost, over all its trials.",
        "RFC 2544, 26.3", ("ratio",), "role", "frame loss rate",
    ),
    Metric(
        "tested_load", "bit/s", "neither",
        "The load of a test: whole frames for `raw_stream`, IP packets for `udp_stream`.", "RFC 2285, 3.5.2", ("mean",),
        "role", "tested load",
    ),
    Metric(
        "back_to_back", "count", "higher",
        "Longest burst of frames at the highest load without loss. Statistics are over searches for it; absent where the "
        "longest burst tried lost nothing.", "RFC 2544, 26.4", _TRIALS, "role", "back-to-back frames",
    ),
    Metric(
        "buffer_time", "ns", "higher", "Back-to-back frames as time at the highest load.",
        "RFC 9004, implied DUT buffer time", ("mean",), "role", "implied buffer time",
    ),
    Metric(
        "corrected_buffer_time", "ns", "higher",
        "The same without what the device forwards during the burst: implied - implied * throughput / highest load.",
        "RFC 9004, corrected DUT buffer time", ("mean",), "role", "corrected buffer time",
    ),
    Metric(
        "recovery_time", "ns", "lower",
        "From the end of an overload to the last frame lost; 0 where that was lost before. Absent where the overload lost "
        "nothing. Statistics are over trials.", "RFC 2544, 26.5", _TRIALS, "role", "system recovery",
    ),
    Metric(
        "reset_time", "ns", "lower",
        "From the last frame received before a reset of the device to the first one after it. Statistics are over trials.",
        "RFC 2544, 26.6; RFC 6201", _TRIALS, "role", "reset",
    ),
)  # fmt: skip
