"""Numbers read from agents as columns of sample blocks, under the Plan's names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from virtlab.lazy import np
from virtlab.metrics.machines import AT_HOST
from virtlab.plan import Columns
from virtlab.testbed.build.pools import AT, TOGETHER
from virtlab.testbed.kinds.lowered import Lowered, Place
from virtlab.testbed.kinds.platform import CounterRow
from virtlab.testbed.queues.applied import by_handle
from virtlab.testbed.queues.kernel import PortQueue
from virtlab.testbed.queues.netem_links import NetemQueue
from virtlab.testbed.queues.pacing import WAITING

VCPUS_MAX = 255
OF_HOST = "host_cpu_share"

_LINK_COUNTERS = {
    "packets": "packets",
    "bytes": "bytes",
    "drops": "drops",
    "backlog_packets": "backlog_packets",
    "backlog_max_packets": "backlog_max_packets",
    "busy_ns": "busy_ns",
    "residence_ns": "residence_ns",
    "residence_max_ns": "residence_max_ns",
    "residence_p50_ns": "residence_p50_ns",
    "residence_p99_ns": "residence_p99_ns",
    "marked_packets": "marked_packets",
}
_PASSED = ("packets", "bytes", "drops")
_KERNEL = (*_PASSED, "backlog_packets", "backlog_bytes")
_FLOWS = ("new_flows", "new_flows_waiting", "old_flows_waiting")  # of fq_codel
_PORT_COUNTERS = ("received_packets", "sent_packets", "ring_drops", "oversize", "bad_checksum", "send_errors")


def counter_columns(rows: Iterable[CounterRow]) -> Columns:
    """Rows as columns of `counter/1`."""
    kept = list(rows)
    return {
        "t_ns": np.array([row[0] for row in kept], dtype=np.int64),
        "mark": np.array([row[1] for row in kept], dtype=object),
        "entity": np.array([row[2] for row in kept], dtype=object),
        "counter": np.array([row[3] for row in kept], dtype=object),
        "value": np.array([row[4] for row in kept], dtype=np.int64),
    }


def kernel_rows(
    queues: Mapping[tuple[str, str], PortQueue], readings: Mapping[str, Any], t_ns: int, mark: str
) -> list[CounterRow]:
    """The kernel's counters per link direction and class, of links that it realises."""
    rows: list[CounterRow] = []
    for (link, direction), queue in queues.items():
        found = by_handle(readings[queue.namespace]["links"][queue.link])
        line = f"links.{link}.{direction}"
        for entity, handle in [
            (line, queue.top),
            *((f"{line}.{name}", at) for name, at in queue.classes.items()),
        ]:
            counters = found.get(handle, {})
            wanted = _PASSED if isinstance(queue, NetemQueue) else _KERNEL
            rows += [(t_ns, mark, entity, name, int(counters[name])) for name in wanted if name in counters]
        if isinstance(queue, NetemQueue):
            queue.check(f"links.{link}", found)
            if (waiting := queue.waiting_packets(found)) is not None:
                rows.append((t_ns, mark, line, "backlog_packets", waiting))
        inner = found.get("10:", found.get(queue.top, {}))
        rows += [(t_ns, mark, line, name, int(inner[name])) for name in _FLOWS if name in inner]
        if "marked_packets" in inner:
            rows.append((t_ns, mark, line, "marked_packets", int(inner["marked_packets"])))
    return rows


def shared_rows(
    shared: Mapping[str, Place], seen: Mapping[str, Any], t_ns: int, mark: str
) -> list[CounterRow]:
    """The kernel's counters of the queues that guests share; what they drop is their senders' own, and never was on the
    way."""
    return [
        (t_ns, mark, path, name, int(counters[name]))
        for path, place in shared.items()
        for counters in [by_handle(seen[place.namespace]["links"][place.link]).get(WAITING, {})]
        for name in (*_PASSED, "backlog_packets")
        if name in counters
    ]


def sender_rows(
    senders: Mapping[str, Place], seen: Mapping[str, Any], t_ns: int, mark: str
) -> list[CounterRow]:
    """How many frames wait in each vNIC that holds its own sender back."""
    found = {
        path: by_handle(seen[at.namespace]["links"].get(at.link, {"qdiscs": ()}))
        for path, at in senders.items()
    }
    return [
        (t_ns, mark, path, "backlog_packets", int(of["1:"]["backlog_packets"]))
        for path, of in found.items()
        if "1:" in of
    ]


def without_shares(columns: Columns, shareless: Collection[str]) -> dict[str, Any]:
    """A block of series without shares of a host in networks where these are of no one host's processors."""
    kept = np.array(
        [
            not (metric == OF_HOST and entity in shareless)
            for entity, metric in zip(columns["entity"], columns["metric"], strict=True)
        ],
        dtype=bool,
    )
    return {name: values[kept] for name, values in columns.items()}


class Entities:
    """Kernel names to names of the Plan: `guest:a/eth0` is `guests.a.vnics.eth0`, `guest:a@h2` is `guests.a.at.h2`."""

    def __init__(self, lowered: Lowered) -> None:
        self._names = {
            f"{place.namespace}/{place.link}": f"guests.{guest}.vnics.{vnic}"
            for (guest, vnic), place in lowered.vnics.items()
        }
        self._names |= {
            f"{place.namespace}/{place.link}": f"hosts.{host}.vnic" for host, place in lowered.hosts.items()
        }
        self._names |= {
            f"{place.namespace}/{place.link}": f"vswitches.{name}"
            for name, place in lowered.vswitches.items()
        }
        for guest, inside in lowered.machines.items():
            namespace = lowered.guests[guest]
            self._names |= {
                f"{namespace}/vcpu{number}": f"guests.{guest}.vcpu{number}" for number in range(VCPUS_MAX)
            }
            self._names[f"{namespace}/io"] = f"guests.{guest}.io"
            for vnic, tap in inside.taps.items():
                self._names[f"{tap.namespace}/{tap.link}"] = f"guests.{guest}.vnics.{vnic}.tap"
        for (port, _), queue in lowered.queues.items():
            guest, _, vnic = port.rpartition(".")
            if guest in lowered.guests:
                self._names.setdefault(f"{queue.namespace}/{queue.link}", f"guests.{guest}.vnics.{vnic}.port")
        for end, place in lowered.uplinks.items():
            self._names.setdefault(f"{place.namespace}/{place.link}", f"uplinks.{end}")
        for end, link in lowered.fabric_ports.items():
            self._names.setdefault(f"fabric/{link}", f"fabric.{end}")
        self._names |= {namespace: f"guests.{guest}" for guest, namespace in lowered.guests.items()}
        self._names["fabric"] = "soft_switch"

    def name(self, kernel: str) -> str:
        """The Plan's name; what has none keeps the kernel's, with '.' for '/'."""
        if kernel.startswith(TOGETHER):
            return kernel.removeprefix(TOGETHER)
        network, at, host = kernel.partition(AT)
        if at and network in self._names:
            return f"{self._names[network]}{AT_HOST}{host}"
        return self._names.get(kernel, kernel.replace("/", "."))


def switch_rows(
    stats: Mapping[str, Any], t_ns: int, mark: str, cut: Collection[str] = ()
) -> list[CounterRow]:
    """The soft switch's counters per link direction and per port; of links that are `cut` what that cost them, too."""
    rows: list[CounterRow] = []
    for link, directions in stats.get("links", {}).items():
        for direction, counters in directions.items():
            rows += [
                (t_ns, mark, f"links.{link}.{direction}", name, int(counters[key]))
                for key, name in _LINK_COUNTERS.items()
                if key in counters
            ]
            if link in cut:
                lost = int(counters["drops_by_reason"]["link_down"])
                rows.append((t_ns, mark, f"links.{link}.{direction}", "link_down_drops", lost))
            rows += [
                (t_ns, mark, f"links.{link}.{direction}.{name}", counter, int(value))
                for name, of_class in counters.get("classes", {}).items()
                for counter, value in of_class.items()
            ]
    for port, counters in stats.get("ports", {}).items():
        rows += [
            (t_ns, mark, f"ports.{port}", name, int(counters[name]))
            for name in _PORT_COUNTERS
            if name in counters
        ]
    for which in ("lateness", "added_delay"):
        rows += [
            (t_ns, mark, "soft_switch", f"{which}_{key}", int(value))
            for key, value in stats.get(which, {}).items()
            if key.endswith("_ns") or key in {"count", "over_200_us"}
        ]
    rows += [
        (t_ns, mark, "soft_switch", f"spin_budget_{key}", int(value))
        for key, value in stats.get("spin_budget", {}).items()
    ]
    rows.append((t_ns, mark, "soft_switch", "cpu_ns", int(stats.get("cpu_ns", 0))))
    return rows
