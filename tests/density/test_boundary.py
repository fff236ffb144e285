"""Densities that keep their slope at a bound, against a local-linear fit by quadrature, and what they are for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cukde
from tests.conftest import Backend

RNG = np.random.default_rng(0)


def fitted(X: Any, y: Any, H: Any, low: Any, high: Any, w: Any, nodes: int = 300) -> float:
    """The density of the module's head, of sums over the data and integrals between the bounds by quadrature."""
    deviations = np.sqrt(np.diag(H))
    x, share = np.polynomial.legendre.leggauss(nodes)
    ends = np.stack([np.maximum(low, y - 10 * deviations), np.minimum(high, y + 10 * deviations)])
    half = 0.5 * (ends[1] - ends[0])
    axes = [ends[0, k] + half[k] * (x + 1) for k in range(len(y))]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(y))
    weights = np.stack(np.meshgrid(*[share * each for each in half], indexing="ij"), axis=-1).reshape(-1, len(y))

    def moments(steps: Any, weights: Any) -> tuple[Any, Any]:
        e = np.einsum("ij,jk,ik->i", steps, np.linalg.inv(H), steps)
        kernel = weights * np.exp(-0.5 * e) / np.sqrt(np.linalg.det(2 * np.pi * H))
        basis = np.concatenate([np.ones((len(steps), 1)), steps / deviations], axis=1)
        return kernel @ basis, basis.T @ (kernel[:, None] * basis)

    _, A = moments(grid - y, weights.prod(axis=1))
    b, _ = moments(X - y, w)
    level = b[0] / A[0, 0]
    return float(level * np.exp(np.linalg.solve(A, b)[0] / level - 1))


CASES: dict[str, tuple[Any, Any, Any]] = {
    "one end": ([0.3], [0.0], [np.inf]),
    "an end above": ([0.3], [-np.inf], [3.0]),
    "two ends, narrow": ([0.1], [0.0], [1.0]),
    "two ends, wide": ([2.5], [0.0], [1.0]),
    "two columns": ([0.2, 0.3], [0.0, 0.0], [1.0, np.inf]),
    "a covariance across a bound": ([[0.04, 0.03], [0.03, 0.09]], [0.0, -np.inf], [1.0, np.inf]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_it_is_the_fit(backend: Backend, name: str, dtype: str) -> None:
    h, low, high = CASES[name]
    d, n = len(low), backend.size(200, 60)
    columns = [
        RNG.beta(1, 2, n) if np.isfinite(high[k]) and np.isfinite(low[k]) else RNG.exponential(size=n) for k in range(d)
    ]
    X = np.minimum(np.stack(columns, axis=1), high).astype(dtype)
    Y = np.stack([np.array([0.0, 0.1, 0.97, 0.4])] * d, axis=1).astype(dtype)
    w = RNG.uniform(size=n)
    H = np.array(h) if np.ndim(h) == 2 else np.diag(np.square(h))
    want = [fitted(X.astype(float), y, H, np.array(low), np.array(high), w / w.sum()) for y in Y.astype(float)]
    options: dict[str, Any] = {"bounds": list(zip(low, high, strict=True)), "boundary": "linear"}
    x, y, weights = map(backend.asarray, (X, Y, w))
    got = cukde.kde(x, y, h, weights=weights, **options)
    assert got.dtype == dtype
    tolerance = 1e-10 if dtype == "float64" else 1e-4
    np.testing.assert_allclose(backend.asnumpy(got), want, rtol=tolerance)
    log = backend.asnumpy(cukde.kde(x, y, h, weights=weights, log=True, **options))
    np.testing.assert_allclose(log, np.log(want), atol=tolerance)


def test_the_slope_of_an_exponential_stays() -> None:
    X = RNG.exponential(size=1_000_000)
    h = cukde.bandwidth.silverman(X)
    reflected, linear = (cukde.kde(X, [0.0], h, bounds=(0, None), boundary=each)[0] for each in ("reflect", "linear"))
    assert reflected < 0.97
    assert abs(linear - 1) < 0.02  # its standard error is 0.005
    at = np.arange(0.005, 20, 0.01)
    mass = cukde.kde(X[:5000], at, 0.2, bounds=(0, None), boundary="linear").sum() * 0.01
    assert 1.01 < mass < 1.02


def test_it_is_the_density_far_from_bounds_and_nothing_outside() -> None:
    X = RNG.normal(size=(300, 2))
    options: dict[str, Any] = {"bounds": [(-9, 9), None], "boundary": "linear"}
    np.testing.assert_allclose(cukde.kde(X, X, 0.3, **options), cukde.kde(X, X, 0.3), rtol=1e-12)
    np.testing.assert_allclose(cukde.kde(X, X, 0.3, boundary="linear"), cukde.kde(X, X, 0.3), rtol=1e-14)
    assert cukde.kde(X, [[-9.5, 0], [9.1, 0]], 0.3, **options).tolist() == [0, 0]
    around = cukde.kde(X, X, 0.3, bounds=options["bounds"], periods=[None, 4], boundary="linear")
    np.testing.assert_allclose(around, cukde.kde(X, X, 0.3, periods=[None, 4]), rtol=1e-12)


def test_without_own_rows() -> None:
    X = RNG.exponential(size=30)
    options: dict[str, Any] = {"bounds": (0, None), "boundary": "linear"}
    want = [cukde.kde(np.delete(X, i), X[i : i + 1], 0.3, **options)[0] for i in range(30)]
    np.testing.assert_allclose(cukde.kde(X, X, 0.3, leave_one_out=True, **options), want, rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"boundary": "mirror"}, "boundary must be one of 'reflect', 'linear'"),
        ({"boundary": "linear", "local_factors": np.ones(20)}, 'boundary must be "reflect" with local_factors'),
        ({"boundary": "linear", "h": np.eye(2) + 0.5}, "h must not correlate bounded columns with each other"),
        ({"h": np.eye(2) + 0.5}, 'or write boundary="linear"'),
    ],
)
def test_errors(options: dict[str, Any], message: str) -> None:
    X = RNG.uniform(size=(20, 2))
    with pytest.raises(ValueError, match=message):
        cukde.kde(X, X, **({"h": 0.1, "bounds": [(0, 1), (0, 1)]} | options))
