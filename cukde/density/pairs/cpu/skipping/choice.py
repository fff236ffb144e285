"""Whether a pass on the CPU leaves out pairs: by what a few queries take, beside what all pairs take."""

from __future__ import annotations

import math

import numpy as np

from cukde.core.cpu import threads
from cukde.core.plan import note
from cukde.density.kept import kept
from cukde.density.options import Options
from cukde.density.pairs import counting, frame as pairs_frame
from cukde.density.pairs.cpu.skipping import passes, values as skipping_values
from cukde.density.plan import cpu as plan_cpu
from cukde.density.sums import Output

# Ranges in which squares of coordinates in bandwidths stay numbers, and far below what stands for no point.
_LARGEST_RADIUS = 1e30
_BANDWIDTHS = {4: (1e-30, 1e30), 8: (1e-290, 1e290)}
_LARGEST_OFFSET = {4: 1e15, 8: 1e60}  # of the data from zero, in bandwidths


def prepared(
    X: np.ndarray,
    Y: np.ndarray | None,
    h: float,
    output: Output,
    options: Options,
    *,
    single: bool,
    product: bool = False,
    values: np.ndarray | None = None,
) -> passes.Prepared | None:
    """Prepare the pass that leaves out pairs, or return None where all pairs are faster.

    All pairs would be taken in ``single`` precision, or in double by differences or by a ``product``. Centre and
    squared radius of the options are known; all data have weight.
    """
    n, d = X.shape
    m, k = n if Y is None else len(Y), 0 if values is None else values.shape[1]
    plain = options.log_weights is None and options.local_factors is None
    in_single = plain and passes.dtype(X, Y, options) == np.float32
    alike = Y is None and options.log_weights is None and options.lost is None and not options.own_out
    once = alike and plan_cpu.once_pays(output, n, threads.count())
    of_all = "product" if product else "each pair once" if once else "difference"
    of_all += " float32" if single else " float64"
    both = alike and options.local_factors is None and plan_cpu.skips_once(output, n, threads.count())
    times = plan_cpu.Skipping(output, n, m, d, k, of_all, in_single, both)
    if not times.serves:
        return None
    options = options._replace(precision="float32") if options.precision == "tf32" else options
    tolerance = options.tolerance
    if tolerance <= 0 or not _representable(X, Y, h, options):
        return None
    if options.of_gradient:  # whose terms are larger than those of the sum by one over the factor
        tolerance *= _narrowest(options)
    if values is not None and not skipping_values.served(
        values, options.log_weights, passes.dtype(X, Y, options).itemsize
    ):
        return None
    rows = pairs_frame.rows(d)
    data = X[:: max(1, n // rows)][:rows]
    queries = data if Y is None else Y[:: max(1, m // counting.QUERIES)][: counting.QUERIES]
    if options.local_factors is None:
        least, itself = tolerance / n, Y is None
        if single and not itself:
            spread = 0.0 if plain else float(np.ptp(options.log_weights))
            far = [plan_cpu.single_is_far(e, spread) for e in counting.exponents(data, queries, h).tolist()]
            times = times._replace(again=sum(far) / max(1, len(far)))
        share = counting.share(data, queries, h, least, itself=itself)
        if not times.may_pay(share, lambda: counting.reached(data, queries, h, least, itself=itself)):
            return None
    frame = kept(options.kept, "frame", X, None, lambda: pairs_frame.frame(data))
    whole = passes.prepare(X, Y, h, output, options, frame, tolerance, values=values, once=both)
    tried = np.linspace(0, m - 1, plan_cpu.queries_tried(m)).astype(np.intp)
    taken = passes.tried(whole, tried)
    pairs = n * len(tried)
    if times.pays(taken.screened / pairs, taken.summed / pairs):
        return whole
    note("in vain", output=output, in_vain=True)
    return None


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
