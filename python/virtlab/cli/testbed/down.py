"""`virtlab down`: take a kept testbed down."""

from __future__ import annotations

from typing import Annotated

import typer

from virtlab.terminal import say

app = typer.Typer(add_completion=False)


@app.command()
def down(
    *,
    name: Annotated[str | None, typer.Option(help="which kept testbed, when there are several")] = None,
    every: Annotated[bool, typer.Option("--all", help="all of them")] = False,
) -> None:
    """Takes a kept testbed down; the kernel removes everything that was in it.

    Example: virtlab down
    """
    from virtlab.testbed.up.world import damaged, end, find, worlds

    for world in worlds().values() if every else [find(name)]:
        end(world)
        say(f"{world.name} is gone")
    for damage in damaged():
        say(f"virtlab: {damage}", err=True)
