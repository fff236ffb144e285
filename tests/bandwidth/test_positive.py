"""Cross-validation of the positive estimate, against fits without each row."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from cukde import bandwidth
from tests import reference
from tests.conftest import Backend

pytestmark = pytest.mark.filterwarnings("ignore::cukde.BandwidthRangeWarning")  # few are tried

X = np.concatenate([np.random.default_rng(5).standard_normal(25), np.random.default_rng(6).normal(5, 0.5, 15)])[:, None]
W = np.random.default_rng(7).exponential(size=40)


def expected(X: np.ndarray, h: float, w: np.ndarray | None, objective: str) -> float:
    """Of one column, whose integrals are sums over a fine grid."""
    y, step = np.linspace(-8, 12, 4001, retstep=True)
    p = np.exp(reference.positive(X, y, h, w).log)
    mass = p.sum() * step
    w = np.ones(len(X)) if w is None else w
    rest = [np.arange(len(X)) != j for j in range(len(X))]
    logs = np.array([reference.positive(X[r], X[j : j + 1], h, w[r]).log[0] for j, r in enumerate(rest)])
    share = w / w.sum()
    if objective == "likelihood":
        return float(share @ logs - np.log(mass))
    return float(2 * share @ np.exp(logs) / mass - (p * p).sum() * step / mass**2)


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_likelihoods_are_those_of_fits_without_a_row(backend: Backend, weighted: bool) -> None:
    w, tried = W if weighted else None, [0.2, 0.5, 1.0]
    found = bandwidth.cross_validate(backend.asarray(X), "positive", tried, weights=backend.asarray(w))
    want = [expected(X, h, w, "likelihood") for h in tried]
    np.testing.assert_allclose(backend.asnumpy(found.scores), want, rtol=0, atol=1e-9)
    assert found.bandwidth.shape == (1,)


def test_least_squares_is_off_by_the_error_of_its_points() -> None:
    tried = [0.3, 0.6]
    found = bandwidth.cross_validate(X, "positive", tried, objective="least_squares")
    np.testing.assert_allclose(found.scores, [expected(X, h, None, "least_squares") for h in tried], rtol=0, atol=1e-3)


@pytest.mark.parametrize("objective", ["likelihood", "least_squares"])
def test_finds_a_bandwidth_for_each_column(objective: Literal["likelihood", "least_squares"]) -> None:
    rng = np.random.default_rng(1)
    data = rng.standard_normal((60, 2)) * [1, 30]
    found: Any = bandwidth.cross_validate(data, "positive", objective=objective, per_dimension=True)
    assert found.bandwidth[1] / found.bandwidth[0] == pytest.approx(30, rel=0.9)
    assert found.score >= found.scores.max()


def test_on_a_circle() -> None:
    angles = np.random.default_rng(0).normal(0, 20, (60, 1))
    on_line = bandwidth.cross_validate(angles, "positive", [8.0, 15.0])
    around = bandwidth.cross_validate(angles, "positive", [8.0, 15.0], periods=[360])
    np.testing.assert_allclose(around.scores, on_line.scores, rtol=0, atol=1e-6)
