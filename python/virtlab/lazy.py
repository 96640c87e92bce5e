"""Libraries, and names of packages, that take long to import, loaded when one is first used.

`virtlab --help` and `virtlab check` answer in 0.3 s because they use none of these. A file imports a library at its
top, by `from virtlab.lazy import np`; type checkers see the library itself. A regular expression is a `pattern(...)` in
files that `check` imports and often has no use for. A package has `__getattr__ = later(...)`. A table that names the
modules of its entries has them by `unloaded(...)`. `NDArray` and `ArrayLike` are for annotations, which nothing
evaluates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, AnyStr, cast

__all__ = [
    "ArrayLike", "NDArray", "csv", "duckdb", "later", "np", "optimize", "pattern", "shlex", "special",
    "unloaded", "vl_convert",
]  # fmt: skip


class _Unloaded(ModuleType):
    """Imports the module at the first use of an attribute; from then on it is a plain module with all its public
    ones.
    """

    def __getattr__(self, name: str) -> Any:
        module, of = import_module(self.__name__), self.__name__
        # Not what begins with _: DuckDB cleans up when the last reference to such a name goes, which must not outlive
        # it.
        vars(self).update((key, value) for key, value in vars(module).items() if key[:1] != "_")
        vars(self)["__getattr__"] = lambda missing: getattr(import_module(of), missing)
        self.__class__ = ModuleType  # type: ignore[assignment]  # Python finds attributes of no other class as fast
        return getattr(module, name)


def unloaded(*names: str) -> tuple[ModuleType, ...]:
    """Modules that are imported when something of them is first used.

    >>> unloaded("fractions")[0].Fraction(6, 4)
    Fraction(3, 2)
    """
    return tuple(map(_Unloaded, names))


class _Uncompiled:
    """Compiles the expression at the first use of an attribute, and has that attribute from then on."""

    def __init__(self, expression: str | bytes, flags: int) -> None:
        self.expression, self.given_flags = expression, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self.expression, self.given_flags), name)
        setattr(self, name, value)
        return value


def pattern(expression: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """A regular expression that is compiled when it is first used: most of what a file may hold is in few files.

    >>> pattern("[0-9]+").findall("802.1Q")
    ['802', '1']
    """
    return cast("re.Pattern[AnyStr]", _Uncompiled(expression, flags))


if TYPE_CHECKING:
    import csv
    import shlex

    import duckdb
    import numpy as np
    import vl_convert
    from numpy.typing import ArrayLike, NDArray
    from scipy import optimize, special
else:
    duckdb, np, vl_convert = unloaded("duckdb", "numpy", "vl_convert")
    optimize, special = unloaded("scipy.optimize", "scipy.special")
    csv, shlex = unloaded("csv", "shlex")
    ArrayLike = NDArray = Any


def later(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package; `modules`: module below it -> the names that it has, separated by spaces."""
    module_of = {name: module for module, names in modules.items() for name in names.split()}

    def attribute(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(import_module(f"{package}.{module_of[name]}"), name)

    return attribute
