"""Conditional distributions beside statsmodels, and regions beside a grid and Matplotlib's lines: checked rows."""

from __future__ import annotations

import functools
import importlib.util
from typing import Any

import numpy as np

import cukde
from benchmarks.peers import Peer
from benchmarks.record import Case, checked
from cukde.core.dispatch import named, to_host

_CHECKED = 20  # queries that are compared with the formula, and that statsmodels is given
_MOST = {"float32": 3e-5, "float64": 1e-12}  # of a distribution function, on the CPU


def conditional(backend: str, op: str, n: int, m: int, d: int, dtype: str) -> Case:
    """The last of ``d`` columns given values of the others for each query, by deviations of the normal rule."""
    from scipy.special import ndtr

    rng = np.random.default_rng(d)
    X, G, y = rng.standard_normal((n, d)), rng.standard_normal((m, d - 1)), rng.standard_normal(m)
    X[:, -1] += X[:, 0]
    X, G, y = (a.astype(dtype) for a in (X, G, y))
    h = float(n ** (-1 / (d + 4)))
    as_there = named(backend).asarray
    given = {k: as_there(G[:, k].copy()) for k in range(d - 1)}
    data, some = as_there(X), slice(_CHECKED)

    def distribution(at: Any) -> np.ndarray:
        """The formula, of the first queries."""
        steps = (G[some, None].astype(np.float64) - X[:, :-1]) / h
        shares = np.exp(-0.5 * (steps * steps).sum(axis=2))
        F = (shares * ndtr((np.asarray(at, np.float64)[:, None] - X[:, -1]) / h)).sum(axis=1)
        return np.asarray(F / shares.sum(axis=1))

    if op == "conditional_cdf":
        call = functools.partial(cukde.conditional_cdf, data, given, as_there(y), h)
        error = np.abs(to_host(call())[some] - distribution(y[some])).max()
    elif op == "conditional_quantile":
        call = functools.partial(cukde.conditional_quantile, data, given, [[0.1], [0.5], [0.9]], h)
        error = np.abs(distribution(to_host(call())[1, some]) - 0.5).max()
    else:  # a sample is checked by tests
        call, error = functools.partial(cukde.conditional_sample, data, given, h, random_state=0), 0.0
    most = _MOST[dtype] * (1 if backend == "cpu" else 4) + (1e-11 if op == "conditional_quantile" else 0.0)
    row = {"op": op, "backend": backend, "shape": {"n": n, "m": m, "d": d}, "dtype": dtype, "precision": dtype}
    return Case(call, checked(row | {"rel_err_max": float(error)}, most), _statsmodels(op, X, G, y, h, m))


def _statsmodels(op: str, X: np.ndarray, G: np.ndarray, y: np.ndarray, h: float, m: int) -> dict[str, Peer | str]:
    """Its loop over queries, at a few of them: its time for each is the same."""
    if op != "conditional_cdf":
        return {}
    if importlib.util.find_spec("statsmodels") is None:
        return {"statsmodels": "not installed"}
    from statsmodels.nonparametric.kernel_density import KDEMultivariateConditional

    k = X.shape[1] - 1
    model = KDEMultivariateConditional(X[:, -1], X[:, :-1], "c", "c" * k, bw=np.full(k + 1, h))
    return {"statsmodels": (functools.partial(model.cdf, y[:_CHECKED], G[:_CHECKED]), 0.0, _CHECKED / m)}


def regions(backend: str, n: int) -> Case:
    """Three regions of a normal sample, beside a grid of as many nodes with Matplotlib's lines, without areas."""
    X = np.random.default_rng(0).standard_normal((n, 2))
    x, h, masses = named(backend).asarray(X), float(n ** (-1 / 6)), [0.5, 0.8, 0.95]
    call = functools.partial(cukde.regions, x, h, masses)
    found = call()
    fine = np.linspace(-6, 6, 2001)
    p = to_host(cukde.evaluate_grid(x, [fine, fine], h))
    counted = np.array([(p >= each.level).sum() for each in found]) * (fine[1] - fine[0]) ** 2
    error = float(np.abs(np.array([each.area for each in found]) / counted - 1).max())
    row = {"op": "regions", "backend": backend, "shape": {"n": n, "d": 2}, "dtype": "float64", "precision": "float64"}
    row = checked(row | {"rel_err_max": error}, 1e-3)

    def lines() -> None:
        from matplotlib.figure import Figure

        levels = np.sort(to_host(cukde.hdr_threshold(x, h, masses)))
        axis = np.linspace(-6, 6, 257)
        p = to_host(cukde.evaluate_grid(x, [axis, axis], h))
        Figure().add_subplot().contourf(axis, axis, p.T, levels=[*levels, 2 * p.max()])

    return Case(call, row, {"a grid and Matplotlib": (lines, None)})
