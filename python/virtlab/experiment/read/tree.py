"""An experiment file as a tree of nodes that know where they stand.

The YAML is read event by event, so that every key and value keeps its line and column, and nothing in it can
run, grow without bound, or mean one thing in YAML 1.1 and another in YAML 1.2: such spellings are mistakes
with a cure. Scalars follow the core schema of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from virtlab.experiment.read.mistakes import Mistake, Mistakes
from virtlab.lazy import pattern
from virtlab.terminal import INVISIBLE, TURNING, UNSAFE

FILE_MAX_BYTES = 1 << 20
NODES_MAX = 50_000
DEPTH_MAX = 24
UNSAFE_SHOWN = 20

Scalar = str | int | float | bool | None

_NULL = {"", "~", "null", "Null", "NULL"}
_TRUE = {"true", "True", "TRUE"}
_FALSE = {"false", "False", "FALSE"}
_INT = pattern(r"[-+]?[0-9]{1,30}\Z")
_OCTAL = pattern(r"0o[0-7]{1,20}\Z")
_HEX = pattern(r"0x[0-9a-fA-F]{1,20}\Z")
_FLOAT = pattern(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?\Z")
_NOT_A_NUMBER = pattern(r"[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z")
_OLD_OCTAL = pattern(r"[-+]?0[0-9]+\Z")
_OLD_GROUPED = pattern(r"[-+]?(0b[01_]+|[0-9][0-9]*(_[0-9_]*)(\.[0-9_]*)?)\Z")
_OLD_SIXTIES = pattern(r"[-+]?[0-9]+(:[0-5]?[0-9])+(\.[0-9]*)?\Z")
_OLD_TRUTH = {"yes", "no", "on", "off"}


@dataclass(slots=True, eq=False)
class Node:
    """A value, where it stands, and how it was written. `origin` names the factor level that it came from, if any."""

    value: Scalar | list[Node] | dict[str, Node]
    line: int
    column: int
    text: str = ""
    quoted: bool = False
    origin: str = ""
    keys: dict[str, tuple[int, int]] = field(default_factory=dict)

    def plain(self) -> Any:
        """The value without positions."""
        if isinstance(self.value, dict):
            return {key: child.plain() for key, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value

    def get(self, key: str) -> Node | None:
        """The child of a mapping, or None."""
        return self.value.get(key) if isinstance(self.value, dict) else None

    def walk(self, path: str = "") -> Iterator[tuple[str, Node]]:
        """Every scalar below, with its path."""
        if isinstance(self.value, dict):
            for key, child in self.value.items():
                yield from child.walk(f"{path}.{key}" if path else key)
        elif isinstance(self.value, list):
            for position, child in enumerate(self.value):
                yield from child.walk(f"{path}[{position}]")
        else:
            yield path, self

    def find(self, steps: tuple[str | int, ...]) -> tuple[Node, str]:
        """The deepest node on the way along `steps`, and the path to it."""
        node, path = self, ""
        for step in steps:
            if isinstance(node.value, dict) and str(step) in node.value:
                node, path = node.value[str(step)], f"{path}.{step}" if path else str(step)
            elif isinstance(node.value, list) and isinstance(step, int) and step < len(node.value):
                node, path = node.value[step], f"{path}[{step}]"
            else:
                break
        return node, path


def read_tree(text: str, mistakes: Mistakes) -> Node | None:
    """The file's tree, or None when it cannot be read; mistakes are added to the collection."""
    if len(text) > FILE_MAX_BYTES:
        mistakes.add(
            Mistake(1, 1, "", "the file is longer than 1 MiB", "an experiment file holds no data; shorten it")
        )
        return None
    if _refused_characters(text.replace("\r\n", "\n"), mistakes):
        return None
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    reader = _Reader(mistakes)
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            reader.take(event)
    except _GivenUp:
        return None
    except YAMLError as error:
        mistakes.add(_syntax_mistake(error, text))
        return None
    except (
        ValueError,
        IndexError,
        KeyError,
        TypeError,
        AttributeError,
        AssertionError,
        OverflowError,
        RecursionError,
    ) as error:
        mark = reader.last
        what = f"this is not valid YAML ({type(error).__name__} of the YAML reader)"
        mistakes.add(Mistake(*mark, "", what, "look at this line and the one before"))
        return None
    if reader.root is None:
        mistakes.add(Mistake(1, 1, "", "the file is empty", "write one with 'virtlab init'"))
        return None
    return reader.root


def _refused_characters(text: str, mistakes: Mistakes) -> bool:
    """Whether the text or its comments contain characters that no text needs; the first of them are mistakes."""
    found = list(itertools.islice(UNSAFE.finditer(text), UNSAFE_SHOWN))
    for one in found:
        begin = text.rfind("\n", 0, one.start()) + 1
        line, column = text.count("\n", 0, begin) + 1, one.start() - begin + 1
        mistakes.add(Mistake(line, column, "", *_unsafe(one[0])))
    return bool(found)


def _unsafe(character: str) -> tuple[str, str]:
    """What is wrong with a character that makes a text read as another than it is."""
    kind = "a control character"
    if re.match(f"[{TURNING}]", character):
        kind = "a character that turns the direction of writing"
    elif re.match(f"[{INVISIBLE}]", character):
        kind = "a character that cannot be seen"
    return (
        f"the file holds {kind} (U+{ord(character):04X})",
        "remove it; what is printed must be what is read",
    )


def _syntax_mistake(error: Exception, text: str) -> Mistake:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
    problem = str(getattr(error, "problem", None) or "").strip() or str(error).strip().splitlines()[0]
    lines = text.splitlines()
    around = lines[line - 1] if line <= len(lines) else ""
    if "\t" in around[:column]:
        cure = "YAML is indented with spaces; replace the tab"
    elif re.search(r"[\[{,:]\s*\$\{", around) and re.search(r"[\[{]", around.replace("${", "")):
        cure = 'inside { } or [ ] a reference needs quotes: write "${name}"'
    elif "special characters" in problem or "unacceptable character" in problem:
        problem, cure = "the file holds a control character", "an experiment file is UTF-8 text; remove it"
    elif "mapping values" in problem:
        cure = "a text that holds ': ' needs quotes around the whole"
    elif "found another document" in problem:
        cure = "a file holds one experiment; remove the second '---'"
    else:
        cure = "look at the indentation, colons, quotes and brackets on this line and the one before"
    return Mistake(line, column, "", f"this is not valid YAML ({problem})", cure)


class _GivenUp(Exception):  # noqa: N818 - a signal, no error of its own
    """The tree cannot be built; why is among the mistakes."""


class _Reader:
    """Builds the tree from parser events; an open container is (node, pending key, path)."""

    def __init__(self, mistakes: Mistakes) -> None:
        self.root: Node | None = None
        self.last = (1, 1)
        self._mistakes = mistakes
        self._open: list[Node] = []
        self._pending: list[Node | None] = []
        self._names: list[str] = []  # keys on the way to the innermost open container
        self._name = ""
        self._anchors: dict[str, Node] = {}
        self._weights: dict[str, int] = {}
        self._count = 0

    def take(self, event: Any) -> None:
        kind = type(event).__name__
        self.last = (
            (event.start_mark.line + 1, event.start_mark.column + 1) if event.start_mark else self.last
        )
        if kind == "DocumentStartEvent":
            self._document(event)
        elif kind == "ScalarEvent":
            self._checked_tag(event)
            self._put(self._scalar(event), event.anchor)
        elif kind == "AliasEvent":
            self._alias(event)
        elif kind in {"MappingStartEvent", "SequenceStartEvent"}:
            self._checked_tag(event)
            node = Node({} if kind == "MappingStartEvent" else [], *self.last)
            self._put(node, event.anchor)
            if len(self._open) >= DEPTH_MAX:
                self._give_up("the file is nested too deeply", f"use at most {DEPTH_MAX} levels")
            self._open.append(node)
            self._pending.append(None)
            self._names.append(self._name)
            self._name = ""
        elif kind in {"MappingEndEvent", "SequenceEndEvent"}:
            self._open.pop()
            self._pending.pop()
            self._names.pop()
            self._name = ""

    def _document(self, event: Any) -> None:
        if self.root is not None:
            self._give_up(
                "a second document begins here", "a file holds one experiment; remove the second '---'"
            )
        version = getattr(event, "version", None)
        if version and tuple(version)[:2] != (1, 2):
            self._add(
                "the file asks for another YAML version",
                "experiment files are YAML 1.2; remove the %YAML line",
            )

    def _add(self, what: str, cure: str) -> None:
        names = [
            *self._names,
            self._pending[-1].text if self._pending and self._pending[-1] is not None else "",
        ]
        self._mistakes.add(Mistake(*self.last, ".".join(name for name in names if name), what, cure))

    def _give_up(self, what: str, cure: str) -> None:
        self._add(what, cure)
        raise _GivenUp

    def _checked_tag(self, event: Any) -> None:
        tag = getattr(event, "tag", None)
        if tag is not None and str(tag) not in {"!", "tag:yaml.org,2002:str"}:
            self._add("tags have no meaning in an experiment file", "remove the '!'; put text in quotes")

    def _alias(self, event: Any) -> None:
        node = self._anchors.get(event.anchor)
        if node is None:
            self._give_up(
                f"'*{event.anchor}' refers to no anchor above it",
                f"write '&{event.anchor}' at the value meant",
            )
        elif any(node is container for container in self._open):
            self._give_up(f"'*{event.anchor}' contains itself", "write the value out")
        else:
            self._put(node, None, weight=_weight(node))

    def _put(self, node: Node, anchor: str | None, weight: int = 1) -> None:
        self._count += weight
        if self._count > NODES_MAX:
            self._give_up(
                "the file holds too many values",
                f"an experiment file has at most {NODES_MAX}; remove aliases",
            )
        if anchor:
            self._anchors[anchor] = node
        if not self._open:
            self.root = node
            return
        container = self._open[-1]
        if isinstance(container.value, list):
            container.value.append(node)
        elif isinstance(container.value, dict):
            key = self._pending[-1]
            if key is None:
                self._pending[-1] = self._key(node)
            else:
                name = str(key.value)
                if name in container.value:
                    line, column = container.keys[name]
                    self.last = (key.line, key.column)
                    self._add(
                        f"'{name}' was already given at line {line}, column {column}", "keep one of the two"
                    )
                else:
                    container.value[name] = node
                    container.keys[name] = (key.line, key.column)
                self._pending[-1] = None
                self._name = name

    def _key(self, node: Node) -> Node:
        if isinstance(node.value, (dict, list)):
            self._give_up(
                "a key cannot be a list or a mapping",
                'write a word as the key; a reference needs quotes: "${name}"',
            )
        name = node.text
        if not node.quoted and name == "<<":
            self._add(
                "'<<' merges in YAML 1.1 and has no meaning in YAML 1.2",
                "write the keys out, or use an alias as a whole value",
            )
        elif (
            not node.quoted
            and not self._is_ours(name)
            and (name.lower() in _OLD_TRUTH or isinstance(node.value, bool) or node.value is None)
        ):
            self._add(
                f"the key '{name}' is a truth value or nothing to other YAML readers",
                "put it in quotes or take another word",
            )
        return Node(name, node.line, node.column, name, node.quoted)

    def _is_ours(self, key: str) -> bool:
        """Whether it is the key of a service's guests, which has to be written, whatever others make of it."""
        return self._names[1:2] == ["services"] and len(self._names) == 3 and key == "on"

    def _scalar(self, event: Any) -> Node:
        text = self._whole_characters(str(event.value))
        unsafe = UNSAFE.search(text)
        if unsafe is not None:
            self._add(*_unsafe(unsafe[0]))
            text = UNSAFE.sub("?", text)
        plain = bool(event.implicit[0]) and event.style in {None, ""}
        value = self._resolved(text) if plain else text
        return Node(value, *self.last, text, not plain)

    def _whole_characters(self, text: str) -> str:
        """Escapes may write one character as two halves, as JSON does; half a character is a mistake."""
        if text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text):
            return text
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self._add("the text holds half a character", "write the character itself")
            return "?"

    def _resolved(self, text: str) -> Scalar:
        """A plain scalar by YAML 1.2's core schema; spellings that YAML 1.1 reads otherwise are mistakes."""
        if text in _NULL:
            return None
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        if _OLD_OCTAL.match(text) and text.strip("+-0123456789") == "" and text.lstrip("+-0"):
            self._add(
                f"'{text[:40]}' is octal in YAML 1.1 and decimal in YAML 1.2",
                f"write {text.lstrip('+-').lstrip('0')[:40]}",
            )
            return text
        if _OLD_GROUPED.match(text):
            self._add(
                f"'{text[:40]}' is a number in YAML 1.1 and text in YAML 1.2",
                "write it in plain digits, or in quotes",
            )
            return text
        if _OLD_SIXTIES.match(text):
            self._add(
                f"'{text[:40]}' is a number to the base of 60 in YAML 1.1 and text in YAML 1.2",
                "write a time as '90 s' or '5 min', and text in quotes",
            )
            return text
        if _INT.match(text):
            return int(text)
        if _OCTAL.match(text) or _HEX.match(text):
            return int(text, 0)
        if _NOT_A_NUMBER.match(text):
            self._add(f"'{text}' is not a value that can be measured or set", "write a number with its unit")
            return text
        return float(text) if len(text) < 40 and _FLOAT.match(text) else text


def _weight(node: Node) -> int:
    """How many nodes a value holds, itself included."""
    total, stack = 0, [node]
    while stack and total <= NODES_MAX:
        current = stack.pop()
        total += 1
        if isinstance(current.value, dict):
            stack.extend(current.value.values())
        elif isinstance(current.value, list):
            stack.extend(current.value)
    return total
