"""A file of requests played in a real world: its rows, in the order in which requests were due."""

from __future__ import annotations

import numpy as np
import testbed_world as worlds

from virtlab.experiment import load_text
from virtlab.plan import Trial
from virtlab.planner import plan_run
from virtlab.testbed import Testbed


def rows_of(text: str, role: str) -> dict[str, np.ndarray]:
    """Columns of response/1 of a role."""
    experiment = load_text(text)
    plan = plan_run(experiment, experiment.points()[0], 0)
    sink = worlds.MemorySink()
    with Testbed().open(plan, worlds.Patient()) as session:
        outcome = session.run(Trial("t0", plan.seed), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    blocks = [columns for stream, kind, columns in sink.blocks if (stream, kind) == (role, "response/1")]
    rows = {name: np.concatenate([each[name] for each in blocks]) for name in blocks[0]}
    order = np.argsort(rows["intended_ns"], kind="stable")
    return {name: values[order] for name, values in rows.items()}
