r"""Which way of counting for Kendall's tau is the faster one on a GPU: the rule, and the times that it was made from.

Milliseconds on an H200 of all pairs of p columns of n samples, ranks included, by products / by sorting
(``benchmarks/kendall/crossover.py``; host time is most of what is below 0.9)::

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

Products take n^2 / 2 multiply-adds an entry of their tiles, and as many comparisons a row; sorting takes n log2(n)
steps a pair of columns. A call of either takes about 0.45 beside. What is not bits was timed at p = 2,000 and n = 4,000
alone.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

from cukde.kendall import sign_tiles

# Of sorting a pair of columns, ms: once, and n log2(n) times.
_SORTING, _STEP = 2e-5, 5e-9


class _Products(NamedTuple):
    """Of a pair of samples, ms."""

    row: float  # made into signs
    entry: float  # of a tile


# By whether signs are bits, and whether there are ties.
_PRODUCTS = {
    (True, False): _Products(1.0e-10, 3.9e-13),
    (True, True): _Products(1.3e-10, 1.2e-12),
    (False, False): _Products(3.5e-10, 3.0e-12),
    (False, True): _Products(3.5e-10, 6.2e-12),
}


@functools.lru_cache(maxsize=1024)
def by_products(p: int, q: int, n: int, *, symmetric: bool, tied: bool, capability: tuple[int, int]) -> bool:
    """Whether products of signs take less time than sorting, for p columns with q of n samples each."""
    if capability < (8, 0) or n > sign_tiles.MOST_SAMPLES:
        return False
    products = _PRODUCTS[sign_tiles.in_bits(capability), tied]
    pairs = p * (p + 1) // 2 if symmetric else p * q
    rows, entries = sign_tiles.padded(p, q, symmetric=symmetric)
    by_sorting = pairs * (_SORTING + _STEP * n * math.log2(max(n, 2)))
    return n * n / 2 * (rows * products.row + entries * products.entry) < by_sorting
