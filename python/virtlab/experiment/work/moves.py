"""The keys of `migrate`: where to, how, over what, and within which limits."""

from __future__ import annotations

from typing import Any

from virtlab.catalogue.kinds import COUNT, FLAG, POSITIVE_DURATION, choice, shown
from virtlab.experiment.read.findings import Findings, Steps
from virtlab.experiment.world.pools import NONE, pool_name
from virtlab.units import Bitrate, nearest, parse_quantity, split_quantity

MODE = choice("pre_copy", "post_copy", "hot", "cold")
OVER = choice("machine", "network")
DISK = choice("shared", "mirrored")
COMPRESSION = choice("xbzrle", "zlib", "zstd")


def read_move(
    at: Steps, values: dict[str, Any], findings: Findings, guests: list[str] | None
) -> dict[str, Any]:
    """The Plan's fields of an action, beside its guest."""
    fields: dict[str, Any] = {}
    to = values.get("to")
    hosts = None if guests is None else list(dict.fromkeys(name.rpartition(".")[0] for name in guests))
    if hosts is None or to in hosts or findings.declares("hosts", to):
        fields["to"] = to
    else:
        what = "'to' is missing" if to is None else f"there is no host '{shown(to)}'"
        findings.add((*at, "to"), what, nearest(str(to), hosts) or f"there are {', '.join(hosts[:8])}")
    if "pool" in values:
        pool = values["pool"]
        if isinstance(pool, str) and pool:
            fields["pool"] = NONE if pool == NONE else pool_name(str(to), pool)
        else:
            what = f"'{shown(pool)}' is not the name of a pool"
            findings.add((*at, "pool"), what, f"write one of the host that 'to' names, or '{NONE}'")
    for key, name, parse in (
        ("mode", "mode", MODE.parse),
        ("over", "over", OVER.parse),
        ("bandwidth", "bandwidth_byte_per_s", byte_rate),
        ("downtime_limit", "downtime_limit_ns", POSITIVE_DURATION.parse),
        ("rounds_limit", "rounds_limit", COUNT.parse),
        ("auto_converge", "auto_converge", FLAG.parse),
        ("compression", "compression", COMPRESSION.parse),
        ("connections", "connections", COUNT.parse),
        ("disk", "disk", DISK.parse),
        ("recover_after", "recover_after_ns", POSITIVE_DURATION.parse),
    ):
        if key in values:
            try:
                fields[name] = parse(values[key])
            except ValueError as error:
                findings.add_text((*at, key), str(error))
    return fields


def byte_rate(written: object) -> int:
    """A rate in whole byte/s, of bits or bytes a second. ValueError when it is not one.

    >>> byte_rate("30 MB/s"), byte_rate("1 Gbit/s")
    (30000000, 125000000)
    """
    text = str(written)
    parts = split_quantity(text)
    bits = parts is not None and parts[1] in Bitrate.units
    rate = Bitrate.parse(text).bit_per_s // 8 if bits else int(parse_quantity(text, "byte/s"))
    if rate <= 0:
        raise ValueError(f"'{text}' must be at least 1 B/s")
    return rate
