"""Longitude and latitude in degrees, and unit vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.entry.over_arrays import over_arrays
from cukde.core.types import Array, ArrayLike
from cukde.density import check as density_check


@over_arrays
def from_degrees(lon: ArrayLike, lat: ArrayLike) -> Array:
    """Return unit vectors of places that are given by longitude and latitude, in degrees.

    Parameters
    ----------
    lon, lat : array_like, shape (n,)
        Longitude, in any turn (190 is -170), and latitude from -90 to 90; of a frame two columns,
        ``from_degrees(frame["lon"], frame["lat"])``.

    Returns
    -------
    array, shape (n, 3)
        cos(lat) cos(lon), cos(lat) sin(lon), sin(lat), of the dtype of the arguments, at least float32. NumPy in,
        NumPy out; CuPy in, CuPy out.

    Raises
    ------
    TypeError, ValueError
        For anything but two arrays of real, finite numbers of the same length, and for latitudes beyond 90 degrees.

    Examples
    --------
    >>> import cukde
    >>> cukde.sphere.from_degrees([0.0, 90.0, 45.0], [0.0, 0.0, 90.0]).round(6)
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])

    Notes
    -----
    Latitudes are those of a sphere: on the Earth, which is flatter at the poles, angles differ by up to 0.2 degrees.
    Cost: a few passes over the data. Accuracy: that of float64, rounded to the dtype; float32 keeps places to half a
    metre. Right angles are exact.
    """
    backend = dispatch.backend(lon, lat=lat)
    with backend.device_of(lon):
        xp = backend.xp
        columns = [core_check.array(name, a, backend) for name, a in (("lon", lon), ("lat", lat))]
        if columns[0].ndim != 1 or columns[0].shape != columns[1].shape:
            raise ValueError(
                f"lon and lat must have shape (n,), the same; got {columns[0].shape} and {columns[1].shape}"
            )
        dtype = density_check.result_dtype(*columns)
        a, b = (each.astype(np.float64) for each in columns)
        core_check.finite({"lon": bool(xp.isfinite(a).all()), "lat": bool(xp.isfinite(b).all())})
        if bool((abs(b) > 90).any()):
            raise ValueError(f"lat must be from -90 to 90 degrees; got {float(b.min()):g} to {float(b.max()):g}")
        (cos_a, sin_a), (cos_b, sin_b) = _turned(a, xp), _turned(b, xp)
        return xp.stack([cos_b * cos_a, cos_b * sin_a, sin_b], axis=1).astype(dtype, copy=False)


def _turned(degrees: Any, xp: Any) -> tuple[Any, Any]:
    """Cosine and sine, exact at right angles."""
    quarters = xp.rint(degrees / 90)
    rest = (degrees - 90 * quarters) * (np.pi / 180)
    cos, sin, turn = xp.cos(rest), xp.sin(rest), quarters % 4
    cosine = xp.where(turn == 0, cos, xp.where(turn == 1, -sin, xp.where(turn == 2, -cos, sin)))
    return cosine + 0.0, xp.where(turn == 0, sin, xp.where(turn == 1, cos, xp.where(turn == 2, -sin, -cos))) + 0.0


@over_arrays
def to_degrees(X: ArrayLike) -> tuple[Array, Array]:
    """Return longitude and latitude, in degrees, of vectors of three coordinates.

    Parameters
    ----------
    X : array_like, shape (n, 3)
        Vectors of any length but 0, such as modes of :func:`cukde.sphere.modes`.

    Returns
    -------
    lon : array, shape (n,)
        From -180 to 180.
    lat : array, shape (n,)
        From -90 to 90. Of the dtype of ``X``, at least float32.

    Raises
    ------
    TypeError, ValueError
        For anything but an array of real, finite numbers with three columns, and for a row of zeros.

    Examples
    --------
    >>> import cukde
    >>> lon, lat = cukde.sphere.to_degrees(cukde.sphere.from_degrees([190.0], [30.0]))
    >>> lon.round(6), lat.round(6)
    (array([-170.]), array([30.]))

    Notes
    -----
    Cost: a few passes over the data. Accuracy: that of float64, near poles and equator too, rounded to the dtype.
    """
    backend = dispatch.backend(X)
    with backend.device_of(X):
        xp = backend.xp
        out = core_check.array("X", X, backend)
        if out.ndim != 2 or out.shape[1] != 3:
            raise ValueError(f"X must have shape (n, 3), vectors in space; got {out.shape}")
        core_check.finite({"X": bool(xp.isfinite(out).all())})
        dtype = density_check.result_dtype(out)
        if bool((zeros := ~out.any(axis=1)).any()):
            raise ValueError(f"X must hold vectors of a length above 0; row {int(zeros.argmax())} is of zeros")
        x, y, z = out.astype(np.float64).T
        lon, lat = xp.arctan2(y, x), xp.arctan2(z, xp.hypot(x, y))
        return tuple((a * (180 / np.pi)).astype(dtype, copy=False) for a in (lon, lat))
