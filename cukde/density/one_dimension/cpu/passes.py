"""The density family in one dimension on the CPU: a fast Gauss transform, O(n + m), where that pays.

See :mod:`cukde.density.one_dimension.plan` for the method and its bound. Sums run in double precision for every dtype.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cukde.core.cpu import arrays, meanwhile, threads
from cukde.core.cpu.jit import njit
from cukde.core.plan import note
from cukde.density.kept import kept
from cukde.density.one_dimension import cdf_pairs, plan as one_dimension_plan
from cukde.density.one_dimension.cpu import boxes as one_dimension_boxes, cdf, expansions, few, outward
from cukde.density.one_dimension.plan import Plan
from cukde.density.options import LOG_ZERO, Options
from cukde.density.pairs.cpu import passes as pairs_passes
from cukde.density.pairs.cpu.ends import ended
from cukde.density.plan import cpu as plan_cpu
from cukde.density.sums import Epilogue, Output, PartialSums, moment_columns, put

_OUTPUT = {"sum": outward.SUM, "moments": outward.MOMENTS, "laplace": outward.LAPLACE, "values": outward.VALUES}

# A pair summed on its own costs as much as so many multiply-adds of a translation (CPU with AVX2: 1.3 and 0.25 ns).
_PAIR_COST = 5

_QUERIES = 8192  # that a thread takes at a time


@meanwhile.answered_by(few.many)
def partial_sums(
    X: np.ndarray,
    Y: np.ndarray | None,
    h: float,
    output: Output,
    options: Options,
    *,
    values: np.ndarray | None = None,
    ratio: bool = False,
) -> PartialSums:
    """Sum kernels of the data ``X`` (n, 1) at the queries ``Y`` (m, 1), or at the data where it is None.

    Arguments, results and determinism are those of :func:`cukde.density.pairs.cpu.passes.partial_sums`.
    """
    sums = _transformed(X, Y, h, output, values, options)
    if sums is not None:
        return sums
    if output == "cdf":
        return cdf_pairs.sums(X, Y, h, options.log_weights, arrays)
    return pairs_passes.partial_sums(X, Y, h, output, options, values=values)


@meanwhile.answered_by(few.density_of_many)
def density(
    X: np.ndarray, Y: np.ndarray | None, h: float, options: Options, epilogue: Epilogue, *, points: None = None
) -> np.ndarray:
    """See :func:`cukde.density.pairs.cpu.passes.density`."""
    sums = _transformed(X, Y, h, "sum", None, options)
    if sums is None:
        return pairs_passes.density(X, Y, h, options, epilogue)
    out = np.empty(len(sums.total), epilogue.dtype)

    def finish(rows: slice) -> None:
        out[rows] = _finish(sums.reference[rows], sums.total[rows], epilogue.log_constant, epilogue.log)

    threads.run(finish, one_dimension_boxes.chunks(len(out)))
    return out


_, debias = ended(partial_sums)


def _transformed(
    X: np.ndarray, Y: np.ndarray | None, h: float, output: Output, values: np.ndarray | None, options: Options
) -> PartialSums | None:
    """Sum the transform; None where all pairs are summed: the only place that decides."""
    precision, log_weights = options.precision, options.log_weights
    x, y = X.reshape(-1), (X if Y is None else Y).reshape(-1)
    if output == "laplace_moments":
        return None
    takes_pairs = plan_cpu.line_takes_pairs(len(x), len(y), cdf=output == "cdf")
    if takes_pairs or not one_dimension_plan.serves(precision, options.rtol):
        return None
    smallest, largest = one_dimension_plan.BANDWIDTHS
    if not smallest < h < largest:
        return None
    plan = one_dimension_plan.plan(h, output, one_dimension_plan.TOLERANCE[precision])
    store = options.kept if values is None else None
    data = kept(store, "masses", X, (h, output, precision), lambda: _masses(x, values, log_weights, plan))
    return None if data is None else _sums(plan, output, data, y)


def _sums(plan: Plan, output: Output, data: _Masses, queries: np.ndarray) -> PartialSums:
    """Sums at all queries (m,), of boxes that are summed."""
    boxes, log_weights, values, M, mass = data
    places = one_dimension_boxes.place(queries, plan, boxes)
    whole = mass.sum(axis=0)
    before, after = np.zeros(0), np.zeros(0)
    cost = _PAIR_COST
    if output == "cdf":
        before, after = np.empty(len(boxes.ids) + 1), np.empty(len(boxes.ids) + 1)
        cdf.accumulate(mass[:, 0], before, after)
        cost *= plan_cpu.CDF_PAIRS
    tables = [np.ascontiguousarray(table.transpose(0, 2, 1)) for table in plan.translations(output)]
    of_tables = np.zeros((len(tables), len(places.ids), M.shape[1], plan.order))
    accepted = np.zeros(len(places.ids), np.bool_)
    occupied = np.flatnonzero(places.counts)
    note("line", output=output, boxes=len(occupied))

    m, k = len(queries), len(values) if output == "values" else moment_columns(output, 1)
    out = PartialSums(np.zeros(m), np.empty(m), np.empty((m, k)))

    source, bounds = (boxes.ids, boxes.starts), (plan.error, plan.least, plan.beyond, plan.tolerance)

    def translate(rows: slice) -> None:
        targets = occupied[rows], places.ids, places.counts
        moments = M, mass, whole, before
        for table, of_table in zip(tables, of_tables, strict=True):
            expansions.translate(*targets, *source, *moments, table, *bounds, cost, of_table, accepted)

    def sums(rows: slice) -> np.ndarray:
        """Write what expansions give; return the other queries."""
        y, box, slope = queries[rows], places.box[rows], plan.slope if output == "moments" else 0.0
        of_rows = out.total[rows], out.moments[rows]
        if not expansions.evaluate(y, box, places.ids, accepted, B, plan.width, slope, *of_rows):
            return np.empty(0, np.int64)
        is_left = box < 0
        is_left[~is_left] = ~accepted[box[~is_left]]  # there may be no box at all
        return rows.start + np.flatnonzero(is_left)

    def rest(rows: np.ndarray) -> None:
        of_rows = PartialSums(np.empty(len(rows)), np.empty(len(rows)), np.empty((len(rows), k)))
        y, data = queries[rows], (*source, boxes.x, log_weights)
        if output == "cdf":
            scales = plan.width, plan.bandwidth, plan.reach, plan.tolerance
            cdf.outward(y, *data, M[:, 0], before, after, *scales, *of_rows[:2])
        else:
            masses, what = (values, mass, whole), (plan.tolerance, plan.order, _OUTPUT[output])
            outward.outward(y, *data, *masses, plan.width, plan.bandwidth, *what, *of_rows)
        put(out, rows, of_rows)

    threads.run(translate, one_dimension_boxes.chunks(len(occupied), 64))
    B = np.concatenate(of_tables, axis=1) if len(tables) > 1 else of_tables[0]
    left = np.concatenate(threads.run(sums, [slice(i, min(i + _QUERIES, m)) for i in range(0, m, _QUERIES)]))
    left = left[np.argsort(queries[left], kind="stable")]
    threads.run(rest, [left[rows] for rows in one_dimension_boxes.chunks(len(left), 64)])
    return out if k else out._replace(moments=None)


class _Masses(NamedTuple):
    """Boxes of data and their sums."""

    boxes: one_dimension_boxes.Boxes
    log_weights: np.ndarray  # in the order of the boxes, as the values are; empty where there are none
    values: np.ndarray  # (k, n)
    M: np.ndarray
    mass: np.ndarray


def _masses(x: np.ndarray, values: np.ndarray | None, log_weights: np.ndarray | None, plan: Plan) -> _Masses | None:
    """Sum the boxes of the data; None where there are none."""
    V = np.empty((0, len(x))) if values is None else values.T.astype(np.float64, copy=False)
    if log_weights is not None:
        counted = np.flatnonzero(log_weights > LOG_ZERO)
        x, V, log_weights = x[counted], V[:, counted], log_weights[counted]
        if len(x) == 0:
            return None
    edges = one_dimension_boxes.edges(x, plan)
    if edges is None:
        return None
    boxes = one_dimension_boxes.bucket(x, plan, *edges, ordered=log_weights is not None or len(V) > 0)
    log_w = np.empty(0)
    if boxes.order is not None:
        V = np.ascontiguousarray(V[:, boxes.order])
        log_w = log_w if log_weights is None else log_weights[boxes.order]
    M = np.zeros((len(boxes.ids), 1 + len(V), plan.order))
    mass = np.zeros(M.shape[:2])
    weights = np.exp(log_w)

    def moments(rows: slice) -> None:
        expansions.moments(rows.start, rows.stop, boxes.ids, boxes.starts, boxes.x, weights, V, plan.width, M, mass)

    threads.run(moments, one_dimension_boxes.shares(np.diff(boxes.starts), 4 * threads.count()))
    return _Masses(boxes, log_w, V, M, mass)


@njit(nogil=True, error_model="numpy", cache=True)
def _finish(reference: Any, total: Any, log_constant: Any, log: bool) -> Any:
    """Densities exp(log_constant + reference) total, or their logarithms."""
    out = np.empty(total.size)
    direct = abs(log_constant) < 600
    constant = math.exp(log_constant) if direct else 0.0
    for i in range(out.size):
        if direct and reference[i] == 0.0 and not log:
            out[i] = total[i] * constant
        else:
            value = reference[i] + math.log(total[i]) + log_constant
            out[i] = value if log else math.exp(value)
    return out
