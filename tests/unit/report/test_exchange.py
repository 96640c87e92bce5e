"""JUnit XML by the elements and attributes of its schema, and Markdown that no text of a file can break."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from virtlab.report.exchange.cases import Case, Cases, of_mistakes
from virtlab.report.exchange.junit import junit
from virtlab.report.exchange.markdown import markdown

CASES = Cases(
    "A <study> & \"its\" | claims\x1b[2J",
    (
        Case("data", "holds", "good", "holds", "It holds."),
        Case("data", "no", "bad", "refuted", "It is <refuted> & \x00 | so.\nsecond", ("a < b", "1 ms [0, 2]", "5 + 5")),
        Case("data", "open", "open", "undecided", "Not known."),
    ),
    ("A note with `ticks`.",),
    ("claim", "estimate", "runs"),
    (("report", "x.results/report/report.html"),),
)  # fmt: skip
SUITE = {"name", "package", "id", "hostname", "timestamp", "tests", "failures", "errors", "time"}


def test_the_xml_has_what_the_schema_of_junit_asks_for_in_its_order() -> None:
    root = ElementTree.fromstring(junit(CASES))
    assert (root.tag, [child.tag for child in root]) == ("testsuites", ["testsuite"])
    suite = root[0]
    assert set(suite.attrib) == SUITE
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.attrib["timestamp"])
    assert [suite.attrib[name] for name in ("tests", "failures", "errors")] == ["3", "1", "1"]
    assert [child.tag for child in suite] == ["properties", *["testcase"] * 3, "system-out", "system-err"]
    for case in suite.iter("testcase"):
        assert set(case.attrib) == {"name", "classname", "time"}
    assert [[child.tag for child in case] for case in suite.iter("testcase")] == [[], ["failure"], ["error"]]
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert set(failure.attrib) == {"message", "type"}
    assert failure.attrib["type"] == "refuted"
    assert "a < b" in str(failure.text)
    assert "\x1b" not in junit(CASES)


def test_a_table_of_markdown_has_a_row_per_case_and_no_cell_breaks_it() -> None:
    lines = markdown(CASES).splitlines()
    assert lines[0].startswith("### A \\<study\\>")
    assert "1 holds, ❌ 1 refuted, ❔ 1 undecided" in lines[2]
    rows = [line for line in lines if line.startswith("| ")]
    assert len(rows) == 2 + len(CASES.cases)
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 6 for row in rows[:2] + rows[3:4])
    assert lines[-1] == "- report: `x.results/report/report.html`"


def test_mistakes_of_a_file_are_failures_and_none_is_one_that_passed() -> None:
    assert [case.outcome for case in of_mistakes("f.yaml", ["a", "b"]).cases] == ["bad", "bad"]
    assert [case.outcome for case in of_mistakes("f.yaml", []).cases] == ["good"]
