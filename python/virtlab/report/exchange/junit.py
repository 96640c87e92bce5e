"""JUnit XML, which continuous integration shows as tests: the elements and attributes of Ant's schema."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from xml.sax.saxutils import escape, quoteattr

from virtlab.report.exchange.cases import Cases
from virtlab.terminal import one_line

NO_XML = re.compile(
    "[^\x09\x0a\x0d\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)  # characters that XML cannot hold


def junit(cases: Cases) -> str:
    """The document."""
    bad, undecided = cases.count("bad"), cases.count("open")
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    counts = f'tests="{len(cases.cases)}" failures="{bad}" errors="{undecided}"'
    about = f'name={_attribute(cases.title)} package="virtlab" id="0" hostname="localhost" timestamp="{now}" time="0"'
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        "<testsuites>",
        f"<testsuite {about} {counts}>",
        "<properties/>",
    ]
    for case in cases.cases:
        head = f'<testcase classname={_attribute(case.group)} name={_attribute(case.name)} time="0"'
        if case.outcome == "good":
            lines.append(f"{head}/>")
            continue
        kind = "failure" if case.outcome == "bad" else "error"
        detail = escape(_text("\n".join([case.sentence, *(fact for fact in case.facts if fact)])))
        message, word = _attribute(case.sentence), _attribute(case.word)
        lines.append(f"{head}><{kind} message={message} type={word}>{detail}</{kind}></testcase>")
    lines += [f"<system-out>{escape(_text(chr(10).join(cases.notes)))}</system-out>", "<system-err/>"]
    return "\n".join([*lines, "</testsuite>", "</testsuites>"]) + "\n"


def _text(text: str) -> str:
    return NO_XML.sub("\ufffd", text)


def _attribute(text: str) -> str:
    return quoteattr(_text(one_line(text)))
