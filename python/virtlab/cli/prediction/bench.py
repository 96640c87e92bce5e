"""`virtlab bench`: figures of the simulator on this machine, one JSON object each."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from virtlab.terminal import json_text, say

app = typer.Typer(add_completion=False, no_args_is_help=True)


class Arrivals(StrEnum):
    """The gaps between a host's packets."""

    poisson = "poisson"
    constant = "constant"


@app.callback()
def bench() -> None:
    """Measures how fast the simulator is on this machine.

    Example: virtlab bench star
    """


@app.command()
def star(
    *,
    hosts: Annotated[int, typer.Option(help="hosts on the switch", min=2, max=4096)] = 32,
    arrivals: Annotated[Arrivals, typer.Option(help="gaps between packets")] = Arrivals.poisson,
    seconds: Annotated[float, typer.Option(help="virtual seconds", min=0.001, max=3600.0)] = 5.0,
    seed: Annotated[int, typer.Option(help="of the random draws", min=0)] = 1,
) -> None:
    """Hosts on one switch, 100 Mbit/s, each sending 1500 B packets at half of its link; one JSON object.

    Example: virtlab bench star --hosts 32 --arrivals poisson --seconds 5
    """

    from virtlab.simulator.yardstick import star as play

    say(json_text(play(hosts, arrivals.value, round(seconds * 1e9), seed)))
