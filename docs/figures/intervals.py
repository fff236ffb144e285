"""The table of docs/intervals.md, of the records of ``benchmarks.density.bench_intervals``.

python -m docs.figures.intervals
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.tools import records

_ROOT = Path(__file__).parents[2]
PAGE = _ROOT / "docs" / "intervals.md"
BEGIN = "<!-- made of records: begin (python -m docs.figures.intervals) -->"
END = "<!-- made of records: end -->"
_COLUMNS = {"ours": "`density_interval`", "wald": "without the score", "rbc": "as nprobust", "naive": "of `kde`"}


def rows() -> list[dict[str, Any]]:
    """Those of the six densities; of rows of the same density and size the one of most samples."""
    best: dict[tuple[Any, ...], dict[str, Any]] = {}
    for path in sorted((_ROOT / "benchmarks" / "results").glob("interval_coverage_*.json")):
        for row in records.read(path)["rows"]:
            key = (row["op"], row.get("density"), *row["shape"])
            if row.get("six") and row["draws"] > best.get(key, {"draws": 0})["draws"]:
                best[key] = row
    return list(best.values())


def table(of: list[dict[str, Any]]) -> Iterator[str]:
    """A line for each number of columns and rows: the lowest and the highest share of the six densities."""
    yield f"| columns, rows, samples | {' | '.join(_COLUMNS.values())} | all of a grid |"
    yield f"|---{'|---' * len(_COLUMNS)}|---|"
    sizes = sorted({(row["shape"][2], row["shape"][0]) for row in of})
    for d, n in sizes:
        some = [row for row in of if (row["shape"][2], row["shape"][0]) == (d, n)]
        points, grids = ([row for row in some if ("simultaneous" in row["op"]) is grid] for grid in (False, True))
        cells = [_range([row[name] for row in points if name in row]) for name in _COLUMNS]
        yield f"| {d}, {n:,}, {points[0]['draws']:,} | {' | '.join(cells)} | {_range([row['ours'] for row in grids])} |"


def _range(shares: list[float]) -> str:
    return f"{min(shares):.3f} to {max(shares):.3f}" if shares else ""


def page_with(text: str) -> str:
    """The page with the table of the records."""
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}\n\n" + "\n".join(table(rows())) + f"\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page_with(PAGE.read_text("utf-8")), encoding="utf-8")
