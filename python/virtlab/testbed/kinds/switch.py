"""What a kind of virtual switch is to this testbed, whether the kernel or a program forwards its frames.

`SwitchKind` says whether such switches can be here, and lowers each to a `BuiltSwitch`: its part of the world's Steps.
One that the kernel forwards for is done when these are applied; one that is a program is started by `running`, and told
then what its `BuiltSwitch` noted. It is found by its declared name (`testbed/kinds/registry.py`), and nothing else of
it is used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from virtlab.plan import Plan, Refusal, Vswitch
from virtlab.testbed.kinds.built_switch import BuiltSwitch
from virtlab.testbed.kinds.platform import (
    Counted,
    Running,
    Surroundings,
    nothing_missing,
    nothing_refused,
)

if TYPE_CHECKING:
    from virtlab.testbed.kinds.findings import Findings


class RunningSwitches(Running, ABC):
    """Virtual switches of a session that are programs."""

    __slots__ = ()

    @abstractmethod
    def facts(self, vswitch: str) -> dict[str, Any]:
        """A switch as its program has it. MachineError where it is not as told."""

    @abstractmethod
    def relocate(self, vswitch: str, ports: Mapping[str, str]) -> None:
        """As of `Relocating`."""

    def caches(self) -> Iterator[Counted]:
        """Counters that take processes to read: of its flow caches."""
        return iter(())


@dataclass(frozen=True, slots=True)
class SwitchKind:
    """A kind of virtual switch: `missing`, `refusals` and `running` as of `GuestPlatform`."""

    # One of them: in a namespace, by a name, and whether it is told from the start where addresses are.
    built: Callable[[Vswitch, str, str, bool], BuiltSwitch]
    missing: Callable[[Findings], str | None] = nothing_missing
    refusals: Callable[[str, str, Plan, Findings], Iterator[Refusal]] = nothing_refused
    running: Callable[[Surroundings, Sequence[str]], RunningSwitches] | None = None
