"""Asserts that a wheel is what its name says: `python -m tools.platform_tag WHEEL...`.

An index believes a wheel's name. auditwheel reads the symbols that the libraries inside need of a system, and says for
which platform that is enough: glibc 2.28 or newer, on the processor of the name.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PLATFORM = "manylinux_2_28"
SAID = re.compile(r'consistent with the following platform tag: "([^"]+)"')


def assert_platform(wheel: Path) -> None:
    """Prints what auditwheel says. AssertionError unless an index may take the wheel for the platform in its name."""
    auditwheel = Path(sys.executable).with_name("auditwheel")
    told = subprocess.run([auditwheel, "show", wheel], check=True, capture_output=True, text=True).stdout
    print(told.strip())
    judge(wheel.name, told)


def judge(name: str, told: str) -> None:
    """AssertionError unless a wheel of that name is for glibc 2.28, and auditwheel found just that."""
    named = name.removesuffix(".whl").rpartition("-")[2]
    assert named.startswith(f"{PLATFORM}_"), f"{name} is not named as a wheel for {PLATFORM}"
    found = SAID.findall(" ".join(told.split()))
    assert found == [named], (
        f"{name} is a wheel for {', '.join(found) or 'no platform that auditwheel names'}"
    )


def main() -> int:
    """0 when every wheel is what its name says."""
    for each in sys.argv[1:]:
        assert_platform(Path(each))
    return 0


if __name__ == "__main__":
    sys.exit(main())
