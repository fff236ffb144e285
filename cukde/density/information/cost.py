"""Costs of information: leave-one-out densities at the data, at several bandwidths."""

from __future__ import annotations

import dataclasses

from cukde.core.cost import elementwise, host
from cukde.core.cost.cost import Counted, Part
from cukde.core.cost.peaks import Peaks
from cukde.density.cost.formulas import kde
from cukde.density.cost.sizes import OPTIONS, Sizes, sized

_ROW = 30.0  # flops of a row's correction, for each bandwidth

# NumPy's generator takes as long as so many operations one at a time, on a core of 4.1e9 a second: 14 ns for a normal
# number and 260 for a row by its weight.
_NORMAL, _ROW_BY_WEIGHT = 57, 1070


@sized(f"n d given bias_correction dtype precision weighted {OPTIONS} local")
def entropy(on: Peaks, sizes: Sizes, given: int = 0, bias_correction: bool = True) -> Counted:
    """Count the entropy of ``d`` columns, and of the ``given`` ones among them."""
    return _together(on, sizes, [sizes.d, given], bias_correction)


@sized(f"n d a given bias_correction dtype precision weighted {OPTIONS} local")
def mutual_information(on: Peaks, sizes: Sizes, a: int = 1, given: int = 0, bias_correction: bool = True) -> Counted:
    """Count the information of ``a`` of ``d`` columns about the others, with those that are ``given``."""
    if not 1 <= a < sizes.d - given:
        raise ValueError(f"a must be at least 1 and less than d - given = {sizes.d - given}; got {a}")
    return _together(on, sizes, [sizes.d, a + given, sizes.d - a, given], bias_correction)


@sized(f"n k d bias_correction dtype precision weighted {OPTIONS}")
def kl_divergence(on: Peaks, sizes: Sizes, k: int, bias_correction: bool = True) -> Counted:
    """Count both densities at ``n`` points, of these and of ``k`` others, and one density at those."""
    passes = _passes(sizes, bias_correction)
    of_itself, of_others = kde(on, sizes.at_points(leave_one_out=True)), kde(on, sizes, n=k, m=sizes.n)
    densities = [of_itself] * passes + [of_others] * (passes + 1) + [kde(on, sizes, m=k)]
    drawn = bias_correction and sizes.d > 3
    if drawn:
        densities += [*densities, kde(on, sizes, m=sizes.n), of_others]
    return _sum(on, sizes, densities, bias_correction, sizes.n + k if drawn else 0)


def _together(on: Peaks, sizes: Sizes, columns: list[int], bias_correction: bool) -> Counted:
    passes, used = _passes(sizes, bias_correction), [d for d in columns if d]
    drawn = bias_correction and sizes.d > 2 and not sizes.local
    each = [kde(on, sizes.at_points(leave_one_out=True), d=d) for d in used]
    densities = [one for one in each for _ in range(passes * (1 + drawn))]
    if drawn:  # the same of drawn rows, and their own density
        densities += [kde(on, sizes, d=d, m=sizes.n) for d in used]
    return _sum(on, sizes, densities, bias_correction, sizes.n if drawn else 0)


def _passes(sizes: Sizes, bias_correction: bool) -> int:
    """Sums at three bandwidths and those of squares, one more for equal rows."""
    if not bias_correction:
        return 1
    return 6 if sizes.weighted or sizes.local else 4


def _drawn(on: Peaks, rows: int, d: int) -> Part:
    """Rows that NumPy draws, and moves by normal steps; a GPU waits for them and for their copy."""
    written = 8.0 * rows * d
    if on.backend == "cpu":
        return Part("draw", 6 * written, {"scalar": rows * (_ROW_BY_WEIGHT + _NORMAL * d)}, blocks=1.0, launches=0)
    seconds = rows * (host.ROW_BY_WEIGHT + host.NORMAL * d)
    return Part("draw", 4 * written, cycles=seconds * on.clock, launches=12)


def _sum(on: Peaks, sizes: Sizes, densities: list[Counted], bias_correction: bool, drawn: int) -> Counted:
    parts = [
        dataclasses.replace(part, name=f"density {k + 1}: {part.name}")
        for k, density in enumerate(densities)
        for part in density.parts
    ]
    if drawn:
        parts.append(_drawn(on, drawn, sizes.d))
    work = _ROW * sizes.n * (len(densities) if bias_correction else 1)
    return Counted(
        (*parts, elementwise.doubles("terms", on, work, launches=12 * len(densities))),
        densities[0].source,
        sum(density.pairs for density in densities),
        sum(density.textbook_flops or 0.0 for density in densities),
        sum(density.textbook_bytes or 0.0 for density in densities),
    )
