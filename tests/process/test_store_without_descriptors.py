"""A node of the reference store that has no descriptor left for a connection goes on, and accepts again later."""

from __future__ import annotations

import json
import resource
import socket
import subprocess
import time
from contextlib import ExitStack

import pytest

from virtlab.testbed.leader.process import agent_path

DESCRIPTORS = 32
PARAMETERS = {
    "copies": 1, "lookup": "ring", "partitions": 8, "written_by": "client", "ack": "memory", "cache_bytes": 1 << 20,
    "question_ns": 10**7, "timeout_ns": 10**9,
}  # fmt: skip


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def connected(port: int) -> socket.socket:
    until = time.monotonic() + 10
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=10)
        except ConnectionRefusedError:
            assert time.monotonic() < until, "it does not listen"
            time.sleep(0.02)


@pytest.mark.process
def test_a_node_without_descriptors_for_connections_goes_on_and_accepts_again() -> None:
    port = free_port()
    argv = [str(agent_path()), "store", "--parameters", json.dumps(PARAMETERS), "--port", str(port)]
    argv += ["--nodes", "1", "--peer", "127.0.0.1", "--place", "0"]
    with subprocess.Popen(argv, stderr=subprocess.PIPE) as node:
        resource.prlimit(node.pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
        try:
            with ExitStack() as opened:
                for _ in range(2 * DESCRIPTORS):
                    opened.enter_context(connected(port))
                time.sleep(0.3)
                assert node.poll() is None
            with connected(port) as line:
                line.sendall(bytes([255]) * 64)  # no message: it is heard, and its connection ended
                assert line.recv(1) == b""
            assert node.poll() is None
        finally:
            node.kill()
        assert node.stderr is not None
        said = node.stderr.read().decode()
    assert said.count("cannot accept a connection: Too many open files") == 1
