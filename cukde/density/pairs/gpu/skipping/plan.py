"""A pass that leaves out pairs: which kernels take its pairs, and its points in order."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu.launch import DOUBLE, FLOAT
from cukde.density.kept import kept
from cukde.density.options import Options
from cukde.density.pairs.gpu.skipping import points as skipping_points
from cukde.density.pairs.gpu.skipping.frame import Frame
from cukde.density.pairs.gpu.skipping.points import FEW_DIMENSIONS, Ordered
from cukde.density.sums import Output

_LEAST_OWN = 1 / 64  # of blocks: then products for those with a centre of their own are worth their operands


class Prepared(NamedTuple):
    """A pass whose points are in order.

    Memory beside the result, in bytes a row of float32 with d' for d rounded up to a power of two: of data whose pairs
    are taken once 14 d' + 40; of other data and of queries 10 d' + 60, of both at once 18 d' + 60. Where many blocks
    have a centre of their own, data take up to 26 d' + 60.
    """

    data: Ordered
    queries: Ordered
    h: float
    output: Output
    options: Options
    tolerance: float
    shrink: float  # of the operands in float16
    frame: Frame
    plan: Plan
    left: tuple[Left, ...]  # of the kernels of chunks; without such, everything

    @property
    def itself(self) -> bool:
        """Whether the queries are the data."""
        return self.queries is self.data

    @property
    def d(self) -> int:
        """Number of dimensions."""
        return int(self.data.given.shape[1])

    @property
    def below(self) -> float:
        """Bits below a query's bound from which on pairs may be left out (``skipping_limits.cu``)."""
        return math.log2(self.tolerance / len(self.data.order))


class Left(NamedTuple):
    """Pairs that other kernels than those of chunks take, by lists of int32; None: all."""

    rows: Any | None = None  # items of two blocks of queries
    columns: Any | None = None  # blocks of data, for queries that other kernels serve but for these

    @classmethod
    def of(cls, data: Ordered, queries: Ordered) -> tuple[tuple[Left, ...], bool]:
        """Find them; and whether enough are of blocks with a centre of their own. Waits for the device."""
        itself = queries is data
        both = np.concatenate([cp.asnumpy(points.kinds) for points in ((data,) if itself else (data, queries))])
        of_data, of_queries = both[: data.blocks], both if itself else both[data.blocks :]
        least = skipping_points.COMMON
        rows, columns = np.unique(np.flatnonzero(of_queries < least) // 2), np.flatnonzero(of_data < least)
        left = []
        if len(rows):
            left.append(cls(rows=cp.asarray(rows.astype(np.int32))))
        if len(columns):
            left.append(cls(columns=cp.asarray(columns.astype(np.int32))))
        return tuple(left), bool((both == skipping_points.OWN).mean() > _LEAST_OWN)


class Plan(NamedTuple):
    """How a pass takes the pairs that can matter."""

    real: np.dtype  # of sums
    chunks: bool  # pairs of common blocks, or of a few dimensions of those that are not wide, by a kernel of their own
    products: bool  # other pairs by products of matrices, where blocks are not wide
    once: bool = False  # the kernel of chunks takes each pair once

    @classmethod
    def of(cls, d: int, output: Output, options: Options, *, itself: bool, ratio: bool) -> Plan:
        """Plan a pass; for ``ratio`` see :func:`prepare`."""
        if options.precision == "float64":
            return cls(DOUBLE, False, False)
        unweighted = options.log_weights is None
        shift = output == "moments" and ratio and itself and unweighted
        once = shift and not options.deterministic
        products = output == "sum" or (output == "laplace" and unweighted) or shift
        if d <= FEW_DIMENSIONS:
            return cls(FLOAT, products and not options.deterministic, False, once)
        narrow = skipping_points.pitch(d) <= skipping_points.CHUNKS_WIDTH
        return cls(FLOAT, narrow and products and (once or output != "moments"), products, narrow and once)


def in_order(
    X: Any, h: float, output: Output, options: Options, frame: Frame, *, itself: bool, ratio: bool
) -> skipping_points.Rows:
    """Rows of all data in the order of a pass; see :func:`prepare`."""
    plan = Plan.of(X.shape[1], output, options, itself=itself, ratio=ratio)
    if plan.real == DOUBLE:
        X = X.astype(np.float64, copy=False)
    return skipping_points.in_order(X, h, frame, skipping_points.Needed(rounded=plan.once))


def prepare(
    X: Any,
    Y: Any | None,
    h: float,
    output: Output,
    options: Options,
    frame: Frame,
    tolerance: float,
    data: Ordered | None = None,
    *,
    rows: skipping_points.Rows | None = None,
    queries: Ordered | None = None,
    ratio: bool = False,
) -> Prepared:
    """Put the points of a pass in order, on the current device and stream; waits for it where pairs are taken once.

    Parameters
    ----------
    tolerance : float
        What is left out of a query's sum is at most this times what is kept. Of output "laplace" both sums are off by
        at most this times the total, and the ratio r of them by this times 1 + abs(r - 1) (``skipping_blocks.cuh``).
    data : Ordered, optional
        The data, where they are in order already.
    rows : Rows, optional
        Those of the data that count, in the order of :func:`cukde.density.pairs.gpu.skipping.points.in_order`; default
        all.
    queries : Ordered, optional
        ``Y``, where a pass over other rows of the data has put them in order.
    ratio : bool
        Only moments / total is wanted: 2^e then is one float16 number, in moments and total alike, where the queries
        are the data without weights.
    """
    plan = Plan.of(X.shape[1], output, options, itself=Y is None, ratio=ratio)
    given = X
    if plan.real == DOUBLE:
        X, Y = (None if a is None else a.astype(np.float64, copy=False) for a in (X, Y))
    points = functools.partial(skipping_points.ordered, h=h, frame=frame)
    weights, needed = options.log_weights, skipping_points.Needed
    posed_before = data is not None
    few = X.shape[1] <= FEW_DIMENSIONS
    if data is not None and not few:  # operands are those that they have
        right = data.right.first is not None
        plan = plan._replace(chunks=plan.chunks and data.chunks is not None, products=plan.products and right)
    if plan.chunks:
        of_data = needed(chunks=True, rounded=plan.once)
        of_queries = needed(left=posed_before and plan.products, chunks=True)
    else:
        of_queries = needed(left=plan.products)
        of_data = needed(left=plan.products and Y is None, right=plan.products, across=output == "moments")
    if data is None:
        make = functools.partial(points, X, log_weights=weights, needed=of_data, rows=rows)
        store = options.kept if rows is None else None
        data = kept(store, "order", (given, weights, frame), (h, of_data), make)
    if queries is None:
        queries = data if Y is None else points(Y, log_weights=None, needed=of_queries)
    left: tuple[Left, ...] = (Left(),)
    if plan.chunks and not few:
        left, own = Left.of(data, queries)
        if plan.products and not posed_before:
            plan = plan._replace(products=own)
            if own:
                everything = needed(True, True, output == "moments", True, plan.once)
                data = skipping_points.again(data, h, weights, frame, everything)
                if Y is None:
                    queries = data
                elif queries.left.first is None:
                    queries = skipping_points.again(queries, h, None, frame, everything)
    shrink = skipping_points.shrink(frame, h)
    return Prepared(data, queries, h, output, options, tolerance, shrink, frame, plan, left)
