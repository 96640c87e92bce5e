"""A verdict's estimate as a small picture: where the interval lies, and where it had to lie."""

from __future__ import annotations

from html import escape

from virtlab.report.gather.model import Verdict
from virtlab.report.words import verdict_kind
from virtlab.units import display, interval

WIDTH, HEIGHT, MARGIN, LINE = 420, 46, 14, 16
CHARACTER, GAP = 6.5, 8.0  # about how wide a character of a label is, and what stays free between two


def picture(verdict: Verdict) -> str:
    """Inline SVG, or nothing where there is no interval to draw."""
    estimate = verdict.estimate
    if estimate is None or estimate.low is None or estimate.high is None:
        return ""
    wanted = [end for end in verdict.required if end is not None]
    marks = [estimate.low, estimate.high, estimate.point, *wanted]
    low, high = min(marks), max(marks)
    if low == high:
        return ""
    low, high = low - 0.12 * (high - low), high + 0.12 * (high - low)

    def x(value: float) -> float:
        return MARGIN + (value - low) / (high - low) * (WIDTH - 2 * MARGIN)

    kind = verdict_kind(verdict.verdict)
    shown = display(estimate.unit, marks)
    left = x(verdict.required[0]) if verdict.required[0] is not None else 0.0
    right = x(verdict.required[1]) if verdict.required[1] is not None else float(WIDTH)
    words = f"Estimate {interval(estimate.low, estimate.point, estimate.high, shown)}" + _required(
        verdict, estimate.unit
    )
    parts = [f'<line class="axis" x1="0" x2="{WIDTH}" y1="{LINE + 13}" y2="{LINE + 13}"/>']
    if wanted:
        wide = max(right - left, 1.5)
        parts.append(
            f'<rect class="wanted" x="{left:.1f}" y="3" width="{wide:.1f}" height="{LINE + 10}" rx="3"/>'
        )
    if low < 0 < high:
        parts.append(f'<line class="zero" x1="{x(0):.1f}" x2="{x(0):.1f}" y1="3" y2="{LINE + 13}"/>')
    ends = f'x1="{x(estimate.low):.1f}" x2="{x(estimate.high):.1f}"'
    parts.append(
        f'<line class="bar {kind}" {ends} y1="{LINE}" y2="{LINE}"/>'
        f'<circle class="dot {kind}" cx="{x(estimate.point):.1f}" cy="{LINE}" r="5"/>'
    )
    labels: list[tuple[float, str]] = []
    for value in dict.fromkeys([*wanted, 0.0 if low < 0 < high else estimate.point]):
        begin, end = _span(x(value), shown.text(value))
        others = [_span(at, text) for at, text in labels]
        if all(end + GAP < left_of or begin > right_of + GAP for left_of, right_of in others):
            labels.append((x(value), shown.text(value)))
    parts += [
        f'<text x="{at:.1f}" y="{HEIGHT - 3}" text-anchor="{_anchor(at)}">{escape(text)}</text>'
        for at, text in labels
    ]
    return (
        f'<svg class="range" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="{escape(words)}">{"".join(parts)}</svg>'
    )


def _anchor(at: float) -> str:
    return "start" if at < 40 else "end" if at > WIDTH - 40 else "middle"


def _span(at: float, text: str) -> tuple[float, float]:
    """From where to where a label reaches.

    >>> _span(100.0, "12345678"), _span(10.0, "1234")
    ((74.0, 126.0), (10.0, 36.0))
    """
    width = CHARACTER * len(text)
    begin = {"start": at, "middle": at - width / 2, "end": at - width}[_anchor(at)]
    return begin, begin + width


def _required(verdict: Verdict, unit: str) -> str:
    low, high = verdict.required
    shown = display(unit, [end for end in (low, high) if end is not None])
    if low is not None and high is not None:
        return f"; required between {shown.text(low)} and {shown.text(high)}"
    if low is not None:
        return f"; required above {shown.text(low)}"
    return f"; required below {shown.text(high)}" if high is not None else ""
