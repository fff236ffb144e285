"""Figure of runs of bench_map: time over dimensions and bandwidths for each kind of data, with the ratio to a rival.

python -m benchmarks.figures.density_map benchmarks/results/NAME.json FIGURE.svg

Several records, such as one for each number of dimensions, make one figure; of a cell the last counts.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.tools import records

Cells = dict[tuple[str, str, int, float], dict[str, Any]]

_COLOURS = "viridis_r"


def cells(runs: Sequence[dict[str, Any]]) -> Cells:
    """Measured rows by function, kind of data, dimensions and factor of the bandwidth."""
    rows = (row for run in runs for row in run["rows"] if "data" in row["shape"] and "median_ms" in row)
    return {(row["op"], row["shape"]["data"], row["shape"]["d"], row["shape"]["factor"]): row for row in rows}


def draw(runs: Sequence[dict[str, Any]], to: Path) -> None:
    """Draw a row of panels for each function, a panel for each kind of data."""
    import matplotlib
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    of = cells(runs)
    if not of:
        raise ValueError("the records must have rows of benchmarks.density.bench_map; they have none with a time")
    ops, kinds = list(dict.fromkeys(key[0] for key in of)), list(dict.fromkeys(key[1] for key in of))
    dimensions, factors = sorted({key[2] for key in of}), sorted({key[3] for key in of})
    times = [row["median_ms"] for row in of.values()]
    norm = LogNorm(min(times), 1.01 * max(times))  # of a single time, too
    size = 2 + 0.52 * len(factors) * len(kinds) + 0.3 * len(kinds), 1.6 + len(ops) * (0.7 + 0.42 * len(dimensions))
    with matplotlib.rc_context({"svg.hashsalt": "cukde"}):  # the same file each time
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(len(ops), len(kinds), squeeze=False, sharex=True, sharey=True)
        for axes_of_op, op in zip(panels, ops, strict=True):
            for axes, kind in zip(axes_of_op, kinds, strict=True):
                _panel(
                    axes, {key[2:]: row for key, row in of.items() if key[:2] == (op, kind)}, dimensions, factors, norm
                )
                axes.set_title(f"{op}, {kind}", fontsize=9)
            axes_of_op[0].set_ylabel("dimensions", fontsize=9)
        colours = matplotlib.cm.ScalarMappable(norm, _COLOURS)
        figure.colorbar(colours, ax=panels, label="ms", fraction=0.02, pad=0.01)
        figure.supxlabel("bandwidth, times Silverman's", fontsize=9)
        figure.suptitle(_title(runs[-1], of), fontsize=10)
        to.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(to, metadata={"Date": None} if to.suffix == ".svg" else {}, dpi=130)


def _panel(
    axes: Any, of: dict[Any, dict[str, Any]], dimensions: Sequence[int], factors: Sequence[float], norm: Any
) -> None:
    """Times as colours, d downward and the factor to the right; time and ratio in each cell."""
    times = [[of.get((d, factor), {}).get("median_ms", float("nan")) for factor in factors] for d in dimensions]
    axes.imshow(times, norm=norm, cmap=_COLOURS, aspect="auto")
    axes.set_xticks(range(len(factors)), [f"{factor:g}" for factor in factors], fontsize=8)
    axes.set_yticks(range(len(dimensions)), [str(d) for d in dimensions], fontsize=8)
    for (d, factor), row in of.items():
        text = _digits(row["median_ms"])
        if "peer" in row:
            text += f"\n({_digits(row['peer']['median_ms'] / row['median_ms'])})"
        dark = norm(row["median_ms"]) > 0.5
        place = factors.index(factor), dimensions.index(d)
        axes.text(*place, text, fontsize=6, ha="center", va="center", color="white" if dark else "black")


def _title(run: dict[str, Any], of: Cells) -> str:
    row = next(iter(of.values()))
    shape, machine = row["shape"], run["machine"]
    text = (
        f"{shape['n']:,} points, {shape['m']:,} queries, {row['precision']}, {machine.get('gpu', machine.get('cpu'))}"
    )
    rival = next((row["peer"]["name"] for row in of.values() if "peer" in row), None)
    return f"{text}: ms" + (f" (times as fast as {rival})" if rival else "")


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 99.5 else f"{value:.2g}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.figures.density_map", description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+", help="records of bench_map.py")
    parser.add_argument("to", type=Path, help="the figure, SVG or PNG")
    wanted = parser.parse_args(arguments)
    draw([records.read(run) for run in wanted.runs], wanted.to)


if __name__ == "__main__":
    main()
