"""Metrics of load and of what came through.

Offered load is what was requested, achieved load what the sender really sent, throughput what arrived counted
in whole frames (header to FCS), goodput what arrived counted in payload (behind the UDP, TCP or Ethernet
header).
"""

from __future__ import annotations

from virtlab.metrics.metric import Metric, by_key

RATES = by_key(
    Metric(
        "offered_load", "bit/s", "neither",
        "Payload (frames for `raw_stream`) per second that the role was asked to send; absent for `as "
        "fast as possible`.", "RFC 2285, 3.5.2 (intended load)", ("mean",), "role",
        "offered load",
    ),
    Metric(
        "achieved_load", "bit/s", "neither",
        "Payload (frames for `raw_stream`) per second that the sender really sent in the window, "
        "requests only.", "RFC 2285, 3.5.3 (offered load)", ("mean",), "role",
        "achieved load",
    ),
    Metric(
        "achieved_burst", "bytes", "neither", "Payload bytes sent per period over all streams.",
        "burst_load: L bytes every T", ("mean", "min", "max"), "role", "achieved burst",
    ),
    Metric(
        "achieved_share", "ratio", "higher",
        "Achieved load per offered load: below 1 the sender could not keep up. Of operations at a rate: those done per "
        "second, of those due per second.",
        "achieved_load / offered_load; operation_rate / request_rate", ("ratio",), "role", "achieved share of the load",
    ),
    Metric(
        "throughput", "bit/s", "higher",
        "What arrived in the window, in frames from header to FCS (fragments counted each).",
        "RFC 2544 and RFC 1242, as a rate at the stated load", ("mean",), "role",
    ),
    Metric(
        "goodput", "bit/s", "higher", "What arrived in the window, in payload; as iperf prints it.",
        "RFC 2647, 3.17; iperf3", ("mean", "min", "max"), "role",
    ),
    Metric(
        "lost_rate", "bit/s", "lower",
        "Payload per second that never arrived, at the pace of what did: goodput * loss / (1 - loss). Goodput plus "
        "lost rate is what would have arrived without loss.", "goodput and loss", ("mean",), "role", "lost rate",
    ),
    Metric(
        "packet_rate", "1/s", "higher", "Datagrams or frames that arrived per second.",
        "RFC 2544, frames per second", ("mean",), "role", "packet rate",
    ),
    Metric(
        "cpu_per_packet", "ns", "lower",
        "Processor time of the whole machine while the stream ran, per packet that arrived: sender, receiver, virtual "
        "switches and links together. What a virtual switch costs is the difference between settings.",
        "/proc/stat over packet rate", ("mean",), "role", "CPU time per packet",
    ),
    Metric(
        "fairness", "ratio", "higher", "How equally the flows share what arrived.", "Jain, Chiu, Hawe 1984",
        ("jain",), "role",
    ),
    Metric(
        "offered_fairness", "ratio", "neither", "How equally the flows share the requested load.",
        "Jain, Chiu, Hawe 1984, of the shares", ("jain",), "role", "fairness of the offered load",
    ),
    Metric(
        "transaction_rate", "1/s", "higher",
        "Completed request-response pairs per second; its inverse is a mean response time.",
        "netperf TCP_RR", ("mean",), "role", "transactions per second",
    ),
    Metric(
        "request_errors", "ratio", "lower",
        "Requests without an answer of status 200, per request that ended: other statuses, time-outs, and connections "
        "that broke; of `request_response` requests whose connection broke.",
        "RFC 9110, 15; counted by the client", ("ratio", "count"), "role",
        "request errors",
    ),
    Metric(
        "bandwidth", "byte/s", "higher",
        "Payload of requests that were answered, per second, between the first answer and the last; min and max "
        "are over ten equal parts of that time.", "PsPing, bandwidth test (-b)", ("mean", "min", "max"),
        "role",
    ),
    Metric(
        "retransmits", "count", "lower", "Segments that TCP sent again.",
        "RFC 4898; Linux TCP_INFO tcpi_total_retrans", ("total", "rate"), "role",
    ),
    Metric(
        "congestion_window", "count", "neither",
        "The sender's congestion window in packets, once per interval.", "Linux TCP_INFO tcpi_snd_cwnd",
        ("mean", "min", "max"), "role", "congestion window",
    ),
)  # fmt: skip
