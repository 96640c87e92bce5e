"""A static binary from beside the experiment file, as a service and as a role's program, on guests of every kind.

A machine without an image holds virtlab's own small system, so what it runs has to be brought.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import container_world as containers
import machine_world as machines
import pytest
import testbed_world as worlds

from virtlab.experiment import load
from virtlab.plan import Trial
from virtlab.planner import plan_run
from virtlab.testbed import Testbed

PLATFORMS = [
    pytest.param(name, marks=pytest.mark.skipif(missing is not None, reason=str(missing)))
    for name, missing in (
        ("namespace", worlds.missing()),
        ("container", containers.missing()),
        ("qemu", machines.missing()),
    )
]
pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed"),
]

# Answers each connection with the file beside it; with an address, asks there, and prints how many octets came.
SOURCE = r"""
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <unistd.h>
int main(int count, char **words) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(8080)};
  char octets[4096];
  int of = socket(AF_INET, SOCK_STREAM, 0), got;
  if (count > 1) {
    long sum = 0;
    inet_aton(words[1], &at.sin_addr);
    if (connect(of, (struct sockaddr *)&at, sizeof at)) return perror("connect"), 1;
    while ((got = read(of, octets, sizeof octets)) > 0) sum += got;
    return printf("{\"octets\": %ld, \"last\": %d}\n", sum, getchar()) < 0;
  }
  signal(SIGPIPE, SIG_IGN);
  if (bind(of, (struct sockaddr *)&at, sizeof at) || listen(of, 9)) return perror("bind"), 1;
  for (;;) {
    int to = accept(of, 0, 0);
    FILE *file = fopen("data/octets", "r");
    if (!file) return perror("data/octets"), 2;
    while ((got = fread(octets, 1, sizeof octets, file)) > 0) write(to, octets, got);
    fclose(file);
    close(to);
  }
}
"""
FILE = """\
version: 1
name: bring
hosts: 1
host: {{guests: 2{host}}}
topology: none
services:
  web:
    kind: program
    on: h1.g2
    argv: [./bin/both]
    files:
      bin/both: {{from: ./both, executable: true}}
      data/octets: {{from: ./octets}}
    ready: {{port: 8080, timeout: 60 s}}
roles:
  client:
    workload: program
    from: h1.g1
    to: h1.g2
    timeout: 60 s
    argv: [./both, "{{web.address}}"]
    files: {{both: {{from: ./both, executable: true}}}}
    metrics:
      octets: {{json: $.octets, unit: count, better: higher}}
      last: {{json: $.last, unit: count, better: higher}}
timeline:
  - {{id: again, do: call, service: web, op: restart}}
  - {{id: ask, do: run, role: client, after: again.done}}
collect: {{series: {{}}}}
"""
OCTETS = bytes(range(256)) * 3000


@pytest.fixture(scope="module")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("binary")
    (folder / "both.c").write_text(SOURCE)
    done = subprocess.run(
        ["gcc", "-static", "-O1", "-o", folder / "both", folder / "both.c"], capture_output=True, text=True, check=False
    )  # fmt: skip
    if done.returncode:
        pytest.skip(f"gcc links nothing statically here: {done.stderr[-200:]}")
    return folder / "both"


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_static_binary_serves_and_asks(platform: str, binary: Path, tmp_path: Path) -> None:
    shutil.copy(binary, tmp_path / "both")
    (tmp_path / "both").chmod(0o600)
    (tmp_path / "octets").write_bytes(OCTETS)
    host = "" if platform == "namespace" else f", platform: {platform}"
    (tmp_path / "bring.yaml").write_text(FILE.format(host=host))
    experiment = load(tmp_path / "bring.yaml")
    sink = worlds.MemorySink()
    with Testbed().open(plan_run(experiment, experiment.points()[0], 0), worlds.Patient()) as session:
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    (block,) = [columns for name, schema, columns in sink.blocks if (name, schema) == ("client", "value/1")]
    values = dict(zip(block["metric"].tolist(), block["value"].tolist(), strict=True))
    assert values == {"octets": len(OCTETS), "last": -1}, "all of it came, and its own input was at an end"


@pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing()))
def test_a_program_that_a_machine_does_not_hold_is_refused_with_the_cure(
    binary: Path, tmp_path: Path
) -> None:
    shutil.copy(binary, tmp_path / "both")
    (tmp_path / "octets").write_bytes(OCTETS)
    text = (
        FILE.format(host=", platform: qemu").replace("[./bin/both]", "[nginx]").replace("[./both,", "[wrk,")
    )
    (tmp_path / "bring.yaml").write_text(text)
    experiment = load(tmp_path / "bring.yaml")
    refused = Testbed().check(plan_run(experiment, experiment.points()[0], 0))
    assert [each.path for each in refused] == ["roles.client.argv", "services.web.argv"]
    assert "'nginx' is not part of it" in refused[1].reason
    assert refused[1].cure.startswith("bring a static binary: 'files: ")
