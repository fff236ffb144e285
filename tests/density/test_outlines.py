"""Regions as polygons, against Shapely, sums over fine grids and areas that are known."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import cukde
from cukde.density.compositions.polygons import EARTH, spherical_area
from tests.conftest import Backend

RNG = np.random.default_rng(0)


def ring(n: int) -> np.ndarray:
    """Points around a circle, and a group beside them."""
    angles = RNG.uniform(0, 2 * np.pi, n)
    around = 3 * np.stack([np.cos(angles), np.sin(angles)], axis=1) + 0.4 * RNG.normal(size=(n, 2))
    return np.concatenate([around, 0.3 * RNG.normal(size=(n // 6, 2)) + [8, 0]])


def on_a_grid(X: Any, h: Any, level: float, low: Any, high: Any, **options: Any) -> tuple[float, float]:
    """Area and mass of a region, by the cells of a fine grid whose centres lie in it."""
    axes = [a + (np.arange(800) + 0.5) * (b - a) / 800 for a, b in zip(low, high, strict=True)]
    p = cukde.evaluate_grid(X, axes, h, **options)
    cell = float(np.prod([g[1] - g[0] for g in axes]))
    return float((p >= level).sum()) * cell, float(p[p >= level].sum()) * cell


@pytest.mark.parametrize(
    "h", [0.3, (0.3, 0.25), [[0.1, 0.02], [0.02, 0.08]]], ids=["number", "deviations", "covariance"]
)
def test_polygons_areas_and_masses(h: Any) -> None:
    X = ring(1200)
    found = cukde.regions(X, h, [0.5, 0.9])
    for region in found:
        area, mass = on_a_grid(X, h, region.level, (-6, -6), (11, 6))
        assert region.area == pytest.approx(area, rel=2e-3)
        assert region.masses.sum() == pytest.approx(mass, rel=2e-3)
        assert region.level == pytest.approx(float(cukde.hdr_threshold(X, h, region.mass)), rel=1e-9)
        for polygon in region.polygons:
            for k, each in enumerate(polygon):
                assert (each[0] == each[-1]).all()
                x, y = each.T
                turn = (x[:-1] * y[1:] - x[1:] * y[:-1]).sum()
                assert (turn > 0) == (k == 0)  # the outer one counter-clockwise, holes clockwise
                np.testing.assert_allclose(cukde.kde(X, each, h), region.level, rtol=0.1)
    assert sum(len(polygon) - 1 for polygon in found[1].polygons) == 1
    assert len(found[1].polygons) == 2


def test_a_gpu_has_the_same(backend: Backend) -> None:
    X = RNG.normal(size=(backend.size(500, 30), 2))
    want = cukde.regions(X, 1.0, 0.5, accuracy=0.05)
    found = cukde.regions(backend.asarray(X), 1.0, 0.5, accuracy=0.05)
    assert found.area == pytest.approx(want.area, rel=1e-4)
    np.testing.assert_allclose(found.masses, want.masses, rtol=1e-4)


def test_shapely_reads_them() -> None:
    geometry = pytest.importorskip("shapely.geometry")
    found = cukde.regions(ring(1200), 0.3, [0.5, 0.9])
    for region in found:
        shape = geometry.shape(region.__geo_interface__["geometry"])
        assert shape.is_valid
        assert shape.area == pytest.approx(region.area, rel=1e-12)
    collection = json.loads(found.to_geojson())
    assert collection["type"] == "FeatureCollection"
    feature = json.loads(found[1].to_geojson())
    assert feature == collection["features"][1]
    assert feature["properties"] == {
        "mass": 0.9,
        "level": found[1].level,
        "area": found[1].area,
        "area_error": found[1].area_error,
    }


def test_errors_of_areas_are_below_their_estimate() -> None:
    X = ring(600)
    best = cukde.regions(X, 0.4, 0.8, accuracy=1e-5)
    for accuracy in (1e-2, 1e-3, 1e-4):
        found = cukde.regions(X, 0.4, 0.8, accuracy=accuracy)
        assert found.area_error <= accuracy * found.area
        assert abs(found.area - best.area) <= found.area_error + best.area_error


@pytest.mark.long
def test_a_new_point_is_inside_with_the_probability() -> None:
    geometry = pytest.importorskip("shapely.geometry")
    shapely = pytest.importorskip("shapely")
    X, new = RNG.normal(size=(3000, 2)), RNG.normal(size=(3000, 2))
    region = cukde.regions(X, cukde.bandwidth.silverman(X), 0.9)
    inside = shapely.contains_xy(geometry.shape(region.__geo_interface__["geometry"]), *new.T).mean()
    assert inside == pytest.approx(0.9, abs=0.025)


def test_rings_close_at_ends() -> None:
    waits, hours = RNG.exponential(size=800), RNG.vonmises(3.1, 1.0, 800) % (2 * np.pi)
    X = np.stack([waits, hours], axis=1)
    ends: dict[str, Any] = {"bounds": [(0, None), None], "periods": [None, 2 * np.pi]}
    found = cukde.regions(X, [0.15, 0.3], 0.95, **ends)
    area, mass = on_a_grid(X, [0.15, 0.3], found.level, (0, 0), (8, 2 * np.pi), **ends)
    assert found.area == pytest.approx(area, rel=3e-3)
    assert found.masses.sum() == pytest.approx(mass, rel=3e-3)
    points = np.concatenate([each for polygon in found.polygons for each in polygon])
    assert points.min() == 0
    assert points[:, 1].max() == 2 * np.pi


def test_areas_on_a_sphere() -> None:
    octant = np.array([[0, 0], [90, 0], [90, 90], [0, 90], [0, 0.0]])
    assert spherical_area(octant) == pytest.approx(4 * np.pi * EARTH**2 / 8, rel=1e-12)
    assert spherical_area(octant[::-1]) == pytest.approx(-4 * np.pi * EARTH**2 / 8, rel=1e-12)
    X = RNG.normal(size=(400, 2)) * 0.05 + [10, 60]
    flat, curved = cukde.regions(X, 0.02, 0.8), cukde.regions(X, 0.02, 0.8, degrees=True)
    degree = np.pi / 180 * EARTH
    assert curved.area == pytest.approx(flat.area * degree**2 * np.cos(np.radians(60)), rel=3e-3)
    np.testing.assert_allclose(curved.masses, flat.masses, rtol=1e-12)


def test_one_row_twice_and_a_grid_that_is_too_large() -> None:
    found = cukde.regions([[0.0, 1.0], [0.0, 1.0], [3.0, 1.0]], 0.5, 0.5)
    assert len(found.polygons) >= 1
    with pytest.raises(ValueError, match="X must reach over fewer bandwidths"):
        cukde.regions(np.concatenate([ring(60), [[1e6, 0.0]]]), 0.3)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((RNG.normal(size=(9, 3)), 0.5), {}, "X must have two columns"),
        ((RNG.normal(size=(9, 2)), 0.5, 1.0), {}, "mass must lie between"),
        ((RNG.normal(size=(9, 2)), 0.5, [[0.5]]), {}, "mass must be a number, or an array of one dimension"),
        ((RNG.normal(size=(9, 2)) + 99, 0.5), {"degrees": True}, "must hold latitudes"),
        ((RNG.normal(size=(9, 2)), 0.5), {"accuracy": 0}, "accuracy must"),
    ],
)
def test_errors(arguments: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cukde.regions(*arguments, **options)


def test_without_contourpy_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="contourpy, which Matplotlib brings: pip install"):
        cukde.regions(ring(12), 0.3)


@pytest.mark.parametrize("unit", [1e-90, 6e153])
def test_units_of_the_data(backend: Backend, unit: float) -> None:
    X = np.random.default_rng(1).normal(size=(40, 2))
    (got, want) = (cukde.regions(backend.asarray(X * each), 0.5 * each, 0.5, accuracy=0.05) for each in (unit, 1.0))
    assert got.area == pytest.approx(want.area * unit * unit, rel=1e-6)
    np.testing.assert_allclose(got.masses, want.masses, rtol=1e-6)


def test_areas_beyond_the_range_of_float64_are_refused() -> None:
    X = np.random.default_rng(1).normal(size=(40, 2))
    with pytest.raises(ValueError, match=r"X must have regions whose area is less than 1\.8e308"):
        cukde.regions(X * 1e155, 0.5e155, 0.5, accuracy=0.05)


def test_rows_without_neighbours_have_no_level() -> None:
    with pytest.raises(ValueError, match="h must be larger for regions"):
        cukde.regions(np.array([[0.0, 0.0], [100.0, 0.0], [0.0, 100.0]]), 1.0, 0.5)


def test_regions_in_degrees_end_at_the_poles() -> None:
    """The cap beyond 80 degrees, of a density that does not vanish at the pole."""
    X = np.stack([np.tile(np.arange(0, 360, 4.0), 6), np.repeat(np.linspace(80, 90, 6), 90)], axis=1)
    found = cukde.regions(X, [8.0, 2.0], 0.9, degrees=True, periods=[360.0, None], accuracy=0.01)
    assert max(ring[:, 1].max() for polygon in found.polygons for ring in polygon) == 90.0
    assert (found.areas > 0).all()
    low = min(ring[:, 1].min() for polygon in found.polygons for ring in polygon)
    assert found.area == pytest.approx(2 * np.pi * EARTH**2 * (1 - np.sin(np.radians(low))), rel=0.05)
