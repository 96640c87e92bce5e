"""A pytest plug-in: the fixture `virtlab_run` runs an experiment file and fails the test unless every claim holds.

It is off until it is named: `pytest -p virtlab.pytest`, or `pytest_plugins = ["virtlab.pytest"]` in a conftest.py at
the root. `--virtlab-backend simulator` plays all files in virtual time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from virtlab.errors import VirtlabError
from virtlab.terminal import one_line, printable

if TYPE_CHECKING:
    from virtlab.api import Results

OPTION = "--virtlab-backend"
Run = Callable[..., "Results"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option of the command line."""
    group = parser.getgroup("virtlab")
    group.addoption(OPTION, default=None, help="what plays experiments: testbed (default), simulator")


@pytest.fixture
def virtlab_run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """A function that runs an experiment and returns its results.

    `virtlab_run("network.yaml")` looks for the file beside the test, keeps the dataset in the test's own folder, and
    fails the test with the sentences of all claims that are refuted or undecided. `check=False` leaves judging to the
    test; further options are those of `virtlab.run`.
    """

    def run(file: str | Path, *, check: bool = True, **options: Any) -> Results:
        __tracebackhide__ = True
        from virtlab.api import run as run_it

        path = Path(file) if Path(file).is_absolute() else request.path.parent / file
        given = request.config.getoption(OPTION)
        if given is not None:
            options["backend"] = given
        options.setdefault("dataset", tmp_path / f"{path.stem}.results")
        failure = ""
        try:
            found = run_it(path, **options)
        except VirtlabError as error:
            failure = printable("\n".join(error.lines()))
        if failure:  # not within `except`, where pytest would show the error itself, too, as it is
            pytest.fail(failure, pytrace=False)
        wrong = [f"{one.verdict}: {one.sentence}" for one in found.verdicts if one.verdict != "holds"]
        wrong += [f"point {point} has too few good runs: {why}" for point, why in found.lacking.items()]
        if check and wrong:
            pytest.fail("\n".join(map(one_line, [*wrong, f"dataset: {found.path}"])), pytrace=False)
        return found

    return run
