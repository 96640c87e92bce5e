"""Files that a program brings into its guest: handed to the agent there, which writes them and then becomes the
program.

They go over the program's standard input, so they may hold any bytes and need no program of the guest, and what the
program reads there afterwards is at an end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from virtlab.brought import find
from virtlab.catalogue import PLATFORMS
from virtlab.catalogue.declaration import Platform
from virtlab.errors import ExperimentError
from virtlab.plan import Guest, Refusal

OURSELVES = "/proc/self/exe"  # of the child that a leader forks: the agent
FOLDER = "/tmp/virtlab-{}"  # noqa: S108 - of a guest that is ours, or mounted for the command alone
LOST = "the bytes of '{}' (SHA-256 {}) are not kept on this machine"
CURE_LOST = "run the experiment from its file, beside which they lie"


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one program: by name a text, or the digest and size of a file that is kept."""

    folder: str
    by_name: Mapping[str, Any]

    @classmethod
    def of(cls, name: str, parameters: Mapping[str, Any]) -> Files | None:
        """The files of a service or a role; None where it brings none."""
        found = parameters.get("files")
        return cls(FOLDER.format(name), found) if found else None

    def before(self, *, held: bool = False) -> list[str]:
        """The words that come before the program's; where it is `held`, it waits for an octet before its files."""
        words = [*_bring(held=held), self.folder]
        for name, entry in self.by_name.items():
            text = isinstance(entry, str)
            size = len(entry.encode()) if text else int(entry["bytes"])
            words += [name, str(size), "755" if not text and entry["executable"] else "644"]
        return [*words, "--"]

    def content(self) -> bytes:
        """Their bytes, one file after the other. ExperimentError where those of one are not kept."""
        whole = bytearray()
        for name, entry in self.by_name.items():
            content = entry.encode() if isinstance(entry, str) else _content(entry)
            if content is None:
                raise ExperimentError(f"files.{name}", LOST.format(name, entry["sha256"]), CURE_LOST)
            whole += content
        return bytes(whole)


def _bring(*, held: bool) -> list[str]:
    return [OURSELVES, "bring", *(["--held"] if held else []), "--"]


HELD = [*_bring(held=True), "", "--"]  # before the words of a program without files that waits for an octet
GO_ON = b"\0"


def refused(path: str, parameters: Mapping[str, Any], platform: Platform) -> Iterator[Refusal]:
    """Why a program cannot bring its files into a guest of a platform."""
    files = parameters.get("files") or {}
    if platform.existing and files:
        reason = f"what is written on a host that exists already, as {platform.name} hosts do, stays there"
        yield Refusal(f"{path}.files", reason, "put the files there yourself, and name them in 'argv'")
        return
    for name, entry in files.items():
        if not isinstance(entry, str) and _content(entry) is None:
            yield Refusal(f"{path}.files.{name}", LOST.format(name, entry["sha256"]), CURE_LOST)


def _content(entry: Mapping[str, Any]) -> bytes | None:
    """The bytes of a digest, if there are as many as a Plan says: the agent cuts what it gets into files by their
    sizes.
    """
    content = find(str(entry["sha256"]))
    return content if content is not None and len(content) == int(entry["bytes"]) else None


def unknown_program(
    path: str, parameters: Mapping[str, Any], guest: Guest, known: Collection[str] | None
) -> Iterator[Refusal]:
    """Why a machine that boots our own small system does not hold a program: it has those `known`, and what is
    brought.
    """
    platform, argv = PLATFORMS[guest.platform], parameters.get("argv")
    ours = platform.features.own_kernel and not (platform.agentless or platform.existing or platform.domains)
    if known is None or not ours or guest.image is not None or not argv:
        return
    program = str(argv[0])
    if (
        program.startswith("/")
        or "{" in program
        or program.removeprefix("./") in (parameters.get("files") or {})
    ):
        return
    if program not in known:
        reason = f"a machine without 'image' boots virtlab's small system, and '{program}' is not part of it"
        cure = "bring a static binary: 'files: {server: {from: ./server, executable: true}}', and 'argv: [./server]'"
        yield Refusal(f"{path}.argv", reason, cure)
