"""What a container may ask of the kernel: a list of system calls, and never what makes namespaces, keys or file
systems.
"""

from __future__ import annotations

import io
import platform
import struct
import tarfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from virtlab.errors import VirtlabError
from virtlab.experiment import load_text
from virtlab.planner import plan_run
from virtlab.testbed.kinds.user_namespaces import users_of
from virtlab.testbed.platforms.container import engine, seccomp
from virtlab.testbed.platforms.container.bundle import Bundle, Limits, archive

FILE = """
version: 1
name: filtered
factors: {seccomp: [default, none]}
hosts: {h1: {guests: 1, platform: container, seccomp: "${seccomp}"}, h2: {}}
topology: line
link: {rate: 100 Mbit/s}
roles: {probe: {workload: rtt, from: h1.g1, to: h2.g1, size: 100 B payload, interval: 10 ms, count: 10}}
"""
ESCAPES = {
    "mount", "umount2", "pivot_root", "fsmount", "move_mount", "unshare", "setns", "bpf", "perf_event_open", "userfaultfd",
    "keyctl", "add_key", "open_by_handle_at", "init_module", "finit_module", "kexec_load", "reboot", "iopl",
    "clock_settime", "settimeofday", "io_uring_setup", "fanotify_init",
}  # fmt: skip
ALLOW, ERRNO = 0x7FFF_0000, 0x0005_0000
X86_64, I386 = 0xC000_003E, 0x4000_0003  # AUDIT_ARCH_*
NAMESPACES = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)


def bundle(*, filtered: bool) -> Bundle:
    limits = Limits(pids=2048)
    return Bundle("a", "/agent", None, None, limits, "/virtlab-1/a", filtered=filtered)


def test_what_no_guest_needs_is_refused_and_what_nobody_knows_is_not_there() -> None:
    found = seccomp.profile()
    allowed, refused = found["syscalls"][:2]
    assert (found["defaultAction"], found["defaultErrnoRet"]) == ("SCMP_ACT_ERRNO", 38)
    assert set(refused["names"]) >= ESCAPES
    assert (refused["action"], refused["errnoRet"]) == ("SCMP_ACT_ERRNO", 1)
    assert set(allowed["names"]).isdisjoint({*refused["names"], "clone", "clone3", "socket", "personality"})
    assert {"read", "execve", "sendmmsg", "sched_setattr", "mlockall"} <= set(allowed["names"])
    clone = next(each for each in found["syscalls"] if each["names"] == ["clone"])
    (argument,) = clone["args"]
    assert argument["op"] == "SCMP_CMP_MASKED_EQ"
    assert argument["valueTwo"] == 0
    assert all(flag & argument["value"] for flag in NAMESPACES)


def test_a_container_of_root_has_an_end_of_processes() -> None:
    assert bundle(filtered=True).config()["linux"]["resources"]["pids"] == {"limit": 2048}


def test_the_filter_is_a_factor_that_both_kinds_of_runtime_know() -> None:
    experiment = load_text(FILE)
    guests = [plan_run(experiment, point, 0).world.guests["h1.g1"] for point in experiment.points()]
    assert [guest.seccomp for guest in guests] == ["default", "none"]
    unfiltered = bundle(filtered=False).config()
    assert "seccomp" not in unfiltered["linux"]
    assert "--filter" not in unfiltered["process"]["args"]
    assert "seccomp=unconfined" in engine.run("podman", "/mnt", 0, bundle(filtered=False))
    assert "seccomp=unconfined" not in engine.run("podman", "/mnt", 0, bundle(filtered=True))


def test_the_runtime_filters_where_nothing_compiles_the_filter_for_the_agent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for program in (None, bytes(8)):
        monkeypatch.setattr(seccomp, "program", lambda program=program: program)
        config = bundle(filtered=True).config("/mnt")
        assert config["linux"].get("seccomp") == (seccomp.profile() if program is None else None)
        assert ("--filter" in config["process"]["args"]) == (program is not None)
        sources = {each["destination"]: each["source"] for each in config["mounts"]}
        assert sources.get("/virtlab-filter") == (None if program is None else "/mnt/virtlab-filter")
        with tarfile.open(fileobj=io.BytesIO(archive([bundle(filtered=True)], []))) as tar:
            assert ("virtlab-filter" in tar.getnames()) == (program is not None)


def answer(program: bytes, number: int, arguments: tuple[int, ...] = (), architecture: int = X86_64) -> int:
    """What the kernel answers to a system call: classic BPF, as far as filters of system calls use it (bpf(4))."""
    data = struct.pack("<iIQ6Q", number, architecture, 0, *(*arguments, 0, 0, 0, 0, 0, 0)[:6])
    instructions = [struct.unpack("<HBBI", program[at : at + 8]) for at in range(0, len(program), 8)]
    at = held = 0
    while True:
        code, yes, no, k = instructions[at]
        at += 1
        match code:
            case 0x20:  # BPF_LD | BPF_W | BPF_ABS
                (held,) = struct.unpack_from("<I", data, k)
            case 0x54:  # BPF_ALU | BPF_AND | BPF_K
                held &= k
            case 0x05:  # BPF_JMP | BPF_JA
                at += k
            case 0x15:  # BPF_JMP | BPF_JEQ | BPF_K
                at += yes if held == k else no
            case 0x25:  # BPF_JMP | BPF_JGT | BPF_K
                at += yes if held > k else no
            case 0x35:  # BPF_JMP | BPF_JGE | BPF_K
                at += yes if held >= k else no
            case 0x06:  # BPF_RET | BPF_K
                return k
            case _:
                raise AssertionError(f"instruction {code:#x}")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of system calls here are those of x86_64")
@pytest.mark.skipif(
    seccomp.program() is None, reason="libseccomp is not here: the runtime compiles the filter"
)
def test_the_compiled_filter_answers_as_the_profile_says() -> None:
    program = seccomp.program()
    assert program is not None
    numbers = {"read": 0, "execve": 59, "futex": 202, "sendmmsg": 307, "openat2": 437}
    assert {answer(program, number) for number in numbers.values()} == {ALLOW}
    refused = {"mount": 165, "unshare": 272, "setns": 308, "bpf": 321, "io_uring_setup": 425}
    assert {answer(program, number) for number in refused.values()} == {ERRNO | 1}
    assert {answer(program, number) for number in (435, 1000, 2000)} == {ERRNO | 38}, (
        "clone3, and what nobody knows"
    )
    socket, clone, personality = 41, 56, 135
    assert answer(program, socket, (2, 1, 0)) == ALLOW
    assert answer(program, socket, (40, 1, 0)) == ERRNO | 38, "AF_VSOCK leads out"
    assert answer(program, clone, (0x1200011,)) == ALLOW
    assert {answer(program, clone, (flag | 0x11,)) for flag in NAMESPACES} == {ERRNO | 38}
    assert answer(program, personality, (0xFFFF_FFFF,)) == ALLOW
    assert answer(program, personality, (0x0400000,)) == ERRNO | 38, "READ_IMPLIES_EXEC"
    assert answer(program, 3, architecture=I386) == ALLOW, "read of 32 bits"
    assert answer(program, 21, architecture=I386) == ERRNO | 1, "mount of 32 bits"
    assert answer(program, 0, architecture=0xC000_00B7) not in {ALLOW, ERRNO | 38}, "another architecture"


def test_other_guests_have_no_filter_to_choose() -> None:
    with pytest.raises(VirtlabError, match="are not filtered"):
        load_text(FILE.replace("platform: container", "platform: namespace"))


def test_users_of_its_own_are_a_factor_and_no_two_containers_share_them() -> None:
    text = FILE.replace("seccomp", "user_namespace").replace("[default, none]", "[none, own]")
    text = text.replace("guests: 1", "guests: 3")
    experiment = load_text(text)
    without, plan = (plan_run(experiment, point, 0) for point in experiment.points())
    assert {guest.user_namespace for name, guest in plan.world.guests.items() if name != "h2.g1"} == {"own"}
    assert users_of(without) == {}
    ranges = sorted((users.first, users.first + users.count) for users in users_of(plan).values())
    assert len(ranges) == 3
    assert ranges[0][0] > 2**29, "beyond the users of machines"
    assert all(end <= begin for (_, end), (begin, _) in pairwise(ranges))
    joined = replace(bundle(filtered=True), users=users_of(plan)["h1.g1"]).config("/mnt")["linux"]
    assert {"type": "user", "path": "/proc/self/fd/4"} in joined["namespaces"]
    assert joined["uidMappings"] == joined["gidMappings"]
    assert "user" not in {each["type"] for each in bundle(filtered=True).config()["linux"]["namespaces"]}


def test_other_guests_have_no_users_to_choose() -> None:
    text = FILE.replace("seccomp", "user_namespace").replace("[default, none]", "[none, own]")
    with pytest.raises(VirtlabError, match="have no users of their own to choose"):
        load_text(text.replace("platform: container", "platform: namespace"))


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "riscv64"])
def test_every_architecture_has_a_profile(machine: str) -> None:
    found = seccomp.profile(machine)
    assert found.get("architectures", [])[:1] == {
        "x86_64": ["SCMP_ARCH_X86_64"], "aarch64": ["SCMP_ARCH_AARCH64"], "riscv64": [],
    }[machine]  # fmt: skip


def test_the_list_is_shipped_with_the_package() -> None:
    assert (Path(seccomp.__file__).parent / "seccomp.toml").is_file()
