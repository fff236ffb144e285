"""Figure of the oracle study: errors against the number of points, at the best bandwidths and at the rules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

_COLOURS = {"kde": "tab:gray", "sd_kde": "tab:blue", "laplace_kde": "tab:orange"}
_STYLES = {"minimising": "o-", "rule": "s--"}
_PANELS = {"mise": "MISE", "miae": "MIAE", "negative_mass": "integrated negative mass"}


def draw(rows: Sequence[dict[str, Any]], slopes: Sequence[dict[str, Any]], to: Path) -> None:
    """Draw the rows of a study; the legend has their slopes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4.6), layout="constrained")
    for axes, (name, title) in zip(figure.subplots(1, len(_PANELS)), _PANELS.items(), strict=True):
        for fitted in slopes:
            some = [row for row in rows if all(row[key] == fitted[key] for key in ("op", "bandwidth"))]
            if not any(row[name] for row in some):
                continue  # densities that are never negative
            label = f"{fitted['op']}, {'best h' if fitted['bandwidth'] == 'minimising' else 'its rule'}"
            if f"slope_{name}" in fitted:
                label += f": {fitted[f'slope_{name}']:.3f}"
            n = [row["shape"]["n"] for row in some]
            style, colour = _STYLES[fitted["bandwidth"]], _COLOURS[fitted["op"]]
            axes.loglog(n, [row[name] for row in some], style, markersize=4, color=colour, label=label)
        axes.set_xlabel("points")
        axes.set_title(title, fontsize=10)
        axes.grid(which="major", alpha=0.3)
        axes.legend(fontsize=7, loc="lower left", title="slope" if name != "negative_mass" else None, title_fontsize=7)
    to.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(to, dpi=130)
