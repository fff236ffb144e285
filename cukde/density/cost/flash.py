"""The models of the SD-KDE paper: operations, bytes and utilisation of its programs, by its count.

Source: Epstein, E. L., Flash-SD-KDE: accelerating SD-KDE with tensor cores, section 3 and appendix A. An exponential
counts as 8 operations, the ratio of float32 units to special function units of an RTX A6000.
"""

from __future__ import annotations

import math
from typing import Any

from cukde.core import check as core_check

A6000_TENSOR_PEAK = 155e12
"""Operations a second of the tensor cores of an RTX A6000, by the paper."""

_EXPONENTIAL = 8  # operations for each exponential

_SCALAR = 4  # operations for norms and distances of a pair, in two or more dimensions

# Operations for a pair of points in one dimension, beside the exponential: for the score, and for the density.
_SCORE_1D, _DENSITY_1D = 8, 6

# The fastest tile: queries by data rows.
_BLOCK_M, _BLOCK_N = 64, 1024
_FLOAT = 4  # bytes


def flash_density_flops(n: float, m: float, d: int) -> float:
    """Operations of a density of ``n`` points at ``m`` queries: a product, norms, an exponential."""
    return n * m * (_EXPONENTIAL + (_DENSITY_1D if d == 1 else 2 * d + _SCALAR))


def flash_score_flops(n: float, m: float, d: int) -> float:
    """Operations of a score of ``n`` points at ``m`` queries: two products, norms, an exponential."""
    return n * m * (_EXPONENTIAL + (_SCORE_1D if d == 1 else 4 * d + _SCALAR))


def flash_flops(n: float, m: float, d: int) -> float:
    """Operations of SD-KDE of ``n`` points at ``m`` queries: the score at the data, then the density.

    4 d n^2 + 12 n^2 + 2 d m n + 12 m n, and in one dimension 16 n^2 + 14 m n: the paper's count, exactly.

    Parameters
    ----------
    n, m : float
        Data rows and queries.
    d : int
        Dimensions.

    Returns
    -------
    float

    Raises
    ------
    TypeError, ValueError
        For sizes that are not numbers, negative or infinite, and for d below 1.

    Examples
    --------
    >>> from cukde import perf
    >>> perf.flash_flops(8, 1, 16) / 8**2, perf.flash_flops(8, 1, 1) / 8**2
    (81.5, 17.75)

    Notes
    -----
    Source: Flash-SD-KDE, section 3.1, and appendix A for one dimension.
    """
    n, m, d = _sizes(n, m, d)
    return flash_score_flops(n, n, d) + flash_density_flops(n, m, d)


def flash_tile_bytes(d: int, block_m: int = _BLOCK_M, block_n: int = _BLOCK_N, *, moments: bool = True) -> int:
    """Bytes of a tile of the paper's kernel: queries and data rows read, sums (and ``moments``) written, float32.

    Parameters
    ----------
    d : int
        Dimensions.
    block_m, block_n : int
        Queries and data rows of a tile.
    moments : bool
        Sums weighted by the points are written, as for a score.

    Examples
    --------
    >>> from cukde import perf
    >>> perf.flash_tile_bytes(16)
    73984

    Notes
    -----
    The paper's count, exactly. Source: Flash-SD-KDE, section 3.1.
    """
    d, block_m, block_n = map(core_check.count, ("d", "block_m", "block_n"), (d, block_m, block_n))
    moments = core_check.flag("moments", moments)
    return _FLOAT * (block_m * d + block_n * d + block_m + (block_m * d if moments else 0))


def flash_bytes(n: float, m: float, d: int) -> float:
    """Bytes of SD-KDE of ``n`` points at ``m`` queries in ``d`` dimensions, as the paper counts them.

    In several dimensions the result counts the bytes of all tiles of the score, 1.13 n^2 at d = 16; the paper leaves
    out the density. In one dimension it counts each point, each query and each result once, 5 n for m = n / 8.

    Examples
    --------
    >>> from cukde import perf
    >>> round(perf.flash_bytes(8, 1, 16) / 8**2, 2), perf.flash_bytes(8, 1, 1) / 8
    (1.13, 5.0)

    Notes
    -----
    The paper's count, exactly; a cache moves less. Source: Flash-SD-KDE, section 3.1, and appendix A for one dimension.
    """
    n, m, d = _sizes(n, m, d)
    return _FLOAT * (n + 2 * m) if d == 1 else flash_pass_bytes(n, n, d, moments=True)


def flash_pass_bytes(n: float, m: float, d: int, *, moments: bool) -> float:
    """Bytes of one pass over ``n`` points at ``m`` queries: of all its tiles, or in one dimension of its arrays."""
    if d == 1:
        return _FLOAT * (n + m + m)
    return flash_tile_bytes(d, moments=moments) * (m / _BLOCK_M) * (n / _BLOCK_N)


def flash_intensity(n: float, m: float, d: int) -> float:
    """Operations a byte of SD-KDE, as the paper counts them: about 72 at d = 16, 3.55 n at d = 1, for m = n / 8.

    For ``n`` points at ``m`` queries in ``d`` dimensions the result is exactly :func:`flash_flops` over
    :func:`flash_bytes`.

    Examples
    --------
    >>> from cukde import perf
    >>> round(perf.flash_intensity(32768, 4096, 16)), round(perf.flash_intensity(1000, 125, 1) / 1000, 2)
    (72, 3.55)
    """
    traffic = flash_bytes(n, m, d)
    if not 0 < traffic < math.inf:
        raise ValueError(f"n must be such that bytes are moved, and finitely many; got n={n}, m={m}: {traffic:g} bytes")
    return flash_flops(n, m, d) / traffic


def flash_utilisation(seconds: float, n: float, m: float, d: int = 16, peak: float = A6000_TENSOR_PEAK) -> float:
    """Fraction of a peak rate that a run of SD-KDE reaches: the paper's operations over the time and the peak.

    Parameters
    ----------
    seconds : float
        Measured time.
    n, m, d
        As for :func:`flash_flops`.
    peak : float
        Operations a second; default 155e12, the tensor cores of an RTX A6000.

    Raises
    ------
    ValueError
        For a time or a peak that is not positive.

    Examples
    --------
    >>> from cukde import perf
    >>> round(perf.flash_utilisation(2e-3, 32768, 4096), 3)
    0.282

    Notes
    -----
    The result is as accurate as the time. The operations are the paper's, not those of this library. Source:
    Flash-SD-KDE, figure 2.
    """
    seconds, peak = core_check.number("seconds", seconds, above=True), core_check.number("peak", peak, above=True)
    return flash_flops(n, m, d) / peak / seconds


def _sizes(n: Any, m: Any, d: Any) -> tuple[float, float, int]:
    return core_check.number("n", n), core_check.number("m", m), core_check.count("d", d)
