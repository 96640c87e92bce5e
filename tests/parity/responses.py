"""A file of requests, played on one arm: what it kept, and a row of each request."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.contract.test_backend_contract import PLAYED, Kept, Watcher, backend_of

from virtlab.experiment import load_text
from virtlab.plan import Trial
from virtlab.planner import plan_run
from virtlab.simulator import Simulator
from virtlab.simulator.profile import Profile

ARMS = ("simulator", "testbed")


def played(arm: str, text: str, profile: Profile | None = None) -> Kept:
    """One run of the file's first design point; simulated, with that profile."""
    experiment = load_text(text)
    plan = plan_run(experiment, next(iter(experiment.points())), 0)
    kept = Kept()
    backend = Simulator(profile) if profile is not None and arm == "simulator" else backend_of(arm)
    with backend.open(plan, Watcher()) as session:
        outcome = session.run(Trial("t0", plan.seed), kept)
    assert outcome.status in PLAYED, outcome.reasons
    return kept


def rows_of(kept: Kept, role: str = "clients") -> dict[str, Any]:
    """Columns of a role's response/1, in the order in which its requests were due."""
    blocks = kept.blocks[role, "response/1"]
    rows = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    order = np.argsort(rows["intended_ns"], kind="stable")
    return {name: column[order] for name, column in rows.items()}
