"""What every backend keeps, whatever it builds: one body per promise, played on each arm.

The world is two hosts on one or two store-and-forward switches, so a second switch adds one serialisation per
direction.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from virtlab.errors import VirtlabError
from virtlab.plan import BLOCKS, Backend, Event, Outcome, Plan, Session, Trial

ARMS = ("closed_form", "simulator", "testbed")
PLAYED = ("ok", "tainted")  # tainted: played to its end on a machine too busy to measure well
LINK_BIT_PER_S = 100_000_000
FRAME_NS = 122_080  # preamble, header, 1500 B, FCS: 1526 B at 100 Mbit/s


def backend_of(arm: str) -> Backend:
    """The arm's backend, or a skip with the reason."""
    if arm == "closed_form":
        from tests.contract.closed_form import ClosedForm

        return ClosedForm()
    if arm == "simulator":
        from virtlab.simulator import Simulator

        return Simulator()
    try:
        testbed = importlib.import_module("virtlab.testbed").Testbed()
    except (ImportError, AttributeError) as error:
        pytest.skip(f"no testbed here: {error}")
    refusals = testbed.check(plan_of())
    if refusals:
        pytest.skip(f"this machine cannot build it: {refusals[0].reason}")
    return testbed


def plan_of(*, switches: int = 1, count: int = 30, **role: Any) -> Plan:
    """Echoes of 1500 B between two hosts, `switches` in line between them."""
    nodes = ["h1.up", *(f"s{n}.p{side}" for n in range(1, switches + 1) for side in (1, 2)), "h2.up"]
    pairs = enumerate(zip(nodes[::2], nodes[1::2], strict=True))
    guest = {"platform": "namespace"}
    vnic = {"mtu_bytes": 1500, "pushback_bit_per_s": LINK_BIT_PER_S}
    probe = {
        "workload": "rtt", "from": "a", "to": "b", "protocol": "icmp", "ip_packet_bytes": 1500,
        "interval_ns": 5_000_000, "count": count, "timeout_ns": 1_000_000_000, "tunable": ["count"],
    }  # fmt: skip
    values = {
        "schema": "virtlab.plan/1",
        "point": {"switches": str(switches)},
        "seed": 42,
        "world": {
            "hosts": {"h1": {}, "h2": {}},
            "guests": {
                "a": guest | {"host": "h1", "vnics": {"eth0": vnic | {
                    "vswitch": "h1.br", "mac": "02:00:00:00:00:01", "ip": ["10.0.0.1/24"]}}},
                "b": guest | {"host": "h2", "vnics": {"eth0": vnic | {
                    "vswitch": "h2.br", "mac": "02:00:00:00:00:02", "ip": ["10.0.0.2/24"]}}},
            },
            "vswitches": {
                "h1.br": {"kind": "linux_bridge", "host": "h1", "uplinks": ["h1.up"]},
                "h2.br": {"kind": "linux_bridge", "host": "h2", "uplinks": ["h2.up"]},
            },
            "switches": {f"s{n}": {} for n in range(1, switches + 1)},
            "links": {f"l{n}": {"ends": two, "rate_bit_per_s": LINK_BIT_PER_S} for n, two in pairs},
        },
        "roles": {"probe": probe | role},
        "timeline": [
            {"id": "measure", "do": "run", "role": "probe"},
            {"id": "drain", "do": "wait", "for_ns": 20_000_000, "after": {"event": "measure.finished"}},
        ],
        "windows": {"measured": {"from": "measure.started", "to": "measure.finished"}},
        "collect": {"packets": ["probe"]},
        "limits": {"run_ns": 30_000_000_000},
    }  # fmt: skip
    return Plan.parse(json.dumps(values))


@dataclass
class Watcher:
    """An observer; `cancel` makes it ask for an early end."""

    cancel: bool = False
    said: list[str] = field(default_factory=list)

    def progress(self, what: str, done_ratio: float | None = None) -> None:
        self.said.append(what)
        assert done_ratio is None or 0 <= done_ratio <= 1

    def cancelled(self) -> bool:
        return self.cancel


@dataclass
class Kept:
    """A sink in memory that holds every block against its schema."""

    blocks: dict[tuple[str, str], list[dict[str, np.ndarray]]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    def block(self, stream: str, schema: str, columns: Mapping[str, np.ndarray]) -> None:
        assert list(columns) == list(BLOCKS[schema].columns), f"{stream} sent other columns than {schema} has"
        assert len({len(column) for column in columns.values()}) == 1
        kinds = {"i64": "iu", "i32": "iu", "f64": "f", "name": "OU"}
        for name, dtype in BLOCKS[schema].columns.items():
            assert np.asarray(columns[name]).dtype.kind in kinds[dtype], f"{schema}.{name}"
        self.blocks.setdefault((stream, schema), []).append({k: np.array(v) for k, v in columns.items()})

    def event(self, event: Event) -> None:
        self.events.append(event)

    def artefact(self, name: str, chunks: Iterable[bytes]) -> None:
        assert Path(name).name == name
        assert all(isinstance(chunk, bytes) for chunk in chunks)

    def column(self, stream: str, schema: str, name: str) -> np.ndarray:
        parts = [block[name] for block in self.blocks.get((stream, schema), [])]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def role_counters(self, role: str) -> dict[str, int]:
        """Counters at the end of a role's client, whichever stream brought them."""
        return {
            str(row["counter"]): int(row["value"])
            for (_, schema), blocks in self.blocks.items()
            if schema == "counter/1"
            for block in blocks
            for row in (
                {name: column[n] for name, column in block.items()} for n in range(len(block["t_ns"]))
            )
            if row["mark"] == "stop" and row["entity"] in {role, f"{role}/client"}
        }


def played(backend: Backend, plan: Plan, *, trial: Trial | None = None) -> tuple[Outcome, Kept]:
    """One run of a Plan; a starved (tainted) one is made again, as a campaign does."""
    for _ in range(5):
        kept = Kept()
        with backend.open(plan, Watcher()) as session:
            outcome = session.run(trial or Trial("t0", plan.seed), kept)
        if outcome.status != "tainted":
            break
    return outcome, kept


@pytest.fixture(scope="module", params=ARMS)
def backend(request: pytest.FixtureRequest) -> Backend:
    return backend_of(request.param)


@pytest.fixture(scope="module")
def one_switch(backend: Backend) -> tuple[Outcome, Kept]:
    return played(backend, plan_of())


def test_it_says_what_it_can(backend: Backend) -> None:
    assert isinstance(backend, Backend)
    able = backend.capabilities()
    assert able.backend
    assert able.parallel_sessions >= 1
    assert able.workloads["rtt"] is None
    assert able.platforms["namespace"] is None
    for kinds in (able.platforms, able.vswitches, able.qdiscs, able.workloads, able.actions, able.links):
        assert all(reason is None or reason.strip() for reason in kinds.values())


def test_what_it_plays_it_does_not_refuse_and_estimates(backend: Backend) -> None:
    assert backend.check(plan_of()) == []
    assert 0 < backend.estimate_ns(plan_of()) < 600 * 10**9


def test_what_it_cannot_play_is_refused_with_path_reason_and_cure(backend: Backend) -> None:
    plan = plan_of()
    unknown = plan.model_copy(
        update={"roles": {"probe": plan.roles["probe"].model_copy(update={"workload": "teleportation"})}}
    )
    refusals = backend.check(unknown)
    assert refusals
    assert all(refusal.path and refusal.reason and refusal.cure for refusal in refusals)
    assert any("roles.probe" in refusal.path for refusal in refusals)
    with pytest.raises(VirtlabError), backend.open(unknown, Watcher()) as session:
        session.run(Trial("t0", 0), Kept())


def test_an_action_it_does_not_play_is_refused(backend: Backend) -> None:
    plan = plan_of()
    migrate = {
        "id": "go",
        "do": "migrate",
        "guest": "a",
        "to": "h2",
        "timeout_ns": 10**9,
        "on_timeout": "cancel",
    }
    values = json.loads(plan.canonical())
    values["timeline"].append(migrate)
    refusals = backend.check(Plan.parse(json.dumps(values)))
    assert any("timeline" in refusal.path for refusal in refusals)


def test_an_outcome_has_marks_and_windows(one_switch: tuple[Outcome, Kept]) -> None:
    outcome, _ = one_switch
    assert outcome.status in PLAYED, outcome.reasons
    assert {"measure.started", "measure.finished", "drain.started", "drain.done"} <= set(outcome.marks)
    low, high = outcome.windows["measured"]
    assert (low, high) == (outcome.marks["measure.started"].t_ns, outcome.marks["measure.finished"].t_ns)
    assert high > low
    drained = outcome.marks["drain.done"].t_ns - outcome.marks["drain.started"].t_ns
    assert drained >= 20_000_000
    assert outcome.censored == ()


def test_every_sample_lies_in_its_window(one_switch: tuple[Outcome, Kept]) -> None:
    outcome, kept = one_switch
    low, high = outcome.windows["measured"]
    sent = kept.column("probe", "rtt/1", "sent_ns")
    assert sent.min() >= low
    assert sent.max() <= high


def test_counts_conserve(one_switch: tuple[Outcome, Kept]) -> None:
    _, kept = one_switch
    sent = kept.column("probe", "sent/1", "seq")
    answered = kept.column("probe", "rtt/1", "seq")
    assert sorted(sent) == list(range(30))
    assert set(answered) <= set(sent)
    assert len(set(answered)) == len(answered)
    counters = kept.role_counters("probe")
    assert counters["sent_packets"] == len(sent)
    assert counters["received_packets"] == len(answered)


def test_an_echo_is_not_faster_than_its_frames_on_the_wire(one_switch: tuple[Outcome, Kept]) -> None:
    _, kept = one_switch
    rtt = kept.column("probe", "rtt/1", "rtt_ns")
    assert len(rtt) == 30
    assert np.median(rtt) >= 4 * FRAME_NS  # two links, both ways


def test_a_second_switch_adds_the_serialisation_of_one_frame_per_direction(
    backend: Backend, one_switch: tuple[Outcome, Kept]
) -> None:
    """244.16 us for 1500 B at 100 Mbit/s, whatever both worlds add alike."""
    _, one = one_switch
    outcome, two = played(backend, plan_of(switches=2))
    assert outcome.status in PLAYED, outcome.reasons
    least = [
        kept.column("probe", "rtt/1", "rtt_ns").min() for kept in (one, two)
    ]  # the least disturbed echoes
    assert abs(least[1] - least[0] - 2 * FRAME_NS) < 150_000


@pytest.mark.parametrize("backend", ["simulator", "testbed"], indirect=True)
def test_a_link_that_is_slowed_to_a_quarter_holds_each_frame_four_times_as_long(backend: Backend) -> None:
    values = json.loads(plan_of(count=60).canonical())
    slow = {"id": "slow", "do": "set", "link": "l0", "args": {"rate_bit_per_s": LINK_BIT_PER_S // 4}}
    values["timeline"].append(slow | {"after": {"event": "measure.started", "plus_ns": 150_000_000}})
    for link in values["world"]["links"].values():
        link["realise"] = "soft_switch"  # netem keeps its rate
    outcome, kept = played(backend, Plan.parse(json.dumps(values)))
    assert outcome.status in PLAYED, outcome.reasons
    slow_ns = outcome.marks["slow.done"].t_ns
    assert slow_ns - outcome.marks["measure.started"].t_ns >= 150_000_000
    sent, rtt = (kept.column("probe", "rtt/1", name) for name in ("sent_ns", "rtt_ns"))
    least = [rtt[sent < slow_ns - 10_000_000].min(), rtt[sent > slow_ns].min()]  # the least disturbed echoes
    assert abs(least[1] - least[0] - 2 * 3 * FRAME_NS) < 150_000


def test_a_role_keeps_its_intended_times(one_switch: tuple[Outcome, Kept]) -> None:
    _, kept = one_switch
    intended = kept.column("probe", "sent/1", "intended_ns")
    assert np.diff(intended).tolist() == [5_000_000] * 29
    assert (kept.column("probe", "sent/1", "sent_ns") >= intended).all()


def test_one_world_plays_many_trials_and_overrides_what_is_tunable(backend: Backend) -> None:
    plan = plan_of(count=5)
    with backend.open(plan, Watcher()) as session:
        assert isinstance(session, Session)
        for number, count in enumerate((5, 8)):
            kept = Kept()
            outcome = session.run(Trial(f"t{number}", number, {"probe.count": count}), kept)
            assert outcome.status in PLAYED, outcome.reasons
            assert len(kept.column("probe", "sent/1", "seq")) == count


def test_an_override_of_what_is_not_tunable_is_an_error(backend: Backend) -> None:
    with backend.open(plan_of(count=3), Watcher()) as session:
        for path in ("probe.interval_ns", "nobody.count"):
            with pytest.raises(VirtlabError, match=r"tunable"):
                session.run(Trial("t0", 0, {path: 7}), Kept())


def test_a_cancelled_run_ends_early_and_says_so(backend: Backend) -> None:
    watcher = Watcher()
    with backend.open(plan_of(count=100_000), watcher) as session:
        watcher.cancel = True
        assert session.run(Trial("t0", 0), Kept()).status == "cancelled"


def test_the_world_says_how_its_links_are_realised(backend: Backend) -> None:
    plan = plan_of()
    with backend.open(plan, Watcher()) as session:
        for name in plan.world.links:
            realised = session.realised.objects[f"links.{name}"]
            assert realised.by
            assert realised.applied
        assert session.realised.link_realisation() != "none"
        assert session.realised.versions
        assert session.describe().guests["a"][0].startswith("10.0.0.1")


def test_a_wait_for_what_never_comes_is_censored_not_a_number() -> None:
    """Only the arm in closed form has a series that is known never to reach a value."""
    values = json.loads(plan_of(count=5).canonical())
    values["timeline"].append(
        {
            "id": "heal", "do": "wait", "until": {"series": "probe.replies", "op": ">=", "value": 1000.0},
            "timeout_ns": 10**9, "on_timeout": "censor", "after": {"event": "measure.finished"},
        }
    )  # fmt: skip
    values["windows"]["healing"] = {"from": "heal.started", "to": "heal.done"}
    outcome, _ = played(backend_of("closed_form"), Plan.parse(json.dumps(values)))
    assert outcome.status == "ok"
    assert outcome.censored == ("heal",)
    assert "healing" not in outcome.windows
    assert "heal.timeout" in outcome.marks


def test_a_wait_that_must_end_fails_the_run_when_it_does_not() -> None:
    values = json.loads(plan_of(count=5).canonical())
    values["timeline"].append(
        {
            "id": "heal", "do": "wait", "until": {"series": "probe.replies", "op": ">=", "value": 1000.0},
            "timeout_ns": 10**9, "on_timeout": "fail",
        }
    )  # fmt: skip
    outcome, _ = played(backend_of("closed_form"), Plan.parse(json.dumps(values)))
    assert outcome.status == "failed"
    assert "heal" in outcome.reasons[0]


def test_the_same_seed_gives_the_same_samples_in_virtual_time() -> None:
    first, again = (played(backend_of("closed_form"), plan_of())[1] for _ in range(2))
    other = played(backend_of("closed_form"), plan_of(), trial=Trial("t0", 43))[1]
    rtt = [kept.column("probe", "rtt/1", "rtt_ns").tolist() for kept in (first, again, other)]
    assert rtt[0] == rtt[1]
    assert rtt[0] != rtt[2]


def test_the_closed_form_gives_the_computed_times() -> None:
    from tests.contract.closed_form import fragments, holding_ns, one_way_ns, path_between, serialisation_ns

    assert serialisation_ns(1500, LINK_BIT_PER_S) == FRAME_NS
    assert holding_ns(1500, LINK_BIT_PER_S) == 123_040
    assert holding_ns(28, LINK_BIT_PER_S) == 6_720
    assert fragments(1528, 1500) == [1500, 48]
    path = path_between(plan_of(switches=2), "a", "b")
    assert path == [(LINK_BIT_PER_S, 0, 0)] * 3
    assert one_way_ns([1500], path) == 3 * FRAME_NS
    assert one_way_ns([1500, 1500], path) == 3 * FRAME_NS + 123_040
    direct = path_between(plan_of(switches=0), "a", "b")
    assert one_way_ns([1500], direct) == FRAME_NS
