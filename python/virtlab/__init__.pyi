# What `import virtlab as vl` offers, for type checkers; `__init__.py` loads each name when it is first used.

from virtlab.api import Picture as Picture
from virtlab.api import Results as Results
from virtlab.api import Table as Table
from virtlab.api import capacity as capacity
from virtlab.api import compare as compare
from virtlab.api import define as define
from virtlab.api import load as load
from virtlab.api import open_results as open  # noqa: A004 - the natural name, as of gzip.open
from virtlab.api import predict as predict
from virtlab.api import run as run

__version__: str
__all__ = [
    "Picture",
    "Results",
    "Table",
    "__version__",
    "capacity",
    "compare",
    "define",
    "load",
    "open",
    "predict",
    "run",
]
