"""A link that is cut in mid-run: exactly what is on it, waits for it or comes to it meanwhile is lost."""

from __future__ import annotations

import numpy as np
import pytest
from tests.contract.test_backend_contract import Kept, Watcher
from tests.theory.simulated import Values, counters, parsed, simulated, values_of

from virtlab.plan import Outcome, Trial
from virtlab.simulator import Simulator

MS = 1_000_000
RATE_BIT_PER_S = 100_000_000
PAYLOAD_BYTES = 1172
IP_BYTES = PAYLOAD_BYTES + 28
OCTETS = IP_BYTES + 14 + 4 + 20  # with check sequence, preamble and gap
FRAME_NS = OCTETS * 8 * 10  # at 100 Mbit/s
WHOLE_NS = FRAME_NS - 12 * 8 * 10  # until the far end has it
DOWN_NS, UP_NS = 300 * MS, 500 * MS


def cut(values: Values, link: str, *, up: bool = True) -> Values:
    """The link is down between two instants of the role; each is said twice, which changes nothing."""
    said = [("down", DOWN_NS), ("down", DOWN_NS + MS)] + ([("up", UP_NS), ("up", UP_NS + MS)] if up else [])
    for number, (state, plus_ns) in enumerate(said):
        action = {"id": f"{state}{number}", "do": "set", "link": link, "args": {"state": state}}
        values["timeline"].append(action | {"after": {"event": "measure.started", "plus_ns": plus_ns}})
    return values


def stream(*, share: float, pushback: bool = False, limit_packets: int = 1000) -> Values:
    """A second of datagrams at a share of what links carry, over two links and the switch between them."""
    values = values_of(pushback=pushback, limit_packets=limit_packets)
    values["roles"]["probe"] = {
        "workload": "udp_stream", "from": "a", "to": "b", "payload_bytes": PAYLOAD_BYTES, "arrivals": "constant",
        "rate_bit_per_s": round(RATE_BIT_PER_S * share * IP_BYTES / OCTETS), "duration_ns": 1000 * MS,
    }  # fmt: skip
    return values


def told(values: Values) -> tuple[Outcome, Kept, dict[tuple[str, str], int]]:
    outcome, kept = simulated(values)
    assert outcome.status == "ok", outcome.reasons
    return outcome, kept, counters(kept, "end")


@pytest.mark.parametrize("link", ["l0", "l1"])
def test_of_a_stream_exactly_the_frames_are_lost_that_a_cut_link_should_carry(link: str) -> None:
    """No frame waits: one is lost that begins on the link less than its own time before the cut, or until it ends."""
    _, kept, found = told(cut(stream(share=0.25), link))
    seq, sent = (kept.column("probe", "packet/1", name) for name in ("seq", "sent_ns"))
    own = kept.role_counters("probe")
    period_ns = (sent[1] - sent[0]) / (seq[1] - seq[0])
    begins = (
        sent[0] + np.arange(own["sent_packets"]) * period_ns - sent[0] + (WHOLE_NS if link == "l1" else 0)
    )
    lost = (begins > DOWN_NS - WHOLE_NS) & (begins < UP_NS)
    assert own["sent_packets"] == len(seq) + lost.sum()
    assert sorted(set(range(own["sent_packets"])) - set(seq.tolist())) == np.flatnonzero(lost).tolist()
    assert found[f"links.{link}.ab", "drops"] == found[f"links.{link}.ab", "link_down_drops"] == lost.sum()
    assert found[f"links.{link}.ab", "packets"] == len(seq)
    assert lost.sum() == pytest.approx((UP_NS - DOWN_NS) / period_ns, abs=1.01)


@pytest.mark.parametrize("kind", ["fifo", "codel", "fq_codel"])
def test_what_waits_in_front_of_a_link_is_lost_as_it_is_cut_and_nothing_of_it_comes_later(kind: str) -> None:
    values = cut(stream(share=1.2, limit_packets=100), "l0")
    values["world"]["links"]["l0"]["queue"] = {
        way: {"kind": kind, "limit_packets": 100} for way in ("ab", "ba")
    }
    _, kept, found = told(values)
    sent, received = (kept.column("probe", "packet/1", name) for name in ("sent_ns", "received_ns"))
    own = kept.role_counters("probe")
    zero = sent[0]
    assert own["sent_packets"] == len(sent) + found["links.l0.ab", "drops"]
    assert not ((received - zero > DOWN_NS + WHOLE_NS) & (received - zero < UP_NS + WHOLE_NS)).any()
    assert (sent[received - zero > UP_NS] - zero >= UP_NS - 1).all(), "nothing is forwarded later"
    first_ns = received[received - zero > UP_NS].min() - zero
    assert UP_NS + 2 * WHOLE_NS <= first_ns < UP_NS + 3 * FRAME_NS


def test_echoes_over_a_cut_link_are_lost_and_an_end_with_it_down_is_fine() -> None:
    values = cut(values_of(count=150), "l1", up=False)
    with Simulator().open(parsed(values), Watcher()) as session:
        for number in range(2):
            kept = Kept()
            session.run(Trial(f"t{number}", 1), kept)
            sent, echoed = (kept.column("probe", kind, "sent_ns") for kind in ("sent/1", "rtt/1"))
            assert len(sent) == 150
            assert set(echoed.tolist()) == set(sent[sent - sent[0] < DOWN_NS].tolist()), (
                "each trial begins with links up"
            )
