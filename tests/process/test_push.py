"""Estimates and verdicts arrive, in programs that people keep numbers in; a receiver that fails costs one warning."""

from __future__ import annotations

import hashlib
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from tests.process.receivers import free_port, get, hearing, influxdb, prometheus, running

from virtlab.cli.main import main
from virtlab.experiment.templates import template
from virtlab.report.exchange.push.destination import Destination
from virtlab.report.exchange.push.numbers import Number, numbers_of
from virtlab.report.gather.dataset import gather
from virtlab.report.gather.model import Quantity
from virtlab.results import Dataset

ROOT = Path(__file__).parents[2]
DAY_NS = 86_400_000_000_000


def virtlab(*arguments: object) -> int:
    """The command in this process; its exit code."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a simulated experiment with claims."""
    folder = tmp_path_factory.mktemp("push")
    (folder / "demo.yaml").write_text(template("demo", "demo"))
    assert simulated(folder) == 0
    return folder / "demo.results"


def simulated(folder: Path, *more: object) -> int:
    """The demonstration's file, run in the simulator."""
    where = (
        folder / "demo.yaml",
        "--dataset",
        folder / "demo.results",
        "--backend",
        "simulator",
        "--jobs",
        "1",
    )
    return virtlab("run", *where, "--no-report", *more)


@pytest.fixture(autouse=True)
def without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def estimates(dataset: Path) -> dict[tuple[Quantity, str], float]:
    """The means of every quantity by setting, as the report has them, in the report's units."""
    return {
        (result.quantity, cell.point["switches"]): cell.estimate.point
        for result in gather(Dataset.open(dataset), curves=False).results
        for cell in result.cells
        if cell.estimate is not None
    }


def told(numbers: list[Number]) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {(one.name, tuple(sorted(one.labels.items()))): one.value for one in numbers}


def all_numbers(path: Path) -> list[Number]:
    opened = Dataset.open(path)
    return numbers_of(opened, gather(opened, curves=False))


def test_the_numbers_are_the_estimates_of_the_report_in_base_units(dataset: Path) -> None:
    numbers = all_numbers(dataset)
    assert len(told(numbers)) == len(numbers) > 500
    for (of, switches), point in estimates(dataset).items():
        labels = {"role": of.role, "statistic": of.statistic, "factor_switches": switches}
        found = [one for one in numbers if one.words == (of.metric,) and labels.items() <= one.labels.items()]
        assert [one.value * one.unit.size for one in found] == [pytest.approx(point, rel=1e-12)], of.path
    verdicts = [one for one in numbers if one.name == "virtlab_claim"]
    assert len(verdicts) == 9
    assert {
        one.labels["claim"] for one in verdicts if one.value == 1 and one.labels["verdict"] == "holds"
    } == {one.claim for one in gather(Dataset.open(dataset), curves=False).verdicts}
    assert sum(one.value for one in verdicts) == 3


def test_prometheus_takes_a_remote_write_and_answers_with_the_same_numbers(
    dataset: Path, tmp_path: Path
) -> None:
    with prometheus(tmp_path) as address:
        for _ in range(2):  # the second changes nothing
            assert virtlab("export", dataset, "--to", f"remote-write={address}/api/v1/write") == 0
        query = 'last_over_time({__name__=~"virtlab_.*"}[1h])'
        answer = get(f"{address}/api/v1/query", query=query)["data"]["result"]
        rules = get(
            f"{address}/api/v1/query", query='sum(last_over_time(virtlab_claim{verdict="holds"}[1h]))'
        )
    found: dict[Any, float] = {}
    for one in answer:
        name = one["metric"].pop("__name__")
        found[name, tuple(sorted(one["metric"].items()))] = float(one["value"][1])
    assert found == told(all_numbers(dataset))
    assert rules["data"]["result"][0]["value"][1] == "3"


def test_influxdb_takes_lines_and_answers_with_the_same_numbers(dataset: Path, tmp_path: Path) -> None:
    with influxdb(tmp_path, "lab") as address:
        for _ in range(2):
            assert virtlab("export", dataset, "--to", f"influx={address}/write?db=lab") == 0
        answer = get(f"{address}/query", db="lab", epoch="ns", q="SELECT value FROM /virtlab_.*/ GROUP BY *")
    found, times = {}, set()
    for one in answer["results"][0]["series"]:
        ((time_ns, value),) = one["values"]
        labels = {name: text for name, text in one["tags"].items() if text}
        found[one["name"], tuple(sorted(labels.items()))] = value
        times.add(time_ns)
    numbers = all_numbers(dataset)
    assert found == told(numbers)
    assert times == {numbers[0].time_ns}


def test_the_node_exporter_shows_the_text_file_with_the_same_numbers(dataset: Path, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    address = f"127.0.0.1:{free_port()}"
    options = ["--collector.disable-defaults", "--collector.textfile", f"--web.listen-address={address}"]
    options.append(f"--collector.textfile.directory={folder}")
    assert virtlab("export", dataset, "--to", f"prometheus-textfile={folder / 'virtlab.prom'}") == 0
    metrics = f"http://{address}/metrics"
    with (
        running(tmp_path, "prometheus-node-exporter", *options, ready=metrics),
        prometheus_scraping(tmp_path, address) as server,
    ):
        query = f'{{__name__=~"virtlab_.*", instance="{address}"}}'
        answer: list[Any] = []
        while not answer:  # until the first scrape
            answer = get(f"{server}/api/v1/query", query=query)["data"]["result"]
        error = get(f"{server}/api/v1/query", query="node_textfile_scrape_error")["data"]["result"]
    assert [one["value"][1] for one in error] == ["0"]
    found = {}
    for one in answer:
        labels = {
            key: text for key, text in one["metric"].items() if key not in {"__name__", "instance", "job"}
        }
        found[one["metric"]["__name__"], tuple(sorted(labels.items()))] = float(one["value"][1])
    assert found == told(all_numbers(dataset))


@contextmanager
def prometheus_scraping(folder: Path, target: str) -> Iterator[str]:
    """A Prometheus that asks a target every second."""
    address = f"127.0.0.1:{free_port()}"
    job = f"{{job_name: node, scrape_interval: 1s, static_configs: [{{targets: ['{target}']}}]}}"
    (folder / "scraping.yml").write_text(f"scrape_configs: [{job}]\n")
    own = folder / "prometheus"
    own.mkdir()
    options = ["--config.file=../scraping.yml", f"--web.listen-address={address}"]
    with running(own, "prometheus", *options, "--storage.tsdb.path=data", ready=f"http://{address}/-/ready"):
        yield f"http://{address}"


def test_otlp_is_what_its_own_package_reads(dataset: Path) -> None:
    with hearing() as server:
        assert virtlab("export", dataset, "--to", f"otlp={server.address}/v1/metrics") == 0
    ((verb, path, headers, body),) = server.requests
    assert (verb, path, headers["Content-Type"]) == ("POST", "/v1/metrics", "application/x-protobuf")
    request = ExportMetricsServiceRequest.FromString(body)
    (resource,) = request.resource_metrics
    assert next(one.value.string_value for one in resource.resource.attributes) == "virtlab"
    (scope,) = resource.scope_metrics
    numbers = all_numbers(dataset)
    by_name = {(".".join(("virtlab", *one.words)), one.unit.ucum): one for one in numbers}
    assert {(metric.name, metric.unit) for metric in scope.metrics} == set(by_name)
    found = {}
    for metric in scope.metrics:
        name = by_name[metric.name, metric.unit].name
        assert metric.description
        for point in metric.gauge.data_points:
            labels = sorted((one.key, one.value.string_value) for one in point.attributes)
            found[name, tuple(labels)] = point.as_double
            assert point.time_unix_nano == numbers[0].time_ns
    assert found == told(numbers)
    assert ExportMetricsServiceRequest.FromString(request.SerializeToString()) == request  # no unknown field
    assert request.ByteSize() == len(body)


def test_what_an_otlp_receiver_rejects_in_a_good_answer_is_told(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = ExportMetricsServiceResponse()
    answer.partial_success.rejected_data_points = 3
    answer.partial_success.error_message = "too old"
    with hearing(body=answer.SerializeToString()) as server:
        assert virtlab("export", dataset, "--to", f"otlp={server.address}/") == 0
    assert "3 numbers were rejected: too old" in capsys.readouterr().err


def test_a_token_goes_into_its_header_and_a_password_into_no_message(
    dataset: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VIRTLAB_INFLUX_AUTHORIZATION", "Token abc")
    with hearing(401, body=b"no\x1b[2J\nmore") as server:
        place = server.address.replace("http://", "http://me:geh%20eim@")
        to = ["--to", f"influx={server.address}/write?u=me&p=secret", "--to", f"remote-write={place}/api"]
        assert virtlab("export", dataset, *to) == 0
    assert [headers.get("Authorization") for _, _, headers, _ in server.requests] == [
        "Token abc",
        "Basic bWU6Z2VoIGVpbQ==",
    ]
    said = capsys.readouterr().err
    assert said.count("virtlab: warning: ") == said.count("\n") == 2
    assert "answers 401: no" in said
    for hidden in ("secret", "geh", "abc", "\x1b"):
        assert hidden not in said


@contextmanager
def dripping() -> Iterator[str]:
    """The address of a server that takes a request and answers with a letter now and then, and never with a line."""
    over = threading.Event()

    def drip(server: socket.socket) -> None:
        connection = server.accept()[0]
        with connection:
            while not over.wait(0.05):
                connection.send(b"H")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, args=(server,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            over.set()
            thread.join()


@contextmanager
def trouble(kind: str, folder: Path) -> Iterator[str]:
    """`--to` of a receiver that takes nothing."""
    if kind == "absent":
        yield f"remote-write=http://127.0.0.1:{free_port()}/api/v1/write"
    elif kind == "refuses":
        with prometheus(folder, receives=False) as address:
            yield f"remote-write={address}/api/v1/write"
    elif kind == "lacks the database":
        with influxdb(folder, "lab") as address:
            yield f"influx={address}/write?db=other"
    elif kind == "leads elsewhere":
        with hearing() as other, hearing(307, {"Location": f"{other.address}/there"}) as server:
            yield f"otlp={server.address}/v1/metrics"
            assert other.requests == []
    elif kind == "answers by the drop":
        with dripping() as address:
            yield f"otlp={address}/v1/metrics"
    elif kind == "cannot be resolved":
        yield "otlp=http://no-such-host.invalid:4318/v1/metrics"
    else:
        assert kind == "speaks no HTTP"
        with socket.create_server(("127.0.0.1", 0)) as server:
            threading.Thread(
                target=lambda: server.accept()[0].sendall(b"220 mail\r\n\r\n"), daemon=True
            ).start()
            yield f"otlp=http://127.0.0.1:{server.getsockname()[1]}/"


TROUBLES = {
    "absent": "Connection refused",
    "refuses": "answers 404",
    "lacks the database": 'answers 404: {"error":"database not found',
    "leads elsewhere": "which is not followed",
    "answers by the drop": "no answer within 10 s",
    "cannot be resolved": "did not take them",
    "speaks no HTTP": "did not take them",
}


@pytest.mark.parametrize("kind", TROUBLES)
def test_a_receiver_that_takes_nothing_is_one_warning_and_changes_nothing(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "demo.yaml").write_text(template("demo", "demo").replace("equivalent within 5 %", "1 < 2"))
    expected = simulated(tmp_path)
    before = contents(tmp_path / "demo.results")
    capsys.readouterr()
    with trouble(kind, tmp_path) as place:
        assert simulated(tmp_path, "--to", place) == expected == 1
    said = capsys.readouterr().err
    assert said.count("\n") == said.count("virtlab: warning: --to ") == 1, said
    assert TROUBLES[kind] in said
    assert contents(tmp_path / "demo.results") == before


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_receiver_that_answers_by_the_drop_is_waited_for_as_long_as_was_said(dataset: Path) -> None:
    with dripping() as address:
        to = Destination.parse(f"otlp={address}/")
        assert to.deliver(all_numbers(dataset), patience_s=0.5) == "no answer within 0.5 s"


def test_prometheus_says_that_numbers_are_too_old_for_it(dataset: Path, tmp_path: Path) -> None:
    with prometheus(tmp_path) as address:
        to = Destination.parse(f"remote-write={address}/api/v1/write")
        numbers = all_numbers(dataset)
        assert to.deliver(numbers) == ""
        old = [replace(one, time_ns=one.time_ns - DAY_NS) for one in numbers]
        assert re.match("answers 400: .*out of bounds", to.deliver(old))


@pytest.mark.parametrize(
    ("to", "problem"),
    [
        ("graphite=http://127.0.0.1/", "write one of prometheus-textfile=FILE, remote-write=URL"),
        ("influx", "is not a receiver and its place"),
        ("influx=/tmp/file", "no address of a receiver"),
        ("otlp=file:///etc/passwd", "no address of a receiver"),
        ("otlp=http://127.0.0.1:port/", "no address of a receiver"),
        ("otlp=http://127.0.0.1/a b", "no address of a receiver"),
    ],
)
def test_a_mistake_in_the_name_of_a_receiver_ends_a_run_before_it_begins(
    to: str, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "demo.yaml").write_text(template("demo", "demo"))
    assert simulated(tmp_path, "--to", to) == 2
    assert problem in capsys.readouterr().err
    assert not (tmp_path / "demo.results").exists()


def test_a_text_file_that_cannot_be_written_ends_a_run_before_it_begins(tmp_path: Path) -> None:
    (tmp_path / "demo.yaml").write_text(template("demo", "demo"))
    assert simulated(tmp_path, "--to", f"prometheus-textfile={tmp_path}") == 3
    assert simulated(tmp_path, "--to", f"prometheus-textfile={tmp_path / 'no' / 'file.prom'}") == 3
    assert not (tmp_path / "demo.results").exists()


def test_options_that_choose_rows_do_not_go_with_a_receiver(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert virtlab("export", dataset, "--to", "influx=http://127.0.0.1/", "--what", "runs") == 2
    assert "leave the other options out" in capsys.readouterr().err


def test_every_panel_of_the_dashboard_shows_numbers(dataset: Path, tmp_path: Path) -> None:
    """Grafana itself is not here; its queries are asked of Prometheus, with its variables filled in as it fills
    them.
    """
    board = json.loads((ROOT / "docs" / "grafana" / "virtlab.json").read_text())
    chosen = {"experiment": "demo", "metric": "rtt", "role": "probe", "statistic": "median", "__range": "1h"}
    names = {one["name"] for one in board["templating"]["list"]}
    with prometheus(tmp_path) as address:
        assert virtlab("export", dataset, "--to", f"remote-write={address}/api/v1/write") == 0
        for panel in board["panels"]:
            for target in panel["targets"]:
                query = re.sub(r"\$\{?(\w+)\}?", lambda match: chosen[match[1]], target["expr"])
                answer = get(f"{address}/api/v1/query", query=query)
                assert answer["data"]["result"], (panel["title"], query)
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                values = variable_values(address, variable, chosen)
                assert chosen[variable["name"]] in values, variable["name"]
    assert names == {"datasource", *chosen} - {"__range"}


def variable_values(address: str, variable: dict[str, Any], chosen: dict[str, str]) -> set[str]:
    """What Grafana would offer: `label_values(SELECTOR, LABEL)`, through the variable's regular expression."""
    query = re.sub(r"\$\{?(\w+)\}?", lambda match: chosen[match[1]], variable["query"])
    selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", query).groups()  # type: ignore[union-attr]
    values = get(f"{address}/api/v1/label/{label}/values", **{"match[]": selector})["data"]
    if pattern := variable.get("regex", "").strip("/"):
        return {found[1] for one in values if (found := re.fullmatch(pattern, one))}
    return set(values)
