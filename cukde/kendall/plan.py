r"""Which pass counts for Kendall's tau: the plans of both backends, their thresholds, and the times behind them.

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

On the CPU, sign bits and trees of counters, ms of CPU time of all pairs of p columns on an EPYC 7003 with AVX2, bits /
trees::

    n      p   no ties      ties
    100    16    1.0 / 2.0    1.5 / 2.3
    100   128    6.0 / 19     7.0 / 25
    300    64    7.0 / 14     7.5 / 15
    1000    8    1.6 / 2.1    2.1 / 3.7
    1000   32    4.7 / 8.3    9.9 / 18
    1000  128     37 / 70      56 / 193
    2000    8    2.6 / 1.8    4.6 / 2.8
    2000   64     43 / 37      70 / 96
    2000  128    147 / 190    270 / 392
    3000   64     81 / 63     155 / 164
    3000  128    263 / 247    482 / 606

A pair takes n^2 / 128 words of bits, or n steps in a tree; the bits of a column cost as much as 16 pairs.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

from cukde.core.plan import Candidate, Plan, forced
from cukde.kendall import sign_tiles

# Conditions on the data, and on the process.
NO_TIES = "no column has ties"
FIRST_CALLS = "of the first calls of a process, before compiled code is loaded"
NOT_COMPILED = "while compiled code is missing, which a thread makes"

ON_GPU = ("comparisons", "products", "products with ties", "sorting")
ON_CPU = ("few", "few meanwhile", "bits", "trees")

# Milliseconds of sorting: for each pair of columns, and for each of its n log2(n) steps.
_SORTING, _STEP = 2e-5, 5e-9

# Comparisons of pairs of samples that take no longer than the other ways' launches; of 64-bit keys they take twice.
_MOST_COMPARISONS = 2**29
_COMPARISONS_OF_BLOCK = 2**13  # that take as long as a block without any, by count; a pair has a block or several
_MOST_COMPARED = 2**20 - 1  # samples, see comparisons.cu

# On the CPU by NumPy: samples of all pairs of variables of a call, which takes at most some milliseconds, where each
# pair has at least those of a block; and samples up to which it takes less than compiling does.
_MOST_OF_FEW, BLOCK_OF_FEW = 2**14, 64
_MOST_MEANWHILE = 2**21

# The bits of a column cost as much as so many pairs; and samples up to which a pair takes less by bits than by a tree.
_PAIRS_OF_COLUMN, _MOST_BY_BITS = 16, 3000


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


# ------------------------------------------------------------------------------------------------------ on a GPU


@functools.lru_cache(maxsize=1024)
def pairs_on_gpu(count: int, n: int, *, wide: bool) -> Plan:
    """Plan Kendall's tau of ``count`` pairs of variables of n samples; ``wide``: of 8 bytes a value."""
    subject = f"Kendall's tau of {count:,} pairs of variables, {n:,} samples"
    return Plan(subject, (_comparisons(count, n, wide), Candidate("sorting")))


@functools.lru_cache(maxsize=1024)
def matrix_on_gpu(
    p: int, q: int, n: int, *, symmetric: bool, wide: bool, capability: tuple[int, int], counted: bool = False
) -> Plan:
    """Plan Kendall's tau of all pairs of p columns with q, or with each other, of n samples each.

    ``counted``: counts are asked for, not the statistic alone. Pairs of columns with NaN are sorted in any case.
    """
    pairs = p * (p + 1) // 2 if symmetric else p * q
    by_sorting = Candidate("sorting", pairs * (_SORTING + _STEP * n * math.log2(max(n, 2))))
    subject = f"{'Counts' if counted else 'Tau'} of {_columns(p, q, symmetric)}, {n:,} samples"
    products = tuple(_products(p, q, n, symmetric, tied, capability) for tied in (False, True))
    served = sorted(
        (one for one in (by_sorting, *products) if not one.refused), key=lambda one: one.ms or 0.0
    )  # those that come first take less, sorting where they take as long
    refused = [one for one in products if one.refused]
    few = Candidate("comparisons", refused="it makes no counts") if counted else _comparisons(p * q, n, wide)
    return Plan(subject, (few, *served, *refused))


def few_on_gpu(pairs: int, n: int, *, wide: bool) -> bool:
    """Whether samples are compared with each other, for so many pairs of columns."""
    asked = forced(ON_GPU)
    return asked == "comparisons" if asked else not _comparisons(pairs, n, wide).refused


def _comparisons(pairs: int, n: int, wide: bool) -> Candidate:
    refused = ""
    if n > _MOST_COMPARED:
        refused = f"more than {_MOST_COMPARED:,} samples"
    elif pairs * (n * n + _COMPARISONS_OF_BLOCK) << wide > _MOST_COMPARISONS:
        refused = "so many comparisons take longer than the launches of other ways"
    return Candidate("comparisons", refused=refused)


def _products(p: int, q: int, n: int, symmetric: bool, tied: bool, capability: tuple[int, int]) -> Candidate:
    """Sign products on tensor cores, of columns with ties or without."""
    name, condition = ("products with ties", "") if tied else ("products", NO_TIES)
    if capability < (8, 0):
        return Candidate(name, refused="tensor cores multiply integers from compute capability 8.0 on")
    if n > sign_tiles.MOST_SAMPLES:
        return Candidate(name, refused=f"more than {sign_tiles.MOST_SAMPLES:,} samples")
    rates = _RATES[sign_tiles.in_bits(capability), tied]
    rows, entries = sign_tiles.padded(p, q, symmetric=symmetric)
    return Candidate(name, n * n / 2 * (rows * rates.row + entries * rates.entry), condition)


# ----------------------------------------------------------------------------------------------------- on the CPU


@functools.lru_cache(maxsize=1024)
def pairs_on_cpu(count: int, n: int) -> Plan:
    """Plan Kendall's tau of ``count`` pairs of variables of n samples."""
    subject = f"Kendall's tau of {count:,} pairs of variables, {n:,} samples"
    return Plan(subject, (*_by_numpy(count, n, count), Candidate("trees")))


@functools.lru_cache(maxsize=1024)
def matrix_on_cpu(p: int, q: int, n: int, *, symmetric: bool) -> Plan:
    """Plan the counts of all pairs of p columns with q, or with each other; those with NaN have trees in any case."""
    pairs, columns = (p * (p + 1) // 2, p) if symmetric else (p * q, p + q)
    pays = 0 < n * (pairs + _PAIRS_OF_COLUMN * columns) < _MOST_BY_BITS * pairs
    bits = Candidate("bits", refused="" if pays else "trees of counters take less for so many samples of so few pairs")
    subject = f"Counts of {_columns(p, q, symmetric)}, {n:,} samples"
    return Plan(subject, (*_by_numpy(p * q, n, pairs), bits, Candidate("trees")))


def few_on_cpu(variables: int, n: int) -> bool:
    """Whether NumPy takes a first call with so many pairs of variables, of n samples."""
    asked = forced(ON_CPU)
    return asked == "few" if asked else _are_few(variables, n)


def _are_few(variables: int, n: int) -> bool:
    return variables * max(n, BLOCK_OF_FEW) <= _MOST_OF_FEW


def few_meanwhile(variables: int, n: int) -> bool:
    """Whether NumPy takes less than compiling does."""
    return variables * n <= _MOST_MEANWHILE


def _by_numpy(variables: int, n: int, counted: int) -> tuple[Candidate, Candidate]:
    """NumPy for a first call, and where compiled code is missing; of a matrix it counts each pair once."""
    refused = [
        "" if serves else f"more than {most:,} samples in all pairs"
        for serves, most in ((_are_few(variables, n), _MOST_OF_FEW), (few_meanwhile(counted, n), _MOST_MEANWHILE))
    ]
    return Candidate("few", None, FIRST_CALLS, refused[0]), Candidate("few meanwhile", None, NOT_COMPILED, refused[1])


def _columns(p: int, q: int, symmetric: bool) -> str:
    return f"all pairs of {p:,} columns" if symmetric else f"{p:,} columns with {q:,}"
