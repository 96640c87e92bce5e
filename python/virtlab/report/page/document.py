"""The page: one HTML file with everything in it, opened offline, safe to open whatever the guests called
themselves.

Text is escaped by the template; data for the script is JSON without any '<'; a content policy allows no
request at all and no script but the two of this file, by their hashes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from virtlab import __version__, drawing
from virtlab.drawing import embedded
from virtlab.report.figures import topology
from virtlab.report.figures.grammar import theme, vega
from virtlab.report.figures.grammar.figure import Figure
from virtlab.report.gather.gathered import Gathered
from virtlab.report.names import CONDITIONS, READ_BACK
from virtlab.report.page import design, results, verdicts
from virtlab.report.page.glossary import glossary
from virtlab.report.tables import queues
from virtlab.report.tables.conditions import quality_table, realised_table
from virtlab.report.tables.runs import runs_table
from virtlab.report.words import plural

TEMPLATES = Path(__file__).parent / "templates"


def html(data: Gathered, figures: Sequence[Figure], pictures: Mapping[str, str]) -> str:
    """The whole page. `pictures` are SVGs (light colours) by plot name, inlined where they stand first in a
    section.
    """
    from markupsafe import Markup

    library, script = drawing.script(), (TEMPLATES / "page.js").read_text(encoding="utf-8")
    world = topology.picture(data.world.plan) if data.world.plan else ""
    blocks = results.sections(data, figures, pictures)
    tables = [table["id"] for block in blocks for table in (*block["tables"], *block["nested"])]
    realised = realised_table(data.world.realised)
    around = [CONDITIONS, *([READ_BACK] if realised else []), *(["topology"] if world else [])]
    anchors = frozenset([*(figure.name for figure in figures), *tables, *around])
    return str(
        environment()
        .get_template("page.html.j2")
        .render(
            origin=data.origin,
            notes=data.notes,
            version=__version__,
            policy=drawing.policy(library, script),
            css=style(),
            library=Markup(library),  # noqa: S704 - the renderer's own bundle
            script=Markup(script),  # noqa: S704 - our own file
            specs=Markup(embedded({figure.name: figure.spec for figure in figures if not figure.empty})),  # noqa: S704 - no '<'
            configs=Markup(embedded(vega.configs())),  # noqa: S704 - no '<'
            topology=Markup(world),  # noqa: S704 - built with every name escaped
            facts=design.facts(data),
            verdicts=verdicts.verdict_blocks(data),
            tally=verdicts.tally(data),
            world_note=design.world_note(data),
            sections=blocks,
            contents=_contents(data, blocks),
            source=data.source.title,
            source_figures=[design.source_figure(one, anchors) for one in data.source.entries],
            design=design.design(data),
            design_about=design.design_about(data),
            runs_table=runs_table(data),
            runs_about=design.runs_about(data),
            runs_summary=f"All {plural(len(data.runs), 'run')} and attempts",
            runs_open=len(data.runs) <= 24,
            conditions=design.conditions(data),
            quality=quality_table(data.world.link_quality),
            queues=queues.queues_table(data.world.queues),
            queues_about=queues.about(data.world.queues),
            realised=realised,
            read_back=READ_BACK,
            glossary=glossary(data.results),
            beside=drawing.can_draw(),
        )
    )


def environment() -> Any:
    """Where templates come from; everything that they are given is escaped."""
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=False,
        undefined=jinja2.StrictUndefined,
    )
    made.filters["code"] = _code
    return made


def style() -> Any:
    """The pages' style sheet."""
    from markupsafe import Markup

    return Markup(_css())  # noqa: S704 - our own file


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


def _css() -> str:
    text = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    for name in ("light", "dark"):
        rules = " ".join(f"{key}: {colour};" for key, colour in theme.variables(name).items())
        text = text.replace(f"@@{name.upper()}@@", rules)
    return text


def _contents(data: Gathered, blocks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The list beside the page: the sections of results below one entry, each other section by itself."""
    children = [{"id": block["id"], "title": block["short"]} for block in blocks]
    entries = {
        "verdicts": "Verdicts",
        "world": "What was built",
        **({children[0]["id"]: "Results"} if children else {}),
    }
    entries |= {"source": "The source's figures"} if data.source.entries else {}
    entries |= {"design": "Design", "runs": "Runs", "conditions": "Conditions", "file": "Experiment file"}
    entries["glossary"] = "Glossary"
    return [
        {"id": name, "title": title, "children": children if title == "Results" else []}
        for name, title in entries.items()
    ]
