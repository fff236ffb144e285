"""Sums of kernels of bounded support on the GPU over the blocks that a query reaches: nothing else adds anything.

The launchers of ``radial_groups.cu`` and ``radial_near.cu``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile
from cukde.core.gpu.launch import C_TYPE, DOUBLE, FLOAT, Specialisation
from cukde.density.kernels import BOUNDED, Kernel
from cukde.density.pairs import counting
from cukde.density.pairs.gpu import finish
from cukde.density.pairs.gpu.skipping import blocks as skipping_blocks, frame as skipping_frame
from cukde.density.pairs.gpu.skipping.blocks import CHUNK, THREADS, suffix
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

    Memory beside the result, in bytes a row of float32, of data and of queries: about 4 d + 24, of data with weights
    8 more; and 9 MB at most.

    Parameters
    ----------
    X, Y, log_weights
        As for :func:`cukde.density.pairs.gpu.radial.kernel_density`; points of one dtype.
    frame : Frame, optional
        Of the data; None in one dimension.
    """
    n, d = X.shape
    m = n if Y is None else len(Y)
    out = finish.empty(m, 0)
    data = skipping_blocks.ordered(X, log_weights, scalars.unit, frame)
    queries = data if Y is None else skipping_blocks.ordered(Y, None, scalars.unit, frame)
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


@core_compile.listed
def specialisations() -> Iterator[Specialisation]:
    """Every kernel of this module."""
    for real in (FLOAT, DOUBLE):
        yield _groups(real)
        for kernel in BOUNDED:
            yield _near(kernel, real)


@functools.cache
def _groups(real: np.dtype) -> Specialisation:
    name = f"radial_groups_{suffix(real)}"
    return Specialisation("density/radial_groups", name, core_compile.macros(KERNEL=name, REAL=C_TYPE[real]), "4P i")


@functools.cache
def _near(kernel: Kernel, real: np.dtype) -> Specialisation:
    name = f"near_{kernel}_{suffix(real)}"
    defines = core_compile.macros(
        KERNEL=name, KIND=kernel.upper(), REAL=C_TYPE[real], STORAGE=C_TYPE[real], CHUNK=CHUNK
    )
    return Specialisation("density/radial_near", name, defines, f"12P 2q i {real.char} {real.char} d 2{real.char}")
