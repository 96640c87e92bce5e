"""What failed for a moment is not given up for ever: what the machine fails by is no attempt, and others can be
forgiven.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.contract.closed_form import ClosedForm
from tests.contract.small_campaign import POINTS, campaign, opened
from virtlab._native import encode_frame

from virtlab.agents.requests.every import ReadClock
from virtlab.campaign.loop.schedule import Finished, Schedule
from virtlab.cli.experiment import run as command
from virtlab.cli.main import main
from virtlab.errors import MachineError
from virtlab.plan import Plan
from virtlab.results import Dataset, RunKey
from virtlab.testbed.leader.control import Control, RefusedError
from virtlab.testbed.leader.shortage import open_files

GOLDEN = Path(__file__).parents[1] / "golden" / "plans" / "switched_network.json"

FILE = """
version: 1
name: two
factors: {switches: [1, 2]}
hosts: 2
topology: {shape: line, switches: "${switches}"}
link: {rate: 100 Mbit/s}
roles:
  probe: {workload: rtt, from: h1.g1, to: h2.g1, size: 1500 B ip_packet, interval: 10 ms, count: 20}
repeat: 2
"""


class Broken(ClosedForm):
    """A machine that can build no world until it is mended."""

    mended = False

    def __init__(self) -> None:
        super().__init__(disturb=lambda _plan, _n: "ok" if self.mended else "machine")


@pytest.mark.slow
def test_a_failure_of_the_machine_stops_the_campaign_and_is_no_attempt(tmp_path: Path) -> None:
    for made in (3, 1, 1, 1, 1):  # more often than a run has attempts
        backend = ClosedForm(disturb=lambda _plan, n, good=made - 1: "machine" if n >= good else "ok")
        with opened(tmp_path / "d", backend) as dataset:
            ending = campaign(dataset, backend, repetitions=2).run()
            assert (ending.why, ending.made) == ("machine failure", made)
            assert ending.failure == "world: the machine cannot now; mend the machine"
            assert ending.lacking.get(0) != "every attempt at a repetition failed (0 good runs)"
    with opened(tmp_path / "d", ClosedForm()) as dataset:
        ending = campaign(dataset, ClosedForm(), repetitions=2).run()
        assert (ending.why, ending.made, ending.lacking) == ("complete", 6, {})
        assert len(dataset.runs("ok")) == 8
        failed = dataset.runs("failed")
        assert [record.attempt for record in failed] == [0, 1, 2, 3, 4]
        assert {record.blame for record in failed} == {"machine"}
        assert json.loads((failed[0].folder / "run.json").read_text())["blame"] == "machine"


@pytest.mark.slow
def test_the_command_says_so_in_one_line_with_3_and_goes_on_once_it_is_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setitem(command.BACKENDS, "broken", f"{__name__}:Broken")
    (tmp_path / "two.yaml").write_text(FILE)
    words = ["run", "two.yaml", "--backend", "broken", "--no-report", "--json"]
    codes, lines = [], []
    for mended in (False, False, False, False, True):
        monkeypatch.setattr(Broken, "mended", mended)
        with pytest.raises(SystemExit) as ended:
            main(words)
        codes.append(ended.value.code or 0)
        lines.append(capsys.readouterr().err.splitlines())
    assert codes == [3, 3, 3, 3, 0]
    assert lines[-1] == []
    assert lines[0] == [f"virtlab: world: the machine cannot now; mend the machine; {command.RESUMES}"]


@pytest.mark.slow
def test_a_point_that_was_given_up_gets_new_attempts_where_that_is_asked(tmp_path: Path) -> None:
    def fails(plan: Plan, _n: int) -> str:
        return "raise" if plan.point["switches"] == "2" else "ok"

    with opened(tmp_path / "d", ClosedForm(disturb=fails)) as dataset:
        ending = campaign(dataset, ClosedForm(disturb=fails), repetitions=2).run()
        assert (ending.why, list(ending.lacking)) == ("complete", [2])
    with opened(tmp_path / "d", ClosedForm()) as dataset:
        assert campaign(dataset, ClosedForm(), repetitions=2).run().made == 0
        ending = campaign(dataset, ClosedForm(), repetitions=2, retry=True).run()
        assert (ending.made, ending.lacking) == (2, {})
        assert [record.attempt for record in dataset.runs("ok") if record.point == 2] == [3, 0]
    with opened(tmp_path / "d", ClosedForm()) as dataset:
        assert campaign(dataset, ClosedForm(), repetitions=2).run().lacking == {}, "without asking again"


class Failing(ClosedForm):
    """One that fails at the second design point until its cause is gone."""

    mended = False

    def __init__(self) -> None:
        super().__init__(disturb=lambda plan, _n: self.outcome(plan))

    def outcome(self, plan: Plan) -> str:
        return "raise" if plan.point["switches"] == "2" and not self.mended else "ok"


@pytest.mark.slow
def test_the_command_gives_new_attempts_only_where_that_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setitem(command.BACKENDS, "failing", f"{__name__}:Failing")
    (tmp_path / "two.yaml").write_text(FILE)

    def run(*more: str) -> tuple[object, int]:
        with pytest.raises(SystemExit) as ended:
            main(["run", "two.yaml", "--backend", "failing", "--no-report", "--json", *more])
        capsys.readouterr()
        with Dataset.open(tmp_path / "two.results") as dataset:
            return ended.value.code or 0, len(dataset.runs("ok"))

    assert run() == (4, 2)
    monkeypatch.setattr(Failing, "mended", True)
    assert run() == (4, 2), "given up, and not tried again without a word"
    assert run("--retry") == (0, 4)
    assert run() == (0, 4)


def test_excused_runs_shift_the_number_of_an_attempt_and_not_their_count() -> None:
    schedule = Schedule(7, POINTS, 1, 1, selected=frozenset({0}))
    history = Finished()
    for attempt, status in enumerate(("excused", "failed", "excused", "tainted", "excused")):
        history[RunKey(0, 0, attempt)] = status  # type: ignore[assignment]
        assert schedule.next(history) == RunKey(0, 0, attempt + 1)
    history[RunKey(0, 0, 5)] = "failed"
    assert schedule.next(history) == RunKey(0, 1, 0), "given up, and a spare one for it"


@pytest.mark.process
def test_a_limit_of_open_files_is_compared_with_the_world_before_it_is_built() -> None:
    plan = Plan.model_validate_json(GOLDEN.read_text(encoding="utf-8"))
    needed = open_files(plan)
    more = plan.model_copy(
        update={
            "world": plan.world.model_copy(
                update={"hosts": {f"h{n}": h for n, h in enumerate([*plan.world.hosts.values()] * 50)}}
            )
        }
    )
    assert open_files(more) > needed + 50
    code = (
        f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({needed - 1}, {needed - 1}))\n"
        "import sys; from pathlib import Path; from virtlab.plan import Plan\n"
        "from virtlab.testbed.backend import Testbed\n"
        "found = Testbed().check(Plan.model_validate_json(Path(sys.argv[1]).read_text()))\n"
        "print(*(f'{each.path}: {each.reason}; {each.cure}' for each in found), sep='\\n')"
    )
    found = subprocess.run([sys.executable, "-c", code, GOLDEN], capture_output=True, text=True, check=True)
    what = f"this world needs {needed} open files, and {needed - 1} are allowed"
    assert found.stdout.splitlines() == [f"machine: {what}; raise the limit with 'ulimit -n {needed}'"]


@pytest.mark.parametrize(
    "what", ["no pipe: EMFILE: Too many open files", "ENOMEM", "no /dev/null (os error 24)"]
)
def test_what_an_agent_of_ours_ran_out_of_is_the_machines_and_what_a_guest_says_is_not(what: str) -> None:
    guest, probe = 64, 3
    for channel, kind in (
        (0, MachineError),
        (probe, MachineError),
        (guest, RefusedError),
        (guest + 1, RefusedError),
    ):
        ours, theirs = socket.socketpair()
        with theirs:
            control = Control(ours)
            control.begin(guest, 64)
            control.begin(probe, 1, leads=False)
            control.begin(guest + 1, 1, leads=False)
            asked = control.send(ReadClock(), channel=channel)
            body = json.dumps({"re": asked.number, "error": {"what": what}}).encode()
            theirs.sendall(encode_frame(channel, 0, body))
            with pytest.raises(kind):
                control.wait(asked)
            control.close()
