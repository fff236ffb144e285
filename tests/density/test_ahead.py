"""Passes that are launched before their values are looked at: the same bits, and the same errors, as after a look."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import cukde
from cukde.core.plan import only
from cukde.density import backends
from cukde.density.arguments import prepare
from cukde.density.plan import gpu as plan_gpu
from tests.conftest import Backend

pytestmark = pytest.mark.small
pytest.importorskip("cupy", reason="needs CuPy: install the test extra")

NEAR, FAR, BEYOND = 3.0, 13.0, 60.0  # bandwidths from the middle to the farthest points


def _positive(X: Any, Y: Any, h: float, **options: Any) -> Any:
    problem, _ = prepare(X, Y, h, **options, may_be_unchecked=True)
    with problem.device:
        return problem.laplace_density(log=False, positive=True)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "kde": cukde.kde,
    "log": lambda X, Y, h, **options: cukde.kde(X, Y, h, log=True, **options),
    "laplace": cukde.laplace_kde,
    "positive": _positive,
    "score": cukde.score,
    "both": cukde.density_and_score,
    "sd": cukde.sd_kde,
}


@pytest.fixture
def launched(launched: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The same; none is of small problems."""
    from cukde.density.pairs.gpu import ahead

    monkeypatch.setattr(ahead, "_last", {})
    with only("f16 ahead"):
        yield launched


def _sample(d: int, reach: float, dtype: str = "float32") -> tuple[np.ndarray, np.ndarray]:
    """Points around (5, ...), the farthest of them so many units away."""
    rng = np.random.default_rng(d)
    X, Y = (rng.standard_normal((rows, d)) for rows in (130, 70))
    length = np.linalg.norm(X, axis=1)
    X[length.argmax()] *= reach / length.max()
    Y *= min(1.0, reach / np.linalg.norm(Y, axis=1).max())
    return (X + 5).astype(dtype), (Y + 5).astype(dtype)


def _arrays(device: Backend, result: Any) -> list[np.ndarray]:
    return [device.asnumpy(a) for a in (result if isinstance(result, tuple) else (result,))]


def _equal(device: Backend, got: Any, want: Any, name: str) -> None:
    for a, b in zip(_arrays(device, got), _arrays(device, want), strict=True):
        assert a.dtype == b.dtype
        if device.name == "cupy" and name == "sd":  # its sums are added in no fixed order
            np.testing.assert_allclose(a, b, rtol=1e-4)
        else:
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("reach", [NEAR, FAR, BEYOND])
@pytest.mark.parametrize("d", [2, 3, 16, 17])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_after_a_look(
    device: Backend, launched: list[str], monkeypatch: pytest.MonkeyPatch, name: str, d: int, reach: float
) -> None:
    X, Y = map(device.asarray, _sample(d, reach))
    results, looked = [], []
    for _ in range(3):
        launched.clear()
        results.append(FUNCTIONS[name](X, Y, 1.0))
        looked.append("survey" in launched)
    # Points far out may ask for another form than was guessed at first, and those beyond for another engine.
    assert looked == [looked[0], reach == BEYOND, reach == BEYOND]
    assert not looked[0] or reach > NEAR
    monkeypatch.setattr(backends, "ahead", lambda backend: None)
    want = FUNCTIONS[name](X, Y, 1.0)
    for got in results:
        _equal(device, got, want, name)


@pytest.mark.parametrize("options", [{"precision": "tf32"}, {"deterministic": True}, {"rtol": 0}])
@pytest.mark.parametrize("name", ["log", "score", "sd"])
def test_options(
    device: Backend, launched: list[str], monkeypatch: pytest.MonkeyPatch, name: str, options: dict[str, Any]
) -> None:
    X, Y = map(device.asarray, _sample(2, NEAR))
    got = FUNCTIONS[name](X, Y, 1.0, **options)
    assert ("survey" in launched) == ("deterministic" in options and name == "sd")
    monkeypatch.setattr(backends, "ahead", lambda backend: None)
    _equal(device, got, FUNCTIONS[name](X, Y, 1.0, **options), name)


@pytest.mark.parametrize("at", ["X", "Y"])
@pytest.mark.parametrize("value", [np.nan, -np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_wrong_is_named(device: Backend, launched: list[str], name: str, value: float, at: str) -> None:
    X, Y = _sample(3, NEAR)
    {"X": X, "Y": Y}[at][-1, 2] = value
    X, Y = map(device.asarray, (X, Y))
    with pytest.raises(ValueError, match="must lie within" if value == 3e38 else f"{at} must be finite"):
        FUNCTIONS[name](X, Y, 1.0)
    assert "survey" in launched


@pytest.mark.parametrize(
    ("X", "Y", "h"),
    [
        (np.ones((5, 3), np.float32), np.ones((2, 2), np.float32), 1.0),
        (np.ones((5, 3), np.float32), np.ones((2, 3), np.float32), -1.0),
        (np.ones((0, 3), np.float32), np.ones((2, 3), np.float32), 1.0),
        (np.ones((5, 3), np.complex64), np.ones((2, 3), np.float32), 1.0),
    ],
)
def test_forms_are_checked(device: Backend, launched: list[str], X: Any, Y: Any, h: float) -> None:
    for function in FUNCTIONS.values():
        with pytest.raises((ValueError, TypeError)):
            function(device.asarray(X), device.asarray(Y), h)
    assert not launched


@pytest.mark.parametrize("method", ["kde", "laplace", "sd"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_fitted_estimator_prepares_queries_alone(
    device: Backend, launched: list[str], monkeypatch: pytest.MonkeyPatch, method: str, weighted: bool
) -> None:
    X, Y = _sample(3, NEAR)
    queries = [device.asarray(a) for a in (Y, 4 * Y - 15, 60 * Y, Y)]
    fitted = cukde.KernelDensity(method=method, precision="float32")
    fitted.fit(device.asarray(X), sample_weight=device.asarray(np.arange(1.0, 131.0)) if weighted else None)
    operation = "laplace" if method == "laplace" else "kde"
    for _ in range(2):
        got = [fitted.score_samples(a) for a in queries]
        for _ in range(8):  # after queries that are beyond the engine some are looked at first
            launched.clear()
            fitted.score_samples(queries[0])
        assert launched == ["prepare_f16", f"{operation}_f16x2", f"{operation}_ieee", "finish_f16"]
        if method != "laplace":
            fitted.grad_log_density(queries[0])
            assert "survey" not in launched
    Y = Y.copy()
    Y[0, 0] = np.nan
    with pytest.raises(ValueError, match="X must be finite"):
        fitted.score_samples(device.asarray(Y))
    monkeypatch.setattr(backends, "ahead", lambda backend: None)
    for a, ordinary in zip(queries, got, strict=True):
        np.testing.assert_array_equal(device.asnumpy(ordinary), device.asnumpy(fitted.score_samples(a)))


@pytest.mark.parametrize("name", ["score", "sd"])
def test_densities_may_be_few_where_scores_are_not(
    device: Backend, launched: list[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Then neither goes back to a look, nor does a fitted estimator."""
    monkeypatch.setattr(plan_gpu, "small_serves", lambda n, m, d, precision, output="sum", **_: output != "moments")
    X, Y = map(device.asarray, _sample(3, NEAR))
    got = FUNCTIONS[name](X, Y, 1.0)
    assert "survey" not in launched
    fitted = cukde.KernelDensity(bandwidth=1.0).fit(X)
    fitted.grad_log_density(Y[:5])  # looks at the data
    launched.clear()
    gradients = fitted.grad_log_density(Y)
    assert "survey" not in launched
    monkeypatch.setattr(backends, "ahead", lambda backend: None)
    _equal(device, got, FUNCTIONS[name](X, Y, 1.0), name)
    _equal(device, gradients, cukde.score(X, Y, 1.0), name)
