"""Whether a pass on the CPU leaves out pairs: by what a few queries take, beside what all pairs take."""

from __future__ import annotations

import functools
import math

import numpy as np

from cukde.density.kept import kept
from cukde.density.options import Options
from cukde.density.pairs import counting, frame as pairs_frame, tolerance as pairs_tolerance
from cukde.density.pairs.cost import skipping_cpu as skipping_cost
from cukde.density.pairs.cpu.skipping import passes, values as skipping_values
from cukde.density.sums import Output

_FEW_PAIRS = 2**22  # up to so many, all are taken before points could be brought in order
_GAIN = 0.95  # of the time of all pairs, at most
_HOPE, _HOPE_OF_MANY = 1.05, 1.2  # the same of an estimate from samples; of many dimensions it knows no boxes
_TRIAL = 0.16  # of it, that an order may take where the estimate is worse, but blocks may be tighter than it expects
_QUERIES = 32  # that are tried, at most, and of so many one
_ONE_IN = 64

# Ranges in which squares of coordinates in bandwidths stay numbers, and far below what stands for no point.
_LARGEST_RADIUS = 1e30
_BANDWIDTHS = {4: (1e-30, 1e30), 8: (1e-290, 1e290)}
_LARGEST_OFFSET = {4: 1e15, 8: 1e60}  # of the data from zero, in bandwidths


def posed(
    X: np.ndarray,
    Y: np.ndarray | None,
    h: float,
    output: Output,
    options: Options,
    *,
    single: bool,
    values: np.ndarray | None = None,
) -> passes.Posed | None:
    """Pose the pass that leaves out pairs, or return None where all pairs are faster.

    ``single``: all pairs would be taken in single precision. Centre and squared radius of the options are known; all
    data have weight.
    """
    n, d = X.shape
    m = n if Y is None else len(Y)
    if n * m <= _FEW_PAIRS or output not in ("sum", "moments", "laplace", "values"):
        return None
    options = options._replace(precision="float32") if options.precision == "tf32" else options
    tolerance = pairs_tolerance.tolerance_of(options)
    if tolerance <= 0 or not _representable(X, Y, h, options):
        return None
    if options.of_gradient:  # whose terms are larger than those of the sum by one over the factor
        tolerance *= _narrowest(options)
    if values is not None and not skipping_values.served(
        values, options.log_weights, passes.dtype(X, Y, options).itemsize
    ):
        return None
    k = 0 if values is None else values.shape[1]
    once = output == "moments" and Y is None and options.log_weights is None and options.lost is None
    once &= not options.own_out
    dense = n * m * skipping_cost.dense(output, d, k, single=single, once=once)
    plain = options.log_weights is None and options.local_factors is None
    alike = plain and passes.dtype(X, Y, options) == np.float32
    time = functools.partial(skipping_cost.skipping, output, d, n, m, k, single=alike, once=once)
    rows = pairs_frame.rows(d)
    data = X[:: max(1, n // rows)][:rows]
    queries = data if Y is None else Y[:: max(1, m // counting.QUERIES)][: counting.QUERIES]
    if options.local_factors is None:
        share = counting.share(data, queries, h, tolerance / n, itself=Y is None)
        hope = _HOPE if d < skipping_cost.SCREENED_FROM else _HOPE_OF_MANY
        hopeful = time(*_expected(share, d), ordered=False) < hope * dense
        # Clusters, curves and duplicates have blocks so tight that few pairs more than those that count are taken.
        at_best = time(0.0, share, ordered=True) < _GAIN * dense and skipping_cost.order(d, n, m) < _TRIAL * dense
        if not (hopeful or at_best):
            return None
    frame = kept(options.kept, "frame", X, None, lambda: pairs_frame.frame(data))
    whole = passes.pose(X, Y, h, output, options, frame, tolerance, values=values)
    tried = np.linspace(0, m - 1, max(4, min(_QUERIES, m // _ONE_IN))).astype(np.intp)
    taken = passes.tried(whole, tried)
    pairs = n * len(tried)
    return whole if time(taken.screened / pairs, taken.summed / pairs, ordered=True) < _GAIN * dense else None


def _representable(X: np.ndarray, Y: np.ndarray | None, h: float, options: Options) -> bool:
    """Whether numbers stay within the ranges of the pass; not where they are not numbers."""
    size = passes.dtype(X, Y, options).itemsize
    low, high = _BANDWIDTHS[size]
    narrowest = _narrowest(options)
    radius = float(options.squared_radius) / narrowest**2 if narrowest > 0 else math.inf
    offset = float(np.abs(options.centre).max()) / h
    return low < h < high and radius < _LARGEST_RADIUS and offset < _LARGEST_OFFSET[size]


def _narrowest(options: Options) -> float:
    """The least local factor and 1."""
    return 1.0 if options.local_factors is None else min(1.0, float(options.local_factors.min()))


def _expected(share: float, d: int) -> tuple[float, float]:
    """About the shares of pairs that are screened and summed, if such a share of single pairs counts."""
    if d < skipping_cost.SCREENED_FROM:
        return 0.0, min(1.0, 0.01 + (1.2 if d <= 3 else 2.5) * share)
    return 1.0, min(1.0, 0.01 + 3 * share)
