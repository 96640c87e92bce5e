"""Roles in which an end can be stopped: each sends something every few milliseconds for the better part of a second.

No role of `dirty`, which counts what it could not write, and none of `rt_tasks`, whose supply is what is measured.
"""

from __future__ import annotations

from typing import Any

import testbed_world as worlds

ECHOES = {"interval_ns": 5_000_000, "count": 160, "timeout_ns": worlds.LATE_NS}
ROLES: dict[str, dict[str, Any]] = {
    "rtt over UDP": {"workload": "rtt", "protocol": "udp", "ip_packet_bytes": 200, **ECHOES},
    "tcp_rr": {"workload": "tcp_rr", "duration_ns": 800_000_000, "request_bytes": 100, "response_bytes": 100},
    "psping over TCP": {
        "workload": "psping", "test": "latency", "protocol": "tcp", "request_bytes": 100, "response_bytes": 100,
        "count": 160, "warmup": 0, "outstanding": 1, "interval_ns": 5_000_000, "timeout_ns": worlds.LATE_NS,
    },
    "psping over UDP": {
        "workload": "psping", "test": "latency", "protocol": "udp", "request_bytes": 100, "response_bytes": 100,
        "count": 160, "warmup": 0, "outstanding": 1, "interval_ns": 5_000_000, "timeout_ns": worlds.LATE_NS,
    },
    "burst_load": {
        "workload": "burst_load", "protocol": "udp", "burst_bytes": 2000, "period_ns": 5_000_000, "streams": 1,
        "direction": "request_reply", "origin": "from", "phase": "fixed", "phase_ns": 0, "duration_ns": 800_000_000,
    },
    "udp_stream": {
        "workload": "udp_stream", "ip_packet_bytes": 500, "rate_bit_per_s": 5_000_000, "duration_ns": 800_000_000,
    },
    "tcp_stream": {"workload": "tcp_stream", "message_bytes": 4096, "duration_ns": 800_000_000},
    "http_get": {
        "workload": "http_get", "connections": 2, "rate_per_s": 200, "response_bytes": 1000, "duration_ns": 800_000_000,
    },
    "request_response": {
        "workload": "request_response", "connections": 2, "rate_per_s": 200, "demand_ns": 100_000,
        "duration_ns": 800_000_000,
    },
    "request_response over UDP": {
        "workload": "request_response", "protocol": "udp", "connections": 2, "rate_per_s": 200, "demand_ns": 100_000,
        "duration_ns": 800_000_000,
    },
    "raw_stream": {"workload": "raw_stream", "frame_bytes": 500, "rate_pps": 1000, "duration_ns": 800_000_000},
}  # fmt: skip
# Of roles with one end, in a world with a store `depot`, as a file says them.
OBJECTS = (
    "workload: objects, from: h1.client, to: depot, operations: create, rate: 300 request/s, duration: 1 s,"
    " size: 1 kB"
)
FILES = "workload: files, from: h1.client, operations: create, rate: 300 request/s, duration: 1 s, size: 1 kB"
LOAD = "  - {id: load, do: run, role: load}"
