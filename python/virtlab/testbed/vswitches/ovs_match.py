"""Match rules of a queue as Open vSwitch's words for packets. Pure.

A rule becomes as many matches as it has combinations of values: address families, code points, 802.1p priorities, ports
(a range is a set of prefixes). Tags do not matter unless the rule asks for their priority. A fragment has no ports, as
in virtlab's own classifier.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network, ip_network
from itertools import product

from virtlab.plan import Match
from virtlab.testbed.queues.rules import WITH_PORTS, prefixes

_FAMILIES = {4: "dl_type=0x0800", 6: "dl_type=0x86dd"}
_SOURCES = {4: "nw_src", 6: "ipv6_src"}
_DESTINATIONS = {4: "nw_dst", 6: "ipv6_dst"}
_TRANSPORTS = {6: "tcp", 17: "udp", 132: "sctp"}
_WHOLE = 0xFFFF


def matches(rule: Match) -> Iterator[tuple[str, ...]]:
    """Words of each combination, in the order in which Open vSwitch wants them: what a word needs comes before it.

    >>> list(matches(Match(**{"class": "voice"}, dscp=(46,), protocol=17, destination_port=(5004, 5005))))[0]
    ('dl_type=0x0800', 'nw_proto=17', 'ip_dscp=46', 'udp_dst=0x138c/0xfffe')
    >>> list(matches(Match(**{"class": "all"})))
    [()]
    """
    ports = rule.source_port is not None or rule.destination_port is not None
    protocols = WITH_PORTS if ports and rule.protocol is None else (rule.protocol,)
    for pcp, family in product(rule.pcp or (None,), _families(rule)):
        tag = () if pcp is None else (f"dl_vlan_pcp={pcp}",)
        if family is None:
            yield tag
            continue
        networks = _networks(rule, family)
        for protocol, dscp, source, destination in product(
            protocols, rule.dscp or (None,), prefixes(rule.source_port), prefixes(rule.destination_port)
        ):
            words = [_FAMILIES[family]]
            if protocol is not None:
                words.append(f"nw_proto={protocol}")
            if dscp is not None:
                words.append(f"ip_dscp={dscp}")
            words += networks
            if ports and protocol in _TRANSPORTS:
                words += _port(f"{_TRANSPORTS[protocol]}_src", source)
                words += _port(f"{_TRANSPORTS[protocol]}_dst", destination)
            yield (*tag, *words)


def _families(rule: Match) -> tuple[int | None, ...]:
    """IP versions that can satisfy it; (None,) where it asks for nothing of IP."""
    given = [ip_network(text, strict=False) for text in (rule.source, rule.destination) if text]
    if given:
        found = {4 if isinstance(network, IPv4Network) else 6 for network in given}
        return tuple(found) if len(found) == 1 else ()
    of_ip = rule.dscp or rule.protocol is not None or rule.source_port or rule.destination_port
    return (4, 6) if of_ip else (None,)


def _networks(rule: Match, family: int) -> list[str]:
    pairs = ((_SOURCES[family], rule.source), (_DESTINATIONS[family], rule.destination))
    return [f"{word}={ip_network(text, strict=False)}" for word, text in pairs if text]


def _port(word: str, prefix: tuple[int, int]) -> Iterator[str]:
    mask, value = prefix
    if mask == _WHOLE:
        yield f"{word}={value}"
    elif mask:
        yield f"{word}={value:#x}/{mask:#x}"
