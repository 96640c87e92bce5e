"""Kinds of values that a file can hold: how each is written, and the SI integer it becomes.

A kind parses one scalar as YAML read it. What is wrong comes out as ValueError("WHAT; CURE"), so that every
mistake of a file carries its cure. The same kinds type the parameters of workloads and queue disciplines and
the file's own sections, and give the JSON Schema of each leaf.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from virtlab.lazy import pattern
from virtlab.units import (
    SCALES,
    Bitrate,
    Duration,
    PacketSize,
    Ratio,
    Size,
    nearest,
    parse_quantity,
    split_quantity,
)

RATE_MAX_BIT_PER_S = 400 * 10**9  # the fastest Ethernet port in common use
STATES = ("up", "down")  # of a link: whether it carries frames
SLOWEST_BIT_PER_S = 100_000  # of a slowed link: a full frame holds it for 0.12 s, whatever it gets meanwhile
DURATION_MAX_NS = 30 * 86_400 * 10**9  # a month: longer is a slip of the unit
SIZE_MAX_BYTES = 2**50
COUNT_MAX = 10**9
REQUEST_RATE_MAX_PER_S = 10**7
BYTE_RATE_MAX = 10**12
BYTE_RATE_EXAMPLE = "200 MB/s"
REQUEST_UNITS = tuple(unit for unit in SCALES["1/s"] if unit.endswith("request/s"))
NUMBER = r"[0-9][0-9_]*(\.[0-9]+)?([eE][+-]?[0-9]+)?"


class Kind(NamedTuple):
    """How one sort of value is written. `parse` takes the scalar (str, int, float, bool or None)."""

    name: str
    parse: Callable[[Any], Any]
    schema: dict[str, Any]
    example: str


class PlacedError(ValueError):
    """What is wrong inside a value that is a list or mapping; `steps` lead to the place."""

    def __init__(self, steps: tuple[str | int, ...], text: str) -> None:
        super().__init__(text)
        self.steps = steps


class SeveralError(ValueError):
    """All that is wrong inside a value that is a list or mapping, each at its place."""

    def __init__(self, errors: Sequence[PlacedError]) -> None:
        super().__init__(str(errors[0]))
        self.errors = errors


def placed(error: ValueError) -> list[tuple[tuple[str | int, ...], str]]:
    """The places inside a value that an error is about, and what it says of each.

    >>> placed(PlacedError(("unit",), "'mz' is not a unit")), placed(ValueError("is not a mapping"))
    ([(('unit',), "'mz' is not a unit")], [((), 'is not a mapping')])
    """
    errors = error.errors if isinstance(error, SeveralError) else [error]
    return [(each.steps if isinstance(each, PlacedError) else (), str(each)) for each in errors]


def shown(value: Any) -> str:
    """A scalar as a file would hold it, short enough for one line.

    >>> shown(True), shown("x" * 80)
    ('true', 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    text = " ".join(str(value).split())
    return text if len(text) <= 48 else text[:45] + "..."


def text_of(value: Any, example: str) -> str:
    """The scalar as text for a quantity parser; ValueError for any other value.

    >>> text_of(10, "10 ms")
    '10'
    """
    if isinstance(value, (dict, list, tuple)) or value is None or isinstance(value, bool):
        raise ValueError(f"{shown(value)} is not a quantity; write e.g. '{example}'")
    if len(str(value)) > 200:
        raise ValueError(f"'{shown(value)}' is not a quantity; write e.g. '{example}'")
    if re.search(r"[eE][+-]?[0-9]{4,}", str(value)):
        raise ValueError(f"'{shown(value)}' is beyond any quantity; write e.g. '{example}'")
    return str(value)


def _bounded(number: int, value: Any, least: int, most: int, cure: str) -> int:
    if not least <= number <= most:
        side = "less" if number < least else "more"
        raise ValueError(f"'{shown(value)}' is {side} than what is possible; {cure}")
    return number


def _rate(value: Any) -> int:
    text = text_of(value, Bitrate.example)
    if re.match(r"\s*[+-]?0*(\.0*)?\s*[A-Za-z]+/s\s*\Z", text) and re.search("0", text):
        raise ValueError(
            f"a rate of '{shown(value)}' carries nothing; write a rate above zero, e.g. '{Bitrate.example}'"
        )
    return _bounded(
        Bitrate.parse(text).bit_per_s,
        value,
        1,
        RATE_MAX_BIT_PER_S,
        "write a rate between '1 bit/s' and '400 Gbit/s'",
    )


def _rate_or_none(value: Any) -> int:
    return 0 if _is_zero(value, Bitrate.units) else _rate(value)


def _is_zero(value: Any, units: Collection[str]) -> bool:
    """Whether it is a rate of nothing, in one of the units.

    >>> [_is_zero(text, Bitrate.units) for text in ("0 Mbit/s", "0", "-0 bit/s", "10 bit/s")]
    [True, False, False, False]
    """
    parts = split_quantity(value) if isinstance(value, str) else None
    return parts is not None and parts[1] in units and str(parts[0]).strip("0.") == ""


def _duration(value: Any) -> int:
    number = Duration.parse(text_of(value, Duration.example)).ns
    return _bounded(number, value, 0, DURATION_MAX_NS, "write a time of at most 30 days, e.g. '10 ms'")


def _positive_duration(value: Any) -> int:
    number = _duration(value)
    if number == 0:
        raise ValueError(f"'{shown(value)}' must be more than zero; write e.g. '{Duration.example}'")
    return number


def _period_or_off(value: Any) -> int:
    if value == "off":
        return 0
    try:
        return _positive_duration(value)
    except ValueError as error:
        what = str(error).partition(";")[0]
        raise ValueError(f"{what}; write e.g. '{PERIOD_OR_OFF.example}', or off") from None


def _size(value: Any) -> int:
    number = Size.parse(text_of(value, Size.example)).size_bytes
    return _bounded(number, value, 0, SIZE_MAX_BYTES, "write a size of at most 1024 TiB")


def _positive_size(value: Any) -> int:
    number = _size(value)
    if number == 0:
        raise ValueError(f"'{shown(value)}' must be more than zero; write e.g. '{Size.example}'")
    return number


def _packet_size(value: Any) -> PacketSize:
    size = PacketSize.parse(text_of(value, PacketSize.example))
    _bounded(
        size.size_bytes, value, 1, 2**20, "write a size between '1 B' and '1 MiB', e.g. '1500 B ip_packet'"
    )
    return size


def _frame_size(value: Any) -> PacketSize:
    size = _packet_size(value)
    if size.layer != "frame":
        raise ValueError(
            f"'{shown(value)}' is not a frame size; write e.g. '64 B frame' (header to checksum)"
        )
    return size


def _ratio(value: Any) -> float:
    ratio = Ratio.parse(text_of(value, Ratio.example)).ratio
    if not 0 < ratio <= 1024:
        raise ValueError(f"'{shown(value)}' is not a share that can be given; write e.g. '50 %'")
    return ratio


def _loss_ratio(value: Any) -> float:
    ratio = Ratio.parse(text_of(value, "0.5 %")).ratio
    if not 0 <= ratio < 1:
        raise ValueError(f"'{shown(value)}' must lie between 0 % and less than 100 %; write e.g. '0.5 %'")
    return ratio


def _proper_ratio(value: Any) -> float:
    ratio = Ratio.parse(text_of(value, Ratio.example)).ratio
    if not 0 < ratio < 1:
        raise ValueError(f"'{shown(value)}' must lie between 0 % and 100 %; write e.g. '5 %'")
    return ratio


def _share(value: Any) -> float:
    ratio = Ratio.parse(text_of(value, Ratio.example)).ratio
    if not 0 <= ratio <= 1:
        raise ValueError(f"'{shown(value)}' must lie between 0 % and 100 %; write e.g. '30 %'")
    return ratio


PACKET_UNITS = ("packet/s", "kpacket/s", "Mpacket/s")
_PACKET_RATE = pattern(r"\s*([0-9][0-9_]*(?:\.[0-9]+)?)\s*(?:([kM]?)packet/s)\s*\Z")


def _packet_rate(value: Any) -> int:
    text = text_of(value, "10 kpacket/s")
    match = _PACKET_RATE.match(text)
    if not match:
        what = "has no unit" if re.fullmatch(r"\s*[0-9_.]+\s*", text) else "is not a rate of packets"
        raise ValueError(
            f"'{shown(value)}' {what}; write 'packet/s', 'kpacket/s' or 'Mpacket/s', e.g. '10 kpacket/s'"
        )
    number = round(float(match[1].replace("_", "")) * {"": 1, "k": 10**3, "M": 10**6}[match[2]])
    return _bounded(number, value, 1, 600 * 10**6, "write a rate between '1 packet/s' and '600 Mpacket/s'")


def _packet_rate_or_none(value: Any) -> int:
    return 0 if _is_zero(value, PACKET_UNITS) else _packet_rate(value)


def _request_rate(value: Any) -> int:
    text = text_of(value, "500 request/s")
    parts = split_quantity(text)
    if parts is None or parts[1] not in REQUEST_UNITS:
        raise ValueError(
            f"'{shown(value)}' is not a rate of requests; write 'request/s' or 'krequest/s', e.g. '500 request/s'"
        )
    rate = parse_quantity(text, "1/s")
    number = round(rate)
    if not 1 <= number <= REQUEST_RATE_MAX_PER_S:
        raise ValueError(
            f"'{shown(value)}' cannot be sent; write between '1 request/s' and '10000 krequest/s'"
        )
    if not math.isclose(rate, number, rel_tol=1e-9):
        raise ValueError(
            f"'{shown(value)}' is not a whole number of requests per second; write '{number} request/s'"
        )
    return number


def _byte_rate(value: Any) -> int:
    number = round(parse_quantity(text_of(value, BYTE_RATE_EXAMPLE), "byte/s"))
    return _bounded(
        number,
        value,
        1,
        BYTE_RATE_MAX,
        f"write a rate between '1 B/s' and '1000 GB/s', e.g. '{BYTE_RATE_EXAMPLE}'",
    )


def _byte_rate_or_none(value: Any) -> int:
    return 0 if _is_zero(value, SCALES["byte/s"]) else _byte_rate(value)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"'{shown(value)}' is not a whole number; write e.g. 100, without a unit")
    return _bounded(value, value, 1, COUNT_MAX, f"write a number between 1 and {COUNT_MAX}")


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in {"yes", "no", "on", "off", "y", "n"}:
        truth = "true" if value.lower() in {"yes", "on", "y"} else "false"
        raise ValueError(f"'{value}' is text in YAML 1.2 and no truth value; write {truth}")
    raise ValueError(f"'{shown(value)}' is not a truth value; write true or false")


def _limit(value: Any) -> tuple[str, int]:
    text = text_of(value, "100 packets")
    match = re.match(r"\s*([0-9][0-9_]*)\s*(packets?|frames?)\s*\Z", text)
    if match:
        number = int(match[1].replace("_", ""))
        return "limit_packets", _bounded(
            number, value, 1, 10**7, "write between '1 packets' and '10000000 packets'"
        )
    try:
        return "limit_bytes", _positive_size(value)
    except ValueError as error:
        what = str(error).partition(";")[0]
        raise ValueError(
            f"{what}; write a number of packets or bytes, e.g. '100 packets' or '150 kB'"
        ) from None


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"'{shown(value)}' is not a text; put it in quotes")
    return value


def quantity_schema(units: Any, example: str, *, tail: str = "") -> dict[str, Any]:
    """The JSON Schema of text made of a number and one of several units."""
    names = "|".join(re.escape(unit) for unit in units)
    return {"type": "string", "pattern": rf"^\s*\+?{NUMBER}\s*({names}){tail}\s*$", "examples": [example]}


def choice(*options: str) -> Kind:
    """The kind of a word out of several.

    >>> choice("udp", "icmp").parse("ucp")
    Traceback (most recent call last):
    ValueError: 'ucp' is not one of udp, icmp; did you mean 'udp'?
    """

    def parse(value: Any) -> str:
        if isinstance(value, str) and value in options:
            return value
        cure = nearest(str(value), options) or f"write one of {', '.join(options)}"
        raise ValueError(f"'{shown(value)}' is not one of {', '.join(options)}; {cure}")

    return Kind("choice", parse, {"enum": list(options)}, options[0])


RATE = Kind("rate", _rate, quantity_schema(Bitrate.units, Bitrate.example), Bitrate.example)
RATE_OR_NONE = Kind("rate, or zero", _rate_or_none, RATE.schema, RATE.example)
PACKET_RATE = Kind(
    "packet rate",
    _packet_rate,
    quantity_schema(PACKET_UNITS, "10 kpacket/s"),
    "10 kpacket/s",
)
PACKET_RATE_OR_NONE = Kind(
    "packet rate, or zero", _packet_rate_or_none, PACKET_RATE.schema, PACKET_RATE.example
)
REQUEST_RATE = Kind(
    "rate of requests",
    _request_rate,
    quantity_schema(REQUEST_UNITS, "500 request/s"),
    "500 request/s",
)
BYTE_RATE = Kind(
    "rate of bytes", _byte_rate, quantity_schema(SCALES["byte/s"], BYTE_RATE_EXAMPLE), BYTE_RATE_EXAMPLE
)
BYTE_RATE_OR_NONE = Kind("rate of bytes, or zero", _byte_rate_or_none, BYTE_RATE.schema, BYTE_RATE_EXAMPLE)
DURATION = Kind(
    "time", _duration, quantity_schema([*Duration.units, "µs"], Duration.example), Duration.example
)
POSITIVE_DURATION = Kind("time above zero", _positive_duration, DURATION.schema, "10 ms")
PERIOD_OR_OFF = Kind(
    "time above zero, or off",
    _period_or_off,
    {"anyOf": [DURATION.schema, {"const": "off"}]},
    "1 s",
)
SIZE = Kind("size", _size, quantity_schema(Size.units, Size.example), Size.example)
POSITIVE_SIZE = Kind("size above zero", _positive_size, SIZE.schema, Size.example)
PACKET_SIZE = Kind(
    "packet size with layer",
    _packet_size,
    quantity_schema(Size.units, PacketSize.example, tail=r"\s+(frame|ip_packet|payload)"),
    PacketSize.example,
)
FRAME_SIZE = Kind(
    "frame size", _frame_size, quantity_schema(Size.units, "64 B frame", tail=r"\s+frame"), "64 B frame"
)
RATIO = Kind("share", _ratio, quantity_schema(["%", "ratio"], "50 %"), "50 %")
LOSS_RATIO = Kind("share from 0", _loss_ratio, quantity_schema(["%", "ratio"], "0.5 %"), "0.5 %")
PROPER_RATIO = Kind("share between 0 and 1", _proper_ratio, quantity_schema(["%", "ratio"], "5 %"), "5 %")
SHARE = Kind("share from 0 to 1", _share, quantity_schema(["%", "ratio"], "30 %"), "30 %")
COUNT = Kind("count", _count, {"type": "integer", "minimum": 1, "maximum": COUNT_MAX}, "100")
FLAG = Kind("truth value", _flag, {"type": "boolean"}, "true")
LIMIT = Kind(
    "queue limit",
    _limit,
    quantity_schema(["packets", "packet", "frames", "frame", *Size.units], "100 packets"),
    "100 packets",
)
TEXT = Kind("text", _text, {"type": "string", "minLength": 1}, "text")


def _name_text(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,62}", value):
        raise ValueError(
            f"'{shown(value)}' is not a valid name; begin with a letter; use letters, digits, _ and -"
        )
    return value


def _argv(value: Any) -> list[str]:
    if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value):
        raise ValueError("is not a list of words; write e.g. [ping, -c, '1', 10.0.0.2], numbers in quotes")
    return [_whole(word) for word in value]


def _whole(text: str) -> str:
    if "\0" in text:
        raise ValueError("a command has no zero byte in its words; remove it")
    return text


ARGV = Kind(
    "command",
    _argv,
    {"type": "array", "items": {"type": "string"}, "minItems": 1},
    "[ping, -c, '1', 10.0.0.2]",
)


def _environment(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError(f"'{shown(value)}' is not a mapping; write e.g. {{MODE: fast}}")
    found = {}
    for name, text in value.items():
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError(f"'{shown(name)}' is not a variable's name; use letters, digits and _")
        if not isinstance(text, str):
            raise PlacedError((name,), f"'{shown(text)}' is not a text; put it in quotes")
        found[name] = _whole(text)
    return found


ENVIRONMENT = Kind(
    "environment",
    _environment,
    {"type": "object", "additionalProperties": {"type": "string"}},
    "{MODE: fast}",
)


FILE_NAME = pattern(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z")


def _file_name(value: Any) -> str:
    if not isinstance(value, str) or not FILE_NAME.match(value):
        cure = "name one beside the experiment file, of letters, digits, _, . and -, e.g. 'arrivals.csv'"
        raise ValueError(f"'{shown(value)}' is not a name of a file; {cure}")
    return value


FILE_BESIDE = Kind(
    "file beside the experiment file", _file_name,
    {"type": "string", "pattern": f"^{FILE_NAME.pattern[:-2]}$"}, "arrivals.csv",
)  # fmt: skip


def _user(value: Any) -> str:
    if isinstance(value, bool) or not re.fullmatch(r"[a-z_][a-z0-9_-]{0,31}|[0-9]{1,7}", str(value)):
        raise ValueError(f"'{shown(value)}' is not a user; write a name or number, e.g. postgres or 1000")
    return str(value)


USER = Kind(
    "user",
    _user,
    {"anyOf": [{"type": "string", "minLength": 1}, {"type": "integer", "minimum": 0}]},
    "postgres",
)


FILE_MAX_BYTES = 100_000  # of one file that travels with a command
FILES_MAX_BYTES = 400_000  # of all of them
_FILE = pattern(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*){0,7}")


def _below(value: Any) -> str:
    name = value.removeprefix("./") if isinstance(value, str) else ""
    if not _FILE.fullmatch(name) or len(name) > 200:
        cure = "name one below the experiment file's folder, of letters, digits, _ . - and /, e.g. ./server"
        raise ValueError(f"'{shown(value)}' is not a name of a file; {cure}")
    return name


FILE_BELOW = Kind("file below the experiment file's folder", _below, {"type": "string"}, "./server")


def _brought(value: dict[str, Any]) -> dict[str, Any]:
    """A file from beside the experiment file: where it is, and whether it can be executed."""
    for key in value:
        if key not in {"from", "executable"}:
            raise PlacedError((key,), f"unknown key '{shown(key)}'; a file has 'from' and 'executable'")
    if "from" not in value:
        raise ValueError("it says nothing of where it is; write e.g. {from: ./server, executable: true}")
    executable = value.get("executable", False)
    if not isinstance(executable, bool):
        raise PlacedError(("executable",), f"'{shown(executable)}' is not true or false; write one of them")
    try:
        return {"from": FILE_BELOW.parse(value["from"]), "executable": executable}
    except ValueError as error:
        raise PlacedError(("from",), str(error)) from None


def _files(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        raise ValueError(f"'{shown(value)}' is not a mapping of files; write e.g. {{server.conf: 'port 80'}}")
    found: dict[str, Any] = {}
    for name, text in value.items():
        if not isinstance(name, str) or not _FILE.fullmatch(name) or len(name) > 200:
            raise ValueError(f"'{shown(name)}' is not a file's name; use letters, digits, _ . - and /")
        if isinstance(text, dict):
            try:
                found[name] = _brought(text)
            except ValueError as error:
                raise SeveralError([PlacedError((name, *at), what) for at, what in placed(error)]) from None
            continue
        if not isinstance(text, str):
            raise PlacedError(
                (name,), f"'{shown(text)}' is not a text; put it in quotes, or write '|' before it"
            )
        if len(text.encode()) > FILE_MAX_BYTES:
            what = f"it is longer than {FILE_MAX_BYTES // 1000} kB"
            raise PlacedError((name,), f"{what}; put it into a file, and write e.g. '{{from: ./{name}}}'")
        found[name] = _whole(text)
    if sum(len(text.encode()) for text in found.values() if isinstance(text, str)) > FILES_MAX_BYTES:
        what = f"they are longer than {FILES_MAX_BYTES // 1000} kB together"
        raise ValueError(f"{what}; put them into files, and write e.g. '{{from: ./server.conf}}'")
    return found


FILES = Kind(
    "files",
    _files,
    {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {
                        "from": {"type": "string", "description": "file below the experiment file's folder"},
                        "executable": {"type": "boolean", "default": False},
                    },
                    "required": ["from"],
                    "additionalProperties": False,
                },
            ]
        },
    },
    "{server.conf: 'port 80', server: {from: ./server, executable: true}}",
)


NAME_TEXT = Kind("name", _name_text, {"type": "string"}, "a")


def _guests(value: Any) -> list[str]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"'{shown(value)}' names no guests; write e.g. [h1.p1, h2.p2]")
    if len(set(names)) < len(names):
        raise ValueError("a guest is named twice; write each once")
    return names


GUESTS = Kind(
    "guests",
    _guests,
    {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]},
    "[h1.p1, h2.p2]",
)


_CODE_POINTS = {"default": 0, "ef": 46, "va": 44, **{f"cs{n}": 8 * n for n in range(8)}}
_CODE_POINTS |= {f"af{group}{drop}": 8 * group + 2 * drop for group in range(1, 5) for drop in range(1, 4)}


def _dscp(value: Any) -> int:
    if isinstance(value, str) and value.lower() in _CODE_POINTS:
        return _CODE_POINTS[value.lower()]
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 63:
        return value
    raise ValueError(f"'{shown(value)}' is not a DSCP; write 0 to 63 or a name, e.g. EF")


DSCP = Kind("DSCP", _dscp, {"type": ["integer", "string"], "examples": ["EF", 46]}, "EF")


def _priority(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 7:
        return value
    raise ValueError(f"'{shown(value)}' is not an 802.1p priority; write 0 to 7")


def _class_priority(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 7:
        return value
    raise ValueError(
        f"'{shown(value)}' is not a priority of a class; write 0 (the first, and the default) to 7"
    )


CLASS_PRIORITY = Kind("class priority", _class_priority, {"type": "integer", "minimum": 0, "maximum": 7}, "0")
PRIORITY = Kind("802.1p priority", _priority, {"type": "integer", "minimum": 0, "maximum": 7}, "5")
ARRIVALS = choice("constant", "poisson")

NUMBERS = (
    COUNT,
    DURATION,
    POSITIVE_DURATION,
    SIZE,
    POSITIVE_SIZE,
    PACKET_SIZE,
    FRAME_SIZE,
    RATE,
    PACKET_RATE,
    REQUEST_RATE,
)
"""Kinds of which one value is more than another, so that a search can ask for the highest."""
