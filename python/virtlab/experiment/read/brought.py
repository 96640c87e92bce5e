"""Files of any bytes that programs bring from beside the experiment file: their digests, kept in its section `brought`.

The bytes themselves are no text, so the text of an experiment that was read from a file ends with their digests, and a
cache of the user's keeps what they are of. Another file of that name is another experiment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from virtlab.brought import DIGEST, digest_of, find, keep, read_beside
from virtlab.catalogue.kinds import FILE_BELOW, FILES, shown
from virtlab.experiment.read.ending import values_of, with_section
from virtlab.experiment.read.factors import read_factors
from virtlab.experiment.read.findings import Findings, Steps
from virtlab.experiment.read.mistakes import FileMistakesError, Mistake, Mistakes
from virtlab.experiment.read.tree import Node

Brought = Mapping[str, Mapping[str, Any]]  # name below the experiment file's folder -> its digest and size
FILES_MAX_BYTES = 256 << 20  # of one experiment
_TOO_LARGE = f"its files are larger than {FILES_MAX_BYTES >> 20} MiB together"
_CURE_TOO_LARGE = "bring them in an image"
_WRITE = "write e.g. '\"server\": {sha256: ..., bytes: 812345}', or remove 'brought'"


def read_brought(findings: Findings) -> Brought:
    """The section `brought`; its mistakes are added."""
    node = findings.root.get("brought")
    if node is None:
        return {}
    if not isinstance(node.value, dict):
        findings.add(("brought",), "must map names of files to their digests", _WRITE)
        return {}
    brought: dict[str, Mapping[str, Any]] = {}
    for name, entry in node.value.items():
        said = entry.plain()
        if not (
            isinstance(said, dict)
            and set(said) == {"sha256", "bytes"}
            and isinstance(said["sha256"], str)
            and DIGEST.match(said["sha256"])
            and isinstance(said["bytes"], int)
            and not isinstance(said["bytes"], bool)
            and said["bytes"] >= 0
        ):
            findings.add(("brought", name), "is not the digest of a file", _WRITE)
        else:
            brought[name] = said
    return brought


def with_brought(text: str, root: Node, folder: Path, name: str) -> str:
    """The text, ended by the digests of what its programs bring and it does not hold, as it is in a folder.

    The bytes are kept. FileMistakesError at the line that names a file which cannot be read.
    """
    held = root.get("brought")
    named = dict(_named(root))
    wanted = {file: place for file, place in named.items() if held is None or held.get(file) is None}
    if held is not None:
        for file, (node, path) in wanted.items():
            what = f"'brought' has no '{shown(file)}'"
            raise _mistaken(name, node, path, what, "add it there, or remove 'brought'")
        again_bytes = 0
        for file, (node, path) in named.items():
            again_bytes += _keep_again(held.get(file), folder, file)
            if again_bytes > FILES_MAX_BYTES:
                raise _mistaken(name, node, path, _TOO_LARGE, _CURE_TOO_LARGE)
    if not wanted:
        return text
    lines, whole_bytes = ["brought:  # as they were beside this file when it was read"], 0
    for file, (node, path) in wanted.items():
        try:
            content = read_beside(folder, file)
        except ValueError as error:
            what, _, cure = str(error).partition("; ")
            raise _mistaken(name, node, path, what, cure) from None
        whole_bytes += len(content)
        if whole_bytes > FILES_MAX_BYTES:
            raise _mistaken(name, node, path, _TOO_LARGE, _CURE_TOO_LARGE)
        keep(content)
        lines.append(f'  "{file}": {{sha256: "{digest_of(content)}", bytes: {len(content)}}}')
    try:
        return with_section(text, root, lines)
    except ValueError:
        node, path = next(iter(wanted.values()))
        cure = "write the file as lines 'key: value' without indentation"
        raise _mistaken(
            name, node, path, "the file's digest cannot be kept at the end of this one", cure
        ) from None


def filled(at: Steps, values: Mapping[str, Any], brought: Brought, findings: Findings) -> None:
    """Puts digest and size of each file that parameters bring in place of its name; a mistake where none is known."""
    for place, entry in (values.get(FILES.name) or {}).items():
        if isinstance(entry, str):
            continue
        file = entry.pop("from")
        if file not in brought:
            cure = "load the experiment from its file, beside which that one lies"
            findings.add((*at, FILES.name, place, "from"), f"the digest of '{file}' is not known", cure)
        entry.update(brought.get(file, {}))


def _keep_again(entry: Node | None, folder: Path, file: str) -> int:
    """Keeps the bytes of a digest that the text holds already, where that file still lies beside it; how many were
    read.
    """
    said = entry.plain() if entry is not None else None
    digest = str(said.get("sha256")) if isinstance(said, dict) else ""
    if (kept := find(digest)) is not None:
        return len(kept)
    try:
        content = read_beside(folder, file)
    except ValueError:
        return 0
    if digest_of(content) == digest:
        keep(content)
    return len(content)


def _mistaken(name: str, node: Node, path: str, what: str, cure: str) -> FileMistakesError:
    return FileMistakesError(name, [Mistake(node.line, node.column, path, what, cure)])


def _named(root: Node) -> Iterator[tuple[str, tuple[Node, str]]]:
    """Files that services and roles bring, at any level of the factors; each with the node that names it."""
    sources = list(_sources(root))
    factors = read_factors(root.get("factors"), Mistakes()) if sources else {}
    for path, node in sources:
        for value in values_of(node, factors):
            with suppress(ValueError):
                yield FILE_BELOW.parse(value), (node, path)


def _sources(root: Node) -> Iterator[tuple[str, Node]]:
    for section in ("services", "roles"):
        node = root.get(section)
        for name, entry in node.value.items() if node is not None and isinstance(node.value, dict) else ():
            files = entry.get(FILES.name)
            whole = files.value if files is not None and isinstance(files.value, dict) else {}
            for place, file in whole.items():
                source = file.get("from")
                if source is not None:
                    yield f"{section}.{name}.{FILES.name}.{place}.from", source
