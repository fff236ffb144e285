"""Products of 16-bit matrices with float32 sums, by cuBLAS."""

from __future__ import annotations

from typing import Any, Literal

import cupy as cp
import numpy as np

Format = Literal["f16", "bf16"]

_CUDA_TYPE: dict[Format, int] = {"f16": 2, "bf16": 14}  # cudaDataType
_FLOAT = 0
_ONE = np.ones(1, np.float32)


def add_product(out: Any, A: Any, B: Any, numbers: Format, *, transposed: bool = False) -> None:
    """Add ``A @ B``, or ``A.T @ B``, to ``out``.

    Parameters
    ----------
    out : array, shape (r, c)
        Float32, its rows contiguous.
    A : array, shape (r, q), or (q, r) if ``transposed``
        Uint16, the bits of float16 or bfloat16 numbers; its rows contiguous.
    B : array, shape (q, c)
        Likewise.
    numbers : {"f16", "bf16"}
        What the bits mean.

    Notes
    -----
    Two runs on one device give the same bits.
    """
    from cupy.cuda import cublas, device  # the library is loaded with its first use

    rows, columns = out.shape
    kind = _CUDA_TYPE[numbers]
    # cuBLAS stores columns: to it every matrix is its transpose, and out.T = B.T @ A.T.
    cublas.gemmEx(
        device.get_cublas_handle(),
        cublas.CUBLAS_OP_N,
        cublas.CUBLAS_OP_T if transposed else cublas.CUBLAS_OP_N,
        columns,
        rows,
        B.shape[0],
        _ONE.ctypes.data,
        B.data.ptr,
        kind,
        _pitch(B),
        A.data.ptr,
        kind,
        _pitch(A),
        _ONE.ctypes.data,
        out.data.ptr,
        _FLOAT,
        _pitch(out),
        cublas.CUBLAS_COMPUTE_32F,
        cublas.CUBLAS_GEMM_DEFAULT,
    )


def _pitch(a: Any) -> int:
    return int(a.strides[0]) // int(a.itemsize)
