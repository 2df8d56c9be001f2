"""Draw figures as SVG text, without a plotting library."""

from collections.abc import Mapping
from html import escape

from measures import Figure, Summary

_BAR, _GAP, _LEFT, _WIDTH = 18, 8, 230, 420
_SHOWN = {"any5": "any@5, %", "all5": "all@5, %", "false_recall": "false recall, % (less is better)"}


def draw_bars(figures: Mapping[str, Mapping[str, Summary]]) -> str:
    """Return one group of bars per data set and measure, with the 95 % interval as a line."""
    y = 10
    items: list[str] = []
    for dataset, rows in figures.items():
        for measure, label in _SHOWN.items():
            bars = {name: getattr(summary, measure) for name, summary in rows.items()}
            if not any(bars.values()):
                continue
            y += 22
            items.append(f'<text x="8" y="{y}" font-weight="bold">{escape(dataset)}: {escape(label)}</text>')
            y += 10
            for at, (name, figure) in enumerate(bars.items()):
                items.append(_draw_bar(name, figure, y, ours=at == 0))
                y += _BAR + _GAP
    size = f'width="{_LEFT + _WIDTH + 70}" height="{y + 10}"'
    style = 'font-family="sans-serif" font-size="12"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n' + "\n".join(items) + "\n</svg>\n"


def _draw_bar(name: str, figure: Figure, y: int, *, ours: bool) -> str:
    def at(value: float) -> float:
        return _LEFT + _WIDTH * value / 100

    middle = y + _BAR / 2
    fill = "#1f6f8b" if ours else "#b8c4c9"
    return (
        f'<text x="{_LEFT - 8}" y="{middle + 4}" text-anchor="end">{escape(name)}</text>'
        f'<rect x="{_LEFT}" y="{y}" width="{_WIDTH * figure.mean / 100:.1f}" height="{_BAR}" fill="{fill}"/>'
        f'<line x1="{at(figure.low):.1f}" x2="{at(figure.high):.1f}" y1="{middle}" y2="{middle}" stroke="#222"/>'
        f'<text x="{at(figure.high) + 6:.1f}" y="{middle + 4}">{figure.mean:.1f}</text>'
    )
