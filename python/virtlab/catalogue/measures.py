"""Metrics that several workloads measure alike, by the part of a workload that gives them."""

PROBE = frozenset({"stalls", "stall", "socket_drops", "send_errors"})
"""Of everything that is sent by an agent."""

SEARCH = frozenset({
    "limit_size", "limit_rate", "limit_packet_rate", "limit_request_rate", "limit_time", "limit_count",
    "search_trials", "search_traffic",
})  # fmt: skip
"""Of everything whose input a search can raise."""

PACKETS = frozenset({"ipdv", "pdv", "jitter_rfc3550", "loss", "duplicates", "reordering"})
"""Of packets with sequence numbers."""

LOAD = frozenset({"offered_load", "achieved_load", "achieved_share", "goodput"})
"""Of what sends at a rate of its own."""

STREAM = (
    PROBE
    | SEARCH
    | PACKETS
    | LOAD
    | {
        "owd", "path_owd", "flow_loss", "throughput", "lost_rate", "packet_rate", "cpu_per_packet", "fairness",
        "pacing_error", "ndr", "pdr", "latency", "frame_loss", "tested_load", "back_to_back", "buffer_time",
        "corrected_buffer_time", "recovery_time", "reset_time",
    }
)  # fmt: skip
"""Of one-way streams of packets at a rate, the tests of RFC 2544 included."""
