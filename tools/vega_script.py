"""Writes the script that draws plots in a page, and its licences: `python -m tools.vega_script NODE_MODULES`.

The script is vl-convert's bundle of Vega, Vega-Lite and vega-embed, so a page and a picture draw alike. vl-convert
carries no notices of the authors; `npm install --ignore-scripts vega@6.2 vega-lite@6.4 vega-embed@7.0` brings them.
Without an argument only the script is written.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import vl_convert

from virtlab.drawing import ENTRY, SCRIPT, VEGA_LITE

LICENCES = SCRIPT.with_name("vega.js.licences")
ROOTS = ("vega", "vega-lite", "vega-embed")
OF_COMMANDS = {"commander", "iconv-lite", "yargs"}  # their command lines, and types, are not in a page
RULE = "-" * 100 + "\n"


def bundle() -> str:
    """The script; nothing in it ends a script element or begins a comment of HTML."""
    text: str = vl_convert.javascript_bundle(ENTRY, vl_version=VEGA_LITE)
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def packages(modules: Path) -> Iterator[dict[str, Any]]:
    """What the three packages need, themselves included, by name."""
    found: dict[str, dict[str, Any]] = {}
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        if name in found or name in OF_COMMANDS or name.startswith("@types/"):
            continue
        found[name] = json.loads((modules / name / "package.json").read_text(encoding="utf-8"))
        waiting += found[name].get("dependencies", {})
    for name in sorted(found):
        yield found[name]


def licences(modules: Path) -> str:
    """Every package with its licence, then each text once, with the packages that it belongs to."""
    of: dict[str, list[str]] = {}
    lines = []
    for one in packages(modules):
        lines.append(f"{one['name']}: {one['license']}\n")
        (text,) = (modules / one["name"]).glob("LICENSE*")
        plain = "\n".join(line.rstrip() for line in text.read_text(encoding="utf-8").strip().splitlines())
        of.setdefault(plain, []).append(one["name"])
    texts = ["\n" + RULE + ", ".join(names) + "\n" + RULE + text + "\n" for text, names in of.items()]
    return "".join([*lines, *texts])


if __name__ == "__main__":
    SCRIPT.write_text(bundle(), encoding="utf-8")
    if sys.argv[1:]:
        LICENCES.write_text(licences(Path(sys.argv[1])), encoding="utf-8")
