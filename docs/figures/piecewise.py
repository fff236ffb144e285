"""Figure of a run of bench_piecewise_gpu: the source's variants, ours and a copy, as speedups over the base kernel.

python -m docs.figures.piecewise benchmarks/results/NAME.json FIGURE.png
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from docs.figures import command

BASE = "base AoS"
_OURS, _COPY = "cukde", "copy"
_COLOURS = {
    "base": "tab:gray",
    "unrolled": "tab:olive",
    "branch-free": "tab:orange",
    "registers": "tab:green",
    "shared": "tab:purple",
    _OURS: "tab:blue",
    _COPY: "black",
}


def speedups(rows: Iterable[dict[str, Any]], dtype: str) -> dict[str, dict[str, float]]:
    """Of each number of pieces and degree, by the name of what is faster; knots uniform, points at random."""
    times: dict[str, dict[str, float]] = {}
    for row in rows:
        shape = row["shape"]
        if row["op"] != "piecewise" or row["dtype"] != dtype or (shape["knots"], shape["x"]) != ("uniform", "random"):
            continue
        found = times.setdefault(f"P = {shape['P']}, D = {shape['D']}", {})
        if "median_ms" in row.get("peer", {}):
            found[row["peer"]["name"]] = row["peer"]["median_ms"]
            found[_OURS], found[_COPY] = row["median_ms"], row["bound_ms"]
    return {
        title: {name: found[BASE] / ms for name, ms in sorted(found.items(), key=lambda item: place(item[0]))}
        for title, found in times.items()
        if BASE in found
    }


def draw(run: dict[str, Any], to: Path) -> None:
    """Draw a record: a row of panels for each dtype."""
    from matplotlib.figure import Figure

    dtypes = {dtype: found for dtype in ("float32", "float16") if (found := speedups(run["rows"], dtype))}
    if not dtypes:
        raise ValueError(f"no row of the record has the times of {BASE!r}")
    columns = max(map(len, dtypes.values()))
    figure = Figure(figsize=(4 * columns, 3.2 * len(dtypes)), layout="constrained")
    panels = figure.subplots(len(dtypes), columns, squeeze=False, sharey=True)
    for of_dtype, (dtype, found) in zip(panels, dtypes.items(), strict=True):
        for axes in of_dtype[len(found) :]:
            axes.set_axis_off()
        for axes, (title, bars) in zip(of_dtype, found.items(), strict=False):
            colours = [_COLOURS[_kind(name)] for name in bars]
            drawn = axes.bar(range(len(bars)), list(bars.values()), color=colours)
            axes.bar_label(drawn, [f"{speedup:.3g}" for speedup in bars.values()], fontsize=7)
            axes.set_xticks(range(len(bars)), list(bars), rotation=60, ha="right", fontsize=7)
            axes.set_yscale("log")
            axes.margins(y=0.15)
            axes.set_title(f"{dtype}, {title}", fontsize=10)
            axes.grid(axis="y", alpha=0.3)
        of_dtype[0].set_ylabel("speedup over the base kernel")
    n = next(row["shape"]["n"] for row in run["rows"] if row["op"] == "piecewise")
    figure.suptitle(f"{n:,} random points, uniform knots, {run['machine'].get('gpu', 'no GPU')}", fontsize=10)
    to.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(to, dpi=130)


def _kind(name: str) -> str:
    return name.split()[0]


def place(name: str) -> tuple[int, str]:
    """Where a kernel stands among others."""
    return list(_COLOURS).index(_kind(name)), name


if __name__ == "__main__":
    command.main(draw, "figures.piecewise", "bench_piecewise_gpu", __doc__)
