"""Cost of a density on a product grid: points spread and transformed, or a product of two matrices of Gaussians."""

from __future__ import annotations

import dataclasses
import math

from cukde.core.cost import elementwise
from cukde.core.cost.cost import Counted, Part, Unit
from cukde.core.cost.peaks import Peaks
from cukde.density.cost.formulas import kde
from cukde.density.cost.sizes import Sizes, sized

_ORDER = (
    5  # of the splines, where nobody says: for 1,024 x 1,024 cells and a tenth of the standard deviation, in float32
)

# To find and write the cells of a point, and to add to a cell, takes as long as so many operations one at a time: 30
# and 1.4 ns on a core of 4.1e9 a second.
_SCALAR_OF_POINT, _SCALAR_OF_CELL = 120, 6

# Transforms reach this part of the peak by their 5 N log2 N operations: measured on two cores.
TRANSFORMS = 0.25


_BLOCK = 2**22  # numbers that array operations take at a time, as in spread.py and exact.py


@sized("n m d dtype precision weighted log algorithm check_finite order cells")
def evaluate_grid(
    on: Peaks, sizes: Sizes, log: bool = False, algorithm: str = "auto", order: int = _ORDER, cells: float | None = None
) -> Counted:
    """Count a density of ``n`` points on a grid of ``m`` numbers.

    ``cells`` is the size of the grid that is transformed, by splines of some ``order``; default 1.3 for each number of
    the result. "auto" is a transform in two and three dimensions, and the exact algorithm in others.
    """
    n, m, d = sizes.n, sizes.m, sizes.d
    whole = kde(on, sizes)
    if log or d == 1:
        return whole
    survey = [part for part in whole.parts if part.name == "survey"]
    by_transform = algorithm == "fft" or (algorithm == "auto" and d <= 3)
    parts = _transformed(on, n, m, d, order, 1.3 * m if cells is None else cells) if by_transform else _exact(on, n, m)
    if on.backend == "cpu":
        parts = [dataclasses.replace(part, launches=0) for part in parts]
    source = "counted from the loops of cukde/density/grids/"
    return dataclasses.replace(whole, parts=(*survey, *parts), source=source)


def _transformed(on: Peaks, n: int, m: int, d: int, order: int, cells: float) -> list[Part]:
    added = float(n) * order**d
    places = 8.0 * (d + 1) * n
    flops = 5 * cells * math.log2(max(2.0, cells)) / 2
    if on.backend == "cpu":
        work: dict[Unit, float] = {"scalar": _SCALAR_OF_POINT * n + _SCALAR_OF_CELL * added}
        spread = Part("spread", 4 * places + 8 * cells, work)
    else:
        # Array operations, each of which writes and reads numbers. Places take ten for a point and column. A spline of
        # order k takes seven for each of its k values, from the order before, and these are put side by side. Then six
        # for each cell of a point: its index, its share, the rounded share, and the addition.
        rows = 10 + 7 * (order * (order + 1) // 2 - 1) + order
        operations = d * (10 + 7 * (order * (order + 1) // 2 - 1) + 1) + 6 * order ** (d - 1)
        numbers = rows * d * float(n) + 6 * added
        blocks = max(1, round(n * order / _BLOCK))
        spread = elementwise.passes("spread", on, numbers, 16 * numbers, launches=blocks * operations)
    return [
        spread,
        Part("transforms", 2 * d * 16 * cells, {"float64": 2 * flops}, efficiency=TRANSFORMS, launches=2 * d),
        elementwise.passes("convolve", on, d * cells, 16 * d * cells, launches=d),
        elementwise.passes("result", on, 2 * m, 16.0 * m + 8 * cells, launches=4),
    ]


def _exact(on: Peaks, n: int, m: int) -> list[Part]:
    columns = 2 * math.sqrt(m)
    values = float(n) * columns
    work: dict[Unit, float] = {"exponential_f64": values, "float64": 4 * values}
    # The loops of a CPU take a factor at once. A GPU takes six array operations for each, and one more for half of
    # them, the share of their point; factors of a block of points lie in its cache.
    blocks = math.ceil(n * columns / _BLOCK) if on.backend == "gpu" else 1
    operations = 6.5 * values if on.backend == "gpu" else 0.0
    return [
        dataclasses.replace(
            elementwise.passes("factors", on, operations, 8 * values, launches=13 * blocks, work=work),
            requested=max(8 * values, 16 * operations),
        ),
        Part("product", 8 * values + 16.0 * m * blocks, {"gemm_f64": 2.0 * n * m}, launches=2 * blocks),
    ]
