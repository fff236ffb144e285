"""Cost of the search for modes: passes of points that climb over the data, fewer of them pass by pass."""

from __future__ import annotations

import dataclasses
import math

from cukde.core.cost.cost import Counted
from cukde.core.cost.peaks import Peaks
from cukde.density.cost.formulas import score
from cukde.density.cost.sizes import Sizes, sized

# Passes of all seeds that take as long as the passes of those that still climb, where nobody says. Measured of 10,000
# rows of six groups at Silverman's bandwidth, 6 in two columns and 4 in four; 17 to 19 at half of that bandwidth.
PASSES = 6.0


@sized("n m d dtype precision weighted at_data deterministic check_finite passes")
def modes(on: Peaks, sizes: Sizes, passes: float = PASSES) -> Counted:
    """Count ``m`` seeds that climb over ``n`` rows, as many as ``passes`` passes of all seeds would take.

    The formula leaves out what depends on the data beside: Newton's method for few points, and the merging of modes.
    """
    if not 1 <= passes < math.inf:
        raise ValueError(f"passes must be 1 or more; got {passes!r}")
    first = score(on, sizes)
    # Points that climb are float64, whatever the data were.
    other = score(on, sizes, at_data=False, check_finite=False)
    others = [part.times(passes - 1) for part in other.parts]
    parts = (*first.parts, *(dataclasses.replace(part, name=f"climb: {part.name}") for part in others))
    return Counted(
        parts,
        "passes of cukde/density/modes/mean_shift.py, measured in all of them together; each is that of cukde.score",
        first.pairs * passes,
    )
