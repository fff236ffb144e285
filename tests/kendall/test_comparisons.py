"""Statistics of few samples in one launch, against counts and formulas on the CPU: emulated, and on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cukde
from tests.conftest import Backend
from tests.kendall.test_gpu import columns, with_gaps
from tests.private import (
    Null,
    few_on_gpu,
    kendall_matrix_on_cpu,
    kendall_pairs_on_cpu,
    statistics,
    tau_statistics,
)


def check(device: Backend, got: Any, want: Any) -> None:
    for result, expected in zip(got, want, strict=True):
        assert (result is None) == (expected is None)
        if result is not None:
            np.testing.assert_allclose(device.asnumpy(result), expected, rtol=1e-12)


def of_few(device: Backend, x: np.ndarray, y: np.ndarray, *arguments: Any) -> Any:
    from tests.private import kendall_gpu as passes

    on_device = device.asarray(x)
    return passes.statistics_of_few(on_device, on_device if y is x else device.asarray(y), *arguments)


# One sample; a block for all; blocks that share a pair; of two tiles, and what is left over of groups of 32.
@pytest.mark.parametrize(("n", "p"), [(0, 2), (1, 2), (2, 2), (45, 6), (257, 6), (700, 3), (2100, 2)])
@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize("deletion", [False, True])
def test_matrices(device: Backend, n: int, p: int, others: bool, deletion: bool) -> None:
    A, B = columns(max(n, 1), p)[:n], None
    if others:
        B = (10 * columns(max(n, 1), 4, seed=1)[:n]).clip(-99, 99).astype(np.int16)
    if n == 45 and deletion:
        A = with_gaps(A)
    null = Null("auto", "two-sided")
    want = tau_statistics(kendall_matrix_on_cpu(A, B, deletion=deletion), "b", null, 0)
    pairing, complete = "all" if others else "upper", 0 if deletion else n
    check(device, of_few(device, A, A if B is None else B, pairing, 0, "b", null, complete), want)


@pytest.mark.parametrize("variant", statistics.VARIANTS)
@pytest.mark.parametrize("dtypes", [("float64", "float64"), ("float32", "float16"), ("int64", "float32")])
def test_rows(device: Backend, variant: str, dtypes: tuple[str, str]) -> None:
    """Of every order and kind of ties, some of whose samples are missing; any strides."""
    x, y = columns(300, 9).T, with_gaps(columns(300, 9, seed=1)).T[::-1]
    with np.errstate(invalid="ignore"):
        x, y = np.where(np.isfinite(x), 100 * x, 0).astype(dtypes[0])[:, ::2], y.astype(dtypes[1])[:, ::2]
    for null in (None, Null("asymptotic", "less"), Null("auto", "greater")):
        want = tau_statistics(kendall_pairs_on_cpu(x, y), variant, null, 140)
        check(device, of_few(device, x, y, "alike", 1, variant, null, 140), want)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_integers_that_look_like_nan(device: Backend, dtype: str) -> None:
    """The keys of the largest integers are those of NaN among floats, beside which they are values."""
    limits = np.iinfo(dtype)
    x = np.array([[limits.max, limits.max - 1, 5, limits.min, limits.max]], dtype)
    y = np.array([[1, np.nan, 3, 2, 7]], f"f{x.itemsize}")
    null = Null("auto", "two-sided")
    want = tau_statistics(kendall_pairs_on_cpu(x, y), "c", null, 0)
    check(device, of_few(device, x, y, "alike", 1, "c", null, 0), want)


def test_a_call_asks_for_one_kernel(emulated_device: None) -> None:
    from benchmarks.perf import launched

    A = columns(100, 5)
    for call in (
        lambda: cukde.kendall_matrix(A, pvalue=True),
        lambda: cukde.kendall_matrix(A, A[:, ::-1].astype(np.float32), nan_policy="omit"),
        lambda: cukde.kendalltau(A[:, 0], A[:, 1]),
    ):
        with launched.noted() as found:
            call()
        assert {name for _, name, _ in found} == {"kendall_comparisons"}


def test_many_comparisons_are_left_to_other_ways() -> None:
    assert few_on_gpu(25, 100, wide=True)
    assert few_on_gpu(1, 16_000, wide=True)
    assert not few_on_gpu(1, 20_000, wide=True)
    assert not few_on_gpu(10_000, 1000, wide=False)
    assert not few_on_gpu(100_000, 2, wide=False)
