"""Which implementation of this testbed belongs to a declared name.

The catalogue declares what a file may say. Its name is the name of a folder or module here, which is imported when it
is first needed, and offers `IMPLEMENTATION`. What is declared elsewhere is put here by `register`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Generic, TypeVar, cast

from virtlab.catalogue import PLATFORMS, VSWITCHES
from virtlab.catalogue.declaration import Declared, played
from virtlab.testbed.kinds.platform import GuestPlatform
from virtlab.testbed.kinds.switch import SwitchKind

ARM = "testbed"
Kind = TypeVar("Kind")


class Registry(Generic[Kind]):
    """Implementations of all that one part of the catalogue declares."""

    def __init__(self, declared: Mapping[str, Declared], module: str) -> None:
        self._declared = declared
        self._module = module  # with {} for the name
        self._known: dict[str, Kind] = {}

    def register(self, name: str, implementation: Kind) -> None:
        """Adds one from outside; its declaration is added to the catalogue."""
        self._known[name] = implementation

    def played(self) -> tuple[str, ...]:
        """Names that are declared for this testbed, and implemented."""
        return tuple(name for name in played(self._declared, ARM) if self.find(name) is not None)

    def find(self, name: str) -> Kind | None:
        """The implementation of a name; None where it is not declared, or where nothing implements it."""
        if name not in self._known and name in self._declared:
            module = self._module.format(name.replace("-", "_"))
            package = module.rpartition(".")[0]
            if importlib.util.find_spec(package) is None or importlib.util.find_spec(module) is None:
                return None
            self._known[name] = cast("Kind", importlib.import_module(module).IMPLEMENTATION)
        return self._known.get(name) if name in self._declared else None

    def of(self, name: str) -> Kind:
        """The implementation of a name that was checked before."""
        found = self.find(name)
        assert found is not None, name
        return found


platforms: Registry[GuestPlatform] = Registry(PLATFORMS, "virtlab.testbed.platforms.{}.platform")
vswitches: Registry[SwitchKind] = Registry(VSWITCHES, "virtlab.testbed.vswitches.{}")
