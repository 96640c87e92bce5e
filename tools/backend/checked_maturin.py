"""How pip builds virtlab from its sources: maturin, where the packages that virtlab needs can be installed at all.

DuckDB has no wheel for musl, the C library of Alpine. pip would get far into compiling it before anything failed, so a
build for musl ends at once with one line. Nothing but Python's own library is imported here before that.
"""

from __future__ import annotations

import sysconfig
from typing import Any

REFUSAL = (
    "virtlab: Alpine and other systems with musl are not supported, since DuckDB has no wheel for them; "
    "use a system with glibc 2.28 or newer, such as Debian 12, or virtlab in a container image of it"
)


def __getattr__(hook: str) -> Any:
    """Any hook that a build asks for: the one of maturin, once it is known that there is no musl."""
    if hook.startswith("_"):
        raise AttributeError(hook)
    named = (sysconfig.get_config_var(name) for name in ("HOST_GNU_TYPE", "SOABI", "EXT_SUFFIX"))
    if any("-linux-musl" in str(name) for name in named):
        raise SystemExit(REFUSAL)
    import maturin

    return getattr(maturin, hook)
