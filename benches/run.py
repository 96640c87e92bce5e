"""Every figure that virtlab promises, as JSON lines: name, value, unit, and the ratio to a peer run in the same call.

A bench is a module beside this file with `bench()`, a generator of dicts. `python benches/run.py probe switch` runs
some. Where a `goal` is stated (`_goal.py`), `met` says whether the figure is there: true, false, null where nothing was
measured. A figure is never a test: these lines are for people and for trends, the ratio is what carries between
machines, and a goal that was missed does not change the exit code.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _goal import met

HERE = Path(__file__).parent


def benches(wanted: list[str]) -> Iterator[tuple[str, Any]]:
    """Modules by name, in alphabetical order; all of them when none is named."""
    names = sorted(
        path.stem for path in HERE.glob("*.py") if path.stem != "run" and not path.stem.startswith("_")
    )
    unknown = set(wanted) - set(names)
    if unknown:
        sys.exit(f"benches/run.py: no bench {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    for name in wanted or names:
        spec = importlib.util.spec_from_file_location(f"benches.{name}", HERE / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
        yield name, module


def line(bench: str, figure: dict[str, Any]) -> str:
    """A figure as it is printed: `met` stands beside its value and goal."""
    told: dict[str, Any] = {"bench": bench}
    for key, value in figure.items():
        told[key] = value
        if key == "goal":
            told |= met(figure)
    return json.dumps(told)


def main() -> int:
    """Prints one line per figure; 1 when a bench could not run to its end."""
    sys.path.insert(0, str(HERE))
    failed = 0
    for name, module in benches(sys.argv[1:]):
        try:
            for figure in module.bench():
                print(line(name, figure), flush=True)
        except Exception as error:  # one bench must not hide the others
            traceback.print_exc()
            print(json.dumps({"bench": name, "name": f"{name}.failed", "error": str(error)}), flush=True)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
