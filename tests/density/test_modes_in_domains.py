"""Modes on domains with walls and periods, and of Dask arrays, against modes of the data and all their images."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest

import cukde
from tests.conftest import Backend

RNG = np.random.default_rng(0)
WAITS = np.concatenate([RNG.exponential(1, 90), RNG.normal(4, 0.3, 60)])
ANGLES = np.concatenate([RNG.normal(0, 15, 90), RNG.normal(170, 20, 60)])
BOTH = np.stack([ANGLES, np.concatenate([RNG.exponential(0.5, 90), RNG.beta(5, 1, 60) * 3])], axis=1)
BOTH = BOTH[BOTH[:, 1] <= 3]
DOMAIN: dict[str, Any] = {"bounds": [None, (0, 3)], "periods": [360, None]}


def in_order(found: Any, backend: Backend) -> tuple[np.ndarray, np.ndarray]:
    """Points and labels, in ascending order of the points."""
    points = backend.asnumpy(found.points)
    points = points[:, None] if points.ndim == 1 else points
    order = np.lexsort(points.T[::-1])
    rank = np.argsort(order)
    return points[order], rank[backend.asnumpy(found.labels)]


@pytest.mark.parametrize("side", [1, -1])
def test_a_wall_mirrors_the_data(backend: Backend, side: int) -> None:
    """Modes inside are those of the data and their mirror images; one lies on the wall, and is reported there."""
    x = side * WAITS
    bounds = [(0, None) if side == 1 else (None, 0)]
    found = cukde.modes(backend.asarray(x), 0.3, bounds=bounds)
    points, labels = in_order(found, backend)
    everywhere, all_labels = in_order(cukde.modes(np.concatenate([x, -x]), 0.3), Backend("numpy"))
    want = np.where(abs(everywhere) < 1e-6, 0, everywhere)
    inside = side * want[:, 0] >= 0
    assert (want == 0).any()
    np.testing.assert_allclose(points, want[inside], rtol=0, atol=1e-6)
    assert (points == 0).any()
    np.testing.assert_array_equal(labels, all_labels[: len(x)] - (np.flatnonzero(inside)[0]))
    log_p = cukde.kde(x, points[:, 0], 0.3, log=True, bounds=bounds)
    np.testing.assert_allclose(np.sort(backend.asnumpy(found.log_density)), np.sort(log_p), rtol=0, atol=1e-9)


def test_a_turn_changes_nothing_but_where_modes_are(backend: Backend) -> None:
    """A mode at a period's end is one, with the rows on both sides of it."""
    found = in_order(cukde.modes(backend.asarray(ANGLES), 12.0, periods=[360]), backend)
    assert ((found[0] >= 0) & (found[0] < 360)).all()
    for turn in (90.0, 360.0, -3600.0 + 1e-9):
        points, labels = in_order(cukde.modes(backend.asarray(ANGLES + turn), 12.0, periods=[360]), backend)
        back = (points - turn) % 360
        order = np.argsort(back[:, 0])
        away = abs(back[order] - found[0])
        assert np.minimum(away, 360 - away).max() < 1e-4
        np.testing.assert_array_equal(np.argsort(order)[labels], found[1])
    on_end = np.array([-1.0, 1.0, 359.0, 180.0])
    points = cukde.modes(backend.asarray(on_end), 20.0, periods=[360]).points
    np.testing.assert_allclose(np.sort(backend.asnumpy(points))[-1], 359.666667, atol=1e-3)
    points = cukde.modes(backend.asarray(on_end[:2]), 20.0, periods=[360]).points
    np.testing.assert_array_equal(backend.asnumpy(points), [0.0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_several_columns_have_no_slope_at_modes(either: Backend, dtype: str) -> None:
    """With deviations; and a labelled row climbs to its mode by plain steps of mean shift."""
    backend = either
    x, h = BOTH.astype(dtype), np.array([15.0, 0.2])
    seeds = x[::9]
    found = cukde.modes(backend.asarray(x), h, seeds=backend.asarray(seeds), **DOMAIN)
    points, labels = backend.asnumpy(found.points).astype(np.float64), backend.asnumpy(found.labels)
    assert found.points.dtype == np.dtype(dtype)
    assert (points[:, 1] == 0).any()
    slope = cukde.score(x.astype(np.float64), points, h, **DOMAIN) * h
    assert abs(slope).max() < (1e-5 if dtype == "float64" else 1e-3)
    z = seeds.astype(np.float64)
    for _ in range(500):
        z = z + h**2 * cukde.score(x.astype(np.float64), z, h, **DOMAIN)
        z[:, 1] = np.clip(z[:, 1], 0, 3)
    away = abs((z - points[labels]) / h)
    away[:, 0] = np.minimum(away[:, 0], 360 / 15 - away[:, 0])
    assert (away.max(axis=1) < 0.05).all()


def test_modes_of_two_walls_far_from_zero(backend: Backend) -> None:
    x = 1e4 + np.array([0.0, 0.02, 0.5, 0.51, 1.0, 0.97])
    points = backend.asnumpy(cukde.modes(backend.asarray(x), 0.05, bounds=[(1e4, 1e4 + 1)]).points)
    np.testing.assert_allclose(np.sort(points), 1e4 + np.array([0, 0.505, 1]), atol=1e-7)
    assert {1e4, 1e4 + 1} < set(points.tolist())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"h": np.eye(2)}, "h must be a number or 2 deviations for modes with bounds or periods; got a covariance"),
        ({"seeds": np.array([[0.0, 4.0], [0.0, 1.0]])}, "seeds must lie within bounds; 1 of 2 rows lie outside"),
        ({"bounds": [None, (1, 3)]}, r"X must lie within its bounds; \d+ of \d+ rows have column 1 outside"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], message: str) -> None:
    given = {"h": 1.0} | DOMAIN | options
    with pytest.raises(ValueError, match=message):
        cukde.modes(BOTH, **given)
    if "bounds" not in options:
        with pytest.raises(ValueError, match=message):
            cukde.modes(da.from_array(BOTH, chunks=(40, 2)), **({"seeds": BOTH[:3]} | given))


class TestDask:
    @pytest.mark.parametrize("name", ["number", "deviations", "covariance", "domain", "line"])
    def test_modes_are_those_of_plain_arrays(self, name: str) -> None:
        x = RNG.normal(size=(150, 3)) if name == "covariance" else BOTH
        h = {"number": 1.0, "covariance": 0.2 * np.cov(x.T)}.get(name, np.array([15.0, 0.2]))
        if name == "line":
            x, h = WAITS, 0.3
        w = RNG.uniform(0.5, 1, len(x))
        options: dict[str, Any] = DOMAIN if name == "domain" else {}
        options = {"seeds": x[::5], **options}
        want = cukde.modes(x, h, weights=w, **options)
        lazy = da.from_array(x, chunks=(60, *x.shape[1:]))
        got = cukde.modes(lazy, h, weights=da.from_array(w, chunks=60), **options)
        assert isinstance(got.points, np.ndarray)
        np.testing.assert_allclose(got.points, want.points, rtol=0, atol=2e-6 * np.max(h))
        np.testing.assert_allclose(got.log_density, want.log_density, rtol=0, atol=1e-9)
        np.testing.assert_array_equal(got.labels, want.labels)

    def test_dtypes_and_warnings(self) -> None:
        x = BOTH.astype(np.float32)
        with pytest.warns(cukde.ConvergenceWarning, match="seeds had not reached a maximum after 1 steps") as caught:
            found = cukde.modes(da.from_array(x, chunks=(60, 2)), [15.0, 0.2], seeds=x[:40], max_iterations=1)
        assert caught[0].filename == __file__
        assert found.points.dtype == np.float32
