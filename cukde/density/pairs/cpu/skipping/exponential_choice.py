"""Whether sums of the exponential kernel on the CPU leave out pairs: by samples, then by what a few queries take."""

from __future__ import annotations

import numpy as np

from cukde.density.pairs import counting
from cukde.density.pairs.cpu.skipping import exponential
from cukde.density.plan import cpu as plan_cpu

_TRIED = 32  # queries

# Far below what a square of single or double precision reaches: coordinates in bandwidths, and bandwidths.
_FURTHEST = {4: 1e15, 8: 1e60}
_BANDWIDTHS = {4: (1e-30, 1e30), 8: (1e-290, 1e290)}


def prepared(
    X: np.ndarray, Y: np.ndarray, h: float, log_weights: np.ndarray | None, *, rtol: float, atol: float
) -> exponential.Prepared | None:
    """Prepare the pass that leaves out pairs, or return None where all pairs are faster, or points are not numbers.

    Arguments are those of :func:`cukde.density.pairs.cpu.skipping.exponential.prepare`, where tolerances may be 0.
    """
    (n, d), m, size = X.shape, len(Y), X.dtype.itemsize
    if not plan_cpu.radial_may_skip(n, m) or max(rtol, atol) <= 0:
        return None
    low, high = _BANDWIDTHS[size]
    # Not a number in the data makes the largest one that, too.
    if not (low < h < high and all(np.abs(a).max() < _FURTHEST[size] * h for a in (X, Y))):
        return None
    of_mean = atol / (n if log_weights is None or atol == 0 else float(np.exp(log_weights).sum()))
    share = counting.exponential_share(X, Y, h, rtol, of_mean)
    times = plan_cpu.Exponential(n, m, d, size)
    if not times.may_pay(share):
        return None
    whole = exponential.prepare(X, Y, h, log_weights, rtol=rtol, atol=atol)
    if d <= plan_cpu.FEW_COLUMNS:
        return whole
    tried = np.linspace(0, m - 1, _TRIED).astype(np.intp)
    taken = exponential.tried(whole, tried)
    summed, screened = (count / (n * len(tried)) for count in (taken.summed, taken.screened))
    return whole if times.pays(screened, summed) else None
