"""Vega-Lite specifications as pictures, and the script that draws them in a page.

SVG and PNG are drawn by vl-convert, which is as large as scipy and therefore an extra of its own. A page needs only
`vega.js`, which lies beside this file: Vega, Vega-Lite and vega-embed as vl-convert bundles them
(`python -m tools.vega_script` writes it, and `vega.js.licences`). Nothing here asks the network for anything.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from virtlab.errors import MachineError
from virtlab.lazy import vl_convert

VEGA_LITE = "6.4"
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
EXTRA = "virtlab[pictures]"
SCRIPT = Path(__file__).parent / "vega.js"
ENTRY = "window.vegaEmbed = vegaEmbed;"  # what the bundle gives to a page
_DRAW = """\
vegaEmbed("#plot", JSON.parse(document.getElementById("spec").textContent), {
  mode: "vega-lite", renderer: "svg", ast: false, config: JSON.parse(document.getElementById("config").textContent),
  actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
});
"""


def can_draw() -> bool:
    """Whether SVG and PNG can be drawn here."""
    return find_spec("vl_convert") is not None


def require(where: str) -> None:
    """MachineError where they cannot."""
    if not can_draw():
        raise MachineError(
            where, "SVG and PNG are drawn by vl-convert, which is not installed", f"pip install '{EXTRA}'"
        )


def svg(spec: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> str:
    """The plot as SVG. The renderer has its own font, so pictures look the same on every machine."""
    require("pictures")
    drawn: str = vl_convert.vegalite_to_svg(
        dict(spec), vl_version=VEGA_LITE, config=None if config is None else dict(config)
    )
    return drawn


def png(picture: str, *, scale: float) -> bytes:
    """An SVG as PNG, `scale` times its size in CSS pixels."""
    require("pictures")
    pixels: bytes = vl_convert.svg_to_png(picture, scale=scale)
    return pixels


@lru_cache(maxsize=1)
def script() -> str:
    """Vega, Vega-Lite and vega-embed as one script, which sets `window.vegaEmbed`; about 0.9 MB."""
    return SCRIPT.read_text(encoding="utf-8")


def page(title: str, spec: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> str:
    """A page that holds one plot, and draws it by its own script."""
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(script(), _DRAW)}">\n'
        f"<title>{html.escape(title)}</title></head>\n<body>\n"
        f'<div id="plot"></div>\n'
        f'<script type="application/json" id="spec">{embedded(spec)}</script>\n'
        f'<script type="application/json" id="config">{embedded(config or {})}</script>\n'
        f"<script>{script()}</script>\n<script>{_DRAW}</script>\n</body></html>\n"
    )


def policy(*scripts: str) -> str:
    """No request of any kind; only these scripts; `unsafe-eval` because Vega compiles its expressions."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(one.encode()).digest()).decode()}'" for one in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes} 'unsafe-eval'; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def embedded(value: Any) -> str:
    """JSON that can stand inside a script element: no '<', '>' or '&', short numbers, nothing that JSON does
    not know.

    >>> embedded({"name": "</script>", "y": 0.1 + 0.2})
    '{"name":"\\\\u003c/script\\\\u003e","y":0.3}'
    """
    text = json.dumps(_short(value), separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _short(value: Any) -> Any:
    """Floats with seven significant digits; infinities and not-a-number as null."""
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _short(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_short(part) for part in value]
    return value
