"""Which processors of this machine guests of pools and hosts run on, and when a machine has too few."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from virtlab.agents.requests.leader import Places
from virtlab.errors import MachineError
from virtlab.plan import Plan
from virtlab.testbed.build import pools
from virtlab.testbed.build.lower import lower
from virtlab.testbed.build.pools import Confinement, MachineThere, Shares, shares
from virtlab.testbed.kinds.findings import Machine
from virtlab.testbed.leader import groups, ledger, threads
from virtlab.testbed.play.records import Entities, without_shares


def plan(hosts: dict[str, Any], own: dict[str, Any], guests: dict[str, str | None], **more: Any) -> Plan:
    """Guests HOST.NAME with their pools."""
    made = {
        name: {
            "platform": "namespace", "host": name.partition(".")[0], "vnics": {}, **({"pool": pool} if pool else {}),
        }
        for name, pool in guests.items()
    }  # fmt: skip
    return Plan.model_validate({"world": {"hosts": hosts, "pools": own, "guests": made, **more}})


TWO_POOLS = plan(
    {"h": {"cpus": 4}, "k": {}},
    {"h.a": {"host": "h", "cpus": 1}, "h.b": {"host": "h", "cpus": 2, "by": "quota"}},
    {"h.x": "h.a", "h.y": "h.b", "k.z": None},
)


def test_hosts_have_processors_of_their_own_and_their_pools_are_among_those() -> None:
    found = shares(TWO_POOLS, range(6))
    assert found == Shares(
        guests={"h.x": [0], "h.y": [1, 2, 3], "k.z": [4, 5]},
        pools={"h.a": [0], "h.b": [1, 2, 3]},
        hosts={"h": [0, 1, 2, 3]},
        outside={"h": [1, 2, 3], "k": [4, 5]},
    )


def test_guests_beside_run_on_all_processors_where_none_is_left_and_the_run_says_so() -> None:
    found = shares(TWO_POOLS, range(4))
    assert found is not None
    assert found.guests["k.z"] == [0, 1, 2, 3]
    objects = confinement(4).objects()
    assert objects["pools.h.a"].applied["beside"] == ["k.z"]
    assert objects["hosts.h"].applied["beside"] == ["k.z"]
    assert "beside" not in confinement(6).objects()["pools.h.a"].applied


def test_a_guest_in_no_pool_of_its_host_has_what_its_pools_by_affinity_leave() -> None:
    own = {"h.a": {"host": "h", "cpus": 1}}
    guests = {"h.x": "h.a", "h.y": None, "k.z": None}
    found = shares(plan({"h": {"cpus": 3}, "k": {}}, own, guests), range(4))
    assert found is not None
    assert found.guests == {"h.x": [0], "h.y": [1, 2], "k.z": [3]}
    found = shares(plan({"h": {"cpus": 1}, "k": {}}, own, guests), range(4))
    assert found is not None
    assert found.guests == {"h.x": [0], "h.y": [0], "k.z": [1, 2, 3]}


def test_a_plan_without_pools_confines_nobody() -> None:
    assert shares(plan({"h": {}}, {}, {"h.x": None}), [0]) == Shares()


def test_pools_by_affinity_of_all_hosts_are_disjoint() -> None:
    own = {f"{host}.p": {"host": host, "cpus": 2} for host in "hk"}
    found = shares(plan({"h": {}, "k": {}}, own, {"h.x": "h.p", "k.y": "k.p"}), [3, 5, 7, 9])
    assert found is not None
    assert found.guests == {"h.x": [3, 5], "k.y": [7, 9]}


@pytest.mark.parametrize(
    ("available", "switch", "cure"), [(3, False, "use a machine with more"), (1, True, "without a link")]
)
def test_what_hosts_have_together_beyond_what_is_left_for_guests_is_refused(
    available: int, switch: bool, cure: str
) -> None:
    (only, *_) = [
        each
        for each in pools.why_not(TWO_POOLS, range(available), soft_switch=switch, root=True, inside=None)
        if each.path == "pools.h.b"
    ]
    assert f"have 4 processors together, and {available} " in only.reason
    assert cure in only.cure
    assert shares(TWO_POOLS, range(available)) is None


def test_a_quota_needs_root_and_affinity_does_not() -> None:
    refused = list(pools.why_not(TWO_POOLS, range(6), soft_switch=False, root=False, inside=None))
    assert [each.path for each in refused] == ["pools.h.b.by"]
    assert "by: affinity" in refused[0].cure


def weighed_plan(**pool: Any) -> Plan:
    own = {"h.p": {"host": "h", "cpus": 1, **pool}}
    values = plan({"h": {}}, own, {"h.a": "h.p", "h.b": "h.p"}).model_dump(
        mode="json", by_alias=True, exclude_defaults=True
    )
    values["world"]["guests"]["h.a"]["weight"] = 300
    return Plan.model_validate(values)


def test_weights_need_root() -> None:
    (refused,) = pools.why_not(weighed_plan(), range(2), soft_switch=False, root=False, inside=None)
    assert (refused.path, refused.cure.partition(",")[0]) == ("guests.h.a.weight", "run as root")
    assert not list(pools.why_not(weighed_plan(), range(2), soft_switch=False, root=True, inside=None))


def test_no_guest_polls_beside_pools() -> None:
    values = TWO_POOLS.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    values["world"]["guests"]["k.z"]["idle"] = "poll"
    refused = list(
        pools.why_not(Plan.model_validate(values), range(6), soft_switch=False, root=True, inside=None)
    )
    assert [each.path for each in refused] == ["guests.k.z.idle"]


def test_a_laboratory_machine_gives_no_guest_processors() -> None:
    refused = list(pools.why_not(TWO_POOLS, range(6), soft_switch=False, root=True, inside="lab-vm"))
    assert [each.path for each in refused] == ["hosts.h.cpus"]


class Answering:
    """A leader that has been asked where threads may run."""

    def __init__(self, *rows: tuple[str, list[int], int, str]) -> None:
        self.rows = rows

    def call(self, request: Places) -> dict[str, Any]:
        assert isinstance(request, Places)
        return {"rows": list(self.rows)}


def row(namespace: str, *cpus: int) -> tuple[str, list[int], int, str]:
    return (namespace, list(cpus), 2, "sh")


def confinement(processors: int = 6) -> Confinement:
    found = shares(TWO_POOLS, range(processors))
    assert found is not None
    files = {"pools.h.b": {"cpu.cfs_quota_us": "200000"}}
    return Confinement(TWO_POOLS, lower(TWO_POOLS, Machine()), found, files)


def test_a_program_that_widened_its_mask_is_named() -> None:
    confined = confinement()
    where = confined.lowered.guests
    leader: Any = Answering(row(where["h.x"], 0, 1), row(where["h.y"], 2))
    (wrong,) = confined.look(leader)
    assert str(wrong).startswith("guests.h.x: sh may run on processors 0, 1, not only on 0; ")


def moving(
    *way: str,
    hosts: dict[str, dict[str, int]] | None = None,
    processors: int = 3,
    machines: Callable[[], list[MachineThere]] = list,
    **own: Any,
) -> Confinement:
    """A guest v moves from h to each of these hosts in turn, k if none is given; w on h stays, and c on k."""
    hosts = hosts or {"h": {"cpus": 1}, "k": {"cpus": 1}, "m": {"cpus": 1}}
    places = {"v": "h", "w": "h", "c": "k"}
    guests = {
        name: {"platform": "qemu" if name == "v" else "namespace", "host": host, "vnics": {}}
        for name, host in places.items()
    }
    world = {"hosts": hosts, "guests": guests, "pools": own}
    go = [
        {"id": f"go{number}", "do": "migrate", "guest": "v", "to": to, "mode": "pre_copy"}
        for number, to in enumerate(way or ("k",))
    ]
    found = Plan.model_validate({"world": world, "timeline": go})
    given = shares(found, range(processors))
    assert given is not None
    return Confinement(found, lower(found, Machine()), given, {}, machines)


def moving_between_pools(machines: Callable[[], list[MachineThere]] = list) -> Confinement:
    """A guest v moves from pool a of h to pool b of k, where c is in pool d; w is in none of h's."""
    own = {"h.a": ("h", 1), "k.d": ("k", 1), "k.b": ("k", 2)}
    places = {"v": ("h", "h.a"), "w": ("h", None), "c": ("k", "k.d")}
    guests = {
        name: {"platform": "qemu" if name == "v" else "namespace", "host": host, "vnics": {}, "pool": pool}
        for name, (host, pool) in places.items()
    }
    found = Plan.model_validate(
        {
            "world": {
                "hosts": {"h": {"cpus": 2}, "k": {"cpus": 3}},
                "guests": guests,
                "pools": {name: {"host": host, "cpus": cpus} for name, (host, cpus) in own.items()},
            },
            "timeline": [{"id": "go", "do": "migrate", "guest": "v", "to": "k", "pool": "k.b"}],
        }
    )
    given = shares(found, range(5))
    assert given is not None
    return Confinement(found, lower(found, Machine()), given, {}, machines)


def test_a_guest_that_moves_has_the_processors_of_its_pool_at_each_host() -> None:
    class Leader:
        def confine(self, networks: dict[str, list[int]], *, at: Any = None) -> None:
            self.confined = getattr(self, "confined", {}) | networks
            self.at = at or {}

    confined = moving_between_pools()
    leader: Any = Leader()
    confined.begin(leader)
    v = confined.lowered.guests["v"]
    assert confined.shares.pools == {"h.a": [0], "k.d": [2], "k.b": [3, 4]}
    assert leader.confined[v] == [0]
    assert leader.at == {(v, "h"): [0], (v, "k"): [3, 4]}
    assert confined.shared()[:3] == [
        ["together:pools.h.a", [f"{v}@h"], 1, 2],
        ["together:pools.k.d", [confined.lowered.guests["c"]], 1, 3],
        ["together:pools.k.b", [f"{v}@k"], 2, 3],
    ]


def test_a_machine_is_compared_with_the_pool_of_its_host() -> None:
    right = moving_between_pools(lambda: [there("h", {0}), there("k", {3, 4})])
    assert looked(right, 0, 3, 4) == ["guests.w: sh may run on processors 0, not only on 1"]
    objects = right.objects()
    assert objects["pools.k.b"].applied["guests"] == ["v"]
    assert objects["pools.k.b"].read_back == {"v": {"processors": [3, 4]}}
    assert objects["pools.h.a"].read_back == {"v": {"processors": [0]}}
    wrong = moving_between_pools(lambda: [there("h", {0}), there("k", {2, 3})])
    assert f"{WRONG}2, 3, not only on 3, 4, where it is at k" in looked(wrong, 0, 2, 3)


def there(host: str, *masks: set[int]) -> MachineThere:
    return MachineThere("v", host, tuple(("CPU 0/TCG", frozenset(each)) for each in masks))


def looked(confined: Confinement, *v_on: int) -> list[str]:
    """What is said where v's network has threads on each of these processors."""
    rows = [row(confined.lowered.guests["v"], cpu) for cpu in v_on]
    leader: Any = Answering(*rows, row(confined.lowered.guests["w"], 0))
    return [str(each).partition("; ")[0] for each in confined.look(leader)]


def test_a_guest_that_moves_has_a_machine_on_the_processors_of_either_host() -> None:
    confined = moving(machines=lambda: [there("h", {0}), there("k", {1})])
    assert looked(confined, 0, 1) == []
    objects = confined.objects()
    assert objects["hosts.h"].read_back == {"v": {"processors": [0]}, "w": {"processors": [0]}}
    assert objects["hosts.k"].read_back == {"v": {"processors": [1]}}


WRONG = "guests.v: CPU 0/TCG may run on processors "


@pytest.mark.parametrize(
    ("way", "now", "wrong"),
    [
        (("k",), [there("h", {0}), there("k", {0})], ["0, not only on 1, where it is at k"]),
        # One of several threads is enough, and those of the other host are as wrong as any.
        (("k",), [there("h", {0}, {1}, {1}), there("k", {1})], ["1, not only on 0, where it is at h"]),
        (
            ("k",),
            [there("h", {1}), there("k", {0})],
            ["1, not only on 0, where it is at h", "0, not only on 1, where it is at k"],
        ),
        # It has moved, and no machine waits.
        (("k",), [there("k", {0})], ["0, not only on 1, where it is at k"]),
        (("k",), [there("k", {0, 1})], ["0, 1, not only on 1, where it is at k"]),
        # The machine of a second move began where the guest began, and so did the one that waits at home.
        (("k", "m"), [there("k", {1}), there("m", {0})], ["0, not only on 2, where it is at m"]),
        (("k", "m", "h"), [there("m", {2}), there("h", {1})], ["1, not only on 0, where it is at h"]),
    ],
)
def test_a_machine_that_is_not_on_those_of_its_host_is_named(
    way: tuple[str, ...], now: list[MachineThere], wrong: list[str]
) -> None:
    confined = moving(*way, machines=lambda: now)
    seen = sorted({cpu for each in now for _, mask in each.threads for cpu in mask})
    assert looked(confined, *seen) == [f"{WRONG}{each}" for each in wrong]


def test_what_else_is_in_the_network_of_a_guest_that_moves_is_named_where_no_host_of_its_way_has_it() -> None:
    confined = moving(machines=lambda: [there("h", {0}), there("k", {1})])
    assert looked(confined, 0, 1, 2) == ["guests.v: sh may run on processors 2, not only on 0 or on 1"]


def test_what_is_wrong_with_a_machine_is_said_once() -> None:
    confined = moving(machines=lambda: [there("h", {2}), there("k", {1})])
    assert looked(confined, 1, 2) == [f"{WRONG}2, not only on 0, where it is at h"]


def test_a_machine_that_cannot_be_looked_at_is_named() -> None:
    confined = moving(machines=lambda: [there("h", {0}), there("k")])
    assert looked(confined, 0) == ["guests.v: no thread of its machine at k can be looked at"]


def test_a_guest_that_comes_is_beside_whom_it_shares_processors_with() -> None:
    quota = {"k.q": {"host": "k", "cpus": 1, "by": "quota"}}
    hosts = {"h": {"cpus": 1}, "k": {"cpus": 2}}
    objects = moving(hosts=hosts, **quota).objects()
    assert objects["pools.k.q"].applied["beside"] == ["v", "c"]
    assert "beside" not in objects["hosts.k"].applied
    # Nothing is left to m, so all of it is on processors of others, and v is, once it is there.
    hosts = {"h": {"cpus": 1}, "k": {"cpus": 1}, "m": {}}
    objects = moving("m", hosts=hosts, processors=2).objects()
    assert objects["hosts.k"].applied["beside"] == ["v"]
    assert objects["hosts.h"].applied["beside"] == ["v"]
    assert "beside" not in moving(hosts=hosts).objects()["hosts.h"].applied


def test_a_host_uses_what_its_guests_and_its_machines_of_guests_that_move_use() -> None:
    confined = moving(hosts={"h": {"cpus": 1}, "k": {"cpus": 2}, "m": {"cpus": 1}}, processors=4)
    v, w, c = (confined.lowered.guests[name] for name in "vwc")
    assert confined.shared() == [
        ["together:hosts.h", [f"{v}@h", w], 1],
        ["together:hosts.k", [f"{v}@k", c], 2],
        ["together:hosts.m", [], 1],
    ]
    assert Entities(confined.lowered).name(f"{v}@k") == "guests.v.at.k"


def test_a_guest_that_moves_between_unlike_hosts_has_no_share_of_a_host_and_its_machines_have() -> None:
    confined = moving(hosts={"h": {"cpus": 1}, "k": {"cpus": 2}, "m": {"cpus": 1}}, processors=4)
    v, w = (confined.lowered.guests[name] for name in "vw")
    block = {
        "entity": np.array([v, v, f"{v}@k", w], dtype=object),
        "metric": np.array(["host_cpu_share", "cpu", "host_cpu_share", "host_cpu_share"], dtype=object),
        "value": np.array([0.1, 0.2, 0.3, 0.4]),
    }
    kept = without_shares(block, confined.shareless)
    assert list(kept["entity"]) == [v, f"{v}@k", w]
    assert list(kept["value"]) == [0.2, 0.3, 0.4]
    assert moving().shareless == set()


def test_processes_of_a_world_are_found_by_their_numbers_there(tmp_path: Path) -> None:
    # Ours, its parent, and its numbers inside: two worlds, whose machines have the same number in theirs.
    for number, parent, inside in (
        ("30", 1, ""), ("31", 30, "\t1"), ("32", 31, "\t7"), ("33", 31, "\t8\t1"), ("34", 32, "\t9"),
        ("40", 1, ""), ("41", 40, "\t1"), ("42", 41, "\t7"), ("43", 30, ""),
    ):  # fmt: skip
        (tmp_path / number).mkdir()
        (tmp_path / number / "status").write_text(f"Name:\tx:\nPPid:\t{parent}\nNSpid:\t{number}{inside}\n")
    (tmp_path / "99").mkdir()  # it ended meanwhile
    (tmp_path / "self").mkdir()
    assert threads.ours(30, tmp_path) == {7: 32, 8: 33}
    assert threads.ours(40, tmp_path) == {7: 42}
    assert threads.ours(99, tmp_path) == {}


def test_each_thread_of_a_process_has_a_mask_of_its_own() -> None:
    whole = os.sched_getaffinity(0)
    one, over = {min(whole)}, threading.Event()
    begun = threading.Event()

    def wait() -> None:
        os.sched_setaffinity(0, one)
        begun.set()
        over.wait(60)

    narrowed = threading.Thread(target=wait)
    narrowed.start()
    try:
        assert begun.wait(60)
        found = {mask for _, mask in threads.masks(os.getpid())}
    finally:
        over.set()
        narrowed.join()
    assert found >= {frozenset(one), frozenset(whole)}
    assert list(threads.masks(2**31 - 1)) == []


def test_what_was_applied_and_read_back_of_a_pool_is_in_the_runs_record() -> None:
    confined = confinement()
    where = confined.lowered.guests
    leader: Any = Answering(row(where["h.x"], 0), row(where["h.y"], 2), row(where["h.y"], 1, 2))
    assert confined.look(leader) == []
    objects = confined.objects()
    assert objects["pools.h.a"].applied == {"processors": [0], "guests": ["h.x"], "idle": ["h.x"]}
    assert objects["pools.h.a"].read_back == {"h.x": {"processors": [0]}}
    assert objects["pools.h.b"].read_back == {
        "cpu.cfs_quota_us": "200000",
        "h.y": {"processors": [1, 2]},
    }
    assert objects["hosts.h"].applied == {"processors": [0, 1, 2, 3]}


def test_series_of_pools_and_hosts_are_asked_for_by_the_networks_of_their_guests() -> None:
    confined = confinement()
    where = confined.lowered.guests
    assert confined.shared() == [
        ["together:pools.h.a", [where["h.x"]], 1, 4],
        ["together:pools.h.b", [where["h.y"]], 2, 4],
        ["together:hosts.h", [where["h.x"], where["h.y"]], 4],
    ]


def quota_plan(**guest: Any) -> Plan:
    values = plan(
        {"h": {}},
        {"h.p": {"host": "h", "cpus": 2, "by": "quota"}},
        {"h.a": "h.p", "h.b": "h.p"},
        services={"db": {"kind": "program", "on": ["h.b"], "argv": ["sleep", "9"], "memory_bytes": 64 << 20}},
    ).model_dump(mode="json", by_alias=True, exclude_defaults=True)
    values["world"]["guests"]["h.a"] |= guest
    return Plan.model_validate(values)


def without_session(path: Path, root: Path) -> str:
    words = path.relative_to(root).parts
    return "/".join("*" if word.startswith("virtlab-") else word for word in words)


def test_a_quota_is_one_group_above_those_of_its_guests_in_version_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    for controller in ("cpu", "memory"):
        (root / controller).mkdir(parents=True)
    monkeypatch.setattr(groups.Groups, "_own_v1", lambda self, controller: self.root / controller)
    made = groups.Groups(root=root, folder=tmp_path / "ledger")
    tasks = made.create(quota_plan(cpu_quota_ratio=0.5), rootless=False)
    assert made.read_back["pools.h.p"] == {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "200000"}
    joined = {name: [without_session(Path(each), root) for each in files] for name, files in tasks.items()}
    assert joined == {
        "h.a": ["cpu/*/pool-h.p/h.a/tasks"],
        "h.b": ["cpu/*/pool-h.p/tasks", "memory/*/h.b/tasks"],
        "services.db/h.b": ["cpu/*/pool-h.p/tasks", "memory/*/h.b/service-db/tasks"],
    }


def test_a_quota_is_one_group_above_those_of_its_guests_in_version_2(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "cgroup.controllers").write_text("cpu memory")
    made = groups.Groups(root=root, folder=tmp_path / "ledger")
    tasks = made.create(quota_plan(), rootless=False)
    joined = {name: [without_session(Path(each), root) for each in files] for name, files in tasks.items()}
    assert joined == {
        "h.a": ["*/pool-h.p/h.a/cgroup.procs"],
        "h.b": ["*/pool-h.p/h.b/own/cgroup.procs"],
        "services.db/h.b": ["*/pool-h.p/h.b/service-db/cgroup.procs"],
    }
    assert made.read_back["pools.h.p"] == {"cpu.max": "200000 100000"}


@pytest.mark.parametrize(
    ("controllers", "file", "values"),
    [("", "cpu.shares", ["1000", "3000", "1000"]), ("cpu memory", "cpu.weight", ["100", "300", "100"])],
    ids=["version 1", "version 2"],
)
def test_guests_with_weights_are_beside_each_other_below_their_pool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, controllers: str, file: str, values: list[str]
) -> None:
    root = tmp_path / "root"
    for controller in ("cpu", "memory"):
        (root / controller).mkdir(parents=True)
    if controllers:
        (root / "cgroup.controllers").write_text(controllers)
    monkeypatch.setattr(groups.Groups, "_own_v1", lambda self, controller: self.root / controller)
    made = groups.Groups(root=root, folder=tmp_path / "ledger")
    tasks = made.create(weighed_plan(), rootless=False)
    assert [made.read_back[each] for each in ("pools.h.p", "h.a", "h.b")] == [{file: each} for each in values]
    (of_a,) = tasks["h.a"]
    assert without_session(Path(of_a), root).startswith(
        "*/pool-h.p/h.a/" if controllers else "cpu/*/pool-h.p/h.a/"
    )
    weighed = made.weigh(str(Path(of_a).parent.relative_to(root if controllers else root / "cpu")), "h.a", 7)
    assert weighed == {file: "7" if controllers else "70"}
    with pytest.raises(MachineError, match="cannot be given a weight"):
        made.weigh("/nowhere", "h.a", 7)


def test_a_container_is_made_below_the_group_of_its_pool(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "cgroup.controllers").write_text("cpu memory")
    made = groups.Groups(root=root, folder=tmp_path / "ledger")
    made.create(quota_plan(platform="container"), rootless=False)
    (path,) = made.of_containers(["h.a"]).values()
    assert without_session(Path(path), Path("/")) == "*/pool-h.p/h.a"
    assert (root / Path(path).parent.relative_to("/") / "cpu.max").read_text() == "200000 100000"


def test_containers_and_all_bounds_of_their_pool_are_below_one_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The own group may have another path in each hierarchy, and a container has one path in all of them."""
    root, own, folder = tmp_path / "root", tmp_path / "own", tmp_path / "ledger"
    for controller in ("blkio", "cpu", "memory/of/somebody"):
        (root / controller).mkdir(parents=True)
    own.write_text("3:memory:/of/somebody\n2:blkio:/\n1:cpu:/\n")
    monkeypatch.setattr(groups, "OWN_GROUPS", own)
    plan = quota_plan(platform="container")
    world = plan.world
    pools = {name: pool.model_copy(update={"memory_bytes": 256 << 20}) for name, pool in world.pools.items()}
    plan = plan.model_copy(update={"world": world.model_copy(update={"pools": pools})})
    made = groups.Groups(root=root, folder=folder)
    made.create(plan, rootless=False)
    (path,) = made.of_containers(["h.a"]).values()
    pool = Path(path).parent.relative_to("/")
    assert (root / "cpu" / pool / "cpu.cfs_quota_us").read_text() == "200000"
    assert (root / "memory" / pool / "memory.limit_in_bytes").read_text() == str(256 << 20)
    _, noted = ledger.noted(next(folder.glob("*.json")))
    assert all("/virtlab-" in each for each in noted), "nothing of others is removed"
    for controller in ("blkio", "cpu", "memory"):
        (root / controller / path.lstrip("/")).mkdir(parents=True)  # as a runtime does
    for file in [each for each in root.rglob("*") if each.is_file()]:
        file.unlink()  # the kernel's files go with their group
    made.remove()
    left = sorted(str(each.relative_to(root)) for each in root.rglob("*"))
    assert left == ["blkio", "cpu", "memory", "memory/of", "memory/of/somebody"]


def test_what_was_there_before_is_not_swept(tmp_path: Path) -> None:
    root, folder = tmp_path / "root", tmp_path / "ledger"
    (root / "memory" / "of").mkdir(parents=True)
    made = groups.Groups(root=root, folder=folder)
    made._pooled["h.a"] = "/of/pool"
    made.of_containers(["h.a"])
    _, noted = ledger.noted(next(folder.glob("*.json")))
    assert noted == [str(root / "memory" / "of" / "pool"), str(root / "memory" / "of" / "pool" / "h.a")]
    made.remove()
