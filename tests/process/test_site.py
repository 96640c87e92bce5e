"""The documentation as a site: strict, whole, searchable, and without anything from other sites."""

from __future__ import annotations

import json
import re
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from tools import site

ROOT = Path(__file__).parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of this version, beside one of an older version."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "0.0.9").mkdir()
    return site.build(folder)


class Loaded(HTMLParser):
    """What a page loads, and where its links lead."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: set[str] = set()
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in {"script", "img", "iframe"} and given.get("src"):
            self.loads.add(str(given["src"]))
        if tag == "link" and given.get("rel") in {"stylesheet", "icon", "preload"} and given.get("href"):
            self.loads.add(str(given["href"]))
        if tag == "a" and given.get("href"):
            self.links.add(str(given["href"]))


def test_every_page_is_in_the_site_and_every_file_that_a_page_of_it_names(built: Path) -> None:
    missing = []
    for page in site.pages():
        html = built / page.with_suffix(".html")
        parser = Loaded()
        parser.feed(html.read_text())
        assert parser.loads, page
        for target in parser.loads | parser.links:
            place = target.partition("#")[0].partition("?")[0]
            if target in parser.loads:
                assert not re.match(r"(?:https?:)?//", target), f"{page} loads {target}"
            if place and not re.match(r"[a-z]+:", place) and not (html.parent / place).exists():
                missing.append(f"{page}: {target}")
    assert missing == []


def test_a_search_finds_the_page_of_a_word(built: Path) -> None:
    text = (built / "searchindex.js").read_text()
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    for word, page in (
        ("openflow", "docs/explanation/other-tools"),
        ("dpdk", "docs/explanation/other-tools"),
    ):
        found = index["terms"][word]
        named = [index["docnames"][one] for one in ([found] if isinstance(found, int) else found)]
        assert page in named, word


def test_versions_are_listed_newest_first(built: Path) -> None:
    listed = re.findall(r'href="([^"]+)/index.html"', (built.parent / "index.html").read_text())
    assert listed == [VERSION, "0.0.9"]
    assert built.name == VERSION
    assert (built / "index.html").read_text() == (built / "README.html").read_text()


@pytest.mark.parametrize(
    ("text", "problem"),
    [("[there](nowhere.md)", "nowhere.md"), ("[there](../README.md#no-such-heading)", "no-such-heading")],
)
def test_a_link_that_leads_nowhere_ends_the_build(
    text: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "ROOT", tmp_path)
    for name in site.TOP:
        (tmp_path / name).write_text(f"# {name}\n")
    for name in ("docs/README.md", "docs/decisions/README.md", "published/README.md", "docs/page.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("# Page\n")
    (tmp_path / "docs/README.md").write_text(
        "# All\n## Pages: all\n| | |\n|---|---|\n| [Page](page.md) | it |\n"
    )
    for name in ("pyproject.toml", "docs/conf.py", "docs/templates/versions.html"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    assert site.build(tmp_path / "site").is_dir()
    (tmp_path / "docs/page.md").write_text(f"# Page\n{text}\n")
    with pytest.raises(SystemExit, match=problem):
        site.build(tmp_path / "site")


def test_the_list_of_changes_begins_with_this_version_and_the_citation_names_it() -> None:
    first = re.search(r"^## (\S+?),? ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first
    assert first[1].rstrip(",") == VERSION
    cited = YAML(typ="safe").load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == VERSION
    assert (cited["cff-version"], cited["license"], cited["type"]) == ("1.2.0", "Apache-2.0", "software")
    assert {"message", "title", "authors"} <= set(cited)
