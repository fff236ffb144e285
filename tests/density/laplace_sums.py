"""How sums of outputs "laplace" and "laplace_moments" are compared with the oracles."""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.density.sums import PartialSums
from tests import reference, tolerances


def check(
    sums: PartialSums, X: Any, Y: Any, h: Any, w: Any, allowed: Any, left_out: float = 0.0, size: float = 1.0
) -> None:
    """Check the total T, the sum L with Laplace factors, and t = L / T - 1.

    ``allowed`` (m,) is the error by rounding of log T, and of L relative to its absolute terms; ``left_out`` what may
    be left out, by which t is off by no more times 1 + \\|t\\|. The oracle's sums are those of weights that sum to 1
    times ``size``.
    """
    scale, log_total = _shared(X, h, w, size), reference.log_kde(X, Y, h, w)
    log_scale, corrected, absolute = reference.scaled_laplace(X, Y, h, w)
    tolerances.check(np.abs(sums.reference + np.log(sums.total) - (log_total - scale)), allowed + left_out, "log total")
    allowed = np.broadcast_to(allowed, log_total.shape)
    some = allowed < 1  # of others only the ratio says anything
    factors = np.exp(np.where(some, sums.reference - (log_scale - scale), 0.0))
    error = np.abs(factors * sums.moments[:, 0] - corrected)
    tolerances.check(error[some], ((allowed + left_out) * absolute)[some], "corrected sum")
    total = np.exp(log_total - log_scale)
    ratio = corrected / total
    by_rounding = allowed * (absolute / total + np.abs(ratio))
    by_tolerance = left_out / (1 - left_out) * (1 + np.abs(ratio - 1))
    tolerances.check(np.abs(sums.moments[:, 0] / sums.total - ratio), by_rounding + by_tolerance, "their ratio")


def check_moments(sums: PartialSums, X: Any, Y: Any, h: float, w: Any, allowed: Any, size: float = 1.0) -> None:
    """Check the total, and the moments relative to the sum of their absolute terms and to h T."""
    scale, log_total = _shared(X, h, w, size), reference.log_kde(X, Y, h, w)
    log_scale, moments, absolute = reference.scaled_laplace_moments(X, Y, h, w)
    tolerances.check(np.abs(sums.reference + np.log(sums.total) - (log_total - scale)), allowed, "log total")
    error = np.exp(sums.reference - (log_scale - scale))[:, None] * sums.moments - moments
    of_width = (2 + 0.5 * moments.shape[1]) * h * np.exp(log_total - log_scale)
    tolerances.check(np.linalg.norm(error, axis=1), allowed * (absolute + of_width), "moments")


def _shared(X: Any, h: Any, w: Any, size: float) -> float:
    """What logarithms of the oracles have more than the sums."""
    n, d = reference.points(X).shape
    return reference.log_constant(h, d) - (np.log(n) if w is None else np.log(size))
