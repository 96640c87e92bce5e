"""Attacks by commands of an experiment file: where a guest shares the machine's files they change nothing of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import container_world as containers
import machine_world as machines
import pytest
import testbed_world as worlds
from test_testbed_privileges import ROOT, as_nobody, has_control_groups

from virtlab.cli.main import main
from virtlab.experiment import load_text
from virtlab.plan import Outcome, Plan, Trial
from virtlab.planner import plan_run
from virtlab.testbed import Testbed
from virtlab.testbed.build import routing
from virtlab.testbed.kinds import container_runtime as runtime
from virtlab.testbed.vswitches import ovs

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))

ROUTERS = Path(__file__).parents[2] / "experiments" / "virtual-routers" / "quick.yaml"
SECRET = "hunter2"
KEYCTL = {"x86_64": "250", "aarch64": "219"}.get(os.uname().machine, "-1")
# Each line says what worked; nothing of it may. Values that are written are those that were there.
ATTACKS = """
try() { name=$1; shift; if ("$@") >/dev/null 2>&1; then echo "$name worked"; fi; }
write() { echo x > "$1"; }
same() { v=$(cat "$1") && echo "$v" > "$1"; }
raise() { unshare --user --map-root-user --mount sh -c "$1"; }
for folder in /home /root /run /tmp /var/tmp .; do
    for file in $(ls -A $folder); do echo "$folder has $file"; done
done
try 'a file of the system' write /etc/virtlab-attack
try 'a file of the programs' write /usr/bin/virtlab-attack
try 'a file beside the experiment' write PLACE/attack
try 'a file in /dev' write /dev/attack
try 'a value of the kernel' same /proc/sys/kernel/threads-max
try 'its own control group' mkdir /sys/fs/cgroup/virtlab-attack /sys/fs/cgroup/memory/virtlab-attack
try 'a disk' ls /dev/sda /dev/vda /dev/nvme0n1 /dev/mem
try 'a device of its own' mknod /tmp/disk b 8 0
try 'a mount' mount -t tmpfs none /mnt
try 'a writable root' mount -o remount,rw,bind /
try 'the root below' umount -l /tmp
try 'a writable root in a user namespace' raise 'mount -o remount,rw,bind / || mount -o remount,rw,bind /usr'
try 'the folders below in a user namespace' raise 'umount -l /tmp || umount -l /run'
try 'another user' setpriv --reuid 1234 true
try 'a root of its own' chroot / true
try 'the files of the leader' ls /proc/1/root/proc/1/root/
try 'the memory of the first process' head -c 1 /proc/1/mem
try 'the descriptors of the first process' sh -c 'ls /proc/1/fd/* | grep .'
try 'descriptors of its own' ls /proc/self/fd/3 /proc/self/fd/4
try 'the keyring of the user' /usr/bin/python3 -c "
import ctypes
found = ctypes.CDLL(None).syscall(KEYCTL, 0, -4, 1)  # KEYCTL_GET_KEYRING_ID of KEY_SPEC_USER_KEYRING
raise SystemExit(found == -1)"
try 'processes of the world' grep -lE 'probe|switch' /proc/[0-9]*/cmdline
cat NAMED 2>/dev/null
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that everybody may write to and is none of the empty ones; secrets lie in two of those."""
    with tempfile.TemporaryDirectory(dir="/var/lib" if os.geteuid() == 0 else None) as folder:
        path = Path(folder)
        path.chmod(0o777)
        with tempfile.NamedTemporaryFile(dir=Path.home()) as named, tempfile.NamedTemporaryFile() as beside:
            for file in (named, beside):
                file.write(SECRET.encode())
                file.flush()
            (path / "script").write_text(
                ATTACKS.replace("PLACE", folder)
                .replace("NAMED", f"{named.name} {beside.name}")
                .replace("(KEYCTL,", f"({KEYCTL},")
            )
            yield path


def played(world: dict[str, Any], argv: list[str], **more: Any) -> tuple[Outcome, worlds.MemorySink]:
    action = {"id": "attack", "do": "exec", "guest": "a", "argv": argv, **more}
    after = {"id": "after", "do": "wait", "for_ns": 1, "after": {"any": ["attack.finished", "attack.failed"]}}
    with Testbed().open(worlds.plan(world, timeline=[action, after]), worlds.Patient()) as session:
        sink = worlds.MemorySink()
        return session.run(Trial("t0", 1), sink), sink


def attack(world: dict[str, Any], place: Path) -> None:
    outcome, sink = played(world, ["sh", str(place / "script")])
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert sink.artefacts.get("attack.out", b"") == b""
    assert sink.artefacts.get("attack.err", b"") == b""
    assert [path.name for path in place.iterdir()] == ["script"]


def at_once(work: Callable[[], None]) -> str:
    work()
    return ""


@pytest.mark.parametrize("by", [at_once, pytest.param(as_nobody, marks=ROOT)])
@pytest.mark.parametrize("world", [worlds.bridged, worlds.native])
def test_a_command_changes_nothing_of_the_machine(
    world: Callable[[], dict[str, Any]], by: Callable[[Callable[[], None]], str], place: Path
) -> None:
    assert by(lambda: attack(world(), place)) == ""


@pytest.mark.parametrize("by", [at_once, pytest.param(as_nobody, marks=ROOT)])
@pytest.mark.parametrize("world", [worlds.bridged, worlds.native])
def test_a_command_finds_the_callers_working_folder_empty(
    world: Callable[[], dict[str, Any]],
    by: Callable[[Callable[[], None]], str],
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Secrets often lie beside the experiment; where the folder is one of the system's, it cannot be hidden."""
    (place / "script").write_text(SECRET)

    def look() -> None:
        monkeypatch.chdir(place)
        outcome, sink = played(world(), ["sh", "-c", f"ls -A {place}; cat {place}/script; echo seen"])
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert sink.artefacts["attack.out"] == b"seen\n"
        monkeypatch.chdir("/usr")
        outcome, sink = played(world(), ["sh", "-c", f"cat {place}/script"])
        assert sink.artefacts["attack.out"] == SECRET.encode()

    assert by(look) == ""


@pytest.mark.parametrize("by", [at_once, pytest.param(as_nobody, marks=ROOT)])
def test_a_command_is_told_nothing_of_the_callers_environment(
    by: Callable[[Callable[[], None]], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)

    def look() -> None:
        outcome, sink = played(worlds.bridged(), ["env"])
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        names = {line.partition("=")[0] for line in sink.artefacts["attack.out"].decode().splitlines()}
        assert names <= {"PATH", "HOME", "TERM", "LANG"}

    assert by(look) == ""


def on_open_vswitch() -> dict[str, Any]:
    world = worlds.bridged()
    for vswitch in world["vswitches"].values():
        vswitch["kind"] = "ovs-netdev"
    return world


def in_containers(by: str) -> Plan:
    return worlds.echo_plan(containers.containers(worlds.bridged(), runtime=by), count=2)


def with_a_service() -> Plan:
    service = {"kind": "program", "on": ["b"], "argv": ["sleep", "1000"]}
    return worlds.echo_plan({**worlds.bridged(), "services": {"server": service}}, count=2)


def with_routers() -> Plan:
    text = ROUTERS.read_text().replace('licence: "${licence}"}', 'licence: "${licence}", routing: ospf}')
    experiment = load_text(text, name="ospf")
    return plan_run(experiment, experiment.points()[0], 0)


KINDS: dict[str, tuple[Callable[[], str | None], Callable[[], Plan], str]] = {
    "namespace": (worlds.missing, lambda: worlds.echo_plan(worlds.bridged(), count=2), "virtlab-agent"),
    **{
        name: (partial(runtime.missing, name), partial(in_containers, name), name)
        for name in ("runc", "crun", "podman")
    },
    "qemu": (
        machines.missing,
        lambda: worlds.echo_plan(machines.machines(worlds.bridged()), count=2),
        "qemu-system",
    ),
    "ovs": (ovs.missing, lambda: worlds.echo_plan(on_open_vswitch(), count=2), "ovs-vswitchd"),
    "service": (worlds.missing, with_a_service, "sleep"),
    "frr": (routing.missing, with_routers, "ospfd"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_no_process_of_the_world_has_the_callers_environment(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither agents, nor what runs containers and machines, nor daemons, nor what runs in guests."""
    missing, plan, program = KINDS[kind]
    if (why := worlds.missing() or missing()) is not None:
        pytest.skip(why)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with Testbed().open(plan(), worlds.Patient()) as session:
        if kind != "frr":  # whose file measures for longer; its daemons run from the start
            session.run(Trial("t0", 1), worlds.MemorySink())
        mine = family(os.getpid())
        assert len(mine) >= 3  # the leader's two and probes, at least
        assert any(program in Path(f"/proc/{pid}/cmdline").read_text() for pid in mine)
        for pid in mine:
            assert SECRET.encode() not in Path(f"/proc/{pid}/environ").read_bytes()


@ROOT
def test_a_command_has_two_powers_over_its_network_and_gains_no_others() -> None:
    outcome, sink = played(
        worlds.bridged(), ["grep", "-E", "^(Cap(Prm|Eff|Bnd)|NoNewPrivs)", "/proc/self/status"]
    )
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    status = dict(line.split(":\t") for line in sink.artefacts["attack.out"].decode().splitlines())
    net_admin_and_net_raw = 1 << 12 | 1 << 13
    sets = [int(status[name], 16) for name in ("CapPrm", "CapEff", "CapBnd")]
    assert sets == [net_admin_and_net_raw] * 3
    assert status["NoNewPrivs"] == "1"


def family(pid: int) -> list[int]:
    """All descendants of a process."""
    text = " ".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children"))
    return [each for child in map(int, text.split()) for each in (child, *family(child))]


@pytest.mark.parametrize("by", [at_once, pytest.param(as_nobody, marks=ROOT)])
def test_a_command_still_has_what_it_is_for(by: Callable[[Callable[[], None]], str]) -> None:
    """Its guest's network and its settings, room for files of its own, and an end that is told as it was."""
    useful = (
        "ip link set eth0 txqueuelen 77 && ip route flush cache && echo 7 > /proc/sys/net/ipv4/ip_default_ttl"
        " && echo kept > /tmp/file && cat /tmp/file > /dev/shm/file && cat /dev/shm/file; kill -9 $$"
    )

    def use() -> None:
        _, sink = played(worlds.bridged(), ["sh", "-c", useful])
        assert sink.artefacts["attack.out"] == b"kept\n", sink.artefacts
        ends = [event.details["ended"] for event in sink.events if event.what == "attack.failed"]
        assert ends == ["signal 9"]

    assert by(use) == ""


def test_a_command_that_is_given_up_takes_its_children_along() -> None:
    world = worlds.bridged()
    action = {
        "id": "attack", "do": "exec", "guest": "a", "argv": ["sh", "-c", "sleep 4321 & sleep 4321"],
        "timeout_ns": 300_000_000, "on_timeout": "censor",
    }  # fmt: skip
    after = {"id": "after", "do": "wait", "for_ns": 1, "after": {"event": "attack.timeout"}}
    with Testbed().open(worlds.plan(world, timeline=[action, after]), worlds.Patient()) as session:
        outcome = session.run(Trial("t0", 1), worlds.MemorySink())
        assert outcome.censored == ("attack",)
        lines = [
            path.read_bytes()
            for pid in family(os.getpid())
            if (path := Path(f"/proc/{pid}/cmdline")).exists()
        ]
        assert b"sleep\x004321\x00" not in lines


@ROOT
@pytest.mark.skipif(not has_control_groups(), reason="no control groups for CPU and memory are mounted here")
@pytest.mark.parametrize("world", [worlds.bridged, worlds.native])
def test_the_limits_of_a_guest_hold_its_commands(world: Callable[[], dict[str, Any]]) -> None:
    bounded = world()
    bounded["guests"]["a"] |= {"memory_bytes": 32 << 20, "cpu_quota_ratio": 0.1}
    hold = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; head -c 300000000 /dev/zero | tail -c 300000000 | wc -c"
    action = {"id": "hold", "do": "exec", "guest": "a", "argv": ["sh", "-c", hold]}
    plan = worlds.plan(bounded, timeline=[action], collect={"counters": ["guests"]})
    with Testbed().open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        session.run(Trial("t0", 1), sink)
    assert sink.artefacts["hold.out"] == b"0\n"
    assert sink.counters("end")["guests.a", "throttled_ns"] > 0


FILE = """
version: 1
name: look
hosts: 2
topology: {shape: line, switches: 1}
link: {rate: 100 Mbit/s}
repeat: 2
roles:
  probe: {workload: rtt, from: h1.g1, to: h2.g1, size: 100 B ip_packet, interval: 1 ms, count: 2}
timeline:
  - {id: look, do: exec, guest: h1.g1, argv: [sh, -c, "cat /proc/net/dev; env"]}
  - {id: measure, do: run, role: probe, after: look.done}
"""


def test_a_campaign_goes_on_only_with_the_same_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.chdir(tmp_path)
    Path("look.yaml").write_text(FILE)
    for words, code in (
        (("--allow-exec", "--max-runs", "1"), {0, 4}),
        ((), {2}),
        (("--allow-exec",), {0, 4}),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["run", "look.yaml", "--no-report", *words])
        assert ended.value.code in code, capsys.readouterr()
    runs = list(Path("look.results/runs").iterdir())
    assert len(runs) >= 2
    for run in runs:
        said = (run / "artefacts/look.out").read_text()
        assert "eth0" in said
        assert SECRET not in said


REACHED = """
for process in /proc/[0-9]*; do
    case $(readlink $process/exe) in *virtlab-agent*) echo "# $process is the agent's";; esac
    [ -w $process/exe ] && echo "# $process can be written"
done
echo rate 1
"""


@pytest.mark.parametrize("by", [at_once, pytest.param(as_nobody, marks=ROOT)])
@pytest.mark.parametrize("world", [worlds.bridged, worlds.native])
def test_a_program_reaches_no_file_of_the_machine_through_what_polls_beside_it(
    world: Callable[[], dict[str, Any]], by: Callable[[Callable[[], None]], str]
) -> None:
    read = {"unit": "count", "better": "higher"}
    metrics = {
        "rate": {"prometheus": "rate", **read},
        "held": {"json": "$", "file": "/proc/sys/kernel/pid_max", "every": "10 ms", **read},
    }
    role = {
        "from": "a", "to": "b", "workload": "program", "argv": ["sh", "-c", REACHED], "timeout_ns": 60 * 10**9,
        "metrics": metrics,
    }  # fmt: skip

    def play() -> None:
        timeline = [{"id": "attack", "do": "run", "role": "thief"}]
        plan = worlds.plan(world(), roles={"thief": role}, timeline=timeline)
        with Testbed().open(plan, worlds.Patient()) as session:
            sink = worlds.MemorySink()
            outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert sink.artefacts["attack.out"] == b"rate 1\n"

    assert by(play) == ""
