"""Costs of information: leave-one-out densities at the data, at several bandwidths."""

from __future__ import annotations

import dataclasses

from cukde.core.cost import elementwise
from cukde.core.cost.cost import Counted
from cukde.core.cost.peaks import Peaks
from cukde.density.cost.formulas import kde
from cukde.density.cost.sizes import OPTIONS, Sizes, sized

_ROW = 30.0  # flops of a row's correction, for each bandwidth


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
    of_itself, of_others, at_others = kde(on, sizes.at_points()), kde(on, sizes, n=k, m=sizes.n), kde(on, sizes, m=k)
    densities = [of_itself] * passes + [of_others] * (passes + 1) + [at_others]
    if bias_correction and sizes.d > 3:
        densities += [*densities, of_itself, of_others]
    return _sum(on, sizes, densities, bias_correction)


def _together(on: Peaks, sizes: Sizes, columns: list[int], bias_correction: bool) -> Counted:
    passes = _passes(sizes, bias_correction)
    if bias_correction and sizes.d > 2 and not sizes.local:
        passes += passes + 1  # the same of drawn rows, and their own density
    each = [kde(on, sizes.at_points(), d=d) for d in columns if d]
    return _sum(on, sizes, [one for one in each for _ in range(passes)], bias_correction)


def _passes(sizes: Sizes, bias_correction: bool) -> int:
    """Sums at three bandwidths and those of squares, one more for equal rows."""
    if not bias_correction:
        return 1
    return 6 if sizes.weighted or sizes.local else 4


def _sum(on: Peaks, sizes: Sizes, densities: list[Counted], bias_correction: bool) -> Counted:
    parts = [
        dataclasses.replace(part, name=f"density {k + 1}: {part.name}")
        for k, density in enumerate(densities)
        for part in density.parts
    ]
    work = _ROW * sizes.n * (len(densities) if bias_correction else 1)
    return Counted(
        (*parts, elementwise.doubles("terms", on, work, launches=12 * len(densities))),
        densities[0].source,
        sum(density.pairs for density in densities),
        sum(density.textbook_flops or 0.0 for density in densities),
        sum(density.textbook_bytes or 0.0 for density in densities),
    )
