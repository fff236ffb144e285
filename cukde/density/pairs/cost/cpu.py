"""Work of the density passes of two dimensions and more on a CPU: BLAS tiles, an exponential in place, BLAS again.

Source: ``cukde/density/pairs/cpu/passes.py`` and ``_tiles.py``, for data near enough for exponents by a product.
"""

from __future__ import annotations

from cukde.core.cost.cost import Part, Unit
from cukde.density.pairs.cost.engines import Pass

_SUMS = 2  # of a pair beside products and exponential: the shift, the sum

# Of the rate of exponentials in the fastest cache that those of a tile reach, for which the largest exponent is
# searched and the weights are summed and written. Measured on two cores of 7.7e9 and 2.7e9 a second, float32 and
# float64: 0.51 and 0.62.
_POWERS = 0.55

# Of a product as thin as these, terms of an entry at which half of the rate of large square ones is reached: entries
# are written, read and written again, operands are packed. Measured on two cores of 2.7e11 and 1.3e11 operations a
# second, float32 and float64, with 2 to 100 terms: within a factor of 1.45.
_TERMS_OF_HALF = 20

# Of a coordinate of the data, turned, and of the queries: difference, division and square on one core of 4.1e9 a
# second, 3.4 and 1.9 ns.
_DATA, _QUERY = 14.0, 8.0

# By differences, of a pair and dimension, one at a time: difference, square, its product with the scale, sum. For
# moments difference, product and a sum that waits for the last one: as long as so many operations. Measured on the same
# cores 0.46 and 0.84 ns.
_DIFFERENCE, _MOMENT = 4, 7

# Rows from which two threads take each exponential of data at their own points once; more threads from more rows.
_OWN_ROWS = 4096


def passed(of: Pass) -> list[Part]:
    """Parts of a pass over all pairs: a thread takes each tile through them, one after the other."""
    single = of.precision in ("float32", "tf32")
    once = of.itself and not of.weighted and of.output == "moments" and of.precision != "ieee" and of.n >= _OWN_ROWS
    exponents = 0.5 * of.pairs if once else of.pairs
    item = 4 if single else 8
    points = float(of.itemsize * of.d) * (of.n + (0 if of.itself else of.m))
    results = 8.0 * of.m * (2 + of.columns)
    # Tiles are gone through in the cache, which holds one a thread.
    product: Unit = "gemm_f32" if single else "gemm_f64"

    def multiplied(name: str, bytes_: float, terms: int, pairs: float) -> Part:
        work: dict[Unit, float] = {product: 2.0 * terms * pairs, "cache": item * pairs}
        return Part(name, bytes_, work, efficiency=terms / (terms + _TERMS_OF_HALF))

    def by_difference(name: str, bytes_: float, operations: int) -> Part:
        return Part(name, bytes_, {"scalar": float(operations * of.d) * of.pairs, "cache": item * of.pairs})

    if of.precision == "ieee":
        parts = [by_difference("differences", points, _DIFFERENCE)]
    else:
        # Two further columns of the operands are the norms.
        width = of.d + 2
        operands = float(item * width) * (of.n + of.m)
        parts = [
            Part("prepare", points + operands, {"scalar": of.d * (_DATA * of.n + _QUERY * of.m)}, blocks=1.0),
            multiplied("product", operands, width, exponents),
        ]
    parts.append(_powers(exponents, single, results))
    if of.output == "moments":
        parts.append(
            by_difference("moments", 0.0, _MOMENT)
            if of.precision == "ieee"
            else multiplied("moments", 0.0, of.d, of.pairs)
        )
    if of.output == "values":
        parts.append(multiplied("values", float(of.itemsize) * of.n * of.k, of.k, of.pairs))
    return parts


def _powers(exponents: float, single: bool, results: float) -> Part:
    """Find the largest exponent of each query, take exponentials, and sum them."""
    work: dict[Unit, float] = {
        "cache": 3 * (4 if single else 8) * exponents,
        ("exponential" if single else "exponential_f64"): exponents,
        ("fma" if single else "float64"): _SUMS * exponents,
    }
    return Part("powers", results, work, efficiency=_POWERS)
