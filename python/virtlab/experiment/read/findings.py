"""Where a check reports what it finds: a path in the file, resolved to line and column of the node there."""

from __future__ import annotations

from virtlab.catalogue.kinds import placed
from virtlab.experiment.read.mistakes import Mistake, Mistakes, Watch, split_cure
from virtlab.experiment.read.tree import Node

Steps = tuple[str | int, ...]


class Findings:
    """Adds mistakes about nodes of one tree (a file whose references are replaced by a point's levels)."""

    def __init__(self, root: Node, mistakes: Mistakes) -> None:
        self.root = root
        self.mistakes = mistakes

    def add(self, steps: Steps, what: str, cure: str = "", *, key: bool = False) -> None:
        """A mistake at the node reached by `steps`, or at the key itself; what is absent is reported at its parent, and
        what a host has from all hosts there.
        """
        steps = self._said_at(steps)
        parent, _ = self.root.find(steps[:-1])
        node, path = self.root.find(steps)
        line, column = node.line, node.column
        if key and steps and str(steps[-1]) in parent.keys:
            line, column = parent.keys[str(steps[-1])]
        if key:
            path = _shown(steps)
        if node.origin:
            path = f"{path} ({node.origin})"
        self.mistakes.add(Mistake(line, column, path, what, cure))

    def _said_at(self, steps: Steps) -> Steps:
        """`hosts.NAME.KEY` as `host.KEY`, where only all hosts say it."""
        if len(steps) < 3 or steps[0] != "hosts":
            return steps
        common, own = self.root.get("host"), self.root.find(steps[:2])[0].get(str(steps[2]))
        said_there = own is None and common is not None and common.get(str(steps[2])) is not None
        return ("host", *steps[2:]) if said_there else steps

    def watch(self) -> Watch:
        """Begins to watch for what is found wrong from here on."""
        return self.mistakes.watch()

    def declares(self, section: str, name: object) -> bool:
        """Whether the file has an entry of that name, be it a wrong one: then its own mistake says what to mend."""
        entries = self.root.get(section)
        return (
            entries is not None
            and isinstance(entries.value, dict)
            and isinstance(name, str)
            and name in entries.value
        )

    def add_text(self, steps: Steps, text: str) -> None:
        """The same from one text 'WHAT; CURE'."""
        self.add(steps, *split_cure(text))

    def add_error(self, steps: Steps, error: ValueError) -> None:
        """All that a kind found wrong with the value at `steps`, each at its place in it."""
        for inside, text in placed(error):
            self.add_text((*steps, *inside), text)


def _shown(steps: Steps) -> str:
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f"{'.' if text else ''}{step}"
    return text
