"""Sums over all pairs whose squared distances come from a matrix product of points about a centre, in double precision.

With z the points in bandwidths, times sqrt(log2(e)), the exponent in bits is z_y . z_x - |z_x|^2 / 2 - |z_y|^2 / 2. Its
terms cancel, so that the radius of the points is limited (:func:`cukde.density.plan.cpu.product_is_accurate`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cukde.core.cpu import threads
from cukde.density.options import Options
from cukde.density.pairs.cpu import query_blocks, tiles
from cukde.density.pairs.cpu.weighted import log2_weights
from cukde.density.sums import Output, PartialSums, laplace_constant, moment_columns

_ROOT = math.sqrt(math.log2(math.e))
_DOUBLE = np.dtype(np.float64)


def sums(
    X: np.ndarray, Y: np.ndarray | None, h: float, output: Output, options: Options, values: np.ndarray | None
) -> PartialSums:
    """Sums of data that all have weight, :class:`cukde.density.sums.PartialSums`, about the largest of the weights."""
    queries = X if Y is None else Y
    (n, d), m = X.shape, len(queries)
    block = _Blocks(X, queries, h, output, options, values)
    least = query_blocks.rows_of_thread(d, m, _DOUBLE)
    return query_blocks.run(block.sums, n, m, moment_columns(output, d, values), _DOUBLE, blas=True, least=least)


class _Blocks:
    """Sums of some queries over some data."""

    def __init__(
        self,
        X: np.ndarray,
        Y: np.ndarray,
        h: float,
        output: Output,
        options: Options,
        values: np.ndarray | None,
    ) -> None:
        self._X, self._Y, self._output, self._own = X, Y, output, options.own
        self._centre, self._unit = options.centre, h / _ROOT
        self._values = None if values is None else values.astype(np.float64, copy=False)
        self._constant = laplace_constant(output, X.shape[1])
        self._log2_weights = np.zeros(len(X)) if options.log_weights is None else log2_weights(options)

    def sums(self, rows: slice, data: slice) -> PartialSums:
        queries = self._operand(self._Y[rows])
        queries[:, -1], queries[:, -2] = queries[:, -2], 1.0
        shift, total = np.full(len(queries), np.finfo(np.float64).max), np.zeros(len(queries))
        moments: Any = np.zeros((len(queries), 1)) if self._output == "laplace" else 0.0
        step = query_blocks.tile_columns(_DOUBLE)
        for start in range(data.start, data.stop, step):
            threads.checkpoint()
            some = slice(start, min(start + step, data.stop))
            points, weights = self._operand(self._X[some]), self._log2_weights[some]
            points[:, -2] += weights
            tile = query_blocks.scratch_tile(len(queries), len(points), _DOUBLE)
            np.matmul(queries, points.T, out=tile)
            if self._own is not None:
                tiles.leave_out(tile, self._own[rows] - start, tiles.NOTHING[np.float64])
            if self._output == "sum":
                tiles.sum_weights(tile, shift, total)
            elif self._output == "laplace":
                tiles.weigh_laplace(tile, shift, self._constant, weights, total, moments)
            else:
                moments = self._weighed(tile, shift, weights, total, moments, points, some)
        if "moments" in self._output:
            d = queries.shape[1] - 2
            moments = (moments[:, :d] - moments[:, d + 1 :] * queries[:, :d]) * self._unit
        return PartialSums(shift * -math.log(2), total, None if self._output == "sum" else moments)

    def _weighed(
        self,
        tile: np.ndarray,
        shift: np.ndarray,
        weights: np.ndarray,
        total: np.ndarray,
        moments: Any,
        points: np.ndarray,
        some: slice,
    ) -> np.ndarray:
        """Moments with those of a tile: weights times points, of which the last coordinate is 1, or times values."""
        rescale = np.empty(len(tile))
        if self._output == "laplace_moments":
            tiles.weigh_by_laplace(tile, shift, rescale, self._constant, weights, total)
        elif self._output == "moments":
            tiles.weigh(tile, shift, rescale, total, tiles.NEGLIGIBLE[np.float64])
        else:
            tiles.weigh(tile, shift, rescale, total)
        of_tile: np.ndarray = tile @ (points if self._values is None else self._values[some])
        return of_tile + moments * rescale[:, None]

    def _operand(self, A: np.ndarray) -> np.ndarray:
        """Points z about the centre, -|z|^2 / 2 and 1, (rows, d + 2)."""
        out = np.empty((len(A), A.shape[1] + 2))
        z = out[:, :-2]
        np.subtract(A, self._centre, z)
        z *= 1 / self._unit
        np.multiply(np.einsum("ij,ij->i", z, z), -0.5, out[:, -2])
        out[:, -1] = 1.0
        return out
