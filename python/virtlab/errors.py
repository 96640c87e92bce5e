"""What can go wrong, split by who can mend it.

Every error says where, what, and the cure. A command prints it as one line and ends with its exit code.
"""

from __future__ import annotations

from typing import ClassVar

LINE_MAX = 1000  # characters
LINUX = frozenset({"fcntl", "resource", "pwd", "grp", "termios"})  # modules that other systems may lack


class VirtlabError(Exception):
    """The root: `where` (a path in the file or the world, may be empty), `what` went wrong, and the `cure`.

    `artefacts`: files by name that say more, such as the consoles of guests; a run that failed of it keeps them.

    >>> print(MachineError("links.l2.rate", "10 Gbit/s is beyond this machine", "lower it"))
    links.l2.rate: 10 Gbit/s is beyond this machine; lower it
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, where: str, what: str, cure: str = "") -> None:
        super().__init__(where, what, cure)
        self.where = where
        self.what = what
        self.cure = cure
        self.artefacts: dict[str, bytes] = {}

    def lines(self) -> list[str]:
        """What is printed: one line, but of an error that is several mistakes."""
        return [shortened(str(self))]

    def __str__(self) -> str:
        head = f"{self.where}: " if self.where else ""
        tail = f"; {self.cure}" if self.cure else ""
        return f"{head}{self.what}{tail}"


def shortened(line: str) -> str:
    """The line without its middle where it quotes more than anybody reads."""
    return line if len(line) <= LINE_MAX else f"{line[: LINE_MAX // 2]} ... {line[-LINE_MAX // 2 :]}"


class ExperimentError(VirtlabError):
    """The experiment file, or what was asked of a command, is wrong; its author can mend it."""

    exit_code = 2


class MachineError(VirtlabError):
    """This machine cannot do it, or cannot now; its owner can mend it."""

    exit_code = 3


class GuestError(VirtlabError):
    """A guest did not come up, died, or answered wrongly."""

    exit_code = 4


class AgentError(VirtlabError):
    """An agent failed or broke the protocol; a defect of virtlab unless the text says otherwise."""

    exit_code = 4


class DatasetError(VirtlabError):
    """A dataset folder is damaged, locked, newer than this program, or belongs to another experiment."""

    exit_code = 2
