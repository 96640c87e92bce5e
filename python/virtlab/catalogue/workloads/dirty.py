"""`dirty`: a guest writes to its memory at a rate, so that a live migration has pages to copy again; it sends no
traffic.

Pages of the writable working set are written one after the other, around and around. So in a time t the guest dirties
min(D t, W) different bytes, which is what models of pre-copy assume (`virtlab migration`): with pages drawn at random
it would be W (1 - exp(-D t / W)). Each write fills a whole page with new pseudo-random bytes: it neither compresses nor
resembles what was there before.
"""

from __future__ import annotations

from collections.abc import Mapping

from virtlab.catalogue.declaration import Parameter, Values, Workload
from virtlab.catalogue.kinds import BYTE_RATE_OR_NONE, POSITIVE_SIZE
from virtlab.units import PAGE_BYTES

INTERVAL_NS = 100_000_000
PAGES = POSITIVE_SIZE._replace(name="size in whole pages", example="64 MiB")


def _rows(_: Values, traffic_ns: int) -> Mapping[str, int]:
    return {"memory/1": traffic_ns // INTERVAL_NS + 1}


def _check(values: Values) -> list[tuple[str, str]]:
    working_set = int(values["working_set_bytes"])
    if working_set % PAGE_BYTES:
        whole = -(-working_set // PAGE_BYTES)
        what = f"{working_set} B are not a whole number of pages of {PAGE_BYTES} B"
        return [("working_set", f"{what}; write e.g. '{whole * PAGE_BYTES} B'")]
    return []


DIRTY = Workload(
    name="dirty",
    meaning="memory that a guest writes to at a rate: what a live migration copies again",
    part="load",
    parameters=(
        Parameter(
            "rate", BYTE_RATE_OR_NONE, "rate_byte_per_s",
            "of pages written, as bytes; 0 B/s: the memory is filled once, and kept", required=True, tunable=True,
        ),
        Parameter(
            "working_set", PAGES, "working_set_bytes", "memory that is written to, page after page, around",
            required=True,
        ),
    ),
    streams={"memory/1": "from"},
    metrics=frozenset({"written_rate", "written_pages", "missed_pages"}),
    transport=lambda _: None,
    duration_ns=lambda _: None,
    rows=_rows,
    check=_check,
    told_by=frozenset(),
    alone=True,
    moves=True,
)  # fmt: skip
