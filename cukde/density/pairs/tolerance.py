"""What a pass over pairs may leave out by default."""

from __future__ import annotations

from cukde.density.options import Options

TOLERANCE = {"float32": 1e-5, "tf32": 1e-3, "float64": 1e-13}
"""What may be left out of a query's sum by default, relative to what is kept."""

PRODUCTS_IN_DOUBLE = {"float32": 1e8, "tf32": 1e8, "float64": 2800.0}
"""Largest scaled squared radius at which exponents from products in double are accurate enough on the CPU."""


def tolerance_of(options: Options) -> float:
    """What may be left out of a query's sum, relative to what is kept; 0: nothing."""
    return TOLERANCE.get(options.precision, 0.0) if options.rtol is None else options.rtol
