"""Work of the density passes in two or more dimensions on a CPU: BLAS tiles, an exponential in place, BLAS again.

Sources: ``cukde/density/pairs/cpu/passes.py`` and ``cukde/density/pairs/cpu/tiles.py``, for data close enough to their
mean that a product gives the exponents.
"""

from __future__ import annotations

from cukde.core.cost.cost import Part, Unit
from cukde.density.pairs.cost.engines import Pass

_SUMS = 2  # operations for each pair beside the products and the exponential: the shift, the sum

# Exponentials of a tile reach this part of their rate in the fastest cache: the largest exponent is searched besides,
# and the weights are summed and written. Measured on two cores of 7.7e9 (float32) and 2.7e9 (float64) a second: 0.51
# and 0.62.
_POWERS = 0.55

# A thin product whose entries have so many terms reaches half the rate of a large square one: entries are written, read
# and written again, and operands are packed. Measured on two cores of 2.7e11 (float32) and 1.3e11 (float64) operations
# a second, with 2 to 100 terms: within a factor of 1.45.
_TERMS_OF_HALF = 20

# Difference, division and square of a coordinate take as long as so many operations, for the data, which are
# transposed, and for the queries. Measured on one core of 4.1e9 a second: 3.4 and 1.9 ns.
_DATA, _QUERY = 14.0, 8.0

# Operations for each pair and dimension without products of matrices: difference, square, product with the scale, sum.
# For moments: difference, product and a sum that waits for the last one, which take as long as so many operations.
# Measured on the same cores: 0.46 and 0.84 ns.
_DIFFERENCE, _MOMENT = 4, 7

# Two threads take each exponential of a self-interaction (Y = X) once from so many rows; more threads need more rows.
_OWN_ROWS = 4096


def passed(task: Pass) -> list[Part]:
    """Parts of a pass over all pairs; a thread takes a tile through all of them, one after the other."""
    single = task.precision in ("float32", "tf32")
    once = (
        task.itself
        and not task.weighted
        and task.output == "moments"
        and task.precision != "ieee"
        and task.n >= _OWN_ROWS
    )
    exponents = 0.5 * task.pairs if once else task.pairs
    item = 4 if single else 8
    # The cache holds a tile for each thread.
    product: Unit = "gemm_f32" if single else "gemm_f64"

    def multiplied(name: str, bytes_: float, terms: int, pairs: float) -> Part:
        work: dict[Unit, float] = {product: 2.0 * terms * pairs, "cache": item * pairs}
        return Part(name, bytes_, work, efficiency=terms / (terms + _TERMS_OF_HALF))

    def by_difference(name: str, bytes_: float, operations: int) -> Part:
        return Part(name, bytes_, {"scalar": float(operations * task.d) * task.pairs, "cache": item * task.pairs})

    if task.precision == "ieee":
        parts = [by_difference("differences", task.point_bytes, _DIFFERENCE)]
    else:
        # The norms are two more columns of the operands.
        width = task.d + 2
        operands = float(item * width) * (task.n + task.m)
        parts = [
            Part(
                "prepare",
                task.point_bytes + operands,
                {"scalar": task.d * (_DATA * task.n + _QUERY * task.m)},
                blocks=1.0,
            ),
            multiplied("product", operands, width, exponents),
        ]
    parts.append(_powers(exponents, single, task.result_bytes))
    if task.output == "moments":
        parts.append(
            by_difference("moments", 0.0, _MOMENT)
            if task.precision == "ieee"
            else multiplied("moments", 0.0, task.d, task.pairs)
        )
    if task.output == "values":
        parts.append(multiplied("values", float(task.itemsize) * task.n * task.k, task.k, task.pairs))
    return parts


def _powers(exponents: float, single: bool, results: float) -> Part:
    """Find the largest exponent of each query, take exponentials, and sum them."""
    work: dict[Unit, float] = {
        "cache": 3 * (4 if single else 8) * exponents,
        ("exponential" if single else "exponential_f64"): exponents,
        ("fma" if single else "float64"): _SUMS * exponents,
    }
    return Part("powers", results, work, efficiency=_POWERS)
