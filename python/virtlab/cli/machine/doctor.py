"""`virtlab doctor`: what this machine can and cannot do, with the cure for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from virtlab.cli.options import AsJson
from virtlab.terminal import console, json_text, say

if TYPE_CHECKING:
    from rich.console import Console

    from virtlab.testbed.doctor import Examination

app = typer.Typer(add_completion=False)

_SIGNS = {
    "yes": ("green", "yes"),
    "limited": ("yellow", "limited"),
    "no": ("red", "no"),
    "untried": ("dim", "untried"),
}


@app.command()
def doctor(
    *,
    as_json: AsJson = False,
    self_test: Annotated[bool, typer.Option(help="build and measure a small testbed for two seconds")] = True,
) -> None:
    """Finds out, by trying, what this machine can and cannot do, and says the cure for what is missing.

    The exit code is 0 when the default testbed works here for this user, else 3. Leaves nothing behind.

    Example: virtlab doctor --json
    """
    import contextlib

    from virtlab.campaign.machine_lock import MachineLock
    from virtlab.errors import MachineError
    from virtlab.testbed.doctor import examine

    errors = console(stderr=True)
    with contextlib.ExitStack() as stack:
        why_not = "--no-self-test"
        if self_test:
            lock = stack.enter_context(MachineLock("virtlab doctor"))
            try:
                lock.acquire(wait=False)
            except MachineError as error:
                self_test, why_not = False, error.what
        status = None if as_json else stack.enter_context(errors.status("trying"))
        examination = examine(
            self_test=self_test,
            why_not=why_not,
            progress=lambda group: status.update(f"trying {group}") if status is not None else None,
        )
    if as_json:
        say(json_text(examination.json(), indent=2))
    else:
        # Wide enough to read where no terminal says how wide it is.
        out = console()
        _print(examination, out if out.is_terminal else console(width=120))
    raise typer.Exit(examination.exit_code)


def _print(examination: Examination, out: Console) -> None:
    from rich.markup import escape
    from rich.table import Table

    for group, findings in examination.groups():
        table = Table(
            title=escape(group), title_justify="left", title_style="bold", box=None, show_header=False
        )
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for finding in findings:
            colour, word = _SIGNS[finding.state]
            name = escape(finding.name) + (" *" if finding.needed else "")
            cure = f"\n[cyan]-> {escape(finding.cure)}[/cyan]" if finding.cure else ""
            table.add_row(f"  [{colour}]{word}[/{colour}]", name, escape(finding.says) + cure)
        out.print(table)
        out.print()
    if examination.works:
        out.print("The default testbed works on this machine.  (* = it needs this)")
    else:
        lacking = ", ".join(
            f.name for f in examination.findings if f.needed and f.state not in ("yes", "limited")
        )
        out.print(
            f"The default testbed does not work on this machine: {escape(lacking)}.  (* = it needs this)"
        )
