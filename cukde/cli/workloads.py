"""The workloads of ``cukde roofline``: a call of moderate size for every public operation with a cost.

A call takes some milliseconds on two CPU cores, and 0.1 to 5 ms on an H200.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Literal, NamedTuple

import numpy as np

import cukde

Call = functools.partial[Any]


class Workload(NamedTuple):
    """The function that makes a call from an array module, its random generator and sizes; and the sizes."""

    make: Callable[..., Call]
    cpu: Mapping[str, int]
    gpu: Mapping[str, int]

    def call(self, backend: Literal["cpu", "gpu"]) -> Call:
        """Make the arrays and the call."""
        xp: ModuleType = importlib.import_module("numpy" if backend == "cpu" else "cupy")
        return self.make(xp, xp.random.default_rng(0), **(self.gpu if backend == "gpu" else self.cpu))


def _normal(rng: Any, *shape: int) -> Any:
    return rng.standard_normal(shape, dtype=np.float32)


def _density(function: Callable[..., Any]) -> Callable[..., Call]:
    """With queries like the data, and a bandwidth at which some of the pairs contribute."""
    return lambda xp, rng, n, m, d: functools.partial(function, _normal(rng, n, d), _normal(rng, m, d), 1.0)


def _of_data(function: Callable[..., Any]) -> Callable[..., Call]:
    return lambda xp, rng, n, d: functools.partial(function, _normal(rng, n, d), 1.0)


def _evaluate_grid(xp: ModuleType, rng: Any, n: int, g: int) -> Call:
    return functools.partial(
        cukde.evaluate_grid, _normal(rng, n, 2), [np.linspace(-6, 6, g, dtype=np.float32)] * 2, 0.1
    )


def _distribution(function: Callable[..., Any]) -> Callable[..., Call]:
    return lambda xp, rng, n, m: functools.partial(function, _normal(rng, n), _normal(rng, m), 0.1)


def _rule(function: Callable[..., Any]) -> Callable[..., Call]:
    return lambda xp, rng, n, d: functools.partial(function, _normal(rng, n, d))


def _isj(xp: ModuleType, rng: Any, n: int) -> Call:
    return functools.partial(cukde.bandwidth.isj, _normal(rng, n))


def _cross_validate(xp: ModuleType, rng: Any, n: int, d: int) -> Call:
    return functools.partial(cukde.bandwidth.cross_validate, _normal(rng, n, d))


def _kernel_sum(xp: ModuleType, rng: Any, n: int, m: int, d: int) -> Call:
    return functools.partial(cukde.kernel_sum, _normal(rng, n, d), _normal(rng, n), _normal(rng, m, d), 1.0)


def _marginal(xp: ModuleType, rng: Any, n: int, m: int, d: int) -> Call:
    """Of half of the columns."""
    half = list(range(d // 2))
    return functools.partial(cukde.marginal, _normal(rng, n, d), half, _normal(rng, m, len(half)), 1.0)


def _conditional(xp: ModuleType, rng: Any, n: int, m: int, d: int) -> Call:
    """Given half of the columns."""
    values = dict.fromkeys(range(d // 2), 0.0)
    return functools.partial(cukde.conditional, _normal(rng, n, d), values, _normal(rng, m, d - d // 2), 1.0)


def _density_ratio(xp: ModuleType, rng: Any, n: int, m: int, d: int) -> Call:
    X, Z, Y = (_normal(rng, rows, d) for rows in (n, n, m))
    return functools.partial(cukde.density_ratio, X, Z, Y, 1.0)


def _kendalltau(xp: ModuleType, rng: Any, n: int) -> Call:
    return functools.partial(cukde.kendalltau, _normal(rng, n), _normal(rng, n))


def _matrix(function: Callable[..., Any]) -> Callable[..., Call]:
    return lambda xp, rng, n, p: functools.partial(function, _normal(rng, n, p))


def _knots(pieces: int) -> np.ndarray:
    return np.linspace(-4, 4, pieces + 1, dtype=np.float32)


def _piecewise(xp: ModuleType, rng: Any, n: int, pieces: int, degree: int) -> Call:
    c = _normal(rng, degree + 1, pieces)
    return functools.partial(cukde.PiecewisePolynomial(c, xp.asarray(_knots(pieces))), _normal(rng, n))


def _pwpa(xp: ModuleType, rng: Any, n: int, pieces: int, degree: int) -> Call:
    return functools.partial(cukde.pwpa, _normal(rng, n), _normal(rng, pieces, degree + 1), xp.asarray(_knots(pieces)))


def _copied(function: Callable[..., Any]) -> Callable[..., Call]:
    return lambda xp, rng, rows, columns: functools.partial(function, _normal(rng, rows, columns))


def _function(name: str) -> Callable[..., Call]:
    """Of positive numbers, where the logarithm is a number."""
    return lambda xp, rng, n: functools.partial(getattr(cukde.functions, name), abs(_normal(rng, n)))


def _convolution(xp: ModuleType, rng: Any, batch: int, channels: int, length: int, taps: int) -> Call:
    return functools.partial(
        cukde.depthwise_conv1d, _normal(rng, batch, channels, length), _normal(rng, channels, taps)
    )


def _input_grad(xp: ModuleType, rng: Any, batch: int, channels: int, length: int, taps: int) -> Call:
    dy, w = _normal(rng, batch, channels, length), _normal(rng, channels, taps)
    return functools.partial(cukde.depthwise_conv1d_input_grad, dy, w)


def _weight_grad(xp: ModuleType, rng: Any, batch: int, channels: int, length: int, taps: int) -> Call:
    x, dy = _normal(rng, batch, channels, length), _normal(rng, batch, channels, length)
    return functools.partial(cukde.depthwise_conv1d_weight_grad, x, dy, taps)


def _activation_grad(xp: ModuleType, rng: Any, n: int) -> Call:
    return functools.partial(cukde.activation_grad, "gelu", _normal(rng, n))


_PAIRS = {"n": 4096, "m": 4096, "d": 16}, {"n": 65536, "m": 65536, "d": 16}
_DATA = {"n": 4096, "d": 16}, {"n": 65536, "d": 16}
_ROWS = {"n": 2**17, "d": 16}, {"n": 2**22, "d": 16}
_COLUMNS = {"n": 2000, "p": 32}, {"n": 4000, "p": 512}
_POINTS = {"n": 2**21}, {"n": 2**26}
_PIECES = {"n": 2**21, "pieces": 64, "degree": 3}, {"n": 2**26, "pieces": 64, "degree": 3}
_SIGNALS = (
    {"batch": 8, "channels": 64, "length": 2048, "taps": 31},
    {"batch": 64, "channels": 256, "length": 4096, "taps": 31},
)
_FUNCTIONS = ("gelu", "silu", "tanh", "sigmoid", "erf", "softplus", "exp", "log")

WORKLOADS: dict[str, Workload] = {
    **{
        function.__name__: Workload(_density(function), *_PAIRS)
        for function in (cukde.kde, cukde.score, cukde.density_and_score, cukde.sd_kde, cukde.laplace_kde)
    },
    "positive_kde": Workload(_density(cukde.positive_kde), *_PAIRS),
    "positive_score": Workload(_density(cukde.positive_score), *_PAIRS),
    "positive_mass": Workload(_of_data(cukde.positive_mass), *_DATA),
    "debias": Workload(_of_data(cukde.debias), *_DATA),
    "modes": Workload(_of_data(cukde.modes), {"n": 1024, "d": 4}, {"n": 16384, "d": 4}),
    "kernel_sum": Workload(_kernel_sum, *_PAIRS),
    "marginal": Workload(_marginal, *_PAIRS),
    "conditional": Workload(_conditional, *_PAIRS),
    "hdr_threshold": Workload(_of_data(cukde.hdr_threshold), *_DATA),
    "density_ratio": Workload(_density_ratio, *_PAIRS),
    "evaluate_grid": Workload(_evaluate_grid, {"n": 2**17, "g": 256}, {"n": 2**22, "g": 1024}),
    **{
        name: Workload(_distribution(getattr(cukde, name)), {"n": 2**20, "m": 2**17}, {"n": 2**24, "m": 2**21})
        for name in ("cdf", "log_cdf")
    },
    **{
        f"bandwidth.{name}": Workload(_rule(getattr(cukde.bandwidth, name)), *_ROWS)
        for name in ("scott", "silverman", "sd", "laplace", "positive")
    },
    "bandwidth.abramson": Workload(_of_data(cukde.bandwidth.abramson), *_DATA),
    "bandwidth.select": Workload(_rule(cukde.bandwidth.select), {"n": 1024, "d": 4}, {"n": 16384, "d": 4}),
    "bandwidth.isj": Workload(_isj, {"n": 2**18}, {"n": 2**24}),
    "bandwidth.cross_validate": Workload(_cross_validate, {"n": 1024, "d": 4}, {"n": 16384, "d": 4}),
    "kendalltau": Workload(_kendalltau, {"n": 10**5}, {"n": 10**6}),
    "kendall_matrix": Workload(_matrix(cukde.kendall_matrix), *_COLUMNS),
    "concordance": Workload(_matrix(cukde.concordance), *_COLUMNS),
    "PiecewisePolynomial": Workload(_piecewise, *_PIECES),
    "pwpa": Workload(_pwpa, *_PIECES),
    "aos_to_soa": Workload(_copied(cukde.aos_to_soa), {"rows": 2**19, "columns": 4}, {"rows": 2**24, "columns": 4}),
    "soa_to_aos": Workload(_copied(cukde.soa_to_aos), {"rows": 4, "columns": 2**19}, {"rows": 4, "columns": 2**24}),
    **{f"functions.{name}": Workload(_function(name), *_POINTS) for name in _FUNCTIONS},
    "depthwise_conv1d": Workload(_convolution, *_SIGNALS),
    "depthwise_conv1d_input_grad": Workload(_input_grad, *_SIGNALS),
    "depthwise_conv1d_weight_grad": Workload(_weight_grad, *_SIGNALS),
    "activation_grad": Workload(_activation_grad, {"n": 2**19}, {"n": 2**24}),
}
"""By the name under ``cukde``."""
