"""Numba loops over tiles of pairs whose exponents are a product: BLAS, weights, and BLAS again, a tile after the other.

No step of a tile waits for Python's lock, which a few threads that come for it several times a tile are enough to keep
taken. BLAS is SciPy's here: the one that Numba calls. All arrays are C-contiguous and of one dtype, float32 or float64,
but for totals and moments, which are float64; ``memory`` has room for a tile of ``step`` data rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.core.cpu.jit import njit
from cukde.density.pairs.cpu import tiles
from cukde.density.pairs.cpu.tiles import _JIT


@njit(**_JIT)
def _exponents(queries: Any, data: Any, start: int, step: int, memory: Any) -> Any:
    """Tile of the products of queries (q, width) and ``step`` rows of data (rows, width)."""
    data = data[start : start + step]
    shape = queries.shape[0], data.shape[0]
    tile = memory[: shape[0] * shape[1]].reshape(shape)
    np.dot(queries, data.T, tile)
    return tile


@njit(**_JIT)
def add_moments(
    queries: Any,
    data: Any,
    values: Any,
    least: float,
    memory: Any,
    step: int,
    shift: Any,
    total: Any,
    moments: Any,
) -> None:
    """Add the sums of weights to ``total``, and those of weights times ``values`` (n, k) to ``moments`` (q, k).

    Weights of exponents up to ``least`` are 0.
    """
    rescale, product = np.empty(len(queries)), np.empty(moments.shape, data.dtype)
    for start in range(0, data.shape[0], step):
        tile = _exponents(queries, data, start, step, memory)
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
    query_total: Any,
    total: Any,
    query_moments: Any,
    moments: Any,
) -> None:
    """Add weights of exponents up to 0, and weights times ``values`` (n, k), to those of queries, and reversed."""
    product = np.empty(query_moments.shape, data.dtype)
    for start in range(0, data.shape[0], step):
        tile = _exponents(queries, data, start, step, memory)
        tiles.weigh_both(tile, query_total, total[start : start + step])
        np.dot(tile, values[start : start + step], product)
        query_moments += product
        moments[start : start + step] += np.dot(tile.T, query_values)
