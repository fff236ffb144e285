"""Points in blocks of 64 neighbours with their boxes, for kernels beside the Gaussian.

The launcher of ``radial_blocks.cu``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile, device
from cukde.core.gpu.launch import C_TYPE, DOUBLE, Specialisation
from cukde.density.pairs.gpu.skipping import points as skipping_points
from cukde.density.pairs.gpu.skipping.frame import Frame
from cukde.density.pairs.gpu.skipping.points import BLOCK

CHUNK = 8
"""Dimensions staged at a time. Of one to three a warp squares zeros too: little beside what follows a distance."""

THREADS = 256
"""Of a block."""

_ITEMS_OF_MULTIPROCESSOR = 64  # so that none waits long for the last
_BLOCKS_OF_SPLIT = 64  # of data, at least


class Blocks(NamedTuple):
    """Points in order, and their boxes; ``radial_blocks.cu`` says what the arrays are."""

    order: Any
    points: Any
    log_weights: Any | None
    low: Any
    high: Any
    mass: Any | None


def both(
    X: Any, Y: Any | None, log_weights: Any | None, unit: float, frame: Frame | None, *, masses: bool = False
) -> tuple[Blocks, Blocks]:
    """Put the data in order, and the queries, None the data themselves."""
    data = ordered(X, log_weights, unit, frame, masses=masses)
    return data, data if Y is None else ordered(Y, None, unit, frame)


def ordered(X: Any, log_weights: Any | None, unit: float, frame: Frame | None, *, masses: bool = False) -> Blocks:
    """Put points in order: by their coordinate in one dimension, where there is no frame, and by codes in more."""
    if frame is None:
        order = cp.argsort(X[:, 0]).astype(np.int64, copy=False)
    else:
        order = skipping_points.order_of(X, frame)
    return in_order(X, order, log_weights, unit, masses=masses)


def in_order(X: Any, order: Any, log_weights: Any | None, unit: float, *, masses: bool = False) -> Blocks:
    """Put some or all points in a given order, and find the boxes of their blocks."""
    n, d = len(order), X.shape[1]
    count = -(-n // BLOCK)
    out = Blocks(
        order,
        cp.empty((n, d), X.dtype),
        None if log_weights is None else cp.empty(n),
        cp.empty((d, count), X.dtype),
        cp.empty((d, count), X.dtype),
        cp.empty(count, X.dtype) if masses else None,
    )
    _kernel(X.dtype).launch((count,), (BLOCK,), X, order, log_weights, *out[1:], n, d, unit)
    return out


def rows_of_split(n: int, m: int) -> int:
    """Rows of the data that a block of threads takes, so that the device is busy to the end."""
    data_blocks, query_blocks = -(-n // BLOCK), -(-m // BLOCK)
    wanted = -(-_ITEMS_OF_MULTIPROCESSOR * device.multiprocessors() // query_blocks)
    splits = max(1, min(wanted, data_blocks // _BLOCKS_OF_SPLIT))
    return -(-data_blocks // splits) * BLOCK


def kernel_of(stem: str, name: str, real: np.dtype, types: str, kind: str | None = None) -> Specialisation:
    """A kernel for an arithmetic, whose numbers are ``r`` in its types, and for a kind of density kernels."""
    name = f"{name}_{'f64' if real == DOUBLE else 'ieee'}"
    macros: dict[str, Any] = {"KERNEL": name, "REAL": C_TYPE[real]}
    if kind is not None:
        macros = {"KERNEL": name, "KIND": kind.upper(), "REAL": C_TYPE[real], "STORAGE": C_TYPE[real], "CHUNK": CHUNK}
    return Specialisation(f"density/{stem}", name, core_compile.macros(**macros), types.replace("r", real.char))


@core_compile.specialised(C_TYPE)
def _kernel(real: np.dtype) -> Specialisation:
    return kernel_of("radial_blocks", "radial_blocks", real, "8P q i r")
