"""Numba loops over tiles of pairs whose exponents are a product: BLAS, weights, and BLAS again, a tile after the other.

No step of a tile waits for Python's lock, which a few threads that come for it several times a tile are enough to keep
taken. BLAS is SciPy's here: the one that Numba calls. All arrays are C-contiguous and of one dtype, float32 or float64,
but for totals and moments, which are float64; ``memory`` has room for a tile of ``step`` data rows. ``own`` (q,) int64
are the data rows that queries leave out, or (0,) where none does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.core.cpu.jit import njit
from cukde.density.pairs.cpu import tiles
from cukde.density.pairs.cpu.tiles import _JIT

NO_EXPONENT = -1e30
"""Of a pair that is left out: below any for which products serve."""


@njit(**_JIT)
def _exponents(queries: Any, data: Any, start: int, step: int, memory: Any, own: Any) -> Any:
    """Tile of the products of queries (q, width) and ``step`` rows of data (rows, width), but of ``own`` rows."""
    data = data[start : start + step]
    shape = queries.shape[0], data.shape[0]
    tile = memory[: shape[0] * shape[1]].reshape(shape)
    np.dot(queries, data.T, tile)
    if own.size:
        tiles.leave_out(tile, own - start, tile.dtype.type(NO_EXPONENT))
    return tile


@njit(**_JIT)
def add_sums(queries: Any, data: Any, memory: Any, step: int, own: Any, shift: Any, total: Any) -> None:
    """Add the sums of weights of all data to ``total``, about a ``shift`` that is updated."""
    for start in range(0, data.shape[0], step):
        tiles.sum_weights(_exponents(queries, data, start, step, memory, own), shift, total)


@njit(**_JIT)
def add_laplace(
    queries: Any,
    data: Any,
    log2_weights: Any,
    constant: float,
    memory: Any,
    step: int,
    own: Any,
    shift: Any,
    total: Any,
    moments: Any,
) -> None:
    """Add the sums of weights, and of weights times Laplace factors, see :func:`tiles.weigh_laplace`."""
    for start in range(0, data.shape[0], step):
        tile = _exponents(queries, data, start, step, memory, own)
        tiles.weigh_laplace(tile, shift, constant, log2_weights[start : start + step], total, moments)


@njit(**_JIT)
def add_laplace_moments(
    queries: Any,
    data: Any,
    at: Any,
    points: Any,
    log2_weights: Any,
    constant: float,
    unit: float,
    memory: Any,
    step: int,
    own: Any,
    shift: Any,
    total: Any,
    moments: Any,
) -> None:
    """Add the sums of weights to ``total``; weights times Laplace factors and ``unit`` (points - at) to ``moments``.

    ``at`` (q, d) and ``points`` (rows, d) are coordinates of the queries and of the data. Or ``points`` (rows, d + 1)
    are those of the data times a factor of the row, and the factors: moments are then of these times (points - at).
    """
    q, d = moments.shape
    rescale, sizes, product = np.empty(q), np.empty(q), np.empty((q, points.shape[1]), data.dtype)
    for start in range(0, data.shape[0], step):
        tile = _exponents(queries, data, start, step, memory, own)
        tiles.weigh_by_laplace(tile, shift, rescale, constant, log2_weights[start : start + step], total, sizes)
        np.dot(tile, points[start : start + step], product)
        for i in range(q):
            if points.shape[1] > d:
                sizes[i] = product[i, d]
            for k in range(d):
                moment = np.float64(product[i, k]) - sizes[i] * np.float64(at[i, k])
                moments[i, k] = moments[i, k] * rescale[i] + unit * moment


@njit(**_JIT)
def add_values(
    queries: Any,
    data: Any,
    values: Any,
    least: float,
    memory: Any,
    step: int,
    own: Any,
    shift: Any,
    total: Any,
    moments: Any,
) -> None:
    """Add the sums of weights to ``total``, and those of weights times ``values`` (n, k) to ``moments`` (q, k).

    Weights of exponents up to ``least`` are 0.
    """
    rescale, product = np.empty(len(queries)), np.empty(moments.shape, data.dtype)
    for start in range(0, data.shape[0], step):
        tile = _exponents(queries, data, start, step, memory, own)
        tiles.weigh(tile, shift, rescale, total, least)
        np.dot(tile, values[start : start + step], product)
        for i in range(moments.shape[0]):
            for k in range(moments.shape[1]):
                moments[i, k] = moments[i, k] * rescale[i] + product[i, k]


@njit(**_JIT)
def add_mutual(
    queries: Any,
    data: Any,
    query_values: Any,
    values: Any,
    memory: Any,
    step: int,
    own: Any,
    query_total: Any,
    total: Any,
    query_moments: Any,
    moments: Any,
) -> None:
    """Add weights of exponents up to 0, and weights times ``values`` (n, k), to those of queries, and reversed."""
    product = np.empty(query_moments.shape, data.dtype)
    for start in range(0, data.shape[0], step):
        tile = _exponents(queries, data, start, step, memory, own)
        tiles.weigh_both(tile, query_total, total[start : start + step])
        np.dot(tile, values[start : start + step], product)
        query_moments += product
        moments[start : start + step] += np.dot(tile.T, query_values)
