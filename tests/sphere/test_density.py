"""Densities on the sphere: against SciPy's distribution, quadrature and sums over all pairs by the formula."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import cukde
from cukde import sphere
from cukde.sphere import constant as sphere_constant

_RNG = np.random.default_rng(11)
DIMENSIONS = [2, 3, 4, 17]


def unit(n: int, d: int, seed: int = 0) -> np.ndarray:
    """Unit vectors, more of them on one side."""
    x = np.random.default_rng(seed).normal(size=(n, d)) + np.eye(d)[0]
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))


def reference(X: Any, Y: Any, h: float, weights: Any = None) -> np.ndarray:
    """The log density by SciPy's von Mises-Fisher distribution, one for each point."""
    w = np.full(len(X), 1 / len(X)) if weights is None else weights / weights.sum()
    logs = [stats.vonmises_fisher(x, h**-2).logpdf(Y) for x in X]
    return special.logsumexp(np.array(logs), axis=0, b=w[:, None])


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("h", [0.06, 0.4, 3.0])
def test_it_is_a_mixture_of_von_mises_fisher_distributions(backend: ModuleType, d: int, h: float) -> None:
    X, Y, w = unit(23, d), np.concatenate([unit(9, d, 1), -unit(23, d)[:2]]), _RNG.uniform(0.1, 2, 23)
    at = backend.asarray(X), backend.asarray(Y), h
    for weights in (None, w):
        given = None if weights is None else backend.asarray(weights)
        log_p = backend.asnumpy(sphere.kde(*at, log=True, weights=given))
        expected = reference(X, Y, h, weights)
        np.testing.assert_allclose(log_p, expected, rtol=1e-11, atol=1e-11)
        p = backend.asnumpy(sphere.kde(*at, weights=given))
        np.testing.assert_allclose(p, np.exp(expected), rtol=1e-9)


@pytest.mark.parametrize("h", [0.02, 0.3, 1.2, 50.0])
def test_the_mass_on_circle_and_globe_is_1_by_quadrature(h: float) -> None:
    angles = np.arange(2000) * (2 * np.pi / 2000)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert sphere.kde(unit(7, 2), circle, h).mean() * 2 * np.pi == pytest.approx(1, abs=1e-12)
    nodes, shares = np.polynomial.legendre.leggauss(700)
    globe = np.concatenate([np.c_[np.sqrt(1 - z * z) * circle[::2], np.full(1000, z)] for z in nodes])
    p = sphere.kde(unit(5, 3), globe, h).reshape(700, 1000).mean(axis=1)
    assert 2 * np.pi * (shares @ p) == pytest.approx(1, abs=1e-9 if h > 0.1 else 1e-6)


def test_the_mass_in_four_dimensions_is_1_by_simulation() -> None:
    Y = np.random.default_rng(0).normal(size=(200_000, 4))
    Y /= np.linalg.norm(Y, axis=1, keepdims=True)
    p = sphere.kde(unit(50, 4), Y, 0.5) * 2 * np.pi**2
    assert p.mean() == pytest.approx(1, abs=4 * p.std() / math.sqrt(len(Y)))


@pytest.mark.parametrize("d", [2, 3, 4, 10, 101])
def test_the_constant_has_all_digits(d: int) -> None:
    """Of a narrow kernel it is that of the plane, 1 + kappa^-1 (d - 1) (d - 3) / 8 times; of a wide one 1 / area."""
    area = 2 * np.pi ** (d / 2) / special.gamma(d / 2)
    assert sphere_constant.log_norm(d, 1e7) == pytest.approx(-math.log(area), rel=1e-14, abs=1e-13)
    for h in (1e-3 / d, 1e-6, 1e-8):
        flat = -(d - 1) * math.log(math.sqrt(2 * math.pi) * h) + math.log1p((d - 1) * (d - 3) / 8 * h * h)
        assert sphere_constant.log_norm(d, h) == pytest.approx(flat, rel=2e-15, abs=1e-13)
    if d == 3:
        for kappa in (1e-3, 0.5, 29.9, 30.1, 700.0, 1.3e3, 1e5):
            closed = math.log(kappa / (2 * math.pi)) - math.log1p(-math.exp(-2 * kappa))
            closed = closed if kappa > 1e-2 else math.log(kappa / (4 * math.pi * math.sinh(kappa))) + kappa
            assert sphere_constant.log_norm(3, kappa**-0.5) == pytest.approx(closed, abs=1e-13)
    logs = sphere_constant.log_norms(d, np.array([0.0, 20.0, 29.99, 30.01, 100.0, 4e3]))
    assert (np.diff(logs) > 0).all()  # over each change of the method


def test_values_that_no_float_holds() -> None:
    nu, kappa = 600.0, 35.0  # I_600(35) is 1e-660
    first = nu * math.log(kappa / 2) - special.gammaln(nu + 1) + kappa**2 / 4 / (nu + 1) - kappa
    assert sphere_constant.log_scaled_bessel(nu, np.array([kappa]))[0] == pytest.approx(first, abs=1e-3)


@pytest.mark.parametrize("d", [2, 3, 6])
def test_scores_are_tangents_and_differences_of_logarithms(backend: ModuleType, d: int) -> None:
    X, Y, h = unit(30, d), unit(8, d, 5), 0.35
    s = backend.asnumpy(sphere.score(backend.asarray(X), backend.asarray(Y), h))
    assert abs((s * Y).sum(axis=1)).max() < 1e-12
    for _ in range(3):
        v = _RNG.normal(size=Y.shape)
        v -= (v * Y).sum(axis=1, keepdims=True) * Y
        v /= np.linalg.norm(v, axis=1, keepdims=True)
        ahead, behind = (np.cos(t) * Y + np.sin(t) * v for t in (1e-5, -1e-5))
        slope = (sphere.kde(X, ahead, h, log=True) - sphere.kde(X, behind, h, log=True)) / 2e-5
        np.testing.assert_allclose((s * v).sum(axis=1), slope, rtol=1e-6, atol=1e-7)


def test_float32_near_its_points_loses_nothing() -> None:
    """Points a thousandth apart, whose products are 1 in float32."""
    lon = np.arange(12) * 1e-3
    X = sphere.from_degrees(lon, 0 * lon + 40).astype(np.float32)
    h = np.radians(2e-3)
    p = sphere.kde(X, X, h)
    assert p.dtype == np.float32
    exact = X.astype(float)  # the same points; their norms are off by rounding, which is no part of a distance
    chords = ((exact[:, None] - exact) ** 2).sum(axis=2)
    expected = np.exp(-chords / (2 * h * h)).mean(axis=1) / (2 * np.pi * h * h)
    np.testing.assert_allclose(p, expected, rtol=1e-5)


def test_leave_one_out_and_levels(backend: ModuleType) -> None:
    X, w, h = unit(41, 3), _RNG.uniform(0.5, 2, 41), 0.3
    for weights in (None, w):
        ones = np.ones(41) if weights is None else weights
        rest = [np.arange(41) != i for i in range(41)]
        expected = np.array([reference(X[r], X[[i]], h, ones[r])[0] for i, r in enumerate(rest)])
        given = None if weights is None else backend.asarray(weights)
        found = sphere.kde(backend.asarray(X), None, h, log=True, leave_one_out=True, weights=given)
        np.testing.assert_allclose(backend.asnumpy(found), expected, rtol=1e-10)
        level = sphere.hdr_threshold(backend.asarray(X), h, [0.5, 0.9], log=True, weights=given)
        for t, mass in zip(backend.asnumpy(level), (0.5, 0.9), strict=True):
            order = np.argsort(-expected)
            held = np.cumsum(ones[order]) / ones.sum()
            assert t == pytest.approx(expected[order][np.searchsorted(held, mass - 1e-12)], rel=1e-10)


def test_new_points_of_the_same_distribution_are_in_the_region() -> None:
    of = stats.vonmises_fisher([0, 0, 1], 8)
    X, Y = (of.rvs(2000, random_state=seed) for seed in (1, 2))
    t = sphere.hdr_threshold(X, "reference", 0.9)
    assert (sphere.kde(X, Y, "reference") >= t).mean() == pytest.approx(0.9, abs=0.03)


def test_degrees_and_vectors(backend: ModuleType) -> None:
    lon, lat = np.array([0, 90, 180, 270, -180, 33.3, 200, 7]), np.array([0, 0, 0, 0, 0, -45.5, 80, 90.0])
    X = sphere.from_degrees(backend.asarray(lon), backend.asarray(lat))
    expected = np.stack(
        [
            np.cos(np.radians(lat)) * np.cos(np.radians(lon)),
            np.cos(np.radians(lat)) * np.sin(np.radians(lon)),
            np.sin(np.radians(lat)),
        ],
        axis=1,
    )
    np.testing.assert_allclose(backend.asnumpy(X), expected, atol=1e-15)
    assert backend.asnumpy(X)[:4].tolist() == [[1, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0]]  # exactly
    back = [backend.asnumpy(a) for a in sphere.to_degrees(X)]
    np.testing.assert_allclose((back[0] - lon)[:-1] % 360 % 359.9999999, 0, atol=1e-6)
    np.testing.assert_allclose(back[1], lat, atol=1e-12)
    assert sphere.from_degrees(lon.astype(np.float32), lat.astype(np.float32)).dtype == np.float32
    assert sphere.from_degrees([0, 90], [0, 0]).dtype == np.float64


def test_the_date_line_and_the_poles_are_like_any_place() -> None:
    X, Y = unit(40, 3), unit(9, 3, 2)
    turn = np.linalg.qr(_RNG.normal(size=(3, 3)))[0]
    np.testing.assert_allclose(sphere.kde(X @ turn, Y @ turn, 0.2), sphere.kde(X, Y, 0.2), rtol=1e-11)


def test_frames_and_names() -> None:
    pandas = pytest.importorskip("pandas")
    columns = ["x", "y", "z"]
    X, Y = (pandas.DataFrame(unit(n, 3, n), columns=columns) for n in (20, 5))
    plain = sphere.kde(X.to_numpy(), Y.to_numpy(), 0.3)
    found = sphere.kde(X, Y[["z", "x", "y"]], 0.3)
    assert isinstance(found, pandas.Series)
    np.testing.assert_array_equal(found, plain)
    gradient = sphere.score(X, Y, 0.3)
    assert list(gradient.columns) == columns
    places = pandas.DataFrame({"lon": [10.0, 190.0], "lat": [5.0, -5.0]})
    assert sphere.from_degrees(places["lon"], places["lat"]).shape == (2, 3)


WRONG: dict[str, tuple[Any, str]] = {
    "long": (lambda: sphere.kde(unit(5, 3) * 1.001, None, 0.1), "X must hold unit vectors; got norms from 1.001 to"),
    "degrees": (lambda: sphere.kde([[10.0, 50.0]], None, 0.1), "write cukde.sphere.from_degrees"),
    "queries": (lambda: sphere.kde(unit(5, 3), unit(5, 3) * 2, 0.1), "Y must hold unit vectors"),
    "angles": (lambda: sphere.kde([0.1, 0.2], None, 0.1), "at least two columns"),
    "several": (lambda: sphere.kde(unit(5, 3), None, [0.1, 0.2, 0.1]), "h must be"),
    "zero": (lambda: sphere.kde(unit(5, 3), None, 0.0), "h must be"),
    "huge": (lambda: sphere.kde(unit(5, 3), None, 1e9), "h must be from 1e-08 to 1e\\+08 radians"),
    "rule": (lambda: sphere.kde(unit(5, 3), None, "scott"), "'reference', 'cross_validate'; got 'scott'"),
    "nan": (lambda: sphere.kde(np.full((5, 3), np.nan), None, 0.1), "X must be finite|NaN"),
    "beyond": (lambda: sphere.from_degrees([0.0], [91.0]), "lat must be from -90 to 90 degrees"),
    "lengths": (lambda: sphere.from_degrees([0.0, 1.0], [9.0]), "lon and lat must have shape"),
    "plane": (lambda: sphere.to_degrees(unit(5, 2)), "X must have shape \\(n, 3\\)"),
    "zeros": (lambda: sphere.to_degrees(np.diag([1.0, 0.0, 2.0])), "row 1 is of zeros"),
    "one": (lambda: sphere.reference(np.repeat(unit(1, 3), 5, axis=0)), "a single direction"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(name: str) -> None:
    call, message = WRONG[name]
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_collections_are_refused() -> None:
    da = pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match="Dask"):
        sphere.kde(da.from_array(unit(5, 3)), None, 0.1)


def test_options_of_the_passes() -> None:
    X, Y = unit(60, 3).astype(np.float32), unit(9, 3, 4).astype(np.float32)
    exact = sphere.kde(X.astype(float), Y.astype(float), 0.2)
    for options in ({"precision": "float64"}, {"rtol": 1e-3}, {"deterministic": True}, {"check_finite": False}):
        np.testing.assert_allclose(sphere.kde(X, Y, 0.2, **options), exact, rtol=2e-3)
    holes = np.concatenate([X, np.full((1, 3), np.nan, np.float32)])
    np.testing.assert_allclose(sphere.kde(holes, Y, 0.2, nan_policy="omit"), exact, rtol=1e-4)
    assert cukde.perf.cost("sphere.kde", n=1000, m=10, d=3).pairs == 10_000
