"""Products of large matrices by cuBLAS: of 16-bit numbers with float32 sums, of float32, and of float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np

from cukde.core.gpu import compile as core_compile

Format = Literal["f16", "bf16", "f32", "f64"]


class _Numbers(NamedTuple):
    """What cuBLAS calls the numbers of a product, and sizes in bytes."""

    kind: int  # cudaDataType of the factors
    size: int
    sum_kind: int  # of the sums
    sum_size: int
    compute: str  # name of the cublasComputeType


_NUMBERS: dict[Format, _Numbers] = {
    "f16": _Numbers(2, 2, 0, 4, "CUBLAS_COMPUTE_32F"),
    "bf16": _Numbers(14, 2, 0, 4, "CUBLAS_COMPUTE_32F"),
    "f32": _Numbers(0, 4, 0, 4, "CUBLAS_COMPUTE_32F"),
    "f64": _Numbers(1, 8, 1, 8, "CUBLAS_COMPUTE_64F"),
}

# What the product and what it is added to are multiplied by, on the host, by the size of the sums.
_ONE_AND_ZERO: dict[int, np.ndarray] = {4: np.array([1, 0], np.float32), 8: np.array([1, 0], np.float64)}
_ADDRESSES = {size: (numbers.ctypes.data, numbers.ctypes.data + size) for size, numbers in _ONE_AND_ZERO.items()}


class Block(NamedTuple):
    """Which rows and columns of a large matrix are in memory."""

    top: int
    left: int
    height: int
    width: int


def blocks(height: int, width: int, rows: int, columns: int, *, symmetric: bool) -> Iterator[Block]:
    """Cut a matrix in blocks; a ``symmetric`` one in squares on the diagonal and blocks of what is right of them.

    Those to the right stand for their mirror images below, too.
    """
    for top in range(0, height, rows):
        bottom = min(height, top + rows)
        if symmetric:
            yield Block(top, top, bottom - top, bottom - top)
        for left in range(bottom if symmetric else 0, width, columns):
            yield Block(top, left, bottom - top, min(width, left + columns) - left)


def add_product(
    products: Any, P: Any, block: Block, factors: Any, numbers: Format, *, transposed: bool = False
) -> None:
    """Add a block of a matrix times factors to the products of its rows, or its transpose to those of its columns.

    Parameters
    ----------
    products : array, shape (rows, c)
        Float32, or float64 for such numbers; C-contiguous like all the others.
    P : array, shape (at least block.height, at least of.width)
        Uint16, the bits of float16 or bfloat16 numbers, or float32 or float64: the block, in the upper left corner.
    block : Block
        Its place in the matrix.
    factors : array, shape (columns, c)
        Likewise.
    numbers : {"f16", "bf16", "f32", "f64"}
        What ``P`` and ``factors`` hold.

    Notes
    -----
    Two runs on one device give the same bits.
    """
    columns = products.shape[1]
    to, of_factors, rows, inner = block.top, block.left, block.height, block.width
    if transposed:
        to, of_factors, rows, inner = block.left, block.top, block.width, block.height
    # cuBLAS stores columns: to it every matrix is its transpose, and products.T += factors.T @ P.T.
    _multiply(
        (False, transposed),
        (columns, rows, inner),
        (factors, of_factors * columns),
        (P, 0),
        (products, to * columns),
        numbers,
        adds=True,
    )


def gram(out: Any, A: Any, B: Any, block: Block, dimensions: slice, *, adds: bool = False) -> None:
    """Inner products of rows of ``A`` and ``B`` in some of their dimensions: a block of A B^T, set or added to.

    Parameters
    ----------
    out : array, shape (at least block.height, at least of.width)
        Float64, C-contiguous like all the others: the block, in the upper left corner.
    A, B : array, shape (rows, depth) and (columns, depth)
        Float64.
    block : Block
        Its place in A B^T.

    Notes
    -----
    Two runs on one device give the same bits.
    """
    depth = A.shape[1]
    _multiply(
        (True, False),
        (block.width, block.height, dimensions.stop - dimensions.start),
        (B, block.left * depth + dimensions.start),
        (A, block.top * depth + dimensions.start),
        (out, 0),
        "f64",
        adds=adds,
    )


_Part = tuple[Any, int]  # an array, and the place of the first number among all of it


def _multiply(
    transposed: tuple[bool, bool],
    sizes: tuple[int, int, int],
    left: _Part,
    right: _Part,
    out: _Part,
    numbers: Format,
    *,
    adds: bool,
) -> None:
    """Left times right, as cuBLAS sees them: (m, k) and (k, n) of sizes (m, n, k), stored by columns."""
    from cupy.cuda import cublas, device  # the library is loaded with its first use

    handle = device.get_cublas_handle()
    if core_compile.is_rehearsal():
        return
    kind, size, sum_kind, sum_size, compute = _NUMBERS[numbers]
    one, zero = _ADDRESSES[sum_size]
    cublas.gemmEx(
        handle,
        *(cublas.CUBLAS_OP_T if side else cublas.CUBLAS_OP_N for side in transposed),
        *sizes,
        one,
        left[0].data.ptr + size * left[1],
        kind,
        left[0].shape[1],
        right[0].data.ptr + size * right[1],
        kind,
        right[0].shape[1],
        one if adds else zero,
        out[0].data.ptr + sum_size * out[1],
        sum_kind,
        out[0].shape[1],
        getattr(cublas, compute),
        cublas.CUBLAS_GEMM_DEFAULT,
    )
