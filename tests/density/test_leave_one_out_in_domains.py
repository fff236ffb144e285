"""Densities and scores of rows without their own terms between bounds and over periods: those of the other rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cukde
from tests.conftest import Backend

DOMAINS: dict[str, dict[str, Any]] = {
    "two bounds": {"bounds": [(0.0, 1.0), None]},
    "one bound": {"bounds": [(None, 1.0), (0.0, None)]},
    "a period": {"periods": [1.0, None]},
    "a bound and a period": {"bounds": [(0.0, 1.0), None], "periods": [None, 1.5]},
}
FUNCTIONS = {
    "kde": lambda *args, **options: cukde.kde(*args, log=True, **options),
    "laplace_kde": cukde.laplace_kde,
    "score": cukde.score,
}


def rows(n: int) -> np.ndarray:
    """Points in [0, 1) x [0, 1), in a dense half and far apart."""
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(n, 2))
    X[: n // 2] = 0.3 + 0.02 * rng.normal(size=(n // 2, 2))
    return X


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("h", [0.01, [0.03, 0.2], 3.0], ids=["narrow", "of each column", "wide"])
def test_without_each_row(backend: Backend, name: str, domain: str, h: Any) -> None:
    n = backend.size(700, 24)  # beyond 256, rows far from others are halved
    X, function, options = rows(n), FUNCTIONS[name], DOMAINS[domain]
    w = np.linspace(0.5, 2, n)
    x, weights = backend.asarray(X), backend.asarray(w)
    got = backend.asnumpy(function(x, x, h, leave_one_out=True, weights=weights, **options))
    for i in (0, 1, n // 2, n - 1):
        others = np.arange(n) != i
        want = function(X[others], X[i : i + 1], h, weights=w[others], **options)[0]
        np.testing.assert_allclose(got[i], want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("domain", ["two bounds", "a period"])
def test_moved_points_without_their_own(backend: Backend, domain: str) -> None:
    X, h = rows(backend.size(60, 20)), 0.02
    own_out = cukde.debias(backend.asarray(X), h, own_point=False, **DOMAINS[domain])
    moved = backend.asnumpy(own_out)
    mean_shift = h**2 * cukde.score(X, X, h, leave_one_out=True, **DOMAINS[domain])
    squares = (mean_shift**2).sum(axis=1, keepdims=True) / h**2
    shift = mean_shift / np.maximum(1, squares / 2) / 2  # long ones lead nowhere, see cukde.debias
    inside = (X + shift > 0).all(axis=1) & (X + shift < 1).all(axis=1)
    assert inside.sum() > 5
    np.testing.assert_allclose(moved[inside], (X + shift)[inside], rtol=1e-9, atol=1e-12)


def test_rows_of_which_one_has_nearly_all_weight(backend: Backend) -> None:
    X = backend.asarray(np.array([0.2, 0.5, 0.51]))
    options: dict[str, Any] = {"bounds": [(0.0, 1.0)], "log": True, "leave_one_out": True}
    got = backend.asnumpy(cukde.kde(X, X, 0.01, weights=backend.asarray(np.array([1.0, 1e-20, 1e-20])), **options))
    apart = cukde.kde(np.array([0.5, 0.51]), np.array([0.2]), 0.01, bounds=[(0.0, 1.0)], log=True)
    np.testing.assert_allclose(got[0], apart[0], rtol=1e-12)
    assert np.isfinite(got).all()
