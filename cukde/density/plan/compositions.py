"""Which way takes what is made of densities - stacks, domains, grids, masses: every predicate, threshold and time.

Times are nanoseconds on two cores, or on an H200, unless something else is said.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from cukde.core.plan import wanted

# --- Whitened points, of other bandwidths than a number ---

_FAR = 1e6  # scaled squared radius


def reaches_far(squared_radius: Any) -> Any:
    """Whether pairs take whitened points, in double on the CPU, with what rounding has taken from them."""
    return squared_radius > _FAR


# --- Stacks: many densities of one size ---

# Members up to here are faster at once. On two cores, measured from d = 4 (0.17 ms against 0.74, of 1,000 rows at 256
# queries) to 64 (as long); single precision could not add up more rows than that in one go. On an H200 a density by
# itself takes 0.12 to 0.19 ms or more; at once those of 4,096 rows and queries take 0.016 ms each at d = 4 and 0.045 ms
# at d = 16, in double precision 0.05 and 0.1 ms. A block takes the rows of a member one tile after the other, 0.01 us a
# row at d = 4 and 0.4 us at d = 64, while others may have nothing to do: so few members must not have many rows.
_STACK_ROWS, _STACK_WORK, _STACK_COLUMNS_OF_PAIR = 2**14, {"cpu": 2**24, "gpu": 2**30}, 4
_STACK_COLUMNS, _STACK_WORK_OF_ROWS, _STACK_DOUBLE = 64, 2**14, 4  # on a GPU; a pair in double counts so many
# On the CPU: coordinates of pairs up to which NumPy takes less time than a compiled pass, and less than compiling does.
_FEW_OF_STACK, _STACK_MEANWHILE = 2**12, 2**26


def stack_pays(backend: str, b: int, n: int, m: int, d: int, precision: str) -> bool:
    """Whether ``b`` members are faster at once than one after the other by the passes of single densities."""
    if (asked := wanted("stack")) is not None:
        return asked
    work = _STACK_COLUMNS_OF_PAIR + d
    if backend == "cpu":
        return n <= _STACK_ROWS and n * m * work <= _STACK_WORK[backend]
    of_member = n * m * work * (_STACK_DOUBLE if precision == "float64" else 1)
    of_rows = n * work <= _STACK_WORK_OF_ROWS * max(1, b)
    return d <= _STACK_COLUMNS and of_member <= _STACK_WORK[backend] and of_rows


def stack_is_few(b: int, n: int, m: int, d: int) -> bool:
    """Whether NumPy takes all pairs of so many members in less time than a compiled pass."""
    return b * n * m * d <= _FEW_OF_STACK


def stack_answers_meanwhile(b: int, n: int, m: int, d: int) -> bool:
    """Whether NumPy takes pairs in less time than compiling does."""
    return b > 0 and b * n * m * d <= _STACK_MEANWHILE


# --- Domains: images of the data, or products of sums of single columns ---

# A term of a column's factor takes as long as so many images of a pair. On the CPU 1.2 to 2 ns beside 1 (float32) or 2
# (float64) by BLAS, on a core with AVX2; on an H200 2.8 ps of 35 operations in double precision beside the 0.4 ps of a
# pair in float32. A term of Poisson's sum is a multiply-add, as long as so many terms with an exponential.
_IMAGES_OF_TERM, OF_WAVE = {"cpu": 1.5, "gpu": 7.0}, 1 / 4
_WIDE = 0.15  # bandwidth, in periods, from which on Poisson's sum is shorter
_MANY_CELLS = 64  # of a column, beyond which images are not taken one by one where there is another way


def waves_are_fewer(h: float, period: float) -> bool:
    """Whether Poisson's sum of a column has fewer terms than its images."""
    return h >= _WIDE * period


def cells_are_many(most: int) -> bool:
    """Whether a column has so many cells that products are taken, however few images of them matter."""
    asked = wanted("products")
    return most > _MANY_CELLS if asked is None else asked


def images_of_products(backend: str, terms: float) -> float:
    """How many images of each point take as long as products whose columns have so many terms together."""
    asked = wanted("products")
    return _IMAGES_OF_TERM[backend] * terms if asked is None else 0.0 if asked else math.inf


# --- Grids: transforms, products of matrices, or all pairs ---

_MOST_IMAGES = 16.0  # times the data that a transform takes as images: of more, the kernel is wide beside the domain
# On the CPU: entries of both factors, and multiply-adds of their product, up to which one thread takes no longer than
# several do; and numbers added to cells that NumPy takes in less time than compiling.
_FEW_ENTRIES, _FEW_PRODUCTS, _GRID_MEANWHILE = 2**17, 2**22, 2**26


class Costs(NamedTuple):
    """Times of the steps of a transform."""

    of_call: float
    of_point: float
    of_cell_of_point: float
    of_cell: float  # of the transforms
    of_interpolated: float  # cell that a number of the result is interpolated from
    of_launch: float = 0.0  # of an array operation, where splines are made and added up by such


class _Times(NamedTuple):
    """Times of each way."""

    transform: Costs
    factor: float  # an exponential of the exact product
    product: float
    pair: float  # of the pass over all pairs


_TIMES = {
    # Measured; more cores share all of it.
    "cpu": _Times(Costs(5e5, 15, 0.7, 15, 3), factor=2, product=0.015, pair=1),
    # Measured; array operations, whose launches take longer than small grids.
    "gpu": _Times(Costs(2e6, 0.1, 0.1, 0.03, 0.03, 1.5e4), factor=0.1, product=3.5e-5, pair=5e-4),
}


def transform_costs(backend: str) -> Costs:
    """Times of the steps of a transform."""
    return _TIMES[backend].transform


def transform_pays(backend: str, ns: float, n: int, numbers: int, columns: int | None) -> bool:
    """Whether a transform takes less than exact densities: of matrices with so many columns, or of all pairs (None)."""
    if (asked := wanted("fft")) is not None:
        return asked
    times = _TIMES[backend]
    exact = times.pair * n * numbers if columns is None else n * (times.factor * columns + times.product * numbers)
    return ns <= exact


def images_suit_transform(number: float) -> bool:
    """Whether a transform takes so many images of each point as further data."""
    return number <= _MOST_IMAGES


def grid_is_few(n: int, columns: int, numbers: int) -> bool:
    """Whether the CPU takes so few points and cells in the caller's thread, which loads no compiler."""
    return n * columns <= _FEW_ENTRIES and n * numbers <= _FEW_PRODUCTS


def spreads_meanwhile(n: int, cells: int) -> bool:
    """Whether NumPy spreads points over so many cells each in less time than compiling does."""
    return n * cells <= _GRID_MEANWHILE


# --- The mass of the positive estimate ---


def mass_is_integrated(d: int, *, local: bool) -> bool:
    """Whether nodes near the data are few enough to integrate; otherwise points are drawn."""
    return d == 1 and not local
