"""Kendall's tau as products of sign matrices by cuBLAS, in int8; CuPy arrays.

S (pairs of samples, p) has the signs of x_i - x_j. S'S counts concordant less discordant pairs of each two columns, and
on its diagonal the pairs that are not tied: tau-b is their ratio (Kendall, *Rank Correlation Methods*, chapter 3).

Settings are cuBLAS's own for integers: ``cublasGemmEx`` of int8 with sums in int32, the first operand transposed,
leading dimensions that are multiples of 16, the default algorithm. CuPy's ``matmul`` takes no integers to cuBLAS.
Samples i are taken in blocks, each against itself and all later j; signs of j <= i are zero. A block is as large as
1 GiB of signs allow, and at least 16 samples.
"""

from __future__ import annotations

import functools
from typing import Any

import cupy as cp
import numpy as np

_ALIGNMENT = 16  # of samples and columns, for the tensor cores
_BYTES = 2**30  # of signs in memory
_CUDA_R_32I = 10  # cudaDataType_t, which CuPy has no name for


def kendall_matrix(A: Any) -> Any:
    """tau-b of all pairs of columns, NaN where one is constant."""
    n, p = A.shape
    rows, columns = (-(-size // _ALIGNMENT) * _ALIGNMENT for size in (n, p))
    padded = cp.full((columns, rows), cp.nan, A.dtype)  # NaN has the sign 0 with everything
    padded[:p, :n] = A.T
    total = cp.zeros((columns, columns), cp.int64)
    block = max(1, _BYTES // (columns * rows * _ALIGNMENT)) * _ALIGNMENT
    for start in range(0, rows, block):
        total += _product(_signs(padded, start, min(start + block, rows)))
    counts = total[:p, :p].astype(cp.float64)
    untied = cp.sqrt(cp.diagonal(counts))
    return counts / (untied[:, None] * untied)


def _signs(padded: Any, start: int, stop: int) -> Any:
    """Shape (columns, pairs), int8: of samples from ``start`` to ``stop`` with all from ``start`` on; 0 of earlier."""
    order = cp.arange(start, padded.shape[1])
    signs = _compare()(padded[:, start:stop, None], padded[:, None, start:], order[: stop - start, None], order)
    return signs.reshape(len(padded), -1)


@functools.cache
def _compare() -> Any:
    """Sign of x - y where l is later than k, else 0."""
    return cp.ElementwiseKernel(
        "T x, T y, int64 k, int64 l", "int8 s", "s = k < l ? (x > y) - (x < y) : 0", "sign_of_difference"
    )


def _product(signs: Any) -> Any:
    """S'S in int32, for S' with contiguous rows: the same memory is S to cuBLAS, which has columns first."""
    from cupy.cuda import cublas, device, runtime

    columns, pairs = signs.shape
    one, zero = np.array(1, np.int32), np.array(0, np.int32)
    out = cp.empty((columns, columns), np.int32)
    of = (signs.data.ptr, runtime.CUDA_R_8I, pairs)
    cublas.gemmEx(
        device.get_cublas_handle(),
        cublas.CUBLAS_OP_T,
        cublas.CUBLAS_OP_N,
        columns,
        columns,
        pairs,
        one.ctypes.data,
        *of,
        *of,
        zero.ctypes.data,
        out.data.ptr,
        _CUDA_R_32I,
        columns,
        cublas.CUBLAS_COMPUTE_32I,
        cublas.CUBLAS_GEMM_DEFAULT,
    )
    return out
