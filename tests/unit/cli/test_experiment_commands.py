"""`virtlab check, plan, schema, init` as a person calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from virtlab.cli.main import main
from virtlab.experiment import load
from virtlab.experiment.templates import TEMPLATES

ROOT = Path(__file__).parents[3]
QUICK = ROOT / "experiments" / "switched-network" / "quick.yaml"
WRONG = ROOT / "tests" / "golden" / "experiments" / "wrong" / "many.yaml"


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


@pytest.mark.slow
def test_check_says_what_a_file_amounts_to(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, "check", str(QUICK))
    assert code == 0
    assert "no mistakes" in out
    assert "6 design points" in out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["rnu"], "virtlab: No such command 'rnu'. Did you mean 'run'?; see `virtlab --help`"),
        (["xyzzy"], "virtlab: No such command 'xyzzy'; see `virtlab --help`"),
        (
            ["rt", "analyse"],
            "virtlab: rt: No such command 'analyse'. Did you mean 'analyze'?; see `virtlab rt --help`",
        ),
    ],
)
def test_a_command_that_there_is_not_is_one_line(
    capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    code, out, err = called(capsys, *words)
    assert (code, out, err.strip()) == (2, "", told)


@pytest.mark.slow
def test_check_as_json_holds_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, "check", str(QUICK), "--json")
    values = json.loads(out)
    assert (code, values["ok"], values["points"], values["switches"]) == (0, True, 6, [1, 2])
    assert values["roles"] == {"probe": "rtt", "stream": "udp_stream", "load": "burst_load"}


@pytest.mark.slow
def test_check_lists_what_a_file_names_and_this_machine_holds(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "named.yaml"
    file.write_text(
        "version: 1\nname: named\ntitle: Hosts that exist, and a router of somebody else's\n"
        "hosts:\n  h1: {platform: ssh, address: root@lab-a}\n  h2: {platform: ssh, address: lab-b}\n"
        "roles:\n  probe: {workload: rtt, from: h1.g1, to: h2.g1, size: 1000 B ip_packet, interval: 20 ms, count: 5}\n"
    )
    code, out, _ = called(capsys, "check", str(file), "--json")
    assert code == 0
    assert json.loads(out)["installed"] == ["ssh lab-b", "ssh root@lab-a"]
    file.write_text(
        "version: 1\nname: named\ntitle: A router of somebody else's\nhosts: {h1: {}, h2: {}}\n"
        "routers:\n  r1: {platform: appliance, image: openwrt}\n"
        "links:\n  l1: {ends: [h1, r1], rate: 100 Mbit/s}\n  l2: {ends: [r1, h2], rate: 100 Mbit/s}\n"
        "roles:\n  probe: {workload: rtt, from: h1.g1, to: h2.g1, size: 1000 B ip_packet, interval: 20 ms, count: 5}\n"
    )
    code, out, _ = called(capsys, "check", str(file))
    assert (code, "installed appliance openwrt" in out) == (0, True), out


@pytest.mark.slow
def test_check_of_a_wrong_file_ends_with_2_and_lists_every_mistake(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, _, err = called(capsys, "check", str(WRONG))
    assert code == 2
    assert all(line in err for line in WRONG.with_suffix(".txt").read_text().splitlines())
    code, out, _ = called(capsys, "check", str(WRONG), "--json")
    assert code == 2
    assert len(json.loads(out)["mistakes"]) == len(WRONG.with_suffix(".txt").read_text().splitlines())


@pytest.mark.slow
def test_plan_lists_every_run_once_in_seeded_order(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = called(capsys, "plan", str(QUICK), "--json")
    values = json.loads(out)
    runs = [(run["point"], run["repetition"]) for run in values["order"]]
    assert code == 0
    assert sorted(runs) == [(point, repetition) for point in range(6) for repetition in range(5)]
    assert runs != sorted(runs, key=lambda run: (run[1], run[0]))
    assert runs[:6] == [(point, 0) for point, _ in runs[:6]]
    assert json.loads(called(capsys, "plan", str(QUICK), "--json")[1]) == values


@pytest.mark.slow
def test_plan_of_a_point_holds_the_plan_and_its_steps_with_reasons(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = called(capsys, "plan", str(QUICK), "--point", "4", "--repetition", "1", "--json")
    values = json.loads(out)
    assert code == 0
    assert values["plan"]["repetition"] == 1
    assert values["plan"]["point"] == {"switches": "2", "load": "30 kB"}
    assert all(step["because"] and step["file"] for step in values["steps"])
    code, text, _ = called(capsys, "plan", str(QUICK), "--point", "4")
    assert "<= hosts.h1.guests.g1" in text


@pytest.mark.slow
def test_plan_of_no_such_point_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = called(capsys, "plan", str(QUICK), "--point", "6")
    assert code == 2
    assert "from 0 to 5" in err


@pytest.mark.slow
@pytest.mark.parametrize("kind", TEMPLATES)
def test_init_writes_a_study_that_passes_the_check(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "my-study"
    assert called(capsys, "init", str(folder), "--template", kind)[0] == 0
    experiment = load(folder / "experiment.yaml")
    assert experiment.name == "my-study"
    assert experiment.claims
    assert json.loads((folder / "virtlab.schema.json").read_text())["title"] == "virtlab experiment"


@pytest.mark.slow
def test_init_overwrites_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "experiment.yaml").write_text("precious")
    code, _, err = called(capsys, "init", str(tmp_path / "mine"))
    assert code == 2
    assert "nothing is overwritten" in err
    assert (tmp_path / "mine" / "experiment.yaml").read_text() == "precious"
    assert not (tmp_path / "mine" / "virtlab.schema.json").exists()


def test_init_refuses_a_folder_that_names_no_experiment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = called(capsys, "init", str(tmp_path / "My Study"))
    assert code == 2
    assert "is not a valid name" in err


@pytest.mark.slow
def test_schema_is_written_or_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(called(capsys, "schema")[1])["$schema"].endswith("2020-12/schema")
    assert called(capsys, "schema", "--output", str(tmp_path / "s.json"))[0] == 0
    assert json.loads((tmp_path / "s.json").read_text())["type"] == "object"
