"""Figure of a run of bench_conv1d_gpu: the source's stages, ours and a copy, over the naive kernel; steps of training.

python -m docs.figures.conv1d benchmarks/results/NAME.json FIGURE.png
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from docs.figures import command

BASE = "naive"
_STUDY, _STEP = "study, ", "training step"  # how the names of rows begin
_COLOURS = {
    BASE: "tab:gray",
    "naive-by-row": "tab:brown",
    "coalesced": "tab:olive",
    "blocked": "tab:orange",
    "warp-tiled": "tab:purple",
    "cukde": "tab:blue",
    "copy": "black",
}


def speedups(rows: Iterable[dict[str, Any]]) -> dict[int, dict[str, dict[str, float]]]:
    """Over the naive kernel, by the number of taps, the path, and the name of what is faster."""
    times: dict[int, dict[str, dict[str, float]]] = {}
    for row in rows:
        if row["op"].startswith(_STUDY) and "median_ms" in row.get("peer", {}):
            found = times.setdefault(row["shape"]["K"], {}).setdefault(row["op"].removeprefix(_STUDY), {})
            found[row["variant"]], found["copy"] = row["median_ms"], row["bound_ms"]
            found[row["peer"]["name"]] = row["peer"]["median_ms"]
    return {
        taps: {
            path: {name: found[BASE] / found[name] for name in _COLOURS if name in found}
            for path, found in of_taps.items()
            if BASE in found
        }
        for taps, of_taps in times.items()
    }


def draw(run: dict[str, Any], to: Path) -> None:
    """Draw a record: a row of panels for each number of taps, a panel for each path, and one of steps of training."""
    from matplotlib.figure import Figure

    found = {taps: of_taps for taps, of_taps in speedups(run["rows"]).items() if of_taps}
    if not found:
        raise ValueError(f"no row of the record is of the study, with the times of {BASE!r}")
    steps = [row for row in run["rows"] if row["op"] == _STEP and "median_ms" in row]
    in_source = next((row["source_speedup"] for row in run["rows"] if "source_speedup" in row), None)
    columns = max(map(len, found.values()))
    figure = Figure(figsize=(3.2 * columns, 3.2 * (len(found) + bool(steps))), layout="constrained")
    parts = figure.subfigures(len(found) + bool(steps), 1, squeeze=False)[:, 0]
    for part, (taps, of_taps) in zip(parts, found.items(), strict=False):
        sizes = next(r["shape"] for r in run["rows"] if r["op"].startswith(_STUDY) and r["shape"]["K"] == taps)
        part.suptitle(", ".join(f"{name} = {sizes[name]:,}" for name in "BCL"), fontsize=9)
        panels = part.subplots(1, columns, squeeze=False, sharey=True)[0]
        for axes in panels[len(of_taps) :]:
            axes.set_axis_off()
        for axes, (path, bars) in zip(panels, of_taps.items(), strict=False):
            drawn = axes.bar(range(len(bars)), list(bars.values()), color=[_COLOURS[name] for name in bars])
            axes.bar_label(drawn, [f"{speedup:.3g}" for speedup in bars.values()], fontsize=7)
            _name(axes, list(bars))
            axes.set_yscale("log")
            axes.margins(y=0.15)
            axes.set_title(f"{path}, K = {taps}", fontsize=10)
            if path == "all" and in_source:
                axes.axhline(in_source, color="tab:red", linestyle=":", linewidth=1)
                axes.text(0, in_source, "warp-tiled in the source", color="tab:red", fontsize=6, va="bottom")
        panels[0].set_ylabel(f"speedup over {BASE}")
    if steps:
        _draw_steps(parts[-1].subplots(), steps)
    figure.suptitle(f"float32, {run['machine'].get('gpu', 'no GPU')}", fontsize=10)
    to.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(to, dpi=130)


def _draw_steps(axes: Any, steps: list[dict[str, Any]]) -> None:
    names = [row["shape"]["convolution"] for row in steps]
    alone = [row["convolution_ms"] for row in steps]
    rest = [max(0.0, row["median_ms"] - row["convolution_ms"]) for row in steps]
    axes.bar(range(len(steps)), alone, color=[_COLOURS[name] for name in names], label="convolutions")
    drawn = axes.bar(range(len(steps)), rest, bottom=alone, color="lightgray", label="the rest")
    axes.bar_label(drawn, [f"{row['median_ms']:.3g} ms" for row in steps], fontsize=7)
    _name(axes, names)
    axes.set_ylabel("step of training, ms")
    axes.legend(fontsize=7)


def _name(axes: Any, bars: list[str]) -> None:
    axes.set_xticks(range(len(bars)), bars, rotation=45, ha="right", fontsize=7)
    axes.grid(axis="y", alpha=0.3)


if __name__ == "__main__":
    command.main(draw, "figures.conv1d", "bench_conv1d_gpu", __doc__)
