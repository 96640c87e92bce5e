"""The ledger of what outlives a process: entries that their owner did not finish, and those of an earlier form."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from virtlab.testbed.leader import ledger


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_line_that_was_not_finished_is_of_nothing_that_is_there(tmp_path: Path, cut: int) -> None:
    folder, first, second = tmp_path / "ledger", tmp_path / "first", tmp_path / "second"
    entry = ledger.open_entry(folder)
    entry.plan(first)
    first.mkdir()
    entry.plan(second)
    os.close(entry._descriptor)
    content = entry.path.read_bytes()
    assert cut < len(json.dumps(str(second)))
    entry.path.write_bytes(content[:-cut])
    assert str(first) in ledger.sweep(folder)
    assert not first.exists()
    assert not entry.path.exists()


def test_an_entry_of_the_earlier_form_is_swept(tmp_path: Path) -> None:
    directory = tmp_path / "group"
    directory.mkdir()
    folder = tmp_path / "ledger"
    folder.mkdir()
    (folder / "1.json").write_text(
        json.dumps({"boot_id": ledger.boot_id(), "owner": 1, "directories": [str(directory)]})
    )
    assert ledger.sweep(folder) == [str(directory)]
    assert not directory.exists()
