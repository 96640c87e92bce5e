"""Metrics of packets: delay, its variation, loss, order.

Delay comes twice: by kernel stamps (`path_*`: what the network did) and by user stamps (what an application
sees). There is no plain jitter: each kind of delay variation has its own name and source.
"""

from __future__ import annotations

from virtlab.metrics.metric import Metric, by_key
from virtlab.metrics.statistic import DISTRIBUTION, SPREAD

NETWORK = by_key(
    Metric(
        "rtt", "ns", "lower",
        "Round-trip time of a request as the application sees it: send call to receive return.",
        "RFC 2681; min/mean/max/mdev as iputils ping", DISTRIBUTION, "role", "RTT",
    ),
    Metric(
        "path_rtt", "ns", "lower",
        "Round-trip time between the kernel's send and receive stamps at the requester: without its "
        "wake-up and system calls.", "RFC 2681; Linux SO_TIMESTAMPING", DISTRIBUTION, "role", "path RTT",
    ),
    Metric(
        "owd", "ns", "lower",
        "One-way delay as the application sees it: sender's stamp to the return of the receive call. "
        "Statistic `bound` is the clock's error bound, by which every other statistic may be shifted.",
        "RFC 7679 with user stamps", (*DISTRIBUTION, "bound"), "role", "one-way delay",
    ),
    Metric(
        "path_owd", "ns", "lower",
        "One-way delay up to the kernel's receive stamp: what the network did, without the receiver's "
        "wake-up. "
        "Statistic `bound` as for `owd`.",
        "RFC 7679; Linux SO_TIMESTAMPING", (*DISTRIBUTION, "bound"), "role", "path one-way delay",
    ),
    Metric(
        "first_owd", "ns", "lower",
        "Path one-way delay of the first packet of each flow: where a virtual switch keeps decisions by flow, the one that "
        "finds none. Of flows that began in the window.",
        "RFC 7679; number 0 of a flow", DISTRIBUTION, "role", "first packets' delay",
    ),
    Metric(
        "later_owd", "ns", "lower",
        "Path one-way delay of all packets but the first of their flow.",
        "RFC 7679; numbers from 1 of a flow", DISTRIBUTION, "role", "later packets' delay",
    ),
    Metric(
        "split_owd", "ns", "lower",
        "Path one-way delay over flows of unequal shares of the load: q mean(weak flows) + (1 - q) mean(strong flows), q "
        "the weak ones' share of the whole; the plain mean over flows where all shares are equal. Absent when nothing "
        "arrived of some flow.",
        "published forwarding study, its sums and its case without weak guests mended", ("mean",), "role",
        "combined delay",
    ),
    Metric(
        "ipdv", "ns", "lower",
        "Absolute difference between the delays of consecutive packets (in order of sending, both "
        "arrived); round-trip delays for `rtt`, one-way for streams. Clock offset cancels.", "RFC 3393",
        SPREAD, "role", "IPDV",
    ),
    Metric(
        "pdv", "ns", "lower",
        "Delay of a packet minus the smallest delay in the window. Clock offset cancels.",
        "RFC 5481, section 4.2", SPREAD, "role", "PDV",
    ),
    Metric(
        "jitter_rfc3550", "ns", "lower",
        "Smoothed absolute difference J += (|D| - J)/16 over packets in order of arrival, J = 0 before "
        "the first, exactly as iperf computes it; of successive round-trip times for `rtt`.",
        "RFC 3550, section 6.4.1; iperf3", ("final", "mean", "max"), "role",
        "jitter (RFC 3550)",
    ),
    Metric(
        "loss", "ratio", "lower",
        "Share of what was sent in the window that never arrived: replies for `rtt` and for bursts with "
        "reply, datagrams or frames for streams. Drops of the probe's own socket are counted apart. Of a stream, "
        "packets that waited in a queue when the run ended are in flight and not lost.",
        "RFC 7680", ("ratio",), "role",
    ),
    Metric(
        "flow_loss", "ratio", "lower", "Loss of each flow by itself; the statistics are over flows.",
        "RFC 7680, per flow", ("min", "mean", "max"), "role", "loss per flow",
    ),
    Metric(
        "duplicates", "ratio", "lower",
        "Arrivals of a sequence number that had arrived before, per packet sent.", "RFC 5560",
        ("ratio", "count"), "role",
    ),
    Metric(
        "reordering", "ratio", "lower",
        "Packets that arrive after one with a larger sequence number of their flow, per distinct packet "
        "received.", "RFC 4737, Type-P-Reordered", ("ratio", "count"), "role",
    ),
    Metric(
        "burst_time", "ns", "lower", "Time from sending a burst to its last reply.",
        "first to last byte of a burst", DISTRIBUTION, "role", "burst response time",
    ),
    Metric(
        "transaction_time", "ns", "lower",
        "Time from a request to its whole response; for `psping` of its bandwidth test, where several are "
        "under way.",
        "netperf TCP_RR, per transaction", DISTRIBUTION, "role", "transaction time",
    ),
    Metric(
        "connect_time", "ns", "lower", "Time that a TCP connection takes to be there: the call of connect(2).",
        "PsPing, TCP ping", DISTRIBUTION, "role", "connect time",
    ),
    Metric(
        "srtt", "ns", "lower",
        "The sender's smoothed round-trip time from TCP_INFO, once per interval.",
        "RFC 6298; Linux TCP_INFO tcpi_rtt", ("mean", "median", "min", "max"), "role",
        "smoothed RTT of TCP",
    ),
)  # fmt: skip
