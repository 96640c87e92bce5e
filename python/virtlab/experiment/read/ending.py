"""What the text of an experiment ends with, where it was read from a file: what lay beside that file.

A dataset holds this text, and is resumed and reported from it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from virtlab.experiment.read.factors import Factor, references, substitute
from virtlab.experiment.read.tree import Node

COMBINATIONS_MAX = 1000


def with_section(text: str, root: Node, lines: Sequence[str]) -> str:
    """The text, with the lines of a section at its end. ValueError where its form leaves no room for one."""
    first = min((place for place in root.keys.values()), default=(1, 1))
    if first[1] != 1 or text.lstrip("\ufeff").lstrip().startswith("{"):
        raise ValueError
    return text.rstrip("\n") + "\n".join(["", *lines, ""])


def values_of(node: Node, factors: Mapping[str, Factor]) -> Iterator[object]:
    """What a node is at the levels of the factors that it refers to."""
    used = sorted(references(node))
    if not set(used) <= set(factors):
        return  # its mistake is told with the others
    points = itertools.product(*(factors[name].levels for name in used))
    for chosen in itertools.islice(points, COMBINATIONS_MAX):
        yield substitute(node, factors, dict(zip(used, chosen, strict=True))).value
