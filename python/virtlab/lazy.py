"""Libraries that take long to import, loaded when something of them is first used.

`virtlab --help` and `virtlab check` answer in 0.3 s because they use none of these. A file imports them at its top, by
`from virtlab.lazy import np`; type checkers see the library itself. `NDArray` and `ArrayLike` are for annotations, which
nothing evaluates.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["ArrayLike", "NDArray", "duckdb", "np", "special", "vl_convert"]

if TYPE_CHECKING:
    import duckdb
    import numpy as np
    import vl_convert
    from numpy.typing import ArrayLike, NDArray
    from scipy import special
else:

    class _Library(ModuleType):
        """Imports the library at the first use of an attribute, and has all its attributes from then on."""

        def __getattr__(self, name: str) -> Any:
            library = import_module(self.__name__)
            vars(self).update((key, value) for key, value in vars(library).items() if key[:2] != "__")
            return getattr(library, name)

    duckdb, np, special, vl_convert = map(_Library, ("duckdb", "numpy", "scipy.special", "vl_convert"))
    ArrayLike = NDArray = Any
