"""The picture of ``cukde density --plot``: a curve, contours or pairs, by the number of columns."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from cukde.cli import output
from cukde.cli.errors import CommandError


def check(path: Path, columns: int) -> None:
    """Refuse a picture that cannot be drawn or written."""
    if importlib.util.find_spec("matplotlib") is None:
        raise CommandError("--plot needs Matplotlib: pip install 'cukde[plot]'")
    if path.suffix.lower() != ".png":
        raise CommandError(f"--plot must end in .png; got {path}")
    if columns > 16:
        raise CommandError(f"--plot draws up to 16 columns; got {columns}: choose some with --columns")
    output.placeable("--plot", path)


def save(path: Path, X: Any, h: Any, method: Any, weights: Any, names: list[str]) -> None:
    """Draw the density of the rows and write a PNG."""
    from matplotlib.figure import Figure

    from cukde.plot import artists, pictures

    d = len(names)
    side = 6.4 if d < 3 else max(4.0, min(2.1 * d, 16.0))
    figure = Figure(figsize=(side, 4.4 if d < 3 else side), layout="constrained")
    if d < 3:
        ax = figure.subplots()
        ax.set_xlabel(names[0])
        if d == 2:
            ax.set_ylabel(names[1])
        (pictures.density if d == 1 else pictures.contours)(X, h, ax=ax, method=method, weights=weights)
    else:
        axes = pictures.pairs(X, h, axes=figure.subplots(d, d), labels=names, method=method, weights=weights)
        artists.legend_of_pairs(axes, (0.95, 0.8, 0.5))
    with output.replacing(path) as part, part.open("wb") as file:
        figure.savefig(file, format="png", dpi=130)
