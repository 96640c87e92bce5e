"""Words of a claim, each with its column.

A word is anything between blanks and the signs `: , | ~ = != < <= > >= +- { }`. `+`, `-` and `/` are signs
only when they stand alone, so `bit/s` and `linux-bridge` are words. A level that looks like a sign or keyword
is written in quotes.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>"[^"]*"|'[^']*')
    |(?P<sign>\+-|±|<=|>=|!=|[<>~=,|:{}]|[-+/](?=\s|\Z))
    |(?P<word>(?:[^\s<>~=!,|:{}"'±]|!(?!=)|(?<=\S)['"])+))""",
    re.VERBOSE,
)


class Token(NamedTuple):
    """A word, a quoted level or a sign, and its column from 1."""

    text: str
    kind: Literal["word", "quoted", "sign", "end"]
    column: int


def tokens(text: str) -> list[Token]:
    """All tokens, the last of kind 'end'. ValueError with the column as second argument at a stray character.

    >>> [token.text for token in tokens("p.rtt.mean: switches 2 - 1 within 244 us +- 10 %")]
    ['p.rtt.mean', ':', 'switches', '2', '-', '1', 'within', '244', 'us', '+-', '10', '%', '']
    """
    found: list[Token] = []
    position = 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if not match or match.end() == position:
            start = position + len(text[position:]) - len(text[position:].lstrip())
            raise ValueError(f"'{text[start]}' is not understood here", start + 1)
        kind = match.lastgroup
        value = match[kind or 0]
        column = match.start(kind or 0) + 1
        if kind == "quoted":
            found.append(Token(value[1:-1], "quoted", column))
        elif kind == "sign":
            found.append(Token("+-" if value == "±" else value, "sign", column))
        else:
            found.append(Token(value, "word", column))
        position = match.end()
    found.append(Token("", "end", len(text.rstrip()) + 1))
    return found
