"""The density family against float64 oracles, and the properties that hold whatever the numbers.

Test bodies run on every backend: the CPU, the CUDA kernels emulated on the host, and a GPU where there is one.
"""

from __future__ import annotations

import functools
import time
import tracemalloc
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from scipy.special import logsumexp
from threadpoolctl import threadpool_info

import cukde
from tests import reference, tolerances
from tests.conftest import BACKENDS, Backend
from tests.density.judge import Judge

SPREAD = 2.0  # standard deviation of the data


@dataclass(frozen=True)
class Case:
    """One setting of the accuracy tests."""

    d: int
    h: float  # of the spread
    offset: float
    weights: str  # uniform, skewed, zeros
    form: str  # of the bandwidth: scalar, vector, covariance
    few: bool = False  # so few pairs that the CPU takes them by passes of their own

    @property
    def id(self) -> str:
        return f"d{self.d}-h{self.h:g}-offset{self.offset:g}-{self.weights}-{self.form}"


@dataclass(frozen=True)
class Sample:
    """A case drawn: data, queries, bandwidth, weights, values."""

    X: np.ndarray
    Y: np.ndarray
    h: Any
    w: np.ndarray | None
    V: np.ndarray


def _cases(dimensions: tuple[int, ...], bandwidths: tuple[float, ...]) -> list[Case]:
    """Every dimension with every bandwidth; the other settings vary so that each pair of settings occurs."""
    return [
        Case(
            d,
            h,
            offset=(0.0, 1e4)[(i + j) % 2],
            weights=("uniform", "skewed", "zeros")[(i + j) % 3],
            form=("scalar", "vector", "covariance")[(i // 3 + j) % 3],
            few=(i + j // 2) % 2 == 0,
        )
        for i, d in enumerate(dimensions)
        for j, h in enumerate(bandwidths)
    ]


FULL_CASES = _cases((1, 2, 3, 15, 16, 17, 33, 64, 100), (0.03, 0.1, 0.5, 3.0))
EMULATED_CASES = [case for k, case in enumerate(_cases((1, 3, 16, 17, 70), (0.03, 0.1, 0.5, 3.0))) if k % 2]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give accuracy tests the cases that each backend can afford."""
    if "case" in metafunc.fixturenames:
        metafunc.parametrize(
            ("backend", "dtype", "case"),
            [
                pytest.param(b.values[0], dtype, case, id=f"{b.id}-{dtype}-{case.id}", marks=b.marks)
                for b in BACKENDS
                for dtype in ("float32", "float64")
                for case in (EMULATED_CASES if b.id == "emulated" else FULL_CASES)
            ],
            indirect=["backend"],
        )


def bandwidth(scale: float, d: int, form: str) -> Any:
    """A bandwidth of about ``scale`` in one of its three forms; the covariance has a condition number of 9."""
    if form == "scalar":
        return scale
    if form == "vector":
        return scale * np.linspace(0.7, 1.4, d)
    rotation = np.linalg.qr(np.random.default_rng(d).standard_normal((d, d)))[0]
    return scale**2 * (rotation * np.linspace(1 / 3, 3, d)) @ rotation.T


@functools.cache
def draw(case: Case, dtype: str, n: int, m: int) -> Sample:
    """Draw a case. Queries: a quarter near points, independent draws, far from all, and on points.

    None are far where the bandwidth is half the spread or more: a far query would take the whole sample
    out of the reach of inner products, which are to be tested too.
    """
    rng = np.random.default_rng([case.d, n, m])
    d = case.d
    h = bandwidth(case.h * SPREAD, d, case.form)
    X = case.offset + SPREAD * rng.standard_normal((n, d))
    directions = rng.standard_normal((m, d))
    directions *= rng.uniform(12, 40, (m, 1)) / np.linalg.norm(directions, axis=1, keepdims=True)
    far = (np.arange(m)[:, None] % 4 == 2) & (case.h < 0.5)
    steps = np.where(far, directions, rng.standard_normal((m, d)))
    steps[3::4] = 0
    Y = X[rng.integers(n, size=m)] + steps @ np.linalg.cholesky(reference.covariance(h, d)).T
    Y[1::4] = case.offset + SPREAD * rng.standard_normal(Y[1::4].shape)
    w = None if case.weights == "uniform" else np.exp(-10 * rng.random(n))
    if w is not None and case.weights == "zeros":
        w[rng.random(n) < 0.3] = 0
    X, Y = X.astype(dtype), Y.astype(dtype)
    Y[3::4] = X[rng.integers(n, size=len(Y[3::4]))]
    return Sample(X, Y, h, w, rng.standard_normal((n, 70)).astype(dtype))


def sizes(backend: Backend, case: Case | None = None) -> tuple[int, int]:
    """Rows of data and of queries: beyond one tile of a GPU's block, and a multiple of none."""
    if backend.name == "numpy" and not (case is not None and case.few):
        return 290, 130
    return (530, 150) if backend.name == "cupy" else (130, 70)


@functools.cache
def judge(device: str, case: Case, dtype: str, n: int, m: int) -> Judge:
    s = draw(case, dtype, n, m)
    return Judge(device, s.X, s.Y, s.h, s.w)


def allowed_log(backend: Backend, precision: str, exponent: np.ndarray) -> np.ndarray:
    return tolerances.log_error(backend.device, precision, exponent)


class TestAccuracy:
    """Every function, dimension, bandwidth and offset against the oracle."""

    @staticmethod
    def drawn(backend: Backend, dtype: str, case: Case) -> tuple[Sample, Judge, Callable[..., Any]]:
        """A sample, its judge, and a call of a function at it."""
        rows = sizes(backend, case)
        s = draw(case, dtype, *rows)
        X, Y, w = (backend.asarray(a) for a in (s.X, s.Y, s.w))

        def call(function: Callable[..., Any], **options: Any) -> Any:
            got = function(X, Y, s.h, weights=w, **options)
            return tuple(map(backend.asnumpy, got)) if isinstance(got, tuple) else backend.asnumpy(got)

        return s, judge(backend.device, case, dtype, *rows), call

    def test_kde_matches_reference(self, backend: Backend, dtype: str, case: Case) -> None:
        _, judge, call = self.drawn(backend, dtype, case)
        judge.density(call(cukde.kde), call(cukde.kde, log=True))

    def test_score_matches_reference(self, backend: Backend, dtype: str, case: Case) -> None:
        _, judge, call = self.drawn(backend, dtype, case)
        log_p, gradient = call(cukde.density_and_score)
        judge.logs(log_p)
        judge.score(call(cukde.score), gradient)

    def test_debias_matches_reference(self, backend: Backend, dtype: str, case: Case) -> None:
        _, judge, call = self.drawn(backend, dtype, case)
        judge.debiased(call(lambda X, Y, h, **options: cukde.debias(X, h, **options)))

    def test_sd_kde_matches_reference(self, backend: Backend, dtype: str, case: Case) -> None:
        _, judge, call = self.drawn(backend, dtype, case)
        judge.sd(call(cukde.sd_kde, log=True), call(cukde.sd_kde))

    def test_laplace_kde_matches_reference(self, backend: Backend, dtype: str, case: Case) -> None:
        s, judge, call = self.drawn(backend, dtype, case)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cukde.NegativeDensityWarning)
            clip, clip_log = (call(cukde.laplace_kde, negative="clip", log=log) for log in (False, True))
        log_p = call(cukde.laplace_kde, log=True)
        judge.laplace(call(cukde.laplace_kde))
        judge.laplace(clip, clipped=True)
        assert log_p.dtype == clip_log.dtype == dtype
        assert (clip >= 0).all()
        log_scale, total, size = reference.scaled_laplace(s.X, s.Y, s.h, s.w)
        clear = np.abs(total) > 100 * judge.allowed * size  # of which the sign and the logarithm are certain
        assert np.isnan(log_p[clear & (total < 0)]).all()
        assert (clip_log[clear & (total < 0)] == -np.inf).all()
        sure = clear & (total > 0)
        error = 1.01 * (judge.allowed * size)[sure] / total[sure]
        for got in (log_p, clip_log):
            tolerances.check_log(got[sure], log_scale[sure] + np.log(total[sure]), error, "Laplace log")

    @pytest.mark.parametrize("k", [None, 1, 5, 70], ids=lambda k: "flat" if k is None else f"k{k}")
    def test_kernel_sum_matches_reference(self, backend: Backend, dtype: str, case: Case, k: int | None) -> None:
        s, judge, _ = self.drawn(backend, dtype, case)
        V = s.V[:, 0] if k is None else s.V[:, :k]
        judge.kernel_sum(backend.asnumpy(cukde.kernel_sum(*map(backend.asarray, (s.X, V, s.Y)), s.h)), V)


class TestKernelSumAtTheData:
    """Sums of values where the queries are the data, each exponential of which may serve two of them."""

    @pytest.mark.parametrize("k", [None, 7, 30, 70])
    @pytest.mark.parametrize(("d", "h"), [(1, 0.5), (3, 0.3), (16, 0.5), (33, 1.0), (64, 2.0)])
    def test_it_matches_reference(self, backend: Backend, d: int, h: float, k: int | None) -> None:
        s = draw(Case(d, h, 1e4, "uniform", "covariance"), "float32", *sizes(backend))
        V = s.V[:, 0] if k is None else s.V[:, :k]
        X = backend.asarray(s.X)
        got = backend.asnumpy(cukde.kernel_sum(X, backend.asarray(V), X, s.h))
        assert got.dtype == "float32"
        assert got.shape == V.shape
        total, size = reference.kernel_sum(s.X, V.reshape(len(V), -1), s.X, s.h)
        allowed = tolerances.DENSITY[backend.device, "float32"].value + 0.5 * np.finfo(np.float32).eps
        tolerances.check(np.abs(got.reshape(total.shape) - total), allowed * size, "kernel sum")


def small(backend: Backend, d: int = 3, dtype: str = "float64", m: int = 21) -> tuple[Any, Any, Any, float]:
    """A small problem: data, queries, weights in the backend's arrays, and a bandwidth."""
    rng = np.random.default_rng(d)
    X, Y = rng.standard_normal((37, d)).astype(dtype), rng.standard_normal((m, d)).astype(dtype)
    return backend.asarray(X), backend.asarray(Y), backend.asarray(rng.random(37) + 0.1), 0.6


def same(backend: Backend, got: Any, want: Any, precision: str = "float64") -> None:
    """Assert that two results agree to what the precision allows; exponents here are small."""
    got, want = (backend.asnumpy(a) if isinstance(a, backend.xp.ndarray) else a for a in (got, want))
    assert got.shape == want.shape
    allowed = tolerances.DENSITY[backend.device, precision].value
    tolerances.check(np.abs(got - want), 4 * allowed * (1 + np.abs(want)), "result")


def every_output(X: Any, Y: Any, h: Any, w: Any, **options: Any) -> dict[str, Any]:
    """Every public function of the family, by name."""
    log_p, gradient = cukde.density_and_score(X, Y, h, weights=w, **options)
    return {
        "kde": cukde.kde(X, Y, h, weights=w, **options),
        "log": cukde.kde(X, Y, h, weights=w, log=True, **options),
        "score": cukde.score(X, Y, h, weights=w, **options),
        "joint log": log_p,
        "joint score": gradient,
        "debias": cukde.debias(X, h, weights=w, **options),
        "sd_kde": cukde.sd_kde(X, Y, h, weights=w, **options),
        "laplace_kde": cukde.laplace_kde(X, Y, h, weights=w, **options),
        "kernel_sum": cukde.kernel_sum(X, X, Y, h, **options),
    }


def assert_equal_outputs(backend: Backend, got: dict[str, Any], want: dict[str, Any]) -> None:
    """Assert that the results of :func:`every_output` are the same to the bit."""
    for name in want:
        np.testing.assert_array_equal(backend.asnumpy(got[name]), backend.asnumpy(want[name]), name)


CPU = Backend("numpy")


class TestPrecision:
    @pytest.mark.parametrize("d", [3, 16])
    @pytest.mark.parametrize("precision", ["float32", "tf32", "ieee", "float64"])
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_kde_and_score_in_a_given_precision(self, backend: Backend, dtype: str, precision: str, d: int) -> None:
        """The precision sets the arithmetic, the dtype only what is stored."""
        s = draw(Case(d, 0.5, 100.0, "skewed", "scalar"), dtype, *sizes(backend))
        X, Y, w = (backend.asarray(a) for a in (s.X, s.Y, s.w))
        log_p, gradient = map(backend.asnumpy, cukde.density_and_score(X, Y, s.h, weights=w, precision=precision))
        assert log_p.dtype == gradient.dtype == dtype
        judge = Judge(backend.device, s.X, s.Y, s.h, s.w, precision)
        judge.logs(log_p)
        judge.score(gradient)

    def test_tf32_is_mostly_much_better_than_its_worst(self, backend: Backend) -> None:
        rng = np.random.default_rng(16)
        X, Y = (rng.standard_normal((k, 16)).astype(np.float32) for k in (400, 200))
        got = cukde.kde(backend.asarray(X), backend.asarray(Y), 0.5, log=True, precision="tf32")
        error = np.abs(backend.asnumpy(got) - reference.log_kde(X, Y, 0.5))
        assert np.median(error) < tolerances.TF32_MEDIAN.value

    def test_float64_precision_of_float32_data_is_right_to_the_last_place(self, backend: Backend) -> None:
        s = draw(Case(16, 0.5, 0.0, "uniform", "scalar"), "float32", *sizes(backend))
        got = backend.asnumpy(cukde.kde(backend.asarray(s.X), backend.asarray(s.Y), s.h, log=True, precision="float64"))
        np.testing.assert_array_almost_equal_nulp(got, reference.log_kde(s.X, s.Y, s.h).astype(np.float32), 1)

    def test_deterministic_gives_the_same_bits(self, backend: Backend) -> None:
        s = draw(Case(16, 0.5, 0.0, "skewed", "scalar"), "float32", *sizes(backend))
        X, Y, w = (backend.asarray(a) for a in (s.X, s.Y, s.w))
        first = every_output(X, Y, s.h, w, deterministic=True)
        again = every_output(X, Y, s.h, w, deterministic=True)
        assert_equal_outputs(backend, again, first)


class TestSizes:
    @pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 5), (5, 1), (127, 129), (513, 3), (257, 65), (128, 128)])
    def test_any_number_of_rows(self, backend: Backend, n: int, m: int) -> None:
        rng = np.random.default_rng([n, m])
        X, Y = rng.standard_normal((n, 3)), rng.standard_normal((m, 3))
        got = every_output(backend.asarray(X), backend.asarray(Y), 0.8, None)
        same(backend, got["log"], reference.log_kde(X, Y, 0.8))
        same(backend, got["score"], reference.score(X, Y, 0.8))
        same(backend, got["debias"], reference.debias(X, 0.8))
        same(backend, got["sd_kde"], reference.sd_kde(X, Y, 0.8))
        same(backend, got["laplace_kde"], reference.laplace(X, Y, 0.8)[0])
        same(backend, got["kernel_sum"], reference.kernel_sum(X, X, Y, 0.8)[0])

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_many_tiles_of_data_and_queries(self, backend: Backend, dtype: str) -> None:
        s = draw(Case(3, 0.5, 0.0, "skewed", "scalar"), dtype, backend.size(3001, 300), backend.size(701, 140))
        X, Y, w, V = (backend.asarray(a) for a in (s.X, s.Y, s.w, s.V[:, :3]))
        judge = Judge(backend.device, s.X, s.Y, s.h, s.w)
        log_p, gradient = map(backend.asnumpy, cukde.density_and_score(X, Y, s.h, weights=w))
        judge.logs(log_p, backend.asnumpy(cukde.kde(X, Y, s.h, weights=w, log=True)))
        judge.score(gradient)
        judge.laplace(backend.asnumpy(cukde.laplace_kde(X, Y, s.h, weights=w)))
        judge.kernel_sum(backend.asnumpy(cukde.kernel_sum(X, V, Y, s.h)), s.V[:, :3])

    def test_more_dimensions_than_any_register_file_holds(self, backend: Backend) -> None:
        rng = np.random.default_rng(300)
        X, Y = rng.standard_normal((40, 300)), rng.standard_normal((20, 300))
        got = every_output(backend.asarray(X), backend.asarray(Y), 5.0, None)
        same(backend, got["log"], reference.log_kde(X, Y, 5.0))
        same(backend, got["score"], reference.score(X, Y, 5.0))
        same(backend, got["kernel_sum"], reference.kernel_sum(X, X, Y, 5.0)[0])

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_no_queries_give_empty_results(self, backend: Backend, dtype: str) -> None:
        X, Y, w, h = small(backend, d=3, dtype=dtype, m=0)
        for name, got in every_output(X, Y, h, w).items():
            columns = {"score": (3,), "joint score": (3,), "kernel_sum": (3,)}.get(name, ())
            shape = X.shape if name == "debias" else (0, *columns)
            got = backend.asnumpy(got)
            assert got.shape == shape, name
            assert got.dtype == dtype, name
        for options in ({"log": True}, {"negative": "clip"}):
            assert cukde.laplace_kde(X, Y, h, **options).shape == (0,)
        assert cukde.kernel_sum(X, X[:, 0], Y, h).shape == (0,)

    def test_no_queries_in_one_dimension(self, backend: Backend) -> None:
        X = backend.asarray(np.arange(4.0))
        empty = backend.asarray(np.empty(0))
        assert cukde.kde(X, empty, 1.0).shape == (0,)
        assert cukde.score(X, empty, 1.0).shape == (0,)
        assert cukde.score(X, empty[:, None], 1.0).shape == (0, 1)

    def test_one_point_has_the_kernel_itself(self, backend: Backend) -> None:
        X, Y = backend.asarray(np.array([[1.0, 2.0]])), backend.asarray(np.array([[2.0, 4.0]]))
        same(backend, cukde.kde(X, Y, 2.0), np.array([np.exp(-5 / 8) / (8 * np.pi)]))
        same(backend, cukde.score(X, Y, 2.0), np.array([[-0.25, -0.5]]))
        same(backend, cukde.debias(X, 2.0), np.array([[1.0, 2.0]]))
        same(backend, cukde.laplace_kde(X, Y, 2.0), np.array([np.exp(-5 / 8) / (8 * np.pi) * (2 - 5 / 8)]))
        same(backend, cukde.kernel_sum(X, backend.asarray(np.array([-3.0])), Y, 2.0), -3 * np.exp([-5 / 8]))

    def test_vectors_are_points_of_one_dimension(self, backend: Backend) -> None:
        X, Y, w, h = small(backend, d=1)
        columns, flat = every_output(X, Y, h, w), every_output(X[:, 0], Y[:, 0], h, w)
        for name, want in columns.items():
            got = flat[name]
            assert got.shape == ((37,) if name == "debias" else (21,)), name
            same(backend, got, want.reshape(got.shape))
        assert cukde.score(X, Y[:, 0], h).shape == (21,)
        assert cukde.score(X[:, 0], Y, h).shape == (21, 1)


LAYOUTS: dict[str, Callable[[Any, Any], Any]] = {
    "plain": lambda xp, A: A,
    "fortran": lambda xp, A: xp.asfortranarray(A),
    "strided": lambda xp, A: xp.repeat(xp.repeat(A, 2, axis=0), 3, axis=1)[::2, ::3],
    "reversed": lambda xp, A: xp.ascontiguousarray(A[::-1, ::-1])[::-1, ::-1],
    "transposed": lambda xp, A: xp.ascontiguousarray(A.T).T,
}


class TestInputs:
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize("layout", LAYOUTS)
    def test_memory_layout_changes_nothing(self, backend: Backend, layout: str, dtype: str) -> None:
        X, Y, w, h = small(backend, dtype=dtype)
        change = functools.partial(LAYOUTS[layout], backend.xp)
        want = every_output(X, Y, h, w, deterministic=True)
        got = every_output(change(X), change(Y), h, change(w[:, None])[:, 0], deterministic=True)
        assert_equal_outputs(backend, got, want)

    @pytest.mark.parametrize(
        ("x", "y", "out"),
        [
            ("float16", "float16", "float32"),
            ("float16", "float32", "float32"),
            ("float32", "float32", "float32"),
            ("float32", "float64", "float64"),
            ("float64", "float32", "float64"),
            ("float16", "int8", "float32"),
            ("int32", "float32", "float64"),
            ("int64", "int64", "float64"),
            ("bool", "bool", "float64"),
            ("uint8", "float16", "float32"),
        ],
    )
    def test_dtype_of_the_result(self, backend: Backend, x: str, y: str, out: str) -> None:
        rng = np.random.default_rng(0)
        X, Y = (2 * rng.random((20, 2))).astype(x), (2 * rng.random((10, 2))).astype(y)
        got = cukde.kde(backend.asarray(X), backend.asarray(Y), np.float64(0.6), log=True)
        assert got.dtype == cukde.score(backend.asarray(X), backend.asarray(Y), 0.6).dtype == out
        same(backend, got, reference.log_kde(X, Y, 0.6), out)

    def test_values_take_part_in_the_dtype_and_weights_do_not(self, backend: Backend) -> None:
        X, Y, w, h = small(backend, dtype="float32")
        assert cukde.kde(X, Y, h, weights=w.astype("float64")).dtype == "float32"
        assert cukde.kernel_sum(X, w.astype("float64"), Y, h).dtype == "float64"
        assert cukde.kernel_sum(X, w.astype("float16"), Y, h).dtype == "float32"

    def test_data_as_their_own_queries(self, backend: Backend) -> None:
        X, _, w, h = small(backend)
        itself, copied = every_output(X, X, h, w), every_output(X, X.copy(), h, w)
        for name in itself:
            same(backend, itself[name], copied[name])

    def test_inputs_are_not_modified_nor_returned(self, backend: Backend) -> None:
        X, Y, w, h = small(backend)
        arrays = [X, Y, w, backend.asarray(np.full(3, h))]
        before = [a.copy() for a in arrays]
        results = every_output(X, Y, arrays[3], w)
        for a, b in zip(arrays, before, strict=True):
            np.testing.assert_array_equal(backend.asnumpy(a), backend.asnumpy(b))
        for result in results.values():
            result[...] = 7  # a view of an input would show
        for a, b in zip(arrays, before, strict=True):
            np.testing.assert_array_equal(backend.asnumpy(a), backend.asnumpy(b))

    def test_forms_of_one_bandwidth_agree(self, backend: Backend) -> None:
        X, Y, w, h = small(backend)
        scalar = every_output(X, Y, h, w)
        for form in (np.full(3, h), [h] * 3, h**2 * np.eye(3), backend.asarray(h**2 * np.eye(3))):
            for name, got in every_output(X, Y, form, w).items():
                same(backend, got, scalar[name])
        X, Y, w, h = small(backend, d=1)
        for form, equal in (([h], h), ([[h]], h**0.5), (np.float32(0.5), 0.5), (2, 2.0), (np.array(h), h)):
            same(backend, cukde.sd_kde(X, Y, form, weights=w), cukde.sd_kde(X, Y, equal, weights=w))

    @pytest.mark.parametrize("scale", [2.0**-1000, 2.0**-30, 2.0**30, 2.0**1000])
    def test_weights_have_no_scale(self, backend: Backend, scale: float) -> None:
        X, Y, w, h = small(backend)
        want, got = (every_output(X, Y, h, v) for v in (w, w * scale))
        for name in want:
            same(backend, got[name], want[name])

    @pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "uint8"])
    def test_the_largest_weights_do_not_overflow(self, backend: Backend, dtype: str) -> None:
        info = np.finfo(dtype) if dtype.startswith("f") else np.iinfo(dtype)
        X, Y, _, h = small(backend)
        w = backend.asarray(np.full(37, info.max, dtype))
        same(backend, cukde.kde(X, Y, h, weights=w), cukde.kde(X, Y, h))

    def test_weights_whose_quotients_are_out_of_range(self, backend: Backend) -> None:
        X, w = np.array([[0.0, 0.0], [1.0, 0.0], [99.0, 0.0], [100.0, 0.0]]), np.array([1e300, 1.0, 1e-300, 1e-299])
        exponents = -0.5 * ((X[:, None] - X) ** 2).sum(axis=2) + np.log(w)
        others = exponents - np.where(np.eye(4), np.inf, 0)
        of_others = [np.log(np.delete(w / 1e300, k).sum()) + np.log(1e300) for k in (1, 2, 3)]
        x, v = backend.asarray(X), backend.asarray(w)
        got = backend.asnumpy(cukde.kernel_sum(x, v, x, 1.0, log=True))
        np.testing.assert_allclose(got, logsumexp(exponents, axis=1), 1e-12)
        got = backend.asnumpy(cukde.kde(x, x, 1.0, weights=v, log=True)) + np.log(2 * np.pi)
        np.testing.assert_allclose(got, logsumexp(exponents, axis=1) - np.log(1e300), 1e-12)
        got = backend.asnumpy(cukde.kde(x, x, 1.0, weights=v, log=True, leave_one_out=True)) + np.log(2 * np.pi)
        np.testing.assert_allclose(got, logsumexp(others, axis=1) - [0.0, *of_others], 1e-12, 1e-12)


class TestMeaning:
    def test_score_bandwidth_is_the_bandwidth_of_the_score_only(self, backend: Backend) -> None:
        X, Y, w, h = small(backend)
        host, queries, weights = map(backend.asnumpy, (X, Y, w))
        for mine, other in ((h, 0.9), (bandwidth(h, 3, "covariance"), 0.9), (h, bandwidth(0.9, 3, "vector"))):
            got = cukde.debias(X, mine, score_bandwidth=other, weights=w)
            same(backend, got, reference.debias(host, mine, other, weights))
            got = cukde.sd_kde(X, Y, mine, score_bandwidth=other, weights=w)
            same(backend, got, reference.sd_kde(host, queries, mine, other, weights))

    def test_debiased_points_may_leave_the_range_of_the_data(self, backend: Backend) -> None:
        """The score of a narrow bandwidth times a wide one squared: thousands of wide bandwidths."""
        rng = np.random.default_rng(7)
        X, h, narrow = rng.standard_normal((40, 2)), 1e4, 0.5
        moved = reference.debias(X, h, narrow)
        Y = moved[::2] + h * rng.standard_normal((20, 2))
        got = cukde.sd_kde(backend.asarray(X), backend.asarray(Y), h, score_bandwidth=narrow, log=True)
        # h/(2 narrow) times a score's error of a few eps is the shift's, in bandwidths.
        np.testing.assert_allclose(backend.asnumpy(got), reference.log_kde(moved, Y, h), atol=2e-10, rtol=0)

    @pytest.mark.parametrize("name", ["kde", "sd_kde", "laplace_kde"])
    def test_density_integrates_to_one(self, backend: Backend, name: str) -> None:
        X, _, w, h = small(backend, d=1)
        grid = np.linspace(-12, 12, 241)  # the trapezoid rule is exact to rounding for smooth, vanishing ends
        p = backend.asnumpy(getattr(cukde, name)(X, backend.asarray(grid), h, weights=w))
        assert p.sum() * (grid[1] - grid[0]) == pytest.approx(1, abs=1e-10)

    def test_laplace_is_the_linearisation_of_the_second_derivative(self, backend: Backend) -> None:
        """K_h - (h^2/2) K_h'': the derivative taken numerically from the plain density."""
        X, Y, w, h = small(backend, d=1)
        step = 1e-3
        ahead, here, behind = (backend.asnumpy(cukde.kde(X, Y + side * step, h, weights=w)) for side in (1, 0, -1))
        want = here - h**2 / 2 * (ahead - 2 * here + behind) / step**2
        np.testing.assert_allclose(backend.asnumpy(cukde.laplace_kde(X, Y, h, weights=w)), want, atol=1e-6)

    def test_clipping_reports_how_much(self, backend: Backend) -> None:
        X, Y = backend.asarray(np.zeros(1)), backend.asarray(np.array([0.0, 3.0, -3.0]))
        share = 6 * np.exp(-4.5) / (1.5 + 6 * np.exp(-4.5))  # of factors 3/2, -3 and -3
        report = rf"clipped 2 of 3 densities to 0; the clipped mass is {share:.3g} "
        with pytest.warns(cukde.NegativeDensityWarning, match=report) as caught:
            got = backend.asnumpy(cukde.laplace_kde(X, Y, 1.0, negative="clip"))
        assert caught[0].filename == __file__  # the caller's line, not the package's
        assert got[0] > 0
        np.testing.assert_array_equal(got[1:], 0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            cukde.laplace_kde(X, Y[:1], 1.0, negative="clip")
            cukde.laplace_kde(X, Y, 1.0)


class TestRange:
    @pytest.mark.parametrize("d", [1, 3, 16])
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_queries_a_thousand_bandwidths_away(self, backend: Backend, dtype: str, d: int) -> None:
        rng = np.random.default_rng(d)
        h = 0.25
        X = rng.standard_normal((60, d)).astype(dtype)
        directions = rng.standard_normal((9, d))
        Y = (1000 * h * directions / np.linalg.norm(directions, axis=1, keepdims=True)).astype(dtype)
        log_p, s = map(backend.asnumpy, cukde.density_and_score(backend.asarray(X), backend.asarray(Y), h))
        near = reference.nearness(X, Y, h)
        allowed = allowed_log(backend, dtype, near.exponent)
        tolerances.check_log(log_p, reference.log_kde(X, Y, h), allowed)
        # Exponents off by e change each point's share by a factor of at most exp(2 e), and so the mean of
        # the points by that part of their scatter.
        error = np.linalg.norm(s - reference.score(X, Y, h), axis=1) * h
        bound = np.expm1(2 * allowed) * near.scatter + 4 * np.finfo(dtype).eps * near.reach
        tolerances.check(error, bound, "score of a far query")

    @pytest.mark.parametrize(
        ("dtype", "distance"),
        [("float64", at) for at in (1e5, 1e10, 1e16, 1e20, 1e25, 1e100, 1e140)]
        + [("float32", at) for at in (1e5, 1e10, 1e16)],
    )
    def test_queries_any_number_of_bandwidths_away(self, backend: Backend, dtype: str, distance: float) -> None:
        """Float64 reaches to 1e150 bandwidths: the log stays finite and right."""
        X, Y = (np.array(a, dtype) for a in ([0.0, 1.0, -2.0], [distance, -distance]))
        log_p, s = map(backend.asnumpy, cukde.density_and_score(backend.asarray(X), backend.asarray(Y), 1.0))
        of_log, of_score = (1e-14, 1e-12) if dtype == "float64" else (1e-6, 4e-5)
        np.testing.assert_allclose(log_p, reference.log_kde(X, Y, 1.0), rtol=of_log)
        np.testing.assert_allclose(s, reference.score(X, Y, 1.0)[:, 0], rtol=of_score)

    @pytest.mark.parametrize("distance", [1e3, 1e16, 1e20, 1e100])
    def test_weight_zero_means_zero_however_far_the_query(self, backend: Backend, distance: float) -> None:
        X, w = np.array([0.0, distance]), np.array([1.0, 0.0])
        points, query = backend.asarray(X), backend.asarray(X[1:])
        got = cukde.kde(points, query, 1.0, weights=backend.asarray(w), log=True)
        np.testing.assert_allclose(backend.asnumpy(got), reference.log_kde(X[:1], X[1:], 1.0), rtol=1e-14)

    @pytest.mark.parametrize("far", [1e3, 1e8, 1e100, 1e145])
    def test_data_far_from_a_query_add_nothing_to_it(self, backend: Backend, far: float) -> None:
        X, Y = np.array([0.1, 0.7, far]), np.array([0.2, 1.3])
        V = np.array([1.0, -2.0, 1e300])
        device = [backend.asarray(a) for a in (X, Y, V)]
        got = every_output(device[0], device[1], 1.0, None)
        for name, want in (
            ("log", reference.log_kde(X, Y, 1.0)),
            ("score", reference.score(X, Y, 1.0)[:, 0]),
            ("laplace_kde", reference.laplace(X, Y, 1.0)[0]),
        ):
            np.testing.assert_allclose(backend.asnumpy(got[name]), want, rtol=1e-12, err_msg=name)
        got = cukde.kernel_sum(device[0], device[2], device[1], 1.0)
        np.testing.assert_allclose(backend.asnumpy(got), reference.kernel_sum(X, V, Y, 1.0)[0][:, 0], rtol=1e-12)

    @pytest.mark.parametrize("d", [1, 2, 16, 64])
    @pytest.mark.parametrize(
        ("precision", "spread"),
        [("float32", s) for s in (20, 70, 136, 149, 270, 400, 690, 3e3)]
        + [("tf32", s) for s in (149, 690, 3e3, 1e5)]
        + [("float64", s) for s in (300, 999, 3.9e3, 3e4)],
    )
    def test_the_error_does_not_grow_with_the_spread(
        self, backend: Backend, precision: str, spread: float, d: int
    ) -> None:
        """Data fill a ball; ``spread`` is its radius squared in bandwidths, where inner products cancel."""
        n, m = backend.size(800, 130), backend.size(500, 70)
        rng = np.random.default_rng([d, int(spread)])
        X, steps = rng.standard_normal((n, d)), rng.standard_normal((m, d))
        X *= 0.97 * (spread**0.5 * rng.random((n, 1)) ** (1 / d)) / np.linalg.norm(X, axis=1, keepdims=True)
        steps *= rng.uniform(0, 12, (m, 1)) / np.linalg.norm(steps, axis=1, keepdims=True)
        Y = X[rng.integers(n, size=m)] + steps
        Y = Y[np.linalg.norm(Y, axis=1) < spread**0.5]
        dtype = "float64" if precision == "float64" else "float32"
        X, Y = X.astype(dtype), Y.astype(dtype)
        results = cukde.density_and_score(backend.asarray(X), backend.asarray(Y), 1.0, precision=precision)
        log_p, s = map(backend.asnumpy, results)
        near = reference.nearness(X, Y, 1.0)
        allowed = allowed_log(backend, precision, near.exponent)
        tolerances.check_log(log_p, reference.log_kde(X, Y, 1.0), allowed)
        error = np.linalg.norm(s - reference.score(X, Y, 1.0), axis=1)
        tolerances.check_score(error, allowed, near.reach)

    @pytest.mark.parametrize("d", [1, 3])
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_data_over_a_million_bandwidths(self, backend: Backend, dtype: str, d: int) -> None:
        """Differences of the data as given are exact or nearly so, however many bandwidths they span."""
        s = draw(Case(d, 1e-6, 0.0, "skewed", "scalar"), dtype, *sizes(backend))
        X, Y, w = (backend.asarray(a) for a in (s.X, s.Y, s.w))
        got = {name: backend.asnumpy(a) for name, a in every_output(X, Y, s.h, w).items()}
        judge = Judge(backend.device, s.X, s.Y, s.h, s.w)
        judge.logs(got["log"])
        judge.score(got["score"])

    @pytest.mark.parametrize("form", ["scalar", "vector", "covariance"])
    @pytest.mark.parametrize(
        ("dtype", "unit"), [("float64", 1e-20), ("float64", 1e20), ("float32", 1e-15), ("float32", 1e15)]
    )
    def test_units_do_not_matter(self, backend: Backend, dtype: str, unit: float, form: str) -> None:
        rng = np.random.default_rng(2)
        X, Y = ((unit * rng.standard_normal((n, 2))).astype(dtype) for n in (40, 15))
        h = bandwidth(0.5 * unit, 2, form)
        device = backend.asarray(X), backend.asarray(Y)
        got = {name: backend.asnumpy(a) for name, a in every_output(*device, h, None).items()}
        tight = 4 * tolerances.DENSITY[backend.device, dtype].value
        np.testing.assert_allclose(got["log"], reference.log_kde(X, Y, h), atol=tight, rtol=1e-7)
        np.testing.assert_allclose(got["joint log"], got["log"], atol=tight, rtol=1e-7)
        np.testing.assert_allclose(got["sd_kde"], reference.sd_kde(X, Y, h), rtol=10 * tight)
        for name, want in (
            ("score", reference.score(X, Y, h)),
            ("debias", reference.debias(X, h)),
            ("laplace_kde", reference.laplace(X, Y, h)[0]),
        ):
            np.testing.assert_allclose(got[name], want, rtol=tight, atol=tight * np.abs(want).max(), err_msg=name)

    @pytest.mark.parametrize("h", [1e-200, 1e-160, 1e160, 1e200])
    def test_bandwidths_whose_square_leaves_float64(self, backend: Backend, h: float) -> None:
        X, Y = np.array([0.0, 1.0, -2.0]), np.array([0.5, 3.0])
        want = reference.debias(X, 1.0)[:, 0] * h
        got = cukde.debias(backend.asarray(X * h), h)
        np.testing.assert_allclose(backend.asnumpy(got), want, rtol=1e-12)
        got = cukde.sd_kde(backend.asarray(X * h), backend.asarray(Y * h), h, log=True)
        np.testing.assert_allclose(backend.asnumpy(got), reference.sd_kde(X, Y, 1.0, log=True) - np.log(h), rtol=1e-12)

    @pytest.mark.parametrize(("dtype", "d", "wide"), [("float32", 64, 10.0), ("float64", 200, 100.0)])
    def test_density_beyond_its_range(self, backend: Backend, dtype: str, d: int, wide: float) -> None:
        """A density above 3e38 is infinite and one below 1e-45 zero; their logarithms are neither."""
        X = backend.asarray(np.zeros((1, d), dtype))
        for h, extreme in ((0.01, np.inf), (wide, 0.0)):
            for function in (cukde.kde, cukde.sd_kde, cukde.laplace_kde):
                assert backend.asnumpy(function(X, X, h))[0] == extreme
                log_p = backend.asnumpy(function(X, X, h, log=True))[0]
                factor = 1 + d / 2 if function is cukde.laplace_kde else 1
                assert log_p == pytest.approx(reference.log_constant(h, d) + np.log(factor), rel=1e-6)

    def test_kernel_sum_that_overflows_is_infinite(self, backend: Backend) -> None:
        X = backend.asarray(np.zeros((2, 1), np.float32))
        V = backend.asarray(np.array([[3e38, -3e38, 1]] * 2, np.float32))
        got = backend.asnumpy(cukde.kernel_sum(X, V, X[:1], 1.0))
        np.testing.assert_allclose(got, [[np.inf, -np.inf, 2]], rtol=1e-5)


class TestResources:
    def test_calls_from_several_threads_do_not_disturb_each_other(self, backend: Backend) -> None:
        n, m = backend.size(530, 130), backend.size(150, 70)
        kinds = ((1, "float32"), (16, "float32"), (16, "float64"), (33, "float64"))
        samples = [draw(Case(d, 0.5, 0.0, "skewed", "scalar"), dtype, n, m) for d, dtype in kinds]
        problems = [(*(backend.asarray(a) for a in (s.X, s.Y)), s.h, backend.asarray(s.w)) for s in samples]

        def run(problem: tuple[Any, ...]) -> dict[str, Any]:
            results = every_output(*problem, deterministic=True)
            return {name: backend.asnumpy(a) for name, a in results.items()}

        alone = [run(problem) for problem in problems]
        rounds = backend.size(5, 1)
        with ThreadPoolExecutor(4) as pool:
            together = list(pool.map(run, problems * rounds))
        for got, want in zip(together, alone * rounds, strict=True):
            for name in want:
                np.testing.assert_array_equal(got[name], want[name], name)

    def test_calls_leave_the_threads_of_blas_as_they_were(self) -> None:
        """Calls may hold BLAS to fewer threads while they run, also where they overlap.

        A long call of another thread begins inside one of this thread, and ends after it.
        """
        short, long = (np.random.default_rng(0).standard_normal((n, 3)) for n in (1500, 4000))

        def later() -> Any:
            time.sleep(0.002)
            return cukde.score(long, long, 1.0)

        cukde.score(short[:10], short, 1.0)
        before = threadpool_info()
        with ThreadPoolExecutor(1) as pool:
            for _ in range(5):
                overlapping = pool.submit(later)
                cukde.score(short, short, 1.0)
                overlapping.result()
                assert threadpool_info() == before

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_pairs_are_never_all_in_memory(self, dtype: str) -> None:
        """20,000 x 2,000 pairs would be 160 MB in float32; the arrays themselves are 3 MB in float64."""
        rng = np.random.default_rng(0)
        X, Y = (rng.standard_normal((n, 16)).astype(dtype) for n in (20_000, 2_000))
        calls = (cukde.kde, cukde.score, cukde.laplace_kde, lambda X, Y, h: cukde.kernel_sum(X, X, Y, h))
        for call in calls:
            call(X[:100], Y[:100], 1.0)  # compile first
            tracemalloc.start()
            call(X, Y, 1.0)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < 40e6


SETTINGS = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@SETTINGS
@given(
    n=st.integers(1, 40),
    m=st.integers(0, 30),
    d=st.integers(1, 6),
    dtypes=st.tuples(*[st.sampled_from(["float16", "float32", "float64", "int16"])] * 2),
    layouts=st.tuples(*[st.sampled_from(list(LAYOUTS))] * 2),
    form=st.sampled_from(["scalar", "vector", "covariance"]),
    scale=st.sampled_from([0.03, 0.3, 1.0, 30.0]),
    weighted=st.booleans(),
    offset=st.sampled_from([0, 100]),
    seed=st.integers(0, 2**16),
)
def test_any_shape_dtype_layout_and_bandwidth(
    backend: Backend,
    n: int,
    m: int,
    d: int,
    dtypes: tuple[str, str],
    layouts: tuple[str, str],
    form: str,
    scale: float,
    weighted: bool,
    offset: int,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    X, Y = ((offset + 2 * rng.standard_normal((k, d))).astype(t) for k, t in zip((n, m), dtypes, strict=True))
    w = rng.random(n) + 0.01 if weighted else None
    h = bandwidth(scale, d, form)
    points, queries = (
        LAYOUTS[layout](backend.xp, backend.asarray(A)) for layout, A in zip(layouts, (X, Y), strict=True)
    )
    log_p, s = map(backend.asnumpy, cukde.density_and_score(points, queries, h, weights=backend.asarray(w)))
    p = backend.asnumpy(cukde.kde(points, queries, h, weights=backend.asarray(w)))
    precision = log_p.dtype.name
    assert precision == ("float32" if np.result_type(*dtypes) in ("float16", "float32") else "float64")
    X, Y = X.astype(precision), Y.astype(precision)
    judge = Judge(backend.device, X, Y, h, w)
    judge.density(p, log_p)
    judge.score(s)
