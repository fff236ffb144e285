"""Small problems on a GPU, from their arguments to their results in one launch or two."""

from __future__ import annotations

import numpy as np
import pytest

import cukde
from cukde.density.arguments import prepare
from tests import reference, tolerances
from tests.conftest import BACKENDS, Backend
from tests.density import test_api
from tests.density.test_api import Case

pytestmark = pytest.mark.small
pytest.importorskip("cupy", reason="needs CuPy: install the test extra")

CASES = [
    Case(d, h, (0.0, 1e4)[i % 2], ("uniform", "skewed", "zeros")[i % 3], "scalar")
    for i, (d, h) in enumerate(
        [
            (1, 0.1),
            (2, 0.1),
            (3, 0.03),
            (4, 3.0),
            (5, 0.5),
            (8, 0.1),
            (9, 0.5),
            (16, 0.5),
            (17, 3.0),
            (32, 0.1),
            (33, 0.5),
            (64, 3.0),
            (100, 1.0),
            (300, 3.0),
        ]
    )
]
SMALL = {f"small_{sums}_{real}" for sums in ("sum", "moments", "laplace") for real in ("f32", "f64")}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give accuracy tests their cases, on the emulated device and a GPU."""
    if "case" in metafunc.fixturenames:
        metafunc.parametrize(
            ("backend", "dtype", "case"),
            [
                pytest.param(b.values[0], dtype, case, id=f"{b.id}-{dtype}-{case.id}", marks=b.marks)
                for b in BACKENDS[1:]
                for dtype in ("float32", "float64")
                for case in CASES
            ],
            indirect=["backend"],
        )


class TestAccuracy(test_api.TestAccuracy):
    """Every function with every dimension, offset and kind of weights, by the oracles of larger problems."""

    test_kernel_sum_matches_reference = None  # it has no such path


def _sample(n: int, m: int, d: int, dtype: str = "float32") -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([n, m, d])
    return rng.standard_normal((n, d)).astype(dtype), rng.standard_normal((m, d)).astype(dtype)


@pytest.mark.parametrize("check_finite", [True, False])
@pytest.mark.parametrize("d", [3, 40])
def test_launches(device: Backend, launched: list[str], d: int, check_finite: bool) -> None:
    X, Y = map(device.asarray, _sample(200, 30, d))
    for function in (cukde.kde, cukde.score, cukde.density_and_score, cukde.laplace_kde):
        launched.clear()
        function(X, Y, 0.5, check_finite=check_finite)
        assert len(launched) == 1, function
        assert launched[0] in SMALL
    launched.clear()
    cukde.sd_kde(X, Y, 0.5, score_bandwidth=0.4, check_finite=check_finite)
    assert launched == ["small_moments_f32", "small_sum_f32"]


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n", "m", "d"), [(1500, 2, 1), (400, 30, 3), (3001, 3, 16), (1000, 3, 65)])
def test_a_positive_density_takes_one_launch(
    device: Backend, launched: list[str], n: int, m: int, d: int, dtype: str, weighted: bool
) -> None:
    """Of both sums of the Laplace correction, which splits merge; its logarithm is finite far away."""
    X, Y = _sample(n, m, d, dtype)
    Y[0] *= 1e4
    h, w = 0.4 * d**0.5, np.random.default_rng(0).random(n) if weighted else None
    weights = None if w is None else device.asarray(w)
    problem, _ = prepare(device.asarray(X), device.asarray(Y), h, weights, may_be_unchecked=True)
    with problem.device:
        density, log_density = (
            device.asnumpy(problem.laplace_density(log=log, positive=True)) for log in (False, True)
        )
    assert len(launched) == 2
    assert set(launched) <= SMALL
    want, condition = reference.log_positive(X, Y, h, w)
    allowed = condition * tolerances.log_error("gpu", dtype, reference.nearness(X, Y, h, w).exponent)
    tolerances.check_log(log_density, want, allowed)
    tolerances.check_density(density, want, allowed)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n", "m", "d"), [(5000, 1, 2), (3001, 3, 16), (1030, 5, 32), (1030, 5, 33), (700, 3, 260)])
def test_splits_merge(device: Backend, dtype: str, n: int, m: int, d: int) -> None:
    """Few queries of many data: blocks share the data, and every run gives the same bits."""
    X, Y = _sample(n, m, d, dtype)
    Y[0] += 3
    h = 0.4 * d**0.5
    w = np.random.default_rng(0).random(n)
    data, queries, weights = map(device.asarray, (X, Y, w))
    got = device.asnumpy(cukde.kde(data, queries, h, weights=weights, log=True))
    exponent = reference.nearness(X, Y, h, w).exponent
    tolerances.check_log(got, reference.log_kde(X, Y, h, w), tolerances.log_error("gpu", dtype, exponent))
    gradient = device.asnumpy(cukde.score(data, queries, h, weights=weights))
    np.testing.assert_allclose(gradient, reference.score(X, Y, h, w), rtol=1e-3, atol=1e-4 / h)
    for function in (cukde.kde, cukde.score):
        first, second = (device.asnumpy(function(data, queries, h)) for _ in range(2))
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_points_on_a_line(device: Backend, launched: list[str], dtype: str) -> None:
    """Vectors, summed in double: as accurate as the fast Gauss transform."""
    X, Y = (a[:, 0] for a in _sample(400, 60, 1, dtype))
    data, queries = device.asarray(X), device.asarray(Y)
    allowed = tolerances.LINE[dtype].value + np.finfo(dtype).eps
    for got, want in (
        (cukde.kde(data, queries, 0.3, log=True), reference.log_kde(X, Y, 0.3)),
        (cukde.sd_kde(data, queries, 0.3, score_bandwidth=0.4, log=True), reference.sd_kde(X, Y, 0.3, 0.4, log=True)),
    ):
        tolerances.check_log(device.asnumpy(got), want, np.full(60, allowed))
    got = device.asnumpy(cukde.score(data, queries, 0.3))
    assert got.shape == Y.shape
    np.testing.assert_allclose(got, reference.score(X, Y, 0.3).reshape(-1), rtol=1e-5, atol=1e-5)
    got = device.asnumpy(cukde.debias(data, 0.3))
    np.testing.assert_allclose(got, reference.debias(X, 0.3).reshape(-1), rtol=0, atol=4 * np.finfo(dtype).eps)
    assert set(launched) == {"small_sum_f64", "small_moments_f64"}


@pytest.mark.parametrize("at", ["X", "Y"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_are_named(device: Backend, at: str, value: float) -> None:
    X, Y = _sample(700, 9, 3)
    {"X": X, "Y": Y}[at][-1, 2] = value
    X, Y = map(device.asarray, (X, Y))
    with pytest.raises(ValueError, match=f"{at} must be finite"):
        cukde.kde(X, Y, 1.0)
    if at == "X":
        for call in (lambda: cukde.debias(X, 1.0), lambda: cukde.sd_kde(X, Y, 1.0, score_bandwidth=2.0)):
            with pytest.raises(ValueError, match="X must be finite"):
                call()


def test_odd_weights_are_named(device: Backend) -> None:
    X, Y = map(device.asarray, _sample(300, 9, 3))
    w = np.ones(300)
    w[299] = -1
    with pytest.raises(ValueError, match="must not be negative; the smallest is -1"):
        cukde.kde(X, Y, 1.0, weights=device.asarray(w))
    with pytest.raises(ValueError, match="must not all be zero"):
        cukde.kde(X, Y, 1.0, weights=device.asarray(0 * w))
    w[299] = np.nan
    with pytest.raises(ValueError, match="weights must be finite"):
        cukde.score(X, Y, 1.0, weights=device.asarray(w))


def test_points_too_far_apart_are_refused(device: Backend) -> None:
    X, Y = _sample(300, 9, 3)
    X[5] = 1e19
    with pytest.raises(ValueError, match="must lie within"):
        cukde.kde(device.asarray(X), device.asarray(Y), 1.0)
    with pytest.raises(ValueError, match="must lie within"):
        cukde.sd_kde(device.asarray(X / np.float32(100)), device.asarray(Y), 1e5, score_bandwidth=1e-3)


@pytest.mark.parametrize("scale", [1e-200, 1e-9, 1e30])
def test_weights_of_any_scale(device: Backend, scale: float) -> None:
    """Those that the small kernels do not take go to the others."""
    X, Y = _sample(300, 9, 3)
    w = np.random.default_rng(1).random(300)
    got = device.asnumpy(cukde.kde(*map(device.asarray, (X, Y)), 0.7, weights=device.asarray(scale * w)))
    np.testing.assert_allclose(got, reference.kde(X, Y, 0.7, w), rtol=3e-5)


def test_other_forms_go_to_the_engines(device: Backend, launched: list[str]) -> None:
    """Bandwidths of several numbers, and arrays that the kernels do not read."""
    X, Y = _sample(300, 9, 3)
    expected = reference.kde(X, Y, np.array([0.5, 0.6, 0.7]))
    got = device.asnumpy(cukde.kde(device.asarray(X), device.asarray(Y), [0.5, 0.6, 0.7]))
    np.testing.assert_allclose(got, expected, rtol=3e-5)
    got = device.asnumpy(cukde.sd_kde(device.asarray(X), device.asarray(Y), 0.5, score_bandwidth=[0.5, 0.6, 0.7]))
    np.testing.assert_allclose(got, reference.sd_kde(X, Y, 0.5, np.array([0.5, 0.6, 0.7])), rtol=3e-4)
    assert not set(launched) & set(SMALL)
    whole = device.asarray(np.arange(300)[:, None] % 7), device.asarray(np.arange(9)[:, None] % 5)
    X, Y = (device.xp.concatenate([a, a + 1], axis=1) for a in whole)  # integers
    got = device.asnumpy(cukde.kde(X, Y, 0.5))
    np.testing.assert_allclose(got, reference.kde(device.asnumpy(X), device.asnumpy(Y), 0.5), rtol=1e-12)


@pytest.mark.gpu
def test_a_graph_captures_a_call() -> None:
    import cupy as cp

    X, Y = map(cp.asarray, _sample(2000, 100, 8))
    expected = cukde.sd_kde(X, Y, 0.8)
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        cukde.sd_kde(X, Y, 0.8, check_finite=False)
        stream.begin_capture()
        got = cukde.sd_kde(X, Y, 0.8, check_finite=False)
        graph = stream.end_capture()
        got[...] = 0
        for _ in range(2):
            graph.launch()
        stream.synchronize()
    cp.testing.assert_array_equal(got, expected)
