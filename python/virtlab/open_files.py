"""How many files a task holds open at once, and that this process may.

A process has a soft limit of open files, which it may raise itself, and a hard one, which it may not. Where a task
knows what it needs (a file per run of a dataset, pipes per worker, a socket per machine of a world), it says so before
it begins, and the soft limit follows. Where the hard limit is lower, the error names the number, not a guess.
"""

from __future__ import annotations

import errno
import re

from virtlab.errors import MachineError

try:
    import resource
except ImportError:  # Windows, which has no such limit
    resource = None  # type: ignore[assignment]

OWN = 40  # of the program itself: libraries, terminal, the dataset's lock, what it writes at the moment
_WORDS = r"Too many open files(?! in system)"  # of libraries that have the error's text only

_most = OWN


def allow(needed: int) -> None:
    """Lets this process have so many files open in all, as far as it may."""
    global _most  # noqa: PLW0603 - the limit is the process's, and so is what was needed of it
    _most = max(_most, needed)
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def require(needed: int, where: str, task: str, otherwise: str = "") -> None:
    """The same for a task that cannot do with less. MachineError when the hard limit is lower."""
    allow(needed)
    if resource is None:
        return
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise MachineError(
            where, f"{task} needs {needed} open files, and {hard} are allowed", cure() + otherwise
        )


def ran_out(error: BaseException) -> bool:
    """Whether the process had no file left to open."""
    number = getattr(error, "errno", None)
    return number == errno.EMFILE or (number is None and re.search(_WORDS, str(error)) is not None)


def cure() -> str:
    """How to allow what was needed; twice the limit where no task foretold what it failed of."""
    if resource is None:
        return "end other programs"
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return f"raise the limit with 'ulimit -n {_most if soft < _most else 2 * soft}'"
