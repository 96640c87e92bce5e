"""What is printed: text of files, hosts, guests and other users reaches a terminal without its commands.

A terminal takes control characters as orders (move, erase, name the window, answer as if typed), and letters that turn
the direction of writing make a line read as another, as characters without width do. All are shown instead: U+2400 and
following for the control characters of ASCII, U+FFFD for the rest. `say` and `console` are the only ways to a terminal,
`json_text` the only one to JSON for programs, which escapes the same characters.

The program that reads the output may end first. An error output that cannot be written cannot carry that message
either, so text for it is dropped and the work continues. A standard output that cannot be written ends the command with
141 (128 + SIGPIPE), like every other program whose reader has seen enough.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO, cast

if TYPE_CHECKING:
    from rich.console import Console

TURNING = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # Unicode's Bidi_Control
INVISIBLE = "\u200b\u2060-\u2064\ufeff\U000e0000-\U000e007f"  # no width, and no letter that needs them; tags
UNSAFE = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029{TURNING}{INVISIBLE}\ud800-\udfff]")
READER_ENDED = 128 + 13


def printable(text: str) -> str:
    """The text with every character shown that a terminal would take as an order; lines and tabs stay.

    >>> printable("a\\x1b[2Jb\\u202ec")
    'a␛[2Jb�c'
    """
    return UNSAFE.sub(_shown, text)


def one_line(text: str) -> str:
    """The same with line ends shown too: what others wrote cannot begin a line that looks like ours.

    >>> one_line("a\\nvirtlab: all is well")
    'a␊virtlab: all is well'
    """
    return printable(text).replace("\n", "␊")


def json_text(values: Any, **more: Any) -> str:
    """JSON for programs, readable on a terminal: letters as they are, unsafe characters as escapes.

    >>> json_text({"µ": "\\x7f\\u202e"})
    '{"µ": "\\\\u007f\\\\u202e"}'
    """
    import json

    return UNSAFE.sub(_escaped, json.dumps(values, ensure_ascii=False, **more))


def say(text: object = "", *, err: bool = False, end: str = "\n") -> None:
    """Prints lines on the standard output, or the error output."""
    stream = sys.stderr if err else sys.stdout
    stream.write(printable(str(text)) + end)
    stream.flush()


def console(*, stderr: bool = False, width: int | None = None, highlight: bool = False) -> Console:
    """A console for tables, colours and progress; text in them is as safe as that of `say`."""
    return _console_class()(stderr=stderr, width=width, highlight=highlight)


def _console_class() -> Callable[..., Console]:
    from rich.console import Console
    from rich.segment import Segment

    class Printable(Console):
        """Everything that is rendered passes here; rich's own commands are no text but `control`."""

        def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                if segment.control or not UNSAFE.search(segment.text):
                    yield segment
                else:
                    yield Segment(printable(segment.text), segment.style)

    return Printable


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


class Outlet:
    """A standard stream that knows what to do when it cannot be written."""

    def __init__(self, stream: TextIO, *, needed: bool) -> None:
        self._stream = stream
        self._needed = needed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Writes the text."""
        self._try(lambda: self._stream.write(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes the texts."""
        self.write("".join(lines))

    def flush(self) -> None:
        """Hands over what was written."""
        self._try(self._stream.flush)

    def _try(self, act: Callable[[], object]) -> None:
        try:
            act()
        except (OSError, ValueError) as error:
            if isinstance(error, ValueError) and not self._stream.closed:
                raise
            self._to_nowhere()
            if not self._needed:
                return
            if isinstance(error, BrokenPipeError):
                sys.exit(READER_ENDED)
            if isinstance(error, OSError):
                error.filename = "standard output"
            raise

    def _to_nowhere(self) -> None:
        """What is still to be written, also by Python as it ends, goes nowhere."""
        with contextlib.suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), self._stream.fileno())


@contextlib.contextmanager
def outlets() -> Iterator[None]:
    """Standard streams that can be written to at any time, while a command is run."""
    before = sys.stdout, sys.stderr
    _open_all()
    sys.stdout = cast("TextIO", Outlet(_stream(sys.stdout, 1), needed=True))
    sys.stderr = cast("TextIO", Outlet(_stream(sys.stderr, 2), needed=False))
    try:
        yield
        sys.stdout.flush()
    finally:
        sys.stdout, sys.stderr = before


def _open_all() -> None:
    """A descriptor below 3 that is closed would become that of the next file opened, and get what is printed."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError as error:
            if error.errno != errno.EBADF:
                raise
            os.open(os.devnull, os.O_RDONLY)  # the lowest free one is this; writing to it fails, as it should


def _stream(stream: IO[str] | None, descriptor: int) -> TextIO:
    """Python has no stream where the descriptor was closed when it began."""
    if stream is not None:
        return cast("TextIO", stream)
    return open(descriptor, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
