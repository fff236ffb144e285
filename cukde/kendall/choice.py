r"""The choice between comparisons, sign products and sorting for Kendall's tau on a GPU, and the times behind it.

Milliseconds on an H200 for all pairs of p columns of n samples, ranks included: sign products / sorting
(``benchmarks/kendall/crossover.py``; below 0.9 most of it is host time)::

    without ties
      n \ p                2               8              32             128             512
      500   0.832 / 0.911   0.841 / 0.826   0.783 / 0.566   0.469 / 0.732    0.481 / 6.42
     2000   0.469 / 0.498   0.478 / 0.503    0.49 / 0.845     0.784 / 1.4     0.64 / 13.1
     8000    0.67 / 0.562    0.808 / 0.56   0.664 / 0.616     1.04 / 3.97     4.16 / 57.6
    32000     4.5 / 0.655    4.36 / 0.606     4.36 / 1.65     10.2 / 19.6      58.1 / nan

    with ties
      n \ p                2               8              32             128             512
      500   0.469 / 0.482   0.461 / 0.507   0.484 / 0.556     0.5 / 0.794    0.509 / 7.03
     2000   0.471 / 0.484   0.468 / 0.493   0.467 / 0.526     0.504 / 1.4     1.03 / 17.3
     8000   0.911 / 0.687   0.959 / 0.625   0.859 / 0.655     1.58 / 4.47     9.01 / 64.6
    32000    7.28 / 0.623    7.26 / 0.624     7.28 / 1.76       19 / 21.4       133 / nan

Sign products take n^2 / 2 multiply-adds for each entry of a tile, and as many comparisons for each row. Sorting takes
n log2(n) steps for each pair of columns. Either has about 0.45 ms of overhead. Signs as bytes were timed only at
p = 2,000 and n = 4,000.

Few samples are compared with each other in one launch: n^2 comparisons of about ten instructions for each pair of
columns, of which an H200 does 2^29 in about a quarter of a millisecond by count.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

from cukde.kendall import sign_tiles

# Milliseconds of sorting: for each pair of columns, and for each of its n log2(n) steps.
_SORTING, _STEP = 2e-5, 5e-9


# Comparisons of pairs of samples that take no longer than the other ways' launches; of 64-bit keys they take twice.
_MOST_COMPARISONS = 2**29
_MOST_COMPARED = 2**20 - 1  # samples, see comparisons.cu
_MOST_BLOCKS = 2**31 - 1


class _Rates(NamedTuple):
    """Milliseconds of sign products for each pair of samples."""

    row: float  # for each row whose signs are computed
    entry: float  # for each entry of a tile


# Keys: whether signs are bits, whether there are ties.
_RATES = {
    (True, False): _Rates(1.0e-10, 3.9e-13),
    (True, True): _Rates(1.3e-10, 1.2e-12),
    (False, False): _Rates(3.5e-10, 3.0e-12),
    (False, True): _Rates(3.5e-10, 6.2e-12),
}


@functools.lru_cache(maxsize=1024)
def by_products(p: int, q: int, n: int, *, symmetric: bool, tied: bool, capability: tuple[int, int]) -> bool:
    """Whether sign products take less time than sorting, for p columns paired with q, of n samples each."""
    if capability < (8, 0) or n > sign_tiles.MOST_SAMPLES:
        return False
    rates = _RATES[sign_tiles.in_bits(capability), tied]
    pairs = p * (p + 1) // 2 if symmetric else p * q
    rows, entries = sign_tiles.padded(p, q, symmetric=symmetric)
    sorting = pairs * (_SORTING + _STEP * n * math.log2(max(n, 2)))
    return n * n / 2 * (rows * rates.row + entries * rates.entry) < sorting


def by_comparisons(pairs: int, n: int, *, wide: bool) -> bool:
    """Whether samples are compared with each other, for so many pairs of columns; ``wide``: of 8 bytes a value."""
    return n <= _MOST_COMPARED and pairs * n * n << wide <= _MOST_COMPARISONS and pairs <= _MOST_BLOCKS
