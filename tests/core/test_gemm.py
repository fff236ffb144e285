"""What is asked of cuBLAS, with a library of the same interface that multiplies on the host."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.host_emulation._use import _add_product as add_product_of_emulation, _gram as gram_of_emulation
from tests.private import core_compile

cuda = pytest.importorskip("cupy.cuda", reason="the launchers of cuBLAS import CuPy: install the test extra")

DTYPES = {"f16": np.uint16, "bf16": np.uint16, "f64": np.float64}  # of the factors
KINDS = {0: np.float32, 1: np.float64, 2: np.float16, 14: np.uint16}  # cudaDataType


class OnDevice:
    """As much of a CuPy array as the launchers see."""

    def __init__(self, a: np.ndarray) -> None:
        self.a, self.shape, self.data = a, a.shape, SimpleNamespace(ptr=a.ctypes.data)


def stored_by_columns(pointer: int, rows: int, columns: int, leading: int, kind: int) -> np.ndarray:
    """A view of a matrix of cuBLAS."""
    dtype = np.dtype(KINDS[kind])
    last = (columns - 1) * leading + rows
    memory = (ctypes.c_char * (last * dtype.itemsize)).from_address(pointer)
    strides = dtype.itemsize, leading * dtype.itemsize
    return np.lib.stride_tricks.as_strided(np.frombuffer(memory, dtype), (rows, columns), strides)


def as_numbers(a: np.ndarray) -> np.ndarray:
    return (a.astype(np.uint32) << 16).view(np.float32) if a.dtype == np.uint16 else a


def gemm_ex(handle: int, op_a: str, op_b: str, m: int, n: int, k: int, alpha: int, *others: int) -> None:
    """cublasGemmEx by its documentation."""
    A, a_kind, lda, B, b_kind, ldb, beta, C, c_kind, ldc, compute, _ = others
    assert (c_kind, compute) in ((0, "32F"), (1, "64F"))
    left = as_numbers(stored_by_columns(A, *((k, m) if op_a == "T" else (m, k)), lda, a_kind))
    right = as_numbers(stored_by_columns(B, *((n, k) if op_b == "T" else (k, n)), ldb, b_kind))
    out = stored_by_columns(C, m, n, ldc, c_kind)
    factors = [stored_by_columns(pointer, 1, 1, 1, c_kind)[0, 0] for pointer in (alpha, beta)]
    product = (left.T if op_a == "T" else left) @ (right.T if op_b == "T" else right)
    out[...] = factors[0] * product + (factors[1] * out if factors[1] else 0)


@pytest.fixture
def gemm(monkeypatch: pytest.MonkeyPatch) -> Any:
    from cukde.core.gpu import gemm as core_gemm

    library = SimpleNamespace(
        CUBLAS_OP_N="N",
        CUBLAS_OP_T="T",
        CUBLAS_COMPUTE_32F="32F",
        CUBLAS_COMPUTE_64F="64F",
        CUBLAS_GEMM_DEFAULT=-1,
        gemmEx=gemm_ex,
    )
    monkeypatch.setitem(vars(cuda), "cublas", library)
    monkeypatch.setattr("cupy.cuda.device.get_cublas_handle", lambda: 0)
    return core_gemm


def numbers_of(rng: np.random.Generator, kind: str, *shape: int) -> np.ndarray:
    a = rng.integers(-8, 8, shape)  # products of which every format holds
    if kind == "f16":
        return a.astype(np.float16).view(np.uint16)
    return (a.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) if kind == "bf16" else a.astype(np.float64)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("kind", DTYPES)
def test_products_of_a_block(gemm: Any, kind: str, transposed: bool) -> None:
    rng = np.random.default_rng(0)
    block = gemm.Block(4, 7, 5, 6)
    P, factors = numbers_of(rng, kind, 8, 9), numbers_of(rng, kind, 20, 3)
    got = rng.integers(-8, 8, (20, 3)).astype(np.float64 if kind == "f64" else np.float32)
    want = got.copy()
    gemm.add_product(*map(OnDevice, (got, P)), block, OnDevice(factors), kind, transposed=transposed)
    add_product_of_emulation(want, P, block, factors, kind, transposed=transposed)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("adds", [False, True])
def test_inner_products_of_a_block(gemm: Any, adds: bool) -> None:
    rng = np.random.default_rng(0)
    block = gemm.Block(4, 7, 5, 6)
    A, B = numbers_of(rng, "f64", 12, 16), numbers_of(rng, "f64", 13, 16)
    got = numbers_of(rng, "f64", 8, 9) if adds else np.full((8, 9), np.nan)
    want = got.copy()
    gemm.gram(*map(OnDevice, (got, A, B)), block, slice(5, 12), adds=adds)
    gram_of_emulation(want, A, B, block, slice(5, 12), adds=adds)
    np.testing.assert_array_equal(got, want)


def test_nothing_is_computed_in_a_rehearsal(gemm: Any) -> None:
    got = np.zeros((2, 2))
    with core_compile.rehearsed(loads=False):
        gemm.gram(*map(OnDevice, (got, np.ones((2, 2)), np.ones((2, 2)))), gemm.Block(0, 0, 2, 2), slice(0, 2))
    assert not got.any()
