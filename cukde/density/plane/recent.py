"""Which passes were transforms of two or three columns, and over how many cells: for the performance model."""

from __future__ import annotations

from cukde.density.sums import Output

_cells: dict[Output, int] = {}


def note(output: Output, cells: int) -> None:
    """Note a transform, by the number of cells that have expansions for queries."""
    _cells[output] = cells


def recent_cells() -> dict[Output, int]:
    """Cells of the last transforms, by output, and forget them."""
    found = dict(_cells)
    _cells.clear()
    return found
