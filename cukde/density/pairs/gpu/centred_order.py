"""The order of points of a centred pass: neighbours beside each other, by codes along axes of the data's own frame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile, merge_sort
from cukde.core.gpu.launch import C_TYPE, DOUBLE, FLOAT, Specialisation
from cukde.core.gpu.scratch import Spec
from cukde.density.plan.gpu import MOST_COLUMNS

BOX_LINES, TILE_LINES = 13, 15
"""Rows of the arrays of boxes of blocks and of tiles of queries (``centred.cuh``)."""

_SOURCE = "density/centred_order"  # of both kernels

_CODES = 128  # of a thread block
_FRAME_THREADS = 512

_MARK = 2**31  # of the codes of queries


def frame_specs(d: int) -> list[Spec | None]:
    """Memory of a frame: origin, axes, scales."""
    return [((d,), DOUBLE), ((6, d), FLOAT), ((8,), FLOAT)]


def order(X: Any, Y: Any | None, frame: list[Any], scale: float) -> Any:
    """Make the frame of the data; return the order of their rows, and then of the queries' (plus n), int64."""
    (n, d), storage = X.shape, X.dtype
    kernel = _frame_kernel(storage, d)
    kernel.launch((1,), (_FRAME_THREADS,), X, *frame, n, d, min(n, _samples(d)), scale)
    codes = cp.empty(n if Y is None else n + len(Y), np.uint32)
    for points, of_points, mark in (X, codes[:n], 0), (Y, codes[n:], _MARK):
        if points is not None:
            arguments = points, *frame, of_points, len(points), d, mark, scale
            _codes_kernel(storage).launch((-(-len(points) // _CODES),), (_CODES,), *arguments)
    return merge_sort.in_order(codes)[1]


def kernels(storage: np.dtype, n: int, m: int, d: int, *, itself: bool) -> Iterator[Specialisation]:
    """What makes the order of n data and m queries."""
    yield _frame_kernel(storage, d)
    yield from merge_sort.kernels_of_order(n if itself else n + m)


def _samples(d: int) -> int:
    return 512 if d <= 32 else 256


@core_compile.specialised(C_TYPE, (MOST_COLUMNS,))
def _frame_kernel(storage: np.dtype, d: int) -> Specialisation:
    shared = 4 * (_samples(d) * (d | 1) + (2 * d * d if d > 6 else 0))
    defines = core_compile.macros(STORAGE=C_TYPE[storage])
    return Specialisation(_SOURCE, "centred_frame", defines, "4P q 2i d", shared)


@core_compile.specialised(C_TYPE)
def _codes_kernel(storage: np.dtype) -> Specialisation:
    defines = core_compile.macros(STORAGE=C_TYPE[storage])
    return Specialisation(_SOURCE, "centred_codes", defines, "5P q i I d")
