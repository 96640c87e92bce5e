"""Pictures and pages of plots: the renderer draws them alike, and a page asks the network for nothing."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import sys

import pytest
from tools.vega_script import LICENCES, bundle

from virtlab import drawing
from virtlab.errors import MachineError

DOT = {
    "$schema": drawing.SCHEMA,
    "data": {"values": [{"x": 1}]},
    "mark": "point",
    "encoding": {"x": {"field": "x"}},
}


@pytest.mark.slow
def test_the_script_is_the_bundle_of_the_renderer_that_draws_the_pictures() -> None:
    assert drawing.script() == bundle(), "write it again: python -m tools.vega_script NODE_MODULES"
    told = LICENCES.read_text(encoding="utf-8")
    for name in ("vega", "vega-lite", "vega-embed", "d3-scale", "topojson-client"):
        assert f"\n{name}: " in told
    assert "University of Washington" in told
    assert "Mike Bostock" in told


@pytest.mark.slow
def test_a_specification_is_drawn_as_svg_and_that_as_png() -> None:
    picture = drawing.svg(DOT)
    assert picture.startswith("<svg")
    assert drawing.png(picture, scale=1)[:8] == b"\x89PNG\r\n\x1a\n"


@pytest.mark.slow
def test_a_page_runs_its_own_scripts_alone_and_asks_the_network_for_nothing() -> None:
    page = drawing.page("<a title>", DOT)
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy.startswith("default-src 'none'; ")
    allowed = set(re.findall(r"'sha256-([^']+)'", policy))
    run = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert {base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in run} == allowed
    assert len(run) == 2
    assert f"<title>{html.escape('<a title>')}</title>" in page
    held = re.findall(r'<script type="application/json" id="(\w+)">(.*?)</script>', page, re.DOTALL)
    assert {name: json.loads(text) for name, text in held} == {"spec": DOT, "config": {}}


@pytest.mark.parametrize("text", ["</script>", "<!--", "a & b", "\u2028", "\u2029"])
def test_what_a_page_holds_ends_no_element_of_it(text: str) -> None:
    held = drawing.embedded({text: [text]})
    assert not set("<>&\u2028\u2029") & set(held)
    assert json.loads(held) == {text: [text]}


def test_the_page_embeds_no_number_that_json_lacks() -> None:
    held = json.loads(drawing.embedded({"a": [float("inf"), float("nan"), 1.0], "b": 1 / 3}))
    assert held == {"a": [None, None, 1.0], "b": 0.3333333}


def test_without_the_renderer_an_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(MachineError, match=r"pictures: SVG and PNG .*; pip install 'virtlab\[pictures\]'"):
        drawing.svg(DOT)
