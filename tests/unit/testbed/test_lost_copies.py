"""What nodes tell of lost copies, added up over nodes, restarts and losses."""

from __future__ import annotations

from virtlab.testbed.services.lost_copies import Node, counted, is_recovered

S = 1_000_000_000


def says(node: Node, at_s: float, copies: str, state: str, *, ahead_s: float = 0.0) -> None:
    """Its line is heard at an instant of the testbed; the node's own clock is ahead."""
    node.take(f"copies: {round((at_s + ahead_s) * S)} {copies} {state}\n".encode(), at_s)


def nodes(count: int) -> list[Node]:
    made = [Node() for _ in range(count)]
    for node in made:
        node.begins(1.0)
    return made


def test_without_a_loss_nothing_is_counted_and_nothing_is_waited_for() -> None:
    one = nodes(1)
    says(one[0], 2.0, "5 5 50", "1 0 0 -")
    assert counted(one, watch=True) == {}
    assert is_recovered(one, watch=True)


def test_a_store_is_whole_once_all_that_are_left_suspect_the_lost_and_have_made_its_copies() -> None:
    a, b, c = nodes(3)
    says(a, 2.0, "1 1 10", "1 0 0 -")  # for a suspicion that was wrong: before the loss
    c.lost(10.0)
    says(a, 10.2, "5 1 10", "1 0 1 2")
    assert counted([a, b, c], watch=True) == {
        "recovery_missing": 4, "recovery_made": 0, "recovery_bytes": 0,
    }  # fmt: skip
    says(b, 10.3, "2 0 0", "1 0 1 2")
    says(a, 10.4, "5 5 50", "1 0 0 2")
    assert not is_recovered([a, b, c], watch=True)
    says(b, 10.5, "2 2 20", "1 0 0 2")
    assert is_recovered([a, b, c], watch=True)
    found = counted([a, b, c], watch=True)
    assert (found["recovery_missing"], found["recovery_made"], found["recovery_bytes"]) == (6, 6, 60)
    times = {name: value / S for name, value in found.items() if name.endswith("_ns")}
    assert times == {
        "recovery_known_ns": 0.3, "recovery_first_ns": 0.4, "recovery_half_ns": 0.4, "recovery_most_ns": 0.5,
        "recovery_whole_ns": 0.5,
    }  # fmt: skip


def test_a_node_that_is_cut_off_is_lost_until_it_is_reached_and_what_it_says_alone_counts_for_nothing() -> (
    None
):
    a, b, c = nodes(3)
    c.changes(10.0, reached=False)
    says(c, 10.2, "50 0 0", "1 0 1 0,1")  # it takes the others for lost
    says(a, 10.3, "4 0 0", "1 0 1 2")
    assert "recovery_known_ns" not in counted([a, b, c], watch=True), "b suspects none yet"
    says(b, 10.4, "2 2 20", "1 0 0 2")
    found = counted([a, b, c], watch=True)
    assert (found["recovery_missing"], found["recovery_known_ns"] / S) == (6, 0.4)
    assert not is_recovered([a, b, c], watch=True)
    c.changes(11.0, reached=True)
    says(c, 11.1, "0 0 0", "1 0 0 -")
    says(a, 11.2, "1 1 10", "1 0 0 -")  # the other three copies are there again
    assert is_recovered([a, b, c], watch=True)
    assert counted([a, b, c], watch=True)["recovery_whole_ns"] == S
    for node in (a, b, c):
        node.renew()
    assert counted([a, b, c], watch=True) == {}


def test_what_an_interrupted_recovery_had_not_made_is_missed_by_the_next_alone() -> None:
    (one,) = nodes(1)
    one.lost(10.0)
    one.begins(10.1)
    says(one, 11.0, "8 3 30", "1 1 0 -")
    one.lost(12.0)
    assert not is_recovered([one], watch=False)
    one.begins(12.1)
    says(one, 13.0, "5 5 50", "1 0 0 -")
    found = counted([one], watch=False)
    assert (found["recovery_missing"], found["recovery_made"], found["recovery_bytes"]) == (8, 8, 80)
    assert found["recovery_whole_ns"] == 3 * S


def test_a_nodes_clock_may_be_any_and_its_line_may_come_in_pieces() -> None:
    (one,) = nodes(1)
    one.lost(10.0)
    one.begins(10.1)
    says(one, 10.2, "4 0 0", "1 1 0 -", ahead_s=500.0)
    line = f"copies: {round(510.5 * S)} 4 4 40 1 0 0 -\n".encode()
    one.take(line[:9], 10.6)
    one.take(line[9:], 10.9)  # late: it was written 0.3 s after the line before
    assert counted([one], watch=False)["recovery_whole_ns"] == S // 2
    one.take(b"copies: nonsense\ncopies: 1 2\n", 11.0)
    assert is_recovered([one], watch=False)


def test_another_trial_knows_nothing_of_the_losses_before() -> None:
    (one,) = nodes(1)
    one.lost(10.0)
    one.begins(10.1)
    says(one, 11.0, "8 8 80", "1 0 0 -")
    one.renew()
    assert counted([one], watch=False) == {}
    one.lost(20.0)
    one.begins(20.1)
    says(one, 21.0, "2 2 20", "1 0 0 -")
    assert counted([one], watch=False)["recovery_missing"] == 2
