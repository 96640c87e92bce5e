"""References in the words of a file's commands, which stand for addresses and ports in braces.

`{to}`, `{from}` (of a role) and `{on}` (of a service) are ends, `{h2.g1}` is a guest, `{web.address}` and `{web.port}`
are of a service. They stay in the Plan, since the addresses of hosts that exist already are known in a run only. All
other braces are the program's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from virtlab.lazy import pattern

ROLE_ENDS = ("to", "from")
SERVICE_ENDS = ("on",)
ADDRESS, PORT = "address", "port"  # of a service
_BRACES = pattern(r"\{(\w+|[A-Za-z][\w-]*\.[\w-]+)\}")


def referred(words: Iterable[str], ends: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Place of a word, and what it refers to.

    >>> list(referred(["curl", "http://{to}:80/{h2.g1}", '{"a": 1}', "{web.port}"], ROLE_ENDS))
    [(1, 'to'), (1, 'h2.g1'), (3, 'web.port')]
    """
    for place, word in enumerate(words):
        for match in _BRACES.finditer(word):
            if "." in match[1] or match[1] in ends:
                yield place, match[1]


def replaced(word: str, values: Mapping[str, str]) -> str:
    """The word with what every reference stands for in its place.

    >>> replaced("http://{to}:80/{x}", {"to": "10.0.0.2"})
    'http://10.0.0.2:80/{x}'
    """
    return _BRACES.sub(lambda match: values.get(match[1], match[0]), word)


def of_service(reference: str, services: Iterable[str]) -> tuple[str, str] | None:
    """Service and word (`address`, `port`) of a reference, None where it is not to a service.

    >>> of_service("web.port", ["web"]), of_service("h2.g1", ["web"])
    (('web', 'port'), None)
    """
    name, _, word = reference.partition(".")
    return (name, word) if name in set(services) and word in {ADDRESS, PORT} else None
