"""virtlab, a laboratory for virtualised infrastructure.

`import virtlab as vl` offers `run`, `open`, `compare`, `predict`, `capacity`, `define` and `load`, with the classes
`Results`, `Table` and `Picture` that they return; each is loaded when it is first used.
"""

from typing import Any

__version__ = "0.1.0"
NAMES = ("Picture", "Results", "Table", "capacity", "compare", "define", "load", "open", "predict", "run")


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module 'virtlab' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module("virtlab.api"), "open_results" if name == "open" else name)


def __dir__() -> list[str]:
    return sorted((*NAMES, "__version__"))
