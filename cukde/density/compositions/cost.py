"""What functions cost that are made of densities: quotients of two, and levels of the density at the data."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from cukde.core.cost import elementwise, radix_sort
from cukde.core.cost.cost import Counted, Part, Unit
from cukde.core.cost.peaks import Peaks
from cukde.density import check as density_check
from cukde.density.cost import formulas as cost_formulas
from cukde.density.cost.formulas import DEFAULT_BOXES

# Operations one at a time that take as long as NumPy's sort of a number, and its order, for each doubling of their
# number: 0.26 and 0.75 ns on a core of 4.1e9 a second, 4,096 to 1,048,576 numbers of float64.
_SORT, _ORDER = 1, 3


def conditional(
    on: Peaks,
    *,
    n: int,
    m: int,
    d: int,
    given: int = 1,
    each: bool = False,
    dtype: Any = "float32",
    precision: str | None = None,
    weighted: bool = False,
    deterministic: bool = False,
    check_finite: bool = True,
    boxes: int = DEFAULT_BOXES,
) -> Counted:
    """Count a density of ``d`` columns of which some are ``given``, by a value for each query or one for all."""
    if not 1 <= given < d:
        raise ValueError(f"given must be at least 1 and less than d = {d}; got {given}")
    sizes = {
        "n": n,
        "m": m,
        "dtype": dtype,
        "precision": precision,
        "deterministic": deterministic,
        "check_finite": check_finite,
        "boxes": boxes,
    }
    if each:
        passes = {
            "joint": cost_formulas.kde(on, d=d, weighted=weighted, **sizes),
            "given": cost_formulas.kde(on, d=given, weighted=weighted, **sizes),
        }
        return _quotient(on, passes, m)
    # Differences, in bandwidths, squared, summed; logarithms of weights less their largest, normalised.
    shares = _passes("shares", on, 8.0 * n * given + 10.0 * n, launches=12)
    of_rest = cost_formulas.kde(on, d=d - given, weighted=True, **sizes)
    return dataclasses.replace(of_rest, parts=(shares, *of_rest.parts))


def density_ratio(
    on: Peaks,
    *,
    n: int,
    k: int,
    m: int,
    d: int,
    dtype: Any = "float32",
    precision: str | None = None,
    weighted: bool = False,
    deterministic: bool = False,
    check_finite: bool = True,
    boxes: int = DEFAULT_BOXES,
) -> Counted:
    """Count the density of ``n`` points over that of ``k`` others, at ``m`` queries."""
    passes = {
        name: cost_formulas.kde(
            on,
            n=rows,
            m=m,
            d=d,
            dtype=dtype,
            precision=precision,
            weighted=weighted,
            deterministic=deterministic,
            check_finite=check_finite,
            boxes=boxes,
        )
        for name, rows in (("numerator", n), ("denominator", k))
    }
    return _quotient(on, passes, m)


def hdr_threshold(
    on: Peaks,
    *,
    n: int,
    d: int,
    method: str = "kde",
    dtype: Any = "float32",
    precision: str | None = None,
    weighted: bool = False,
    deterministic: bool = False,
    check_finite: bool = True,
    boxes: int = DEFAULT_BOXES,
) -> Counted:
    """Count the density of the data at their own points by a method, and its order."""
    estimate = (cost_formulas.sd_kde if method == "sd" else cost_formulas.kde)(
        on,
        n=n,
        m=n,
        d=d,
        dtype=dtype,
        precision=precision,
        weighted=weighted,
        at_data=True,
        deterministic=deterministic,
        check_finite=check_finite,
        boxes=boxes,
    )
    size = density_check.result_dtype(np.empty(0, dtype)).itemsize
    if on.backend == "cpu":
        work: dict[Unit, float] = {"scalar": (_ORDER if weighted else _SORT) * n * math.log2(max(n, 2))}
        ordered = [Part("sort", 2.0 * size * n, work, blocks=1.0, launches=0)]
    elif weighted:
        ordered = [*radix_sort.positions("sort", on, n, size), _passes("shares", on, 6.0 * n, launches=6)]
    else:
        ordered = [radix_sort.keys("sort", n, size)]
    return dataclasses.replace(estimate, parts=(*estimate.parts, *ordered))


def _passes(name: str, on: Peaks, numbers: float, *, launches: int) -> Part:
    """What reads and writes so many float64 numbers, two of them in a pass."""
    launches = launches if on.backend == "gpu" else 0
    return elementwise.passes(name, on, numbers / 2, 8.0 * numbers, launches=launches)


def _quotient(on: Peaks, passes: Mapping[str, Counted], m: int) -> Counted:
    """Count densities, each by its name, and one divided by the other: four passes over logarithms."""
    parts = [dataclasses.replace(part, name=f"{name}: {part.name}") for name in passes for part in passes[name].parts]
    counted = passes.values()
    return Counted(
        (*parts, _passes("quotient", on, 4.0 * m, launches=3)),
        next(iter(counted)).source,
        sum(each.pairs for each in counted),
        sum(each.textbook_flops or 0.0 for each in counted),
        sum(each.textbook_bytes or 0.0 for each in counted),
    )
