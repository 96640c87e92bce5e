"""virtlab from Python and notebooks: what `import virtlab as vl` offers.

The functions do what the commands of the same names do, and return values instead of printing them. Tables are handed
on as Arrow (`__arrow_c_stream__`), which pandas, polars and DuckDB take without a copy; pictures show themselves in a
notebook. Everything is loaded at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from virtlab.api.building import define, load
    from virtlab.api.pictures import Picture
    from virtlab.api.questions import capacity, compare, predict
    from virtlab.api.results import Results, open_results
    from virtlab.api.running import run
    from virtlab.api.tables import Table

_LATER = {
    "Picture": "pictures", "Results": "results", "Table": "tables", "capacity": "questions", "compare": "questions",
    "define": "building", "load": "building", "open_results": "results", "predict": "questions", "run": "running",
}  # fmt: skip

__all__ = [
    "Picture", "Results", "Table", "capacity", "compare", "define", "load", "open_results", "predict", "run",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'virtlab.api' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"virtlab.api.{_LATER[name]}"), name)
