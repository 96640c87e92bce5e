"""Where numbers go, as a user names it: `KIND=FILE` or `KIND=URL`; and how they are brought there.

A receiver that is absent, slow or refuses costs one sentence, which is returned and never raised: the dataset has the
numbers, and they can be sent again. Nothing is retried, no redirection is followed, and no receiver is waited for
longer than `PATIENCE_S`, however it behaves.
"""

from __future__ import annotations

import base64
import os
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit

from virtlab import __version__
from virtlab.errors import ExperimentError, MachineError
from virtlab.folders import put
from virtlab.report.exchange.push import influx, otlp, remote_write, textfile
from virtlab.report.exchange.push.numbers import Number
from virtlab.report.exchange.push.receiver import Receiver
from virtlab.terminal import one_line

RECEIVERS = {one.RECEIVER.name: one.RECEIVER for one in (textfile, remote_write, otlp, influx)}
BATCH = 5000  # numbers in a request
PATIENCE_S = 10.0  # for all requests to one receiver together
ANSWER_BYTES = 4096  # of an answer that are read
SHOWN = 200  # characters of an answer that are shown


@dataclass(frozen=True, slots=True)
class Destination:
    """A receiver and its place; `authorization` is the value of that header, or empty."""

    receiver: Receiver
    place: str
    authorization: str = ""

    @classmethod
    def parse(cls, text: str, environment: Mapping[str, str] = os.environ) -> Destination:
        """ExperimentError where it is no receiver or no place."""
        name, equals, place = text.partition("=")
        forms = ", ".join(f"{one.name}={one.place}" for one in RECEIVERS.values())
        if name not in RECEIVERS or not equals or not place:
            raise ExperimentError(f"--to {name}", "is not a receiver and its place", f"write one of {forms}")
        receiver = RECEIVERS[name]
        if receiver.place == "FILE":
            return cls(receiver, place)
        address, user = _address(name, place)
        given = environment.get(receiver.variable, "") or user
        if not re.fullmatch(r"[\x20-\x7e]*", given):
            raise ExperimentError(
                receiver.variable, "is not a header's value", "write 'Bearer ...' or 'Token ...' on one line"
            )
        return cls(receiver, address, given)

    def __str__(self) -> str:
        """As it was named, without what a query may hold: some receivers take a password there."""
        place, question, _ = (
            self.place.partition("?") if self.receiver.place == "URL" else (self.place, "", "")
        )
        return one_line(f"--to {self.receiver.name}={place}{question and '?...'}")

    def refuse_unwritable(self) -> None:
        """MachineError where the file could not be written later, before hours of runs."""
        if self.receiver.place == "FILE":
            file = Path(self.place).absolute()
            if file.is_dir() or not os.access(file.parent, os.W_OK | os.X_OK):
                what = (
                    "is a folder"
                    if file.is_dir()
                    else "cannot be written: there is no folder for it that is yours"
                )
                raise MachineError(str(self), what, "name another file")

    def deliver(self, numbers: Sequence[Number], patience_s: float = PATIENCE_S) -> str:
        """Brings all numbers there; why not all arrived, or an empty text."""
        told: list[str] = []
        send = self._write if self.receiver.place == "FILE" else self._send
        # A daemon: a receiver that never answers, or a pipe without a reader, must not hold the command when it ends.
        worker = threading.Thread(
            target=send, args=(numbers, told, patience_s), daemon=True, name="virtlab-push"
        )
        worker.start()
        worker.join(patience_s)
        return f"no answer within {patience_s:g} s" if worker.is_alive() else "".join(told)

    def _write(self, numbers: Sequence[Number], failures: list[str], _: float) -> None:
        try:
            put(Path(self.place), self.receiver.encoded(numbers))
        except OSError as error:
            failures.append(f"cannot be written ({error.strerror})")

    def _send(self, numbers: Sequence[Number], failures: list[str], patience_s: float) -> None:
        """One request per batch; the first that fails ends it."""
        from http.client import HTTPException

        try:
            for at in range(0, len(numbers), BATCH):
                why = self._request(self.receiver.encoded(numbers[at : at + BATCH]), patience_s)
                if why:
                    of = f" after {at} of {len(numbers)} numbers" if at else ""
                    failures.append(f"{why}{of}")
                    return
        except (OSError, HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            words = getattr(reason, "strerror", None) or str(reason) or type(error).__name__
            failures.append(f"did not take them ({_short(words)})")

    def _request(self, body: bytes, patience_s: float) -> str:
        from urllib.error import HTTPError
        from urllib.request import Request, build_opener

        headers = {"User-Agent": f"virtlab/{__version__}", **self.receiver.headers}
        request = Request(self.place, body, headers, method="POST")  # noqa: S310 - its scheme was checked
        if self.authorization:
            request.add_unredirected_header("Authorization", self.authorization)
        try:
            with build_opener(_no_redirection()).open(request, timeout=patience_s) as answer:
                return self.receiver.refused(answer.read(ANSWER_BYTES))
        except HTTPError as error:
            with error:
                return _answer(error.code, error, error.headers.get("Location"))


def _answer(code: int, body: IO[bytes], leads_to: str | None) -> str:
    """What a receiver said that refused."""
    if leads_to:
        return f"answers {code} and leads to {_short(leads_to)}, which is not followed"
    return f"answers {code}: {_short(body.read(ANSWER_BYTES).decode(errors='replace'))}".rstrip(": ")


def _short(words: str) -> str:
    """The first line, as long as a warning has room for."""
    return one_line(words.strip().split("\n", 1)[0].strip())[:SHOWN]


def _no_redirection() -> Any:
    from urllib.request import HTTPRedirectHandler

    class Refusing(HTTPRedirectHandler):
        """A redirected POST would arrive as a GET, and the authorization somewhere else."""

        def redirect_request(self, *_arguments: Any, **_more: Any) -> None:
            return None

    return Refusing


def _address(name: str, text: str) -> tuple[str, str]:
    """The URL without user and password, and the header that they make; ExperimentError where it is no address."""
    try:
        parts = urlsplit(text)
        sound = (
            parts.scheme in {"http", "https"} and bool(parts.hostname) and re.fullmatch(r"[\x21-\x7e]+", text)
        )
        _ = parts.port
    except ValueError:
        sound = None
    if not sound:
        raise ExperimentError(
            f"--to {name}", "has no address of a receiver", f"write --to {name}=http://HOST:PORT/PATH"
        )
    if "@" not in parts.netloc:
        return text, ""
    credentials, _, place = parts.netloc.rpartition("@")
    basic = base64.b64encode(unquote(credentials).encode()).decode()
    return parts._replace(netloc=place).geturl(), f"Basic {basic}"
