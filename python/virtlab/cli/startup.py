"""What makes a short command short: nothing is done at its start that it does not need.

Collecting garbage while modules are imported finds none: an import makes many objects that all stay. pydantic
looks through the metadata of every installed package for plug-ins of its own; virtlab uses none, and the look
costs more than checking an experiment.
"""

from __future__ import annotations

import gc
import sys
from types import ModuleType
from typing import Any

LOADER = "pydantic.plugin._loader"
OBJECTS_BETWEEN_COLLECTIONS = 200_000


def start() -> Any:
    """The command `virtlab`: all that it imports is imported lightly."""
    lighten()
    from virtlab.cli.main import main

    return main()


def lighten() -> None:
    """Fewer collections from here on, and no search for plug-ins of pydantic. Before typer and pydantic are
    imported.
    """
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, 20, 20)
    if LOADER not in sys.modules:
        sys.modules[LOADER] = _loader()


def _loader() -> ModuleType:
    """A loader without plug-ins; any other attribute comes from pydantic's own."""
    made = ModuleType(LOADER)

    def other(name: str) -> Any:
        if name.startswith("__") or sys.modules.get(LOADER) is not made:
            raise AttributeError(name)
        from importlib import import_module

        del sys.modules[LOADER]
        return getattr(import_module(LOADER), name)

    made.get_plugins = tuple  # type: ignore[attr-defined]
    made.__getattr__ = other  # type: ignore[method-assign]
    return made
