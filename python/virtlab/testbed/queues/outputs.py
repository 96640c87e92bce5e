"""Ways out where the kernel cannot queue as the file wants it: who else plays such a queue, and which kernel can.

The soft switch plays every discipline but those that are the kernel's alone; inside a laboratory machine there is
no soft switch, and no other laboratory machine to go to.
"""

from __future__ import annotations

from virtlab.catalogue import QDISCS

SIMULATED = "simulate it: 'virtlab run FILE --backend simulator'"
LAB_VM = "take the lab VM's kernel: 'virtlab run FILE --in lab-vm'"


def by_another(kind: str, inside: str | None = None) -> str:
    """Who else plays a queue of that kind. `inside`: the laboratory machine that all is in.

    >>> by_another("codel")
    "write 'by: virtlab': the soft switch plays it"
    >>> by_another("codel", "lab-vm")
    "write 'by: virtlab' and leave out --in lab-vm: the soft switch plays it"
    >>> by_another("netem")
    "simulate it: 'virtlab run FILE --backend simulator'"
    """
    if QDISCS[kind].far:
        return SIMULATED
    leaving = "" if inside is None else f" and leave out --in {inside}"
    return f"write 'by: virtlab'{leaving}: the soft switch plays it"


def lacking(kind: str, module: str, inside: str | None = None) -> str:
    """What to do for a queue of that kind where the kernel lacks a module for it.

    >>> lacking("netem", "sch_netem")[:58]
    "load sch_netem, or take the lab VM's kernel: 'virtlab run "
    >>> lacking("codel", "cls_u32", "lab-vm") == by_another("codel", "lab-vm")
    True
    """
    another = by_another(kind, inside)
    if inside is not None:
        return another  # its kernel has what it has
    kernels = f"load {module}, or {LAB_VM}"
    return f"{kernels}, or {another}" if QDISCS[kind].far else f"{another}, {kernels}"
