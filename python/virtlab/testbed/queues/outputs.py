"""Ways out where the kernel cannot queue as the file wants it: who else plays such a queue, and which kernel can.

The soft switch plays every discipline but those that are the kernel's alone; inside a laboratory machine there is
no soft switch, and no other laboratory machine to go to.
"""

from __future__ import annotations

from virtlab.catalogue import QueueDiscipline

SIMULATED = "simulate it: 'virtlab run FILE --backend simulator'"
LAB_VM = "take the lab VM's kernel: 'virtlab run FILE --in lab-vm'"


def by_another(discipline: QueueDiscipline, inside: str | None = None) -> str:
    """Who else plays a queue of that discipline. `inside`: the laboratory machine that all is in.

    >>> from virtlab.catalogue.qdiscs.htb import HTB
    >>> from virtlab.catalogue.qdiscs.netem import NETEM
    >>> by_another(HTB)
    "write 'by: virtlab': the soft switch plays it"
    >>> by_another(HTB, "lab-vm")
    "write 'by: virtlab' and leave out --in lab-vm: the soft switch plays it"
    >>> by_another(NETEM)
    "simulate it: 'virtlab run FILE --backend simulator'"
    """
    if discipline.far:
        return SIMULATED
    leaving = "" if inside is None else f" and leave out --in {inside}"
    return f"write 'by: virtlab'{leaving}: the soft switch plays it"


def lacking(discipline: QueueDiscipline, module: str, inside: str | None = None) -> str:
    """What to do for a queue of that discipline where the kernel lacks a module for it.

    >>> from virtlab.catalogue.qdiscs.htb import HTB
    >>> from virtlab.catalogue.qdiscs.netem import NETEM
    >>> lacking(NETEM, "sch_netem")[:58]
    "load sch_netem, or take the lab VM's kernel: 'virtlab run "
    >>> lacking(HTB, "cls_u32", "lab-vm") == by_another(HTB, "lab-vm")
    True
    """
    another = by_another(discipline, inside)
    if inside is not None:
        return another  # its kernel has what it has
    kernels = f"load {module}, or {LAB_VM}"
    return f"{kernels}, or {another}" if discipline.far else f"{another}, {kernels}"
