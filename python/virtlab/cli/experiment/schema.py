"""`virtlab schema`: the JSON Schema of experiment files, for editors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from virtlab.errors import ExperimentError
from virtlab.folders import put
from virtlab.terminal import json_text, say

app = typer.Typer(add_completion=False)


@app.command()
def schema(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="write it to this file", show_default=False)
    ] = None,
) -> None:
    """Prints the JSON Schema (2020-12) of experiment files.

    An editor that knows YAML schemas then completes keys, shows what each means, and marks mistakes as you
    type. Write it beside your files, and begin each with this line:

        # yaml-language-server: $schema=virtlab.schema.json

    Example: virtlab schema -o virtlab.schema.json
    """

    from virtlab.experiment.schema import json_schema

    text = json_text(json_schema(), indent=2)
    if output is None:
        say(text)
        return
    try:
        put(output, f"{text}\n".encode())
    except OSError as error:
        raise ExperimentError(
            str(output), f"cannot be written ({error.strerror})", "name a file in a folder of yours"
        ) from None
    say(f"{output}: begin an experiment file with '# yaml-language-server: $schema={output.name}'")
