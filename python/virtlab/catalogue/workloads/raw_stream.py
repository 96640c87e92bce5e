"""`raw_stream`: layer-2 frames of exact size with sequence number and time stamp, through memory-mapped rings."""

from __future__ import annotations

from collections.abc import Mapping

from virtlab.catalogue.declaration import Parameter, Values, Workload
from virtlab.catalogue.kinds import COUNT, FRAME_SIZE, PACKET_RATE, POSITIVE_DURATION

FRAME_MIN_BYTES = 64
FRAME_MAX_BYTES = 9_018
RATE_GUESS_PPS = 500_000  # of an estimate, where the file does not say the rate


def _rows(values: Values, traffic_ns: int) -> Mapping[str, int]:
    return {"packet/1": int(values.get("rate_pps", RATE_GUESS_PPS)) * traffic_ns // 10**9 + 1}


def _check(values: Values) -> list[tuple[str, str]]:
    size_bytes = int(values["frame_bytes"])
    if not FRAME_MIN_BYTES <= size_bytes <= FRAME_MAX_BYTES:
        return [
            (
                "size",
                f"a frame of {size_bytes} B does not exist; write between '64 B frame' and '9018 B frame'",
            )
        ]
    return []


RAW_STREAM = Workload(
    name="raw_stream",
    meaning="layer-2 frames of exact size, one way",
    part="measure",
    parameters=(
        Parameter("size", FRAME_SIZE, "frame_bytes", "size of one frame, header to checksum", "64 B frame"),
        Parameter(
            "rate", PACKET_RATE, "rate_pps", "frames per second; absent: as fast as possible", tunable=True
        ),
        Parameter("duration", POSITIVE_DURATION, "duration_ns", "how long it sends", "10 s"),
        Parameter("flows", COUNT, "flows", "number of flows, each with its own loss", 1),
    ),
    streams={"packet/1": "to"},
    duration_ns=lambda values: int(values["duration_ns"]),
    rows=_rows,
    check=_check,
)
