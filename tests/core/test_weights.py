"""Only the ratios of weights matter: results are the same for weights times any power of two that float64 holds."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import cukde
from tests import reference
from tests.public_calls import CALLS, Call, Draw

SCALES = st.sampled_from([2.0**1021, 2.0**500, 2.0**-500, 2.0**-1020])
"""Of weights below 8: sums of several overflow, or are near the least number."""

FEW = settings(max_examples=2, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))

WEIGHTED = [
    name
    for name in CALLS
    if not name.startswith(("plot.", "perf.", "KernelDensity.", "gaussian_kde.", "dask.block_boxes", "warmup"))
    and any("weights" in argument for argument in CALLS[name](Draw(0)).kwargs)
]


def _weights(n: int, rng: np.random.Generator) -> np.ndarray:
    """Weights of few bits, one of them 0 where there are several: powers of two keep all ratios."""
    w = rng.integers(1, 8, n) / 8.0
    w[3:4] = 0
    return w


def _numbers(result: Any) -> np.ndarray:
    if isinstance(result, cukde.gaussian_kde):
        result = result.weights, result.covariance, result.neff
    (result,) = dask.compute(result)
    if isinstance(result, cukde.Regions | list):
        return np.concatenate([_numbers(each) for each in result])
    if not isinstance(result, tuple):
        return np.asarray(result, np.float64).ravel()
    return np.concatenate([_numbers(each) for each in result if not isinstance(each, str | tuple)])


def _of_scaled(call: Call, scale: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    n = call.args[0].shape[-1] if call.function is cukde.gaussian_kde else len(call.args[0])
    rows = {"weights": n, "denominator_weights": 7}
    weights = {name: _weights(rows[name], rng) * scale for name in rows if name in call.kwargs}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _numbers(replace(call, kwargs=call.kwargs | weights)())


@pytest.mark.parametrize("name", WEIGHTED)
@FEW
@given(seed=st.integers(0, 99), scale=SCALES)
def test_of_functions(name: str, seed: int, scale: float) -> None:
    def call() -> Call:
        return CALLS[name](Draw(seed))

    got, want = (_of_scaled(call(), each, seed) for each in (scale, 1.0))
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-300)


@FEW
@given(seed=st.integers(0, 99), scale=SCALES)
def test_of_estimators(seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(30, 2))
    w = _weights(30, rng)
    blocks = da.from_array(X, chunks=(7, 2))
    for method, kernel in (("kde", "gaussian"), ("sd", "gaussian"), ("positive", "gaussian"), ("kde", "tophat")):
        one, other = (
            cukde.KernelDensity(bandwidth=0.7, method=method, kernel=kernel).fit(data, sample_weight=weights)
            for data, weights in ((X, w * scale), (X, w))
        )
        np.testing.assert_array_equal(one.sample(9, random_state=1), other.sample(9, random_state=1))
        np.testing.assert_allclose(one.score_samples(X), other.score_samples(X), rtol=1e-12)
    drawn = [
        cukde.KernelDensity(bandwidth=0.7).fit(blocks, sample_weight=weights).sample(9, random_state=1)
        for weights in (w, w * scale, da.from_array(w * scale, chunks=7))
    ]
    np.testing.assert_array_equal(drawn[1:], drawn[:1] * 2)


@settings(FEW, max_examples=12)
@given(
    logs=st.lists(st.floats(-280, 0), min_size=2, max_size=6),
    log_scale=st.floats(-20, 300),
    blocks=st.sampled_from([None, 1, 2]),
)
def test_rows_left_out_of_weights_of_any_size(logs: list[float], log_scale: float, blocks: int | None) -> None:
    """The weight that is left is that of the others, however small it is beside the row's own; without a warning."""
    w = 10 ** (np.array(logs) - max(logs) + log_scale)
    X = np.arange(float(len(w)))[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if blocks is None:
            got = cukde.kde(X, X, 1.0, weights=w, leave_one_out=True, log=True)
        else:
            lazy = da.from_array(X, chunks=(blocks, 1))
            got = cukde.kde(lazy, lazy, 1.0, weights=w, leave_one_out=True, log=True).compute()
    of_others = [reference.log_kde(np.delete(X, j, 0), X[j : j + 1], 1.0, np.delete(w, j))[0] for j in range(len(w))]
    np.testing.assert_allclose(got, of_others, rtol=1e-12, atol=1e-12)
