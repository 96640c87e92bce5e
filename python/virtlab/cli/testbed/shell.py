"""`virtlab shell`: a shell in a guest of a kept testbed."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from virtlab.terminal import say

app = typer.Typer(add_completion=False)


@app.command()
def shell(
    guest: Annotated[str, typer.Argument(help="a guest of the kept testbed", show_default=False)],
    *,
    name: Annotated[str | None, typer.Option(help="which kept testbed, when there are several")] = None,
) -> None:
    """Opens a shell inside a guest.

    Example: virtlab shell h1.g1
    """
    from virtlab.testbed.up.terminal import attach
    from virtlab.testbed.up.world import damaged, enter, find, namespace_of

    world = find(name)
    namespace = namespace_of(world, guest)
    for damage in damaged():
        say(f"virtlab: {damage}", err=True)
    inside = world.leaders.get(guest)
    groups = world.groups.get(guest, ())
    program = os.environ.get("SHELL", "/bin/sh") if inside is None else "/bin/sh"  # all that its image has
    raise typer.Exit(
        attach(enter(world), namespace, [program], terminal=os.isatty(0), inside=inside, cgroups=groups)
    )
