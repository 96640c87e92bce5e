"""`virtlab init`: a study to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from virtlab.errors import ExperimentError
from virtlab.terminal import say

app = typer.Typer(add_completion=False)


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="folder to write; its name becomes the experiment's")] = Path(
        "my-study"
    ),
    *,
    template: Annotated[
        str, typer.Option("--template", "-t", help="delay, load, throughput, router or demo")
    ] = "delay",
    listed: Annotated[bool, typer.Option("--list", help="list the templates and write nothing")] = False,
) -> None:
    """Writes a folder with an experiment file that passes `virtlab check`, and the schema for your editor.

    Nothing that exists is overwritten.

    Examples:

        virtlab init delay-at-home

        virtlab init my-study --template load
    """
    from virtlab.experiment.templates import TEMPLATES

    if listed:
        for name, meaning in TEMPLATES.items():
            say(f"{name:<12} {meaning}")
        return
    if template not in TEMPLATES:
        raise ExperimentError(
            "--template", f"there is no template '{template}'", f"write one of {', '.join(TEMPLATES)}"
        )
    file = _write(folder, template)
    say(f"{file} is yours to change. Next:")
    say(f"  virtlab check {file}")
    say(f"  virtlab run {file}")


def _write(folder: Path, template: str) -> Path:
    """Writes the files of a study; refuses where one exists, before anything is written."""
    import json

    from virtlab.experiment.experiment import DATASET_NAME
    from virtlab.experiment.schema import json_schema
    from virtlab.experiment.templates import template as text_of

    name = folder.resolve().name
    if not DATASET_NAME.match(name):
        raise ExperimentError(
            str(folder),
            f"'{name}' is not a valid name of an experiment",
            "use lower-case letters, digits and '-'",
        )
    files = {
        "experiment.yaml": text_of(template, name),
        "virtlab.schema.json": json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n",
    }
    for file in files:
        if (folder / file).exists() or (folder / file).is_symlink():
            raise ExperimentError(
                str(folder / file), "exists already, and nothing is overwritten", "name another folder"
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, content in files.items():
            with (folder / file).open("x", encoding="utf-8") as target:
                target.write(content)
    except OSError as error:
        raise ExperimentError(
            str(folder), f"cannot be written ({error.strerror})", "name a folder of yours"
        ) from None
    return folder / "experiment.yaml"
