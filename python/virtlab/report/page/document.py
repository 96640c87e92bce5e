"""The page: one HTML file with everything in it, opened offline, safe to open whatever the guests called
themselves.

Text is escaped by the template; data for the script is JSON without any '<'; a content policy allows no
request at all and no script but the two of this file, by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from virtlab import __version__
from virtlab.report.figures import theme, topology, vega, verdicts
from virtlab.report.figures.figure import Figure
from virtlab.report.gather import queues
from virtlab.report.gather.model import Gathered
from virtlab.report.page import results, sections
from virtlab.report.tables.comparison import beside_section
from virtlab.report.tables.effects import effects_section
from virtlab.report.words import plural, verdict_kind, verdict_word

TEMPLATES = Path(__file__).parent / "templates"


def html(data: Gathered, figures: Sequence[Figure], pictures: Mapping[str, str]) -> str:
    """The whole page. `pictures` are SVGs (light colours) by plot name, inlined where they stand first in a
    section.
    """
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=False,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["code"] = _code
    library, script = vega.javascript(), (TEMPLATES / "page.js").read_text(encoding="utf-8")
    world = topology.picture(data.plan) if data.plan else ""
    blocks = results.metric_sections(data, figures, pictures)
    several = beside_section(data, figures, pictures)
    effects = effects_section(data)
    blocks = [*([several] if several else []), *blocks, *([effects] if effects else [])]
    tables = [table["id"] for block in blocks for table in (*block["tables"], *block["nested"])]
    anchors = frozenset([*(figure.name for figure in figures), *tables, *(["topology"] if world else [])])
    return environment.get_template("page.html.j2").render(
        data=data,
        version=__version__,
        policy=_policy(library, script),
        css=Markup(_css()),  # noqa: S704 - our own file
        library=Markup(library),  # noqa: S704 - the renderer's own bundle
        script=Markup(script),  # noqa: S704 - our own file
        specs=Markup(embedded({figure.name: figure.spec for figure in figures if not figure.empty})),  # noqa: S704 - no '<'
        configs=Markup(embedded(vega.configs())),  # noqa: S704 - no '<'
        topology=Markup(world),  # noqa: S704 - built with every name escaped
        facts=sections.facts(data),
        verdicts=[_verdict(data, index) for index in range(len(data.verdicts))],
        tally=_tally(data),
        world_note=sections.world_note(data),
        sections=blocks,
        contents=_contents(data, blocks),
        source_figures=[sections.source_figure(one, anchors) for one in data.entries],
        design=sections.design(data),
        design_about=sections.design_about(data),
        runs_table=sections.runs_table(data),
        runs_about=sections.runs_about(data),
        runs_summary=f"All {plural(len(data.runs), 'run')} and attempts",
        runs_open=len(data.runs) <= 24,
        conditions=sections.conditions(data),
        quality=sections.quality_table(data),
        queues=queues.table(data.queues),
        queues_about=queues.about(data.queues),
        realised=sections.realised_table(data),
    )


def embedded(value: Any) -> str:
    """JSON that can stand inside a script element: no '<', '>' or '&', short numbers, nothing that JSON does
    not know.

    >>> embedded({"name": "</script>", "y": 0.1 + 0.2})
    '{"name":"\\\\u003c/script\\\\u003e","y":0.3}'
    """
    text = json.dumps(_short(value), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _short(value: Any) -> Any:
    """Floats with seven significant digits; infinities and not-a-number as null."""
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _short(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_short(part) for part in value]
    return value


def _code(text: str) -> Any:
    """Words between backticks as code; everything escaped.

    >>> str(_code("of `rtt` & <b>"))
    'of <code>rtt</code> &amp; &lt;b&gt;'
    """
    from markupsafe import Markup, escape

    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts)
    )


def _policy(*scripts: str) -> str:
    """No request of any kind; only these scripts; `unsafe-eval` because Vega compiles its expressions."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes} 'unsafe-eval'; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _css() -> str:
    text = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    for name in ("light", "dark"):
        rules = " ".join(f"{key}: {colour};" for key, colour in theme.variables(name).items())
        text = text.replace(f"@@{name.upper()}@@", rules)
    return text


def _verdict(data: Gathered, index: int) -> dict[str, Any]:
    from markupsafe import Markup

    verdict = data.verdicts[index]
    return {
        "id": f"verdict-{index + 1}",
        "kind": verdict_kind(verdict.verdict),
        "word": verdict_word(verdict.verdict),
        "sentence": verdict.sentence,
        "claim": verdict.claim,
        "because": verdict.because,
        "picture": Markup(verdicts.picture(verdict)),  # noqa: S704 - built with every word escaped
        "facts": sections.verdict_facts(verdict, any(one.published for one in data.verdicts)),
    }


def _tally(data: Gathered) -> list[dict[str, str]]:
    words: dict[str, int] = {}
    for verdict in data.verdicts:
        words[verdict.verdict] = words.get(verdict.verdict, 0) + 1
    order = {"good": 0, "bad": 1, "open": 2}
    return [
        {"kind": verdict_kind(word), "text": f"{count} {verdict_word(word)}"}
        for word, count in sorted(words.items(), key=lambda pair: (order[verdict_kind(pair[0])], pair[0]))
    ]


def _contents(data: Gathered, blocks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    results = [{"id": block["id"], "title": block["short"]} for block in blocks]
    entries: list[dict[str, Any]] = [
        {"id": "verdicts", "title": "Verdicts"},
        {"id": "world", "title": "What was built"},
    ]
    if results:
        entries.append({"id": results[0]["id"], "title": "Results", "children": results})
    if data.entries:
        entries.append({"id": "source", "title": "The source's figures"})
    rest = (("design", "Design"), ("runs", "Runs"), ("conditions", "Conditions"), ("file", "Experiment file"))
    entries += [{"id": name, "title": title} for name, title in (*rest, ("glossary", "Glossary"))]
    return [{"children": [], **entry} for entry in entries]
