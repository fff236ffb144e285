"""What the model is compared on: every declared operation, the study's kernels among them, at sizes that fill a GPU."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

import cukde
from benchmarks.conv1d import study as conv1d_study
from benchmarks.density import study_wmma
from benchmarks.kendall import study_pairs
from benchmarks.piecewise import study as piecewise_study

SHORT, LONG = (64, 256, 2048), (16, 128, 4096)  # B, C, L
POINTS = 2**26
CALLS = 4  # in a row, where nothing waits for the device
WAITING = "modes", "positive_mass", "conditional_cdf", "conditional_quantile", "conditional_sample", "regions"


class Case(NamedTuple):
    """One call of an operation."""

    op: str
    make: Callable[[], Callable[[], Any]]  # a partial object of the operation, its arrays on the device
    calls: int = CALLS
    study: bool = False


def cases() -> Iterator[Case]:
    """Every case; arrays are made when one is asked for."""
    yield from _densities()
    yield from _densities_1d()
    yield from _on_sphere()
    yield from _kendall()
    yield from _piecewise()
    yield from _functions()
    yield from _convolutions()
    yield from _bandwidths()


# ------------------------------------------------------------------------------------------------ densities


@functools.lru_cache(maxsize=2)
def _points(n: int, m: int, d: int, dtype: str) -> tuple[Any, Any, float]:
    """Normal data and queries, and a bandwidth: Silverman's, from two dimensions one of a median exponent of 20."""
    rng = cp.random.default_rng(d)
    X, Y = (rng.standard_normal((rows, d), np.float32).astype(dtype) for rows in (n, m))
    return X, Y, math.sqrt(d / 20) if d > 1 else (4 / 3 / n) ** 0.2


def _density(op: str, n: int, m: int, d: int, dtype: str, precision: str | None, calls: int = CALLS) -> Case:
    def make() -> Callable[[], Any]:
        X, Y, h = _points(n, m, d, dtype)
        given: dict[str, Any] = {"check_finite": False, "precision": precision}
        function = getattr(cukde, op)
        if op == "debias":
            return functools.partial(function, X, h, **given)
        if op == "kernel_sum":
            return functools.partial(function, X, X[:, :8], Y, h, **given)
        if op == "positive_kde":
            given["mass"] = 1
        return functools.partial(function, X, Y, h, **({"log": True} if op == "kde" and d > 64 else {}), **given)

    return Case(op, make, calls)


_FAMILY = ("kde", "score", "density_and_score", "debias", "sd_kde", "laplace_kde", "kernel_sum")


def _densities() -> Iterator[Case]:
    for op in _FAMILY:
        yield _density(op, 131_072, 16_384, 16, "float32", None)
        yield _density(op, 131_072, 16_384, 16, "float32", "tf32")
        yield _density(op, 32_768, 8_192, 16, "float32", "ieee")
        yield _density(op, 32_768, 8_192, 16, "float64", None)
    for op in ("positive_kde", "positive_score"):
        yield _density(op, 131_072, 16_384, 16, "float32", None)

    for op, d in itertools.product(("kde", "sd_kde"), (2, 32, 64, 128, 768)):
        yield _density(op, 65_536, 8_192, d, "float32", None)
    yield _density("sd_kde", 16_384, 4_096, 128, "float64", None)

    def of_factors(d: int) -> Callable[[], Any]:
        X, Y, h = _points(131_072, 16_384, d, "float32")
        factors = cp.random.default_rng(0).uniform(0.5, 2, len(X))
        return functools.partial(cukde.kde, X, Y, h, local_factors=factors, check_finite=False)

    for d in (4, 16):
        yield Case("kde", functools.partial(of_factors, d))

    def other(op: str, n: int, d: int, arguments: Callable[[Any, Any, float], tuple[Any, ...]]) -> Callable[[], Any]:
        function = functools.partial(getattr(cukde, op), *arguments(*_points(n, 16_384, d, "float32")))
        return function if op in WAITING else functools.partial(function, check_finite=False)

    def grid(points: int, algorithm: str) -> Callable[[], Any]:
        X, axis = _points(1_048_576, 16_384, 2, "float32")[0], np.linspace(-6, 6, points, dtype=np.float32)
        return functools.partial(cukde.evaluate_grid, X, (axis, axis), 0.1, algorithm=algorithm, check_finite=False)

    half = [*range(8)]
    n = 131_072
    of: tuple[tuple[str, int, int, Callable[[Any, Any, float], tuple[Any, ...]]], ...] = (
        ("positive_mass", n, 16, lambda X, Y, h: (X, h)),
        ("marginal", n, 16, lambda X, Y, h: (X, half, Y[:, :8], h)),
        ("conditional", n, 16, lambda X, Y, h: (X, dict.fromkeys(half, 0.0), Y[:, 8:], h)),
        ("conditional", n, 16, lambda X, Y, h: (X, {0: Y[:, 0]}, Y[:, 1:], h)),
        ("conditional_cdf", n, 3, lambda X, Y, h: (X, {0: Y[:, 0], 1: Y[:, 1]}, Y[:, 2], h)),
        ("conditional_quantile", n, 3, lambda X, Y, h: (X, {0: Y[:, 0], 1: Y[:, 1]}, 0.5, h)),
        ("conditional_sample", n, 3, lambda X, Y, h: (X, {0: Y[:, 0], 1: Y[:, 1]}, h)),
        ("regions", n, 2, lambda X, Y, h: (X, h)),
        ("hdr_threshold", n, 16, lambda X, Y, h: (X, h)),
        ("density_interval", n, 16, lambda X, Y, h: (X, Y, h)),
        ("density_ratio", n, 16, lambda X, Y, h: (X, X[::2], Y, h)),
        ("entropy", n, 16, lambda X, Y, h: (X, h)),
        ("mutual_information", n, 16, lambda X, Y, h: (X, half, None, h)),
        ("kl_divergence", n, 16, lambda X, Y, h: (X, X[::2], h)),
        ("hessian", 65_536, 4, lambda X, Y, h: (X, Y, h)),
        # Six groups in a row.
        ("modes", 65_536, 4, lambda X, Y, h: (X + 4 * (cp.arange(len(X)) % 6)[:, None].astype(X.dtype), 0.4)),
    )
    for op, *sizes in of:
        yield Case(op, functools.partial(other, op, *sizes), 1 if op in WAITING else CALLS)
    for points, algorithm in ((1024, "fft"), (256, "exact")):
        yield Case("evaluate_grid", functools.partial(grid, points, algorithm))

    def by_wmma(function: Callable[..., Any], m: int) -> Callable[[], Any]:
        X, Y, h = _points(131_072, m, 16, "float32")
        return functools.partial(function, X, Y, h)

    if study_wmma.why_absent() is None:
        for m in (16_384, 131_072):
            yield Case("study.density_wmma", functools.partial(by_wmma, study_wmma.kde, m), study=True)
            yield Case("study.score_wmma", functools.partial(by_wmma, study_wmma.score, m), study=True)


def _densities_1d() -> Iterator[Case]:
    """The transform waits for the device, the sum over pairs does not."""
    for op in _FAMILY:
        yield _density(op, 16_777_216, 2_097_152, 1, "float32", None, calls=1)
    for op in ("kde", "sd_kde"):
        yield _density(op, 16_777_216, 2_097_152, 1, "float64", None, calls=1)
        yield _density(op, 131_072, 131_072, 1, "float32", "ieee")
    for op in ("cdf", "log_cdf"):
        yield _density(op, 16_384, 16_384, 1, "float32", None)


def _on_sphere() -> Iterator[Case]:
    """Whose norms are looked at, so that calls wait."""

    def made(op: str, n: int, *more: Any, queries: bool = False) -> Callable[[], Any]:
        X, Y, _ = _points(n, 16_384, 3, "float32")
        X, Y = (a / cp.linalg.norm(a, axis=1, keepdims=True) for a in (X, Y))
        return functools.partial(getattr(cukde.sphere, op), X, *((Y,) if queries else ()), *more)

    for op in ("kde", "score"):
        yield Case(f"sphere.{op}", functools.partial(made, op, 131_072, 0.1, queries=True), 1)
    for op, n, *more in (("hdr_threshold", 131_072, 0.1), ("modes", 16_384, 0.3)):
        yield Case(f"sphere.{op}", functools.partial(made, op, n, *more), 1)
    for op, n in (("reference", 4_194_304), ("cross_validate", 16_384)):
        yield Case(f"sphere.{op}", functools.partial(made, op, n), 1)


# -------------------------------------------------------------------------------------------------- Kendall


@functools.lru_cache(maxsize=2)
def _columns(n: int, p: int, ties: bool) -> Any:
    rng = cp.random.default_rng(p)
    A = rng.standard_normal((n, p)) + rng.standard_normal((n, 1))
    return cp.rint(6 * A).astype(np.int64) if ties else A  # the model takes integers as tied


def _kendall() -> Iterator[Case]:
    """All wait for the device but the source's kernel."""

    def pair(n: int, ties: bool) -> Callable[[], Any]:
        A = cp.ascontiguousarray(_columns(n, 2, ties).T)
        return functools.partial(cukde.kendalltau, A[0], A[1])

    def matrix(op: str, n: int, p: int, ties: bool) -> Callable[[], Any]:
        return functools.partial(getattr(cukde, op), _columns(n, p, ties))

    def by_source(n: int, p: int) -> Callable[[], Any]:
        a = cp.ascontiguousarray(_columns(n, p, False).T.astype(np.float32))
        return functools.partial(study_pairs.agreement, a, a)

    for ties in (False, True):
        yield Case("kendalltau", functools.partial(pair, 10_000_000, ties), 1)
        yield Case("kendall_matrix", functools.partial(matrix, "kendall_matrix", 4000, 2000, ties), 1)
    yield Case("concordance", functools.partial(matrix, "concordance", 4000, 2000, True), 1)
    yield Case("kendall_matrix", functools.partial(matrix, "kendall_matrix", 200_000, 32, False), 1)
    for n, p in ((1000, 256), (10_000, 64)):
        yield Case("study.kendall_pairs", functools.partial(by_source, n, p), study=True)


# ------------------------------------------------------------------------------------------------ polynomials


@functools.lru_cache(maxsize=1)
def _arguments(dtype: str) -> Any:
    return (2 * cp.random.default_rng(0).random(POINTS, np.float32) - 1).astype(dtype)


def _polynomial(pieces: int, degree: int, knots: str, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (degree + 1, pieces) in powers of x - knot, and knots on [-1, 1] that the dtype has."""
    rng = np.random.default_rng([pieces, degree])
    inner = np.linspace(-1, 1, pieces + 1)[1:-1]
    if knots == "random":  # among multiples of 2^-10, for float16
        inner = np.sort(rng.choice(np.arange(-1023, 1024), pieces - 1, replace=False)) / 1024
    return rng.standard_normal((degree + 1, pieces)), np.r_[-1, inner, 1].astype(dtype).astype(np.float64)


def _piecewise() -> Iterator[Case]:
    def polynomial(pieces: int, degree: int, knots: str, dtype: str) -> Callable[[], Any]:
        c, x = _polynomial(pieces, degree, knots, dtype)
        return functools.partial(cukde.PiecewisePolynomial(cp.asarray(c), cp.asarray(x)), _arguments(dtype))

    def of_source(variant: piecewise_study.Variant, pieces: int, degree: int, dtype: str) -> Callable[[], Any]:
        c, knots = _polynomial(pieces, degree, "uniform", dtype)
        powers = piecewise_study.coefficients_of(c, knots).astype(dtype)
        stored = cp.asarray(powers if variant.layout == "soa" else np.ascontiguousarray(powers.T))
        x = _arguments(dtype)
        return functools.partial(
            piecewise_study.evaluate, variant, x, stored, cp.asarray(knots.astype(dtype)), cp.empty_like(x)
        )

    def raw() -> Callable[[], Any]:
        c, knots = _polynomial(256, 3, "uniform", "float32")
        rows = cp.asarray(np.ascontiguousarray(piecewise_study.coefficients_of(c, knots).T.astype(np.float32)))
        return functools.partial(cukde.pwpa, _arguments("float32"), rows, cp.asarray(knots.astype(np.float32)))

    def layout(function: Callable[..., Any], *shape: int) -> Callable[[], Any]:
        return functools.partial(function, cp.random.default_rng(0).random(shape, np.float32))

    for (pieces, degree), dtype in itertools.product(((16, 2), (256, 3)), ("float16", "float32", "float64")):
        yield Case("PiecewisePolynomial", functools.partial(polynomial, pieces, degree, "uniform", dtype))
    for dtype in ("float16", "float32", "float64"):
        yield Case("PiecewisePolynomial", functools.partial(polynomial, 256, 3, "random", dtype))
    yield Case("pwpa", raw)
    yield Case("aos_to_soa", functools.partial(layout, cukde.aos_to_soa, POINTS // 4, 4))
    yield Case("soa_to_aos", functools.partial(layout, cukde.soa_to_aos, 4, POINTS // 4))
    for variant, (pieces, degree) in itertools.product(piecewise_study.SOURCE, ((16, 2), (256, 3))):
        make = functools.partial(of_source, variant, pieces, degree, "float32")
        yield Case("study.piecewise", make, 1 if pieces > 16 else CALLS, study=True)
    make = functools.partial(of_source, piecewise_study.SOURCE[0], 16, 2, "float16")
    yield Case("study.piecewise", make, study=True)


def _functions() -> Iterator[Case]:
    def of(name: str, dtype: str) -> Callable[[], Any]:
        return functools.partial(getattr(cukde.functions, name), _arguments(dtype))

    for name, dtype in itertools.product(sorted(set(cukde.functions.__all__) - {"polynomial"}), ("float32", "float16")):
        yield Case(f"functions.{name}", functools.partial(of, name, dtype))


# ------------------------------------------------------------------------------------------------ convolutions


@functools.lru_cache(maxsize=1)
def _sequences(shape: tuple[int, int, int], taps: int, dtype: str, layout: str) -> tuple[Any, Any, Any]:
    """x, dy and w."""
    B, C, L = shape
    rng = cp.random.default_rng(taps)
    x, dy = (rng.standard_normal(shape if layout == "BCL" else (B, L, C), np.float32).astype(dtype) for _ in range(2))
    return x, dy, rng.standard_normal((C, taps), np.float32).astype(dtype)


_PATHS = ("forward", "input_grad", "weight_grad")


def _convolutions() -> Iterator[Case]:
    def ours(path: str, shape: tuple[int, int, int], taps: int, dtype: str, layout: str) -> Callable[[], Any]:
        x, dy, w = _sequences(shape, taps, dtype, layout)
        if path == "forward":
            return functools.partial(cukde.depthwise_conv1d, x, w, layout=layout)
        if path == "input_grad":
            return functools.partial(cukde.depthwise_conv1d_input_grad, dy, w, layout=layout)
        return functools.partial(cukde.depthwise_conv1d_weight_grad, x, dy, taps, layout=layout)

    def of_source(path: str, variant: str, taps: int) -> Callable[[], Any]:
        x, dy, w = _sequences(SHORT, taps, "float32", "BCL")
        function = getattr(conv1d_study, path)
        arrays = {"forward": (x, w), "input_grad": (dy, w), "weight_grad": (x, dy, taps)}[path]
        return functools.partial(function, variant, *arrays)

    def slope(dtype: str) -> Callable[[], Any]:
        return functools.partial(cukde.activation_grad, "silu", _arguments(dtype))

    names = dict(zip(_PATHS, ("depthwise_conv1d", *(f"depthwise_conv1d_{path}" for path in _PATHS[1:])), strict=True))
    sizes = (*((SHORT, taps, layout) for taps in (4, 31) for layout in ("BCL", "BLC")), (LONG, 512, "BCL"))
    for (shape, taps, layout), dtype, path in itertools.product(sizes, ("float32", "float16"), _PATHS):
        yield Case(names[path], functools.partial(ours, path, shape, taps, dtype, layout))
    for path in _PATHS:
        yield Case(names[path], functools.partial(ours, path, SHORT, 31, "float64", "BCL"))
    yield Case("activation_grad", functools.partial(slope, "float32"))
    for taps, path, variant in itertools.product((4, 31), _PATHS, conv1d_study.VARIANTS):
        yield Case(
            f"study.conv1d_{path}",
            functools.partial(of_source, path, variant, taps),
            1 if variant.startswith("naive") else CALLS,
            study=True,
        )


def _bandwidths() -> Iterator[Case]:
    def of(name: str, n: int, d: int, *h: float) -> Callable[[], Any]:
        return functools.partial(getattr(cukde.bandwidth, name), _points(n, 1, d, "float32")[0], *h)

    rules = [(name, 4_194_304, 16) for name in ("scott", "silverman", "sd", "laplace", "positive", "effective_size")]
    for name, *sizes in (*rules, ("isj", 16_777_216, 1), ("select", 20_000, 4), ("abramson", 65_536, 16, 0.9)):
        yield Case(f"bandwidth.{name}", functools.partial(of, name, *sizes), 1)

    def cross_validate(method: str, n: int, dtype: str) -> Callable[[], Any]:
        X, _, h = _points(n, 1, 4, dtype)
        objective = "least_squares" if method == "laplace" else "likelihood"
        # All about the best, so that none is at an end, which would be a warning.
        return functools.partial(cukde.bandwidth.cross_validate, X, method, h * np.geomspace(0.25, 2, 32), objective)

    for (method, n), dtype in itertools.product(
        (("kde", 65_536), ("laplace", 65_536), ("sd", 16_384)), ("float32", "float64")
    ):
        yield Case("bandwidth.cross_validate", functools.partial(cross_validate, method, n, dtype), 1)
