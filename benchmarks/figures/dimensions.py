"""Figure of a run of bench_dimensions: time against the number of dimensions, with plain CuPy and the bound.

python -m benchmarks.figures.dimensions benchmarks/results/NAME.json FIGURE.svg
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.density.bench_dimensions import MEDIAN_EXPONENT
from benchmarks.figures import figures


def draw(run: dict[str, Any], to: Path) -> None:
    """Draw a record's rows."""
    from matplotlib.figure import Figure

    rows = sorted(run["rows"], key=lambda row: row["shape"]["d"])
    shape = rows[0]["shape"]
    d = [row["shape"]["d"] for row in rows]
    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.subplots()
    axes.loglog(d, [row["peer"]["median_ms"] for row in rows], "s-", color="tab:gray", label=rows[0]["peer"]["name"])
    axes.loglog(d, [row["median_ms"] for row in rows], "o-", color="tab:blue", label="cukde")
    axes.loglog(d, [row["bound_ms"] for row in rows], "--", color="tab:blue", label=f"bound: {rows[0]['bound']}")
    axes.set_xlabel("dimensions")
    axes.set_ylabel("SD-KDE, ms")
    axes.set_title(
        f"{shape['n']:,} points, {shape['m']:,} queries, float32, median exponent {MEDIAN_EXPONENT:.0f}, "
        f"{run['machine']['gpu']}",
        fontsize=10,
    )
    axes.grid(which="major", alpha=0.3)
    figure.legend(loc="outside lower center", fontsize=8, ncols=1)
    to.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(to, metadata={"Date": None})


if __name__ == "__main__":
    figures.main(draw, "figure_dimensions", "bench_dimensions", __doc__)
