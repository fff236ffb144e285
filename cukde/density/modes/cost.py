"""What the search for modes costs: passes of points that climb over the data, fewer of them pass by pass."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from cukde.core.cost.cost import Counted
from cukde.core.cost.peaks import Peaks
from cukde.density.cost import formulas as cost_formulas

# Passes of all seeds that those of the ones still climbing come to, where nobody says: measured of 10,000 rows of six
# groups at Silverman's bandwidth, 6 in two columns and 4 in four; 17 to 19 at half of that bandwidth.
PASSES = 6.0


def modes(
    on: Peaks,
    *,
    n: int,
    m: int,
    d: int,
    dtype: Any = "float32",
    precision: str | None = None,
    weighted: bool = False,
    at_data: bool = False,
    deterministic: bool = False,
    check_finite: bool = True,
    passes: float = PASSES,
) -> Counted:
    """Count ``m`` seeds that climb over ``n`` rows, as many as ``passes`` passes of all seeds would take.

    What depends on the data beside, Newton's method for few points and the merging of modes, is left out.
    """
    if not 1 <= passes < math.inf:
        raise ValueError(f"passes must be 1 or more; got {passes!r}")
    options: dict[str, Any] = {
        "n": n,
        "m": m,
        "d": d,
        "precision": precision,
        "weighted": weighted,
        "deterministic": deterministic,
    }
    first = cost_formulas.score(on, **options, dtype=dtype, at_data=at_data, check_finite=check_finite)
    # Points that climb are float64, whatever the data were.
    other = cost_formulas.score(on, **options, dtype=dtype, check_finite=False)
    others = [part.times(passes - 1) for part in other.parts]
    parts = (*first.parts, *(dataclasses.replace(part, name=f"climb: {part.name}") for part in others))
    return Counted(
        parts,
        "passes of cukde/density/modes/mean_shift.py, measured in all of them together; each is that of cukde.score",
        first.pairs * passes,
    )
