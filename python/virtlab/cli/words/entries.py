"""Every word that can be explained, from where it is declared: metrics, statistics, kinds, commands, terms, codes.

The terms are those of the glossary, whose page in the documentation is the same file; codes and taints are in
`answers.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

ROW = re.compile(r"^\| (\*\*.+?) \| (.+?) \|$", re.MULTILINE)
LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


@dataclass(frozen=True, slots=True)
class Entry:
    """What a word is, why, and what to do; `names` find it, each begins with the one that is shown."""

    names: tuple[str, ...]
    kind: str
    what: str
    cure: str = ""

    def text(self) -> str:
        """For a terminal."""
        lines = [f"{self.names[0]} ({self.kind})", f"  {self.what}"]
        return "\n".join([*lines, *([f"  what to do: {self.cure}"] if self.cure else [])])


def entries() -> list[Entry]:
    """Every entry; a word may have several."""
    return [*_answers(), *_terms(), *_metrics(), *_kinds(), *_commands()]


MESSAGES = frozenset({"taint", "failure", "refusal", "verdict"})
WORDS = 3  # a longer text is a message, and no term stands for it


def entries_of(word: str) -> list[Entry]:
    """The entries of a word, of the parts of a path, or of a message that was pasted.

    Of a message it is the entry whose own words are in it, the longest first; a term that happens to be part of one
    does not explain it. A message that none explains says by itself what to do, behind its last semicolon.
    """
    wanted, every = word.strip().lower().removesuffix(":"), entries()
    exact = [one for one in every if wanted in {name.lower().removesuffix(":") for name in one.names}]
    if exact:
        return exact
    if " " not in wanted:
        parts = [part for part in re.split(r"\.(?!\d)", wanted) if part]
        return [
            one
            for one in every
            if len(parts) > 1 and one.kind in {"metric", "statistic"} and set(one.names) & set(parts[-2:])
        ]
    hits = [
        (len(name), one) for one in every for name in one.names if len(name) > 3 and _within(name, wanted)
    ]
    hits.sort(key=lambda hit: -hit[0])
    named = [one for _, one in hits if one.kind in MESSAGES]
    if named:
        return named[:1]
    if ": " not in wanted and len(wanted.split()) <= WORDS:
        return list(dict.fromkeys(one for _, one in hits))[:3]
    return list(_by_itself(word.strip()))


def _by_itself(message: str) -> Iterator[Entry]:
    """The entry of a message `WHERE: WHAT; CURE`, or `WHERE: WHAT` of it."""
    message = message.removeprefix("virtlab: ")
    told, semicolon, cure = message.rpartition("; ")
    if semicolon and ": " in told:
        yield Entry((told,), "message", "It says where, what is the matter, and what to do.", cure)
    elif ": " in message:
        yield Entry((message,), "message", "It says where, and what is the matter.")


def _within(name: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name.lower())}(?!\w)", text) is not None


def _answers() -> Iterator[Entry]:
    import tomllib

    for each in tomllib.loads(files(__package__).joinpath("answers.toml").read_text(encoding="utf-8"))[
        "entry"
    ]:
        yield Entry(tuple(each["names"]), each["kind"], each["what"], each["cure"])


def _terms() -> Iterator[Entry]:
    """Rows `| **word**, **word** | meaning |` of the glossary."""
    for names, meaning in ROW.findall(files(__package__).joinpath("glossary.md").read_text(encoding="utf-8")):
        plain = LINK.sub(r"\1", meaning).replace("`", "").replace("*", "").replace("\\|", "|")
        yield Entry(tuple(re.findall(r"\*\*`?(.+?)`?\*\*", names)), "term", plain)


def _metrics() -> Iterator[Entry]:
    from virtlab.metrics import METRICS, STATISTICS

    better = {"lower": " Lower is better.", "higher": " Higher is better.", "neither": ""}
    for metric in METRICS.values():
        what = f"{metric.definition}{better[metric.better]} Source: {metric.source}. Unit: {metric.unit}."
        cure = f"write ROLE.{metric.key}.STATISTIC with one of {', '.join(metric.statistics)}"
        yield Entry((metric.key, metric.title()), "metric", what, cure)
    for statistic in STATISTICS.values():
        least = f" Given from {statistic.least_samples} samples on." if statistic.least_samples > 1 else ""
        yield Entry((statistic.key,), "statistic", f"{statistic.definition}{least}")


def _kinds() -> Iterator[Entry]:
    from virtlab.catalogue import PLATFORMS, QDISCS, VSWITCHES, WORKLOADS
    from virtlab.catalogue.actions import ACTIONS

    for word, kinds in (
        ("workload", WORKLOADS), ("platform", PLATFORMS), ("virtual switch", VSWITCHES), ("queue discipline", QDISCS),
    ):  # fmt: skip
        for name, kind in kinds.items():
            yield Entry((name,), word, f"{kind.meaning[:1].upper()}{kind.meaning[1:]}.")
    for name, action in ACTIONS.items():
        what = f"{action.meaning[:1].upper()}{action.meaning[1:]}. Its keys: {', '.join(action.keys)}."
        yield Entry((name,), "action of a timeline", what)


def _commands() -> Iterator[Entry]:
    from virtlab.cli.table import COMMANDS

    for name, entry in COMMANDS.items():
        yield Entry(
            (f"virtlab {name}", name),
            "command",
            f"{entry.help[:1].upper()}{entry.help[1:]}.",
            f"virtlab {name} --help",
        )
