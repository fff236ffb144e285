"""Regions as polygons: rings, areas in the plane and on a sphere, and GeoJSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

EARTH = 6371.0072
"""Radius of the sphere that has the area of the Earth, in km."""

Polygon = list[np.ndarray]
"""Rings of shape (k, 2) whose last point is the first: the outer one counter-clockwise, then holes clockwise."""


class Region(NamedTuple):
    """The region where a density of two columns is at least ``level``: see :func:`cukde.regions`."""

    mass: float
    level: float
    polygons: list[Polygon]
    areas: np.ndarray
    masses: np.ndarray
    area_error: float

    @property
    def area(self) -> float:
        """Area of all polygons, without their holes."""
        return float(self.areas.sum())

    @property
    def __geo_interface__(self) -> dict[str, Any]:
        """A GeoJSON feature, as Shapely, GeoPandas and others read it."""
        coordinates = [[ring.tolist() for ring in polygon] for polygon in self.polygons]
        return {
            "type": "Feature",
            "geometry": {"type": "MultiPolygon", "coordinates": coordinates},
            "properties": {"mass": self.mass, "level": self.level, "area": self.area, "area_error": self.area_error},
        }

    def to_geojson(self) -> str:
        """The same as text by RFC 7946, which takes coordinates to be longitude and latitude in degrees."""
        return json.dumps(self.__geo_interface__)

    def _repr_html_(self) -> None:
        """Notebooks show the text."""

    def __repr__(self) -> str:
        holes = sum(len(polygon) - 1 for polygon in self.polygons)
        return (
            f"Region(mass={self.mass:g}, level={self.level:.4g}, polygons: {len(self.polygons)}, holes: {holes}, "
            f"area={self.area:.6g} +- {self.area_error:.1g})"
        )


class Regions(tuple[Region, ...]):
    """Regions of several masses, in their order."""

    __slots__ = ()

    @property
    def __geo_interface__(self) -> dict[str, Any]:
        """A GeoJSON collection of features."""
        return {"type": "FeatureCollection", "features": [region.__geo_interface__ for region in self]}

    def to_geojson(self) -> str:
        """The same as text."""
        return json.dumps(self.__geo_interface__)


def outlined(axes: Sequence[np.ndarray], density: np.ndarray, level: float) -> list[Polygon]:
    """Polygons around what has a density of at least a level, on a grid of two axes, (g_0, g_1).

    Where the grid ends, rings close along its end.
    """
    from contourpy import FillType, contour_generator

    generator = contour_generator(x=axes[0], y=axes[1], z=density.T, fill_type=FillType.OuterOffset)
    low, high = np.array([[axis[0], axis[-1]] for axis in axes]).T
    out = []
    for points, offsets in zip(*generator.filled(level, np.inf), strict=True):
        points = points.clip(low, high)  # which rounding may leave
        rings = [points[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
        rings = [ring for ring in rings if len(ring) > 3 and signed_area(ring)]
        if rings:
            out.append([_turning(ring, counter_clockwise=k == 0) for k, ring in enumerate(rings)])
    return out


def _turning(ring: np.ndarray, *, counter_clockwise: bool) -> np.ndarray:
    return ring if (signed_area(ring) > 0) == counter_clockwise else ring[::-1].copy()


def signed_area(ring: np.ndarray) -> float:
    """Area within a ring, positive where it turns counter-clockwise."""
    moved = ring - ring[0]
    _, exponents = np.frexp(abs(moved).max(axis=0))
    x, y = np.ldexp(moved, -exponents).T  # at most 1: products keep in range, and powers of two change no digit
    return float(np.ldexp(0.5 * (x[:-1] * y[1:] - x[1:] * y[:-1]).sum(), exponents.sum()))


def spherical_area(ring: np.ndarray) -> float:
    """The same in km^2 of longitudes and latitudes in degrees, with edges that are straight in these."""
    longitude, latitude = np.radians(ring).T
    step, rise = np.diff(longitude), np.diff(latitude)
    # The mean of the sine of the latitude along an edge.
    mean = np.sin(0.5 * (latitude[:-1] + latitude[1:])) * np.sinc(rise / (2 * np.pi))
    return -float((step * mean).sum()) * EARTH**2
