"""A service that is what the image of its container starts: its words, variables, folder and user, as an engine has
them.
"""

from __future__ import annotations

import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import container_world as containers
import pytest
import testbed_world as worlds

from virtlab.experiment import load_text
from virtlab.plan import Trial
from virtlab.planner import plan_run
from virtlab.testbed import Testbed
from virtlab.testbed.image import rootfs
from virtlab.testbed.image.initramfs import find_busybox

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(containers.missing() is not None, reason=str(containers.missing())),
]

SERVE = '#!/bin/sh\necho "mode $MODE in $(pwd) as $(id -u)"\nexec httpd "$@"\n'
SAID = (
    'ENTRYPOINT ["serve"]', 'CMD ["-f", "-p", "8080"]', "ENV MODE=image", "ENV PATH=/opt/bin:/bin", "WORKDIR /www",
    "USER 1234",
)  # fmt: skip
GET = ["/bin/busybox", "wget", "-q", "-O", "-", "http://127.0.0.1:8080/index.html"]


def tree(folder: Path) -> Path:
    for name in ("bin", "opt/bin", "www", "proc", "sys", "dev", "tmp"):
        (folder / name).mkdir(parents=True)
    shutil.copy(find_busybox(), folder / "bin" / "busybox")
    for applet in ("sh", "httpd", "id"):
        (folder / "bin" / applet).symlink_to("busybox")
    (folder / "opt/bin/serve").write_text(SERVE)
    (folder / "opt/bin/serve").chmod(0o755)
    (folder / "www/index.html").write_text("of the image\n")
    return folder


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Name of an image of podman's, from a store of the test's own."""
    program = shutil.which("podman")
    if program is None:
        pytest.skip("podman is missing")
    own = tmp_path / "bin"
    own.mkdir()
    podman = own / "podman"
    short = tempfile.mkdtemp(prefix="virtlab-")  # podman takes no longer one
    store = f"--root {short}/store --runroot {short}/run --storage-driver vfs"
    podman.write_text(f'#!/bin/sh\nexec {program} {store} "$@"\n')
    podman.chmod(0o755)
    monkeypatch.setenv("PATH", f"{own}:/usr/sbin:/usr/bin:/sbin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with tarfile.open(tmp_path / "tree.tar", "w") as archive:
        archive.add(tree(tmp_path / "tree"), ".")
    changes = [word for said in SAID for word in ("--change", said)]
    subprocess.run(
        [str(podman), "import", *changes, str(tmp_path / "tree.tar"), "localhost/served"],
        check=True,
        capture_output=True,
    )
    rootfs.add_rootfs("served", "podman:localhost/served")
    yield "served"
    shutil.rmtree(short)


def plan_of(image: str, **more: Any) -> Any:
    ready = {"port": 8080, "http": "/index.html", "timeout_ns": 60_000_000_000}
    world = containers.beside_a_namespace(image=image)
    world["services"] = {"web": {"kind": "program", "on": ["g1"], "ready": ready, **more}}
    ask = {"id": "ask", "do": "exec", "guest": "g1", "argv": GET}
    return worlds.plan(world, timeline=[ask], limits={"run_ns": 60_000_000_000})


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "mode image in /www as 1234"),
        ({"environment": {"MODE": "file"}, "user": "0"}, "mode file in /www as 0"),
    ],
)
def test_an_image_of_an_engine_serves_as_it_does_there(image: str, more: dict[str, Any], said: str) -> None:
    plan = plan_of(image, **more)
    assert Testbed().check(plan) == []
    with Testbed().open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert sink.artefacts["ask.out"] == b"of the image\n"
    assert said in sink.artefacts["service-web-g1.log"].decode()


def test_an_image_that_starts_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rootfs.add_rootfs("folder", str(tree(tmp_path / "tree")))
    (refusal,) = Testbed().check(plan_of("folder"))
    assert refusal.path == "services.web.argv"
    assert refusal.reason == "image 'folder' names no program of its own"
    assert "'argv'" in refusal.cure


def test_what_an_image_starts_goes_with_the_image(image: str, tmp_path: Path) -> None:
    assert rootfs.list_rootfs() == [image]
    rootfs.add_rootfs(image, str(tmp_path / "tree"))  # in its place: a folder, which says nothing
    assert [each.path for each in Testbed().check(plan_of(image))] == ["services.web.argv"]
    rootfs.remove_rootfs(image)
    assert list(rootfs.rootfs_folder().iterdir()) == []


ROLE = """
version: 1
name: own
hosts: {h: {guests: {g1: {platform: container, image: served}, g2: {}}}}
topology: none
roles:
  bench:
    workload: program
    from: h.g1
    to: h.g2
    metrics: {whose: {regex: "mode image in /www as (?P<whose>[0-9]+)", unit: count, better: neither}}
timeline:
  - {id: go, do: run, role: bench}
  - {id: enough, do: stop, role: bench, after: go.started + 1 s}
"""


def test_a_role_whose_image_says_its_program_plays_it(image: str) -> None:
    experiment = load_text(ROLE)
    plan = plan_run(experiment, experiment.points()[0], 0)
    assert Testbed().check(plan) == []
    with Testbed().open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    (block,) = [
        columns for stream, schema, columns in sink.blocks if (stream, schema) == ("bench", "value/1")
    ]
    assert list(block["value"]) == [1234.0]


def test_a_role_whose_image_starts_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rootfs.add_rootfs("served", str(tree(tmp_path / "tree")))
    experiment = load_text(ROLE)
    (refusal,) = Testbed().check(plan_run(experiment, experiment.points()[0], 0))
    assert refusal.path == "roles.bench.argv"
    assert "'argv'" in refusal.cure
