"""Schemas of sample blocks: the columns that agents send, datasets keep and analysis reads.

Instants are ns on the sender's CLOCK_MONOTONIC_RAW unless a column says otherwise; kernel stamps are converted by the
agent. A lost packet has no row. A schema's version rises when a column changes its meaning; new columns may be added
at the end, so an older dataset stays readable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Dtype = Literal["i64", "i32", "f64", "name"]


@dataclass(frozen=True, slots=True)
class BlockSchema:
    """Columns of one kind of sample, in order: name -> dtype ('name' is a dictionary code on the wire, text on disk)."""

    id: str
    columns: dict[str, Dtype]
    meaning: str


def _schema(id: str, meaning: str, /, **columns: Dtype) -> tuple[str, BlockSchema]:  # noqa: A002 - the field's name
    return id, BlockSchema(id, columns, meaning)


BLOCKS: dict[str, BlockSchema] = dict(
    [
        _schema(
            "sent/1", "One row per request or packet that a measuring role sent; intended_ns: open-loop schedule.",
            seq="i64", flow="i32", intended_ns="i64", sent_ns="i64", payload_bytes="i32",
        ),
        _schema(
            "rtt/1", "One row per reply. path_rtt_ns: kernel stamps; rtt_ns: user space, send call to receive return.",
            seq="i64", flow="i32", intended_ns="i64", sent_ns="i64", received_ns="i64", rtt_ns="i64", path_rtt_ns="i64",
        ),
        _schema(
            "packet/1", "One row per datagram or frame that a receiver saw, in order of arrival.",
            seq="i64", flow="i32", sent_ns="i64", received_ns="i64", user_ns="i64", payload_bytes="i32",
        ),
        _schema(
            "burst/1", "One row per burst of a load role. finished_ns is -1 if no reply was requested.",
            burst="i64", stream="i32", intended_ns="i64", sent_ns="i64", finished_ns="i64", sent_bytes="i64",
            replied_bytes="i64",
        ),
        _schema(
            "interval/1", "Progress of a TCP stream per interval; srtt_ns and retransmits from the sender's TCP_INFO.",
            flow="i32", begin_ns="i64", end_ns="i64", received_bytes="i64", sent_bytes="i64", retransmits="i64",
            srtt_ns="i64", cwnd_packets="i64",
        ),
        _schema(
            "transaction/1", "One row per request and response of tcp_rr.",
            flow="i32", started_ns="i64", finished_ns="i64",
        ),
        _schema(
            "request/1", "One row per request of psping; seq is below 0 in the warm-up, finished_ns -1 without an answer.",
            seq="i64", sent_ns="i64", finished_ns="i64", payload_bytes="i64",
        ),
        _schema(
            "rt_job/1", "One row per job of a hard-deadline task; task: place in the role's list; -1: never began or ended.",
            task="i32", episode="i32", release_ns="i64", start_ns="i64", finish_ns="i64", response_ns="i64",
            executed_ns="i64", missed="i32",
        ),
        _schema(
            "rt_supply/1", "One row per period of a guest's CPU budget: what reached its tasks, what was charged.",
            begin_ns="i64", end_ns="i64", served_ns="i64", charged_ns="i64",
        ),
        _schema(
            "summary/1", "A statistic that a tool computed itself, of an imported role; samples: of how many, 0 unknown.",
            metric="name", statistic="name", value="f64", samples="i64",
        ),
        _schema(
            "series/1", "A value of one metric of one entity at an instant.",
            t_ns="i64", entity="name", metric="name", value="f64",
        ),
        _schema(
            "counter/1", "A counter as read at a mark (an event of the timeline, or 'arm', 'start', 'stop' of a role).",
            t_ns="i64", mark="name", entity="name", counter="name", value="i64",
        ),
    ]
)  # fmt: skip
