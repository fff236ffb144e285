"""The table of docs/kernels.md: what a pair costs an H200, by the performance model, beside what was measured.

python -m benchmarks.perf.kernel_budget
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.tools import records
from cukde import perf
from cukde.perf import Part

_ROOT = Path(__file__).parents[2]
PAGE = _ROOT / "docs" / "kernels.md"
_RECORD = _ROOT / "benchmarks" / "results" / "sd_kde_h200.json"
_BEGIN, _END = "<!-- budget: begin -->\n", "<!-- budget: end -->"
_HEAD = ("pass", "exponentials", "tensor operations", "instructions", "modelled", "measured")
_UNITS: tuple[perf.Unit, ...] = ("exponential", "tensor_f16", "instruction")
_SIZES = {"kde": {"n": 2**20, "m": 2**17, "d": 16}, "debias": {"n": 2**20, "d": 16}}


def table() -> str:
    """Return the table in Markdown: the model's counts for a pair and times, and the record's medians."""
    lines = [_line(_HEAD), "|" + "---|" * len(_HEAD)]
    for op, sizes in _SIZES.items():
        pairs = sizes["n"] * sizes.get("m", sizes["n"])
        for precision in ("float32", "tf32"):
            found = perf.predict(op, "H200", precision=precision, **sizes)
            number = max(range(len(found.parts)), key=lambda part: found.parts[part].seconds)  # all other parts: < 1%
            part: Part = found.cost.parts[number]
            units = found.parts[number].units
            spent = [f"{part.work[unit] / pairs:.3g}, {1e3 * units[unit]:.0f} ms" for unit in _UNITS]
            times = [f"{1e3 * found.seconds:.0f} ms", f"{_measured(op, precision):.0f} ms"]
            lines.append(_line([f'`{op}`, `"{precision}"`', *spent, *times]))
    return "\n".join(lines) + "\n"


def page_with(text: str, budget: str) -> str:
    """Return the page with another table between its marks."""
    before, rest = text.split(_BEGIN)
    return before + _BEGIN + budget + _END + rest.split(_END)[1]


def _line(cells: list[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _measured(op: str, precision: str) -> float:
    of = op, f"{precision} all pairs"
    rows = [row for row in records.read(_RECORD)["rows"] if (row["op"], row["precision"]) == of]
    medians = {row["median_ms"] for row in rows if row["shape"]["n"] == 2**20 and "median_ms" in row}
    (median,) = medians  # one of each
    return float(median)


if __name__ == "__main__":
    PAGE.write_text(page_with(PAGE.read_text(encoding="utf-8"), table()), encoding="utf-8")
