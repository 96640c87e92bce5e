"""Files of any bytes that programs bring: read beside the experiment file, kept by digest, and part of its Plans."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from virtlab import brought
from virtlab.catalogue import PLATFORMS
from virtlab.cli.guest_commands import lines
from virtlab.errors import VirtlabError
from virtlab.experiment import Experiment, FileMistakesError, load, load_text
from virtlab.plan import Plan, Refusal
from virtlab.planner import plan_run
from virtlab.testbed.services.files import refused

FILE = """\
version: 1
name: bring
hosts: 1
host: {{guests: 2}}
topology: none
services:
  web:
    kind: program
    on: h1.g2
    argv: [./bin/server]
    files: {files}
roles:
  client:
    workload: program
    from: h1.g1
    to: h1.g2
    argv: [./client]
    files: {{client: {{from: ./build/client, executable: true}}, words: hello}}
"""
FILES = "{bin/server: {from: ./server, executable: true}, server.conf: 'port 80'}"
BYTES = bytes(range(256)) * 5


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def written(folder: Path, files: str = FILES, more: str = "") -> Path:
    (folder / "build").mkdir(exist_ok=True)
    (folder / "server").write_bytes(BYTES)
    (folder / "build" / "client").write_bytes(BYTES[::-1])
    path = folder / "bring.yaml"
    path.write_text(FILE.format(files=files) + more)
    return path


def plan_of(experiment: Experiment, point: int = 0) -> Plan:
    return plan_run(experiment, experiment.points()[point], 0)


def refusals(plan: Plan, platform: str = "namespace") -> Iterator[Refusal]:
    yield from refused("services.web", plan.world.services["web"].parameters, PLATFORMS[platform])
    yield from refused("roles.client", plan.roles["client"].parameters, PLATFORMS[platform])


@pytest.mark.slow
def test_a_plan_has_the_digest_of_a_file_and_the_cache_its_bytes(tmp_path: Path) -> None:
    plan = plan_of(load(written(tmp_path)))
    files = plan.world.services["web"].parameters["files"]
    digest = hashlib.sha256(BYTES).hexdigest()
    assert files["bin/server"] == {"executable": True, "sha256": digest, "bytes": len(BYTES)}
    assert files["server.conf"] == "port 80"
    assert brought.find(digest) == BYTES
    assert brought.find(plan.roles["client"].parameters["files"]["client"]["sha256"]) == BYTES[::-1]
    assert not list(refusals(plan))


@pytest.mark.slow
def test_the_text_of_an_experiment_holds_the_digests(tmp_path: Path) -> None:
    experiment = load(written(tmp_path))
    again = load_text(experiment.text)
    assert again.text == experiment.text
    assert plan_of(again).identity() == plan_of(experiment).identity()
    (tmp_path / "again.yaml").write_text(experiment.text)
    assert load(tmp_path / "again.yaml").text == experiment.text


@pytest.mark.slow
def test_other_bytes_under_that_name_make_another_plan_and_another_text(tmp_path: Path) -> None:
    one = load(written(tmp_path))
    (tmp_path / "server").write_bytes(BYTES + b"\0")
    other = load(tmp_path / "bring.yaml")
    assert one.text != other.text
    assert plan_of(one).identity() != plan_of(other).identity()


@pytest.mark.slow
def test_two_builds_may_be_the_levels_of_a_factor(tmp_path: Path) -> None:
    factor = "factors: {build: [server, build/client]}\n"
    experiment = load(written(tmp_path, '{bin/server: {from: "${build}", executable: true}}', factor))
    digests = [
        plan_of(experiment, n).world.services["web"].parameters["files"]["bin/server"]["sha256"]
        for n in (0, 1)
    ]
    assert digests == [hashlib.sha256(each).hexdigest() for each in (BYTES, BYTES[::-1])]


@pytest.mark.slow
def test_check_says_what_is_brought_with_its_digest(tmp_path: Path) -> None:
    told = [line for line in lines(load(written(tmp_path))) if " brings " in line]
    digest = hashlib.sha256(BYTES).hexdigest()
    assert told[0] == f"services.web brings bin/server: {len(BYTES)} B, executable, SHA-256 {digest}"
    assert told[1].startswith("roles.client brings client: ")


@pytest.mark.slow
def test_bytes_that_are_kept_nowhere_are_refused_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = load(written(tmp_path)).text
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    refused = {each.path: each for each in refusals(plan_of(load_text(text)))}
    assert "are not kept on this machine" in refused["services.web.files.bin/server"].reason
    assert "roles.client.files.client" in refused
    kept = tmp_path / "elsewhere" / "virtlab" / "brought"
    kept.mkdir(parents=True)
    (kept / hashlib.sha256(BYTES).hexdigest()).write_bytes(b"something else")
    assert brought.find(hashlib.sha256(BYTES).hexdigest()) is None
    load(tmp_path / "bring.yaml")  # keeps them again
    assert brought.find(hashlib.sha256(BYTES[::-1]).hexdigest()) == BYTES[::-1]


def a_link(place: Path) -> None:
    place.symlink_to("/etc/passwd")


def a_pipe(place: Path) -> None:
    os.mkfifo(place)


def a_socket(place: Path) -> None:
    with contextlib.chdir(place.parent), socket.socket(socket.AF_UNIX) as listens:
        listens.bind(place.name)


def too_large(place: Path) -> None:
    with place.open("wb") as file:
        file.truncate((32 << 20) + 1)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (a_link, "a link, not a file"),
        (a_pipe, "a named pipe, not a file"),
        (a_socket, "a socket, not a file"),
        (Path.mkdir, "Is a directory"),
        (too_large, "more than 33554432 B"),
        (lambda _: None, "No such file"),
    ],
)
def test_what_is_no_file_of_that_folder_is_one_line_with_place_and_cure(
    tmp_path: Path, make: Callable[[Path], object], said: str
) -> None:
    path = written(tmp_path)
    (tmp_path / "server").unlink()
    make(tmp_path / "server")
    with pytest.raises(FileMistakesError) as caught:
        load(path)
    (line,) = caught.value.lines()[1:]
    assert "services.web.files.bin/server.from" in line
    assert said in line
    assert "; put a regular file of at most 32 MiB there" in line


def test_no_folder_on_the_way_is_a_link(tmp_path: Path) -> None:
    path = written(tmp_path, "{bin/server: {from: elsewhere/passwd}}")
    (tmp_path / "elsewhere").symlink_to("/etc")
    with pytest.raises(FileMistakesError, match="is a link, not a folder"):
        load(path)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ("{a: {from: ../server}}", "'../server' is not a name of a file; name one below"),
        ("{a: {from: /etc/passwd}}", "'/etc/passwd' is not a name of a file"),
        ("{a: {from: b/../../server}}", "is not a name of a file"),
        ("{a: {from: ~/server}}", "is not a name of a file"),
        ("{a: {form: ./server}}", "unknown key 'form'; a file has 'from' and 'executable'"),
        ("{a: {executable: true}}", "write e.g. {from: ./server, executable: true}"),
        ("{a: {from: ./server, executable: 755}}", "'755' is not true or false"),
        ("{../a: {from: ./server}}", "is not a file's name"),
    ],
)
def test_mistakes_of_files(tmp_path: Path, files: str, said: str) -> None:
    with pytest.raises(FileMistakesError) as caught:
        load(written(tmp_path, files))
    (line,) = [each for each in caught.value.lines() if said in each]
    assert "services.web.files" in line


@pytest.mark.parametrize(
    "section", ["brought: 3", "brought: {server: 3}", "brought: {server: {sha256: x, bytes: 1}}"]
)
def test_a_section_of_digests_that_holds_none_is_a_mistake(section: str, tmp_path: Path) -> None:
    role = "roles: {p: {workload: rtt, from: h1.g1, to: h2.g1}}"
    (tmp_path / "one.yaml").write_text(f"version: 1\nname: one\nhosts: 2\n{role}\n{section}\n")
    with pytest.raises(VirtlabError, match="brought"):
        load(tmp_path / "one.yaml")


@pytest.mark.slow
def test_a_host_that_exists_already_is_brought_nothing(tmp_path: Path) -> None:
    found = list(refusals(plan_of(load(written(tmp_path))), "ssh"))
    assert [each.path for each in found] == ["services.web.files", "roles.client.files"]
    assert "stays there" in found[0].reason


@pytest.mark.slow
def test_a_digest_of_another_length_than_the_file_says_brings_nothing(tmp_path: Path) -> None:
    experiment = load(written(tmp_path))
    wrong = load_text(experiment.text.replace(f"bytes: {len(BYTES)}", "bytes: 7"))
    (server, client) = refusals(plan_of(wrong))
    assert "not kept on this machine" in server.reason
    assert "not kept on this machine" in client.reason


@pytest.mark.slow
def test_digests_of_many_files_that_lie_beside_the_file_are_read_up_to_one_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("virtlab.experiment.read.brought.FILES_MAX_BYTES", 10 * len(BYTES))
    names = [f"build/copy{number}" for number in range(12)]
    files = ", ".join(f"f{number}: {{from: {name}}}" for number, name in enumerate(names))
    held = "".join(f'  "{name}": {{sha256: "{0:064x}", bytes: 1}}\n' for name in [*names, "build/client"])
    path = written(tmp_path, f"{{{files}}}", f"brought:\n{held}")
    for name in names:
        (tmp_path / name).write_bytes(BYTES)
    with pytest.raises(FileMistakesError, match="larger than 256 MiB together"):
        load(path)


def test_all_that_is_kept_stays_below_one_bound_and_what_was_used_longest_ago_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(brought, "ALL_MAX_BYTES", 250)
    files = [bytes([number]) * 100 for number in range(3)]
    digests = [brought.digest_of(each) for each in files]
    for age, content in zip((30, 20), files[:2], strict=True):
        brought.keep(content)
        moment = time.time() - age
        os.utime(tmp_path / "virtlab" / "brought" / brought.digest_of(content), (moment, moment))
    assert brought.find(digests[0]) == files[0]  # so the second was used longest ago
    brought.keep(files[2])
    assert [brought.find(each) for each in digests] == [files[0], None, files[2]]
