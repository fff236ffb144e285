"""The README's picture: KernelDensity's time over n beside scikit-learn's, by a record, and a density worth looking at.

python -m docs.figures.readme benchmarks/results/over_n_cpu.json docs/readme.png

The density is that of a million points of Clifford Pickover's attractor: many starting points are followed for some
steps of x' = sin(a y) + c cos(a x), y' = sin(b x) + d cos(b y), and the first steps are left out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import cukde
from benchmarks.readme import power
from docs.figures import command

POINTS, CELLS, BANDWIDTH = 1_000_000, 600, 0.01
_A, _B, _C, _D = -1.4, 1.6, 1.0, 0.7
_STARTS, _LEFT_OUT = 10_000, 20
_OURS, _EXACT, _TOLERANCE = "cukde", "scikit-learn", "scikit-learn, rtol=1e-4"
_STYLES = {_EXACT: ("s-", "#0072b2"), _TOLERANCE: ("^--", "#56b4e9"), _OURS: ("o-", "#d55e00")}


def attractor(points: int = POINTS) -> np.ndarray:
    """Points of the attractor, shape (points, 2)."""
    x, y = np.random.default_rng(0).uniform(-1, 1, (2, _STARTS))
    followed = []
    for _ in range(_LEFT_OUT + -(-points // _STARTS)):
        x, y = np.sin(_A * y) + _C * np.cos(_A * x), np.sin(_B * x) + _D * np.cos(_B * y)
        followed.append(np.stack([x, y], axis=1))
    return np.concatenate(followed[_LEFT_OUT:])[:points]


def density(X: np.ndarray, cells: int = CELLS, h: float = BANDWIDTH) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Density on a grid around the points, and the grid's axes."""
    axes = tuple(np.linspace(low - 5 * h, high + 5 * h, cells) for low, high in zip(X.min(0), X.max(0), strict=True))
    return cukde.evaluate_grid(X, axes, h), axes


def draw(run: dict[str, Any], to: Path, points: int = POINTS, cells: int = CELLS) -> None:
    """Draw the times of a record's rows, and the density."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.3), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.1, 1))
    _times(left, run)
    p, axes = density(attractor(points), cells)
    reach = [end for axis in axes for end in (axis[0], axis[-1])]
    shade = np.sqrt(np.maximum(p, 0))  # of which faint parts show, too
    right.imshow(shade.T, origin="lower", extent=reach, cmap="magma", vmax=np.quantile(shade, 0.998))
    right.set_title(f"density of {points:,} points, by evaluate_grid", fontsize=12)
    right.set_axis_off()
    to.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(to, dpi=130, **({"pil_kwargs": {"optimize": True}} if to.suffix == ".png" else {}))


def _times(ax: Any, run: dict[str, Any]) -> None:
    """Time against points; the title says by how much the answers differ at most."""
    rows = sorted((row for row in run["rows"] if "runs" in row.get("peer", {})), key=lambda row: row["shape"]["n"])
    lines: dict[str, dict[int, float]] = {name: {} for name in _STYLES}
    for row in rows:
        n = row["shape"]["n"]
        lines[_OURS][n] = row["median_ms"]
        lines[row["peer"]["name"]][n] = row["peer"]["median_ms"]
    for name, (marker, colour) in _STYLES.items():
        label = f"{name}, exact (its default)" if name == _EXACT else name
        ax.loglog(lines[name].keys(), lines[name].values(), marker, color=colour, label=label, lw=2, ms=6)
    n = max(lines[_OURS])
    ours, theirs = lines[_OURS][n], lines[_EXACT][n]
    ax.annotate("", (n, ours), (n, theirs), arrowprops={"arrowstyle": "<->"})
    beside = {"textcoords": "offset points", "ha": "right", "va": "center", "fontsize": 12}
    beside["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    ax.annotate(f"{theirs / ours:.0f} times faster", (n, ours * (theirs / ours) ** 0.2), (-8, 0), **beside)
    _labels(ax, run, rows)


def _labels(ax: Any, run: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """What was measured, where and when."""
    shape, machine = rows[0]["shape"], run["machine"]
    where = machine.get("gpu") if rows[0]["backend"] == "gpu" else f"{machine['cores']} CPU cores"
    difference = max(row["difference_max"] for row in rows)
    ax.set_title(
        f"KernelDensity: time to fit, and to score {shape['m']:,} queries\n"
        f"the same answer: log densities differ by at most {power(difference)}",
        fontsize=12,
    )
    ax.set_xlabel(f"points of {shape['d']} columns ({where}, {run['date'][:10]})", fontsize=11)
    sizes = sorted({row["shape"]["n"] for row in rows})
    ax.set_xticks(sizes, [f"{n:,}" for n in sizes])
    ax.set_yticks([1, 10, 100, 1000], ["1 ms", "10 ms", "100 ms", "1 s"])
    ax.minorticks_off()
    ax.tick_params(labelsize=11)
    ax.grid(which="major", alpha=0.3)
    ax.legend(fontsize=11, frameon=False)


if __name__ == "__main__":
    command.main(draw, "figures.readme", "bench_tables", __doc__)
