"""Figure of a run of bench_embeddings: the share of the own kernel and AUROC against the number of axes.

python -m docs.figures.embeddings benchmarks/results/NAME.json FIGURE.svg
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.density.bench_embeddings import LOOKED_AT, NORMAL, NUMBERS_OF_AXES
from benchmarks.density.embeddings import SETS
from docs.figures import command

_COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:red")


def draw(run: dict[str, Any], to: Path) -> None:
    """Draw a record's rows."""
    import matplotlib
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.2), layout="constrained")
    shares, areas = figure.subplots(1, 2)
    normal = [row for row in run["rows"] if row["shape"]["set"] == NORMAL]
    shares.semilogx(
        [row["shape"]["d"] for row in normal],
        [row["own_share"] for row in normal],
        "--",
        color="tab:gray",
        base=2,
        label=f"{NORMAL}, Silverman's rule",
    )
    for of, colour in zip(SETS, _COLOURS, strict=True):
        rows = [row for row in run["rows"] if row["op"] == "so many axes" and row["shape"]["set"] == of.name]
        k = [row["shape"]["k"] for row in rows]
        for axes, name in ((shares, "own_share"), (areas, "auroc")):
            axes.semilogx(k, [row[name] for row in rows], "o-", markersize=4, color=colour, base=2, label=of.name)
            axes.fill_between(
                k, [row[f"{name}_q1"] for row in rows], [row[f"{name}_q3"] for row in rows], color=colour, alpha=0.15
            )
        (nearest,) = (
            row
            for row in run["rows"]
            if (row["op"], row["shape"]["set"], row["shape"]["d"]) == ("nearest neighbour", of.name, LOOKED_AT)
        )
        areas.axhline(nearest["auroc"], linestyle=":", color=colour)
    shares.axhline(0.5, color="black", linewidth=0.5)
    shares.set_title("share of the own kernel in the density at a row", fontsize=10)
    areas.set_title("AUROC; dotted: nearest neighbour", fontsize=10)
    for axes in (shares, areas):
        axes.set_xlabel("axes")
        axes.set_xticks(NUMBERS_OF_AXES, [str(k) for k in NUMBERS_OF_AXES])
        axes.grid(which="major", alpha=0.3)
    figure.legend(*shares.get_legend_handles_labels(), loc="outside lower center", fontsize=8, ncols=5)
    to.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "cukde"}):  # the same file each time
        figure.savefig(to, metadata={"Date": None})


if __name__ == "__main__":
    command.main(draw, "figures.embeddings", "bench_embeddings", __doc__)
