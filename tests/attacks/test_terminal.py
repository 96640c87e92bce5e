"""Terminal escapes and letters that turn the direction of writing, wherever they come from, reach no terminal."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest

from virtlab.campaign.progress import PlainProgress, Standing
from virtlab.cli.main import main
from virtlab.errors import MachineError
from virtlab.experiment import FileMistakesError, load_text
from virtlab.terminal import console, json_text, one_line, printable, say

ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e\u2066\x7f\r"
ORDER = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
STUDY = """
version: 1
name: right
hosts: 2
topology: line
factors: {load: [LEVEL, icmp]}
roles:
  probe: {workload: rtt, from: h1.g1, to: h2.g1, protocol: "${load}"}
"""


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def test_an_error_shows_the_characters_of_a_file_name_and_obeys_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = said(capsys, "check", str(tmp_path / f"a{ESCAPES}\nvirtlab: all is well"))
    assert code == 2
    assert not ORDER.search(out + err)
    assert len(err.splitlines()) == 1
    assert "␛[2J" in err


def test_a_mistake_quotes_a_key_of_the_file_without_its_orders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.yaml"
    file.write_text('version: 1\nname: x\n"key\\e[2J\\u202e": 1\n')
    code, out, err = said(capsys, "check", str(file))
    assert code == 2
    assert "line 3, column 1" in err
    assert not ORDER.search(out + err)


def test_json_for_programs_keeps_the_characters_as_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    text = json_text({"name": ESCAPES})
    assert not ORDER.search(text)
    assert json.loads(text) == {"name": ESCAPES}


def test_what_is_said_and_what_stands_in_tables_is_printable(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.table import Table
    from rich.text import Text

    say(f"name {ESCAPES}")
    say(f"name {ESCAPES}", err=True)
    table = Table(title=Text(ESCAPES))
    table.add_column(Text(f"head{ESCAPES}"))
    table.add_row(Text(f"cell{ESCAPES}"))
    console().print(table)
    console(stderr=True).print(f"line {ESCAPES}", markup=False)
    out, err = capsys.readouterr()
    assert "cell␛[2J" in out
    assert not ORDER.search(out + err)


def test_colours_of_a_console_stay(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    console().print("[red]refuted[/red]")
    assert "\x1b[31m" in capsys.readouterr().out


def test_the_holder_of_the_machine_lock_writes_no_orders_to_the_terminal_of_who_waits() -> None:
    stream = io.StringIO()
    progress = PlainProgress(stream, verbose=True)
    progress.waiting(f"pid 1, {ESCAPES}\nall done")  # type: ignore[arg-type]
    progress.progress(f"host {ESCAPES}")
    progress.run_begins(type("Key", (), {"name": "p0000"})(), {"load": ESCAPES}, Standing(0, 1, 1))  # type: ignore[arg-type]
    assert not ORDER.search(stream.getvalue())
    assert len(stream.getvalue().splitlines()) == 3


def test_a_traceback_shows_the_message_of_the_defect_without_orders(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(**_: object) -> None:
        raise RuntimeError(ESCAPES)

    monkeypatch.setattr("virtlab.cli.main.app", broken)
    code, _, err = said(capsys)
    assert code == 70
    assert not ORDER.search(err)


def test_an_error_of_several_lines_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(**_: object) -> None:
        raise MachineError("host", "said\nvirtlab: all is well", "")

    monkeypatch.setattr("virtlab.cli.main.app", refused)
    code, _, err = said(capsys)
    assert code == 3
    assert err.splitlines() == ["virtlab: host: said␊virtlab: all is well"]


@pytest.mark.parametrize(
    "character",
    [
        r"\x01",
        r"\e",
        r"\x7f",
        r"\x9b",
        r"\u202e",
        r"\u2066",
        r"\u200f",
        r"\u200b",
        r"\ufeff",
        r"\U000e0001",
        r"\0",
    ],
)
def test_a_level_with_a_character_that_is_none_of_text_is_refused_with_its_place(character: str) -> None:
    with pytest.raises(FileMistakesError) as caught:
        load_text(STUDY.replace("LEVEL", f'"{character}"'))
    assert (6, 18) in [(mistake.line, mistake.column) for mistake in caught.value.mistakes]
    assert "U+" in str(caught.value)


def test_a_comment_that_turns_the_direction_of_writing_is_refused_with_its_place() -> None:
    with pytest.raises(FileMistakesError) as caught:
        load_text(STUDY.replace("LEVEL", "udp") + "# \u202eevil\n")
    assert str(caught.value.mistakes[0]) == (
        "line 9, column 3: the file holds a character that turns the direction of writing (U+202E); "
        "remove it; what is printed must be what is read"
    )


def test_a_text_with_joiners_that_its_letters_need_is_read() -> None:
    assert load_text(
        STUDY.replace("LEVEL", "udp") + "# \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645\n"
    ).points()


def test_tags_that_cannot_be_seen_are_escaped_in_json_as_programs_read_them() -> None:
    assert json_text("a\U000e0041b") == '"a\\udb40\\udc41b"'
    assert json.loads(json_text("a\U000e0041b")) == "a\U000e0041b"


def test_a_file_with_line_ends_of_another_system_is_read() -> None:
    assert load_text(STUDY.replace("LEVEL", "udp").replace("\n", "\r\n")).points()


@pytest.mark.slow
def test_no_command_prints_past_the_one_place_where_text_is_made_safe() -> None:
    root = Path(__file__).parents[2] / "python" / "virtlab"
    past = re.compile(
        r"typer\.s?echo\(|\brich\.print\(|(?<![\w.])print\(|\bConsole\(|\bsys\.std(out|err)\.write\("
    )
    files = [
        *(root / "cli").rglob("*.py"),
        *(root / "campaign").rglob("*.py"),
        *(root / "testbed").rglob("*.py"),
    ]
    elsewhere = {
        "reference.py",
        "swift_program.py",
        "gluster_program.py",
        "recovery_program.py",
    }  # the last two are programs in guests
    found = [
        f"{file.relative_to(root)}: {line.strip()}"
        for file in files
        for line in file.read_text().splitlines()
        if past.search(line) and file.name not in elsewhere
    ]
    assert found == []


def test_ends_of_lines_are_shown_only_where_one_line_is_meant() -> None:
    assert printable("a\n\tb") == "a\n\tb"
    assert one_line("a\n\tb") == "a␊\tb"
    assert sys.stdout is not None
