"""xentop in batch mode (`xentop -b`): CPU and memory of each domain.

Its first iteration has no time to compare with and shows 0 % for all: it is left out. Neither instants nor the delay
between iterations are printed, so what it counts (network, disks) cannot become rates. A domain's name may have spaces
(`-f`); lines about its processors, networks and disks (`-v`, `-n`, `-x`) are passed over. Domain 0 is a domain too and
not the host, whose processors and memory the others use too; it is called as in runs of our own.
"""

from __future__ import annotations

import re

from virtlab.imported.output import Point, ToolOutput, UnreadableError, cell

_HEAD = re.compile(r"^\s*NAME\s+STATE\s+CPU\(sec\)\s+CPU\(%\)\s")
_DETAIL = re.compile(r"^\s*(?:VCPUs\(sec\):|Net\d+ |VBD |xentop - |Mem: |\d+ domains: |Tmem:)")
_ROW = re.compile(r"^\s*(?P<name>.+?)\s+(?P<state>[rbpscd-]{6})\s(?P<rest>.*)$")
KB = 1024.0


def mine(text: str) -> bool:
    """Whether it looks like xentop's."""
    return any(_HEAD.match(line) for line in text.splitlines()[:5])


def read(text: str) -> ToolOutput:
    """A point per domain and iteration, but the first."""
    output = ToolOutput("xentop")
    output.clock = "the output has no instants: iterations are in their order, a second apart"
    head: list[str] = []
    iteration = -1
    for line, words in enumerate(text.splitlines(), start=1):
        if _HEAD.match(words):
            head, iteration = words.split(), iteration + 1
            continue
        if not words.strip() or _DETAIL.match(words) or (len(words.split()) < 4 and not head):
            continue
        if not head:
            raise UnreadableError("is not a heading of xentop", line)
        found = _ROW.match(words)
        if found is None:
            raise UnreadableError("is not a line of a domain", line)
        cells = [found["name"], found["state"], *found["rest"].replace("no limit", "no-limit").split()]
        if len(cells) != len(head):
            raise UnreadableError(f"has {len(cells)} values under {len(head)} headings", line)
        if iteration == 0:
            continue
        row = dict(zip(head, cells, strict=True))
        entity = "domain-0" if row["NAME"] == "Domain-0" else f"guests.{row['NAME']}"
        at = (iteration - 1) * 1_000_000_000
        output.points.append(Point(at, entity, "cpu", cell(row, "CPU(%)", line) / 100))
        if "MEM(k)" in row:
            output.points.append(Point(at, entity, "memory_used", cell(row, "MEM(k)", line) * KB))
    if not output.points:
        raise UnreadableError("holds one iteration only, whose CPU shares are of no time; use -i 2 or more")
    return output
