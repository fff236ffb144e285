"""The workloads of ``cukde roofline``: a call of moderate size for every public operation with a cost.

A call takes some milliseconds on two CPU cores, and 0.1 to 5 ms on an H200.
"""

from __future__ import annotations

import functools
import importlib
import operator
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple

import numpy as np

import cukde

Arguments = Callable[[Callable[..., Any], SimpleNamespace], tuple[Any, ...]]
"""Arguments of a call, made by what makes an array of a shape, and of sizes."""


class Workload(NamedTuple):
    """A function, its arguments, and their sizes."""

    function: Callable[..., Any]
    arguments: Arguments
    cpu: Mapping[str, int]
    gpu: Mapping[str, int]

    def call(self, backend: Literal["cpu", "gpu"]) -> functools.partial[Any]:
        """Make the arrays and the call."""
        xp = importlib.import_module("numpy" if backend == "cpu" else "cupy")
        rng = xp.random.default_rng(0)
        sizes = SimpleNamespace(xp=xp, **(self.gpu if backend == "gpu" else self.cpu))
        given = self.arguments(lambda *shape: rng.standard_normal(shape, dtype=np.float32), sizes)
        if self.function is cukde.PiecewisePolynomial:
            return functools.partial(cukde.PiecewisePolynomial(*given[1:]), given[0])
        return functools.partial(self.function, *given)


def _knots(s: SimpleNamespace) -> Any:
    return s.xp.asarray(np.linspace(-4, 4, s.pieces + 1, dtype=np.float32))


_PAIRS = {"n": 4096, "m": 4096, "d": 16}, {"n": 65536, "m": 65536, "d": 16}
_DATA = {"n": 4096, "d": 16}, {"n": 65536, "d": 16}
_FEW = {"n": 1024, "d": 4}, {"n": 16384, "d": 4}
_COLUMNS = {"n": 2000, "d": 32}, {"n": 4000, "d": 512}
_GLOBE = {"n": 4096, "m": 4096, "d": 3}, {"n": 65536, "m": 65536, "d": 3}
_ON_GLOBE = {"n": 4096, "d": 3}, {"n": 65536, "d": 3}
_POINTS = {"n": 2**21}, {"n": 2**26}
_PIECES = {"n": 2**21, "pieces": 64, "degree": 3}, {"n": 2**26, "pieces": 64, "degree": 3}
_SIGNALS = {"b": 8, "c": 64, "length": 2048, "k": 31}, {"b": 64, "c": 256, "length": 4096, "k": 31}


# With queries like the data, and a bandwidth at which some of the pairs contribute.
def _pairs(a: Any, s: SimpleNamespace) -> tuple[Any, ...]:
    return a(s.n, s.d), a(s.m, s.d), 1.0


def _data(a: Any, s: SimpleNamespace) -> tuple[Any, ...]:
    return a(s.n, s.d), 1.0


def _unit(points: Any) -> Any:
    """Points moved to the sphere."""
    return points / (points * points).sum(axis=1, keepdims=True) ** 0.5


def _rows(a: Any, s: SimpleNamespace) -> tuple[Any, ...]:
    return (a(s.n, s.d),)


_WORKLOADS: dict[str, tuple[Arguments, tuple[Mapping[str, int], Mapping[str, int]]]] = {
    "kde score density_and_score sd_kde laplace_kde positive_kde positive_score density_interval": (_pairs, _PAIRS),
    "positive_mass debias": (_data, _DATA),
    "modes": (_data, _FEW),
    "hessian": (lambda a, s: (a(s.n, s.d), a(s.n, s.d), 1.0), _FEW),
    "kernel_sum": (lambda a, s: (a(s.n, s.d), a(s.n), a(s.m, s.d), 1.0), _PAIRS),
    # Of half of the columns, and given half of them.
    "marginal": (lambda a, s: (a(s.n, s.d), [*range(s.d // 2)], a(s.m, s.d // 2), 1.0), _PAIRS),
    "conditional": (
        lambda a, s: (a(s.n, s.d), dict.fromkeys(range(s.d // 2), 0.0), a(s.m, s.d - s.d // 2), 1.0),
        _PAIRS,
    ),
    # Of the last column given a value of each other for each query, and given one value.
    "conditional_cdf": (
        lambda a, s: (a(s.n, s.d), {k: a(s.m) for k in range(s.d - 1)}, a(s.m), 0.3),
        ({"n": 2**15, "m": 2**12, "d": 3}, {"n": 2**20, "m": 2**16, "d": 3}),
    ),
    "conditional_quantile": (
        lambda a, s: (a(s.n, s.d), {k: a(s.m) for k in range(s.d - 1)}, 0.5, 0.3),
        ({"n": 2**15, "m": 2**12, "d": 3}, {"n": 2**20, "m": 2**16, "d": 3}),
    ),
    "conditional_sample": (
        lambda a, s: (a(s.n, s.d), {k: a(s.m) for k in range(s.d - 1)}, 0.3),
        ({"n": 2**15, "m": 2**12, "d": 3}, {"n": 2**20, "m": 2**16, "d": 3}),
    ),
    "regions": (lambda a, s: (a(s.n, 2), 0.1), ({"n": 2**15}, {"n": 2**20})),
    "hdr_threshold": (_data, _DATA),
    "entropy": (_data, _DATA),
    "mutual_information": (lambda a, s: (a(s.n, s.d), [*range(s.d // 2)], None, 1.0), _DATA),
    "kl_divergence": (lambda a, s: (a(s.n, s.d), a(s.n, s.d), 1.0), _DATA),
    "density_ratio": (lambda a, s: (a(s.n, s.d), a(s.n, s.d), a(s.m, s.d), 1.0), _PAIRS),
    "evaluate_grid": (
        lambda a, s: (a(s.n, 2), [np.linspace(-6, 6, s.g, dtype=np.float32)] * 2, 0.1),
        ({"n": 2**17, "g": 256}, {"n": 2**22, "g": 1024}),
    ),
    "sphere.kde sphere.score": (lambda a, s: (_unit(a(s.n, s.d)), _unit(a(s.m, s.d)), 0.2), _GLOBE),
    "sphere.hdr_threshold": (lambda a, s: (_unit(a(s.n, s.d)), 0.2), _ON_GLOBE),
    "sphere.reference": (lambda a, s: (_unit(a(s.n, s.d)),), ({"n": 2**17, "d": 3}, {"n": 2**22, "d": 3})),
    "sphere.modes": (lambda a, s: (_unit(a(s.n, s.d)), 0.3), ({"n": 1024, "d": 3}, {"n": 16384, "d": 3})),
    "sphere.cross_validate": (
        lambda a, s: (_unit(a(s.n, s.d)),),
        ({"n": 1024, "d": 3}, {"n": 16384, "d": 3}),
    ),
    "cdf log_cdf": (lambda a, s: (a(s.n), a(s.m), 0.1), ({"n": 2**20, "m": 2**17}, {"n": 2**24, "m": 2**21})),
    "bandwidth.scott bandwidth.silverman bandwidth.sd bandwidth.laplace bandwidth.positive bandwidth.effective_size": (
        _rows,
        ({"n": 2**17, "d": 16}, {"n": 2**22, "d": 16}),
    ),
    "bandwidth.abramson": (_data, _DATA),
    "bandwidth.select": (_rows, _FEW),
    "bandwidth.isj": (lambda a, s: (a(s.n),), ({"n": 2**18}, {"n": 2**24})),
    "bandwidth.cross_validate": (_rows, _FEW),
    "kendalltau": (lambda a, s: (a(s.n), a(s.n)), ({"n": 10**5}, {"n": 10**6})),
    "kendall_matrix concordance": (_rows, _COLUMNS),
    "PiecewisePolynomial": (lambda a, s: (a(s.n), a(s.degree + 1, s.pieces), _knots(s)), _PIECES),
    "pwpa": (lambda a, s: (a(s.n), a(s.pieces, s.degree + 1), _knots(s)), _PIECES),
    "aos_to_soa": (_rows, ({"n": 2**19, "d": 4}, {"n": 2**24, "d": 4})),
    "soa_to_aos": (_rows, ({"n": 4, "d": 2**19}, {"n": 4, "d": 2**24})),
    # Of positive numbers, where the logarithm is a number.
    " ".join(f"functions.{name}" for name in ("gelu", "silu", "tanh", "sigmoid", "erf", "softplus", "exp", "log")): (
        lambda a, s: (abs(a(s.n)),),
        _POINTS,
    ),
    "depthwise_conv1d depthwise_conv1d_input_grad": (lambda a, s: (a(s.b, s.c, s.length), a(s.c, s.k)), _SIGNALS),
    "depthwise_conv1d_weight_grad": (lambda a, s: (a(s.b, s.c, s.length), a(s.b, s.c, s.length), s.k), _SIGNALS),
    "activation_grad": (lambda a, s: ("gelu", a(s.n)), ({"n": 2**19}, {"n": 2**24})),
}

WORKLOADS: dict[str, Workload] = {
    name: Workload(operator.attrgetter(name)(cukde), arguments, *sizes)
    for names, (arguments, sizes) in _WORKLOADS.items()
    for name in names.split()
}
"""By the name under ``cukde``."""
