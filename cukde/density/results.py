"""Epilogues of merged sums: gradients of log densities, corrected densities, sums of values.

Results have the dtype that is asked for; beyond its range they are infinite, without a warning, as on the GPU.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cukde.density import correction
from cukde.density.sums import PartialSums, to_density
from cukde.density.whitening import Whitening

_LOG_2 = math.log(2)


def gradient(sums: PartialSums, whitening: Whitening, xp: Any) -> Any:
    """Score in the data's own coordinates, (m, d) float64, from the moments about the queries; of a stack (b, m, d)."""
    squares = whitening.of_queries(whitening.h**2, xp)
    return whitening.score(sums.moments / (sums.total * squares)[..., None], xp)


def laplace(
    sums: PartialSums, log_constant: float, log: bool, dtype: np.dtype, xp: Any, *, clip: bool = False
) -> tuple[Any, str | None]:
    """Laplace-corrected density, (m,), or its logarithm; and a report of values that were clipped."""
    report = None
    signed = sums.moments[..., 0]
    log_size = sums.reference + xp.log(abs(signed)) + log_constant
    if clip:
        report = _clipped(signed, log_size, xp)
        log_size = xp.where(signed < 0, -xp.inf, log_size)
    elif log:
        log_size = xp.where(signed < 0, xp.nan, log_size)
    if log:
        return cast(log_size, dtype), report
    size = xp.exp(log_size)
    return cast(xp.sign(signed) * size, dtype) + 0.0, report  # no -0.0 where clipped


def values(sums: PartialSums, dtype: np.dtype, xp: Any) -> Any:
    """Sums of values weighted by the kernel, (m, k)."""
    return cast(xp.exp(sums.reference)[:, None] * sums.moments, dtype)


def positive(sums: PartialSums, log_constant: float, log: bool, dtype: np.dtype, xp: Any) -> Any:
    """Density by the positive correction, (m,), or its logarithm, of the sums of output "laplace".

    The logarithm is finite wherever something is summed.
    """
    out = to_density(sums, log_constant, True, np.dtype(np.float64), xp)
    out += correction.log_factor(correction.relative(sums), xp)
    out = xp.where(sums.total > 0, out, -np.inf)
    return cast(out if log else xp.exp(out), dtype)


def quotient(log_p: Any, log_q: Any, *, log: bool, dtype: np.dtype, xp: Any) -> Any:
    """One density over another, of their logarithms in float64, or the logarithm of that."""
    out = log_p - log_q
    if not log:
        out = xp.exp(out)
    return cast(out, dtype)


def distribution(lower: PartialSums, upper: PartialSums | None, log_share: float, dtype: np.dtype, xp: Any) -> Any:
    """Distribution function, (m,), of output "cdf"; with ``upper``, the sums beyond the queries, its logarithm.

    Near 1 the logarithm is that of 1 less what is beyond, which keeps its digits.
    """
    log_lower = lower.reference + xp.log(lower.total) + log_share
    if upper is None:
        return cast(xp.minimum(xp.exp(log_lower), 1.0), dtype)
    log_upper = xp.minimum(upper.reference + xp.log(upper.total) + log_share, -_LOG_2)
    return cast(xp.where(log_lower < -_LOG_2, log_lower, xp.log1p(-xp.exp(log_upper))), dtype)


def cast(a: Any, dtype: np.dtype) -> Any:
    """Round to the dtype of the result."""
    return a.astype(dtype, copy=False)


def _clipped(signed: Any, log_size: Any, xp: Any) -> str | None:
    negative = signed < 0
    count = int(negative.sum())
    if not count:
        return None
    size = xp.exp(log_size - log_size.max())
    share = float(size[negative].sum() / size.sum())
    return (
        f"laplace_kde clipped {count} of {signed.size} densities to 0; "
        f"the clipped mass is {share:.3g} of the sum of absolute densities at the queries"
    )
