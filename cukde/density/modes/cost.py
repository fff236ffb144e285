"""Cost of a search for modes."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

from cukde.core.cost import host
from cukde.core.cost.cost import Counted
from cukde.core.cost.peaks import Peaks
from cukde.density.cost import waiting
from cukde.density.cost.formulas import score
from cukde.density.cost.sizes import Sizes, sized
from cukde.density.modes.mean_shift import PASSES_OF_LOOK


class Climb(NamedTuple):
    """How far points climb, which the data decide."""

    passes: float  # of all seeds, which take as long as the passes of those that still climb
    runs: float  # passes, however few points they have
    steps: float  # of Newton's method, by a few points

    def of(self, passes: float) -> Climb:
        """As far as so many passes of all seeds go."""
        return Climb(passes, self.runs * passes / self.passes, self.steps * passes / self.passes)


# Where nobody says. A density of one mode takes 3 passes of all. 10,000 rows of six groups take 6 in two columns and 4
# in four at Silverman's bandwidth, 17 to 19 at half of it; 65,536 in four columns take 14 at a quarter, by 95 passes
# and 42 steps.
TYPICAL = Climb(9.0, 100, 40)

# Array operations of a pass beside its sums: steps and where they lead, log densities, and cells with a key from each
# column. Of a look at what has become of the points: hills, two searches for equal cells, and who follows whom, mostly
# places by arrays of places. Copies that each look, and each step of Newton's method, waits for, and the operations of
# such a step.
_OF_PASS, _OF_COLUMN, _OF_LOOK, _OF_STEP = 10, 7, 150, 12
_WAITS_OF_LOOK, _WAITS_OF_STEP = 6, 4

# Seconds of NumPy for a step of Newton's method: curvatures of a few points and their eigenvectors, on one core.
_STEP = 1.8e-4


@sized("n m d dtype precision weighted at_data deterministic check_finite passes")
def modes(on: Peaks, sizes: Sizes, passes: float = TYPICAL.passes) -> Counted:
    """Count ``m`` seeds that climb over ``n`` rows, as many as ``passes`` passes of all seeds would take."""
    return climbed(on, sizes, TYPICAL.of(passes))


def climbed(on: Peaks, sizes: Sizes, climb: Climb, operations: int = 0) -> Counted:
    """Count passes of the score, each with so many more array ``operations``, and what comes between them.

    A GPU waits for Python in passes and steps of few points too; a CPU takes these in little time.
    """
    if not 1 <= climb.passes < math.inf:
        raise ValueError(f"passes must be 1 or more; got {climb.passes!r}")
    first = score(on, sizes)
    # Points that climb are float64, whatever the data were.
    other = score(on, sizes, at_data=False, check_finite=False)
    parts = [dataclasses.replace(part.times(climb.passes - 1), name=f"climb: {part.name}") for part in other.parts]
    if on.backend == "gpu":
        looks = climb.runs / PASSES_OF_LOOK
        of_passes = (_OF_PASS + _OF_COLUMN * sizes.d + operations) * climb.runs
        begun = of_passes + _OF_LOOK * looks + _OF_STEP * climb.steps
        copies = _WAITS_OF_LOOK * looks + _WAITS_OF_STEP * climb.steps
        parts.append(host.waits("climb: operations and waits", on, copies, begun, _STEP * climb.steps))
        parts += waiting.calls("climb: calls", on, climb.runs + climb.steps)
    return Counted(
        (*first.parts, *parts),
        "passes of cukde/density/modes/mean_shift.py, measured in all of them together; each is that of cukde.score",
        first.pairs * climb.passes,
    )
