"""Copies of a store that were lost, and are made again: what each node tells of its own, added up over the trial.

A node tells, by its own clock: the copies that it had to make since it began, those that it has made, and their
bytes; whether it knows what it lacks itself, whether it still gets that back, and whether it still makes copies for
others; and the places of the nodes that it suspects. The testbed knows when nodes were lost and came back. From both
follows what the simulator sees by a look at all nodes, and it is counted by the same rules (`Store::observe` in
crates/virtlab-sim).

Times are compared by the machine's monotonic clock. A line comes later than it was written, never sooner, so the
shortest way of a process's lines tells how far apart the clocks are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

PREFIX = "copies: "
SHARES = {"recovery_half_ns": 0.5, "recovery_most_ns": 0.9}
LINE_MAX_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Progress:
    """Copies that were missing, those of them that were made, and their bytes."""

    missing: int = 0
    made: int = 0
    made_bytes: int = 0

    def __add__(self, other: Progress) -> Progress:
        return Progress(
            self.missing + other.missing, self.made + other.made, self.made_bytes + other.made_bytes
        )

    def settled(self) -> Progress:
        """The progress of a node that ends: others miss what it had not made by then, or it itself once it is back."""
        return replace(self, missing=self.made)

    def since(self, before: Progress) -> Progress:
        """What has come since."""
        return Progress(
            max(0, self.missing - before.missing),
            max(0, self.made - before.made),
            max(0, self.made_bytes - before.made_bytes),
        )


@dataclass(frozen=True, slots=True)
class Told:
    """What a node told at one time."""

    at_ns: int  # by its own clock
    progress: Progress
    knows: bool
    recovers: bool
    spreads: bool
    suspects: frozenset[int]

    @classmethod
    def parse(cls, line: str) -> Told | None:
        """What a line tells; None where it tells something else.

        >>> Told.parse("copies: 70 9 2 20000 1 1 0 3").progress
        Progress(missing=9, made=2, made_bytes=20000)
        >>> Told.parse("copies: 70 9") is None
        True
        """
        words = line.removeprefix(PREFIX).split()
        if not line.startswith(PREFIX) or len(words) != 8 or not all(each.isdigit() for each in words[:7]):
            return None
        at_ns, missing, made, made_bytes, knows, recovers, spreads = (int(each) for each in words[:7])
        suspects = frozenset(int(each) for each in words[7].split(",") if each.isdigit())
        progress = Progress(missing, made, made_bytes)
        return cls(at_ns, progress, bool(knows), bool(recovers), bool(spreads), suspects)


@dataclass(slots=True)
class Life:
    """One process of a node: what it told, each with when the testbed heard it."""

    began_s: float
    lines: list[tuple[float, Told]] = field(default_factory=list)
    lost_s: list[float] = field(default_factory=list)

    def events(self) -> Iterator[tuple[float, Told]]:
        """What it told, each with when, on the machine's clock."""
        ahead_s = min((heard_s - told.at_ns / 1e9 for heard_s, told in self.lines), default=0.0)
        until_s = min(self.lost_s, default=float("inf"))
        return ((min(told.at_ns / 1e9 + ahead_s, until_s), told) for _, told in self.lines)


@dataclass(slots=True)
class Node:
    """A node of a store, through its losses."""

    lives: list[Life] = field(default_factory=list)
    cuts: list[tuple[float, bool]] = field(
        default_factory=list
    )  # when its network was cut, and when that was over
    _line: bytearray = field(default_factory=bytearray)

    def begins(self, now_s: float) -> None:
        """Its process begins, for the first time or again."""
        self._line.clear()
        self.lives.append(Life(now_s))

    def lost(self, now_s: float) -> None:
        """The timeline takes its process away, or what is left of it."""
        if self.lives:
            self.lives[-1].lost_s.append(now_s)

    def changes(self, now_s: float, *, reached: bool) -> None:
        """From now on its network reaches it no more, or again."""
        self.cuts.append((now_s, reached))

    def take(self, content: bytes, now_s: float) -> None:
        """Hears what it wrote."""
        *whole, rest = content.split(b"\n")
        for part in whole:
            told = Told.parse((self._line + part).decode("utf-8", "replace"))
            self._line.clear()
            if told is not None and self.lives:
                self.lives[-1].lines.append((now_s, told))
        self._line += rest[: max(0, LINE_MAX_BYTES - len(self._line))]

    def renew(self) -> None:
        """Another trial begins: of those before, only where it is now is left."""
        self.cuts.clear()
        if self.lives:
            last = self.lives[-1]
            self.lives = [Life(last.began_s, last.lines[-1:])]


@dataclass(slots=True)
class _State:
    """A node at one instant."""

    is_up: bool = True
    is_lost: bool = False
    past: Progress = Progress()
    now: Told | None = None
    before_cut: Progress | None = None  # what it says of copies while it is alone counts for nothing

    @property
    def is_away(self) -> bool:
        return not self.is_up or self.before_cut is not None

    @property
    def progress(self) -> Progress:
        if self.is_up and self.before_cut is not None:
            return self.before_cut
        return self.past + (self.now.progress if self.now is not None else Progress())

    def ends(self) -> None:
        self.past, self.now = self.progress.settled(), None


@dataclass(slots=True)
class _Loss:
    """From the first node that is lost: how far all together are, and when that was reached."""

    began_s: float
    before: Progress
    progress: Progress = Progress()
    reached_s: dict[str, float] = field(default_factory=dict)

    def observe(self, now_s: float, states: Sequence[_State], *, watch: bool) -> None:
        """So far it is now, unless all was made again before."""
        if self.is_over:
            return
        down = {place for place, state in enumerate(states) if state.is_lost and state.is_away}
        known, whole, suspected, spreading = False, True, watch, False
        total = Progress()
        for state in states:
            total += state.progress
            if state.is_away:
                continue
            told = state.now
            suspected &= down <= (told.suspects if told is not None else frozenset())
            spreading |= told is not None and told.spreads
            if state.is_lost:
                known |= told is not None and told.knows
                whole &= told is not None and not told.recovers
        if down:
            known |= suspected
            whole &= suspected and not spreading
        self.progress = total.since(self.before)
        if known:
            self._reach(now_s, whole=whole)

    def _reach(self, now_s: float, *, whole: bool) -> None:
        made, missing = self.progress.made, self.progress.missing
        reached = {"recovery_known_ns"} | ({"recovery_first_ns"} if made else set())
        reached |= {name for name, share in SHARES.items() if whole or (made and made >= share * missing)}
        reached |= {"recovery_whole_ns"} if whole else set()
        for name in reached:
            self.reached_s.setdefault(name, now_s)

    @property
    def is_over(self) -> bool:
        """Whether all that can be made again is."""
        return "recovery_whole_ns" in self.reached_s

    def goes_on(self) -> None:
        """Another node is lost."""
        self.reached_s.pop("recovery_whole_ns", None)


def _loss(nodes: Sequence[Node], *, watch: bool) -> _Loss | None:
    events: list[tuple[float, int, str, Told | None]] = []
    for place, node in enumerate(nodes):
        for life in node.lives:
            events.append((life.began_s, place, "begins", None))
            events += [(at_s, place, "told", told) for at_s, told in life.events()]
            events += [(at_s, place, "lost", None) for at_s in life.lost_s]
        events += [(at_s, place, "reached" if reached else "cut", None) for at_s, reached in node.cuts]
    states, loss = [_State() for _ in nodes], None
    for at_s, place, what, told in sorted(events, key=lambda event: event[0]):
        state = states[place]
        if what in {"lost", "cut"}:
            if loss is None:
                before = sum((each.progress.settled() for each in states), Progress())
                loss = _Loss(at_s, before)
            loss.goes_on()
            state.is_lost = True
        if what == "cut":
            state.before_cut = state.before_cut or state.progress
        elif what == "reached":
            state.before_cut = None
        elif what == "lost":
            state.ends()
            state.is_up = False
        elif what == "begins":
            state.is_up = True
        elif state.is_up:
            state.now = told
        if loss is not None:
            loss.observe(at_s, states, watch=watch)
    return loss


def is_recovered(nodes: Sequence[Node], *, watch: bool) -> bool:
    """Whether nothing that was lost has yet to be made again. `watch`: nodes make copies for silent ones."""
    loss = _loss(nodes, watch=watch)
    return loss is None or loss.is_over


def counted(nodes: Sequence[Node], *, watch: bool) -> dict[str, int]:
    """Counters of the recovery; nothing where no node was lost."""
    loss = _loss(nodes, watch=watch)
    if loss is None:
        return {}
    made = loss.progress
    numbers = {
        "recovery_missing": made.missing, "recovery_made": made.made, "recovery_bytes": made.made_bytes,
    }  # fmt: skip
    times = {name: round((at_s - loss.began_s) * 1e9) for name, at_s in loss.reached_s.items()}
    return numbers | times
