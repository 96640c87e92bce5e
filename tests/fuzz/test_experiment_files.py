"""Any bytes are an experiment or give a clean ExperimentError; nothing else may come out.

The corpus in `experiments/` holds inputs that once came out otherwise, and the words that mutations are made
of.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from virtlab.errors import ExperimentError
from virtlab.experiment import FileMistakesError, load_bytes
from virtlab.planner import plan_run

ROOT = Path(__file__).parents[2]
CORPUS = sorted((Path(__file__).parent / "experiments").iterdir())
FILES = sorted(
    [
        *(ROOT / "experiments" / "switched-network").glob("*.yaml"),
        *(ROOT / "tests/golden/experiments").rglob("*.yaml"),
    ]
)
SEEDS = [
    path.read_bytes()
    for path in FILES
    if path.name not in {"figures.yaml", "statements.yaml"} and path.stat().st_size < 4000
]
WORDS = [
    b"${load}", b"${", b"}", b"{", b"[", b"]", b": ", b"- ", b"\n", b"\t", b"'", b'"', b"&a ", b"*a", b"!!int ",
    b"|\n  ", b">", b"#",
    b"0", b"-1", b"1e999", b"1e99999999999 s", b".nan", b"null", b"~", b"true", b"0x1F", b"0o7", b"1_0",
    b"1:30", b"<<: *a", b"---\n",
    b"%YAML 1.1\n", b"\xff", b"\x00", b"\xe2\x80\xa8", b"\xf0\x9f\x90\x9b", b"? ", b"400 Gbit/s",
    b"1500 B ip_packet", b"0 B", b"h1.g1",
    b"version: 1\n", b"hosts: 99999999999\n", b"switches: -1\n", b"from", b"to", b"step", b"9" * 60,
    b"\\UFFFFFFFF", b'"\\x0"', b"10.0.0.0/8",
    b"fd00::/1", b"count: 1000000000", b"\r", b"\xc2\x85", b"\xef\xbb\xbf", b"...", b"@", b"`",
]  # fmt: skip


def accepted_or_refused(content: bytes) -> None:
    """Loads it; an accepted file must also become a Plan."""
    try:
        experiment = load_bytes(content)
    except FileMistakesError as error:
        lines = (
            content.count(b"\n")
            + content.count(b"\r")
            + content.count(b"\xc2\x85")
            + content.count(b"\xe2\x80")
            + 2
        )
        for mistake in error.mistakes:
            assert mistake.what
            assert 1 <= mistake.line <= lines
            assert mistake.column >= 1
            assert len(str(mistake)) < 2000
        return
    except ExperimentError:
        return
    points = experiment.points()
    assert points
    plan_run(experiment, points[-1], 0)


@pytest.mark.slow
@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
def test_the_corpus_is_accepted_or_cleanly_refused(path: Path) -> None:
    accepted_or_refused(path.read_bytes())


@pytest.mark.slow
@given(st.binary(max_size=400))
def test_any_bytes_are_accepted_or_cleanly_refused(content: bytes) -> None:
    accepted_or_refused(content)


@pytest.mark.slow
@given(st.text(max_size=300))
@example("\ufeff")
def test_any_text_is_accepted_or_cleanly_refused(text: str) -> None:
    accepted_or_refused(text.encode("utf-8", "surrogatepass"))


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A real file with some pieces cut, doubled, or replaced by words that matter to YAML and to us."""
    content = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(content)))
        length = draw(st.sampled_from([0, 0, 1, 3, 10, 40]))
        word = draw(st.one_of(st.sampled_from(WORDS), st.binary(max_size=4)))
        content = content[:at] + word + content[at + length :]
    return content


@pytest.mark.slow
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(mutated())
def test_a_damaged_file_is_accepted_or_cleanly_refused(content: bytes) -> None:
    accepted_or_refused(content)


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=12),
    st.sampled_from([w.decode("latin1") for w in WORDS])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["guests", "ends",
    "rate", "queue", "kind", "from", "to", "workload", "shape", "switches", "h1", "probe", "x"]), inner, max_size=4)),
    max_leaves=8,
)  # fmt: skip
SECTIONS = [
    "hosts", "host", "topology", "switches", "switch", "routers", "router", "links", "link", "network", "roles",
    "services", "timing", "timeline", "windows", "collect", "limits", "repeat", "claims", "factors", "exclude", "seed",
    "title", "name", "version",
]  # fmt: skip


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(SECTIONS), VALUES, min_size=1, max_size=3))
def test_any_value_in_any_section_is_accepted_or_cleanly_refused(changes: dict[str, object]) -> None:
    """JSON is YAML: sections of a right file are replaced by arbitrary values."""
    import json

    content = {
        "version": 1, "name": "x", "hosts": 2, "topology": "line",
        "roles": {"probe": {"workload": "rtt", "from": "h1.g1", "to": "h2.g1"}},
    } | changes  # fmt: skip
    accepted_or_refused(json.dumps(content).encode())
