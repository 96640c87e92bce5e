"""Writes a report: the page, and the same plots as SVG and PNG beside it.

Every file appears whole (written aside, then renamed), so a report that is open in a browser is never half a
report.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from virtlab.errors import ExperimentError, MachineError
from virtlab.report import page, render
from virtlab.report.drawing import figures_of
from virtlab.report.figure import Figure
from virtlab.report.figures import FILE_NAME
from virtlab.report.gather import SOURCE, gather
from virtlab.report.model import Gathered

if TYPE_CHECKING:
    from virtlab.results import Dataset

PAGE = "report.html"
PICTURES = "figures"
FORMATS = ("png", "svg")


def write_report(
    dataset: Dataset,
    directory: Path | None = None,
    *,
    formats: Iterable[str] = FORMATS,
    figures_file: Path | None = None,
    published: Path | None = None,
    data: Gathered | None = None,
) -> Path:
    """Writes `report.html` and `figures/` into the directory (the dataset's report folder when not given);
    the page's path.

    `data` is what `gather` found, when the caller has it already. `formats` are those of the pictures (none:
    only the page). ExperimentError when a format or figures.yaml is wrong, MachineError when the directory
    cannot be written.
    """
    wanted = tuple(formats)
    for name in wanted:
        if name not in FORMATS:
            raise ExperimentError(
                "--figures", f"'{name}' is no format", f"write {', '.join(FORMATS)} or none"
            )
    directory = directory or dataset.report_folder
    with ThreadPoolExecutor(1, "virtlab-report") as beside:
        library = beside.submit(render.javascript)  # a second of work that needs nothing from the dataset
        data = data or gather(dataset, figures_file=figures_file, published=published)
        figures = figures_of(data)
        library.result()
    first: dict[str, str] = {}
    for figure in figures:
        first.setdefault(figure.group, figure.name)
    leading = [figure for figure in figures if first[figure.group] == figure.name and not figure.empty]
    text = page.html(data, figures, {figure.name: render.svg(figure, titled=False) for figure in leading})
    try:
        _keep_sources(directory / SOURCE, data.sources)
        _write_pictures(directory / PICTURES, figures, wanted)
        _write(directory / PAGE, text.encode())
    except OSError as error:
        raise MachineError(
            str(directory), f"cannot be written ({error.strerror})", "name another --directory"
        ) from error
    return directory / PAGE


def _keep_sources(folder: Path, sources: Iterable[Path]) -> None:
    """Copies of figures.yaml and published tables, so that the report can be written again from the dataset alone."""
    for source in sources:
        target = folder / (source.name if source.name == FILE_NAME else f"published/{source.name}")
        content = source.read_bytes()
        if target.absolute() != source.absolute() and not (
            target.is_file() and target.read_bytes() == content
        ):
            _write(target, content)


def _write_pictures(folder: Path, figures: Iterable[Figure], formats: tuple[str, ...]) -> None:
    """Pictures of this report, and no others of an earlier one. SVGs are drawn here while a thread makes them
    PNGs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kept: set[str] = set()

    def store(picture: str, name: str, kind: str) -> None:
        _write(folder / f"{name}.{kind}", picture.encode() if kind == "svg" else render.png(picture))

    with ThreadPoolExecutor(1, "virtlab-png") as beside:
        under_way = []
        for figure in figures:
            if figure.empty or not formats:
                continue
            picture = render.svg(figure, titled=True)
            under_way += [beside.submit(store, picture, figure.name, kind) for kind in formats]
            kept |= {f"{figure.name}.{kind}" for kind in formats}
        for one in under_way:
            one.result()
    for old in folder.iterdir():
        if old.suffix.removeprefix(".") in FORMATS and old.name not in kept:
            old.unlink()


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.partial")
    aside.write_bytes(content)
    aside.replace(path)
