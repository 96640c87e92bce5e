"""Wrong experiment files are refused in words: what was found wrong once is not used a second time."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.fuzz.workers import fuzz

from virtlab.experiment import FileMistakesError, load_text

HEAD = "version: 1\nname: x\nhosts: 2\ntopology: direct\n"
PROBE = "roles:\n  probe: {workload: rtt, from: h1.g1, to: h2.g1}\n"


def mistakes_of(text: str) -> list[str]:
    with pytest.raises(FileMistakesError) as caught:
        load_text(text)
    return caught.value.lines()[1:]


@pytest.mark.process
def test_a_hundred_damaged_files_are_accepted_or_refused_in_one_line(tmp_path: Path) -> None:
    """A slice of `make fuzz`; its cases are the same every time."""
    outcome = fuzz("experiment_files", seed=7, count=100, workers=1, folder=tmp_path)
    assert outcome.findings == []
    assert outcome.accepted
    assert outcome.accepted + outcome.refused == 100


def test_an_action_whose_id_was_found_wrong_before_is_not_used() -> None:
    """The wrong id stands where a factor was already found missing, so nothing was added a second time."""
    actions = "- {id: '${none}', do: start, role: probe}\n- {id: b, do: stop, role: probe, after: c.done}\n"
    text = f"{HEAD}{PROBE}timeline:\n{actions}"
    assert any("there is no factor 'none'" in line for line in mistakes_of(text))


def test_a_guest_on_a_virtual_switch_that_is_wrong_at_every_point_is_refused_once() -> None:
    text = (
        "version: 1\nname: x\nfactors: {idle: [sleep, poll]}\nhosts:\n  sut:\n    vswitches: {br0: {}, br2: {}}\n"
        '    guests: {a: {vswitches: [br0], idle: "${idle}"}, b: {vswitches: [br1]}}\n'
        "roles:\n  probe: {workload: rtt, from: sut.a, to: sut.b}\n"
    )
    assert sum("br1" in line for line in mistakes_of(text)) == 1


@pytest.mark.parametrize("low", ["", "null", "~"])
def test_a_search_whose_lowest_value_is_left_empty_is_refused(low: str) -> None:
    role = "roles:\n  load: {workload: udp_stream, from: h1.g1, to: h2.g1}\n"
    (line,) = mistakes_of(f"{HEAD}{role}search:\n  variable: load.rate\n  low: {low}\n")
    assert "search.low: has no value; write the lowest value" in line


@pytest.mark.parametrize(
    "number", ["1e99999999", "1e999999999999999999999", "9" * 5000, "-1e-99999999"], ids=len
)
def test_a_number_that_takes_arithmetic_without_end_is_refused_wherever_it_stands(number: str) -> None:
    claim = f"{HEAD}{PROBE}claims:\n- probe.rtt.mean < {number} ms\n"
    level = f"{HEAD}factors: {{size: [{number} B payload]}}\n{PROBE.replace('g1}', 'g1, size: ${size}}')}"
    ranged = f"{HEAD}factors: {{n: {{from: 1, to: {number}, step: 1}}}}\n{PROBE}"
    for text in (claim, level.replace("${size}", '"${size}"'), ranged):
        assert all(len(line) < 1200 for line in mistakes_of(text))


@pytest.mark.parametrize(
    "levels", ["[fifo, FIFO]", "{fifo: 1, Fifo: 2}", "{a b: 1, 'a  b': 2}", "[1 kB, 1 KB]"]
)
def test_levels_that_differ_in_case_only_are_refused(levels: str) -> None:
    text = f'{HEAD}factors: {{q: {levels}}}\nroles:\n  probe: {{workload: rtt, from: h1.g1, to: h2.g1, count: "${{q}}"}}\n'
    assert any("differ in case only" in line or "already given" in line for line in mistakes_of(text))


@pytest.mark.parametrize("names", [("load", "Load"), ("run", "factor_run"), ("value", "Factor_Value")])
def test_factors_that_would_be_one_column_of_the_results_are_refused(names: tuple[str, str]) -> None:
    one, other = names
    text = (
        f"{HEAD}factors: {{{one}: [1, 2], {other}: [64 B frame, 128 B frame]}}\nroles:\n"
        f'  probe: {{workload: rtt, from: h1.g1, to: h2.g1, count: "${{{one}}}", size: "${{{other}}}"}}\n'
    )
    assert mistakes_of(text)[0].endswith(
        f"'{other}' and '{one}' would be one column of the results; give one of them another name"
    )
