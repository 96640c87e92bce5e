"""`virtlab manual`: writes the manual pages to where `man` finds them, however virtlab was installed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from virtlab.terminal import say

app = typer.Typer(add_completion=False)


@app.command()
def manual(
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="where; default: ~/.local/share/man/man1, which `man` searches", show_default=False
        ),
    ] = None,
) -> None:
    """Writes a manual page for `man` per command, over those of another version.

    `make install` does so by itself; pip, uv and pipx do not.

    Example: virtlab manual
    """
    from virtlab.cli.manual import pages
    from virtlab.errors import MachineError
    from virtlab.folders import Folder

    place, found = folder or Path.home() / ".local" / "share" / "man" / "man1", pages()
    try:
        with Folder.open(place, make=True) as opened:
            for name, text in found.items():
                opened.write(name, text.encode())
    except OSError as error:
        raise MachineError(
            str(place), f"cannot be written ({error.strerror})", "name a folder of yours"
        ) from None
    say(f"{len(found)} manual pages: {place}")
