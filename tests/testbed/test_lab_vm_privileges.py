"""An ordinary user boots the laboratory machine in a private world, without sudo, taps or control groups."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import testbed_world as worlds
from test_testbed_privileges import NOBODY, as_nobody

import virtlab.testbed.session  # loaded before the identity changes: see test_testbed_privileges
from virtlab.plan import Trial
from virtlab.testbed import image
from virtlab.testbed.lab import LabVm
from virtlab.testbed.lab.rules import FLAVOUR, LAB_VM
from virtlab.testbed.platforms.qemu import monitor

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else"),
    pytest.mark.skipif(LAB_VM.lacking() is not None, reason=str(LAB_VM.lacking())),
    pytest.mark.timeout(400),
]
COUNT = 10
_ = virtlab.testbed.session, monitor


@pytest.fixture
def _cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A copy of the image that an ordinary user has as his own."""
    with tempfile.TemporaryDirectory() as name:
        shutil.copytree(image.folder() / FLAVOUR, Path(name) / "virtlab" / "images" / FLAVOUR)
        for path in (Path(name), *Path(name).rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        monkeypatch.setenv("XDG_CACHE_HOME", name)
        yield


@pytest.mark.usefixtures("_cache")
def test_an_ordinary_user_has_the_disciplines_of_a_kernel_that_he_booted() -> None:
    queue = {"kind": "fq_codel", "by": "kernel"}
    world = worlds.bridged(switches=1, realise="shaping", queue={"ab": queue, "ba": queue})
    plan = worlds.echo_plan(world, count=COUNT)

    def work() -> None:
        lab = LabVm()
        try:
            assert lab.check(plan) == []
            with lab.open(plan, worlds.Patient()) as built:
                sink = worlds.MemorySink()
                outcome = built.run(Trial("t0", 1), sink)
                assert outcome.status in {"ok", "tainted"}, outcome.reasons
                assert sink.rows("probe", "rtt/1") == COUNT
        finally:
            lab.close()

    assert as_nobody(work) == ""
