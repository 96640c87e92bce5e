"""virtlab from Python and notebooks: what `import virtlab as vl` offers.

The functions do what the commands of the same names do, and return values instead of printing them. Tables are handed
on as Arrow (`__arrow_c_stream__`), which pandas, polars and DuckDB take without a copy; pictures show themselves in a
notebook. Everything is loaded at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from virtlab.lazy import later

if TYPE_CHECKING:
    from virtlab.api.building import define, load
    from virtlab.api.pictures import Picture
    from virtlab.api.questions import capacity, compare, predict
    from virtlab.api.results import Results, open_results
    from virtlab.api.running import run
    from virtlab.api.tables import Table

__all__ = [
    "Picture", "Results", "Table", "capacity", "compare", "define", "load", "open_results", "predict", "run",
]  # fmt: skip

__getattr__ = later(
    __name__,
    {
        "building": "define load",
        "pictures": "Picture",
        "questions": "capacity compare predict",
        "results": "Results open_results",
        "running": "run",
        "tables": "Table",
    },
)
