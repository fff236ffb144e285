"""Picture of docs/sd_kde.md: a density by both estimators, and the time of SD-KDE beside its rivals of a recorded run.

python -m docs.figures.sd_kde benchmarks/results/sd_kde_h200.json docs/sd_kde.png

The density is a spiral, blurred. Both estimators have the same points and the same bandwidth: of those that are tried
the one by which SD-KDE has its least squared error. The picture says by which KDE has its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import cukde
from docs.figures import command

POINTS = 30_000
_BLUR, _REACH = 0.12, 3.5
_BANDWIDTHS = np.geomspace(0.04, 0.16, 13)
_COLOURS = {"cukde": "#d55e00", "Flash-SD-KDE, TF32": "#0072b2", "torch.compile": "#009e73", "CuPy": "#7f7f7f"}
_NAMED_BEFORE = {"Flash-SD-KDE": "Flash-SD-KDE, TF32"}  # in records without the mode
_MARKS = {"cukde": "o-", "Flash-SD-KDE, TF32": "s--", "torch.compile": "^-.", "CuPy": "D:"}


class Spiral(NamedTuple):
    """The density and its estimates on a grid, and squared errors as parts of the density's square, both integrated."""

    points: int
    true: np.ndarray
    kde: np.ndarray
    sd: np.ndarray
    h: float
    error_kde: float
    error_sd: float
    best_h_of_kde: float
    best_error_of_kde: float


def spiral(points: int = POINTS, cells: int = 240) -> Spiral:
    """Estimate the density of a sample by both, for each of the bandwidths."""
    centres = _curve(4001)
    rng = np.random.default_rng(0)
    X = centres[rng.integers(len(centres), size=points)] + _BLUR * rng.standard_normal((points, 2))
    axes = (np.linspace(-_REACH, _REACH, cells),) * 2
    true = cukde.evaluate_grid(centres, axes, _BLUR)
    kde = [cukde.evaluate_grid(X, axes, h) for h in _BANDWIDTHS]
    sd = [cukde.evaluate_grid(cukde.debias(X, h), axes, h) for h in _BANDWIDTHS]
    of_kde, of_sd = ([float(((p - true) ** 2).sum() / (true**2).sum()) for p in found] for found in (kde, sd))
    i, j = int(np.argmin(of_sd)), int(np.argmin(of_kde))
    return Spiral(points, true, kde[i], sd[i], _BANDWIDTHS[i], of_kde[i], of_sd[i], _BANDWIDTHS[j], of_kde[j])


def draw(run: dict[str, Any], to: Path, found: Spiral | None = None) -> None:
    """Draw the densities, and the times of a record's rows."""
    from matplotlib.figure import Figure

    found = found or spiral()
    figure = Figure(figsize=(13, 4), layout="constrained")
    *panels, times = figure.subplots(1, 4, width_ratios=(1, 1, 1, 1.25))
    titles = (
        "a density\n",
        f"KDE of {found.points:,} points\nbandwidth {found.h:.2f}, squared error {found.error_kde:.1%}",
        f"SD-KDE of the same\nbandwidth {found.h:.2f}, squared error {found.error_sd:.1%}",
    )
    for ax, title, p in zip(panels, titles, (found.true, found.kde, found.sd), strict=True):
        ax.imshow(p.T, origin="lower", cmap="magma", vmin=0, vmax=found.true.max())
        ax.set_title(title, fontsize=11)
        ax.set_axis_off()
    best = f"KDE's least squared error: {found.best_error_of_kde:.1%}, by bandwidth {found.best_h_of_kde:.2f}"
    panels[1].text(0.5, -0.03, best, transform=panels[1].transAxes, ha="center", va="top", fontsize=9)
    _times(times, run)
    to.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(to, dpi=100, **({"pil_kwargs": {"optimize": True}} if to.suffix == ".png" else {}))


def _times(ax: Any, run: dict[str, Any]) -> None:
    """Time against points, of float32; an error is the largest of the sizes."""
    rows = [
        r for r in run["rows"] if r["op"] == "sd_kde" and r["precision"] == "float32" and "runs" in r.get("peer", {})
    ]
    lines: dict[str, dict[int, dict[str, float]]] = {name: {} for name in _COLOURS}
    for r in rows:
        lines["cukde"][r["shape"]["n"]] = r
        rival = _NAMED_BEFORE.get(r["peer"]["name"], r["peer"]["name"])
        if rival in lines:
            lines[rival][r["shape"]["n"]] = r["peer"]
    for name, line in lines.items():
        n = sorted(line)
        ms = [line[i]["median_ms"] for i in n]
        error = max(line[i]["rel_err_max"] for i in n)
        label = f"{name}, error {f'{error:.0e}'.replace('e-0', 'e-')}"
        ax.loglog(n, ms, _MARKS[name], color=_COLOURS[name], label=label, lw=2, ms=6)
    ticks = sorted(lines["cukde"])
    ax.set_xticks(ticks, [f"{i:,}" for i in ticks], fontsize=9)
    ax.minorticks_off()
    ax.set_xlabel(f"points of {rows[0]['shape']['d']} columns, an eighth as many queries")
    ax.set_ylabel("SD-KDE, ms")
    ax.set_title(f"{run['machine']['gpu']}, float32, {run['date'][:10]}", fontsize=11)
    ax.grid(which="major", alpha=0.3)
    ax.legend(fontsize=9, frameon=False, title="error: worst of a density", title_fontsize=9)


def _curve(points: int) -> np.ndarray:
    """Points of a spiral of two turns, about equally far from each other."""
    t = np.sqrt(np.linspace(4, (4 * np.pi) ** 2, points))
    return np.stack([t * np.cos(t), t * np.sin(t)], axis=1) / 4


if __name__ == "__main__":
    command.main(draw, "figures.sd_kde", "bench_tables", __doc__)
