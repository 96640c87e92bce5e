"""What a machine has that lowering and refusals depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from virtlab.catalogue.qdiscs import DEFAULT_QDISC
from virtlab.catalogue.qdiscs.netem import NETEM


@dataclass(frozen=True, slots=True)
class Machine:
    """What lowering has to know of a machine: `link` is the realisation chosen for `realise: auto`."""

    link: str = "soft_switch"
    has_ipv6: bool = True
    filters_bridges: bool = True


USUAL = Machine()


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found. `world` is None when a private world can be made, else why not and the cure."""

    world: tuple[str, str] | None
    qdiscs: Mapping[str, str | None]  # kernel discipline -> None when it works, else the kernel's words
    root: bool
    has_ipv6: bool
    filters_bridges: bool = False  # whether its kernel's packet filter can see what crosses a bridge
    switch_qdiscs: tuple[str, ...] = (DEFAULT_QDISC,)  # queue disciplines that the soft switch plays
    open_vswitch: Mapping[str, str | None] | None = (
        None  # by kind; None: this machine is asked when one is wanted
    )
    xen: bool = False  # whether Xen's hypervisor is beneath it
    automatic_link: str | None = None  # the realisation of links that say `auto`; None: the best one here
    probe_workloads: tuple[str, ...] | None = None  # what a probe of ours plays; None: no agent was asked
    small_system: tuple[str, ...] | None = (
        None  # programs that our own system for machines holds; None: unknown
    )
    inside: str | None = None  # the laboratory machine that all this is of, by its name for --in

    @property
    def machine(self) -> Machine:
        """For lowering: netem where the kernel has it, else the soft switch."""
        link = "netem" if self.world is None and self.qdiscs.get(NETEM.name, "") is None else "soft_switch"
        return Machine(
            link=self.automatic_link or link, has_ipv6=self.has_ipv6, filters_bridges=self.filters_bridges
        )
