"""A talk with a serial console: what is waited for, what is sent, what went wrong. Bytes in, bytes out; it owns no
stream.

Each exchange waits for a pattern in what the console said since the last one, then sends lines, each once the prompt is
back. A console echoes what it is sent, so a line's echo is taken out before the prompt is looked for.

A line that is longer than the terminal is wide comes back broken into several (busybox, bash), or only its end does,
because it was moved to the left while it was typed (IOS, a terminal of no kind).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Za-z0-9]|[\x00\x07\r]")
_KEPT_CHARACTERS = 200_000
# The rest of it is still to come.
_UNFINISHED = re.compile(r"\x1b(\[[0-9;?]*|[()])?\Z")
_LAST_CHARACTERS = 20  # of a line, that a terminal of any width shows in one piece


@dataclass(frozen=True, slots=True)
class Wanted:
    """One wait and what is sent after it. `description` is for errors."""

    expect: re.Pattern[str]
    send: str | None
    timeout_ns: int
    description: str


@dataclass(slots=True)
class Talk:
    """A script that is being played. `fail`: a pattern whose appearance ends it."""

    script: Sequence[Wanted]
    fail: re.Pattern[str] | None = None
    refused: str | None = None
    _heard: str = ""
    _rest: str = ""
    _at: int = 0
    _since_ns: int | None = None
    _echo: str | None = field(default=None)

    @property
    def over(self) -> bool:
        """All was said and answered."""
        return self._at >= len(self.script) and self.refused is None

    @property
    def waiting(self) -> Wanted | None:
        """The text that the script awaits next."""
        return self.script[self._at] if self._at < len(self.script) else None

    def hear(self, content: bytes, now_ns: int) -> bytes:
        """Takes what the console said; what to send now."""
        text = self._rest + content.decode(errors="replace")
        cut = _UNFINISHED.search(text)
        text, self._rest = (text, "") if cut is None else (text[: cut.start()], text[cut.start() :])
        self._heard = (self._heard + _ESCAPES.sub("", text))[-_KEPT_CHARACTERS:]
        out = b""
        if self._since_ns is None:
            self._since_ns = now_ns
        while (wanted := self.waiting) is not None and self.refused is None:
            if self._echo is not None:
                after = _after(self._echo, self._heard)
                if after is None:
                    break
                self._heard = self._heard[after:]
                self._echo = None
            found = wanted.expect.search(self._heard)
            upto = self._heard[: found.end()] if found is not None else self._heard
            if self.fail is not None and (refusal := self.fail.search(upto)) is not None:
                line = upto[: upto.find("\n", refusal.end()) if "\n" in upto[refusal.end() :] else len(upto)]
                self.refused = line.strip().splitlines()[-1].strip()
                break
            if found is None:
                break
            self._heard = self._heard[found.end() :]
            self._at += 1
            self._since_ns = now_ns
            if wanted.send is not None:
                out += wanted.send.encode() + b"\r"
                # Passwords are not echoed, and an empty line has no echo to find.
                self._echo = wanted.send if wanted.send and self._echoes(wanted) else None
        return out

    def late(self, now_ns: int) -> Wanted | None:
        """The awaited text if it is overdue, else None."""
        wanted = self.waiting
        if wanted is None or self._since_ns is None or now_ns - self._since_ns < wanted.timeout_ns:
            return None
        return wanted

    @staticmethod
    def _echoes(wanted: Wanted) -> bool:
        return "assword" not in wanted.expect.pattern


def _after(line: str, heard: str) -> int | None:
    """Where a line that was sent has come back to its end; None while it has not."""
    at = heard.find(line)
    if at >= 0 or len(line) <= _LAST_CHARACTERS:
        return at + len(line) if at >= 0 else None
    # Where it breaks, spaces and ends of lines come in between.
    places = [at for at, letter in enumerate(heard) if letter not in " \n"]
    squeezed = "".join(heard[at] for at in places)
    whole, end = (part.replace(" ", "") for part in (line, line[-_LAST_CHARACTERS:]))
    if not end:
        return None
    if (at := squeezed.find(whole)) >= 0:
        return places[at + len(whole) - 1] + 1
    # Of one that was moved to the left its end is there, once it was entered.
    if (at := squeezed.rfind(end)) >= 0:
        after = places[at + len(end) - 1] + 1
        return after if heard[after:].lstrip(" ").startswith("\n") else None
    return None
