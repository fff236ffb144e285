"""The README's picture: the plot that its first block of code makes, and KernelDensity's time over n, by a record.

python -m docs.figures.readme benchmarks/results/over_n_cpu.json docs/readme.png
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from benchmarks.readme import README, power
from docs.figures import command

_OURS, _EXACT, _TOLERANCE = "cukde", "scikit-learn", "scikit-learn, rtol=1e-4"
_STYLES = {_EXACT: ("s-", "#0072b2"), _TOLERANCE: ("^--", "#56b4e9"), _OURS: ("o-", "#d55e00")}


def code() -> str:
    """Return the README's first block, without what writes the plot."""
    block = re.search(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert block
    return block[1].rpartition("\nax.figure")[0]


def draw(run: dict[str, Any], to: Path) -> None:
    """Draw what the code draws, and the times of a record's rows."""
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4.3), layout="constrained")
    exec(code().replace("hue=", "ax=left, hue="), {"left": left})
    left.set_title("three species of iris, by the code above", fontsize=12)
    _times(right, run)
    to.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(to, dpi=130, **({"pil_kwargs": {"optimize": True}} if to.suffix == ".png" else {}))
    pyplot.close(figure)


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
