"""Functions, parameters and fields are called by what they are, not by a word that fits everything.

`what` is the middle of the house's errors (where, what, cure), and only that; a name that stands in a file, in what
`--json` prints or on the command line stays. The list of these is reviewed by hand, and may only shrink.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.house.test_house import NO_NOUNS

ROOT = Path(__file__).parents[3] / "python" / "virtlab"
ERROR = "an error says where, what, and the cure"
FILE = "a key of a file of datasets, or of a lock that versions share"
PRINTED = "a key of what `--json` prints"
OPTION = "an argument of a command, as its help names it"
ALLOWED = {
    "agents/conversation.py Breach.what": ERROR,
    "analysis/claims/check.py Mistake.what": ERROR,
    "analysis/claims/nouns.py __init__(what)": ERROR,
    "analysis/claims/parser.py error(what)": ERROR,
    "analysis/searches/searched.py _End.found": FILE,
    "catalogue/disks.py DiskFault.what": ERROR,
    "cli/dataset/export.py export(what)": OPTION,
    "cli/rt/studies.py study(what)": OPTION,
    "cli/words/entries.py Entry.what": PRINTED,
    "errors.py VirtlabError.what": ERROR,
    "errors.py __init__(what)": ERROR,
    "experiment/read/brought.py _mistaken(what)": ERROR,
    "experiment/read/findings.py add(what)": ERROR,
    "experiment/read/mistakes.py Mistake.what": ERROR,
    "experiment/read/traces.py _mistaken(what)": ERROR,
    "experiment/read/tree.py _add(what)": ERROR,
    "experiment/read/tree.py _give_up(what)": ERROR,
    "outputs/unreadable.py UnreadableError.what": ERROR,
    "outputs/unreadable.py __init__(what)": ERROR,
    "plan/backend.py Event.what": FILE,
    "realtime/tasks.py refuse(what)": ERROR,
    "results/lock.py Holder.what": FILE,
    "results/record.py _Entry.what": FILE,
    "testbed/build/realtime.py _RefusedError.what": ERROR,
    "testbed/leader/control.py __init__(what)": ERROR,
    "testbed/leader/control.py breach(what)": ERROR,
    "testbed/platforms/qemu/monitor.py _failed(what)": ERROR,
    "testbed/play/programs.py _fail(what)": ERROR,
}
MOST = 28  # entries of that list; where one goes, this goes down with it


def named(tree: ast.AST) -> Iterator[str]:
    """Functions as NAME, parameters as FUNCTION(NAME), fields of classes and attributes of `self` as CLASS.NAME."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            given = node.args
            arguments = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
            function = "lambda" if isinstance(node, ast.Lambda) else node.name
            yield from (f"{function}({each.arg})" for each in arguments if each is not None)
        if isinstance(node, ast.ClassDef):
            yield from (
                f"{node.name}.{each.target.id}"
                for each in node.body
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
            )
            yield from (
                f"{node.name}.{each.attr}"
                for each in ast.walk(node)
                if isinstance(each, ast.Attribute)
                and isinstance(each.ctx, ast.Store)
                and isinstance(each.value, ast.Name)
                and each.value.id == "self"
            )


def without_noun(text: str) -> set[str]:
    """Those of a source that say nothing."""
    return {
        name
        for name in named(ast.parse(text))
        if name.strip(")").split("(" if "(" in name else ".")[-1].strip("_") in NO_NOUNS
    }


@pytest.mark.slow
def test_functions_parameters_and_fields_say_what_they_are() -> None:
    found = {
        f"{path.relative_to(ROOT).as_posix()} {name}"
        for path in sorted(ROOT.rglob("*.py"))
        for name in without_noun(path.read_text(encoding="utf-8"))
    }
    assert found == set(ALLOWED)


def test_the_list_of_such_names_shrinks() -> None:
    assert len(ALLOWED) == MOST


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def f(found, *, _kept=1): ...", {"f(found)", "f(_kept)"}),
        ("def _told(): ...\nclass C:\n    async def beside(self): ...", {"_told", "beside"}),
        ("g = lambda one, *told: one", {"lambda(one)", "lambda(told)"}),
        (
            "class C:\n    ways: int\n    way: int\n    def f(self):\n        self._beside = 1",
            {"C.ways", "C._beside"},
        ),
        ("def f(founder, one_way): takes = founder", set()),
    ],
)
def test_a_name_that_says_nothing_is_seen(text: str, names: set[str]) -> None:
    assert without_noun(text) == names
