"""Sphinx's configuration of the documentation site; `tools/site.py` gathers the pages and their order."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]

project = "virtlab"
release = version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
root_doc = "README"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 6  # the names of headings in links are those of forges
nitpicky = True
html_theme = "furo"
html_title = f"virtlab {release}"
html_copy_source = False
html_show_sphinx = False
templates_path = ["templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
        "versions.html",
    ]
}
