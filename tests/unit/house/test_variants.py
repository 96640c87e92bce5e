"""Every test that is left out of `make test` has one that runs in its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import required, variants

FOLDER = Path(variants.__file__).parent


@pytest.mark.parametrize("file", variants.VARIANTS)
def test_a_variant_and_what_stands_for_it_are_tests_of_one_file(file: str) -> None:
    source = (FOLDER / file).read_text(encoding="utf-8")
    for test, instead in variants.VARIANTS[file].items():
        assert f"def {test.partition('[')[0]}(" in source
        assert f"def {instead.partition('[')[0]}(" in source
        assert instead not in variants.VARIANTS[file], "what stands for another runs itself"


def test_a_variant_may_be_skipped_where_everything_is_required() -> None:
    assert any(word in variants.REASON for word in required.EXCUSED)


def test_a_variant_runs_where_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    file, tests = next(iter(variants.VARIANTS.items()))
    test, instead = next(iter(tests.items()))
    for name in variants.ASKED:
        monkeypatch.delenv(name, raising=False)
    assert variants.stands_for(file, test) == instead
    assert variants.stands_for(file, instead) is None
    monkeypatch.setenv(variants.ASKED[-1], "20")
    assert variants.stands_for(file, test) is None
