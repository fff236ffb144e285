"""Sums of the exponential kernel on the GPU without the blocks of data that cannot matter, by a bound for each query.

The launchers of ``radial_limits.cu`` and ``radial_exponential.cu``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile
from cukde.core.gpu.launch import C_TYPE, FLOAT, Specialisation
from cukde.density.options import Options
from cukde.density.pairs import counting
from cukde.density.pairs.gpu import finish
from cukde.density.pairs.gpu.skipping import blocks as skipping_blocks, frame as skipping_frame
from cukde.density.pairs.gpu.skipping.blocks import THREADS, Blocks, kernel_of
from cukde.density.pairs.gpu.skipping.frame import Frame
from cukde.density.pairs.gpu.skipping.points import BLOCK
from cukde.density.plan import gpu as plan_gpu
from cukde.density.plan.shape import Shape
from cukde.density.sums import PartialSums

_QUERIES = 8  # that have a limit together

_PROBES, _OF_BLOCKS = 8, 16  # blocks of queries that are tried: at most so many, and one in so many

_NOTHING = -1e300  # as a logarithm


class Prepared(NamedTuple):
    """A pass whose points are in order.

    Memory beside the result, in bytes a row of float32, of data and of queries: about 5 d + 24, of data with weights 8
    more; and 9 MB at most.
    """

    data: Blocks
    queries: Blocks
    unit: float
    scale: float  # bits of an exponent for a distance of points in that unit
    options: Options  # of which tolerances count


def sums(
    X: Any, Y: Any | None, h: float, unit: float, scale: float, options: Options, shape: Shape
) -> PartialSums | None:
    """Sum the exponential kernel at each query without the pairs that cannot matter; None where all are faster.

    On the current device and stream. Waits for the device where all pairs take milliseconds. ``unit`` and ``scale`` are
    as ``radial.cu`` has them.
    """
    data = _sample(X, X if Y is None else Y, h, options, shape)
    if data is None:
        return None
    frame = None if X.shape[1] == 1 else skipping_frame.frame(data.astype(np.float64))
    prepared = prepare(X, Y, unit, scale, options, frame)
    return run(prepared) if plan_gpu.exponential_pays(_share_of_few(prepared)) else None


def _sample(X: Any, Y: Any, h: float, options: Options, shape: Shape) -> np.ndarray | None:
    """A sample of the data, on the host; None where all pairs are faster by what it says, or take little time."""
    if not plan_gpu.exponential_may_skip(shape, options.squared_radius):
        return None
    n, m, d = shape.n, shape.m, shape.d
    data, queries = skipping_frame.samples(X, Y)
    of_mean = options.atol / (n if options.log_weights is None else 1)
    with np.errstate(all="ignore"):  # of points many bandwidths away
        share = counting.exponential_share(data, queries, h, options.tolerance, of_mean)
    return None if plan_gpu.exponential_is_hopeless(shape, share, _with_boxes(share, n, m, d)) else data


def _with_boxes(share: float, n: int, m: int, d: int) -> float:
    """Share of pairs of near boxes, where of single pairs it is ``share``: as if all of these lay side by side."""
    widths = (BLOCK / n) ** (1 / d) + (_QUERIES / m) ** (1 / d)
    return min(1.0, (share ** (1 / d) + widths) ** d)


def prepare(X: Any, Y: Any | None, unit: float, scale: float, options: Options, frame: Frame | None) -> Prepared:
    """Put the points of a pass in order; ``frame`` is of the data, None in one dimension."""
    data, queries = skipping_blocks.both(X, Y, options.log_weights, unit, frame, masses=True)
    return Prepared(data, queries, unit, scale, options)


def run(prepared: Prepared, counts: Any | None = None) -> PartialSums:
    """Take the pass, without waiting; ``counts`` are those of ``radial_exponential.cu``."""
    data, queries, unit, scale, options = prepared
    (n, d), (m, _), real = data.points.shape, queries.points.shape, data.points.dtype
    rounding = (d + 8) * (2.0**-22 if real == FLOAT else 2.0**-51)
    arrays = data.points, queries.points, data.log_weights, data.mass, data.low, data.high
    groups = -(-m // _QUERIES)
    low, high, limits = cp.empty((d, groups), real), cp.empty((d, groups), real), cp.empty(groups, real)
    _limits(real).launch(
        (groups,),
        (THREADS,),
        *(*arrays, low, high, limits, n, m, d, unit, scale, rounding, *_bits(options)),
    )
    out = finish.empty(m, 0)
    splits = finish.split_by(n, skipping_blocks.rows_of_split(n, m), finish.blocks(m, 0, 0), out)
    _near(real).launch(
        splits.grid,
        (THREADS,),
        *(*arrays, low, high, limits, queries.order, splits.reference, splits.total, counts),
        *(n, m, d, unit, scale, scale * (1 - rounding)),
    )
    return finish.merge(splits, out)


def _bits(options: Options) -> tuple[float, float]:
    """Logarithms of the tolerances; the relative one beside what is kept and left out together."""
    rtol, atol = options.tolerance / (1 + options.tolerance), options.atol
    return math.log2(rtol) if rtol > 0 else _NOTHING, math.log2(atol) if atol > 0 else _NOTHING


def share(prepared: Prepared) -> float:
    """Share of all blocks that the queries take, about; waits for the device.

    The mean of what 64 queries take together, and what 8 of them take, which wait for each other.
    """
    counts = cp.zeros(1, np.uint64)
    run(prepared, counts)
    blocks = -(-len(prepared.data.points) // BLOCK) * -(-len(prepared.queries.points) // BLOCK)
    return int(cp.asnumpy(counts)[0]) / (2 * (BLOCK // _QUERIES) * blocks)


def _share_of_few(prepared: Prepared) -> float:
    """The same of some blocks of queries."""
    points = prepared.queries.points
    blocks = -(-len(points) // BLOCK)
    step = max(_OF_BLOCKS, -(-blocks // _PROBES))
    chosen = range(min(step, blocks) // 2, blocks, step)  # the first and the last have outliers
    rows = np.concatenate([np.arange(b * BLOCK, min((b + 1) * BLOCK, len(points))) for b in chosen])
    few = prepared.queries._replace(points=points[cp.asarray(rows)], order=cp.arange(len(rows)))
    return share(prepared._replace(queries=few))


@core_compile.specialised(C_TYPE)
def _limits(real: np.dtype) -> Specialisation:
    return kernel_of("radial_limits", "exponential_limits", real, "9P 2q i 3r 2d")


@core_compile.specialised(C_TYPE)
def _near(real: np.dtype) -> Specialisation:
    return kernel_of("radial_exponential", "near_exponential", real, "13P 2q i 3r", "exponential")
