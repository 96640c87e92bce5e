"""What a move dirtied per round is made of looks at it, whatever was sent of each page."""

from __future__ import annotations

from virtlab.testbed.kinds.moved import Look, Moved

PAGE = 4096


def look(at_ns: int, remaining: int, rounds: int, passed: int) -> Look:
    """Pages that remain, and that were passed; what was sent of them says nothing, as most are zeros."""
    return Look(at_ns, remaining * PAGE, 9 * passed, None, rounds, passed * PAGE)


def test_a_reading_of_what_is_dirty_is_a_row_with_what_it_found() -> None:
    looks = (
        look(0, 1000, 0, 0),  # the first reading is of all its memory
        look(10, 990, 1, 10),
        look(20, 500, 1, 500),
        look(30, 700, 2, 600),  # 100 passed, 300 found
        look(40, 650, 2, 650),
        look(50, 200, 4, 1200),  # two readings: both together
        look(60, 200, 5, 1200),  # and one that found nothing
    )
    moved = Moved(0, 60, 70, 70, 1, 5, looks=looks)
    assert list(moved.dirtied()) == [(30, 300 * PAGE), (50, 100 * PAGE), (60, 0)]
