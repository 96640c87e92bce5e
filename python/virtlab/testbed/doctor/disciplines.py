"""Each queue discipline of the kernel, by putting it on an interface of a namespace that is dropped at once."""

from __future__ import annotations

from collections.abc import Iterator

from virtlab.catalogue import QDISCS
from virtlab.testbed.build.machine import KERNEL_QDISCS, findings
from virtlab.testbed.finding import Finding

GROUP = "queue disciplines of the kernel"
_PURPOSE = {name: entry.kernel.purpose for name, entry in QDISCS.items()} | {
    "cls_u32": "match rules of queues by the kernel",
    "cls_flower": "802.1p priorities in match rules by the kernel",
}
_MODULE = {name: name for name in ("cls_u32", "cls_flower")}
_MODULE |= {name: "" for name, entry in QDISCS.items() if entry.kernel.built_in}


def examine() -> Iterator[Finding]:
    """One finding per discipline."""
    found = findings()
    for kind in KERNEL_QDISCS:
        name = f"qdisc.{kind}"
        needed = kind in QDISCS and QDISCS[kind].kernel.essential
        if found.world is not None:
            yield Finding(
                name, GROUP, "untried", "no private world to try it in", "see 'world'", needed=needed
            )
            continue
        refused = found.qdiscs.get(kind, "not tried by this agent")
        purpose = _PURPOSE.get(kind, "")
        if refused is None:
            yield Finding(name, GROUP, "yes", purpose or "works", needed=needed)
            continue
        module = _MODULE.get(kind, f"sch_{kind}")
        cure = f"load or build the kernel module {module}" if module else "use a kernel that has it"
        if kind in found.switch_qdiscs:
            cure += "; or write 'by: virtlab': the soft switch plays it on physical links"
        says = f"{refused}" + (f" ({purpose})" if purpose else "")
        yield Finding(name, GROUP, "no", says, cure, needed=needed)
