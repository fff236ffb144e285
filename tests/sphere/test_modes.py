"""Modes on the sphere: against plain mean shift, and where the answer is known."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

import cukde
from cukde import sphere
from tests.sphere.test_density import unit


def _climbed(X: np.ndarray, y: np.ndarray, h: float) -> np.ndarray:
    """Where a point ends that goes to the mean of its neighbours, again and again."""
    for _ in range(20_000):
        mean = np.exp((X @ y - 1) / h**2) @ X
        mean /= np.linalg.norm(mean)
        if np.linalg.norm(mean - y) < 1e-13:
            break
        y = mean
    return y


@pytest.mark.parametrize(("d", "h"), [(2, 0.25), (3, 0.3), (5, 0.35)])
def test_points_climb_as_by_plain_mean_shift(backend: ModuleType, d: int, h: float) -> None:
    X = unit(60, d)
    found = sphere.modes(backend.asarray(X), h)
    points, labels = backend.asnumpy(found.points), backend.asnumpy(found.labels)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1, atol=1e-12)
    ends = np.array([_climbed(X, x, h) for x in X])
    np.testing.assert_allclose(ends, points[labels], atol=1e-5)
    log_p = backend.asnumpy(found.log_density)
    np.testing.assert_allclose(log_p, sphere.kde(X, points, h, log=True), rtol=1e-9)
    assert (np.diff(log_p) <= 1e-9).all()
    assert abs(sphere.score(X, points, h)).max() < 1e-4


def test_groups_over_the_date_line_and_at_the_pole() -> None:
    rng = np.random.default_rng(0)
    lon, lat = rng.normal(size=(2, 200)) * 4 + [[180.0], [-20.0]]
    polar = np.c_[rng.normal(size=(100, 2)) * 0.05, np.ones(100)]
    X = np.concatenate([sphere.from_degrees(lon, lat), polar / np.linalg.norm(polar, axis=1, keepdims=True)])
    found = sphere.modes(X, np.radians(6))
    assert len(found.points) == 2
    assert (np.bincount(found.labels) == [200, 100]).all() or (np.bincount(found.labels) == [100, 200]).all()
    at = dict(zip(np.bincount(found.labels), np.transpose(sphere.to_degrees(found.points)), strict=True))
    assert abs(abs(at[200][0]) - 180) < 2
    assert at[200][1] == pytest.approx(-20, abs=2)
    assert at[100][1] > 88
    few = sphere.modes(X, np.radians(6), seeds=X[:1])
    assert len(few.points) == 1


def test_float32_weights_and_frames() -> None:
    pandas = pytest.importorskip("pandas")
    X = unit(50, 3)
    w = (np.arange(50) < 25).astype(float)
    found = sphere.modes(X, 0.3, weights=w)
    alone = sphere.modes(X[:25], 0.3)
    np.testing.assert_allclose(found.points[: len(alone.points)], alone.points, atol=1e-6)
    single = sphere.modes(X.astype(np.float32), 0.3)
    assert single.points.dtype == np.float32
    np.testing.assert_array_equal(single.labels, sphere.modes(X, 0.3).labels)
    frame = pandas.DataFrame(X, columns=["x", "y", "z"])
    assert list(sphere.modes(frame, 0.3).points.columns) == ["x", "y", "z"]


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="seeds must hold unit vectors"):
        sphere.modes(unit(5, 3), 0.3, seeds=unit(2, 3) * 3)
    with pytest.raises(ValueError, match="tolerance"):
        sphere.modes(unit(5, 3), 0.3, tolerance=-1.0)
    with pytest.warns(cukde.ConvergenceWarning):
        sphere.modes(unit(50, 3), 0.3, max_iterations=1)
