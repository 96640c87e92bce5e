"""Metrics of clients of a distributed store, and of files: what operations take, what came of them, what is left in the
end.

Only an operation that the store answered, and whose content is that which was written last, is done. All else is
counted by what went wrong, and enters no time and no rate.
"""

from __future__ import annotations

from virtlab.metrics.metric import Metric, by_key
from virtlab.metrics.statistic import DISTRIBUTION

_SHARE = ("ratio", "count")
_PER_OPERATION = ("mean", "total")
_COUNTED = "counted by the store over the role's whole time"
_SINCE = "the store's nodes, or the folder of the node, from the call of fail_node or wipe_node"
_MADE = "counted by the nodes that make them, or in the folder of the node"
_ONCE = ("total",)
_ANSWERED = "status and code of the answer, over the role's whole time"
_AUDITED = "nodes, or files, compared with what clients know, when the run ends"

STORES = by_key(
    Metric(
        "operation_time", "ns", "lower",
        "Time from when an operation was due until its verified answer, of those that are done.",
        "intended and finished instants", DISTRIBUTION, "role", "time of an operation",
    ),
    Metric(
        "operation_rate", "1/s", "higher",
        "Operations done and verified per second, from the first that was due to the last that was done.",
        "answers over their time", ("mean",), "role", "operations per second",
    ),
    Metric(
        "content_rate", "byte/s", "higher",
        "Content of objects that were created, overwritten or read per second, over the time of `operation_rate`.",
        "answers over their time", ("mean",), "role", "content per second",
    ),
    Metric(
        "first_byte_time", "ns", "lower",
        "Time from when a read was due until the first octets of its answer came. The simulator hears an answer as a "
        "whole, and has none.",
        "intended instants, and returns of the first reads", DISTRIBUTION, "role", "time to first byte",
    ),
    Metric(
        "first_done", "ns", "higher",
        "Time from the first operation that was due until the first of the role's threads had no more to do. Until then "
        "all of them worked.",
        "answers of each thread", _ONCE, "role", "first thread done",
    ),
    Metric(
        "last_done", "ns", "lower",
        "Time from the first operation that was due until the last of the role's threads had no more to do.",
        "answers of each thread", _ONCE, "role", "last thread done",
    ),
    Metric(
        "start_spread", "ns", "lower",
        "Time from the first operation of the thread that began first to that of the thread that began last.",
        "first instants of each thread", _ONCE, "role", "spread of first operations",
    ),
    Metric(
        "timed_out_operations", "ratio", "lower", "Operations that too few nodes answered in time.",
        "the client's time-out", _SHARE, "role", "operations without an answer",
    ),
    Metric(
        "missing_operations", "ratio", "lower",
        "Operations on an object that is there, and that the store, or the file system, did not find.",
        "the answer against what was written", _SHARE, "role", "objects not found",
    ),
    Metric(
        "wrong_operations", "ratio", "lower",
        "Operations answered with other content, or another length, than was written last.",
        "the answer against what was written", _SHARE, "role", "wrong content",
    ),
    Metric(
        "skipped_operations", "ratio", "lower",
        "Operations that were due at a rate and not begun, since other operations had each object, or, of files, since no "
        "thread was free until the end.",
        "the client's choice of an object", _SHARE, "role", "operations without an object",
    ),
    Metric(
        "failed_operations", "ratio", "lower", "Operations that ended with an error of the file system, or of a store.",
        "the error of a system call, or of a request", _SHARE, "role", "failed operations",
    ),
    Metric(
        "denied_operations", "ratio", "lower",
        "Failed operations that the store did not allow: a wrong key, a signature that does not hold, a token that was "
        "revoked.", _ANSWERED, _SHARE, "role", "denied operations",
    ),
    Metric(
        "no_bucket_operations", "ratio", "lower",
        "Failed operations in a bucket, or container, that is not there.", _ANSWERED, _SHARE, "role",
        "operations without their bucket",
    ),
    Metric(
        "throttled_operations", "ratio", "lower",
        "Failed operations that the store refused since requests came too fast for it (SlowDown).", _ANSWERED, _SHARE,
        "role", "throttled operations",
    ),
    Metric(
        "server_error_operations", "ratio", "lower",
        "Failed operations that ended with another error inside the store; of files, with an input or output error (EIO).",
        _ANSWERED, _SHARE, "role", "errors of the store",
    ),
    Metric(
        "broken_operations", "ratio", "lower",
        "Failed operations whose connection could not be made, or ended without an answer; of files, where what serves them "
        "was not reached (ENOTCONN, ESTALE, ETIMEDOUT and the like).",
        "the client's sockets, or the error of a system call", _SHARE, "role", "broken connections",
    ),
    Metric(
        "operation_retries", "ratio", "lower", "Attempts beyond the first of each operation, per operation.",
        "the client's attempts", _SHARE, "role", "retries of operations",
    ),
    Metric(
        "without_object", "count", "neither",
        "Draws of an operation for which there was no object that no other operation had. Another is drawn instead; after "
        "64 in a row a thread ends, and an operation that was due at a rate is one of `skipped_operations`.",
        "counted by the client over its whole time", ("total",), "role", "draws without an object",
    ),
    Metric(
        "client_cpu", "ratio", "lower",
        "Share of the processor time that threads of the client took, of all that they could have had: one processor each, "
        "as far as the guest has them. Above 80 % the client may be what limits the rate, and the report says so.",
        "the kernel's count for each thread", ("ratio",), "role", "processors of the client",
    ),
    Metric(
        "working_set", "ratio", "neither",
        "Bytes of the files that are there in the end, over the memory that their guest has free or can free; of objects, "
        "all of their copies over the memory of the nodes, or what the machine has free where nodes share that. Below 1 "
        "all of them may be in the page cache, and the report says so.",
        "what clients wrote; /proc/meminfo MemAvailable; the file", ("ratio",), "role", "files, by memory",
    ),
    Metric(
        "lookup_messages", "count", "lower",
        "Messages that find the nodes of an object, questions and answers, per operation. A question to all nodes is one.",
        _COUNTED, _PER_OPERATION, "role", "messages of lookup",
    ),
    Metric(
        "lookup_bytes", "bytes", "lower",
        "Their length without heads of the network, per operation. A question to all nodes counts once, on links it is "
        "counted on each.", _COUNTED, _PER_OPERATION, "role", "bytes of lookup",
    ),
    Metric(
        "store_messages", "count", "lower", "Messages of all kinds per operation, of clients, proxies and nodes together.",
        _COUNTED, _PER_OPERATION, "role", "messages",
    ),
    Metric(
        "store_bytes", "bytes", "lower", "Their length without heads of the network, per operation.", _COUNTED,
        _PER_OPERATION, "role", "bytes of messages",
    ),
    Metric(
        "object_copies", "count", "neither",
        "Copies with the content that was written last, per object of the role's folder.", _AUDITED, _PER_OPERATION,
        "role", "copies of an object",
    ),
    Metric(
        "missing_copies", "ratio", "lower",
        "Copies that are missing of objects that are there, per copy that there ought to be.", _AUDITED, _SHARE, "role",
        "missing copies",
    ),
    Metric(
        "lost_objects", "ratio", "lower",
        "Objects whose write was answered, and of which no node has a copy; files that were written, and cannot be read.",
        _AUDITED, _SHARE, "role", "lost objects",
    ),
    Metric(
        "stale_objects", "ratio", "lower",
        "Objects of which nodes have copies, and none of what was written last; files with other content than that.",
        _AUDITED, _SHARE, "role", "stale objects",
    ),
    Metric(
        "doubtful_objects", "count", "lower",
        "Objects whose last write or deletion was not answered, or answered with 'missing' or an error. They are left "
        "alone, and not looked for in the end.",
        "counted by the clients", ("count",), "role", "objects in doubt",
    ),
    Metric(
        "unread_objects", "count", "lower",
        "Objects of a store that is not virtlab's own, and files, that were not read once more before the time for that, "
        "40 s, was over. With any of them, no number of lost or stale objects is known unless it is above 0.",
        "counted by the clients", ("count",), "role", "unread objects",
    ),
    Metric(
        "recovered_ratio", "ratio", "higher",
        "Copies made again of those that were missing after nodes had failed, were wiped or were cut off; 1 once all are.",
        _MADE, ("ratio",), "role", "recovered copies",
    ),
    Metric(
        "recovery_missing", "count", "neither", "Copies that had to be made again.", _MADE,
        ("count",), "role", "copies to make again",
    ),
    Metric(
        "recovery_detection", "ns", "lower",
        "Time from the first node lost in the run until the store knew which copies are missing.", _SINCE, _ONCE, "role",
        "time until a loss is known",
    ),
    Metric(
        "recovery_first", "ns", "lower", "Time from the first node lost until a first copy was made again.", _SINCE, _ONCE,
        "role", "time until the first copy",
    ),
    Metric(
        "recovery_half", "ns", "lower", "Time from the first node lost until half of the missing copies were made again.",
        _SINCE, _ONCE, "role", "time until half is recovered",
    ),
    Metric(
        "recovery_most", "ns", "lower", "Time from the first node lost until 90 % of the missing copies were made again.",
        _SINCE, _ONCE, "role", "time until 90 % is recovered",
    ),
    Metric(
        "recovery_whole", "ns", "lower",
        "Time from the first node lost until all missing copies were made again. Absent where the run ended before.", _SINCE,
        _ONCE, "role", "recovery time",
    ),
    Metric(
        "recovery_rate", "byte/s", "higher",
        "Content of the copies made again, divided by the time from detection until all were made.",
        _MADE, ("mean",), "role", "rate of recovery",
    ),
    Metric(
        "recovery_copy_rate", "1/s", "higher",
        "Copies made again, divided by the time from detection until all were made.",
        _MADE, ("mean",), "role", "copies recovered per second",
    ),
)  # fmt: skip
