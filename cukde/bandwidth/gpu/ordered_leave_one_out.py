"""Leave-one-out sums over ordered pairs by log-sum-exp: the launcher of ``ordered_leave_one_out.cu``."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import cupy as cp
import numpy as np

from cukde.bandwidth.gpu.leave_one_out import in_range
from cukde.bandwidth.gpu.lines import put, transposed
from cukde.core.gpu import compile as core_compile
from cukde.core.gpu.launch import C_TYPE, DOUBLE, FLOAT, Specialisation
from cukde.density.pairs.gpu import finish
from cukde.density.pairs.gpu.operands import LOG2_E

_THREADS = 256

# A logarithm of what counts for nothing: Exponent::none of log_sum_exp.cuh.
_NONE = {FLOAT: -3e38, DOUBLE: -1.5e308}


def plain(X: Any, scales: np.ndarray, weights: Any | None, which: Any, rows: Any) -> Any:
    """Return ``log sum_{j != i} w_j exp(-scales[b] |x_i - x_j|^2)``, float64, for pairs of b and i.

    Parameters
    ----------
    X : array, shape (n, d)
        Data, float32 or float64, C-contiguous; pairs are computed in their type.
    scales : ndarray, shape (B,)
        Positive, on the host. In float32 the largest may be up to 1e36 times the smallest.
    weights : array, shape (n,), optional
        Float64, positive; None is 1/n each.
    which, rows : array, shape (m,)
        Int64: b and i.
    """
    unit, factors = in_range(scales, X.dtype)
    lines = transposed(X, unit, lines=X.shape[1], others=1)
    _put_weights(lines, X, weights)
    return _launch(X, (None, None), weights, lines, rows, cp.asarray(factors)[which], 0.0, 0.0)


def debiased(X: Any, mean_shift: Any, totals: Any, scale: float, weights: Any | None) -> Any:
    """Return ``log sum_{j != i} w_j exp(-scale |x_i - t_ij|^2)`` for each row i, shape (n,), float64.

    t_ij is x_j debiased by the data without x_i: with u = x_i - x_j and ``a = w_i exp(-q_ij) / totals_j``, the share of
    x_i in the sum at x_j, ``x_i - t_ij = (u (1 - a/2) - mean_shift_j / 2) / (1 - a)``.

    Parameters
    ----------
    mean_shift : array, shape (n, d)
        ``sum_k w_k exp(-q_jk) (x_k - x_j) / totals_j``, float64.
    totals : array, shape (n,)
        ``sum_k w_k exp(-q_jk)`` with the term of the row itself, float64.
    """
    (n, d), unit = X.shape, unit_of(scale)
    lines = transposed(X, unit, lines=d, others=d + 3)
    put(lines[d : 2 * d], mean_shift.T, 0, unit)
    put(lines[2 * d], (mean_shift * mean_shift).sum(axis=1), 0, unit**2 / 4)
    put(lines[2 * d + 1], cp.log2(totals if weights is not None else n * totals), _NONE[X.dtype], -1)
    _put_weights(lines, X, weights)
    of_shift = cp.ascontiguousarray(mean_shift), totals
    return _launch(X, of_shift, weights, lines, None, None, scale / unit**2, scale)


def _put_weights(lines: Any, X: Any, weights: Any | None) -> None:
    """Write logarithms of weights, to base 2, into the last line."""
    put(lines[-1], cp.zeros(len(X)) if weights is None else cp.log2(weights), _NONE[X.dtype])


def _launch(
    X: Any,
    of_shift: tuple[Any, Any],
    weights: Any | None,
    lines: Any,
    rows: Any | None,
    scales: Any | None,
    scale: float,
    scale_of_X: float,
) -> Any:
    """Logarithms at rows, each with its scale, or at all of them of one scale."""
    (n, d), real = X.shape, X.dtype
    m = n if rows is None else len(rows)
    out = finish.empty(m, 0)
    splits = finish.splits(n, m, 0, out)
    arrays = X, *of_shift, weights, lines, rows, scales, splits.reference, splits.total
    counts = n, m, lines.shape[1], d, splits.rows
    _kernel(real, debiased=scales is None).launch(
        splits.grid, (_THREADS,), *arrays, *counts, LOG2_E * scale, LOG2_E * scale_of_X, 1 / n
    )
    reference, total, _ = finish.merge(splits, out)
    # A sum is 1 at least, but where all distances overflow.
    logs = reference + cp.log(cp.maximum(total, 1))
    return logs - math.log(n) if weights is None else logs


def unit_of(scale: float) -> float:
    """The power of two that brings the bandwidth of a scale to between 1 and 2, and changes no bit of coordinates."""
    return 2.0 ** (1 - math.frexp((2 * scale) ** -0.5)[1])


@core_compile.listed
def specialisations() -> Iterator[Specialisation]:
    """Every kernel of this module."""
    for real in (FLOAT, DOUBLE):
        for of_debiased in (False, True):
            yield _kernel(real, debiased=of_debiased)


@functools.cache
def _kernel(real: np.dtype, *, debiased: bool) -> Specialisation:
    name = f"{'debiased_' * debiased}leave_one_out_{'f64' if real == DOUBLE else 'ieee'}"
    defines = core_compile.macros(KERNEL=name, DEBIASED=debiased, REAL=C_TYPE[real])
    return Specialisation("bandwidth/ordered_leave_one_out", name, defines, f"9P 3q i q {real.char} 2d")
