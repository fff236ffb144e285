"""Piecewise polynomials and functions on the GPU beside a copy and rivals, each row checked before it is timed.

python -m pytest benchmarks/piecewise/bench_piecewise_gpu.py -m gpu --record benchmarks/results/NAME.json

2^26 points. Each call takes the next of several buffers, and results live as long; together they are many times the L2
cache. A time is of several calls in a row, which begin when all are launched. The bound of a row is a copy of the same
bytes from device to device, timed just before it. The error of a row is the largest of 2^20 points, in float64: of
polynomials |y - p(x)| / sum_j |c_j| |t|^j, where t is x - knots[i] for ours and CuPy's, x for the source's variants; of
functions |y - f(x)| / max(1, |f(x)|).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import cukde
from benchmarks.peers import Peer, reason
from cukde import perf
from cukde.perf._measure import Rotating
from tests.conftest import why_no_gpu

if why_no_gpu() is None:
    import cupy as cp

    from benchmarks.piecewise import study

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(why_no_gpu() is not None, reason=str(why_no_gpu()))]

N = 2**26
CALLS = 6  # in a row
_BUFFERS, _CHECKED = 3, 2**20

_TOLERANCE = {"float16": 5e-4, "float32": 1e-6, "float64": 1e-13}
_ROUNDING = {"float16": 2.0**-11, "float32": 2.0**-24}

Buffers = list[tuple[Any, Any]]  # points and memory for results


class Polynomials(NamedTuple):
    """What a row evaluates."""

    knots: np.ndarray  # (P + 1,), numbers of the dtype
    local: np.ndarray  # (D + 1, P), in powers of x - knots[i]


def _polynomials(pieces: int, degree: int, knots: str, dtype: str) -> Polynomials:
    """Random coefficients; the knots are uniform on [-1, 1] or at random, for float16 among multiples of 2^-10."""
    rng = np.random.default_rng([pieces, degree])
    if knots == "uniform":
        inner = np.linspace(-1, 1, pieces + 1)[1:-1]
    elif dtype == "float16":
        inner = np.sort(rng.choice(np.arange(-1023, 1024), pieces - 1, replace=False)) / 1024
    else:
        inner = np.sort(rng.uniform(-1, 1, pieces - 1))
    local = rng.standard_normal((degree + 1, pieces))
    return Polynomials(np.r_[-1, inner, 1].astype(dtype), local.astype("float64" if dtype == "float64" else "float32"))


def _buffers(points: Callable[[int], Any]) -> Buffers:
    return [(x, cp.empty_like(x)) for x in map(points, range(_BUFFERS))]


def _uniform_points(dtype: str, order: str) -> Buffers:
    def points(seed: int) -> Any:
        x = cp.random.default_rng(seed).random(N, np.float64 if dtype == "float64" else np.float32)
        x = (2 * x - 1).astype(dtype)
        return cp.sort(x) if order == "sorted" else x

    return _buffers(points)


def _bound(buffers: Buffers) -> dict[str, Any]:
    turns = [(out, x) for x, out in buffers]
    return {"bound_ms": perf.measure(cp.copyto, gpu=True, calls=CALLS, rotate=turns).median_ms, "bound": "a copy"}


def _row(op: str, dtype: str, shape: dict[str, Any], error: float, precision: str | None = None) -> dict[str, Any]:
    return {
        "op": op,
        "backend": "gpu",
        "shape": {"n": N} | shape,
        "dtype": dtype,
        "precision": precision or dtype,
        "rel_err_max": error,
    }


def _error(x: Any, y: Any, coefficients: Any, knots: Any, *, local: bool) -> float:
    """Of the coefficients and knots as the call had them."""
    step = max(1, len(x) // _CHECKED)
    x, y, c, knots = (cp.asarray(a, np.float64) for a in (x[::step], y[::step], coefficients, knots))
    piece = cp.clip(cp.searchsorted(knots, x, "right") - 1, 0, c.shape[1] - 1)
    t = x - knots[piece] if local else x
    value, size = cp.zeros_like(x), cp.zeros_like(x)
    for row in c:
        value, size = value * t + row[piece], size * abs(t) + abs(row[piece])
    return float((abs(y - value) / size).max())


def _variant(variant: Any, of: Polynomials, buffers: Buffers) -> Peer:
    """A study kernel's call and its error, which is that of Horner's rule in its arithmetic."""
    dtype = buffers[0][0].dtype
    c = study.coefficients_of(of.local, of.knots.astype(np.float64)).astype(dtype)
    stored = cp.asarray(c if variant.layout == "soa" else np.ascontiguousarray(c.T))
    knots = cp.asarray(of.knots, dtype)
    x, out = buffers[0]
    error = _error(x, study.evaluate(variant, x, stored, knots, out), c, of.knots, local=False)
    assert error <= 2 * len(c) * _ROUNDING[dtype.name]
    return Rotating(lambda x, out: study.evaluate(variant, x, stored, knots, out), buffers), error


def _cupy_ppoly(of: Polynomials, buffers: Buffers) -> Peer:
    from cupyx.scipy.interpolate import PPoly

    ppoly = PPoly(cp.asarray(of.local), cp.asarray(of.knots))
    x = buffers[0][0]
    return Rotating(lambda x, _: ppoly(x), buffers), _error(x, ppoly(x), of.local, of.knots, local=True)


def _bench(
    compare: Callable[..., None],
    pieces: int,
    degree: int,
    knots: str,
    order: str,
    dtype: str,
    peers: Callable[[Polynomials, Buffers], dict[str, Peer | str]],
) -> None:
    of, buffers = _polynomials(pieces, degree, knots, dtype), _uniform_points(dtype, order)
    ours = cukde.PiecewisePolynomial(cp.asarray(of.local), cp.asarray(of.knots.astype(of.local.dtype)))
    x = buffers[0][0]
    y = ours(x)
    assert y.dtype == dtype
    error = _error(x, y, of.local, of.knots, local=True)
    assert error <= _TOLERANCE[dtype]
    del y
    row = _row("piecewise", dtype, {"P": pieces, "D": degree, "knots": knots, "x": order}, error) | _bound(buffers)
    compare(Rotating(lambda x, _: ours(x), buffers), row, peers(of, buffers), calls=CALLS)


def _source(of: Polynomials, buffers: Buffers) -> dict[str, Peer | str]:
    return {variant.name: _variant(variant, of, buffers) for variant in study.SOURCE}


_SIZES = pytest.mark.parametrize(("pieces", "degree"), [(16, 2), (64, 3), (256, 3)])
_ORDERS = pytest.mark.parametrize("order", ["random", "sorted"])


@_SIZES
@_ORDERS
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def bench_uniform(compare: Callable[..., None], pieces: int, degree: int, order: str, dtype: str) -> None:
    _bench(compare, pieces, degree, "uniform", order, dtype, _source)


@_ORDERS
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def bench_random_knots(compare: Callable[..., None], order: str, dtype: str) -> None:
    _bench(compare, 256, 3, "random", order, dtype, _source)


@_ORDERS
@pytest.mark.parametrize(("pieces", "degree", "knots"), [(16, 2, "uniform"), (256, 3, "uniform"), (256, 3, "random")])
def bench_float64(compare: Callable[..., None], pieces: int, degree: int, knots: str, order: str) -> None:
    """Beside CuPy's PPoly, which has float64 alone."""
    _bench(compare, pieces, degree, knots, order, "float64", lambda *of: {"CuPy PPoly": _cupy_ppoly(*of)})


def bench_raw_call(compare: Callable[..., None]) -> None:
    """The source's call, coefficients in powers of x, which are made ready anew each time."""
    of, buffers = _polynomials(256, 3, "uniform", "float32"), _uniform_points("float32", "random")
    c = study.coefficients_of(of.local, of.knots.astype(np.float64)).astype(np.float32)
    rows, knots = cp.asarray(np.ascontiguousarray(c.T)), cp.asarray(of.knots)
    x, out = buffers[0]
    error = _error(x, cukde.pwpa(x, rows, knots, out=out), c, of.knots, local=False)
    assert error <= _TOLERANCE["float32"]
    row = _row("pwpa", "float32", {"P": 256, "D": 3, "knots": "uniform", "x": "random"}, error) | _bound(buffers)
    compare(Rotating(lambda x, out: cukde.pwpa(x, rows, knots, out=out), buffers), row, {}, calls=CALLS)


# ----------------------------------------------------------------------------------------- non-linearities

_EXPRESSIONS = {  # of a float v
    "gelu": "0.5f * v * (1.0f + erff(0.70710678f * v))",
    "silu": "v / (1.0f + expf(-v))",
    "sigmoid": "1.0f / (1.0f + expf(-v))",
    "softplus": "fmaxf(v, 0.0f) + log1pf(expf(-fabsf(v)))",
}


@functools.cache
def _of_cupy(name: str) -> Callable[[Any], Any]:
    """What a CuPy user has: its own function, or an ElementwiseKernel in float."""
    if name in _EXPRESSIONS:
        return cp.ElementwiseKernel("T x", "T y", f"const float v = x; y = {_EXPRESSIONS[name]}", f"plain_{name}")
    from cupyx.scipy import special

    return special.erf if name == "erf" else getattr(cp, name)


def _of_torch(name: str, buffers: Buffers) -> Peer | str:
    """What a PyTorch user has, on the same memory."""
    try:
        from benchmarks.peers import torch_functions

        function = torch_functions.FUNCTIONS[name]
        turns = [(torch_functions.tensor(x),) for x, _ in buffers]
        error = _function_error(name, buffers[0][0], cp.from_dlpack(function(*turns[0])))
        return Rotating(function, turns), error
    except Exception as failed:  # whatever it is, the record says it
        return reason(failed)


def _exactly(name: str, x: Any) -> Any:
    """The function in float64."""
    from cupyx.scipy import special

    x = x.astype(np.float64)
    return {
        "gelu": lambda: x * special.ndtr(x),
        "silu": lambda: x * special.expit(x),
        "sigmoid": lambda: special.expit(x),
        "softplus": lambda: cp.logaddexp(x, 0.0),
        "erf": lambda: special.erf(x),
    }.get(name, lambda: getattr(cp, name)(x))()


def _function_error(name: str, x: Any, y: Any) -> float:
    step = N // _CHECKED
    exact = _exactly(name, x[::step])
    return float((abs(y[::step] - exact) / cp.maximum(1, abs(exact))).max())


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", ["gelu", "tanh", "silu", "sigmoid", "erf", "exp", "log", "softplus"])
def bench_functions(compare: Callable[..., None], name: str, dtype: str) -> None:
    """Of normal numbers of deviation 2; of log, of their exponentials."""

    def points(seed: int) -> Any:
        x = 2 * cp.random.default_rng(seed).standard_normal(N, np.float32)
        return (cp.exp(x) if name == "log" else x).astype(dtype)

    buffers, ours, theirs = _buffers(points), getattr(cukde.functions, name), _of_cupy(name)
    x = buffers[0][0]
    errors = [_function_error(name, x, function(x)) for function in (ours, theirs)]
    assert errors[0] <= {"float32": 2e-7, "float16": 4.9e-4}[dtype]  # as cukde.functions says
    peers: dict[str, Peer | str] = {"CuPy": (Rotating(lambda x, _: theirs(x), buffers), errors[1])}
    peers["PyTorch"] = _of_torch(name, buffers)
    row = _row(name, dtype, {}, errors[0]) | _bound(buffers)
    compare(Rotating(lambda x, _: ours(x), buffers), row, peers, calls=CALLS)


# --------------------------------------------------------------------------------- what the source leaves open


def _bench_variant(
    compare: Callable[..., None], op: str, variant: Any, pieces: int, degree: int, dtype: str, **shape: Any
) -> None:
    of, buffers = _polynomials(pieces, degree, "uniform", dtype), _uniform_points(dtype, "random")
    call, error = _variant(variant, of, buffers)
    precision = variant.arithmetic.lower() or dtype
    row = _row(op, dtype, {"P": pieces, "D": degree} | shape, error, precision) | _bound(buffers)
    compare(call, row, {}, calls=CALLS)


@pytest.mark.parametrize("elements", [1, 2, 4, 8])
@pytest.mark.parametrize("kind", ["BASE", "BRANCH_FREE"])
@pytest.mark.parametrize(("pieces", "degree"), [(16, 2), (256, 3)])
def bench_ilp(compare: Callable[..., None], pieces: int, degree: int, kind: str, elements: int) -> None:
    """Instruction-level parallelism: several independent points of a thread; without branches they share each knot."""
    variant = study.Variant(kind, "soa", elements=elements)
    _bench_variant(compare, f"ilp {variant.name}", variant, pieces, degree, "float32", elements=elements)


@pytest.mark.parametrize("arithmetic", ["FLOAT", "HALF", "PACKED"])
@pytest.mark.parametrize(("pieces", "degree"), [(1, 3), (1, 15), (16, 7), (256, 3)])
def bench_simd_float16(compare: Callable[..., None], pieces: int, degree: int, arithmetic: str) -> None:
    """Float16 two by two, one by one, and in float32 arithmetic; of one piece, Horner's rule is all the work."""
    variant = study.Variant("BASE", "soa", arithmetic, 2)
    _bench_variant(compare, "simd", variant, pieces, degree, "float16")


@pytest.mark.parametrize("pieces", [256, 2**24])
@pytest.mark.parametrize("op", ["aos_to_soa", "soa_to_aos"])
def bench_layouts(compare: Callable[..., None], op: str, pieces: int) -> None:
    """Coefficients of degree 3: a table of usual size, which costs a launch, and one as large as data of a GPU."""
    shape = (pieces, 4) if op == "aos_to_soa" else (4, pieces)
    convert = getattr(cukde, op)
    buffers = [(c, cp.empty_like(c)) for c in (cp.random.default_rng(i).random(shape, np.float32) for i in range(3))]
    assert all(bool((convert(c) == c.T).all()) and convert(c).flags.c_contiguous for c, _ in buffers)
    row = _row(op, "float32", {"n": pieces, "D": 3}, 0.0) | _bound(buffers)
    compare(Rotating(lambda c, _: convert(c), buffers), row, {}, calls=CALLS)
