"""What is inside a wheel, beside our own sources: crates, and libraries that the linker takes in.

`python -m tools.inside` writes NOTICE, with every crate's licence and the notices that its authors ask to be kept;
`python -m tools.inside --sbom FILE` writes the same, and the Python packages that a wheel needs, as CycloneDX 1.6.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "python" / "virtlab" / "drawing" / "vega.js.licences"
MACHINES = ("x86_64", "aarch64")  # processors that wheels are made for
LINKED = ("virtlab-agent", "virtlab-py")
RULE = "-" * 100 + "\n"
KEPT = re.compile(r"(?:licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)
APACHE = re.compile(r"Apache License\s+Version 2\.0", re.IGNORECASE)
HEAD = """\
virtlab
Copyright The virtlab maintainers
Licensed under the Apache License, Version 2.0; see LICENSE.

A wheel of virtlab holds two programs, the agent and the extension module, into which the libraries below are linked,
and a script for the pages that it writes. Python packages are not inside: they are installed beside virtlab, each with
its own licence.

"""
SYSTEM = """\
The Rust standard library (both programs): MIT OR Apache-2.0. Copyright The Rust Project contributors.
  https://www.rust-lang.org/policies/licenses
The GNU C Library (the agent, linked statically): LGPL-2.1-or-later. Copyright the Free Software Foundation and others.
  The agent's source and the command that links it (`make agent`) let anybody link it again with another version.
  Its licence is in licences/LGPL-2.1.txt. https://www.gnu.org/software/libc/
LLVM's unwinder, and Zig's parts of a compiler's runtime library (the extension module of wheels for an index, which zig
  links): Apache-2.0 WITH LLVM-exception, copyright the LLVM project's contributors; MIT, copyright Zig's contributors.
  https://llvm.org/LICENSE.txt
libgcc's unwinder (the agent): GPL-3.0-or-later WITH GCC-exception-3.1. Copyright the Free Software Foundation.
  Licence and exception are in licences/GPL-3.0.txt and licences/GCC-exception-3.1.txt.
  https://gcc.gnu.org/onlinedocs/libstdc++/manual/license.html

"""


@dataclass(frozen=True, order=True)
class Crate:
    """A crate as it is locked."""

    name: str
    version: str
    licence: str
    folder: Path
    checksum: str

    def notices(self) -> list[str]:
        """The texts of its licences; of Apache's, which LICENSE has, only where there is no other."""
        files = sorted(path for path in self.folder.iterdir() if path.is_file() and KEPT.match(path.name))
        texts = [_plain(path.read_text(encoding="utf-8", errors="replace")) for path in files]
        return [text for text in texts if not APACHE.search(text[:400])]


def crates() -> list[Crate]:
    """Those of the registry that are linked into the programs of any wheel, with what builds them left out."""
    common = ["--locked", "--offline"]
    linked = set[tuple[str, ...]]()
    for machine in MACHINES:
        tree = [
            "cargo",
            "tree",
            *common,
            "-e",
            "normal,no-proc-macro",
            "--target",
            f"{machine}-unknown-linux-gnu",
        ]
        tree += ["--prefix", "none", "-f", "{p}", *(word for name in LINKED for word in ("-p", name))]
        linked |= {tuple(line.split()[:2]) for line in _said(*tree).splitlines() if line.strip()}
    packages = json.loads(_said("cargo", "metadata", *common, "--format-version", "1"))["packages"]
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    sums = {(one["name"], one["version"]): one.get("checksum", "") for one in lock}
    found = [
        Crate(
            one["name"],
            one["version"],
            str(one["license"]).replace("/", " OR "),
            Path(one["manifest_path"]).parent,
            sums[one["name"], one["version"]],
        )
        for one in packages
        if one["source"] is not None and (one["name"], f"v{one['version']}") in linked
    ]
    return sorted(found)


def notice() -> str:
    """The file NOTICE."""
    of: dict[str, list[Crate]] = {}
    found = crates()
    for crate in found:
        for text in crate.notices():
            of.setdefault(text, []).append(crate)
    parts = [HEAD, "Libraries of the system\n", RULE, SYSTEM, "Crates\n", RULE]
    parts += [f"{crate.name} {crate.version}: {crate.licence}\n" for crate in found]
    for text, members in of.items():
        parts += ["\n", RULE, ", ".join(crate.name for crate in members), "\n", RULE, text]
    parts += [
        "\nThe script of the pages (virtlab/drawing/vega.js)\n",
        RULE,
        SCRIPT.read_text(encoding="utf-8"),
    ]
    return "".join(parts)


def sbom() -> dict[str, Any]:
    """The bill of materials, CycloneDX 1.6; the same sources give the same bytes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    own = f"pkg:pypi/virtlab@{project['version']}"
    components: list[dict[str, Any]] = [
        {
            "type": "library", "bom-ref": f"pkg:cargo/{one.name}@{one.version}", "name": one.name, "version": one.version,
            "purl": f"pkg:cargo/{one.name}@{one.version}", "licenses": [{"expression": one.licence}],
            "hashes": [{"alg": "SHA-256", "content": one.checksum}],
        }
        for one in crates()
    ]  # fmt: skip
    for name, licence in re.findall(r"^([\w.-]+): (\S+)$", SCRIPT.read_text(encoding="utf-8"), re.MULTILINE):
        purl = f"pkg:npm/{name}"
        components.append(
            {
                "type": "library",
                "bom-ref": purl,
                "name": name,
                "purl": purl,
                "licenses": [{"expression": licence}],
            }
        )
    inside = [one["bom-ref"] for one in components]
    for name, version in re.findall(
        r"^([\w.-]+)==([^\s\\]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE
    ):
        purl = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
        components.append(
            {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
        )
    own_licence = [{"license": {"id": project["license"]}}]
    whole = {
        "type": "application",
        "bom-ref": own,
        "name": "virtlab",
        "version": project["version"],
        "purl": own,
    }
    needed = [one["bom-ref"] for one in components if one["bom-ref"] not in inside]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**whole, "licenses": own_licence}},
        "components": components,
        "dependencies": [{"ref": own, "dependsOn": [*inside, *needed]}],
    }


def _plain(text: str) -> str:
    lines = [line.rstrip() for line in text.replace("\f", "").strip("\ufeff\n ").splitlines()]
    return "\n".join(lines) + "\n"


def _said(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    if sys.argv[1:2] == ["--sbom"]:
        Path(sys.argv[2]).write_text(json.dumps(sbom(), indent=1) + "\n")
    else:
        (ROOT / "NOTICE").write_text(notice())
