"""Sums of Gaussian kernels on the CPU without the pairs that cannot matter."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cukde.core.cpu import threads
from cukde.core.plan import note
from cukde.density.kept import kept
from cukde.density.options import Options
from cukde.density.pairs.cpu import pair_blocks
from cukde.density.pairs.cpu.skipping import (
    once,
    points as skipping_points,
    queries as skipping_queries,
    values as skipping_values,
)
from cukde.density.pairs.cpu.skipping.points import Data
from cukde.density.pairs.cpu.skipping.values import Values
from cukde.density.pairs.frame import Frame
from cukde.density.plan import cpu as plan_cpu
from cukde.density.sums import Output, PartialSums, moment_columns

_QUERIES_OF_TASK = 2 * skipping_queries.QUERIES

# Widths of a block, in bandwidths, up to which sums of products of coordinates lose too little to matter.
_NARROW = 64.0

# Parts of the data that stand opposite each other, and blocks of one: every pair of parts is a task of 15 us.
_FEW_PARTS, _MOST_PARTS, _LEAST_BLOCKS, _BLOCKS_OF_PART = 32, 128, 8, 128


class Prepared(NamedTuple):
    """A pass whose points are in order.

    Memory beside the result, in bytes a row: of data 8 d + 20, and where they are screened 4 d more; of queries 16 d,
    and where each pair is taken once 16 d + 16 more; k columns of values take 8 k of each. In single precision
    coordinates take half of that, but for the screen, and so do values of data.
    """

    data: Data
    values: Values | None  # of output "values"
    queries: np.ndarray  # (m, d), in order and in the unit of the data
    lost: np.ndarray  # the same of what rounding has taken from them; or empty: (0, d)
    order: np.ndarray  # (m,) int64: their rows
    own: np.ndarray  # (m,) int64: places of the data that they leave out, -1: none; or empty
    output: Output
    tolerance: float
    atol: float  # beside the largest weight
    double: bool
    once: bool  # each pair for the sums at both points
    of_gradient: bool  # of local factors, see :class:`cukde.density.sums.PartialSums`

    @property
    def columns(self) -> int:
        """Of moments, of sums with factors, or of sums of values."""
        if self.values is not None:
            return len(self.values.mass)
        return moment_columns(self.output, self.queries.shape[1])


class Taken(NamedTuple):
    """Numbers of pairs."""

    screened: int
    summed: int


def dtype(X: np.ndarray, Y: np.ndarray | None, options: Options) -> np.dtype:
    """Of the points in order."""
    return np.result_type(X, X if Y is None else Y, np.float64 if options.precision == "float64" else np.float32)


def prepare(
    X: np.ndarray,
    Y: np.ndarray | None,
    h: float,
    output: Output,
    options: Options,
    frame: Frame,
    tolerance: float,
    *,
    values: np.ndarray | None = None,
    once: bool = False,
) -> Prepared:
    """Put the points of a pass in order.

    Parameters
    ----------
    X, Y : array, shape (n, d) and (m, d)
        Float32 or float64; ``Y`` None are the data themselves. All data have weight.
    output : {"sum", "moments", "laplace", "values"}
        See :class:`cukde.density.sums.PartialSums`.
    frame : Frame
        Of the data.
    tolerance : float
        Above 0. What is left out of a query's sum is at most this times what is kept; of output "values", of the sum of
        absolute terms; of "laplace" the head of :mod:`cukde.density.pairs.cpu.skipping.queries` says more. With an
        absolute tolerance among the options that may be left out beside; not of values.
    values : array, shape (n, k), optional
        For output "values": such that :func:`cukde.density.pairs.cpu.skipping.values.served`.
    once : bool
        Whether each pair is taken once where it can be: for output "moments" of data at themselves, without weights.
    """
    real = dtype(X, Y, options)
    double = options.log_weights is not None or options.local_factors is not None
    lost, own = options.lost, options.own
    once = once and output == "moments" and Y is None and not double and lost is None and own is None
    given, X = X, X.astype(real, copy=False)

    def in_order() -> tuple[np.ndarray, Data]:
        order = skipping_points.ordered(X, frame)
        screened = X.shape[1] >= plan_cpu.SCREENED_FROM
        weights, factors = options.log_weights, options.local_factors
        data = skipping_points.data(
            X,
            order,
            h,
            frame,
            log_weights=weights,
            local_factors=factors,
            screened=screened,
            boxed=once,
            lost=lost and lost[0],
            own_out=own is not None,
        )
        return order, data

    order, data = kept(options.kept, "order", given, (h, real, once, own is not None), in_order)
    columns = None
    if values is not None:
        columns, data = skipping_values.ordered(values, data, order)
    places = np.empty(0, np.int64)
    if own is not None:
        places = np.full(len(X) + 1, -1)
        places[order] = np.arange(len(X))
        places = places[own]
    queries = X
    if Y is not None:
        queries, order = Y, skipping_points.ordered(Y, frame)
    queries = queries[order].astype(real, copy=False)
    queries *= queries.dtype.type(data.unit)
    of_queries = np.empty((0, X.shape[1]), queries.dtype)
    if lost is not None:
        of_queries = (lost[0] if lost[1] is None else lost[1])[order] * data.unit
    atol = data.beside_largest(options.atol) if values is None else 0.0
    of_gradient = options.of_gradient and options.local_factors is not None
    places = places if own is None else places[order]
    return Prepared(
        data, columns, queries, of_queries, order, places, output, tolerance, atol, double, once, of_gradient
    )


def run(prepared: Prepared) -> PartialSums:
    """Take the pass; every run gives the same bits."""
    if prepared.once:
        return _once(prepared)
    m, k = len(prepared.queries), prepared.columns
    sums = PartialSums(np.empty(m), np.empty(m), np.empty((m, k)))

    def task(first: int) -> np.ndarray:
        threads.checkpoint()
        return _add(prepared, first, min(first + _QUERIES_OF_TASK, m), sums)

    counts = threads.run(task, range(0, m, _QUERIES_OF_TASK))
    screened, summed = np.sum(counts, axis=0) / (m * prepared.data.n) if m else (0.0, 0.0)
    note("skipping", output=prepared.output, share=lambda: min(1.0, float(summed)), screened=min(1.0, float(screened)))
    out = PartialSums(np.empty(m), np.empty(m), np.empty((m, k)) if k else None)
    out.reference[prepared.order], out.total[prepared.order] = (
        sums.reference + prepared.data.largest_log_weight,
        sums.total,
    )
    if out.moments is not None:
        out.moments[prepared.order] = sums.moments
    if prepared.output == "moments":
        out.moments[:] /= prepared.data.unit
    return out


def _once(prepared: Prepared) -> PartialSums:
    """Output "moments" of the data at themselves, without weights; references are 0."""
    data, n, (blocks, d, _) = prepared.data, prepared.data.n, prepared.data.points.shape
    total, moments = np.empty((blocks, skipping_points.BLOCK)), np.empty((blocks, d, skipping_points.BLOCK))
    reach = np.empty_like(total)
    allowed = math.log2(prepared.tolerance / n)

    def own(first: int) -> None:
        threads.checkpoint()
        once.own_blocks(data, first, min(first + _LEAST_BLOCKS, blocks), allowed, total, moments, reach)

    threads.run(own, range(0, blocks, _LEAST_BLOCKS))
    furthest = reach.max(axis=1)
    narrow = (data.screen.high - data.screen.low).max(axis=0) < (_NARROW if data.points.itemsize == 8 else 0.0)

    def pair(rows: slice, columns: slice) -> tuple[int, int]:
        threads.checkpoint()
        return once.between(
            data, (rows.start, rows.stop), (columns.start, columns.stop), reach, furthest, total, moments, narrow
        )

    parts = min(_MOST_PARTS, max(_FEW_PARTS, blocks // _BLOCKS_OF_PART))
    counts = pair_blocks.run(pair, blocks, least=_LEAST_BLOCKS, most=parts)
    screened, summed = (2 * np.sum(counts, axis=0) + [0, n * skipping_points.BLOCK]) / n**2
    note("skipping", output=prepared.output, share=lambda: min(1.0, float(summed)), screened=min(1.0, float(screened)))
    out = PartialSums(np.zeros(n), np.empty(n), np.empty((n, d)))
    out.total[prepared.order] = total.ravel()[:n]
    out.moments[prepared.order] = moments.transpose(0, 2, 1).reshape(-1, d)[:n] / data.unit
    return out


def tried(prepared: Prepared, queries: np.ndarray) -> Taken:
    """Count the pairs that single queries take, (k,) of those in order."""
    m = len(prepared.queries)
    nothing = PartialSums(np.empty(m), np.empty(m), np.empty((m, prepared.columns)))
    counts = threads.run(lambda i: _add(prepared, i, i + 1, nothing), queries)
    return Taken(*map(int, np.sum(counts, axis=0)))


def _add(prepared: Prepared, first: int, last: int, sums: PartialSums) -> np.ndarray:
    """Write the sums of some queries; return the numbers of pairs screened and summed."""
    counts = np.zeros(2, np.int64)
    code = skipping_queries.GRADIENT if prepared.of_gradient else skipping_queries.CODES[prepared.output]
    of = prepared.queries, prepared.lost, prepared.own, first, last, prepared.data, prepared.values
    skipping_queries.sums(*of, prepared.tolerance, prepared.atol, code, prepared.double, *sums, counts)
    return counts
