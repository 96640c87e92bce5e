"""Why a trial's numbers are unfit: where, in words, and of which kind where something depends on it.

A dataset holds a reason as it is printed. While a trial runs it stays in its parts, so that nothing has to be read out
of a text that was written a moment before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from virtlab.errors import VirtlabError


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a trial failed, or is tainted. `where`: a path of the Plan, or who is meant; "" where the text says it.

    >>> str(Reason("soft switch", "it stood still", "starved"))
    'soft switch: starved: it stood still'
    >>> str(Reason("", "xentop ended with code 1"))
    'xentop ended with code 1'
    """

    where: str
    text: str
    kind: str = ""  # STARVED, FAILED, or what else an agent calls it

    @classmethod
    def of(cls, error: VirtlabError) -> Reason:
        """An error as a reason, with its cure.

        >>> str(Reason.of(VirtlabError("guests.a", "its machine ended", "see its console")))
        'guests.a: its machine ended; see its console'
        """
        return cls(error.where, f"{error.what}; {error.cure}" if error.cure else error.what)

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, self.kind, self.text) if part)


def printed(*lists: Iterable[Reason]) -> tuple[str, ...]:
    """Reasons as a dataset holds them, each once."""
    return tuple(dict.fromkeys(str(reason) for reasons in lists for reason in reasons))
