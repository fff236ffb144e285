"""Numba kernel of the sum over all pairs of one-dimensional points, by differences.

Of a pair in single precision: a difference, two products (by log2(e)/2 under the root over h, and by itself), one
ex2.approx, and one addition; a thread takes several queries, so a load from shared memory serves as many pairs.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numba import float64, int64

from cukde.core.gpu.numba_cuda import cuda

THREADS = 128  # of a block, at most
TILE = 256  # data in shared memory at a time; sums are in the arithmetic of the pairs within a tile, then in double

COLUMNS = 8  # of values that a thread sums, with 0 for the weight
QUERIES = {"values": 2, "sum": 4, "moments": 4, "laplace": 4}  # of a thread

_LN_2 = math.log(2)


@functools.cache
def pairs(output: str, weighted: bool, real: str, points: str) -> Any:
    """Make the kernel; it writes sums (split, entry, query), see ``queries.evaluate``.

    A block takes as many queries for each thread, one split of the data, and for "values" some of the columns.
    ``scale`` is the root of log2(e)/2 over h.
    """
    number = np.dtype(real).type
    queries = QUERIES[output]
    two = output in ("moments", "laplace")
    with_moments, with_laplace = output == "moments", output == "laplace"
    with_values = output == "values"
    columns = COLUMNS if with_values else 1
    charged = weighted or with_values
    sums = queries * columns
    tile = TILE
    charges_of_tile = tile * columns if charged else 1
    number_of_point = np.dtype(points).type

    @cuda.jit(cache=True, fastmath=real == "float32")
    def pairs(y, x, log_weights, values, out, rows, scale):  # type: ignore[no-untyped-def]
        near = cuda.shared.array(tile, number_of_point)
        charges = cuda.shared.array(charges_of_tile, number)
        query = cuda.local.array(queries, number_of_point)
        first = cuda.local.array(sums, number)
        second = cuda.local.array(queries, number)
        first_of_all = cuda.local.array(sums, float64)
        second_of_all = cuda.local.array(queries, float64)
        thread, threads = cuda.threadIdx.x, cuda.blockDim.x
        n, m = int64(x.size), int64(y.size)
        column = int64(cuda.blockIdx.z) * columns
        base = int64(cuda.blockIdx.x) * threads * queries + thread
        begin = int64(cuda.blockIdx.y) * rows
        end = min(n, begin + rows)
        unit = number(scale)
        for q in range(queries):
            query[q] = y[min(base + q * threads, m - 1)]
            second_of_all[q] = 0.0
        for c in range(sums):
            first_of_all[c] = 0.0
        for start in range(begin, end, tile):
            count = min(tile, end - start)
            for i in range(thread, count, threads):
                near[i] = x[start + i]
                if charged:
                    weight = math.exp(log_weights[start + i]) if weighted else 1.0
                    for c in range(columns):
                        value = 1.0
                        if with_values:
                            value = 0.0
                            if column + c == 0:
                                value = 1.0
                            elif column + c <= values.shape[1]:
                                value = float64(values[start + i, column + c - 1])
                        charges[i * columns + c] = number(weight * value)
            cuda.syncthreads()
            for q in range(queries):
                second[q] = number(0)
            for c in range(sums):
                first[c] = number(0)
            # Of a loop over a range Numba does not know that it is not negative, and computes addresses anew.
            i = int64(0)
            while i < count:
                for q in range(queries):
                    difference = number(near[i] - query[q])
                    u = difference * unit
                    exponent = -(u * u)
                    kernel = math.exp2(exponent)
                    if charged and not with_values:
                        kernel *= charges[i]
                    if with_values:
                        for c in range(columns):
                            first[q * columns + c] += kernel * charges[i * columns + c]
                    else:
                        first[q] += kernel
                    if with_moments:
                        second[q] += kernel * difference
                    if with_laplace:
                        second[q] += kernel * exponent
                i += 1
            for q in range(queries):
                second_of_all[q] += float64(second[q])
            for c in range(sums):
                first_of_all[c] += float64(first[c])
            cuda.syncthreads()
        for q in range(queries):
            i = base + q * threads
            if i < m:
                for c in range(columns):
                    if column + c < out.shape[1]:
                        out[cuda.blockIdx.y, column + c, i] = first_of_all[q * columns + c]
                if two:
                    out[cuda.blockIdx.y, 1, i] = second_of_all[q] * (_LN_2 if with_laplace else 1.0)

    return pairs
