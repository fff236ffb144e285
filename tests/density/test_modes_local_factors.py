"""Modes of a density with the local factors of a selection, against plain mean shift and maxima that SciPy finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import cukde
from cukde import bandwidth
from tests import reference
from tests.conftest import Backend


def selected(h: Any) -> bandwidth.Selection:
    """A selection of "abramson" with this bandwidth."""
    return bandwidth.Selection("abramson", np.asarray(h), 0.0, "", ("abramson",), np.array([h]), np.zeros(1))


def mixture(n: int, d: int, seed: int) -> np.ndarray:
    """A wide cloud with heavy tails, and a narrow and a wide normal group in it or beside it."""
    rng = np.random.default_rng([seed, d])
    centres, deviations = rng.normal(size=(2, d)) * 4, np.array([0.2, 1.0])
    parts = [c + s * rng.normal(size=(n // 4, d)) for c, s in zip(centres, deviations, strict=True)]
    return np.concatenate([rng.standard_t(2, size=(n - 2 * (n // 4), d)), *parts])


def bandwidth_of(form: str, d: int) -> Any:
    root = np.eye(d) + 0.2 * np.tri(d, k=-1)
    return {"number": 0.6, "deviations": np.linspace(0.4, 0.9, d), "covariance": 0.4 * root @ root.T}[form]


def plain_mean_shift(X: np.ndarray, z: np.ndarray, h: Any, factors: np.ndarray, weights: Any = None) -> np.ndarray:
    """Where the points go by means of the data with weights w f^-(d+2) K, all pairs in float64."""
    d, w = X.shape[1], np.ones(len(X)) if weights is None else weights
    inverse, z = np.linalg.inv(reference.covariance(h, d)), z.astype(np.float64)
    for _ in range(3000):
        steps = X - z[:, None]
        q = np.einsum("ijk,kl,ijl->ij", steps, inverse, steps) / (2 * factors**2) + (d + 2) * np.log(factors)
        shares = w * np.exp(q.min(axis=1, keepdims=True) - q)
        shift = np.einsum("ij,ijk->ik", shares, steps) / shares.sum(axis=1, keepdims=True)
        z += shift
        if abs(shift).max() < 1e-9:
            return z
    raise AssertionError("the oracle has not converged")


def verify(backend: Backend, X: np.ndarray, h: Any, w: Any = None, **options: Any) -> None:
    """Modes are maxima, and each row has that to which it climbs."""
    out = cukde.modes(backend.asarray(X), selected(h), weights=backend.asarray(w), **options)
    points, heights, labels = map(backend.asnumpy, out[:3])
    factors, x = reference.abramson(X, h, 0.5, w), X.astype(np.float64)
    of_points = reference.local(x, points, h, factors, w)
    near = 1e-5 if X.dtype == np.float64 else 1e-3
    np.testing.assert_allclose(heights, of_points.log, rtol=1e-6, atol=near)
    assert (np.diff(heights) <= near).all()
    ends = plain_mean_shift(x, x, h, factors, w)
    assert abs(points[labels] - ends).max() < near * (1 + abs(ends).max())
    assert len(np.unique(labels)) == len(points)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(
    st.integers(20, 120),
    st.integers(1, 4),
    st.sampled_from(["number", "deviations", "covariance"]),
    st.booleans(),
    st.sampled_from(["float32", "float64"]),
    st.integers(0, 99),
)
def test_clusters_are_those_of_plain_mean_shift(
    n: int, d: int, form: str, weighted: bool, dtype: str, seed: int
) -> None:
    w = np.random.default_rng(seed).exponential(size=n) if weighted else None
    verify(Backend("numpy"), mixture(n, d, seed).astype(dtype), bandwidth_of(form, d), w)


@pytest.mark.parametrize(("d", "form"), [(1, "number"), (2, "covariance"), (3, "deviations")])
def test_on_every_backend(backend: Backend, d: int, form: str) -> None:
    X = mixture(60, d, 1)
    verify(backend, X, bandwidth_of(form, d), np.where(np.arange(60) % 5, 1.0, 0.0))
    some = backend.asarray(X[:7] + 0.1)
    out = cukde.modes(backend.asarray(X), selected(0.6), seeds=some)
    ends = plain_mean_shift(X, X[:7] + 0.1, 0.6, reference.abramson(X, 0.6, 0.5))
    np.testing.assert_allclose(backend.asnumpy(out.points)[backend.asnumpy(out.labels)], ends, atol=1e-5)


def test_modes_of_a_domain() -> None:
    """At a wall and around a period: zeros of the gradient, that seeds all over the domain climb to."""
    X = abs(mixture(120, 2, 7))
    X[:, 1] %= 6.0
    ends: dict[str, Any] = {"bounds": [(0, None), None], "periods": [None, 6.0]}
    found = cukde.modes(X, selected(0.5), **ends)
    density = {"local_factors": bandwidth.abramson(X, 0.5, **ends), "log": True, **ends}
    np.testing.assert_allclose(found.log_density, cukde.kde(X, found.points, 0.5, **density), rtol=1e-9)
    assert (found.points[:, 0] == 0).any()
    around = found.points[:, None] + 1e-3 * np.array([[1, 0], [0, 1], [0, -1], [1, 1], [1, -1]])
    others = cukde.kde(X, around.reshape(-1, 2) % [np.inf, 6.0], 0.5, **density).reshape(len(around), -1)
    assert (others <= found.log_density[:, None] + 1e-12).all()
    grid = np.stack(np.meshgrid(np.linspace(0, 8, 81), np.linspace(0, 5.9, 60)), axis=-1).reshape(-1, 2)
    assert cukde.kde(X, grid, 0.5, **density).max() <= found.log_density[0]
    near = np.linalg.norm(X - found.points[found.labels], axis=1)
    assert np.median(near) < 2.0
