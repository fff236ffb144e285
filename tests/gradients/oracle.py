"""Dense formulas in float64, whose derivative along a direction is exact by a complex step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tests.conftest import Backend
from tests.private import to_host

STEP = 1e-100


def covariance(h: Any, d: int) -> np.ndarray:
    h = np.asarray(h)
    return h if h.ndim == 2 else np.eye(d) * (h * h)


def exponents(X: Any, Y: Any, h: Any) -> Any:
    """-|y - x|^2 / 2 in bandwidths, (m, n)."""
    steps = Y[:, None] - X[None]
    return -0.5 * ((steps @ np.linalg.inv(covariance(h, X.shape[1]))) * steps).sum(axis=2)


def log_kde(X: Any, Y: Any, h: Any, weights: Any = None, *, leave_one_out: bool = False) -> Any:
    d, Y = X.shape[1], X if Y is None else Y
    w = np.ones(len(X)) if weights is None else weights
    take = np.broadcast_to(w, (len(Y), len(X)))
    if leave_one_out:
        take = take * (1 - np.eye(len(X)))
    e = exponents(X, Y, h)
    top = np.where(take.real > 0, e.real, -np.inf).max(axis=1)
    log_sum = top + np.log((take * np.exp(e - top[:, None])).sum(axis=1) / take.sum(axis=1))
    return log_sum - 0.5 * (d * np.log(2 * np.pi) + np.log(np.linalg.det(covariance(h, d))))


def kde(*args: Any, **options: Any) -> Any:
    return np.exp(log_kde(*args, **options))


def score(X: Any, Y: Any, h: Any, weights: Any = None) -> Any:
    Y = X if Y is None else Y
    e = exponents(X, Y, h)
    phi = np.exp(e - e.real.max(axis=1)[:, None]) * (1 if weights is None else weights)
    return (phi @ X / phi.sum(axis=1)[:, None] - Y) @ np.linalg.inv(covariance(h, X.shape[1]))


def kernel_sum(X: Any, V: Any, Y: Any, h: Any) -> Any:
    return np.exp(exponents(X, X if Y is None else Y, h)) @ V


def directional(function: Callable[..., Any], arrays: Mapping[str, Any], name: str, along: np.ndarray, g: Any) -> float:
    """Derivative of the sum of g times the function, by the operand ``name`` in a direction."""
    moved = {**arrays, name: arrays[name] + 1j * STEP * along}
    return float((g * function(**moved)).sum().imag / STEP)


def check(
    backend: Backend,
    of: Any,
    function: Callable[..., Any],
    arrays: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
    rtol: float = 1e-9,
    seed: int = 0,
) -> None:
    """Compare the result and each gradient, along a random direction, relative to the size of its terms."""
    rng = np.random.default_rng(seed)
    exact = {name: None if a is None else np.asarray(a, np.float64) for name, a in arrays.items()}
    call = of({name: backend.asarray(a) for name, a in arrays.items()}, dict(options or {}))
    wanted = [name for name in of.operands if arrays.get(name) is not None]
    expected = function(**exact)
    result = backend.asnumpy(call.result(wanted))
    np.testing.assert_allclose(result, expected, rtol=rtol, atol=rtol * abs(expected).max())
    g = rng.normal(size=expected.shape).astype(result.dtype)
    found = call.gradients(backend.asarray(g), wanted)
    for name in wanted:
        along = rng.normal(size=np.shape(arrays[name]))
        if name == "h" and along.ndim == 2:
            along = along + along.T
        derivative = to_host(found[name])
        assert derivative.shape == np.shape(arrays[name])
        got = float((derivative * along).sum())
        want = directional(function, exact, name, along, g)
        size = np.sqrt((np.asarray(derivative) ** 2).sum() * (along**2).sum())
        rounding = 1e-13 * abs(g * expected).sum()  # of gradients that are next to nothing
        assert abs(got - want) <= rtol * max(size, abs(want)) + rounding, f"{name}: {got} is not {want}"
