"""`virtlab exec`: a command in a guest of a kept testbed."""

from __future__ import annotations

from typing import Annotated

import typer

from virtlab.terminal import say

app = typer.Typer(add_completion=False)


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def exec_(
    guest: Annotated[str, typer.Argument(help="a guest of the kept testbed", show_default=False)],
    command: Annotated[
        list[str], typer.Argument(help="the command and its arguments, after --", show_default=False)
    ],
    *,
    name: Annotated[str | None, typer.Option(help="which kept testbed, when there are several")] = None,
    terminal: Annotated[bool, typer.Option("--terminal", "-t", help="give it a terminal")] = False,
) -> None:
    """Runs a command inside a guest; ends with its exit code.

    Example: virtlab exec h1.g1 -- ping -c 3 10.0.0.2
    """
    from virtlab.testbed.up.terminal import attach
    from virtlab.testbed.up.world import damaged, enter, find, namespace_of

    world = find(name)
    namespace = namespace_of(world, guest)
    for damage in damaged():
        say(f"virtlab: {damage}", err=True)
    words = command[1:] if command[0] == "--" else command
    inside = world.leaders.get(guest)
    groups = world.groups.get(guest, ())
    raise typer.Exit(attach(enter(world), namespace, words, terminal=terminal, inside=inside, cgroups=groups))
