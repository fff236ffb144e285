"""Few queries at many data on the CPU, whose values are looked at on the way, against float64."""

from __future__ import annotations

from typing import Any

import numba  # noqa: F401 - which few pairs go without, where it is not loaded
import numpy as np
import pytest

import cukde
from cukde.density.pairs.cpu import few_queries
from tests import reference, tolerances
from tests.density.judge import Judge

pytestmark = pytest.mark.small


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Outputs of passes that have served."""
    found: list[Any] = []
    sums = few_queries.Call._sums

    def noted(self: few_queries.Call, h: float, output: Any) -> Any:
        out = sums(self, h, output)
        if out is not None:
            found.append(output)
        return out

    monkeypatch.setattr(few_queries.Call, "_sums", noted)
    return found


def case(n: int, m: int, d: int, dtype: str = "float32") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng([n, m, d])
    X, Y = rng.standard_normal((n, d)), rng.standard_normal((m, d))
    X[::7] += 30
    X += 1e3
    Y += 1e3
    Y[-1] += 200  # far from all data
    weights = rng.exponential(size=n) * 10.0 ** rng.uniform(-30, 0, n)
    weights[::5] = 0
    return X.astype(dtype), Y.astype(dtype), weights


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n", "m", "d"), [(9000, 3, 2), (5000, 8, 3), (30_000, 1, 4), (4000, 16, 17), (700, 50, 100)])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_function(taken: list[Any], n: int, m: int, d: int, dtype: str, weighted: bool) -> None:
    X, Y, w = case(n, m, d, dtype)
    weights = w if weighted else None
    h = 0.8
    judge = Judge("cpu", X, Y, h, weights)
    judge.density(cukde.kde(X, Y, h, weights=weights), cukde.kde(X, Y, h, weights=weights, log=True))
    log_p, gradient = cukde.density_and_score(X, Y, h, weights=weights)
    judge.logs(log_p)
    judge.score(gradient, cukde.score(X, Y, h, weights=weights))
    judge.laplace(cukde.laplace_kde(X, Y, h, weights=weights))
    assert taken == ["sum", "sum", "moments", "moments", "laplace"]
    log_positive, condition = reference.log_positive(X, Y, h, weights)
    got = cukde.positive_kde(X, Y, h, weights=weights, mass=1.0, log=True)
    tolerances.check_log(got, log_positive, judge.allowed * condition)


def test_sums_are_those_of_double_precision_whatever_the_dtype() -> None:
    X, Y, _ = case(20_000, 4, 40)
    want = reference.log_kde(X, Y, 0.8)
    np.testing.assert_allclose(cukde.kde(X, Y, 0.8, log=True), want, rtol=np.finfo("f4").eps)


def test_the_same_bits_on_every_run() -> None:
    X, Y, _ = case(50_000, 5, 20)
    first = cukde.score(X, Y, 0.8)
    for _ in range(3):
        np.testing.assert_array_equal(cukde.score(X, Y, 0.8), first)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["X", "Y"])
def test_what_is_not_finite_is_refused(bad: float, where: str) -> None:
    X, Y, _ = case(9000, 3, 4)
    (X if where == "X" else Y)[2, 1] = bad
    for function in (cukde.kde, cukde.score, cukde.density_and_score, cukde.laplace_kde):
        with pytest.raises(ValueError, match=f"{where} .*finite|{where} must"):
            function(X, Y, 0.8)


def test_unchecked_values_are_as_in_passes_of_many_queries() -> None:
    X, Y, _ = case(9000, 3, 4)
    Y[1, 0] = np.nan
    got = cukde.kde(X, Y, 0.8, check_finite=False)
    assert np.isnan(got[1])
    assert np.isfinite(got[[0, 2]]).all()


@pytest.mark.parametrize("weights", [np.full(9000, -1.0), np.zeros(9000), np.full(9000, np.nan), np.ones(8999)])
def test_weights_are_refused_as_they_are_of_many_queries(weights: np.ndarray) -> None:
    X, Y, _ = case(9000, 3, 4)
    with pytest.raises(ValueError, match="weights"):
        cukde.kde(X, Y, 0.8, weights=weights)


def test_points_too_far_out_are_refused() -> None:
    X, Y, _ = case(9000, 3, 4, "float64")
    X[0] = 1e200
    with pytest.raises(ValueError, match="bandwidth"):
        cukde.kde(X, Y, 1e-100)
