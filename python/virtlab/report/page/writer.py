"""Writes a report: the page, and, where they can be drawn, the same plots as SVG and PNG beside it.

Every file appears whole (written aside, then renamed), so a report that is open in a browser is never half a
report, and nothing is written through a link. The folder may hold pictures of the user's own: those of an earlier
report are removed by the list of them that it left (`LIST`), and nothing else is.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from virtlab import drawing
from virtlab.analysis.published import TABLE_MAX_BYTES
from virtlab.errors import ExperimentError, MachineError
from virtlab.folders import Folder, read_bounded
from virtlab.report.figures.grammar import vega
from virtlab.report.figures.grammar.figure import Figure
from virtlab.report.figures.plots import figures_of
from virtlab.report.gather.dataset import PUBLISHED, SOURCE, gather
from virtlab.report.gather.gathered import Gathered
from virtlab.report.gather.sources.source_figures import FILE_NAME
from virtlab.report.page import document
from virtlab.results import Dataset

PAGE = "report.html"
PICTURES = "figures"
FORMATS = ("png", "svg")
LIST = ".pictures"  # in the folder of pictures: names of those that a report wrote, one a line
LIST_MAX_BYTES = 1 << 20
DEAD_AFTER_S = 3600.0  # a report that has not written to a file for so long does not write any more


def write_report(
    dataset: Dataset,
    directory: Path | None = None,
    *,
    formats: Iterable[str] | None = None,
    figures_file: Path | None = None,
    published: Path | None = None,
    data: Gathered | None = None,
) -> Path:
    """Writes `report.html` and `figures/` into the directory (the dataset's report folder when not given);
    the page's path.

    `data` is what `gather` found, when the caller has it already. `formats` are those of the pictures (empty:
    only the page; not given: all that can be drawn here). ExperimentError when a format or figures.yaml is wrong,
    MachineError when pictures cannot be drawn or the directory cannot be written.
    """
    drawable = drawing.can_draw()
    wanted = tuple(formats) if formats is not None else FORMATS if drawable else ()
    for name in wanted:
        if name not in FORMATS:
            raise ExperimentError(
                "--figures", f"'{name}' is not a format", f"write {', '.join(FORMATS)} or none"
            )
    if wanted:
        drawing.require("--figures")
    data = data or gather(dataset, figures_file=figures_file, published=published)
    figures = figures_of(data)
    first: dict[str, str] = {}
    for figure in figures:
        first.setdefault(figure.group, figure.name)
    leading = [figure for figure in figures if first[figure.group] == figure.name and not figure.empty]
    pictures = {figure.name: vega.svg(figure, titled=False) for figure in leading} if drawable else {}
    text = document.html(data, figures, pictures)
    root, below = (directory, ()) if directory is not None else (dataset.path, (dataset.report_folder.name,))
    place = root.joinpath(*below)
    try:
        _sweep(root, below)
        _keep_sources(root, (*below, SOURCE), data.source.files)
        with Folder.open(root, *below, PICTURES, make=True) as folder:
            _write_pictures(folder, figures, wanted)
        with Folder.open(root, *below, make=True) as folder:
            folder.write(PAGE, text.encode())
    except OSError as error:
        raise MachineError(
            str(place), f"cannot be written ({error.strerror})", "name another --directory"
        ) from error
    return place / PAGE


def _sweep(root: Path, below: tuple[str, ...]) -> None:
    """Removes the unfinished files of reports that were killed."""
    for within in ((), (PICTURES,), (SOURCE,), (SOURCE, PUBLISHED)):
        with suppress(FileNotFoundError), Folder.open(root, *below, *within) as folder:
            folder.sweep(DEAD_AFTER_S)


def _keep_sources(root: Path, below: tuple[str, ...], sources: Iterable[Path]) -> None:
    """Copies of figures.yaml and published tables, so that the report can be written again from the dataset alone."""
    for source in sources:
        content = read_bounded(source, TABLE_MAX_BYTES)
        within = below if source.name == FILE_NAME else (*below, PUBLISHED)
        with Folder.open(root, *within, make=True) as folder:
            if folder.read(source.name, TABLE_MAX_BYTES) != content:
                folder.write(source.name, content)


def _write_pictures(folder: Folder, figures: Iterable[Figure], formats: tuple[str, ...]) -> None:
    """Pictures of this report, and no others that an earlier one wrote. SVGs are drawn here while a thread makes them
    PNGs.
    """
    kept: set[str] = set()

    def store(picture: str, name: str, kind: str) -> None:
        folder.write(f"{name}.{kind}", picture.encode() if kind == "svg" else vega.png(picture))

    with ThreadPoolExecutor(1, "virtlab-png") as beside:
        under_way = []
        for figure in figures:
            if figure.empty or not formats:
                continue
            picture = vega.svg(figure, titled=True)
            under_way += [beside.submit(store, picture, figure.name, kind) for kind in formats]
            kept |= {f"{figure.name}.{kind}" for kind in formats}
        for one in under_way:
            one.result()
    before = _listed(folder)
    for old in before - kept:
        folder.remove(old)
    if kept != before:
        folder.write(LIST, "".join(f"{name}\n" for name in sorted(kept)).encode())


def _listed(folder: Folder) -> set[str]:
    """Pictures that an earlier report says it wrote into the folder; a name that is no plain picture's does not
    count.
    """
    text = (folder.read(LIST, LIST_MAX_BYTES) or b"").decode(errors="replace")
    return {name for name in text.split("\n") if "/" not in name and name.endswith((".png", ".svg"))}
