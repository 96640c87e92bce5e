"""The environment of programs that we start: what any program needs, and what is requested by name.

The user who starts virtlab may hold secrets in the environment. Guests, hypervisors and daemons have no business
with them, and what such a program prints lands in the dataset. The agent gives its own children no more than `ALL`,
either.
"""

from __future__ import annotations

import os

ALL = ("PATH", "HOME", "TERM", "LANG")
# Where a user's own daemons listen, and tools keep what is theirs.
PLACES = ("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")
# How a user logs in elsewhere.
LOGIN = ("USER", "LOGNAME", "SSH_AUTH_SOCK", "KRB5CCNAME")
# How packages and images are fetched.
FETCHING = (
    *(name for each in ("http_proxy", "https_proxy", "no_proxy") for name in (each, each.upper())),
    *("APT_CONFIG", "TMPDIR", "REGISTRY_AUTH_FILE", "DOCKER_HOST", "DOCKER_CONFIG", "CONTAINER_HOST"),
)


def of_program(*names: str, **values: str) -> dict[str, str]:
    """`ALL` and the requested variables as this process has them, and the given ones."""
    return {name: os.environ[name] for name in (*ALL, *names) if name in os.environ} | values
