"""A call of every public function: random arguments that fit, drawn by a seed."""

from __future__ import annotations

import contextlib
import inspect
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import dask
import dask.array as da
import numpy as np

import cukde
import cukde.dask
import cukde.torch
from cukde import bandwidth, functions, perf, plot, sphere
from cukde.core import warnings as core_warnings
from cukde.core.cost.peaks import Load
from cukde.perf import _loads_cpu
from tests.perf.processors import H200


@dataclass(frozen=True)
class Call:
    """A function, or a bound method, and its arguments."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    def __call__(self) -> Any:
        return self.function(*self.args, **self.kwargs)

    def moved(self, asarray: Callable[[np.ndarray], Any]) -> Call:
        """The same with its NumPy arrays brought elsewhere."""

        def to(a: Any) -> Any:
            return asarray(a) if type(a) is np.ndarray else a

        return replace(self, args=tuple(map(to, self.args)), kwargs={k: to(v) for k, v in self.kwargs.items()})


class Draw:
    """Random sizes, options and small arrays; all arrays of one draw are of one dtype."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.n, self.m, self.d = (int(self.rng.integers(low, high)) for low, high in ((2, 30), (0, 9), (1, 5)))
        self.dtype = self.one("float32", "float64")

    def one(self, *options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def array(self, *shape: int) -> np.ndarray:
        return self.rng.normal(size=shape).astype(self.dtype)

    def positive(self, *shape: int) -> np.ndarray:
        return self.rng.uniform(0.3, 2, shape).astype(self.dtype)

    @property
    def points(self) -> np.ndarray:
        return self.array(self.n, self.d)

    @property
    def queries(self) -> np.ndarray:
        return self.array(self.m, self.d)

    def directions(self, count: int) -> np.ndarray:
        """Unit vectors."""
        out = self.array(count, max(2, self.d))
        return np.asarray(out / np.linalg.norm(out, axis=1, keepdims=True), self.dtype)

    @property
    def h(self) -> Any:
        root = self.rng.normal(size=(self.d, self.d))
        return self.one(0.7, self.rng.uniform(0.3, 2, self.d), root @ root.T + np.eye(self.d))

    @property
    def weights(self) -> Any:
        return self.one(None, self.positive(self.n))

    def common(self) -> dict[str, Any]:
        """What the density functions share."""
        return {
            "weights": self.weights,
            "precision": self.one(None, "float32", "float64", "ieee", "tf32"),
            "deterministic": True,
            "check_finite": self.one(True, True, False),
        }

    def tolerance(self) -> dict[str, Any]:
        """What may be left out of sums over pairs."""
        return {"rtol": self.one(None, 0, 1e-5)}

    def domain(self) -> dict[str, Any]:
        """Bounds that all points lie within, and periods."""
        kinds = [self.one("free", "bounds", "period") for _ in range(self.d)]
        bounds = [
            self.one((-60.0, None), (-60, 60.5), [None, np.float64(60)]) if k == "bounds" else None for k in kinds
        ]
        periods = [self.one(3, 0.5) if k == "period" else None for k in kinds]
        return {"bounds": self.one(None, bounds), "periods": self.one(None, periods)}

    def numbers(self) -> Any:
        """Kinds of columns of numbers."""
        return self.one(None, ["number"] * self.d)

    @property
    def knots(self) -> np.ndarray:
        return np.cumsum(self.rng.uniform(0.1, 1, self.n)).astype(self.dtype)

    def path(self) -> Path:
        """A file of the folder that :func:`sandbox` made."""
        return Path(f"draw-{int(self.rng.integers(16))}")


def _density(function: Callable[..., Any], *, log: bool = False) -> Callable[[Draw], Call]:
    def call(a: Draw) -> Call:
        options = a.common() | a.domain() | a.tolerance() | ({"log": a.one(False, True)} if log else {})
        parameters = inspect.signature(function).parameters
        if "local_factors" in parameters:
            options["local_factors"] = a.one(None, a.positive(a.n))
        if function is cukde.kde:
            options["kinds"] = a.numbers()
        if "boundary" in parameters and options.get("local_factors") is None:
            options["boundary"] = a.one("reflect", "linear")
        return _unlinked(Call(function, (a.points, a.queries, a.h), options), 2)

    return call


def _unlinked(call: Call, h: int, *beside: str) -> Call:
    """The same without a covariance for its bandwidth, the argument ``h``, which bounded columns do not take.

    Nor do those of other arguments of these names.
    """
    width = np.asarray(call.args[h])
    if width.ndim < 2 or all(call.kwargs[name] is None for name in ("bounds", *beside)):
        return call
    return replace(call, args=(*call.args[:h], np.sqrt(np.diag(width))))


def _debias(a: Draw) -> Call:
    options = a.common() | a.domain() | a.tolerance() | {"score_bandwidth": a.one(None, 1.5), "steps": a.one(1, 1, 3)}
    options |= {"local_factors": a.one(None, a.positive(a.n))}
    options["own_point"] = a.one(True, True, False)
    return _unlinked(Call(cukde.debias, (a.points, a.h), options), 1)


def _sd_kde(a: Draw) -> Call:
    whole = _density(cukde.sd_kde, log=True)(a)
    own = {"score_bandwidth": a.one(None, 1.5), "steps": a.one(1, 1, 3), "own_point": a.one(True, True, False)}
    return replace(whole, kwargs=whole.kwargs | own)


def _laplace_kde(a: Draw) -> Call:
    whole = _density(cukde.laplace_kde, log=True)(a)
    return replace(whole, kwargs=whole.kwargs | {"negative": a.one("keep", "clip")})


def _positive_kde(a: Draw) -> Call:
    whole = _density(cukde.positive_kde, log=True)(a)
    return replace(whole, kwargs=whole.kwargs | {"mass": a.one(None, 1.5)})


def _positive_score(a: Draw) -> Call:
    return Call(cukde.positive_score, (a.points, a.queries, a.h), a.common() | a.tolerance())


def _positive_mass(a: Draw) -> Call:
    options = a.common() | a.domain() | a.tolerance() | {"axes": None, "samples": 16, "random_state": 3}
    return _unlinked(Call(cukde.positive_mass, (a.points, a.h), options), 1)


def _kernel_sum(a: Draw) -> Call:
    options = {k: v for k, v in a.common().items() if k != "weights"} | a.tolerance() | {"log": a.one(False, True)}
    V = a.one(a.array(a.n), a.array(a.n, 3))
    return Call(cukde.kernel_sum, (a.points, abs(V) if options["log"] else V, a.queries, a.h), options)


def _columns(a: Draw) -> list[int]:
    return [int(c) for c in a.rng.permutation(a.d)[: a.one(1, 2)]]


def _marginal(a: Draw) -> Call:
    columns = _columns(a)
    options = a.common() | a.domain() | {"log": a.one(False, True)}
    return _unlinked(Call(cukde.marginal, (a.points, columns, a.array(a.m, len(columns)), a.h), options), 3)


def _conditional(a: Draw) -> Call:
    a.d += 2  # of which one or two are given
    columns = _columns(a)
    values = {c: a.one(0.5, a.array(a.m)) for c in columns}
    options = a.common() | a.domain() | {"log": a.one(False, True), "kinds": a.numbers()}
    return _unlinked(Call(cukde.conditional, (a.points, values, a.array(a.m, a.d - len(columns)), a.h), options), 3)


def _of_one_column(function: Callable[..., Any]) -> Callable[[Draw], Call]:
    """A distribution of one column given all others, of which no covariance links one with ends."""

    def call(a: Draw) -> Call:
        a.d = int(a.rng.integers(2, 4))
        columns = [int(c) for c in a.rng.permutation(a.d)[1:]]
        values = {c: a.one(0.5, a.array(a.m)) for c in columns}
        asked = a.array(a.m) if function is cukde.conditional_cdf else a.one(0.3, a.rng.uniform(0.01, 1, (2, 1)))
        return _unlinked(Call(function, (a.points, values, asked, a.h), a.common() | a.domain()), 3, "periods")

    return call


def _conditional_sample(a: Draw) -> Call:
    whole = _conditional(a)
    X, values, _, h = whole.args
    options = {name: value for name, value in whole.kwargs.items() if name not in ("log", "kinds")}
    options |= {"size": a.one(None, 2), "random_state": 3}
    return _unlinked(Call(cukde.conditional_sample, (X, values, h), options), 2, "periods")


def _regions(a: Draw) -> Call:
    a.d = 2
    options = a.common() | {"bounds": a.one(None, [(-60, None), None]), "periods": None}
    options |= {"mass": a.one(0.9, np.array([0.5, 0.9])), "accuracy": 0.1, "degrees": False, "check_finite": True}
    return _unlinked(Call(cukde.regions, (a.points, a.h), options), 1)


def _hdr_threshold(a: Draw) -> Call:
    mass = a.one(0.9, np.array([0.5, 0.9]))
    options = a.common() | a.domain() | {"log": a.one(False, True), "method": a.one("kde", "sd")}
    return _unlinked(Call(cukde.hdr_threshold, (a.points, a.h, mass), options), 1)


def _density_ratio(a: Draw) -> Call:
    options = a.common() | a.domain()
    options |= {
        "log": a.one(False, True),
        "denominator_bandwidth": a.one(None, 0.8),
        "denominator_weights": a.one(None, a.positive(7)),
    }
    return _unlinked(Call(cukde.density_ratio, (a.points, a.array(7, a.d), a.queries, a.h), options), 3)


def _density_interval(a: Draw) -> Call:
    options = a.common() | a.tolerance() | {"level": a.one(0.5, 0.95), "n_eff": a.one(None, 1.5)}
    return Call(cukde.density_interval, (a.points, a.queries, a.h), options)


def _of_sphere(a: Draw) -> dict[str, Any]:
    return a.common() | a.tolerance()


def _on_sphere(function: Callable[..., Any], *, log: bool = False) -> Callable[[Draw], Call]:
    def call(a: Draw) -> Call:
        a.d += 1
        options = _of_sphere(a) | ({"log": a.one(False, True)} if log else {})
        return Call(function, (a.directions(a.n), a.directions(a.m), a.one(0.7, 0.05, "reference")), options)

    return call


def _sphere_threshold(a: Draw) -> Call:
    a.d += 1
    options = _of_sphere(a) | {"log": a.one(False, True), "leave_one_out": a.one(False, True)}
    return Call(sphere.hdr_threshold, (a.directions(a.n), 0.5, a.one(0.9, np.array([0.5, 0.9]))), options)


def _sphere_modes(a: Draw) -> Call:
    a.d += 1
    options = {"seeds": a.one(None, a.directions(5)), "merge_distance": a.one(None, 0.5), "max_iterations": 1000}
    return Call(sphere.modes, (a.directions(a.n), 0.5), a.common() | options)


def _sphere_cross_validate(a: Draw) -> Call:
    a.d += 1
    options = {"objective": a.one("likelihood", "least_squares"), "bandwidths": np.geomspace(0.2, 2, 4)}
    return Call(sphere.cross_validate, (a.directions(a.n),), options | {"weights": a.weights, "precision": "float64"})


def _of_data(a: Draw) -> dict[str, Any]:
    """Within ends or with local factors: with both, each row would be a sum of its own."""
    ends = a.domain()
    own = {"local_factors": a.one(None, a.positive(a.n)), "bias_correction": a.one(True, False)}
    if own["local_factors"] is not None:
        ends = dict.fromkeys(ends)
    return a.common() | ends | a.tolerance() | own


def _entropy(a: Draw) -> Call:
    a.d += 1
    options = _of_data(a) | {"given": a.one(None, [a.d - 1]), "columns": a.one(None, [0])}
    return _unlinked(Call(cukde.entropy, (a.points, a.h), options), 1)


def _mutual_information(a: Draw) -> Call:
    a.d += 2
    options = _of_data(a) | {"given": a.one(None, [a.d - 1])}
    return _unlinked(Call(cukde.mutual_information, (a.points, [0], a.one(None, [1]), a.h), options), 3)


def _kl_divergence(a: Draw) -> Call:
    options = a.common() | a.domain() | {"bias_correction": a.one(True, False)}
    options |= {"denominator_bandwidth": a.one(None, 0.8), "denominator_weights": a.one(None, a.positive(7))}
    return _unlinked(Call(cukde.kl_divergence, (a.points, a.array(7, a.d), a.h), options), 2)


def _hessian(a: Draw) -> Call:
    options = {k: v for k, v in a.common().items() if k != "precision"} | a.tolerance() | {"log": a.one(False, True)}
    options["local_factors"] = a.one(None, a.positive(a.n))
    return Call(cukde.hessian, (a.points, a.queries, a.h), options)


def _evaluate_grid(a: Draw) -> Call:
    axes = [a.array(int(a.rng.integers(0, 6))) if a.one(False, True) else np.linspace(-1, 1, 5) for _ in range(a.d)]
    log, algorithm = a.one((False, "auto"), (True, "auto"), (False, "exact"), (False, "fft" if a.d < 3 else "auto"))
    domain = a.domain() if algorithm != "fft" else {"bounds": None, "periods": None}  # of which it has few images
    options = a.common() | domain | {"log": log, "algorithm": algorithm}
    return _unlinked(Call(cukde.evaluate_grid, (a.points, axes, a.h), options), 2)


def _distribution(function: Callable[..., Any]) -> Callable[[Draw], Call]:
    def call(a: Draw) -> Call:
        h = a.one(0.7, np.array([0.7]), np.array([[0.5]]))
        X, Y = a.one((a.array(a.n), a.array(a.m)), (a.array(a.n, 1), a.array(a.m, 1)))
        ends = {"bounds": a.one(None, [(-60, None)], [(-60.0, 61)])}
        return Call(function, (X, Y, h), a.common() | ends | {"periods": None})

    return call


def _modes(a: Draw) -> Call:
    options = {
        "seeds": a.one(None, a.array(5, a.d)),
        "tolerance": a.one(1e-6, 1e-3),
        "max_iterations": 1000,
        "merge_distance": a.one(None, 0.5),
    }
    return _unlinked(Call(cukde.modes, (a.points, a.h), a.common() | a.domain() | options), 1, "periods")


def _modes_of_blocks(a: Draw) -> Call:
    whole = _modes(a)
    whole = replace(whole, kwargs=whole.kwargs | {"seeds": a.array(5, a.d)})
    return replace(whole, function=lambda X, *args, **options: cukde.dask.modes(_blocks(X), *args, **options))


def _kendalltau(a: Draw) -> Call:
    x, y = a.rng.integers(0, 9, (2, a.n)) + a.array(2, a.n) * a.one(0, 1)
    options = {
        "nan_policy": a.one("propagate", "omit", "raise"),
        "distribution": a.one("auto", "asymptotic"),
        "method": None,
        "variant": a.one("a", "b", "c"),
        "alternative": a.one("two-sided", "less", "greater"),
        "axis": a.one(None, 0),
        "keepdims": a.one(False, True),
    }
    return Call(cukde.kendalltau, (x, y), options)


def _matrices(a: Draw) -> tuple[Any, ...]:
    return a.one((a.points,), (a.points, a.array(a.n, 2)))


def _kendall_matrix(a: Draw) -> Call:
    options = {"variant": a.one("a", "b", "c"), "pvalue": a.one(False, True), "nan_policy": a.one("propagate", "omit")}
    return Call(cukde.kendall_matrix, _matrices(a), options)


def _geometry(a: Draw) -> tuple[int, int, dict[str, Any]]:
    """Positions, taps and options of a convolution of three channels."""
    stride = a.one(1, 1, 2)
    length = stride * int(a.rng.integers(6, 20))
    options = {
        "padding": a.one("causal", "same", 4),
        "stride": stride,
        "dilation": a.one(1, 2),
        "layout": a.one("BCL", "BLC"),
        "flip": a.one(False, True),
    }
    return length, int(a.rng.integers(1, 4)), options


def _signal(a: Draw, length: int, layout: str) -> np.ndarray:
    return a.array(2, 3, length) if layout == "BCL" else a.array(2, length, 3)


def _conv1d(a: Draw) -> Call:
    length, taps, options = _geometry(a)
    options |= {"bias": a.one(None, a.array(3)), "activation": a.one(None, "silu", "gelu", "tanh")}
    if options["padding"] == "causal":
        reach = (taps - 1) * options["dilation"]
        options |= {"state": a.one(None, _signal(a, reach, options["layout"])), "return_state": a.one(False, True)}
    return Call(cukde.depthwise_conv1d, (_signal(a, length, options["layout"]), a.array(3, taps)), options)


def _conv1d_input_grad(a: Draw) -> Call:
    length, taps, options = _geometry(a)
    x, w = _signal(a, length, options["layout"]), a.array(3, taps)
    dy = cukde.depthwise_conv1d(x, w, **options)
    return Call(cukde.depthwise_conv1d_input_grad, (dy, w), options | {"input_length": length})


def _conv1d_weight_grad(a: Draw) -> Call:
    length, taps, options = _geometry(a)
    x = _signal(a, length, options["layout"])
    dy = cukde.depthwise_conv1d(x, a.array(3, taps), **options)
    return Call(cukde.depthwise_conv1d_weight_grad, (x, dy, taps), options | {"bias": a.one(False, True)})


def _pwpa(a: Draw) -> Call:
    x, knots, layout = a.array(a.m), a.knots, a.one("aos", "soa")
    c = a.array(a.n - 1, 3)
    options = {
        "layout": layout,
        "origin": a.one("global", "local"),
        "extrapolate": a.one(True, False, "periodic", "clamp"),
        "out": a.one(None, np.empty_like(x)),
    }
    return Call(cukde.pwpa, (x, c if layout == "aos" else c.T, knots), options)


def _fit_piecewise(a: Draw) -> Call:
    options = {
        "pieces": a.one(1, 3),
        "degree": a.one(1, 3),
        "approximation": a.one("minimax", "chebyshev", "interpolate", "least_squares"),
        "knots": a.one("uniform", "adaptive"),
        "dtype": a.one("float16", "float32", "float64"),
        "continuous": a.one(False, True),
    }
    return Call(cukde.fit_piecewise, (np.exp, (-1.0, 1.0)), options)


def _warmup(a: Draw) -> Call:
    options = {
        "functions": a.one(["kde"], ("score", "debias")),
        "h": 1.0,
        "dtype": "float64",
        "precision": None,
        "weights": a.one(False, True),
        "values": a.one(None, 2),
        "deterministic": True,
        "backend": "cpu",
    }
    return Call(cukde.warmup, (a.n, a.one(None, 5), a.d), options)


def _rule(rule: Callable[..., Any]) -> Callable[[Draw], Call]:
    return lambda a: Call(rule, (a.points,), {"weights": a.weights, "n_eff": a.one(None, a.n)} | a.domain())


def _cross_validate(a: Draw) -> Call:
    options = {
        "method": a.one("kde", "sd", "laplace", "positive"),
        "bandwidths": np.geomspace(0.2, 2, 4),
        "objective": "least_squares",
        "weights": a.weights,
        "per_dimension": a.one(False, True),
        "precision": a.one(None, "float64"),
    }
    options |= a.domain() if options["method"] == "kde" else {}
    return Call(bandwidth.cross_validate, (a.points,), options)


def _select(a: Draw) -> Call:
    n = a.n + 10  # folds take so many
    options = {"most_rows": a.one(10, 10_000), "weights": a.one(None, a.positive(n))} | a.domain()
    return Call(bandwidth.select, (a.array(n, a.d), [a.one("kde", "sd", "positive", "abramson")]), options)


def _polynomial(a: Draw) -> cukde.PiecewisePolynomial:
    options = a.one(True, False, "periodic", "clamp")
    return cukde.PiecewisePolynomial(a.array(3, a.n - 1), a.knots, extrapolate=options)


def _spline(a: Draw) -> Any:
    from scipy.interpolate import make_interp_spline

    return make_interp_spline(np.arange(6.0), a.rng.normal(size=6), k=a.one(1, 3))


def _estimator_options(a: Draw) -> dict[str, Any]:
    gaussian = {
        "kernel": "gaussian",
        "method": a.one("kde", "sd", "laplace", "positive"),
        "precision": a.one(None, "float64"),
    }
    other = {"kernel": a.one("tophat", "epanechnikov", "exponential", "linear", "cosine")}
    return a.one(gaussian | a.domain(), other, {"metric": a.one("manhattan", "chebyshev")}) | {
        "bandwidth": a.one(0.7, "scott", "silverman"),
        "algorithm": "auto",
        "atol": 0,
        "rtol": 0,
        "breadth_first": True,
        "leaf_size": 40,
        "metric_params": None,
        "kinds": None,
        "backend": "auto",
    }


def _fitted(a: Draw, **options: Any) -> Any:
    return cukde.KernelDensity(**(_estimator_options(a) | options)).fit(a.points, sample_weight=a.weights)


def _fit(a: Draw) -> Call:
    return Call(cukde.KernelDensity(**_estimator_options(a)).fit, (a.points, None, a.weights))


def _detector(a: Draw) -> Any:
    options = {"bandwidth": a.one(0.7, "silverman_deviations"), "method": a.one("kde", "sd", "positive")}
    return cukde.OutlierDetector(contamination=a.one("auto", 0.2), **options)


def _of_detector(function: str) -> Callable[[Draw], Call]:
    def call(a: Draw) -> Call:
        return Call(getattr(_detector(a).fit(a.points, sample_weight=a.weights), function), (a.array(5, a.d),))

    return call


def _at_queries(function: str, /, **options: Any) -> Callable[[Draw], Call]:
    def call(a: Draw) -> Call:
        return Call(getattr(_fitted(a, **options), function), (a.array(5, a.d),))

    return call


def _gaussian_kde(a: Draw, d: int | None = None) -> Call:
    d = a.d if d is None else d
    data, weights = a.array(d, a.n + d), a.one(None, a.positive(a.n + d))
    return Call(cukde.gaussian_kde, (data,), {"bw_method": a.one(None, "scott", "silverman", 0.4), "weights": weights})


def _of_gaussian_kde(
    method: str, arguments: Callable[[Draw, int], tuple[Any, ...]], d: int | None = None
) -> Callable[[Draw], Call]:
    def call(a: Draw) -> Call:
        kde = _gaussian_kde(a, d)()
        return Call(getattr(kde, method), arguments(a, kde.d))

    return call


_WITH_GRADIENT = {"kernel": "gaussian", "metric": "euclidean", "method": "sd"}
_POSITIVE = {"kernel": "gaussian", "metric": "euclidean", "method": "kde"}


def _saved(a: Draw) -> Path:
    path = a.path()
    _fitted(a).save(path)
    return path


def _sizes(a: Draw) -> dict[str, Any]:
    return {"n": 100, "m": 10, "d": a.d}


def _predict(a: Draw) -> Call:
    options = {"bytes_per_pair": None, "flops_per_pair": 5.0, "launch_seconds": 1e-5, "overlap": 2.0, "cold": True}
    return Call(perf.predict, ("kde", a.one("H100", H200)), options | _sizes(a))


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Take anything."""


def _measure(a: Draw) -> Call:
    options = {
        "gpu": False,
        "seconds": 1e-4,
        "most": 3,
        "calls": a.one(1, 2),
        "cold": False,
        "rotate": None,
        "confidence": 0.9,
        "random_state": 1,
        "seed": None,
    }
    return Call(perf.measure, (_nothing, a.array(9)), options)


def _explain(a: Draw) -> Call:
    options = {"on": "cpu", "seconds": 1e-4, "cold": False, "calls": 1}
    return Call(perf.explain, (cukde.kde, a.points, a.queries, 1.0), options)


def _roofline(a: Draw) -> Call:
    return Call(perf.roofline, ([("kde", _sizes(a), 1e-3)], H200, a.one(None, Path("roofline.txt"))))


def _formula(on: Any, *, n: float) -> perf.Counted:
    return perf.Counted((perf.Part("all", bytes=8 * n),), "counted by hand")


def _elementwise(function: Callable[..., Any]) -> Callable[[Draw], Call]:
    return lambda a: Call(function, (a.queries,))


def _blocks(a: Any) -> Any:
    """An array, of the GPU too, in blocks of half its sizes; anything else is itself."""
    if not type(a).__module__.startswith(("numpy", "cupy")) or not getattr(a, "ndim", 0):
        return a
    return da.from_array(a, chunks=tuple(max(1, size // 2) for size in a.shape))


def _lazily(function: Callable[..., Any], arrays: int, plain: Callable[[Draw], Call]) -> Callable[[Draw], Call]:
    """The same call with its first arguments in blocks, computed."""

    def call(*args: Any, **kwargs: Any) -> Any:
        out = function(*map(_blocks, args[:arrays]), *args[arrays:], **kwargs)
        several = isinstance(out, tuple)
        computed = dask.compute(*(out if several else (out,)), scheduler="synchronous")
        return computed if several else computed[0]

    def lazy(a: Draw) -> Call:
        whole = plain(a)
        options = whole.kwargs | ({"out": None} if "out" in whole.kwargs else {})  # nothing is there to write yet
        for name in ("boundary", "kinds"):
            options.pop(name, None)
        return replace(whole, function=call, kwargs=options)

    return lazy


def _picture(function: Callable[..., Any], drawn: Callable[[Draw], Call]) -> Callable[[Draw], Call]:
    """A call that draws, on axes of its own or those given, as the numbers of what was drawn."""

    def call(*args: Any, **kwargs: Any) -> Any:
        axes = np.ravel(function(*args, **kwargs))
        if (manager := axes[0].figure.canvas.manager) is not None:  # of a new figure, which pyplot keeps
            from matplotlib import pyplot

            pyplot.close(manager.num)
        return [np.asarray(line.get_xydata()) for ax in axes for line in ax.lines]

    return lambda a: replace(drawn(a), function=call)


def _axes(*shape: int) -> Any:
    from matplotlib.figure import Figure

    return Figure().subplots(*shape)


def _two_groups(a: Draw) -> Any:
    return a.one(None, np.arange(a.n) % 2 > 0)


def _pictured(a: Draw, *methods: str, **own: Any) -> dict[str, Any]:
    """Options that pictures of densities share, and those of one of them."""
    return {
        "h": a.one(None, 0.7),
        "ax": _axes(),
        "method": a.one(*methods),
        "color": None,
        "hue": _two_groups(a),
        "log_scale": False,
        "bw_adjust": a.one(1, 0.5),
        "random_state": a.one(1, np.random.default_rng(1)),
        "seed": None,
        "weights": a.weights,
    } | own


def _plot_density(a: Draw) -> Call:
    own = {
        "rug": a.one(False, True),
        "band": a.one(None, 0.9),
        "interval": False,
        "resamples": 3,
        "points": a.one(2, 9),
        "limits": a.one(None, (-1.0, 2.0)),
        "label": a.one(None, "a"),
        "common_norm": a.one(False, True),
    }
    return Call(plot.density, (a.array(a.n),), _pictured(a, "kde", "sd", "laplace", "positive", **own))


def _plot_contours(a: Draw) -> Call:
    own = {
        "h": a.one(None, 0.7, a.rng.uniform(0.3, 2, 2)),
        "mass": a.one(0.5, (0.5, 0.9)),
        "outside": a.one(False, True),
        "points": a.one(2, 9),
        "subsample": a.one(2, 5000),
        "log_scale": a.one(False, (False, False)),
    }
    return Call(plot.contours, (a.array(a.n, 2),), _pictured(a, "kde", "sd", "laplace", "positive", **own))


def _plot_pairs(a: Draw) -> Call:
    own = {
        "columns": a.one(None, [1, 0]),
        "names": a.one(None, ["a", "b"]),
        "ax": _axes(2, 2),
        "mass": 0.5,
        "tau": a.one(False, True),
        "points": 5,
        "subsample": 9,
    }
    return Call(plot.pairs, (a.array(a.n, 2),), _pictured(a, "kde", "laplace", "positive", **own))


def _plot_anomalies(a: Draw) -> Call:
    options = {
        "ax": _axes(),
        "threshold": None,
        "quantile": a.one(None, 0.2),
        "color": None,
        "hue": a.one(None, a.array(a.n) > 0),
        "bins": a.one(None, 5),
        "log_counts": a.one(False, True),
    }
    return Call(plot.anomalies, (a.array(a.n),), options)


def _flash(function: Callable[..., Any]) -> Callable[[Draw], Call]:
    return lambda a: Call(function, (100.0, 10.0, a.d))


CALLS: dict[str, Callable[[Draw], Call]] = {
    "kde": _density(cukde.kde, log=True),
    "score": _density(cukde.score),
    "density_and_score": _density(cukde.density_and_score),
    "debias": _debias,
    "sd_kde": _sd_kde,
    "laplace_kde": _laplace_kde,
    "positive_kde": _positive_kde,
    "positive_mass": _positive_mass,
    "positive_score": _positive_score,
    "kernel_sum": _kernel_sum,
    "marginal": _marginal,
    "conditional": _conditional,
    "conditional_cdf": _of_one_column(cukde.conditional_cdf),
    "conditional_quantile": _of_one_column(cukde.conditional_quantile),
    "conditional_sample": _conditional_sample,
    "regions": _regions,
    "hdr_threshold": _hdr_threshold,
    "entropy": _entropy,
    "mutual_information": _mutual_information,
    "kl_divergence": _kl_divergence,
    "hessian": _hessian,
    "density_ratio": _density_ratio,
    "density_interval": _density_interval,
    "evaluate_grid": _evaluate_grid,
    "cdf": _distribution(cukde.cdf),
    "log_cdf": _distribution(cukde.log_cdf),
    "modes": _modes,
    "kendalltau": _kendalltau,
    "kendall_matrix": _kendall_matrix,
    "concordance": lambda a: Call(cukde.concordance, _matrices(a)),
    "depthwise_conv1d": _conv1d,
    "depthwise_conv1d_input_grad": _conv1d_input_grad,
    "depthwise_conv1d_weight_grad": _conv1d_weight_grad,
    "activation_grad": lambda a: Call(cukde.activation_grad, (a.one("silu", "gelu", "erf", None), a.queries)),
    "pwpa": _pwpa,
    "aos_to_soa": lambda a: Call(cukde.aos_to_soa, (a.points,)),
    "soa_to_aos": lambda a: Call(cukde.soa_to_aos, (a.points,)),
    "fit_piecewise": _fit_piecewise,
    "set_output": lambda a: Call(cukde.set_output),
    "warmup": _warmup,
    **{
        f"bandwidth.{name}": _rule(getattr(bandwidth, name))
        for name in ("scott", "silverman", "sd", "laplace", "positive")
    },
    "bandwidth.isj": lambda a: Call(bandwidth.isj, (a.rng.normal(size=60),)),
    "bandwidth.cross_validate": _cross_validate,
    "bandwidth.select": _select,
    "bandwidth.effective_size": lambda a: Call(bandwidth.effective_size, (a.rng.normal(size=(60, 2)),), {"chains": 3}),
    "bandwidth.abramson": lambda a: Call(bandwidth.abramson, (a.points, 1.0), {"alpha": 0.4, "weights": a.weights}),
    **{
        f"functions.{name}": _elementwise(getattr(functions, name))
        for name in ("erf", "exp", "gelu", "log", "sigmoid", "silu", "softplus", "tanh")
    },
    "functions.polynomial": lambda a: Call(functions.polynomial, (a.one("gelu", "exp"),)),
    "PiecewisePolynomial": lambda a: Call(
        cukde.PiecewisePolynomial, (a.array(3, a.n - 1, a.one(1, 2)), a.knots), {"extrapolate": "clamp"}
    ),
    "PiecewisePolynomial.__call__": lambda a: Call(_polynomial(a), (a.array(a.m), a.one(0, 1), a.one(None, True))),
    "PiecewisePolynomial.derivative": lambda a: Call(_polynomial(a).derivative, (a.one(-1, 0, 2, 5),)),
    "PiecewisePolynomial.antiderivative": lambda a: Call(_polynomial(a).antiderivative, (a.one(-1, 0, 2),)),
    "PiecewisePolynomial.integrate": lambda a: Call(_polynomial(a).integrate, (-0.5, 3, a.one(None, False))),
    "PiecewisePolynomial.from_spline": lambda a: Call(
        cukde.PiecewisePolynomial.from_spline, (a.one(_spline(a), _spline(a).tck),), {"extrapolate": a.one(None, True)}
    ),
    "PiecewisePolynomial.from_scipy": lambda a: Call(
        cukde.PiecewisePolynomial.from_scipy, (_polynomial(a).to_scipy(),), {"extrapolate": a.one(None, True)}
    ),
    "PiecewisePolynomial.to_scipy": lambda a: Call(_polynomial(a).to_scipy),
    "KernelDensity": lambda a: Call(cukde.KernelDensity, (), _estimator_options(a)),
    "KernelDensity.fit": _fit,
    "KernelDensity.score_samples": _at_queries("score_samples"),
    "KernelDensity.score": _at_queries("score", **_POSITIVE),
    "KernelDensity.grad_log_density": _at_queries("grad_log_density", **_WITH_GRADIENT),
    "KernelDensity.sample": lambda a: Call(_fitted(a, **_WITH_GRADIENT).sample, (a.one(1, 5), 3)),
    "KernelDensity.save": lambda a: Call(_fitted(a).save, (a.path(),)),
    "KernelDensity.load": lambda a: Call(cukde.KernelDensity.load, (_saved(a),)),
    "OutlierDetector": lambda a: Call(cukde.OutlierDetector, (), {"contamination": a.one("auto", 0.1), "bandwidth": 1}),
    "OutlierDetector.fit": lambda a: Call(_detector(a).fit, (a.points, None, a.weights)),
    "OutlierDetector.fit_predict": lambda a: Call(_detector(a).fit_predict, (a.points, None, a.weights)),
    "OutlierDetector.predict": _of_detector("predict"),
    "OutlierDetector.decision_function": _of_detector("decision_function"),
    "OutlierDetector.score_samples": _of_detector("score_samples"),
    "sphere.kde": _on_sphere(sphere.kde, log=True),
    "sphere.score": _on_sphere(sphere.score),
    "sphere.hdr_threshold": _sphere_threshold,
    "sphere.modes": _sphere_modes,
    "sphere.reference": lambda a: Call(sphere.reference, (a.directions(a.n),), {"weights": a.weights}),
    "sphere.cross_validate": _sphere_cross_validate,
    "sphere.from_degrees": lambda a: Call(
        sphere.from_degrees, (100 * a.array(a.m), np.clip(30 * a.array(a.m), -90, 90))
    ),
    "sphere.to_degrees": lambda a: Call(sphere.to_degrees, (a.array(a.m, 3),)),
    "gaussian_kde": _gaussian_kde,
    "gaussian_kde.evaluate": _of_gaussian_kde("evaluate", lambda a, d: (a.array(d, a.m),)),
    "gaussian_kde.__call__": _of_gaussian_kde("__call__", lambda a, d: (a.array(d, a.m),)),
    "gaussian_kde.pdf": _of_gaussian_kde("pdf", lambda a, d: (a.array(d),)),
    "gaussian_kde.logpdf": _of_gaussian_kde("logpdf", lambda a, d: (a.array(d, a.m),)),
    "gaussian_kde.integrate_gaussian": _of_gaussian_kde("integrate_gaussian", lambda a, d: (a.array(d), np.eye(d))),
    "gaussian_kde.integrate_box_1d": _of_gaussian_kde("integrate_box_1d", lambda a, d: (-1.5, a.one(1, np.inf)), 1),
    "gaussian_kde.integrate_box": _of_gaussian_kde("integrate_box", lambda a, d: (a.array(d), a.array(d), 64)),
    "gaussian_kde.integrate_kde": _of_gaussian_kde("integrate_kde", lambda a, d: (cukde.gaussian_kde(a.array(d, 9)),)),
    "gaussian_kde.resample": _of_gaussian_kde("resample", lambda a, d: (a.one(None, 5), 3)),
    "gaussian_kde.marginal": _of_gaussian_kde("marginal", lambda a, d: (a.one([0, 1], -1),), 2),
    "gaussian_kde.cdf": _of_gaussian_kde("cdf", lambda a, d: (a.array(a.m),), 1),
    "gaussian_kde.quantile": _of_gaussian_kde("quantile", lambda a, d: (a.rng.uniform(size=a.m),), 1),
    "gaussian_kde.set_bandwidth": _of_gaussian_kde("set_bandwidth", lambda a, d: (a.one(None, "silverman", 0.3),)),
    "gaussian_kde.scotts_factor": _of_gaussian_kde("scotts_factor", lambda a, d: ()),
    "gaussian_kde.silverman_factor": _of_gaussian_kde("silverman_factor", lambda a, d: ()),
    "gaussian_kde.covariance_factor": _of_gaussian_kde("covariance_factor", lambda a, d: ()),
    "plot.density": _picture(plot.density, _plot_density),
    "plot.contours": _picture(plot.contours, _plot_contours),
    "plot.pairs": _picture(plot.pairs, _plot_pairs),
    "plot.anomalies": _picture(plot.anomalies, _plot_anomalies),
    "perf.cost": lambda a: Call(perf.cost, ("kde", "H200"), _sizes(a)),
    "perf.declare": lambda a: Call(perf.declare, (_formula, lambda x: {"n": x.size}, "toy", None)),
    "perf.explain": _explain,
    "perf.flash_bytes": _flash(perf.flash_bytes),
    "perf.flash_flops": _flash(perf.flash_flops),
    "perf.flash_intensity": _flash(perf.flash_intensity),
    "perf.flash_tile_bytes": lambda a: Call(perf.flash_tile_bytes, (a.d, 64, 1024), {"moments": True}),
    "perf.flash_utilisation": lambda a: Call(perf.flash_utilisation, (1.0, 100.0, 10.0, a.d, 1e14)),
    "perf.measure": _measure,
    "perf.measure_peaks": lambda a: Call(perf.measure_peaks, ("cpu",)),
    "perf.operations": lambda a: Call(perf.operations),
    "perf.peaks": lambda a: Call(perf.peaks, (a.one("H200", "cpu", H200),)),
    "perf.plan": lambda a: Call(
        perf.plan, (partial(cukde.kde, a.points, a.queries, 1.0),), {"gpu": a.one("H200", H200)}
    ),
    "perf.predict": _predict,
    "perf.roofline": _roofline,
    "perf.sensitivity": lambda a: Call(perf.sensitivity, ("kde", "A100"), {"cold": True} | _sizes(a)),
}
"""By the name of the function, below ``cukde``."""

_LAZY = {
    "kde": 2,
    "score": 2,
    "density_and_score": 2,
    "debias": 1,
    "sd_kde": 2,
    "laplace_kde": 2,
    "positive_kde": 2,
    "positive_mass": 1,
    "positive_score": 2,
    "kernel_sum": 3,
    "marginal": 3,
    "conditional": 3,
    "density_ratio": 3,
    "density_interval": 2,
    "hdr_threshold": 1,
    "evaluate_grid": 1,
    "kendall_matrix": 2,
    "depthwise_conv1d": 2,
    "pwpa": 1,
}
"""Functions of ``cukde.dask``, and how many of their first arguments are arrays in blocks."""

CALLS |= {f"dask.{name}": _lazily(getattr(cukde.dask, name), arrays, CALLS[name]) for name, arrays in _LAZY.items()}

CALLS["dask.modes"] = _modes_of_blocks


def _with_gradients(name: str) -> Callable[[Draw], Call]:
    """A call of plain arrays, which go to the function of cukde, without the options that have no gradients."""
    function = getattr(cukde.torch, name)

    def call(a: Draw) -> Call:
        whole = CALLS[name](a)
        taken = inspect.signature(function).parameters
        return replace(whole, function=function, kwargs={k: v for k, v in whole.kwargs.items() if k in taken})

    return call


CALLS |= {f"torch.{name}": _with_gradients(name) for name in cukde.torch.__all__ if name != "evaluate"}
CALLS["torch.evaluate"] = lambda a: Call(cukde.torch.evaluate, (_polynomial(a), a.array(a.m), a.one(0, 1)))
CALLS["dask.block_boxes"] = lambda a: Call(
    lambda X, **options: cukde.dask.block_boxes(_blocks(X), **options), (a.points,), {"weights": a.weights}
)

ON_DEVICE = frozenset(
    name
    for name in CALLS
    if not name.startswith(("perf.", "PiecewisePolynomial.from", "KernelDensity.", "OutlierDetector.", "gaussian_kde."))
    or name == "KernelDensity.fit"
)
"""What takes arrays of a GPU."""


def public_names() -> set[str]:
    """Names of everything public that is called, classes of errors and of results apart.

    And but for ``dask.to_gpu``, of which no call is right where there is no GPU (tests/core/test_dask_devices.py).
    """
    found = set()
    # and cukde.jax, the same ones
    for module in (cukde, functions, perf, plot, bandwidth, sphere, cukde.dask, cukde.torch):
        prefix = module.__name__.removeprefix("cukde").removeprefix(".")
        for name in getattr(module, "__all__", [n for n in dir(module) if not n.startswith("_")]):
            f = getattr(module, name)
            own = hasattr(module, "__all__") or getattr(f, "__module__", None) == module.__name__
            if own and inspect.isroutine(inspect.unwrap(f)):
                found.add(f"{prefix}.{name}".removeprefix("."))
    for of in (cukde.KernelDensity, cukde.OutlierDetector, cukde.PiecewisePolynomial, cukde.gaussian_kde):
        found.add(of.__name__)
        for name, value in vars(of).items():
            f = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if inspect.isfunction(f) and (not name.startswith("_") or name == "__call__"):
                found.add(f"{of.__name__}.{name}")
    return found - {"dask.to_gpu"}


def only_documented_warnings() -> None:
    """Make errors of all warnings from here on but for those that functions say they make."""
    warnings.simplefilter("error")
    for category in (
        cukde.NegativeDensityWarning,
        cukde.BandwidthRangeWarning,
        cukde.ConvergenceWarning,
        core_warnings._small_sample_category(),
    ):
        warnings.simplefilter("ignore", category)
    warnings.filterwarnings("ignore", "X (has|does not have valid) feature names", UserWarning)  # scikit-learn's
    warnings.filterwarnings("ignore", module="pandas")  # which a table of float16 makes when it is printed


def _loads() -> Iterator[Load]:
    """Loads of the processor that nobody runs: making the real ones takes a second."""
    for unit in ("memory", "gemm_f32", "gemm_f64", "exponential", "exponential_f64", "scalar", "launch"):
        yield Load(unit, 1e9, lambda: None, True)


def _second(load: Load, seconds: float) -> perf.Times:
    """A time that nobody measured."""
    return perf.Times(1e3, 1e3, 1e3, 1e3, 1e3, 1)


@contextlib.contextmanager
def sandbox() -> Iterator[Path]:
    """Calls write into a folder of their own, and peaks of the processor are made up."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, {"CUKDE_PEAKS": f"{folder}/peaks.json"}))
        # No mock, which would keep what it was called with: arrays of gigabytes, of a GPU.
        stack.enter_context(mock.patch("cukde.perf._measure_peaks.timed", _second))
        stack.enter_context(mock.patch.object(_loads_cpu, "loads", _loads))
        perf.measure_peaks("cpu")
        stack.callback(os.chdir, before)
        os.chdir(folder)
        yield Path(folder)
