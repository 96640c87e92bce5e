"""virtlab as `pip install virtlab` leaves it, without the extra that draws pictures, for commands that a test starts.

Pictures take most of the time of a report. Who looks at the page alone, or at what a command prints, needs none.
"""

from __future__ import annotations

from pathlib import Path

LACKING = """\
import sys

sys.modules["vl_convert"] = None
"""


def without_pictures(folder: Path) -> dict[str, str]:
    """Variables with which every Python lacks the extra; `folder`, made where it is not there, has what takes it
    away.
    """
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(LACKING, encoding="utf-8")
    return {"PYTHONPATH": str(folder)}
