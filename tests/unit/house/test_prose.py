"""English that a stranger reads once: phrases that readers stumbled over, and the length of lines of running text.

Each banned phrase hides who does what (`is none`, `whoever`, `of which is told`) or is a word of this house for which
the field has one (`goes on where it was`: resumes). The test reads documentation, help texts, errors, docstrings,
comments, and titles of claims.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.sections import PLACE as WRITTEN

ROOT = Path(__file__).parents[3]
LONGEST = 120  # characters of a line of running text
BANNED = {
    "say what is missing, or 'no'": r"\b(?:is|are|was|were|be) none\b",
    "name who does not, or use the passive": r"\b[Nn]obody(?:'s)?\b",
    "name who: the sender, the user, the process": r"\b[Ww]hoever\b|\bwhomever\b",
    "is in, is listed in, is shown beside": r"\b[Ss]t(?:and|ands|ood) (?:in|there|beside|with|here)\b",
    "resumes, continues, lasts, happens": r"\b(?:go|goes|going|went|gone) on\b",
    "requested": r"\basked for\b",
    "reports, lists, is distinguished": r"\bof which (?:\w+ ){0,3}told\b|\btold (?:of|apart)\b",
    "as before, as usual": r"\bas ever\b",
    "again": r"\banew\b",
    "what happened to": r"\bbec[ao]mes? of\b",
    "say whose: the owner of, which one owns": r"\bis whose\b|\bwhose it is\b|\bsays whose\b",
    "is not a, is not a valid": r"(?:(?<=['\"}] )|(?<=[\"']))(?:is|are) no\b(?! (?:longer|more|less|better)\b)",
}
# What begins a docstring that says whose a thing is, or that something is so, and not what it is.
BARE = re.compile(r"(?:Of|That|All of|Those of|It as)\b")
FIRST = "abginostwNSW"  # letters with which one of them begins: elsewhere none is looked for
PATTERN = re.compile(
    rf"\b(?=[{FIRST}])(?:{'|'.join(f'(?P<p{number}>{each})' for number, each in enumerate(BANNED.values()))})"
)
BETTER = list(BANNED)
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "experiments/*/*.md", "published/*.md")
    for page in ROOT.glob(pattern)
)
FILES = sorted(ROOT.glob("experiments/*/*.yaml"))
COMMENT = re.compile(r"^[ \t]*#[^\n]*(?:\n[ \t]*#[^\n]*)*|(?<=\s)# [^\n]*", re.MULTILINE)  # of YAML
TITLE = re.compile(r"""\btitle: ("(?:\\.|[^"\\])*"|'[^']*'|[^\n]*?(?=, \w+:|\}|$))""", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
RUST = re.compile(r'^[ \t]*//[^\n]*(?:\n[ \t]*//[^\n]*)*|//[^\n]*|"(?:\\.|[^"\\])*"', re.MULTILINE)


def without_blocks(page: Path) -> str:
    """A page's text with its blocks of code emptied, line for line."""
    return FENCE.sub(lambda block: "\n" * block[0].count("\n"), page.read_text())


def texts(path: Path) -> Iterator[str]:
    """The running text of a page without code; comments and strings of a source; comments and titles of YAML."""
    text = path.read_text()
    if path.suffix == ".py":
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in (tokenize.COMMENT, tokenize.STRING):
                yield token.string
    elif path.suffix == ".rs":
        yield from RUST.findall(text)
    elif path.suffix == ".yaml":
        yield from COMMENT.findall(text)
        yield from TITLE.findall(text)
    else:
        yield re.sub(r"`[^`\n]+`", "", FENCE.sub("", text))


def flattened(text: str) -> str:
    """On one line, as a reader sees the lines of a paragraph or comment."""
    return re.sub(r"\s*\n\s*(?://[/!]?|#)?\s*", " ", text)


def stumbles(path: Path) -> list[str]:
    """Each banned phrase in a file, with words around it and what to write instead."""
    if not PATTERN.search(flattened(path.read_text())):
        return []  # not even in its code, so nothing has to be told apart
    found = []
    for text in texts(path):
        flat = flattened(text)
        for match in PATTERN.finditer(flat):
            around = flat[max(0, match.start() - 30) : match.end() + 30]
            better = BETTER[int(str(match.lastgroup)[1:])]
            found.append(f"{path.relative_to(ROOT)}: ...{around}... ({better})")
    return found


def test_no_page_has_a_phrase_that_readers_stumbled_over() -> None:
    current = [
        page for page in PAGES if not page.name[:4].isdecimal()
    ]  # a decision keeps the words of its day
    assert [each for page in current for each in stumbles(page)] == []


def test_no_source_has_such_a_phrase() -> None:
    sources = ("python/virtlab/**/*.py", "python/virtlab/**/*.j2", "crates/*/src/**/*.rs")
    paths = [path for pattern in sources for path in sorted(ROOT.glob(pattern))]
    assert [each for path in paths for each in stumbles(path)] == []


def test_no_comment_or_title_of_an_experiment_has_such_a_phrase() -> None:
    paths = [*FILES, *sorted(ROOT.glob("python/virtlab/experiment/templates/*.yaml"))]
    assert [each for path in paths for each in stumbles(path)] == []


def test_comments_and_titles_of_yaml_are_read_and_no_values(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(
        "# One\n# two.\nload: [1, 2]  # three\nclaims:\n"
        "  - {id: a, title: Four is five, text: a.b}\n  - id: b\n    title: 'Six, seven'\n    text: \"c#d\"\n"
        '  - {id: c, title: "Eight: nine", text: e}\n  - {id: d, text: f, title: Ten}\n'
    )
    assert list(texts(path)) == [
        "# One\n# two.", "# three", "Four is five", "'Six, seven'", '"Eight: nine"', "Ten",
    ]  # fmt: skip


def test_a_phrase_is_found_across_the_end_of_a_line_of_a_comment() -> None:
    rust = '// The frame is\n// none of ours.\nlet a = "b";'
    comment = RUST.findall(rust)[0]
    assert comment == "// The frame is\n// none of ours."
    assert PATTERN.search(flattened(comment))


@pytest.mark.parametrize(
    ("better", "phrase"),
    list(zip(
        BANNED,
        ("it is none", "Nobody's", "whoever asks", "stands in it", "goes on", "asked for", "of which it told",
         "as ever", "anew", "became of it", "is whose", "'x' is no name"),
        strict=True,
    )),
)  # fmt: skip
def test_each_phrase_is_found(better: str, phrase: str) -> None:
    match = PATTERN.search(f"Here {phrase}.")
    assert match is not None
    assert BETTER[int(str(match.lastgroup)[1:])] == better


def begins_bare(source: str) -> list[str]:
    """Names of what has a docstring of which the first words say whose it is, and not what."""
    if not re.search(rf'"""{BARE.pattern}', source):
        return []  # so few sources have to be parsed
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, documented))
    return [getattr(node, "name", "") for node in nodes if BARE.match(ast.get_docstring(node) or "")]


def test_a_docstring_of_the_package_begins_with_what_the_thing_is() -> None:
    package = ROOT / "python/virtlab"
    found = [
        f"{path.relative_to(package)}: {name}"
        for path in sorted(package.rglob("*.py"))
        for name in begins_bare(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    "bare", ["Of one node.", "That it ended.", "All of a world.", "Those of a run.", "It as a role."]
)
def test_a_docstring_that_is_only_a_genitive_is_found(bare: str) -> None:
    assert begins_bare(f'def down():\n    """{bare}"""\n\n\ndef up():\n    """The node. {bare}"""\n') == [
        "down"
    ]


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of docstrings and comments of a source, by their numbers; examples and blocks of code are no prose."""
    text = path.read_text()
    lines = text.splitlines()
    if path.suffix == ".rs":
        of_code = False
        for number, line in enumerate(lines, 1):
            if line.lstrip().startswith("//"):
                of_code ^= line.lstrip(" /!").startswith("```")
                if not of_code:
                    yield number, line
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        begins = not token.line[: token.start[1]].strip()
        if begins and token.type == tokenize.COMMENT:
            yield token.start[0], lines[token.start[0] - 1]
        elif begins and token.type == tokenize.STRING and token.string.startswith(('"""', 'r"""')):
            of_code = False
            for number in range(token.start[0], token.end[0] + 1):
                of_code = bool(lines[number - 1].strip()) and (of_code or ">>> " in lines[number - 1])
                if not of_code:
                    yield number, lines[number - 1]


def test_a_line_of_a_docstring_or_comment_is_short_enough_to_read() -> None:
    """Tables and examples are exempt, and what a tool writes."""
    here = ("python/virtlab/**/*.py", "tests/**/*.py", "tools/**/*.py", "benches/**/*.py", "crates/**/*.rs")
    paths = [path for pattern in here for path in sorted(ROOT.glob(pattern)) if path != WRITTEN]
    long = [
        f"{path.relative_to(ROOT)}:{number}: {len(line)} characters"
        for path in paths
        if any(len(line) > LONGEST for line in path.read_text().splitlines())
        for number, line in prose(path)
        if len(line) > LONGEST and not line.lstrip(" /!#").startswith("|")
    ]
    assert long == []


def test_a_long_line_is_found_in_a_comment_and_a_docstring_and_in_no_example(tmp_path: Path) -> None:
    words = "word " * 24
    python, rust = tmp_path / "a.py", tmp_path / "b.rs"
    python.write_text(f'"""{words}\n\n>>> "{words}"\n\n{words}\n"""\n# {words}\nname = "{words}"\n')
    assert [number for number, line in prose(python) if "word" in line] == [1, 5, 7]
    rust.write_text(f'//! {words}\n//! ```\n//! {words}\n//! ```\nlet name = "{words}";\n    // {words}\n')
    assert [number for number, line in prose(rust) if "word" in line] == [1, 6]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_comment_of_an_experiment_is_short_enough_to_read(path: Path) -> None:
    """Values are exempt: a line breaks where the file's author groups them."""
    long = [
        f"{path.relative_to(ROOT)}:{number}: {len(line)} characters"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > LONGEST and COMMENT.search(line)
    ]
    assert long == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_line_of_running_text_is_short_enough_to_read(page: Path) -> None:
    """Tables, blocks of code and lines that are one link are exempt."""
    long = [
        f"{page.relative_to(ROOT)}:{number}: {len(line)} characters"
        for number, line in enumerate(without_blocks(page).splitlines(), 1)
        if len(line) > LONGEST and not line.startswith(("|", "    ", "!["))
    ]
    assert long == []
