"""Sums of values over the pairs that can matter, column by column.

Sizes of values are weights, and the sums over the positive and over the negative ones those of densities with weights:
every column has lower bounds, limits and references of its own, of the sum of its absolute terms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu.launch import DOUBLE
from cukde.core.plan import note
from cukde.density.options import Options
from cukde.density.pairs.gpu import difference
from cukde.density.pairs.gpu.skipping import passes, plan as skipping_plan, points as skipping_points
from cukde.density.pairs.gpu.skipping.bounds import bounds_of_parts
from cukde.density.pairs.gpu.skipping.frame import Frame
from cukde.density.pairs.gpu.skipping.points import BLOCK, Ordered, Rows
from cukde.density.sums import PartialSums


class Column(NamedTuple):
    """A column of values that are not all zero."""

    place: int
    positive: int  # number of values above zero
    negative: int  # and below
    largest: float  # absolute value

    @property
    def signs(self) -> int:
        """Number of the parts of the data that a pass takes one after the other."""
        return (self.positive > 0) + (self.negative > 0)


class Prepared(NamedTuple):
    """A pass whose data are in order."""

    X: Any
    Y: Any  # queries, of the dtype of the data
    V: Any
    h: float
    options: Options
    frame: Frame
    tolerance: float
    rows: Rows  # of the data
    columns: tuple[Column, ...]


def columns_of(V: Any) -> tuple[Column, ...]:
    """Those that are not all zero; none where values are not finite. Waits for the device."""
    positive, negative, largest = cp.asnumpy(
        cp.stack([a.astype(np.float64) for a in ((V > 0).sum(axis=0), (V < 0).sum(axis=0), abs(V).max(axis=0))])
    )
    if not np.isfinite(largest).all():
        return ()
    found = zip(positive, negative, largest, strict=True)
    return tuple(Column(i, int(more), int(less), float(size)) for i, (more, less, size) in enumerate(found) if size > 0)


def prepare(
    X: Any,
    Y: Any | None,
    V: Any,
    h: float,
    options: Options,
    frame: Frame,
    tolerance: float,
    columns: tuple[Column, ...],
) -> Prepared:
    """Put the data of a pass in order, on the current device and stream.

    Points have one dtype, values are finite, and at least one column is not all zero. What is left out of a column's
    sum at a query is at most ``tolerance`` times the sum of the absolute terms that are kept.
    """
    Y = X if Y is None else Y
    if options.precision == "float64":
        X, Y = (a.astype(np.float64, copy=False) for a in (X, Y))
    rows = skipping_points.in_order(X, h, frame)
    return Prepared(X, Y, V, h, options, frame, tolerance, rows, columns)


def run(prepared: Prepared) -> PartialSums:
    """Sum over the pairs that can matter; totals are not summed, and NaN.

    Queries of which a column leaves the range of float32 are summed again by differences, over all pairs; the device
    decides.
    """
    queries, sums = _summed(prepared)
    note("skipping", output="values", share=sums.taken.share)
    reference = sums.reference.max(axis=0)
    T = cp.zeros((prepared.V.shape[1], len(reference)))
    for column, own, of_column in zip(prepared.columns, sums.reference, sums.sums, strict=True):
        T[column.place] = column.largest * of_column * cp.exp2(own.astype(DOUBLE) - reference)
    complete = sums.complete.astype(DOUBLE)
    out, guard = passes.finished(queries.order, reference, complete, T.T, len(T), 1.0)
    out.total.fill(np.nan)
    options = prepared.options
    precision = "float64" if options.precision == "float64" else "float32"
    X, Y, h, V, log_weights = prepared.X, prepared.Y, prepared.h, prepared.V, options.log_weights
    difference.launch(precision, X, Y, h, "values", V, log_weights, out=out, guard=guard, one_split=True)
    return out


def share(prepared: Prepared) -> tuple[float, float]:
    """Share of the units of all columns that a pass takes, and of blocks that products are good for; waits for it."""
    _, sums = _summed(prepared)
    return sums.taken.share(), float((cp.concatenate(sums.kinds) > 0).mean())


class _Sums(NamedTuple):
    """Sums of columns, of the queries in their order; values are relative to the largest of the column."""

    reference: Any  # (columns, rows) float32, in bits
    sums: Any  # (columns, rows) float64
    complete: Any  # (rows,) bool: absolute terms add up to a finite number that is not zero
    kinds: list[Any]  # of blocks of the data
    taken: passes.Taken


def _summed(prepared: Prepared) -> tuple[Ordered, _Sums]:
    """The queries in their order, and their sums."""
    columns, blocks = len(prepared.columns), -(-len(prepared.Y) // BLOCK)
    rows, units = blocks * BLOCK, columns * passes.units(blocks, -(-len(prepared.X) // BLOCK))
    out = _Sums(
        cp.empty((columns, rows), np.float32),
        cp.zeros((columns, rows)),
        cp.ones(rows, bool),
        [],
        passes.Taken(cp.zeros(1, np.uint64), units),
    )
    queries: Ordered | None = None
    for i in range(columns):
        queries = _sum_column(prepared, i, queries, out)
    assert queries is not None
    return queries, out


def _sum_column(prepared: Prepared, i: int, queries: Ordered | None, out: _Sums) -> Ordered:
    """Sum a column, and return the queries, which its passes may have put in order."""
    signs, parts = zip(*_parts(prepared, prepared.columns[i], queries), strict=True)
    size = cp.zeros(len(out.complete))
    for sign, part, bounds in zip(signs, parts, bounds_of_parts(parts), strict=True):
        out.reference[i], S, _, taken = passes.summed(part, bounds)
        size += S
        out.sums[i] += sign * cp.where(cp.isfinite(S), S, 0).astype(DOUBLE)  # else the query is summed again
        out.kinds.append(part.data.kinds)
        out.taken.counts[:] += taken.counts
    out.complete[:] &= (size > 0) & (size < np.inf)
    return parts[-1].queries


def _parts(prepared: Prepared, column: Column, queries: Ordered | None) -> Iterator[tuple[int, skipping_plan.Prepared]]:
    """Passes over the values of either sign of a column, each with its sign and its share of the tolerance."""
    values = prepared.V[:, column.place].astype(np.float64)
    log_weights = cp.log(cp.where(values == 0, column.largest, abs(values))) - math.log(column.largest)
    if prepared.options.log_weights is not None:
        log_weights += prepared.options.log_weights
    options = prepared.options._replace(log_weights=log_weights)
    order, codes = prepared.rows
    signed, total = values[order], column.positive + column.negative
    for sign, count in ((1, column.positive), (-1, column.negative)):
        if not count:
            continue
        rows = prepared.rows
        if count < len(order):
            places = cp.flatnonzero(sign * signed > 0)
            rows = Rows(order[places], codes[places])
        part = skipping_plan.prepare(
            prepared.X,
            prepared.Y,
            prepared.h,
            "sum",
            options,
            prepared.frame,
            prepared.tolerance * count / total,
            rows=rows,
            queries=queries,
        )
        queries = part.queries
        yield sign, part
