"""Products of 16-bit matrices with float32 sums, by cuBLAS."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from cukde import _compile

Format = Literal["f16", "bf16"]

_CUDA_TYPE: dict[Format, int] = {"f16": 2, "bf16": 14}  # cudaDataType
_FLOAT = 0
_ONE = np.ones(1, np.float32)


class Block(NamedTuple):
    """Which rows and columns of a large matrix are in memory."""

    top: int
    left: int
    height: int
    width: int


def add_product(products: Any, P: Any, of: Block, factors: Any, numbers: Format, *, transposed: bool = False) -> None:
    """Add a block of a matrix times factors to the products of its rows, or its transpose to those of its columns.

    Parameters
    ----------
    products : array, shape (rows, c)
        Float32, C-contiguous like all the others.
    P : array, shape (at least of.height, at least of.width)
        Uint16, the bits of float16 or bfloat16 numbers: the block, in the upper left corner.
    of : Block
        Its place in the matrix.
    factors : array, shape (columns, c)
        Uint16, likewise.
    numbers : {"f16", "bf16"}
        What the bits mean.

    Notes
    -----
    Two runs on one device give the same bits.
    """
    from cupy.cuda import cublas, device  # the library is loaded with its first use

    handle = device.get_cublas_handle()
    if _compile.is_rehearsal():
        return
    kind = _CUDA_TYPE[numbers]
    columns = products.shape[1]
    to, of_factors, rows, inner = of.top, of.left, of.height, of.width
    if transposed:
        to, of_factors, rows, inner = of.left, of.top, of.width, of.height
    # cuBLAS stores columns: to it every matrix is its transpose, and products.T += factors.T @ P.T.
    cublas.gemmEx(
        handle,
        cublas.CUBLAS_OP_N,
        cublas.CUBLAS_OP_T if transposed else cublas.CUBLAS_OP_N,
        columns,
        rows,
        inner,
        _ONE.ctypes.data,
        factors.data.ptr + 2 * of_factors * columns,
        kind,
        columns,
        P.data.ptr,
        kind,
        P.shape[1],
        _ONE.ctypes.data,
        products.data.ptr + 4 * to * columns,
        _FLOAT,
        columns,
        cublas.CUBLAS_COMPUTE_32F,
        cublas.CUBLAS_GEMM_DEFAULT,
    )
