"""The documentation as a site, of the same Markdown: `python -m tools.site [FOLDER]`, or `make site`.

The pages are copied to a folder in which they lie as in the repository, with every file that they link to, so that a
link leads to the same place on a forge and on the site. The navigation is read from the tables of docs/README.md and
docs/decisions/README.md. Sphinx then builds with warnings as errors: a broken link, or a page that no table lists, ends
it.

Each version has a folder of its own, FOLDER/VERSION, and FOLDER/index.html lists those that are there.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOP = ("README.md", "CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")
INDEX = """\
<!doctype html>
<html lang="en"><meta charset="utf-8"><title>virtlab: documentation</title>
<h1>virtlab: documentation</h1><ul>
{}</ul></html>
"""


def pages() -> list[Path]:
    """Every page of the documentation, relative to the repository."""
    found = [Path(name) for name in TOP]
    for pattern in ("docs/**/*.md", "experiments/*/README.md", "published/README.md"):
        found += sorted(path.relative_to(ROOT) for path in ROOT.glob(pattern))
    return found


def stage(folder: Path) -> None:
    """Copies the pages and the files that they link to; the first page gets the navigation."""
    for page in pages():
        text = (ROOT / page).read_text()
        target = folder / page
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text + navigation() if str(page) == "README.md" else text)
        for link in LINK.findall(FENCE.sub("", text)):
            linked = (ROOT / page.parent / link).resolve()
            if (
                "://" not in link
                and linked.suffix != ".md"
                and linked.is_file()
                and linked.is_relative_to(ROOT)
            ):
                copy = folder / linked.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(linked, copy)


def rows(page: str) -> Iterator[tuple[str, str, str]]:
    """Section, title and target of each link in the first column of a page's tables."""
    section = ""
    for line in (ROOT / page).read_text().splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ").partition(":")[0]
        if line.startswith("| "):
            for title, target in re.findall(r"\[([^]]+)\]\(([^)]+)\)", line.split(" | ")[0]):
                yield section, title, str(Path(page).parent / target)


def navigation() -> str:
    """The order of pages: the sections of docs/README.md, the studies, the project, decisions."""
    sections: dict[str, dict[str, str]] = {}
    for section, title, target in rows("docs/README.md"):
        sections.setdefault(section, {})[target] = title
    studies = {str(path): heading(path) for path in pages() if path.parts[0] in {"experiments", "published"}}
    project = {"docs/README.md": "Documentation"} | {name: heading(Path(name)) for name in TOP[1:]}
    decisions = {"docs/decisions/README.md": "All decisions"}
    decisions |= {target: heading(Path(target)) for _, _, target in rows("docs/decisions/README.md")}
    parts = {**sections, "Studies": studies, "Project": project, "Decisions": decisions}
    return "".join(_tree(name, part) for name, part in parts.items())


def _tree(caption: str, part: Mapping[str, str]) -> str:
    entries = "".join(f"{title} <{target.removesuffix('.md')}>\n" for target, title in part.items())
    return f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}```\n"


def heading(page: Path) -> str:
    """The first heading."""
    return (ROOT / page).read_text().partition("\n")[0].lstrip("# ").replace("`", "")


def build(site: Path) -> Path:
    """Builds this version of the site; its folder. SystemExit with Sphinx's output where something is wrong."""
    version = str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])
    target = site / version
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="virtlab-site-") as scratch:
        stage(Path(scratch, "pages"))
        command = [
            sys.executable,
            "-m",
            "sphinx",
            "-q",
            "-W",
            "--keep-going",
            "-b",
            "html",
            "-c",
            str(ROOT / "docs"),
        ]
        command += ["-d", f"{scratch}/doctrees", f"{scratch}/pages", str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{done.stdout}{done.stderr}".strip())
    shutil.copyfile(target / "README.html", target / "index.html")
    versions = sorted((path.name for path in site.iterdir() if path.is_dir()), key=_order, reverse=True)
    entries = "".join(f'<li><a href="{one}/index.html">{one}</a></li>\n' for one in versions)
    (site / "index.html").write_text(INDEX.format(entries))
    return target


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


if __name__ == "__main__":
    print(build(Path(sys.argv[1] if len(sys.argv) > 1 else "target/site")))
