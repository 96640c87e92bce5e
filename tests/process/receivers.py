"""Programs that receive numbers, each private to a test: on a port of the loopback interface, with a folder of its
own.
"""

from __future__ import annotations

import http.server
import json
import os
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

READY_S = 60.0
PROGRAMS = ("prometheus", "prometheus-node-exporter", "influxd")


def missing() -> str | None:
    """What is not here, as a skip says it; None when all is."""
    return next((f"{program} is not here" for program in PROGRAMS if shutil.which(program) is None), None)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def get(url: str, **query: str) -> Any:
    """The JSON that an address answers with."""
    with urllib.request.urlopen(f"{url}?{urllib.parse.urlencode(query)}", timeout=30) as answer:
        return json.load(answer)


@contextmanager
def running(folder: Path, program: str, *arguments: str, ready: str, **environment: str) -> Iterator[None]:
    """A program until the block ends; it is ready when an address answers."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not here")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, *arguments], cwd=folder, env={**os.environ, **environment}, stdout=log, stderr=log
        )
        try:
            end = time.monotonic() + READY_S
            while not _answers(ready):
                assert process.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < end, (folder / "log").read_text()
                time.sleep(0.1)
            yield
        finally:
            process.terminate()
            process.wait(30)


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5):
            return True
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


@contextmanager
def prometheus(folder: Path, *, receives: bool = True) -> Iterator[str]:
    """Its address."""
    (folder / "prometheus.yml").write_text("global: {}\n")
    address = f"127.0.0.1:{free_port()}"
    options = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address={address}"]
    options += ["--web.enable-remote-write-receiver"] if receives else []
    with running(folder, "prometheus", *options, ready=f"http://{address}/-/ready"):
        yield f"http://{address}"


@contextmanager
def influxdb(folder: Path, database: str) -> Iterator[str]:
    """The address of an InfluxDB 1 with an empty database."""
    address = f"127.0.0.1:{free_port()}"
    settings = {
        "INFLUXDB_REPORTING_DISABLED": "true", "INFLUXDB_BIND_ADDRESS": f"127.0.0.1:{free_port()}",
        "INFLUXDB_HTTP_BIND_ADDRESS": address, "INFLUXDB_META_DIR": str(folder / "meta"),
        "INFLUXDB_DATA_DIR": str(folder / "data"), "INFLUXDB_DATA_WAL_DIR": str(folder / "wal"),
    }  # fmt: skip
    with running(folder, "influxd", "run", ready=f"http://{address}/ping", **settings):
        body = urllib.parse.urlencode({"q": f"CREATE DATABASE {database}"}).encode()
        with urllib.request.urlopen(f"http://{address}/query", body, timeout=30):
            yield f"http://{address}"


class Heard(http.server.ThreadingHTTPServer):
    """A server that keeps what it is sent, and answers as told: code, headers, body."""

    def __init__(self, code: int, headers: dict[str, str], body: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Keeping)
        self.answer = code, headers, body
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.address = f"http://127.0.0.1:{self.server_port}"


class _Keeping(http.server.BaseHTTPRequestHandler):
    server: Heard

    def _keep(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests.append((self.command, self.path, dict(self.headers), body))
        code, headers, answer = self.server.answer
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_GET = _keep  # noqa: N815 - http.server's names

    def log_message(self, *_arguments: object) -> None:
        """Says nothing."""


@contextmanager
def hearing(code: int = 200, headers: dict[str, str] | None = None, body: bytes = b"") -> Iterator[Heard]:
    """A server that keeps what it is sent."""
    with Heard(code, headers or {}, body) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
