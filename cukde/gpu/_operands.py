"""Operands of the float16 engine: launcher of ``kernels_cu/prepare.cu``."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde import _compile

LOG2_E = math.log2(math.e)

NULL = np.uint64(0)  # a null pointer among a kernel's arguments

MOST_DIMENSIONS = 64

# Rows of operands come in whole blocks of the kernel that prepares them; tiles of the engine divide it.
BLOCK_ROWS = 128


class Operand(NamedTuple):
    """Points z = (point - centre) sqrt(log2 e) / h in float16 terms, rows and columns padded with zeros."""

    hi: Any  # (padded rows, depth) uint16, the bits of float16; the order of columns is that of prepare.cu
    lo: Any | None  # likewise, where two terms are kept
    norms: Any  # (padded rows,) float32: -|z|^2/2 of the rounded points, + log2 w; -1e30 past the end
    weights: Any | None  # (padded rows,) float32: log2 w, where they are kept apart


def depth_of(d: int) -> int:
    """Columns of the operands of points of ``d`` dimensions."""
    return -(-d // 16) * 16


def scale_of(h: float) -> float:
    """What centred points are multiplied by, so that half a squared distance is an exponent in bits."""
    return math.sqrt(LOG2_E) / h


def prepare(
    X: Any,
    Y: Any | None,
    centre: Any,
    h: float,
    *,
    split: bool,
    log_weights: Any | None = None,
    weights_apart: bool = False,
    spread: Any | None = None,
) -> tuple[Operand, Operand]:
    """Operands of the data and of the queries, by one launch.

    Parameters
    ----------
    X, Y : array, shape (n, d) and (m, d)
        Both float32 or both float64, C-contiguous; ``Y`` None are the data themselves.
    centre : array, shape (d,)
        Float64.
    split : bool
        Keep two float16 terms, not one.
    log_weights : array, shape (n,), optional
        Float64, natural logarithms.
    weights_apart : bool
        Leave the weights out of the data's norms.
    spread : array, shape (1,), optional
        Float32; raised to the largest |z|^2, so it is zero before.
    """
    # The norms of queries have no weights in them.
    depth = depth_of(X.shape[1])
    alike = Y is None and (log_weights is None or weights_apart)
    queries = None if alike else X if Y is None else Y
    data = _empty(X, depth, split, weights=weights_apart and log_weights is not None)
    of_queries = data if queries is None else _empty(queries, depth, split, weights=False)
    storage = "float" if X.dtype == np.float32 else "double"
    defines = (("STORAGE", storage), ("DEPTH", str(depth)))
    blocks = max(len(data.norms), len(of_queries.norms)) // BLOCK_ROWS
    _compile.kernel("prepare", "prepare_f16", defines)(
        (blocks, 1 if queries is None else 2),
        (BLOCK_ROWS,),
        (
            X,
            or_null(queries),
            centre,
            or_null(log_weights),
            *map(or_null, (data.hi, data.lo, data.norms, data.weights)),
            *(NULL if queries is None else or_null(a) for a in of_queries[:3]),
            or_null(spread),
            np.int64(X.shape[0]),
            np.int64(0 if queries is None else queries.shape[0]),
            np.int32(X.shape[1]),
            scale_of(h),
        ),
    )
    return data, of_queries


def or_null(a: Any | None) -> Any:
    """An array as a kernel's argument; None is a null pointer."""
    return NULL if a is None else a


def _empty(points: Any, depth: int, split: bool, weights: bool) -> Operand:
    rows = -(-points.shape[0] // BLOCK_ROWS) * BLOCK_ROWS
    shape = rows, depth
    return Operand(
        cp.empty(shape, np.uint16),
        cp.empty(shape, np.uint16) if split else None,
        cp.empty(rows, np.float32),
        cp.empty(rows, np.float32) if weights else None,
    )
