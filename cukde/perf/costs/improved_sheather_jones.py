"""What the improved Sheather-Jones rule costs: passes over the data, one grid, and the host's search for the root.

Of data that the first grid resolves, which span fewer than about 500 bandwidths.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from cukde.perf._cost import Counted, Part, Unit
from cukde.perf._peaks import Peaks
from cukde.perf.costs import _elementwise, _host, density

_BLOCK = 2**20  # rows that are binned at a time
_LAUNCHES = 12  # of a block: cells and shares of its rows, two histograms with what CuPy looks at before, two sums

# So many operations one at a time take as long as NumPy's two histograms of a row, 8 ns on a core of 3e9 a second.
_SCALAR_OF_ROW = 24

# Seconds of a transform of 2^17 cells and of some 30 evaluations of six functionals, on one core of the host.
_ROOT = 4e-3


def isj(on: Peaks, *, n: int, d: int = 1, dtype: Any = "float64", weighted: bool = False) -> Counted:
    """Count the rule, see ``cukde/_improved_sheather_jones.py``."""
    if d != 1:
        raise ValueError(f"d must be 1 for the improved Sheather-Jones rule; got {d}")
    rows = float(n)
    look = density.bandwidth(on, n=n, d=1, dtype=dtype, weighted=weighted).parts[0]
    # Offsets taken (2 arrays) where weights are (2), ranges (3), scaled (2).
    size = _elementwise.passes("size", on, 5 * rows, 9 * 8.0 * rows, launches=6, work={"float64": 3 * rows})
    # Read and written: least and largest (2), moved to 0 (2), in steps (2), cells (2), shares (3), histograms (3); with
    # weights those (2), normalised (2), and the shares times them (3).
    passes = 14 + 7 * weighted
    blocks = -(-n // _BLOCK)
    work: dict[Unit, float] = {"float64": (4 + 2 * weighted) * rows}
    if on.backend == "cpu":
        work["scalar"] = _SCALAR_OF_ROW * rows
    bins = _elementwise.passes(
        "bins", on, passes / 2 * rows, 8.0 * passes * rows, launches=5 + _LAUNCHES * blocks, work=work
    )
    waits = _ROOT + (_host.COPY * 6 if on.backend == "gpu" else 0.0)
    passed = [look, size, bins]
    if on.backend == "cpu":  # NumPy's passes run on one core
        passed = [dataclasses.replace(part, blocks=1.0) for part in passed]
    parts = (*passed, Part("root", cycles=waits * on.clock, launches=1))
    return Counted(parts, "passes over the data counted in cukde/_improved_sheather_jones.py; the root as measured")
