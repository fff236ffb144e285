"""Figure of how the density kernels work: what 256 pairs cost a multiprocessor, and what a block keeps where.

python -m docs.figures.kernels benchmarks/results/perf_h200.json docs/kernels.svg

The record gives the rates of the GPU, and with ``sd_kde_h200.json`` the times of calls; work is counted by
``cukde.perf``, tiles are those of the library for that GPU.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.tools import records
from cukde import perf
from cukde.core.cost.cost import Unit
from cukde.density.pairs.cost import engines
from docs.figures import command

_LARGE = Path(__file__).parents[2] / "benchmarks" / "results" / "sd_kde_h200.json"

D = 16
PAIRS = 256  # of a fragment: 16 rows with 16 columns
_UNITS: dict[Unit, tuple[str, str]] = {
    "exponential": ("exponentials", "tab:orange"),
    "tensor_f16": ("tensor cores", "tab:blue"),
    "instruction": ("instruction issue", "tab:gray"),
}
_PASSES = {  # operation, precision: what the figure calls it, and the part of the cost that takes all pairs
    ("kde", "float32"): ("density, float32:\nevery pair", "pass"),
    ("kde", "tf32"): ('density, "tf32":\nevery pair, some by polynomials', "pass"),
    ("debias", "float32"): ("score of the data, float32:\npairs once for both ends", "score"),
    ("debias", "tf32"): ('score of the data, "tf32":\npairs once for both ends', "score"),
}


class Budget(NamedTuple):
    """Cycles of one multiprocessor for 256 ordered pairs."""

    name: str
    units: dict[Unit, float]  # each by itself
    predicted: float  # of the pass, by the model
    measured: float  # of the whole call


def peaks_of(run: dict[str, Any]) -> perf.Peaks:
    """The rates that a record of ``benchmarks.perf.modelled`` begins with."""
    rates = run["rows"][0]
    fields = {name: rates[name] for name in perf.Peaks.__dataclass_fields__}
    return perf.Peaks(**fields | {"capability": tuple(rates["capability"])})


def budgets(run: dict[str, Any]) -> list[Budget]:
    """Of the passes of :data:`_PASSES`, as the records have their sizes; of several calls the nearest to 10 ms.

    Much of a shorter one is the host's.
    """
    on, found = peaks_of(run), []
    rows = [r for r in run["rows"][1:] + records.read(_LARGE)["rows"] if r["shape"].get("d") == D]
    rows = [r for r in rows if not r["shape"].get("local")]
    for (op, precision), (name, stage) in _PASSES.items():
        labels = precision, f"{precision} all pairs"
        same = [r for r in rows if r["op"] == op and r["precision"] in labels]
        if not same:
            raise ValueError(f"the record must have {op} of {D} dimensions in {precision}; it has none")
        row = min(same, key=lambda r: abs(math.log(r["median_ms"] / 10)))
        prediction = perf.predict(op, on, dtype=row["dtype"], precision=precision, **row["shape"])
        part = next(part for part in prediction.cost.parts if part.name == stage)
        seconds = next(time.seconds for time in prediction.parts if time.name == stage)
        pairs = row["shape"]["n"] * row["shape"].get("m", row["shape"]["n"])
        cycles = on.multiprocessors * on.clock * PAIRS / pairs  # of 256 pairs, a second of the GPU
        units = {unit: cycles * part.work[unit] / on.rate(unit) for unit in _UNITS}
        found.append(Budget(name, units, cycles * seconds, cycles * row["median_ms"] / 1e3))
    return found


def draw(run: dict[str, Any], to: Path) -> None:
    """Draw the budget above the block."""
    import matplotlib
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 9.8), layout="constrained")
    parts = figure.subfigures(2, 1, squeeze=False, height_ratios=[4.2, 5.6])[:, 0]
    on = peaks_of(run)
    _draw_budgets(parts[0].subplots(), budgets(run), on)
    _draw_block(parts[1].subplots(), _block(on))
    to.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": "cukde"}):  # the same file each time
        figure.savefig(to, metadata={"Date": None} if to.suffix == ".svg" else {}, dpi=130)


def _draw_budgets(axes: Any, found: list[Budget], on: perf.Peaks) -> None:
    height = 0.8 / len(_UNITS)
    for i, (unit, (label, colour)) in enumerate(_UNITS.items()):
        lengths = [budget.units[unit] for budget in found]
        places = [j + (i - (len(_UNITS) - 1) / 2) * height for j in range(len(found))]
        bars = axes.barh(places, lengths, 0.9 * height, color=colour, label=f"{label}, by themselves")
        axes.bar_label(bars, [f"{length:.1f}" for length in lengths], padding=3, fontsize=9)
    for marker, label in (("|", "the pass, by the model"), ("D", "the whole call, measured")):
        times = [budget.predicted if marker == "|" else budget.measured for budget in found]
        size = {"markersize": 46, "markeredgewidth": 2} if marker == "|" else {"markersize": 7}
        axes.plot(times, range(len(found)), marker, color="black", label=label, **size)
    axes.set_yticks(range(len(found)), [budget.name for budget in found], fontsize=10)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.15 * max(max(b.measured, b.predicted, *b.units.values()) for b in found))
    axes.set_xlabel(f"cycles of one multiprocessor for {PAIRS} ordered pairs, {D} dimensions")
    axes.set_title(f"What pairs cost: {on.name}, rates as measured, {1e-9 * on.clock:.2f} GHz", fontsize=12)
    axes.grid(axis="x", alpha=0.3)
    handles, labels = axes.get_legend_handles_labels()
    for handle, label in zip(handles, labels, strict=True):
        if label.startswith("the pass"):
            handle.set_markersize(46)
    axes.legend(fontsize=9, loc="lower right", markerscale=0.35, labelspacing=0.7)


# ----------------------------------------------------------------------------------------------------- the block


class Block(NamedTuple):
    """The layout of the symmetric pass in float32."""

    warps: int
    row_tiles: int  # of 16 rows, a warp
    groups: int  # of 16 columns, a tile
    at_once: int  # blocks that a multiprocessor runs
    passes_sums: bool  # columns' sums go from warp to warp; else phi goes through shared memory


def _block(on: perf.Peaks) -> Block:
    from cukde.density.pairs.gpu import f16_symmetric

    tile = engines.tile("f16_symmetric", on.capability, {"depth": D, "terms": 3, "columns": 0})
    of = f16_symmetric.laid_out(0, **tile)
    warps = of.rows // (16 * of.row_tiles)
    return Block(warps, of.row_tiles, f16_symmetric._TILE // 16, of.blocks, not of.phi_is_shared)


_REGISTERS, _SHARED, _NOW, _GLOBAL = "#cfe3f7", "#d8efd3", "tab:orange", "#e6e6e6"


def _draw_block(axes: Any, of: Block) -> None:
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_xlim(-1, 111)
    axes.set_ylim(-3, 55)
    axes.set_title("Symmetric pass: a block of rows walks through columns in tiles", fontsize=12)
    _draw_pairs(axes)
    _draw_tile(axes, of)
    rows, columns = 16 * of.row_tiles * of.warps, 16 * of.groups
    back = (
        "5  its transpose times hi_i: column sums T_j,\n    passed from warp to warp through\n"
        "    shared memory, then added to memory"
        if of.passes_sums
        else "5  its transpose, through shared memory,\n    times hi_i: column sums T_j, added to memory"
    )
    text = (
        f"A step of a warp: {of.row_tiles} fragments of 16 x 16 pairs\n"
        "1  tensor cores: z_i . z_j = hi.hi + lo.hi + hi.lo\n"
        f"2  exponents in registers, {PAIRS // 32} of a fragment a lane\n"
        f"3  phi = 2^e: {PAIRS // 32} exponentials a lane,\n    one for both ends of a pair\n"
        "4  phi in float16 is the left operand as it\n    stands, times hi_j: row sums T_i in registers\n"
        f"{back}\n\n"
        f"A block: {rows} rows, {of.warps} warps; tiles of {columns} columns.\n"
        f"{of.at_once} blocks a multiprocessor: while one waits\nfor exponentials, others have products."
    )
    axes.text(78, 46, text, fontsize=9.5, va="top", linespacing=1.45)


def _draw_pairs(axes: Any) -> None:
    """All pairs of rows and columns, of which those above the diagonal are visited."""
    from matplotlib.patches import Polygon, Rectangle

    low, high, left, right = 14, 46, 1, 33
    axes.add_patch(Polygon([(left, high), (right, high), (right, low)], facecolor=_NOW, alpha=0.2, edgecolor="none"))
    axes.add_patch(Polygon([(left, high), (left, low), (right, low)], facecolor=_GLOBAL, edgecolor="none"))
    axes.add_patch(Rectangle((left, low), right - left, high - low, fill=False, edgecolor="black"))
    axes.add_patch(Rectangle((13, 36), 18, 4, facecolor="white", edgecolor="black"))
    axes.add_patch(Rectangle((22, 36), 2, 4, facecolor=_NOW, edgecolor="black"))
    axes.annotate("", (27, 38), (24.4, 38), arrowprops={"arrowstyle": "->"})
    axes.text(23, 35, "a block's rows,\na tile of columns", fontsize=9, va="top", ha="right")
    axes.text(21, 43, "visited: i < j", fontsize=10, ha="center", va="center")
    axes.text(10, 22, "phi_ji = phi_ij:\nno exponential", fontsize=10, ha="center", va="center")
    axes.text(17, 47.5, "columns j, all the data", fontsize=10, ha="center")
    axes.text(-0.2, 30, "rows i, all the data", fontsize=10, rotation=90, va="center", ha="right")
    for y in (36, 40):
        axes.plot([24, 38], [y, 8 if y == 36 else 46], color="black", linewidth=0.6, linestyle=":")


def _draw_tile(axes: Any, of: Block) -> None:
    """A tile: fragments of pairs, each warp at one group of columns in a step."""
    from matplotlib.patches import Rectangle

    left, bottom, top, wide = 52.0, 8.0, 46.0, 5.6
    high = (top - bottom) / (of.warps * of.row_tiles)

    def box(x: float, y: float, width: float, height: float, colour: str, text: str = "", size: float = 9) -> None:
        axes.add_patch(Rectangle((x, y), width, height, facecolor=colour, edgecolor="black", linewidth=0.6))
        axes.text(x + width / 2, y + height / 2, text, fontsize=size, ha="center", va="center")

    for warp in range(of.warps):
        y = top - (warp + 1) * of.row_tiles * high
        box(left - 14, y, 13.4, of.row_tiles * high, _REGISTERS, f"warp {warp}: hi_i, lo_i,\nS_i, T_i")
        for group in range(of.groups):
            now = group == warp % of.groups
            for m in range(of.row_tiles):
                place = (left + group * wide, y + m * high, wide, high)
                box(*place, _NOW if now else "white", "2^e" if now else "", 8)
    for group in range(of.groups):
        x = left + group * wide
        box(x, top + 0.6, wide, 4.6, _SHARED, "hi_j\nlo_j", 8)
        box(x, bottom - 4.8, wide, 4.2, _SHARED, "S_j, T_j", 8)
    box(left, top + 5.8, of.groups * wide, 2.4, _SHARED, "the next tile, on its way", 8)
    keys = (
        (_REGISTERS, "registers"),
        (_SHARED, "shared memory"),
        (_NOW, "pairs in work: exponents and phi in registers"),
    )
    x = 2.0
    for colour, text in keys:
        box(x, -2.5, 3, 2, colour)
        axes.text(x + 4, -1.5, text, fontsize=9.5, va="center")
        x += 8 + 1.15 * len(text)


if __name__ == "__main__":
    command.main(draw, "figures.kernels", "modelled", __doc__)
