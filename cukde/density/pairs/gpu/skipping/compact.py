"""Sums of kernels of bounded support on the GPU over the blocks that a query reaches: nothing else adds anything.

The launchers of ``radial_groups.cu`` and ``radial_near.cu``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile
from cukde.core.gpu.launch import C_TYPE, Specialisation
from cukde.density.kernels import BOUNDED, Kernel
from cukde.density.pairs import counting
from cukde.density.pairs.gpu import finish
from cukde.density.pairs.gpu.skipping import blocks as skipping_blocks, frame as skipping_frame
from cukde.density.pairs.gpu.skipping.blocks import THREADS, kernel_of
from cukde.density.pairs.gpu.skipping.frame import Frame
from cukde.density.plan import gpu as plan_gpu
from cukde.density.plan.shape import Shape
from cukde.density.sums import PartialSums


class Scalars(NamedTuple):
    """What the kernels of ``radial.cu`` take beside arrays and sizes."""

    unit: float
    scale: float
    squared_h: float
    edge_from: float
    edge_to: float


class Look(NamedTuple):
    """Whether blocks are left out, and the frame that puts points in order, which one dimension does not need."""

    pays: bool
    frame: Frame | None = None


def look(X: Any, Y: Any | None, h: float, shape: Shape) -> Look:
    """Look whether few enough pairs lie within a bandwidth.

    Waits for the device where all pairs take milliseconds, in more than one dimension.
    """
    if not plan_gpu.bounded_may_skip(shape):
        return Look(False)
    if shape.d == 1:
        return Look(True)
    if shape.d <= plan_gpu.FEW_COLUMNS:
        data = skipping_frame.sample(X)
    else:
        data, queries = skipping_frame.samples(X, X if Y is None else Y)
        with np.errstate(all="ignore"):  # of points many bandwidths away, and of unchecked ones
            if not plan_gpu.bounded_pays(counting.within(data, queries, h)):
                return Look(False)
    if not np.isfinite(data).all():
        return Look(False)
    return Look(True, skipping_frame.frame(data.astype(np.float64)))


def sums(
    X: Any, Y: Any | None, kernel: Kernel, log_weights: Any | None, scalars: Scalars, frame: Frame | None
) -> PartialSums:
    """Sum a kernel of bounded support at each query, on the current device and stream, without waiting.

    ``frame`` is of the data, None in one dimension. Memory beside the result, in bytes a row of float32, of data and of
    queries: about 4 d + 24, of data with weights 8 more; and 9 MB at most.
    """
    n, d = X.shape
    m = n if Y is None else len(Y)
    out = finish.empty(m, 0)
    data, queries = skipping_blocks.both(X, Y, log_weights, scalars.unit, frame)
    groups = _grouped(data.low, data.high)
    splits = finish.split_by(n, skipping_blocks.rows_of_split(n, m), finish.blocks(m, 0, 0), out)
    _near(kernel, X.dtype).launch(
        splits.grid,
        (THREADS,),
        *(data.points, queries.points, data.log_weights, data.low, data.high, *groups, queries.low, queries.high),
        *(queries.order, splits.reference, splits.total, n, m, d, *scalars),
    )
    return finish.merge(splits, out)


def _grouped(low: Any, high: Any) -> tuple[Any, Any]:
    """Boxes of groups of as many blocks as a block has threads, low and high."""
    d, blocks = low.shape
    groups = -(-blocks // THREADS)
    out = cp.empty((d, groups), low.dtype), cp.empty((d, groups), low.dtype)
    _groups(low.dtype).launch((groups, d), (THREADS,), low, high, *out, blocks)
    return out


@core_compile.specialised(C_TYPE)
def _groups(real: np.dtype) -> Specialisation:
    return kernel_of("radial_groups", "radial_groups", real, "4P i")


@core_compile.specialised(BOUNDED, C_TYPE)
def _near(kernel: Kernel, real: np.dtype) -> Specialisation:
    return kernel_of("radial_near", f"near_{kernel}", real, "12P 2q i 2r d 2r", kernel)
