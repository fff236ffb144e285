"""Densities by kernels beside the Gaussian on the CPU: tiles of squared differences, Numba kernels over them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cukde.core.cpu import meanwhile, threads
from cukde.density.kernels import Kernel, edge
from cukde.density.options import Options
from cukde.density.pairs.cpu import query_blocks, radial_few, radial_tiles, tiles as _tiles
from cukde.density.pairs.cpu.skipping import compact, exponential, exponential_choice
from cukde.density.pairs.cpu.weighted import weighted
from cukde.density.sums import PartialSums, to_density

_LOG2_E = math.log2(math.e)


@meanwhile.answered_by(radial_few.many)
def kernel_density(
    X: np.ndarray,
    Y: np.ndarray | None,
    h: float,
    kernel: Kernel,
    *,
    log_constant: float,
    log: bool,
    dtype: np.dtype,
    options: Options,
) -> np.ndarray:
    """Return ``exp(log_constant)`` times the sums of the kernel, shape (m,), or the logarithm of that.

    What is left out of a sum of the exponential is within the tolerances; other kernels are 0 beyond their bandwidth.

    Parameters
    ----------
    X : array, shape (n, d)
        Data, float32 or float64. Squared distances are summed in their type, near the edge of a
        kernel in double.
    Y : array, shape (m, d), optional
        Queries; None are the data themselves.
    h : float
        Bandwidth, in the units of ``X``.
    kernel : {"tophat", "epanechnikov", "exponential", "linear", "cosine"}
        See :mod:`cukde.density.kernels`.
    options : Options
        Of which ``log_weights``, ``own`` and the tolerances count.
    """
    Y = X if Y is None else Y
    X, _, options = weighted(X, None, options)
    every = options.own_out  # passes over some pairs know none that are left out
    sums = _exponential(X, Y, h, options) if kernel == "exponential" and not every else None
    if sums is None:
        pairs = _Sums(X, Y, h, kernel, options)
        near = kernel != "exponential" and not every and compact.pays(X, Y, h)
        sums = pairs.near() if near else pairs.run()
    out: np.ndarray = to_density(sums, log_constant, log, dtype, np)
    return out


def _exponential(X: np.ndarray, Y: np.ndarray, h: float, options: Options) -> PartialSums | None:
    """Sums of the exponential kernel without the pairs that cannot matter; None where all pairs are faster."""
    dtype = np.promote_types(X.dtype, Y.dtype)
    X, Y = (a.astype(dtype, copy=False) for a in (X, Y))
    rtol = options.tolerance
    prepared = exponential_choice.prepared(X, Y, h, options.log_weights, rtol=rtol, atol=options.atol)
    return None if prepared is None else exponential.run(prepared)


class _Sums:
    """One pass over all tiles."""

    def __init__(self, X: np.ndarray, Y: np.ndarray, h: float, kernel: Kernel, options: Options) -> None:
        self._own = options.own
        self._dtype = np.promote_types(X.dtype, Y.dtype)
        self._kernel = kernel
        # Squared distances of points many large bandwidths apart leave the range of the dtype. A power of two brings h
        # below 2 and changes no bit of the coordinates; a small h has no such trouble.
        unit = self._dtype.type(2.0 ** -max(0, math.frexp(h)[1] - 1))
        self._data = np.ascontiguousarray(X.T, self._dtype) * unit
        self._queries = np.ascontiguousarray(Y, self._dtype) * unit
        self._squared_h = (h * float(unit)) ** 2
        self._zeros = np.zeros(query_blocks.tile_columns(self._dtype), self._dtype)
        self._edge = tuple(map(self._dtype.type, edge(kernel, X.shape[1], self._dtype.itemsize == 4)))
        logs: Any = 0.0 if options.log_weights is None else options.log_weights
        if kernel == "exponential":
            self._weights = np.full(len(X), logs * _LOG2_E, self._dtype)
        else:
            self._weights = np.full(len(X), np.exp(logs))

    def near(self) -> PartialSums:
        """Sums of a kernel of bounded support over the blocks of data that its queries reach."""
        points, h = np.ascontiguousarray(self._data.T), math.sqrt(self._squared_h)
        total = compact.sums(points, self._queries, h, self._kernel, self._weights, self._edge)
        return PartialSums(np.zeros_like(total), total)

    def run(self) -> PartialSums:
        n, m = self._data.shape[1], len(self._queries)
        block = self._exponential if self._kernel == "exponential" else self._bounded
        return query_blocks.run(block, n, m, 0, self._dtype)

    def _exponential(self, rows: slice, data: slice) -> PartialSums:
        """By log-sum-exp, so that far queries have a logarithm."""
        q = rows.stop - rows.start
        shift = np.full(q, np.finfo(self._dtype).max, self._dtype)
        total, rescale = np.zeros(q), np.empty(q)
        for columns in self._tiles(data):
            tile, _ = self._squares(rows, columns)
            radial_tiles.to_exponents(tile, self._weights[columns])
            _tiles.weigh(tile, shift, rescale, total)
        return PartialSums(shift.astype(np.float64) * -math.log(2), total)

    def _bounded(self, rows: slice, data: slice) -> PartialSums:
        code = radial_tiles.CODES[self._kernel]
        total = np.zeros(rows.stop - rows.start)
        for columns in self._tiles(data):
            tile, data_of_tile = self._squares(rows, columns)
            weights = self._weights[columns]
            points = self._queries[rows], data_of_tile
            radial_tiles.take_edges(tile, code, self._edge, *points, self._squared_h, weights, total)
            radial_tiles.add_values(tile, code, weights, total)
        return PartialSums(np.zeros_like(total), total)

    def _tiles(self, data: slice) -> list[slice]:
        step = len(self._zeros)
        return [slice(start, min(start + step, data.stop)) for start in range(data.start, data.stop, step)]

    def _squares(self, rows: slice, columns: slice) -> tuple[np.ndarray, np.ndarray]:
        """Tile of squared distances in bandwidths, and the data of its columns, (d, columns)."""
        threads.checkpoint()
        data = np.ascontiguousarray(self._data[:, columns])  # or the compiler would not know that neighbours are near
        width = columns.stop - columns.start
        tile = query_blocks.scratch_tile(rows.stop - rows.start, width, self._dtype)
        scale = self._dtype.type(-1 / self._squared_h)
        _tiles.differences(self._queries[rows], data, scale, self._zeros[:width], tile)
        if self._own is not None:
            _tiles.leave_out(tile, self._own[rows] - columns.start, self._dtype.type(np.finfo(self._dtype).max / 4))
        return tile, data
