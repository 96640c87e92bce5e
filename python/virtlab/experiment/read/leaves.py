"""The kinds of the catalogue as types of the file's model: text in the file, an SI integer in the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from pydantic import PlainValidator, WithJsonSchema

from virtlab.catalogue import PLATFORMS, VSWITCHES
from virtlab.catalogue.kinds import (
    BYTE_RATE,
    COUNT,
    DURATION,
    FLAG,
    LIMIT,
    LOSS_RATIO,
    PERIOD_OR_OFF,
    POSITIVE_DURATION,
    POSITIVE_SIZE,
    PROPER_RATIO,
    RATE,
    RATIO,
    SIZE,
    TEXT,
    Kind,
    choice,
    shown,
)
from virtlab.lazy import pattern
from virtlab.units import nearest

NAME = pattern(r"[A-Za-z][A-Za-z0-9_-]{0,30}\Z")
NAME_SCHEMA = {"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_-]{0,30}$"}


def _types(kind: Kind) -> tuple[PlainValidator, WithJsonSchema]:
    return PlainValidator(kind.parse), WithJsonSchema(kind.schema)


def object_name(value: Any) -> str:
    """A name that the file gives to a host, guest, switch, link, role or action.

    >>> object_name("2nd")
    Traceback (most recent call last):
    ValueError: '2nd' is not a valid name; begin with a letter; use letters, digits, _ and -
    """
    if isinstance(value, str) and NAME.match(value):
        return value
    raise ValueError(
        f"'{shown(value)}' is not a valid name; begin with a letter; use letters, digits, _ and -"
    )


DISKS = (".qcow2", ".raw", ".img")


def is_disk(image: str) -> bool:
    """Whether an `image` means a disk, by its path, and not a name.

    >>> is_disk("disks/own.qcow2"), is_disk("debian")
    (True, False)
    """
    return image.endswith(DISKS)


def image_name(value: Any) -> str:
    """A root file system or a recipe by its name, or a disk image by its path.

    >>> image_name("~/disks/own.qcow2")
    '~/disks/own.qcow2'
    >>> image_name("own.vhd")
    Traceback (most recent call last):
    ValueError: 'own.vhd' is neither a name nor a disk image; write a name, or a path that ends with .qcow2, .raw, .img
    """
    if isinstance(value, str) and (NAME.match(value) or (is_disk(value) and "\0" not in value)):
        return value
    cure = f"write a name, or a path that ends with {', '.join(DISKS)}"
    raise ValueError(f"'{shown(value)}' is neither a name nor a disk image; {cure}")


DESTINATION = pattern(r"(ssh://)?[A-Za-z0-9_][A-Za-z0-9_.@:%\[\]-]{0,250}\Z")
INTERFACE = pattern(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,14}\Z")


def destination(value: Any) -> str:
    """How ssh calls a host: a name of its configuration, USER@NAME, or ssh://USER@NAME:PORT.

    >>> destination("-oProxyCommand=anything")
    Traceback (most recent call last):
    ValueError: '-oProxyCommand=anything' is not an address for ssh; write e.g. root@lab-a, or ssh://root@lab-a:2222
    """
    if isinstance(value, str) and DESTINATION.match(value):
        return value
    raise ValueError(
        f"'{shown(value)}' is not an address for ssh; write e.g. root@lab-a, or ssh://root@lab-a:2222"
    )


def interface_name(value: Any) -> str:
    """The name of a network interface."""
    if isinstance(value, str) and INTERFACE.match(value):
        return value
    raise ValueError(f"'{shown(value)}' is not a valid name of an interface; write e.g. eth1")


def link_end(value: Any) -> str:
    """One end of a link: a host, switch or router, or one of several virtual switches of a host.

    >>> link_end("sut.br0")
    'sut.br0'
    """
    host, dot, vswitch = value.partition(".") if isinstance(value, str) else (value, "", "")
    return f"{object_name(host)}{dot}{object_name(vswitch) if dot else ''}"


def network(version: int) -> Callable[[Any], str]:
    """A parser of an address pool of one IP version, or `none`."""

    def parse(value: Any) -> str:
        import ipaddress

        example = "10.0.0.0/16" if version == 4 else "fd00::/48"
        if value == "none":
            return "none"
        try:
            pool = ipaddress.ip_network(str(value))
            if not isinstance(value, str) or pool.version != version:
                raise ValueError
        except ValueError:
            raise ValueError(
                f"'{shown(value)}' is not an IPv{version} network; write e.g. '{example}', or none"
            ) from None
        return str(pool)

    return parse


def interface(version: int) -> Callable[[Any], str]:
    """A parser of an interface address with prefix length of one IP version."""

    def parse(value: Any) -> str:
        import ipaddress

        example = "10.0.0.7/24" if version == 4 else "fd00::7/64"
        try:
            address = ipaddress.ip_interface(value if isinstance(value, str) and "/" in value else "")
            if address.version != version:
                raise ValueError
        except ValueError:
            cure = f"write address and prefix length, e.g. '{example}'"
            raise ValueError(f"'{shown(value)}' is not an IPv{version} interface address; {cure}") from None
        usable = address.network.num_addresses > 2 and version == 4
        if usable and address.ip in {address.network.network_address, address.network.broadcast_address}:
            raise ValueError(f"'{value}' is the network's own address; take one inside, e.g. '{example}'")
        return str(address)

    return parse


def _word(names: Callable[[], list[str]], noun: str) -> PlainValidator:
    def parse(value: Any) -> str:
        known = names()
        if isinstance(value, str) and value in known:
            return value
        cure = nearest(str(value), known) or f"write one of {', '.join(known)}"
        raise ValueError(f"there is no {noun} '{shown(value)}'; {cure}")

    return PlainValidator(parse)


def _platforms() -> list[str]:
    return list(PLATFORMS)


def _vnic_models() -> list[str]:
    return list(dict.fromkeys(model for platform in PLATFORMS.values() for model in platform.vnic_models))


def _vswitches() -> list[str]:
    return [*VSWITCHES, "none"]


def _mtu(value: Any) -> int:
    size_bytes: int = POSITIVE_SIZE.parse(value)
    if not 576 <= size_bytes <= 9000:
        raise ValueError(
            f"an MTU of '{shown(value)}' is not a Ethernet MTU; write between '576 B' and '9000 B'"
        )
    return size_bytes


WEIGHT_MAX = 10_000  # Linux, Documentation/admin-guide/cgroup-v2.rst, cpu.weight


def _weight(value: Any) -> int:
    number: int = COUNT.parse(value)
    if number > WEIGHT_MAX:
        raise ValueError(f"a weight of '{shown(value)}' is more than the kernel has; write 1 to {WEIGHT_MAX}")
    return number


_MAC = pattern(r"02(:[0-9a-f]{2}){5}\Z")


def _mac(value: Any) -> str:
    if isinstance(value, str) and _MAC.match(value):
        return value
    raise ValueError(
        f"'{shown(value)}' is not a MAC address of a guest; write e.g. '02:00:00:00:00:01' (lower case, 02 first)"
    )


def _switches(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 64:
        raise ValueError(f"'{shown(value)}' is not a number of switches; write between 0 and 64")
    return value


Rate = Annotated[int, *_types(RATE)]
ByteRate = Annotated[int, *_types(BYTE_RATE)]
Time = Annotated[int, *_types(DURATION)]
PositiveTime = Annotated[int, *_types(POSITIVE_DURATION)]
Bytes = Annotated[int, *_types(SIZE)]
PositiveBytes = Annotated[int, *_types(POSITIVE_SIZE)]
PeriodOrOff = Annotated[int, *_types(PERIOD_OR_OFF)]
Share = Annotated[float, *_types(RATIO)]
ProperShare = Annotated[float, *_types(PROPER_RATIO)]
LossShare = Annotated[float, *_types(LOSS_RATIO)]
Count = Annotated[int, *_types(COUNT)]
Flag = Annotated[bool, *_types(FLAG)]
Text = Annotated[str, *_types(TEXT)]
Limit = Annotated[tuple[str, int], *_types(LIMIT)]
Switches = Annotated[
    int, PlainValidator(_switches), WithJsonSchema({"type": "integer", "minimum": 0, "maximum": 64})
]
Weight = Annotated[
    int,
    PlainValidator(_weight),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": WEIGHT_MAX, "examples": [100]}),
]
Mtu = Annotated[int, PlainValidator(_mtu), WithJsonSchema(SIZE.schema)]
Mac = Annotated[
    str, PlainValidator(_mac), WithJsonSchema({"type": "string", "pattern": "^02(:[0-9a-f]{2}){5}$"})
]
ObjectName = Annotated[str, PlainValidator(object_name), WithJsonSchema(NAME_SCHEMA)]
ImageName = Annotated[
    str,
    PlainValidator(image_name),
    WithJsonSchema({"type": "string", "pattern": r"^([A-Za-z][A-Za-z0-9_-]{0,30}|.+\.(qcow2|raw|img))$"}),
]
LinkEnd = Annotated[
    str,
    PlainValidator(link_end),
    WithJsonSchema(
        {"type": "string", "pattern": r"^[A-Za-z][A-Za-z0-9_-]{0,30}(\.[A-Za-z][A-Za-z0-9_-]{0,30})?$"}
    ),
]
Platform = Annotated[
    str, _word(_platforms, "platform"), WithJsonSchema({"type": "string", "x-names": "platforms"})
]
VswitchKind = Annotated[
    str, _word(_vswitches, "virtual switch"), WithJsonSchema({"type": "string", "x-names": "vswitches"})
]
VnicModel = Annotated[
    str,
    _word(_vnic_models, "vNIC model"),
    WithJsonSchema({"type": "string", "x-names": "vnic_models"}),
]
Pool4 = Annotated[
    str, PlainValidator(network(4)), WithJsonSchema({"type": "string", "examples": ["10.0.0.0/16", "none"]})
]
Pool6 = Annotated[
    str, PlainValidator(network(6)), WithJsonSchema({"type": "string", "examples": ["fd00::/48", "none"]})
]
Address4 = Annotated[
    str, PlainValidator(interface(4)), WithJsonSchema({"type": "string", "examples": ["10.0.0.7/24"]})
]
Address6 = Annotated[
    str, PlainValidator(interface(6)), WithJsonSchema({"type": "string", "examples": ["fd00::7/64"]})
]
Idle = Annotated[str, *_types(choice("sleep", "poll"))]
Offloads = Annotated[str, *_types(choice("off", "default"))]
Arp = Annotated[str, *_types(choice("static", "live"))]
Spin = Annotated[str, *_types(choice("auto", "always", "never"))]
Network = Annotated[str, *_types(choice("own", "vxlan"))]
Destination = Annotated[
    str,
    PlainValidator(destination),
    WithJsonSchema({"type": "string", "examples": ["root@lab-a", "ssh://root@lab-b:2222"]}),
]
Interface = Annotated[
    str,
    PlainValidator(interface_name),
    WithJsonSchema({"type": "string", "pattern": INTERFACE.pattern.replace("\\Z", "$")}),
]
Method = Annotated[str, *_types(choice("mlrsearch", "bisection", "rfc2544"))]
LossPer = Annotated[str, *_types(choice("flow", "stream"))]
Pace = Annotated[str, *_types(choice("letter", "quick"))]
Tagged = Annotated[str, *_types(choice("frame", "all"))]
Pushback = Annotated[str, *_types(choice("uplink", "guest", "none"))]
Medium = Annotated[str, *_types(choice("memory", "file", "service"))]
PoolBy = Annotated[str, *_types(choice("affinity", "quota"))]
QueueAt = Annotated[str, *_types(choice("guest", "uplink", "both", "none"))]
Realise = Annotated[str, *_types(choice("auto", "netem", "soft_switch", "shaping"))]
Runtime = Annotated[str, *_types(choice("runc", "crun", "podman"))]
Seccomp = Annotated[str, *_types(choice("default", "none"))]
UserNamespace = Annotated[str, *_types(choice("none", "own"))]
Firmware = Annotated[str, *_types(choice("bios", "uefi"))]
Forwarding = Annotated[str, *_types(choice("none", "layer3", "layer2"))]
FlowEntries = Annotated[str, *_types(choice("shared", "own"))]
Shape = Annotated[str, *_types(choice("line", "star", "tree", "direct", "none"))]
Device = Annotated[str, *_types(choice("switch", "router"))]
Routing = Annotated[str, *_types(choice("static", "ospf"))]
Pin = Annotated[str, *_types(choice("none", "one", "spread"))]
