"""Calls that nobody chose: a function, sizes, data, a bandwidth and an option, drawn by a seed."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import cukde

Points = Callable[[int, int, np.random.Generator, np.random.Generator], np.ndarray]

_FUNCTIONS = {
    "kde": 30,
    "sd_kde": 25,
    "score": 15,
    "laplace_kde": 8,
    "density_and_score": 8,
    "debias": 8,
    "positive_kde": 6,
}
_OPTIONS = {"": 70, "weights": 10, "unchecked": 6, "deterministic": 6, "few queries": 4, "leave_one_out": 4}
_DIMENSIONS = {
    (1, 1): 8,
    (2, 2): 14,
    (3, 3): 14,
    (4, 8): 20,
    (9, 16): 14,
    (17, 32): 10,
    (33, 64): 8,
    (65, 128): 5,
    (129, 1024): 7,
}
_OF_DATA_ALONE = ("debias",)
_SQUARE = ("debias", "sd_kde")  # functions that sum all pairs of the data


class Case(NamedTuple):
    """A call; ``factor`` is the multiple of Silverman's bandwidth."""

    seed: int
    op: str
    n: int
    m: int
    d: int
    data: str
    factor: float
    dtype: str
    option: str


def case(seed: int, most_pairs: float, largest: int) -> Case:
    """Draw a call with at most so many pairs in 32 columns or fewer, and so many points."""
    rng = np.random.default_rng([seed, 0])
    d = _log_uniform(rng, *(lambda low, high: (low, high + 1))(*_pick(rng, _DIMENSIONS)))
    op, option = _pick(rng, _FUNCTIONS), _pick(rng, _OPTIONS)
    if option == "leave_one_out" and op not in ("kde", "sd_kde"):
        op = "kde"
    pairs = most_pairs / max(1, d / 32)
    n = min(_log_uniform(rng, 300, largest), int(5e7 / d))
    if op in _SQUARE or option == "leave_one_out":
        n = min(n, int(math.sqrt(pairs)))
    m = max(1, min(_log_uniform(rng, 1, largest / 5), int(pairs / n)))
    if option == "few queries":
        m = min(m, 16)
    if op in _OF_DATA_ALONE or option == "leave_one_out":
        m = n
    data = str(rng.choice([*DATA]))
    factor = math.exp(rng.uniform(math.log(0.08), math.log(3)))
    return Case(seed, op, n, m, d, data, factor, str(rng.choice(["float32", "float64"], p=[0.85, 0.15])), option)


def arrays(of: Case) -> tuple[np.ndarray, np.ndarray, float, dict[str, Any]]:
    """Data, queries of the same population, the bandwidth, and the options of the call."""
    seed = [of.seed, 1]

    def drawn(rows: int, number: int) -> np.ndarray:
        return DATA[of.data](rows, of.d, np.random.default_rng(seed), np.random.default_rng([*seed, number]))

    X = drawn(of.n, 1)
    itself = of.op in _OF_DATA_ALONE or of.option == "leave_one_out"
    spread = float(np.median(X.std(0))) or float(X.std()) or 1.0
    h = of.factor * spread * (4 / (of.d + 2)) ** (1 / (of.d + 4)) * of.n ** (-1 / (of.d + 4))
    X = X.astype(of.dtype)
    Y = X if itself else drawn(of.m, 2).astype(of.dtype)
    options: dict[str, Any] = {
        "weights": {"weights": np.random.default_rng([*seed, 3]).exponential(size=of.n).astype(of.dtype)},
        "unchecked": {"check_finite": False},
        "deterministic": {"deterministic": True},
        "leave_one_out": {"leave_one_out": True},
    }.get(of.option, {})
    return X, Y, h, options


def moved(of: tuple[Any, Any, float, dict[str, Any]], asarray: Callable[[Any], Any]) -> tuple[Any, ...]:
    """The same by another library's arrays; data that are their own queries stay so."""
    X, Y, h, options = of
    x = asarray(X)
    options = {name: asarray(a) if isinstance(a, np.ndarray) else a for name, a in options.items()}
    return x, x if Y is X else asarray(Y), h, options


def call(
    of: Case, X: Any, Y: Any, h: float, options: Mapping[str, Any], *, log: bool = False
) -> functools.partial[Any]:
    """The call of a case; ``log``: densities as logarithms, since they may be beyond the dtype."""
    more: dict[str, Any] = {"mass": 1.0} if of.op == "positive_kde" else {}
    if log and of.op in ("kde", "sd_kde"):
        more["log"] = True
    arguments = (X, h) if of.op in _OF_DATA_ALONE else (X, Y, h)
    return functools.partial(getattr(cukde, of.op), *arguments, **options, **more)


def _pick(rng: np.random.Generator, weights: Mapping[Any, int]) -> Any:
    share = np.array([*weights.values()], float)
    return [*weights][rng.choice(len(share), p=share / share.sum())]


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> int:
    return int(math.exp(rng.uniform(math.log(low), math.log(high))))


def _clusters(k: int, d: int, shape: np.random.Generator, rng: np.random.Generator) -> np.ndarray:
    means, widths, of = 3 * shape.normal(size=(7, d)), np.exp(shape.uniform(-2, 1, 7)), rng.integers(0, 7, k)
    return means[of] + widths[of, None] * rng.normal(size=(k, d))


def _nested(k: int, d: int, shape: np.random.Generator, rng: np.random.Generator) -> np.ndarray:
    outer, inner = 20 * shape.normal(size=(5, d)), shape.normal(size=(5, 6, d))
    a, b = rng.integers(0, 5, k), rng.integers(0, 6, k)
    return outer[a] + inner[a, b] + 0.05 * rng.normal(size=(k, d))


def _lognormal(k: int, d: int, shape: np.random.Generator, rng: np.random.Generator) -> np.ndarray:
    x = rng.normal(size=(k, d))
    x[:, ::2] = np.exp(x[:, ::2])
    return x


def _duplicates(k: int, d: int, shape: np.random.Generator, rng: np.random.Generator) -> np.ndarray:
    pool = shape.normal(size=(max(2, k // 100), d))
    return pool[rng.integers(0, len(pool), k)]


def _curve(k: int, d: int, shape: np.random.Generator, rng: np.random.Generator) -> np.ndarray:
    rates, phases = shape.uniform(1, 9, (2, d))
    return np.sin(rng.uniform(0, 1, (k, 1)) * rates + phases) + 0.02 * rng.normal(size=(k, d))


def _sphere(k: int, d: int, shape: np.random.Generator, rng: np.random.Generator) -> np.ndarray:
    x = rng.normal(size=(k, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True) + 0.01 * rng.normal(size=(k, d))


def _constant(k: int, d: int, shape: np.random.Generator, rng: np.random.Generator) -> np.ndarray:
    x = rng.normal(size=(k, d))
    x[:, 1:2] = 3
    return x


def _outlier(k: int, d: int, shape: np.random.Generator, rng: np.random.Generator) -> np.ndarray:
    x = rng.normal(size=(k, d))
    x[0] = 40
    return x


DATA: dict[str, Points] = {
    "normal": lambda k, d, shape, rng: rng.normal(size=(k, d)),
    "clusters of unequal widths": _clusters,
    "clusters of clusters": _nested,
    "Student's t": lambda k, d, shape, rng: rng.standard_t(3, size=(k, d)),
    "Cauchy noise": lambda k, d, shape, rng: rng.normal(size=(k, d)) + 0.1 * rng.standard_cauchy((k, d)),
    "lognormal": _lognormal,
    "rounded": lambda k, d, shape, rng: np.round(rng.normal(size=(k, d)) * np.exp(shape.uniform(-1, 1, d)), 1),
    "duplicates": _duplicates,
    "a curve": _curve,
    "a sphere": _sphere,
    "an offset": lambda k, d, shape, rng: rng.normal(size=(k, d)) + shape.uniform(1e3, 1e4, d),
    "correlated": lambda k, d, shape, rng: (
        rng.normal(size=(k, d)) @ (shape.normal(size=(d, d)) / d**0.5 + np.eye(d) / 10)
    ),
    "a constant column": _constant,
    "counts": lambda k, d, shape, rng: rng.poisson(np.exp(shape.uniform(0, 4, d)), (k, d)).astype(float),
    "an outlier": _outlier,
    "zeros": lambda k, d, shape, rng: rng.normal(size=(k, d)) * (rng.random((k, d)) < 0.2),
}
"""Kinds of data: ``shape`` draws what the population is, ``rng`` its rows."""
