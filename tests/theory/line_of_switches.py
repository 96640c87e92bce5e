"""The file that tests of prediction ask about: two hosts on a line of switches, an echo, a stream, and a load
beside.
"""

from __future__ import annotations


def file_of(
    name: str,
    *,
    switches: str = "[1, 2, 3]",
    load: str = "[0 B, 30 kB]",
    count: int = 20,
    stream: str = "rate: 20 Mbit/s, duration: 300 ms",
    repeat: int = 2,
    more: str = "",
) -> str:
    """An experiment file. `stream` are the stream's parameters, '' for none; `more` stands before the roles."""
    streaming = (
        f"\n  stream: {{workload: udp_stream, from: h1.g1, to: h2.g1, size: 1472 B payload, {stream}}}"
        if stream
        else ""
    )
    return f"""
version: 1
name: {name}
factors: {{switches: {switches}, load: {load}}}
hosts: 2
host: {{guests: 2}}
topology: {{shape: line, switches: "${{switches}}"}}
link: {{rate: 100 Mbit/s}}
{more}
roles:
  probe: {{workload: rtt, from: h1.g1, to: h2.g1, size: 1500 B ip_packet, interval: 10.3 ms, count: {count}}}{streaming}
  load: {{workload: burst_load, from: h1.g2, to: h2.g2, burst: "${{load}}", period: 10 ms, phase: random}}
repeat: {repeat}
"""
