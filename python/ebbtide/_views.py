"""Return types of `report()` and `curve()`: plain data that notebooks draw."""

import html
from collections.abc import Sequence
from typing import Any, NamedTuple

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

# Colours that are read on white and on black.
_LINE, _LIMIT, _TEXT = "#3987c4", "#d0632a", "#888888"
_WIDTH, _HEIGHT, _MARGIN = 480, 160, 8


class Report(dict[str, Any]):
    """The report so far: the members of EBBTIDE_REPORT's file."""

    def _repr_html_(self) -> str:
        if not self:
            return "<p>ebbtide is not running in this process</p>"
        rows = [
            ("budget", "none" if self["budget"] < 0 else _size(self["budget"])),
            ("peak of the run", _size(self["peak"])),
            ("steps", f"{self['steps']}, {self['over_budget_steps']} over the budget"),
            ("step time", _seconds(self["step_times"])),
            ("state", self["state"]),
            ("recomputed", _size(self["bytes_by_tier"]["dropped"])),
            ("copied away", _size(self["bytes_by_tier"]["disk"])),
        ]
        if self["reason"]:
            rows.append(("because", self["reason"]))
        peaks = [(float(i), float(peak)) for i, peak in enumerate(self["step_peaks"])]
        limit = float(self["budget"]) if self["budget"] >= 0 else None
        return _table(rows) + _chart("peak of each step", [peaks], limit)


class Point(NamedTuple):
    """The fastest step known within a budget."""

    budget: int  # bytes
    seconds: float


class Curve(list[Point]):
    """Step time against budget without offloading, the least budget first.

    `offloading` is the same with it, or None where nothing can be offloaded.
    """

    def __init__(
        self, points: Sequence[Point], offloading: Sequence[Point] | None = None
    ) -> None:
        super().__init__(points)
        self.offloading = None if offloading is None else list(offloading)

    def seconds_within(self, budget: int, *, offloading: bool = False) -> float | None:
        """The step's time within that many bytes; None: no plan is known."""
        points = (self.offloading or []) if offloading else self
        times = [point.seconds for point in points if point.budget <= budget]
        return min(times, default=None)

    def _repr_html_(self) -> str:
        lines = [[(float(p.budget), p.seconds) for p in self]]
        if self.offloading:
            lines.append([(float(p.budget), p.seconds) for p in self.offloading])
        rows = [(_size(p.budget), f"{1e3 * p.seconds:.1f} ms") for p in self]
        return _chart("step time against budget", lines, None) + _table(rows)


def _size(count: int) -> str:
    size, unit = float(count), 0
    while size >= 1024 and unit + 1 < len(_UNITS):
        size, unit = size / 1024, unit + 1
    return f"{size:.2f} {_UNITS[unit]}" if unit else f"{count} B"


def _seconds(times: Sequence[float]) -> str:
    if not times:
        return "no step is over"
    return f"{1e3 * sorted(times)[(len(times) - 1) // 2]:.1f} ms (median)"


def _table(rows: Sequence[tuple[str, str]]) -> str:
    cells = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>"
        for name, value in rows
    )
    return f"<table>{cells}</table>"


def _chart(
    title: str, lines: Sequence[Sequence[tuple[float, float]]], limit: float | None
) -> str:
    """Steps from point to point, the second line dashed, `limit` across."""
    points = [point for line in lines for point in line]
    if not points:
        return ""
    low, high = min(x for x, _ in points), max(x for x, _ in points)
    top = max([y for _, y in points] + ([limit] if limit else []))

    def at(x: float, y: float) -> tuple[float, float]:
        across = (x - low) / (high - low) if high > low else 0.5
        up = y / top if top > 0 else 0.0
        return (
            _MARGIN + across * (_WIDTH - 2 * _MARGIN),
            _HEIGHT - _MARGIN - up * (_HEIGHT - 4 * _MARGIN),
        )

    shapes = [
        f'<text x="{_MARGIN}" y="{2 * _MARGIN}" fill="{_TEXT}" font-size="12">'
        f"{html.escape(title)}</text>"
    ]
    for i, line in enumerate(lines):
        path = ""
        for x, y in line:
            px, py = at(x, y)
            path += f"H{px:.1f}V{py:.1f}" if path else f"M{px:.1f} {py:.1f}"
        dashes = ' stroke-dasharray="4 3"' if i else ""
        shapes.append(f'<path d="{path}" fill="none" stroke="{_LINE}"{dashes}/>')
    if limit:
        _, y = at(low, limit)
        shapes.append(
            f'<line x1="{_MARGIN}" x2="{_WIDTH - _MARGIN}" y1="{y:.1f}" y2="{y:.1f}" '
            f'stroke="{_LIMIT}"/>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        f'role="img" aria-label="{html.escape(title)}">{"".join(shapes)}</svg>'
    )
