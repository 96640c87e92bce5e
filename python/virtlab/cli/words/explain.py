"""`virtlab explain`: what a word, a code or a message means, why it is so, and what to do."""

from __future__ import annotations

from typing import Annotated

import typer

from virtlab.cli.options import AsJson
from virtlab.errors import ExperimentError
from virtlab.terminal import json_text, say

app = typer.Typer(add_completion=False)


@app.command(
    context_settings={"ignore_unknown_options": True}
)  # a message may begin with the option it is about
def explain(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="WORD...",
            help="a metric, a term, a kind, an exit code, or a message as it was printed",
            show_default=False,
        ),
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Explains a word: what it is, why it is so, and what to do.

    Known are metrics and their statistics, the terms of the glossary, workloads, platforms, virtual switches, queue
    disciplines, commands, exit codes, words of verdicts and comparisons, refusals, and every reason that runs are
    marked as tainted or failed with. Paste a message as it was printed.

    Examples:

        virtlab explain tainted

        virtlab explain probe.rtt.mdev

        virtlab explain exit code 4
    """
    from virtlab.cli.words.entries import entries, entries_of
    from virtlab.units import nearest

    text = " ".join(words)
    told = entries_of(text)
    if not told:
        names = [name for one in entries() for name in one.names]
        near = nearest(text, names) or "see docs/reference/glossary.md, and `virtlab --help`"
        raise ExperimentError("explain", f"'{text}' is not a word that virtlab knows", near)
    if as_json:
        rows = [
            {"names": list(one.names), "kind": one.kind, "what": one.what, "cure": one.cure} for one in told
        ]
        say(json_text(rows, indent=2))
        return
    say("\n\n".join(one.text() for one in told))
