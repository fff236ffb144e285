"""The data that have weight."""

from __future__ import annotations

import math

import numpy as np

from cukde.density.kept import kept
from cukde.density.options import LOG_ZERO, Options
from cukde.density.sums import Output, PartialSums, moment_columns, nothing


def weighted(
    X: np.ndarray, values: np.ndarray | None, options: Options
) -> tuple[np.ndarray, np.ndarray | None, Options]:
    """Return data, values and options without the rows that have no weight.

    No exponent is low enough for such rows beside a query far from the rest.
    """
    log_weights = options.log_weights
    if log_weights is None or np.minimum.reduce(log_weights, initial=0.0) > LOG_ZERO:
        return X, values, options
    counted = np.flatnonzero(some := log_weights > LOG_ZERO)
    rows = kept(options.kept, "weighted", X, None, lambda: (X[counted], log_weights[counted]))
    options = options._replace(log_weights=rows[1])
    if options.own is not None:
        options = options._replace(own=np.where(some, np.cumsum(some) - 1, -1)[options.own])
    if options.local_factors is not None:
        options = options._replace(local_factors=options.local_factors[counted])
    if options.lost is not None:  # the caller has told queries from data by now
        of_data, of_queries = options.lost
        options = options._replace(lost=(of_data[counted], of_data if of_queries is None else of_queries))
    return rows[0], None if values is None else values[counted], options


def log2_weights(options: Options) -> np.ndarray:
    """Logarithms of weights, less the largest, as those of the others then add no rounding; no rows without weights."""
    w = options.log_weights
    return np.empty(0) if w is None else (w - w.max()) * math.log2(math.e)


def leave_out(pairs: np.ndarray, own: np.ndarray | None, nothing: float) -> None:
    """Write ``nothing`` to the pairs (queries, data) of each query and its own row, if it has one."""
    if own is not None:
        some = np.flatnonzero(own >= 0)
        pairs[some, own[some]] = nothing


def nothing_of(output: Output, m: int, d: int, values: np.ndarray | None) -> PartialSums:
    """Sums of ``m`` queries over data of which none has weight."""
    return nothing(m, moment_columns(output, d, values) or None, np)
