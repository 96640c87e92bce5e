"""Match rules of a queue as filters of the kernel: u32 looks at words of the IP header, flower at VLAN priorities.

A filter says yes or no to one combination of values, so a rule becomes as many filters as it has combinations: address
families, tagged frames or not, code points, ports (a range is a set of prefixes). Filters of an earlier rule are asked
first. As in virtlab's own classifier a fragment has no ports; unlike there, a packet with IPv4 options has none either.
Offsets count from the network header, behind any VLAN tag.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network, ip_network
from itertools import product

from virtlab.plan import Match
from virtlab.testbed.steps.operations import U32, FilterAdd, Flower

IPV4, IPV6, VLAN, ANY = 0x0800, 0x86DD, 0x8100, 3
WITH_PORTS = (6, 17, 132)  # TCP, UDP, SCTP
PER_RULE = 3  # preferences: IPv4, IPv6, tagged
Key = tuple[int, int, int]  # offset, mask, value


def filters(
    namespace: str,
    link: str,
    parent: str,
    rules: tuple[Match, ...],
    handles: Mapping[str, str],
    default: str | None = None,
) -> Iterator[FilterAdd]:
    """The filters of a discipline `parent`. `handles`: class to handle; `default`: class of what no rule takes, where
    the discipline itself knows none."""
    for position, rule in enumerate(rules):
        first = 1 + PER_RULE * position
        for protocol, matcher in _matchers(rule):
            preference = first + {IPV4: 0, IPV6: 1}.get(protocol, 2)
            yield FilterAdd(namespace, link, parent, preference, protocol, handles[rule.class_], matcher)
    if default is not None:
        last = 1 + PER_RULE * len(rules)
        yield FilterAdd(namespace, link, parent, last, ANY, handles[default], U32(((0, 0, 0),)))


def needs(rules: tuple[Match, ...]) -> set[str]:
    """The kernel's classifiers that the rules need."""
    return {"cls_flower" if rule.pcp else "cls_u32" for rule in rules}


def unsaid(rule: Match) -> str | None:
    """What of a rule no filter of the kernel can say; None when all can be."""
    if rule.flow is not None:
        return "the kernel hashes flows by a secret of its own"
    if rule.pcp and (rule.source_port or rule.destination_port):
        return "802.1p priorities and ports together need two filters that agree"
    return None


def _matchers(rule: Match) -> Iterator[tuple[int, U32 | Flower]]:
    if rule.pcp:
        yield from _tagged(rule)
        return
    families = _families(rule)
    if families is None:
        yield ANY, U32(((0, 0, 0),))
        return
    for family in families:
        version = (0, 0xF000_0000, 0x4000_0000 if family == IPV4 else 0x6000_0000)
        for keys in _keys(rule, family):
            yield family, U32(keys or (version,))
            yield VLAN, U32((version, *keys))


def _families(rule: Match) -> tuple[int, ...] | None:
    """Address families that can satisfy it; None where it asks for nothing of IP."""
    given = [ip_network(text, strict=False) for text in (rule.source, rule.destination) if text]
    if given:
        found = {IPV4 if isinstance(network, IPv4Network) else IPV6 for network in given}
        return tuple(found) if len(found) == 1 else ()
    ports = rule.source_port or rule.destination_port
    return (IPV4, IPV6) if rule.dscp or rule.protocol is not None or ports else None


def _keys(rule: Match, family: int) -> Iterator[tuple[Key, ...]]:
    ports = rule.source_port is not None or rule.destination_port is not None
    transports = WITH_PORTS if ports and rule.protocol is None else (rule.protocol,)
    networks = [
        *_network(rule.source, family, source=True),
        *_network(rule.destination, family, source=False),
    ]
    whole = [(0, 0x0F00_0000, 0x0500_0000), (4, 0x0000_3FFF, 0)] if ports and family == IPV4 else []
    at = 20 if family == IPV4 else 40
    for dscp, transport, (low_mask, low), (high_mask, high) in product(
        rule.dscp or (None,), transports, prefixes(rule.source_port), prefixes(rule.destination_port)
    ):
        keys: list[Key] = []
        if dscp is not None:
            keys.append((0, 0x00FC_0000, dscp << 18) if family == IPV4 else (0, 0x0FC0_0000, dscp << 22))
        if transport is not None:
            keys.append(
                (8, 0x00FF_0000, transport << 16) if family == IPV4 else (4, 0x0000_FF00, transport << 8)
            )
        keys += networks + whole
        if ports:
            keys.append((at, low_mask << 16 | high_mask, low << 16 | high))
        yield tuple(keys)


def _network(text: str | None, family: int, *, source: bool) -> Iterator[Key]:
    if text is None:
        return
    network = ip_network(text, strict=False)
    octets, mask = network.network_address.packed, network.netmask.packed
    first = (12 if source else 16) if family == IPV4 else (8 if source else 24)
    for at in range(0, len(octets), 4):
        word = int.from_bytes(mask[at : at + 4])
        if word:
            yield first + at, word, int.from_bytes(octets[at : at + 4])


def prefixes(span: tuple[int, int] | None) -> list[tuple[int, int]]:
    """Mask and value of each prefix of a range; nothing asked: one that all have.

    >>> prefixes((4, 6))
    [(65534, 4), (65535, 6)]
    """
    if span is None:
        return [(0, 0)]
    low, high = span
    found = []
    while low <= high:
        size = low & -low or 1 << 16
        while low + size - 1 > high:
            size >>= 1
        found.append((0xFFFF & ~(size - 1), low))
        low += size
    return found


def _tagged(rule: Match) -> Iterator[tuple[int, Flower]]:
    families = _families(rule)
    if families is not None and not families:
        return
    for priority, network, dscp in product(rule.pcp, families or (None,), rule.dscp or (None,)):
        yield VLAN, Flower(priority, network, dscp, rule.protocol, rule.source, rule.destination)
