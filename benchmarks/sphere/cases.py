"""Densities on the globe beside scikit-learn's haversine metric and a sum of von Mises-Fisher kernels by NumPy.

Data are places about 40 centres, and queries others of them. Errors are against the sum in float64, with the constant
of the globe; scikit-learn's density has that of the plane.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from benchmarks.record import Case, checked
from cukde import sphere
from cukde.core.dispatch import named, to_host
from tests.tolerances import DENSITY

_CHECKED = 100  # queries, where NumPy sums over all rows


def _places(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Longitude and latitude, in degrees."""
    rng, centres = np.random.default_rng(seed), np.random.default_rng(0)
    of = rng.integers(40, size=n)
    lon = centres.uniform(-180, 180, 40)[of] + rng.normal(scale=6, size=n)
    lat = np.degrees(np.arcsin(centres.uniform(-1, 1, 40)))[of] + rng.normal(scale=6, size=n)
    return lon, np.clip(lat, -90, 90)


def _by_numpy(X: np.ndarray, Y: np.ndarray, h: float) -> np.ndarray:
    """Blocks of exp(kappa (x.y - 1))."""
    kappa = h**-2
    constant = kappa / (2 * math.pi * -math.expm1(-2 * kappa))
    blocks = [np.exp(kappa * (Y[i : i + 64] @ X.T - 1)).mean(axis=1) for i in range(0, len(Y), 64)]
    return constant * np.concatenate(blocks)


def density(backend: str, n: int, m: int, degrees: float, dtype: str) -> Case:
    """The density of ``n`` places at ``m`` others, with a bandwidth in degrees."""
    from sklearn.neighbors import KernelDensity

    h = math.radians(degrees)
    x, y = (sphere.from_degrees(*_places(size, seed)).astype(dtype) for size, seed in ((n, 1), (m, 2)))
    some = slice(None, None, max(1, m // _CHECKED))
    part = len(y[some]) / m
    exact = _by_numpy(
        *(a / np.linalg.norm(a, axis=1, keepdims=True) for a in (x.astype(float), y[some].astype(float))), h
    )
    call = functools.partial(sphere.kde, *(named(backend).asarray(a) for a in (x, y)), h)
    # Beside a place the density is as it is for a user; far from all, where it is 1e-30 of that, rounding is larger.
    near = exact > 1e-12 * exact.max()

    def off(found: Any) -> float:
        return float(np.abs(found[near] / exact[near] - 1).max())

    about = {"op": "sphere.kde", "backend": backend, "shape": {"n": n, "m": m, "degrees": degrees}}
    row = about | {"dtype": dtype, "precision": dtype, "rel_err_max": off(to_host(call())[some])}
    checked(row, 4 * DENSITY[backend, dtype].value)  # products round some, here and there
    if backend == "gpu":
        return Case(call, row, {})
    data, queries = [np.radians(np.stack(_places(size, seed)[::-1], axis=1)) for size, seed in ((n, 1), (m, 2))]

    fitted = KernelDensity(bandwidth=h, metric="haversine").fit(data)  # the tree is of all queries

    def haversine() -> np.ndarray:
        return np.asarray(np.exp(fitted.score_samples(queries[some])))

    numpy = functools.partial(_by_numpy, x, y[some], h)
    peers = {
        "scikit-learn, haversine": (haversine, off(haversine()), part),
        "NumPy, von Mises-Fisher": (numpy, off(numpy()), part),
    }
    return Case(call, row, peers)
