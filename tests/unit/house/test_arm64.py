"""What is demanded of the agent inside a wheel for another processor, and of a machine that tried it."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from tools import arm64, arm64_machine, platform_tag

HEADER = struct.Struct("<6s10xHHIQQQIHHHHHH")
SEGMENT = struct.Struct("<IIQQQQQQ")
LOAD, INTERPRETER = 1, 3


def program(*, machine: int = 183, interpreter: bytes = b"", fill: int = 0) -> bytes:
    """An ELF file whose loaded part is all of it; it asks for an interpreter if one is given."""
    count = 2 if interpreter else 1
    begin = HEADER.size + count * SEGMENT.size
    size = begin + len(interpreter) + fill
    head = HEADER.pack(
        b"\x7fELF\x02\x01", 2, machine, 1, 0, HEADER.size, 0, 0, HEADER.size, SEGMENT.size, count, 0, 0, 0
    )
    segments = SEGMENT.pack(LOAD, 5, 0, 0, 0, size, size, 4096)
    if interpreter:
        segments += SEGMENT.pack(INTERPRETER, 4, begin, begin, begin, len(interpreter), len(interpreter), 1)
    return head + segments + interpreter + bytes(fill)


def test_a_static_program_of_that_processor_is_accepted() -> None:
    arm64.verify(program())


@pytest.mark.parametrize(
    ("binary", "reason"),
    [
        (program(machine=62), "another processor"),
        (program(interpreter=b"/lib/ld-linux-aarch64.so.1\0"), "ld-linux-aarch64"),
        (program(fill=arm64.LARGEST_AGENT_BYTES), "5,000,"),
        (b"#!/bin/sh\n" * 20, "64 bits"),
    ],
)
def test_any_other_agent_is_refused(binary: bytes, reason: str) -> None:
    with pytest.raises(AssertionError, match=reason):
        arm64.verify(binary)


def test_a_program_that_needs_libraries_is_refused() -> None:
    python = bytearray(Path(sys.executable).resolve().read_bytes())
    python[18:20] = (183).to_bytes(2, "little")
    with pytest.raises(AssertionError, match="not static"):
        arm64.verify(bytes(python))


def test_an_agent_names_its_build_once() -> None:
    assert (
        arm64.build_of(b"\0\0 0.1.0+0123456789abcdef\0 0.1.0 0.1.0+0123456789abcdef")
        == "0.1.0+0123456789abcdef"
    )
    with pytest.raises(ValueError, match="unpack"):
        arm64.build_of(b"\0\0 0.1.0")


def answered(
    *, demo: int = 0, test: int = 0, verdict: str = "holds", runs: tuple[str, ...] = ("ok", "tainted")
) -> Any:
    """What a machine answers."""
    answers = {
        "simulator": {"verdicts": [{"id": "a", "verdict": verdict}]},
        "testbed": {"verdicts": [{"id": "a", "verdict": "undecided"}]},
    }
    told = {
        "machine": (0, "Linux 6.1 aarch64"), "test virtlab-agent": (test, "ok"), "version": (0, "virtlab 0.1.0"),
        "demo": (demo, json.dumps({"answers": answers})), "runs": (0, json.dumps(runs)),
    }  # fmt: skip
    return {what: {"what": what, "code": code, "out": out, "err": ""} for what, (code, out) in told.items()}


@pytest.mark.parametrize("code", [0, 4])
def test_a_slow_machine_may_leave_real_claims_undecided(
    code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    arm64_machine.judged(answered(demo=code))
    assert "1 of 2 real runs were good" in capsys.readouterr().out


@pytest.mark.parametrize(
    "answers",
    [
        answered(demo=1),
        answered(demo=3),
        answered(test=101),
        answered(verdict="refuted"),
        answered(runs=("ok", "failed")),
        answered(runs=()),
    ],
)
def test_a_machine_in_which_something_fails_is_refused(answers: Any) -> None:
    with pytest.raises(AssertionError):
        arm64_machine.judged(answers)


def test_a_machine_that_ends_early_is_refused() -> None:
    told = answered()
    del told["runs"]
    with pytest.raises(AssertionError, match="ended after"):
        arm64_machine.judged(told)


SHOWN = """\
virtlab-0.1.0-cp311-abi3-manylinux_2_28_{0}.whl is consistent with
the following platform tag: "{1}".
This constrains the platform tag to "{1}".
"""


@pytest.mark.parametrize("processor", ["x86_64", "aarch64"])
def test_a_wheel_must_be_for_the_platform_in_its_name(processor: str) -> None:
    name = f"virtlab-0.1.0-cp311-abi3-manylinux_2_28_{processor}.whl"
    platform_tag.judge(name, SHOWN.format(processor, f"manylinux_2_28_{processor}"))
    for other in (f"manylinux_2_34_{processor}", f"linux_{processor}", "manylinux_2_28_riscv64"):
        with pytest.raises(AssertionError, match=other):
            platform_tag.judge(name, SHOWN.format(processor, other))
    with pytest.raises(AssertionError, match="no platform"):
        platform_tag.judge(name, "")


def test_a_wheel_for_this_machine_is_not_for_an_index() -> None:
    with pytest.raises(AssertionError, match="not named"):
        platform_tag.judge("virtlab-0.1.0-cp311-abi3-linux_x86_64.whl", "")
