"""The choice of the engine that takes a pass of the density family."""

from __future__ import annotations

import functools
import itertools
from typing import Any, Literal

from cukde.density.pairs.cost import differences
from cukde.density.pairs.gpu import f16, f16_symmetric, f64, wide, wide_f64
from cukde.density.pairs.gpu.specialisation import OPERATION
from cukde.density.sums import Output

# Scaled squared radii whose choices are compared, 1% apart.
_LARGEST_SQUARED_RADIUS, _STEPS = 1e6, 1400

Engine = Literal["difference", "tf32", "f16", "f16_symmetric", "centred", "wide", "f64", "wide_f64"]

# The tensor cores' operands for precision "tf32": "f16", or "tf32" to measure the one against the other.
ENGINE_OF_TF32: Engine = "f16"

# The symmetric kernel counts rows in int32, and a grid's 65,535 rows of blocks take two chunks of 8,192 columns each.
MOST_SYMMETRIC_ROWS = 2 * 65_535 * 8192


def engine(
    output: Output,
    precision: str,
    n: int,
    d: int,
    k: int,
    *,
    squared_radius: float | None,
    capability: tuple[int, int],
    symmetric: bool,
    m: int | None = None,
    exact: bool = False,
) -> Engine:
    """Choose the engine of a pass.

    Parameters
    ----------
    n, d, k : int
        Rows and dimensions of the data, columns of moments or values.
    squared_radius : float, optional
        Largest squared distance to the centre, in bandwidths; None: unknown.
    capability : tuple of int
        Compute capability of the device.
    symmetric : bool
        The queries are the data, all weights are equal, and sums may be added up in any order.
    m : int, optional
        Number of queries; by default as many as data.
    exact : bool
        The total is wanted for itself, and not to divide the moments by.
    """
    if output == "laplace_moments":
        return "difference"
    if precision == "float64" and wide_f64.serves(output, d, squared_radius):
        return "wide_f64"  # products by a library: on any device
    if precision == "ieee" or capability < (8, 0):
        return "difference"
    if precision == "float64":
        return "f64" if f64.serves(output, d, squared_radius) else "difference"
    if precision == "tf32" and ENGINE_OF_TF32 == "tf32":
        return "tf32" if squared_radius is not None and squared_radius <= f16.SQUARED_RADIUS else "difference"
    if d >= wide.FEWEST_DIMENSIONS:
        few = differences.serve(n, n if m is None else m, d, 0 if output in ("sum", "laplace") else k)
        return "difference" if few else "wide"
    if squared_radius is None or f16.form(precision, d, squared_radius) is None:
        return "difference"
    if symmetric and n <= MOST_SYMMETRIC_ROWS:
        # Its three products are added up the fast way, which takes a total less far than the careful one of f16.cuh.
        limit = f16.SQUARED_RADIUS if precision == "tf32" else f16.SQUARED_RADIUS_TIMES_DIMENSIONS / d
        if output == "moments" and (not exact or squared_radius <= limit):
            return "f16_symmetric"
        # For "tf32" the ordered engine has a third of the products with values.
        near = squared_radius <= f16.most_of_fast_three(d)
        if output == "values" and near and precision == "float32" and k <= f16_symmetric.MOST_VALUES:
            return "f16_symmetric"
    return "f16"


@functools.lru_cache(maxsize=1024)
def most_squared_radius(output: Output, precision: str, n: int, d: int, k: int, **terms: Any) -> float:
    """Largest scaled squared radius, less a hundredth, of which products take the pass; 0: differences always do."""
    for step in range(_STEPS - 1, -1, -1):
        squared_radius = _LARGEST_SQUARED_RADIUS ** (step / _STEPS)
        if engine(output, precision, n, d, k, squared_radius=squared_radius, **terms) != "difference":
            return squared_radius
    return 0.0


@functools.cache
def squared_radii(precision: str, d: int, capability: tuple[int, int]) -> tuple[float, ...]:
    """Scaled squared radii that stand for all others: the middle of every range in which all choices are the same."""
    ranges: dict[tuple[object, ...], list[float]] = {}
    for step in range(_STEPS):
        squared_radius = _LARGEST_SQUARED_RADIUS ** (step / _STEPS)
        engines = (
            engine(
                output,
                precision,
                1,
                d,
                1,
                squared_radius=squared_radius,
                capability=capability,
                symmetric=symmetric,
                exact=exact,
            )
            for output, symmetric, exact in itertools.product(OPERATION, (False, True), (False, True))
        )
        forms = (f16.form(precision, d, squared_radius, output) for output in OPERATION)
        reaches = (wide_f64.reach(output, squared_radius) for output in OPERATION) if precision == "float64" else ()
        ranges.setdefault((*forms, *engines, *reaches), []).append(squared_radius)
    return tuple(same[len(same) // 2] for same in ranges.values())
