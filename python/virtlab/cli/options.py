"""Arguments and options that several commands share, so that they are called and explained alike."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ExperimentFile = Annotated[Path, typer.Argument(help="an experiment file", show_default=False)]
DatasetFolder = Annotated[Path, typer.Argument(help="folder of a dataset, NAME.results", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON for programs")]
Yes = Annotated[bool, typer.Option("--yes", help="more than 10,000 runs are meant")]
ProfileName = Annotated[
    str | None,
    typer.Option(
        "--profile", help="what platforms cost: ideal, local, a file; default: ideal", show_default=False
    ),
]
DesignPoints = Annotated[
    list[str] | None,
    typer.Option(
        "--points",
        help="only these design points: 0,3-5 or 'load=30 kB'; may be repeated",
        show_default=False,
    ),
]
OtherLevels = Annotated[
    list[str] | None,
    typer.Option(
        "--points",
        help="only with these levels of the other factors: 'load=30 kB'; may be repeated",
        show_default=False,
    ),
]
Confidence = Annotated[
    float, typer.Option("--confidence", help="of all that is said together, e.g. 0.95", min=0.5, max=0.9999)
]
MostRuns = Annotated[
    int, typer.Option("--runs", help="most simulated runs of one level or candidate", min=2, max=1000)
]
Draws = Annotated[
    int,
    typer.Option(
        "--draws",
        help="simulated runs of each with the profile's parameters drawn from their intervals; 0: none",
        min=0,
    ),
]
