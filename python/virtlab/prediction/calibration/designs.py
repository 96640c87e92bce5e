"""Designed runs for a calibration: worlds in which one cost after the other shows.

| design | what varies | what it shows |
|---|---|---|
| `bridge` | size, ICMP or UDP | vNIC, bridge, calls of processes, wake-ups |
| `bridge_poll` | size; the near receiver polls | its wake-ups |
| `links` | size, ICMP or UDP, one or two switches | what plays the links; wake-ups beside it |
| `links_poll` | size, one or two switches; the near receiver polls | its wake-ups beside it |
| `raw`, `udp` | frame size, as fast as possible over the bridge | a call right after another, per packet and per byte |
| `forward_layer3`, `forward_layer2` | frame size, by way of a guest | what forwarding costs beyond `raw` |
| `switch` | frame size, more than the links' player holds | what it needs per frame, per packet and per byte |
| `busy` | how many pairs of other guests flood each other | what waking and crossing cost while processors are busy |
| `vswitch_KIND` | size, over another virtual switch | its datapath, and what asking its rules costs a first packet |
| `pinned` | whether a router is pinned, and has others' frames | what steering frames to its processor costs |
| `switch_KIND` | | what a queue discipline of virtlab's there costs beyond FIFO |

ICMP is answered by the far kernel, UDP by a far process. Sizes and protocols vary in each world, so that costs per
byte, per frame and per message part. A player of links that is offered more than it holds is late by design: such runs
are tainted, and tell how much it holds all the same. What a machine cannot play is left out (a receiver that polls
needs a processor of its own).

Between namespaces the sender's processor carries a frame through the guest to the receiver, so a frame by way of a
guest takes the sender longer by what forwarding costs. Where frames come slower than they are sent, the guest is the
bound, and their pace is its cost. The guest's second vNIC and the second virtual switch come with it: only their sum
shows.
"""

from __future__ import annotations

from virtlab.catalogue import DEFAULT_VSWITCH, QDISCS, VSWITCHES
from virtlab.catalogue.qdiscs import DEFAULT_QDISC
from virtlab.catalogue.workloads.raw_stream import RAW_STREAM
from virtlab.catalogue.workloads.udp_stream import UDP_STREAM

PROBE = "probe"
FLOOD = "flood"
BUSY = "busy"
PIN = "pin"
BESIDE = "beside"
OTHER_VSWITCHES = tuple(kind for kind in VSWITCHES if kind != DEFAULT_VSWITCH)
PAIRS_MAX = 8
DISCIPLINES = {name: entry.calibrated for name, entry in QDISCS.items() if entry.calibrated is not None}

_HEAD = """version: 1
name: calibrate-{name}
title: Costs of this machine, {name}
seed: 11
"""
_ECHOES = (
    _HEAD
    + """factors:
  size: {sizes}
{factors}
{world}
roles:
  probe:
    workload: rtt
    from: {near}
    to: {far}
    size: "${{size}}"
    protocol: {protocol}
    interval: 3.1 ms
    count: {count}
timing: {{warmup: 100 ms, drain: 50 ms}}
repeat: {{minimum: {repeat}, maximum: {repeat}}}
"""
)
_FLOOD = (
    _HEAD
    + """factors:
{factors}
{world}
roles:
  flood: {{workload: {workload}, from: {near}, to: {far}, size: "{size}", duration: {duration}}}
timing: {{warmup: 50 ms, drain: 100 ms}}
repeat: {{minimum: {repeat}, maximum: {repeat}}}
"""
)
_BRIDGE = {"world": "hosts: 1\nhost: {guests: 2}\ntopology: none", "near": "h1.g1", "far": "h1.g2"}
_FORWARDING = """hosts:
  sut:
    vswitches: {{br0: {{isolate: true}}, br1: {{isolate: true}}}}
    guests:
      generator: {{vswitches: [br0], isolate: false}}
      receiver: {{vswitches: [br1], isolate: false}}
      vm: {{vswitches: [br0, br1], forwarding: {layer}}}"""
_SIDES = {"near": "h1.g1", "far": "h2.g1"}
_FAST = (
    "hosts: 2\ntopology: {{shape: line, switches: 1}}\n"
    "link: {{rate: 1 Gbit/s, queue: {{kind: {kind}, by: virtlab{more}}}}}"
)


_BUSY = (
    _HEAD
    + """factors:
  busy:
{levels}
hosts: 1
host: {{guests: {guests}}}
topology: none
roles:
  probe: {{workload: rtt, from: h1.g1, to: h1.g2, size: 1500 B ip_packet, interval: 3.1 ms, count: {count}}}
{roles}
timing: {{warmup: 100 ms, drain: 50 ms}}
repeat: {{minimum: {repeat}, maximum: {repeat}}}
"""
)


_PINNED = (
    _HEAD
    + """factors:
  pin: [none, one]
  beside: {{alone: {{runs: false}}, loaded: {{runs: true}}}}
hosts: {{h1: {{vswitch: linux_bridge, guests: 2}}, h2: {{vswitch: linux_bridge, guests: 2}}}}
routers: [r1]
router: {{platform: namespace, pin: "${{pin}}"}}
link: {{rate: 1 Gbit/s, realise: shaping}}
links: {{a: {{ends: [h1, r1]}}, b: {{ends: [r1, h2]}}}}
roles:
  probe: {{workload: rtt, from: h1.g1, to: h2.g1, size: 100 B ip_packet, interval: 3.1 ms, count: {count}}}
  load: {{workload: udp_stream, as: load, from: h1.g2, to: h2.g2, size: 100 B payload, rate: 16 Mbit/s,
    enabled: "${{beside.runs}}"}}
timing: {{warmup: 100 ms, drain: 50 ms}}
repeat: {{minimum: {repeat}, maximum: {repeat}}}
"""
)


def _busy(processors: int, count: int, repeat: int) -> str:
    """Echoes beside none, one, and as many pairs of busy guests as there are processors."""
    pairs = max(1, min(processors, PAIRS_MAX))
    levels = "\n".join(
        f"    {word}: {{{', '.join(f'p{at}: {str(at < active).lower()}' for at in range(pairs))}}}"
        for word, active in {"none": 0, "one": 1, "all": pairs}.items()
        if word != "one" or pairs > 1
    )
    roles = "\n".join(
        f"  {BUSY}{at}: {{workload: udp_stream, as: load, from: h1.g{2 * at + 3}, to: h1.g{2 * at + 4}, "
        f'size: 18 B payload, enabled: "${{busy.p{at}}}"}}'
        for at in range(pairs)
    )
    return _BUSY.format(
        name="busy", levels=levels, roles=roles, guests=2 * pairs + 2, count=count, repeat=repeat
    )


def designs(*, quick: bool, processors: int = 2) -> dict[str, str]:
    """Experiment files by name."""
    echoes = {
        "sizes": "[100 B ip_packet, 1500 B ip_packet]"
        if quick
        else "[100 B ip_packet, 700 B ip_packet, 1500 B ip_packet]",
        "count": 200 if quick else 500,
        "repeat": 2 if quick else 5,
    }
    floods = {"duration": "100 ms" if quick else "300 ms", "repeat": 2 if quick else 5}
    linked = '{hosts}\ntopology: {{shape: line, switches: "${{switches}}"}}\nlink: {{rate: 100 Mbit/s}}'
    polling = "hosts: {{h1: {{guests: {{g1: {{idle: poll}}{more}}}}}{rest}}}"
    worlds = {
        "bridge": (_BRIDGE, "  protocol: [icmp, udp]", '"${protocol}"'),
        "bridge_poll": (
            _BRIDGE | {"world": polling.format(more=", g2: {}", rest="") + "\ntopology: none"}, "", "icmp",
        ),
        "links": (
            _SIDES | {"world": linked.format(hosts="hosts: 2")},
            "  protocol: [icmp, udp]\n  switches: [1, 2]",
            '"${protocol}"',
        ),
        "links_poll": (
            _SIDES | {"world": linked.format(hosts=polling.format(more="", rest=", h2: {}"))},
            "  switches: [1, 2]",
            "icmp",
        ),
    }  # fmt: skip
    found = {
        name: _ECHOES.format(
            name=name.replace("_", "-"), factors=factors, protocol=protocol, **where, **echoes
        )
        for name, (where, factors, protocol) in worlds.items()
    }
    for name, workload, sizes in (
        ("raw", RAW_STREAM.name, "[64 B frame, 1518 B frame]"),
        ("udp", UDP_STREAM.name, "[18 B payload, 1472 B payload]"),
    ):
        found[name] = _FLOOD.format(
            name=name, workload=workload, size="${size}", factors=f"  size: {sizes}", **_BRIDGE, **floods
        )
    for layer in ("layer3", "layer2"):
        found[f"forward_{layer}"] = _FLOOD.format(
            name=f"forward-{layer}",
            workload=RAW_STREAM.name,
            size="${size}",
            factors="  size: [64 B frame, 1518 B frame]",
            world=_FORWARDING.format(layer=layer),
            near="sut.generator",
            far="sut.receiver",
            **floods,
        ).replace('size: "${size}",', 'size: "${size}", via: [sut.vm],')
    found["switch"] = _FLOOD.format(
        name="switch",
        workload=RAW_STREAM.name,
        size="${size}",
        factors="  size: [64 B frame, 256 B frame]",
        world=_FAST.format(kind=DEFAULT_QDISC, more=""),
        **_SIDES,
        **floods,
    )
    for kind in OTHER_VSWITCHES:
        world = _BRIDGE | {"world": f"hosts: 1\nhost: {{guests: 2, vswitch: {kind}}}\ntopology: none"}
        found[f"vswitch_{kind.replace('-', '_')}"] = _ECHOES.format(
            name=kind, factors="", protocol="icmp", **world, **echoes
        )
    found["pinned"] = _PINNED.format(name="pinned", count=100 if quick else 300, repeat=3 if quick else 6)
    found[BUSY] = _busy(processors, 100 if quick else 300, 3 if quick else 6)
    for kind, more in DISCIPLINES.items():
        if quick and not QDISCS[kind].calibrated_first:
            continue
        found[f"switch_{kind}"] = _FLOOD.format(
            name=f"switch-{kind.replace('_', '-')}",
            workload=RAW_STREAM.name,
            size="${size}",
            factors="  size: [64 B frame]",
            world=_FAST.format(kind=kind, more=more),
            **_SIDES,
            **floods,
        )
    return found
