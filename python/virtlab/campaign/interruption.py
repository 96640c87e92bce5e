"""Ctrl-C, SIGTERM, SIGHUP: the first asks the current run to end, a second one stops at once.

Either way the dataset holds what was finished, and the same command resumes from there.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interruption:
    """A context manager; while inside, `pending` turns true with the first signal, KeyboardInterrupt comes with
    the next.

    Outside the main thread, where Python gives no signals, it never turns true by itself.
    """

    def __init__(self) -> None:
        self.pending = False
        self._before: dict[signal.Signals, Any] = {}

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self.pending:
            raise KeyboardInterrupt
        self.pending = True

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:  # nohup stays in force
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
