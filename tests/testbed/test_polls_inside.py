"""What is polled beside a role's program where the guest has files of its own, or is a host that exists already: by the
agent there, with each instant on the run's clock."""

from __future__ import annotations

import json
from typing import Any

import container_world as containers
import far_world as far_worlds
import machine_world as machines
import numpy as np
import pytest
import testbed_world as worlds
from test_existing_hosts import plan_of

from virtlab.plan import Outcome, Plan, Trial
from virtlab.testbed import Testbed

INSIDE = [
    pytest.param(
        worlds_of.beside_a_namespace,
        id=name,
        marks=pytest.mark.skipif(worlds_of.missing() is not None, reason=str(worlds_of.missing())),
    )
    for name, worlds_of in (("container", containers), ("qemu", machines))
]
pytestmark = pytest.mark.timeout(400)

PATIENCE_NS = 60_000_000_000
LEVELS = 12
# A page and a file that count up, each whole at every instant, in a folder of its own.
COUNTS = (
    "f=/tmp/virtlab-polls-$$; mkdir -p $f/www && cd $f && n=0 && while [ $n -lt 12 ]; do n=$((n + 1)); "
    "echo '{\"level\":' $n'}' >new; cp new page; mv page www/level.json; mv new /tmp/virtlab-level.json; "
    "[ $n = 1 ] && { %s & served=$!; }; sleep 0.1; done; kill $served; rm -r $f /tmp/virtlab-level.json; echo said so"
)
BUSYBOX = "busybox httpd -f -p 8080 -h www"
PYTHON = "python3 -m http.server 8080 --directory www >/dev/null 2>&1"
ENTRY = {"json": "$.level", "unit": "count", "better": "lower", "every": "20 ms"}
METRICS = {
    "by_page": {**ENTRY, "http": "http://{from}:8080/level.json"},
    "by_file": {**ENTRY, "file": "/tmp/virtlab-level.json"},
}


def role(served: str, source: str, to: str, metrics: dict[str, Any]) -> dict[str, Any]:
    return {
        "workload": "program",
        "from": source,
        "to": to,
        "argv": ["sh", "-c", COUNTS % served],
        "metrics": metrics,
        "timeout_ns": PATIENCE_NS,
    }


def played(plan: Plan) -> tuple[Outcome, worlds.MemorySink]:
    sink = worlds.MemorySink()
    with Testbed().open(plan, worlds.Patient()) as session:
        return session.run(Trial("t0", 1), sink), sink


def polled_as_it_ran(outcome: Outcome, sink: worlds.MemorySink) -> None:
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    (block,) = [columns for name, schema, columns in sink.blocks if (name, schema) == ("client", "value/1")]
    begin, end = outcome.marks["go.started"].t_ns, outcome.marks["go.finished"].t_ns
    for key in METRICS:
        mine = block["metric"] == key
        values, t_ns = block["value"][mine].tolist(), block["t_ns"][mine]
        assert values == sorted(values), key
        assert len(set(values)) >= LEVELS // 2, key
        assert set(values) <= set(range(1, LEVELS + 1)), key
        assert begin - 1e9 <= t_ns.min() <= t_ns.max() <= end + 1e9, key
        assert (np.diff(t_ns) > 0).all(), key
    assert [content for name, content in sink.artefacts.items() if name.endswith(".out")] == [b"said so\n"]


def inside(world: Any, metrics: dict[str, Any]) -> Plan:
    own = {"go": role(BUSYBOX, "g1", "g2", metrics)}
    timeline = [{"id": "go", "do": "run", "role": "client"}]
    return worlds.plan(
        world(), roles={"client": own["go"]}, timeline=timeline, limits={"run_ns": 2 * PATIENCE_NS},
        collect={"packets": ["client"]},
    )  # fmt: skip


@pytest.mark.parametrize("world", INSIDE)
def test_a_page_and_a_file_are_polled_inside(world: Any) -> None:
    polled_as_it_ran(*played(inside(world, METRICS)))


@pytest.mark.parametrize("world", INSIDE)
def test_polls_inside_that_find_nothing_fail_the_run_with_one_line(world: Any) -> None:
    outcome, _ = played(inside(world, {"absent": {**ENTRY, "file": "absent"}}))
    assert outcome.status == "failed"
    (reason,) = [each for each in outcome.reasons if each.startswith("roles.client: sh: ")]
    assert "of absent was polled and never found: No such file" in reason
    assert "\n" not in reason


@pytest.mark.skipif(far_worlds.missing() is not None, reason=str(far_worlds.missing()))
@pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))
@pytest.mark.usefixtures("reached")
@pytest.mark.parametrize("login", ["", f"{far_worlds.USER}@"], ids=["root", "user"])
def test_a_page_and_a_file_are_polled_on_a_host_that_exists_already(
    far: far_worlds.FarHosts, login: str
) -> None:
    plan = plan_of(f"{login}host-a", f"{login}host-b")
    world = json.loads(json.dumps(plan.world.model_dump(mode="json", exclude_none=True, by_alias=True)))
    timeline = [{"id": "go", "do": "run", "role": "client"}]
    polled_as_it_ran(
        *played(
            worlds.plan(
                world, roles={"client": role(PYTHON, "a", "b", METRICS)}, timeline=timeline,
                limits={"run_ns": 2 * PATIENCE_NS}, collect={"packets": ["client"]},
            )
        )
    )  # fmt: skip
    assert far.ended()
