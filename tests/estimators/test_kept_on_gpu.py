"""What a fitted estimator keeps on a GPU: its results are those of a fresh one, bit for bit."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest

from cukde import KernelDensity
from cukde.core.plan import only
from tests.conftest import Backend

pytest.importorskip("cupy", reason="needs CuPy: install the test extra")


class Way(NamedTuple):
    """A pass that keeps something, under a name."""

    name: str
    d: int
    dtype: str = "float32"
    options: Mapping[str, Any] = MappingProxyType({})


WAYS = {
    "f16": Way("operand", 3),
    "f16 of full depth": Way("operand", 16),
    "f16 of covariances": Way("operand", 3, options={"bandwidth": [0.5, 0.6, 0.7]}),
    "f16 of laplace": Way("operand", 3, options={"method": "laplace"}),
    "f64": Way("operand", 3, "float64"),
    "f64 of debiased data": Way("operand", 3, "float64", {"method": "sd"}),
    "wide": Way("operand", 70, options={"bandwidth": 3.0}),
    "wide f64": Way("operand", 70, "float64", {"bandwidth": 3.0}),
    "left out": Way("order", 3),
    "left out by products": Way("order", 8),
    "plane": Way("cells", 2),
    "space": Way("cells", 3),
    "line": Way("order of a line", 1),
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, device: Backend) -> Iterator[Way]:
    """A way, which is taken whatever the sizes are."""
    chosen = WAYS[request.param]
    passes = {"order": ["skipping"], "cells": ["plane"], "order of a line": ["line"]}.get(chosen.name, [])
    with only(*passes):
        yield chosen


def _made(fitted: KernelDensity, name: str) -> Any:
    return fitted._problem_kept[-1][0].options.kept._made[name][-1]


def _sample(rows: int, way: Way, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, way.d)).astype(way.dtype)


def _fresh(fitted: KernelDensity, X: Any, w: Any = None) -> KernelDensity:
    return KernelDensity(**fitted.get_params()).fit(X, sample_weight=w)


def _same(device: Backend, way: Way) -> Callable[[np.ndarray, np.ndarray], None]:
    """Compare results: where pairs are left out, sums of a GPU are in no fixed order."""
    if (device.name, way.name) == ("cupy", "order"):
        return functools.partial(np.testing.assert_allclose, rtol=1e-5)
    return np.testing.assert_array_equal


def test_later_calls_start_from_what_the_first_made(device: Backend, way: Way) -> None:
    X, w = device.asarray(_sample(150, way, 0)), device.asarray(np.arange(1.0, 151.0))
    fitted = KernelDensity(**{"bandwidth": 0.5, **way.options}).fit(X)
    fitted.score_samples(device.asarray(_sample(9, way, 1)))
    first = _made(fitted, way.name)
    Y = device.asarray(0.5 * _sample(30, way, 2))
    got = device.asnumpy(fitted.score_samples(Y))
    assert _made(fitted, way.name) is first
    check = _same(device, way)
    check(got, device.asnumpy(_fresh(fitted, X).score_samples(Y)))

    # Other queries or another fit ask for other things.
    wider = device.asarray(_sample(12, way, 3).astype(np.float64))
    for data, weights, queries in ((X, None, wider), (X, w, Y), (X + 1, w, Y), (X, None, Y)):
        if queries is Y:
            fitted.fit(data, sample_weight=weights)
            fitted.score_samples(wider)
        got = device.asnumpy(fitted.score_samples(queries))
        check(got, device.asnumpy(_fresh(fitted, data, weights).score_samples(queries)))


def test_far_queries_ask_for_other_operands(device: Backend) -> None:
    """Points far out have other terms in float16, and others are for the gradient."""
    way = WAYS["f16"]
    X, Y = device.asarray(_sample(150, way, 0)), _sample(9, way, 1)
    fitted = KernelDensity(bandwidth=0.5).fit(X)
    for scale in (1, 3, 1, 100, 1):
        queries = device.asarray(scale * Y)
        for method in ("score_samples", "grad_log_density"):
            got = device.asnumpy(getattr(fitted, method)(queries))
            np.testing.assert_array_equal(got, device.asnumpy(getattr(_fresh(fitted, X), method)(queries)))


def test_a_changed_bandwidth_asks_for_other_operands(device: Backend) -> None:
    way = WAYS["f16"]
    X, Y = device.asarray(_sample(150, way, 0)), device.asarray(_sample(9, way, 1))
    fitted = KernelDensity(bandwidth=0.5).fit(X)
    fitted.score_samples(Y)
    fitted.bandwidth_ = 0.7
    got = device.asnumpy(fitted.score_samples(Y))
    want = device.asnumpy(KernelDensity(bandwidth=0.7).fit(X).score_samples(Y))
    np.testing.assert_array_equal(got, want)


def test_work_of_another_stream_makes_its_own(device: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one stream makes might not be there yet when another reads it."""
    way = WAYS["f16"]
    X, Y = device.asarray(_sample(150, way, 0)), device.asarray(_sample(9, way, 1))
    fitted = KernelDensity(bandwidth=0.5).fit(X)
    want = fitted.score_samples(Y)
    first = _made(fitted, "operand")
    monkeypatch.setattr("cukde.core.gpu.device.stream", lambda: 1)
    np.testing.assert_array_equal(device.asnumpy(fitted.score_samples(Y)), device.asnumpy(want))
    assert _made(fitted, "operand") is not first
