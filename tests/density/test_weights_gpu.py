"""Weights on a GPU: their logarithms and ranges, what a weighted call launches, and that it waits no more than once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cukde
from tests.conftest import Backend
from tests.tolerances import DENSITY, check

pytest.importorskip("cupy", reason="needs CuPy: install the test extra")

LOG_ZERO = -1e30


def _weights(kind: str, n: int) -> np.ndarray:
    rng = np.random.default_rng(n)
    w = rng.uniform(size=n)
    if kind == "decades":
        w = 10.0 ** -rng.uniform(0, 300, n)
        w[rng.random(n) < 0.3] = 0
        w[0] = 1
    elif kind == "all of the range":
        w = 10.0 ** rng.uniform(-307, 307, n)
    elif kind == "huge":
        w *= 1.7e308
    elif kind == "tiny":
        w *= 1e-318
    elif kind == "one":
        w = np.where(np.arange(n) == n // 2, 3.0, 0.0)
    elif kind == "integers":
        w = rng.integers(0, 9, n) + (np.arange(n) == 0)
    return w.astype(np.float32) if kind == "float32" else w


def _expected(w: np.ndarray) -> np.ndarray:
    """In extended precision, whose exponents are as many as are needed."""
    w = w.astype(np.longdouble)
    with np.errstate(divide="ignore"):
        logs = np.log(w) - np.log(w.sum())
    return np.maximum(logs, LOG_ZERO).astype(np.float64)


@pytest.mark.parametrize("n", [1, 255, 257, 4096, 30_011])
@pytest.mark.parametrize(
    "kind", ["float32", "uniform", "decades", "all of the range", "huge", "tiny", "one", "integers"]
)
def test_logarithms(device: Backend, kind: str, n: int) -> None:
    """Of weights in one part and in several, on the emulated device in at most 12."""
    from cukde.density.pairs.gpu import weights

    w = _weights(kind, n)
    got, want = device.asnumpy(weights.logarithms(device.asarray(w))), _expected(w)
    assert got.dtype == np.float64
    zero = w == 0
    assert (got[zero] == LOG_ZERO).all()
    check(np.abs(got - want)[~zero], np.asarray(1e-14 + 4e-16 * np.abs(want[~zero])), "log weight")


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_is_no_weight_leaves_no_number(device: Backend, wrong: float) -> None:
    from cukde.density.pairs.gpu import weights

    w = np.ones(5000)
    w[4500] = wrong
    assert np.isnan(device.asnumpy(weights.logarithms(device.asarray(w)))).all()
    assert np.isnan(device.asnumpy(weights.logarithms(device.asarray(np.zeros(3))))).all()


def test_a_strided_view(device: Backend) -> None:
    from cukde.density.pairs.gpu import weights

    w = _weights("uniform", 600)
    np.testing.assert_allclose(device.asnumpy(weights.logarithms(device.asarray(w)[::3])), _expected(w[::3]), 1e-14)


EXTREMES = {
    "both signs": [-3.5, 2.0, 0.0],
    "negative": [-3.5, -2.0, -1e-310],
    "positive": [5e-324, 1.7e308],
    "negative zero": [-0.0],
    "infinity": [1.0, np.inf, -2.0],
    "both infinities": [-np.inf, 1.0, np.inf],
    "no number": [1.0, np.nan, -np.inf],
    "negative no number": [1.0, -np.nan],
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [0, 7000])
@pytest.mark.parametrize("kind", EXTREMES)
def test_ranges(device: Backend, kind: str, n: int, dtype: str) -> None:
    """Of an array alone and among others, beside flags of all."""
    from cukde.core.gpu import survey

    with np.errstate(over="ignore"):
        a = np.asarray(EXTREMES[kind], dtype)
    a = np.concatenate([a, np.full(n, a[0])])
    others = np.ones((4, 2)), np.arange(5.0)
    X = np.zeros((3, 2), dtype)
    looked = survey.look(
        *map(device.asarray, (X, X)), None, [device.asarray(others[0])], list(map(device.asarray, (others[1], a)))
    )
    assert looked.squared == 0
    assert looked.finite == [True, True, True, True, bool(np.isfinite(a).all())]
    np.testing.assert_array_equal(looked.ranges, [(0.0, 4.0), (a.min(), a.max())])


@pytest.mark.parametrize(
    ("w", "message"),
    [
        ([-0.5, 1.0], r"^weights must not be negative; the smallest is -0.5: "),
        ([0.0, 0.0], r"^weights must not all be zero$"),
        ([np.nan, -1.0], r"weights"),
    ],
)
def test_errors(device: Backend, w: list[float], message: str) -> None:
    X = device.asarray(np.eye(2))
    with pytest.raises(ValueError, match=message):
        cukde.kde(X, X, 1.0, weights=device.asarray(np.asarray(w)))


@pytest.mark.gpu
@pytest.mark.small  # of 70 dimensions few pairs can be captured: they take no product of cuBLAS
@pytest.mark.parametrize("call", [cukde.kde, cukde.score, cukde.laplace_kde])
@pytest.mark.parametrize("d", [5, 70])
def test_weighted_calls_in_a_cuda_graph(call: Any, d: int) -> None:
    """A capture fails where the call waits for the device; up to 64 columns another pass takes it."""
    import cupy as cp

    rng = np.random.default_rng(0)
    X, Y = cp.asarray(rng.standard_normal((300, d)), "f4"), cp.asarray(rng.standard_normal((20, d)), "f4")
    w, h = cp.asarray(rng.uniform(size=300)), 0.4 * d**0.5
    stream = cp.cuda.Stream(non_blocking=True)
    pool = cp.cuda.MemoryPool()
    with cp.cuda.using_allocator(pool.malloc), stream:
        want = call(X, Y, h, weights=w, check_finite=False)
        stream.begin_capture()
        got = call(X, Y, h, weights=w, check_finite=False)
        stream.end_capture().launch(stream)
        np.testing.assert_allclose(got.get(), want.get(), rtol=2 * DENSITY["gpu", "float32"].value, atol=1e-4)
