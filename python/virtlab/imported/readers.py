"""A reader per tool. `read` takes the text of an output and the tool's name, or finds out which it is."""

from __future__ import annotations

from collections.abc import Callable

from virtlab.imported import (
    esxtop,
    iperf2,
    iperf3,
    jmeter,
    netperf,
    ping,
    psping,
    sysstat,
    vcenter,
    vegeta,
    virt_top,
    xentop,
)  # fmt: skip
from virtlab.imported.output import ToolOutput, UnreadableError

Reader = Callable[[str], ToolOutput]
READERS: dict[str, tuple[Callable[[str], bool], Reader]] = {
    "psping": (psping.mine, psping.read),
    "ping": (ping.mine, ping.read),
    "iperf3": (iperf3.mine, iperf3.read),
    "iperf2": (iperf2.mine, iperf2.read),
    "netperf": (netperf.mine, netperf.read),
    "jmeter": (jmeter.mine, jmeter.read),
    "vegeta": (vegeta.mine, vegeta.read),
    "sar": (sysstat.mine_sar, sysstat.read_sar),
    "iostat": (sysstat.mine_iostat, sysstat.read_iostat),
    "xentop": (xentop.mine, xentop.read),
    "virt-top": (virt_top.mine, virt_top.read),
    "esxtop": (esxtop.mine, esxtop.read),
    "vcenter": (vcenter.mine, vcenter.read),
}

BEYOND = 2**62


def read(text: str, tool: str | None = None) -> ToolOutput:
    """What an output says. UnreadableError with the line when it is not the tool's, or no tool's at all."""
    text = text.removeprefix("\ufeff")
    if tool is None:
        tool = next((name for name, (mine, _) in READERS.items() if mine(text)), None)
        if tool is None:
            raise UnreadableError(f"is not an output of {', '.join(READERS)}")
    try:
        output = READERS[tool][1](text)
    except RecursionError:
        raise UnreadableError(f"is not an output of {tool}: it is nested too deeply") from None
    seen = set()
    for point in output.points:
        value = point.t_ns, point.entity, point.metric
        if value in seen:
            what = f"has {point.metric} of '{point.entity[:60]}' twice at one instant"
            raise UnreadableError(
                what, 0, "leave one out; of names that were cut short, write them whole (xentop -f)"
            )
        seen.add(value)
    for columns in output.blocks.values():
        for name, values in columns.items():
            if not all(-BEYOND < value < BEYOND for value in values):
                raise UnreadableError(f"holds a {name} beyond all measure")
    return output
