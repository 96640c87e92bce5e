"""A talk with a serial console: what is waited for, what is sent, what went wrong. Bytes in, bytes out; it owns no stream.

Each exchange waits for a pattern in what the console said since the last one, then sends lines, each once the prompt is
back. A console echoes what it is sent, so a line's echo is taken out before the prompt is looked for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Za-z0-9]|[\x00\x07\r]")
_KEPT_CHARACTERS = 200_000
# The rest of it is still to come.
_UNFINISHED = re.compile(r"\x1b(\[[0-9;?]*|[()])?\Z")


@dataclass(frozen=True, slots=True)
class Wanted:
    """One wait and what is sent after it. `what` describes it in errors."""

    expect: re.Pattern[str]
    send: str | None
    timeout_ns: int
    what: str


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
        """What is waited for."""
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
                at = self._heard.find(self._echo)
                if at < 0:
                    break
                self._heard = self._heard[at + len(self._echo) :]
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
        """What did not come in its time, if anything."""
        wanted = self.waiting
        if wanted is None or self._since_ns is None or now_ns - self._since_ns < wanted.timeout_ns:
            return None
        return wanted

    @staticmethod
    def _echoes(wanted: Wanted) -> bool:
        return "assword" not in wanted.expect.pattern
