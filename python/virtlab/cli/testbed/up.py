"""`virtlab up`: build the testbed of one design point and keep it."""

from __future__ import annotations

from typing import Annotated

import typer

from virtlab.cli.options import ExperimentFile
from virtlab.terminal import say

app = typer.Typer(add_completion=False)


class _Quiet:
    """Says what is being done, on the error stream, once each."""

    def __init__(self) -> None:
        self._last = ""

    def progress(self, step: str, done_ratio: float | None = None) -> None:
        """Prints a new step."""
        if step != self._last and done_ratio is None:
            say(f"  {step}", err=True)
            self._last = step

    def cancelled(self) -> bool:
        """Never: Ctrl-C raises."""
        return False


@app.command()
def up(
    file: ExperimentFile,
    *,
    point: Annotated[int, typer.Option(help="design point, as `virtlab plan` numbers them")] = 0,
    name: Annotated[str | None, typer.Option(help="name of the world; the file's by default")] = None,
    idle: Annotated[str, typer.Option(help="ends by itself after this time without a visitor")] = "1 h",
    allow_exec: Annotated[
        bool, typer.Option("--allow-exec", help="services of guests without files of their own may run")
    ] = False,
    where: Annotated[str | None, typer.Option("--in", hidden=True)] = None,
) -> None:
    """Builds a testbed and keeps it, to walk around in with `shell` and `exec`; `down` ends it.

    While it is built no measurement runs on this machine; it waits for one that does.

    Example: virtlab up experiments/switched-network/quick.yaml
    """
    from virtlab.campaign import MachineLock
    from virtlab.cli.guest_commands import refuse_unless_allowed
    from virtlab.errors import ExperimentError, MachineError
    from virtlab.experiment import load
    from virtlab.planner import plan_run
    from virtlab.testbed import Testbed
    from virtlab.testbed.up.world import check, keep
    from virtlab.units import Duration

    if where is not None:
        what = (
            f"a world in '{where}' lives no longer than the command that booted it, and a kept one has none"
        )
        raise ExperimentError(
            "--in", what, "leave it out, or give the timeline an 'exec' action and use `virtlab run`"
        )
    experiment = load(file)
    points = list(experiment.points())
    if not 0 <= point < len(points):
        raise ExperimentError("--point", f"there is no design point {point}", f"write 0 to {len(points) - 1}")
    try:
        idle_ns = Duration.parse(idle).ns
    except ValueError as error:
        raise ExperimentError("--idle", str(error)) from error
    refuse_unless_allowed(experiment, [point], allowed=allow_exec, plays=False)
    plan = plan_run(experiment, points[point], 0)
    check(plan, name or file.stem)
    refusals = Testbed().check(plan)
    if refusals:
        first = refusals[0]
        more = f" (and {len(refusals) - 1} more)" if len(refusals) > 1 else ""
        raise MachineError(first.path, first.reason + more, first.cure)
    # Building takes processor time that a running measurement would miss; a world that stands idle takes none.
    with MachineLock(f"virtlab up {file.name}") as lock:
        lock.acquire(wait=True, waiting=lambda holder: say(f"  waits for {holder}", err=True))
        world = keep(plan, name or file.stem, str(file), _Quiet(), idle_ns=idle_ns)
    for guest, addresses in world.addresses.items():
        say(f"{guest:<24} {' '.join(addresses)}")
    which = f" --name {world.name}" if name is not None else ""
    say(f"virtlab shell {next(iter(world.guests))}{which}   virtlab down{which}", err=True)
