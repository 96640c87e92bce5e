"""Task files of every kind, their mistakes in one line, and the commands of `virtlab rt`."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from virtlab.cli.main import main
from virtlab.errors import ExperimentError
from virtlab.realtime import load_tasks
from virtlab.realtime.hosts import how_many_more, load_host, place
from virtlab.realtime.plots import PLOTS
from virtlab.realtime.published import SHIPPED, check_published
from virtlab.realtime.stated import JUDGES

ROOT = Path(__file__).parents[3]
TWO = "name,period,wcet\na,8 ms,1 ms\nb,15 ms,3 ms\n"


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = 0
    try:
        main(["rt", *arguments])
    except SystemExit as end:
        code = int(end.code or 0)
    caught = capsys.readouterr()
    return code, caught.out, caught.err


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", TWO),
        (
            "t.yaml",
            "tasks:\n  - {name: a, period: 8 ms, wcet: 1 ms}\n  - {name: b, period: 15 ms, wcet: 3 ms}\n",
        ),
        (
            "t.json",
            '[{"name": "a", "period": "8 ms", "wcet": "1 ms"}, {"name": "b", "period": "15 ms", "wcet": "3 ms"}]',
        ),
        (
            "rt.json",
            (
                '{"tasks": {"a": {"run": 1000, "timer": {"ref": "u", "period": 8000}},'
                ' "b": {"phases": {"p": {"run": 3000, "timer": {"ref": "u", "period": 15000}}}}}}'
            ),
        ),
        (
            "t.xml",
            (
                '<?xml version="1.0"?><simulation><tasks><task name="a" period="8" WCET="1" deadline="8"/>'
                '<task name="b" period="15" WCET="3"/></tasks></simulation>'
            ),
        ),
    ],
)
def test_every_format_gives_the_same_tasks(tmp_path, name, text):
    tasks = load_tasks(written(tmp_path, name, text))
    assert [(task.name, task.period_ns, task.wcet_ns) for task in tasks.tasks] == [
        ("a", 8_000_000, 1_000_000),
        ("b", 15_000_000, 3_000_000),
    ]
    assert tasks.response_times_ns(period_ns=6_000_000, budget_ns=3_000_000) == [7_000_000, 14_000_000]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("x,8 ms,9 ms", "exceeds its period"),
        ("x,0 ms,1 ms", "more than zero"),
        ("x,8 ms,-1 ms", "more than zero"),
        ("x,8 ms,0 ms", "more than zero"),
        ("x,8,1 ms", "has no unit"),
        ("x,8 mss,1 ms", "not a unit of time"),
        ("x,99999999999999 h,1 ms", "overflow"),
        ("x,8 ms", "has no wcet"),
        ("x,8 ms,1 ms,2,3,4,5,6,7", "values for"),
        ("a,8 ms,1 ms", "two tasks have this name"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_task(tmp_path, capsys, row, says):
    path = written(tmp_path, "t.csv", TWO + row + "\n")
    code, out, err = run(capsys, "analyze", str(path), "-p", "6 ms", "-b", "3 ms")
    assert (code, out) == (2, "")
    assert len(err.strip().splitlines()) == 1
    assert says in err
    assert f"task {row.split(',')[0]}" in err


def test_duplicate_priorities_are_refused(tmp_path, capsys):
    path = written(tmp_path, "t.csv", "name,period,wcet,priority\na,8 ms,1 ms,1\nb,15 ms,3 ms,1\n")
    code, _, err = run(capsys, "analyze", str(path), "-p", "6 ms", "-b", "3 ms", "--policy", "given")
    assert code == 2
    assert "task b" in err


@pytest.mark.parametrize("share", ["0.2", "1/5", "20 %", "0.325"])
def test_a_share_not_above_the_utilisation_names_the_task_that_reaches_it(tmp_path, capsys, share):
    path = written(tmp_path, "t.csv", TWO)
    code, _, err = run(capsys, "period", str(path), "-a", share)
    assert code == 2
    assert "task b" in err


def test_json_holds_exact_fractions_beside_decimals(tmp_path, capsys):
    path = written(tmp_path, "t.csv", "name,period,wcet\n1,16 ms,2 ms\n2,24 ms,1 ms\n3,36 ms,4 ms\n")
    code, out, _ = run(capsys, "period", str(path), "--share", "0.4", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["max_period_ns"], found["safe_period_ns"]) == ("10000000", "22000000/3")
    assert found["safe_period_decimal_ns"] == pytest.approx(22e6 / 3)
    code, out, _ = run(capsys, "budget", str(path), "--period", "10 ms", "--json")
    assert json.loads(out)["budget_ns"] == "4000000"
    code, out, _ = run(capsys, "analyze", str(path), "-p", "10 ms", "-b", "3.9 ms", "--json")
    assert code == 1
    assert json.loads(out)["schedulable"] is False


@pytest.mark.parametrize("format_", ["chrt", "libvirt", "xen", "cgroup", "cgroup1", "rt-app"])
def test_exports_name_the_pair_and_are_proved(tmp_path, capsys, format_):
    path = written(tmp_path, "t.csv", TWO)
    code, out, _ = run(capsys, "export", str(path), "-p", "6 ms", "-b", "3 ms", "-f", format_)
    assert code == 0
    assert "6000" in out
    assert "3000" in out
    code, _, err = run(capsys, "export", str(path), "-p", "6 ms", "-b", "2 ms", "-f", format_)
    assert code == 2
    assert "task" in err


def test_an_exported_rt_app_file_can_be_read_again(tmp_path, capsys):
    path = written(tmp_path, "t.csv", TWO)
    _, out, _ = run(capsys, "export", str(path), "-p", "6 ms", "-b", "3 ms", "-f", "rt-app")
    again = load_tasks(written(tmp_path, "again.json", out), "given")
    assert [(task.name, task.period_ns, task.wcet_ns) for task in again.tasks] == [
        ("a", 8_000_000, 1_000_000),
        ("b", 15_000_000, 3_000_000),
    ]


HOST = """
version: 1
overhead: 20 us
host: {cores: 2, scheduler: edf, switch_cost: 2 us}
guests:
  - name: control
    copies: 2
    tasks: [{name: a, period: 16 ms, wcet: 2 ms}, {name: b, period: 24 ms, wcet: 1 ms}]
  - name: vision
    vcpus: 2
    tasks: [{name: d, period: 40 ms, wcet: 8 ms}, {name: e, period: 50 ms, wcet: 5 ms}]
"""


@pytest.mark.slow
def test_guests_are_placed_and_vcpus_of_one_guest_apart(tmp_path):
    host = load_host(written(tmp_path, "h.yaml", HOST))
    found = place(host)
    assert found.fits
    cores = {one.name: one.core for one in found.placed}
    assert cores["vision.0"] != cores["vision.1"]
    for core in (0, 1):
        load = sum((one.budget_ns + 2 * 2000) / one.period_ns for one in found.placed if one.core == core)
        assert load <= 1
    more = how_many_more(host, "control")
    assert 0 < more < 10


@pytest.mark.slow
def test_guests_that_do_not_fit_are_refused_with_the_reason(tmp_path, capsys):
    text = HOST.replace("cores: 2", "cores: 1")
    code, out, _ = run(capsys, "host", str(written(tmp_path, "h.yaml", text)))
    assert code == 1
    assert "do not fit" in out


@pytest.mark.slow
def test_published_values_that_hold_and_those_that_do_not():
    checks = check_published(ROOT / "published" / "realtime_scheduling.csv", sets=20)
    by_metric = {}
    for check in checks:
        by_metric.setdefault(check.metric, []).append(check.holds)
    assert len(checks) == 46
    assert None not in [check.holds for check in checks]
    for metric in (
        "response_time_task_1",
        "response_time_task_2",
        "largest_vm_period",
        "effective_share",
        "left_bound_period",
    ):
        assert all(by_metric[metric]), metric
    assert by_metric["standard_deviation_over_mean"] == [False, False, False]


@pytest.mark.slow
def test_every_statement_of_the_source_is_judged_and_the_spread_of_its_periods_does_not_reproduce():
    checks = {check.case: check for check in check_published(SHIPPED[1], sets=20)}
    assert len(checks) == 37
    assert None not in [check.holds for check in checks.values()]
    assert set(checks) == set(JUDGES)
    assert all(
        checks[name].holds
        for name in (
            "ratio-below-bound",
            "period-14-at-05",
            "valid-interval-between-crossings",
            "left-bound-grows-with-x",
        )
    )
    # The shortest task period of each set is in T_VM, and varies by 40 %; printed are 0 to 0.009.
    assert not checks["spread-small-u01"].holds
    assert "T_VM itself up to 0.4" in checks["spread-small-u01"].here


@pytest.mark.slow
def test_the_tables_are_found_away_from_the_source_tree(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(capsys, "check-published", "--sets", "10", "--json")
    assert code == 0
    assert len(json.loads(out)["checks"]) == 46 + 37


HEADING = "study,location,case,metric,unit,value,qualifier,note\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "holds no row"),
        (HEADING.encode() + b"\xe9,1\n", "is not UTF-8 text"),
        (b"study,case\na,b\n", "line 2: has no column 'metric'"),
        (b"statement_id\na\n", "line 2: has no column 'left'"),
        (HEADING.encode() + b"a,b,c,d,e,f,g,h,i\n", "line 2: has more cells than the table has columns"),
        (HEADING.encode() + b'a,"b\n', "is not a valid line of a CSV file"),
        (HEADING.encode() + b"s,1,share 1.2.3 task 1,largest_vm_period,ms,1,exact,\n", "cannot be computed"),
        (HEADING.encode() + b"s,1,share 0.5 X 1 T_VM 0,effective_share,ms,1,exact,\n", "cannot be computed"),
        (
            HEADING.encode() + b"s,1,share 0.5,bound_of_period_over_shortest_period,,1e-99999999,exact,\n",
            "cannot be",
        ),
        (HEADING.encode() + b"s,1,share 0.1 task 1,largest_vm_period,ms,1,exact,\n", "not below the share"),
    ],
)
def test_a_wrong_table_of_published_values_is_one_line(tmp_path, text, said):
    path = tmp_path / "table.csv"
    path.write_bytes(text)
    with pytest.raises(ExperimentError) as caught:
        check_published(path, sets=10)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("form", ["quick", "full", "published"])
def test_the_study_files_hold_the_forms(form):
    from virtlab.realtime.forms import FORMS, PARTS, load_study

    parts, scenarios, overheads = load_study(ROOT / "experiments" / "realtime-vm" / f"{form}.yaml")
    assert parts == list(PARTS)
    assert (scenarios, overheads) == FORMS[form]


@pytest.mark.slow
def test_the_study_writes_every_plot_that_its_figures_name(tmp_path, capsys):
    from virtlab.documents import yaml_values

    file = written(
        tmp_path,
        "s.yaml",
        "version: 1\nstudy: realtime-vm\nform: quick\nscenarios: {sets: 5}\noverhead: {sets: 3, step: 25}\n",
    )
    code, _, err = run(capsys, "study", str(file), "-o", str(tmp_path / "out"))
    assert code == 0, err
    figures = yaml_values((ROOT / "experiments" / "realtime-vm" / "figures.yaml").read_text())
    named = {name for entry in figures["figures"] for name in entry.get("plots", ())}
    assert named <= {name for part in PLOTS.values() for name in part}
    for plot in (name for part in PLOTS.values() for name in part):
        for suffix in (".svg", ".png"):
            assert (tmp_path / "out" / f"{plot}{suffix}").stat().st_size > 500


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.text(max_size=200), st.sampled_from([".csv", ".yaml", ".json", ".xml"]))
def test_any_text_is_tasks_or_a_clean_error(tmp_path_factory, text, suffix):
    path = tmp_path_factory.mktemp("fuzz") / f"t{suffix}"
    path.write_text(text, encoding="utf-8", errors="replace")
    with suppress(ExperimentError):
        assert load_tasks(path).utilisation > 0
