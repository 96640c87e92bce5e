"""`virtlab rt`: period and budget of a VM with hard deadlines inside; proved, studied, and run on the real kernel."""

from __future__ import annotations

import typer

from virtlab.cli.rt import answers, exporting, hosting, machine, published, studies

app = typer.Typer(
    help="""Period and budget of a VM with hard deadlines inside: exact answers, studies, runs on the real kernel.

    Example: virtlab rt period tasks.yaml --share 0.4
    """,
    no_args_is_help=True,
    add_completion=False,
)
for part in (answers, hosting, studies, machine, exporting, published):
    part.register(app)
