"""Files that search a stream's rate by way of two guests which forward; tests differ in what they do to the search."""

from __future__ import annotations

ROLE = (
    "{workload: raw_stream, from: sut.generator, to: sut.receiver, size: 64 B frame, via: [sut.vm1, sut.vm2]}"
)


def searching(
    name: str, *, low: str, high: str, goal: str, role: str = ROLE, more: str = "", forwarding: str = "layer3",
    repeat: int = 1, vswitch: str = "linux_bridge",
) -> str:  # fmt: skip
    """The text of the file; the role is `load`, `more` are lines of the section `search`."""
    return f"""
version: 1
name: {name}
seed: 5
hosts:
  sut:
    vswitch: {vswitch}
    vswitches: {{br0: {{isolate: true}}, br1: {{isolate: true}}}}
    guests:
      generator: {{vswitches: [br0], isolate: false}}
      receiver: {{vswitches: [br1], isolate: false}}
      vm: {{count: 2, vswitches: [br0, br1], forwarding: {forwarding}}}
roles:
  load: {role}
search:
  variable: load.rate
  low: {low}
  high: {high}
  goals: [{{{goal}}}]
  {more}
timing: {{warmup: 0 s, pause: 0 s, drain: 50 ms}}
collect: {{series: {{}}}}
repeat: {repeat}
"""
