"""The rules of the house that no linter knows: who may use whom among the crates, and that the page about it is
true.
"""

import ast
import re
import tomllib
from pathlib import Path

import pytest
from tools.arm64 import IMPURE
from tools.arm64 import PURE as TRIED_FOR_ARM64

ROOT = Path(__file__).parents[3]
MAY_USE = {
    "wire": set(),
    "disk": {"wire"},
    "load": {"disk", "wire"},
    "qdisc": {"wire"},
    "fabric": {"qdisc", "wire"},
    "migration": set(),
    "rt": set(),
    "store": {"disk", "wire"},
    "tcp": set(),
    "timeline": set(),
    "sim": {"disk", "fabric", "migration", "qdisc", "load", "store", "tcp", "timeline", "wire"},
    "system": {"wire"},
    "leader": {"disk", "qdisc", "system", "wire"},
    "agent": {"wire", "disk", "load", "qdisc", "fabric", "leader", "store", "system"},
    "py": {"migration", "rt", "sim", "timeline", "wire"},
}


def crates() -> list[str]:
    return sorted(
        path.parent.name.removeprefix("virtlab-") for path in (ROOT / "crates").glob("*/Cargo.toml")
    )


@pytest.mark.parametrize("crate", crates())
def test_a_crate_uses_only_those_it_may(crate: str) -> None:
    manifest = tomllib.loads((ROOT / f"crates/virtlab-{crate}/Cargo.toml").read_text())
    used = {name.removeprefix("virtlab-") for name in manifest["dependencies"] if name.startswith("virtlab-")}
    assert used <= MAY_USE[crate]


# Gives items to threads; what comes of them does not depend on how many there are.
SHARES_OUT = {"crates/virtlab-rt/src/parallel.rs"}


def pure() -> list[str]:
    """The crates that know no clock and do no I/O: all but the programs and two parts of the agent."""
    return [crate for crate in crates() if f"virtlab-{crate}" not in IMPURE]


def test_the_tests_of_the_pure_crates_leave_out_the_programs_alone() -> None:
    (listed,) = re.findall(r"^PURE := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(IMPURE) == set(re.findall(r"--exclude (\S+)", listed))
    assert set(IMPURE) == {option.removeprefix("--exclude=") for option in TRIED_FOR_ARM64[1:]}
    assert listed.split()[0] == TRIED_FOR_ARM64[0] == "--workspace"
    assert len(pure()) == len(crates()) - len(IMPURE)


@pytest.mark.parametrize("crate", pure())
def test_a_pure_crate_has_clippy_ban_clocks_and_knows_no_system(crate: str) -> None:
    library = (ROOT / f"crates/virtlab-{crate}/src/lib.rs").read_text()
    assert "deny(clippy::disallowed_methods, clippy::disallowed_types)" in library
    manifest = tomllib.loads((ROOT / f"crates/virtlab-{crate}/Cargo.toml").read_text())
    assert not set(manifest["dependencies"]) & {"libc", "nix", "rustix", "tokio", "std"}
    for source in (ROOT / f"crates/virtlab-{crate}/src").rglob("*.rs"):
        found = set(re.findall(r"\bstd::(fs|net|process|thread|env|os)\b", source.read_text()))
        assert found <= ({"thread"} if source.relative_to(ROOT).as_posix() in SHARES_OUT else set()), source


def test_every_room_and_crate_stands_in_the_page_about_the_house() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    rooms = [path.name for path in (ROOT / "python/virtlab").iterdir() if (path / "__init__.py").exists()]
    missing = [name for name in rooms if f"`{name}`" not in page]
    missing += [crate for crate in crates() if f"`virtlab-{crate}`" not in page]
    assert missing == []


def test_every_room_with_files_of_its_own_has_a_folder_of_tests() -> None:
    rooms = {path.parent.name for path in (ROOT / "python/virtlab").glob("*/__init__.py")}
    assert rooms <= {path.name for path in (ROOT / "tests/unit").iterdir()}


def test_the_page_about_the_house_says_who_may_use_whom_among_the_crates() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text()
    rows = dict(re.findall(r"^\| `virtlab-(\w+)` \|.*\| ([\w, ]*)\|$", page, re.MULTILINE))
    assert {crate: set(re.findall(r"\w+", used)) for crate, used in rows.items()} == MAY_USE


NO_NOUNS = {"asked", "found", "told", "kept", "takes", "asking", "beside", "ways", "one", "what"}


@pytest.mark.slow
def test_a_folder_listing_is_a_catalogue() -> None:
    """No module has a name that says nothing of what is in it, and no two of them are called refusals."""
    found = [
        path
        for end in ("py", "rs")
        for top in ("python", "crates")
        for path in (ROOT / top).rglob(f"*.{end}")
    ]
    modules = [path.parent if path.stem in {"__init__", "mod"} else path for path in found]
    assert [str(path.relative_to(ROOT)) for path in modules if path.stem.strip("_") in NO_NOUNS] == []
    assert len([path for path in modules if path.stem == "refusals"]) == 1


def test_every_decision_has_a_number_of_its_own_and_begins_with_it() -> None:
    pages = sorted((ROOT / "docs/decisions").glob("0*.md"))
    numbers = [page.name[:4] for page in pages]
    assert len(set(numbers)) == len(numbers) > 30
    for page, number in zip(pages, numbers, strict=True):
        assert page.read_text().startswith(f"# {number}: "), page.name


@pytest.mark.slow
def test_every_dependency_has_a_page_of_decision() -> None:
    pages = "\n".join(path.read_text() for path in (ROOT / "docs/decisions").glob("*.md"))
    python = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [
        *python["dependencies"],
        *(each for some in python["optional-dependencies"].values() for each in some),
    ]
    wanted = {re.split(r"[>=<.\[]", name)[0] for name in named}
    rust = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["dependencies"]
    wanted |= {name for name in rust if not name.startswith("virtlab-")}
    assert sorted(name for name in wanted if not re.search(rf"\b{re.escape(name)}\b", pages)) == []


def test_no_dependency_of_the_workspace_is_left_over() -> None:
    manifests = "\n".join(path.read_text() for path in (ROOT / "crates").glob("*/Cargo.toml"))
    rust = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["dependencies"]
    assert sorted(name for name in rust if not re.search(rf"^{name}\b", manifests, re.MULTILINE)) == []


@pytest.mark.slow
def test_every_mistake_of_a_user_is_told_with_its_cure() -> None:
    """What is passed on in the words of somebody else (a name, a call, a text that ends with {error}) has its cure
    there.
    """
    without = []
    for path in (ROOT / "python/virtlab").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
            if not named or node.func.id not in {"ExperimentError", "DatasetError"}:
                continue
            words = [*node.args, *(given.value for given in node.keywords)]
            what = words[1] if len(words) > 1 else None
            passed_on = isinstance(what, ast.Name | ast.Call) or (
                isinstance(what, ast.JoinedStr) and ast.unparse(what).endswith("{error}'")
            )
            if len(words) < 3 and not passed_on and not any(isinstance(each, ast.Starred) for each in words):
                without.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert without == []


def sources() -> list[Path]:
    """Every text that is kept, but the lock files and the literature's own."""
    kinds = {".py", ".rs", ".md", ".toml", ".yaml", ".json", ".txt", ".csv", ".j2", ".css", ".js"}
    folders = ("python", "crates", "tests", "docs", "experiments", "benches", "tools", "fuzz/fuzz_targets")
    found = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in kinds]
    found = [path for path in found if not any(part.endswith(".results") for part in path.parts)]
    return sorted(
        {*found, *ROOT.glob("*.md"), ROOT / "Makefile", ROOT / "pyproject.toml", ROOT / "Cargo.toml"}
    )


@pytest.mark.slow
def test_nothing_is_left_to_be_done_and_nothing_names_the_machine_that_it_was_written_on() -> None:
    left = ["TO" + "DO", "FIX" + "ME", "NotImplemented" + "Error", "unimpl" + "emented!", "to" + "do!("]
    # `experiment` has a folder called so, too: a path of a machine begins with it.
    homes = [rf"/home/{'[a-z]'}+/", r"/Users/[A-Za-z]+/", r"(?<!\w)/work" + r"/[a-z]+"]
    pattern = re.compile("|".join([*map(re.escape, left), *homes]))
    here = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in sources()
        if path != Path(__file__) and (found := pattern.search(path.read_text(encoding="utf-8")))
    ]
    assert here == []


def test_no_lock_file_says_where_packages_were_downloaded_from() -> None:
    for path in ROOT.glob("requirements*.lock"):
        assert not re.search(
            r"https?://|--index-url|--extra-index-url|--find-links|@ file", path.read_text()
        ), path
    public = "registry+https://github.com/rust-lang/crates.io-index"
    for path in (ROOT / "Cargo.lock", ROOT / "fuzz/Cargo.lock"):
        packages = tomllib.loads(path.read_text())["package"]
        assert {package.get("source", public) for package in packages} == {public}, path


def test_everything_is_under_one_licence() -> None:
    assert "Apache License" in (ROOT / "LICENSE").read_text()[:200]
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"] == "Apache-2.0"
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    for path in [*(ROOT / "crates").glob("*/Cargo.toml"), ROOT / "fuzz/Cargo.toml"]:
        stated = tomllib.loads(path.read_text())["package"]["license"]
        assert (workspace["license"] if stated == {"workspace": True} else stated) == "Apache-2.0", path


def statuses() -> list[tuple[str, str, str]]:
    """Number, page and status of each row in the index of decisions."""
    number = r"\d{4}"
    status = rf"in force|replaced by {number}|replaced in part by {number}(?:, {number})*"
    index = (ROOT / "docs/decisions/README.md").read_text()
    row = rf"^\| \[({number})\]\((\S+)\) \| \d{{4}}-\d\d-\d\d \| ({status}) \| \S"
    return re.findall(row, index, re.MULTILINE)


def test_every_decision_has_a_row_in_their_index() -> None:
    pages = sorted(path.name for path in (ROOT / "docs/decisions").glob("[0-9]*.md"))
    assert [page for _, page, _ in statuses()] == pages
    assert all(page.startswith(f"{number}-") for number, page, _ in statuses())


def test_a_decision_that_is_replaced_says_so_below_its_title_as_its_row_does() -> None:
    """`**Replaced** by [NNNN](...)` or `**Replaced in part** by ...`, with a link to each that the row names."""
    assert len([status for _, _, status in statuses() if status.startswith("replaced in part")]) > 3
    for _, page, status in statuses():
        below = (ROOT / "docs/decisions" / page).read_text().split("\n\n")[1]
        how, said, _ = below.partition("** by ")
        numbers = re.findall(r"\[(\d{4})\]\(\1-", below.partition(": ")[0])
        stated = f"{how.removeprefix('**').lower()} by {', '.join(numbers)}" if said else "in force"
        assert stated == status, page
