"""Stacks of densities against float64 oracles and against a call for each member.

Test bodies run on every backend: the CPU, the CUDA kernels emulated on the host, and a GPU where there is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from unittest import mock

import dask.array as da
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import cukde
from cukde.core import dispatch
from cukde.core.plan import without
from cukde.density.cost import calls as cost_calls
from cukde.density.plan import compositions as plan_compositions
from cukde.density.stacks import api as stacks_api, check as stacks_check
from tests import reference, tolerances
from tests.conftest import Backend
from tests.density.judge import Judge
from tests.malformed_calls import DAMAGE, WRONG, broken_promise
from tests.public_calls import Call

FORMS = ("number", "numbers", "deviations", "covariances")
FUNCTIONS = (cukde.kde, cukde.score, cukde.density_and_score, cukde.sd_kde, cukde.laplace_kde)


class Sample:
    """Members of different places and bandwidths; a quarter of the queries is far from all data."""

    def __init__(
        self,
        b: int,
        n: int,
        m: int,
        d: int,
        dtype: str = "float64",
        form: str = "numbers",
        weighted: bool = False,
        shared: bool = False,
    ) -> None:
        rng = np.random.default_rng([b, n, m, d])
        X = rng.standard_normal((b, n, d)) + 10.0 * np.arange(b)[:, None, None]
        self.widths = {
            "number": np.full(b, 0.5),
            "numbers": rng.uniform(0.3, 0.9, b),
            "deviations": rng.uniform(0.3, 0.9, (b, d)),
            "covariances": np.stack([_covariance(rng, d) for _ in range(b)]) if b else np.empty((0, d, d)),
        }[form]
        self.h: Any = 0.5 if form == "number" else self.widths
        Y = X[:, rng.integers(n, size=m)] + 0.5 * rng.standard_normal((b, m, d))
        Y[:, ::4] += 15.0
        self.X, self.Y = X.astype(dtype), Y.astype(dtype)
        if shared:
            self.Y = self.Y[0]
        self.w = None
        if weighted:  # some tiny, some zero, not the same ones of each member
            self.w = 10.0 ** rng.uniform(-6, 3, (b, n))
            self.w[rng.random((b, n)) < 0.2] = 0
            self.w[:, 0] = 1
            if shared:
                self.w = self.w[0]

    def members(self) -> list[tuple[np.ndarray, np.ndarray, Any, Any]]:
        """Data, queries, bandwidth and weights of each."""
        return [
            (X, self.Y[i] if self.Y.ndim == 3 else self.Y, h, self.w[i] if np.ndim(self.w) == 2 else self.w)
            for i, (X, h) in enumerate(zip(self.X, self.widths, strict=True))
        ]


def _covariance(rng: np.random.Generator, d: int) -> np.ndarray:
    root = 0.2 * rng.standard_normal((d, d)) + 0.5 * np.eye(d)
    return root @ root.T + 0.05 * np.eye(d)


def call(backend: Backend, function: Callable[..., Any], s: Sample, **options: Any) -> Any:
    X, Y, w = map(backend.asarray, (s.X, s.Y, s.w))
    out = function(X, Y, s.h, weights=w, **options)
    return tuple(map(backend.asnumpy, out)) if isinstance(out, tuple) else backend.asnumpy(out)


def parts(out: Any) -> tuple[Any, ...]:
    """Results of a function: of most one, of :func:`cukde.density_and_score` two."""
    return out if isinstance(out, tuple) else (out,)


def verify(backend: Backend, s: Sample, precision: str | None = None) -> None:
    """Check every function of a sample, member by member."""
    options = {"precision": precision}
    log_p, gradient = call(backend, cukde.density_and_score, s, **options)
    p, log_only = (call(backend, cukde.kde, s, log=log, **options) for log in (False, True))
    scores = call(backend, cukde.score, s, **options)
    sd = call(backend, cukde.sd_kde, s, log=True, **options)
    laplace = call(backend, cukde.laplace_kde, s, **options)
    stack = stacks_api.prepare(*map(backend.asarray, (s.X, s.Y)), s.h, weights=backend.asarray(s.w), **options)
    sums = stack.sums("laplace")  # which has the total beside
    log_total = backend.asnumpy(sums.reference + backend.xp.log(sums.total) + stack.log_constant)
    moved = backend.asnumpy(cukde.debias(backend.asarray(s.X), s.h, weights=backend.asarray(s.w), **options))
    assert p.shape == (len(s.X), s.Y.shape[-2])
    assert moved.shape == s.X.shape
    for i, (X, Y, h, w) in enumerate(s.members()):
        judge = Judge(backend.device, X, Y, h, w, precision)
        judge.density(p[i], log_p[i], log_only[i])
        judge.score(scores[i], gradient[i])
        judge.debiased(moved[i])
        judge.sd(sd[i])
        judge.laplace(laplace[i])
        tolerances.check_log(log_total[i], judge.log, judge.allowed, "log total")


def by_members(backend: Backend, function: Callable[..., Any], s: Sample, **options: Any) -> Any:
    """The loop of calls that a stack is to equal."""
    out = [
        function(*map(backend.asarray, (X, Y)), h, weights=backend.asarray(w), **options) for X, Y, h, w in s.members()
    ]
    if isinstance(out[0], tuple):
        return tuple(np.stack([backend.asnumpy(a) for a in of]) for of in zip(*out, strict=True))
    return np.stack([backend.asnumpy(a) for a in out])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("d", [1, 4, 7, 18])
def test_every_function_matches_reference(backend: Backend, d: int, dtype: str) -> None:
    form = FORMS[d % 4]
    b, n, m = backend.size(3, 2), backend.size(130, 40), backend.size(70, 9)
    verify(backend, Sample(b, n, m, d, dtype, form, weighted=d % 2 == 0, shared=d == 7))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
def test_it_is_a_loop_of_calls(backend: Backend, form: str, weighted: bool, shared: bool) -> None:
    s = Sample(3, 40, 9, 3, "float64", form, weighted, shared)
    for function in FUNCTIONS:
        for got, want in zip(parts(call(backend, function, s)), parts(by_members(backend, function, s)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-13 * np.abs(want).max())


@settings(max_examples=12, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    st.integers(1, 5),
    st.integers(1, 60),
    st.integers(0, 30),
    st.integers(1, 20),
    st.sampled_from(["float32", "float64"]),
    st.sampled_from(FORMS),
    st.booleans(),
    st.booleans(),
)
def test_any_sizes(b: int, n: int, m: int, d: int, dtype: str, form: str, weighted: bool, shared: bool) -> None:
    verify(Backend("numpy"), Sample(b, n, m, d, dtype, form, weighted, shared))


@pytest.mark.parametrize(
    ("b", "n", "m", "dtype", "shared"),
    [(2, 700, 300, "float32", False), (2, 700, 300, "float64", True), (20, 130, 70, "float64", False)],
)
def test_more_pairs_than_a_task_of_the_cpu_takes(b: int, n: int, m: int, dtype: str, shared: bool) -> None:
    """Tasks of some queries of a member, and of some members."""
    verify(Backend("numpy"), Sample(b, n, m, 3, dtype, weighted=True, shared=shared))


@pytest.mark.parametrize("precision", ["float32", "tf32", "ieee", "float64"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_precisions(backend: Backend, dtype: str, precision: str) -> None:
    s = Sample(2, 60, 21, 3, dtype)
    got = call(backend, cukde.kde, s, log=True, precision=precision, deterministic=True)
    assert got.dtype == dtype
    for row, of in zip(got, s.members(), strict=True):
        allowed = tolerances.log_error(backend.device, precision, reference.nearness(*of).exponent)
        tolerances.check_log(row, reference.log_kde(*of), allowed)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nothing_underflows_far_away(backend: Backend, dtype: str) -> None:
    """Queries up to 1e8 bandwidths away, each with its own reference."""
    s = Sample(2, 40, 9, 3, dtype)
    s.Y *= np.array(10.0 ** np.arange(9)[:, None], dtype)
    got = call(backend, cukde.kde, s, log=True)
    for row, of in zip(got, s.members(), strict=True):
        allowed = tolerances.log_error(backend.device, dtype, reference.nearness(*of).exponent)
        tolerances.check_log(row, reference.log_kde(*of), allowed)
    assert np.isfinite(call(backend, cukde.score, s)).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scale", [1e-20, 1e-11, 1e11, 1e20])
def test_bandwidths_of_any_size(backend: Backend, scale: float, dtype: str) -> None:
    s = Sample(2, 40, 9, 1, dtype)
    s.X, s.Y = (a * np.dtype(dtype).type(scale) for a in (s.X, s.Y))
    s.h = s.widths = s.widths * scale
    got = call(backend, cukde.kde, s, log=True)
    for row, of in zip(got, s.members(), strict=True):
        exponent = reference.nearness(*of).exponent
        tolerances.check_log(row, reference.log_kde(*of), 2 * tolerances.log_error(backend.device, dtype, exponent))


def test_data_as_queries_and_other_score_bandwidths(backend: Backend) -> None:
    s = Sample(3, 50, 9, 2, form="numbers")
    X = backend.asarray(s.X)
    at_data = backend.asnumpy(cukde.sd_kde(X, X, s.h, score_bandwidth=2 * s.widths[:, None] * [1.0, 0.7], log=True))
    moved = backend.asnumpy(cukde.debias(X, s.h, score_bandwidth=0.8))
    scores = backend.asnumpy(cukde.score(X, X, s.h))
    for i, (x, h) in enumerate(zip(s.X, s.widths, strict=True)):
        hs = 2 * h * np.array([1.0, 0.7])
        np.testing.assert_allclose(at_data[i], reference.sd_kde(x, x, h, hs, log=True), rtol=0, atol=1e-11)
        np.testing.assert_allclose(moved[i], reference.debias(x, h, 0.8), rtol=0, atol=1e-12)
        np.testing.assert_allclose(scores[i], reference.score(x, x, h), rtol=0, atol=1e-11)


def test_large_members_go_one_by_one(backend: Backend) -> None:
    """Whatever the rule says, the answer is the same."""
    s = Sample(3, 40, 9, 3, weighted=True)
    at_once = [call(backend, f, s) for f in FUNCTIONS]
    with without("stack"):
        for f, want in zip(FUNCTIONS, at_once, strict=True):
            for got, expected in zip(parts(call(backend, f, s)), parts(want), strict=True):
                np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-13 * np.abs(expected).max())
    name = dispatch.backend(backend.asarray(s.X)).name
    assert plan_compositions.stack_pays(name, 512, 1000, 256, 4, "float32")
    assert not plan_compositions.stack_pays(name, 2, 100_000, 10_000, 4, "float32")


@pytest.mark.parametrize(
    ("function", "passes"), [(cukde.kde, 1), (cukde.density_and_score, 1), (cukde.laplace_kde, 1), (cukde.sd_kde, 2)]
)
def test_a_pass_over_all_members_is_one_launch(device: Backend, function: Callable[..., Any], passes: int) -> None:
    from cukde.density.pairs.gpu import difference

    s = Sample(5, 20, 4, 2, weighted=True)
    with (
        mock.patch.object(difference, "launch_stack", wraps=difference.launch_stack) as launches,
        mock.patch.object(difference, "launch") as others,
    ):
        call(device, function, s)
    assert launches.call_count == passes
    assert not others.called


def test_more_members_than_a_launch_takes(backend: Backend) -> None:
    s = Sample(5, 20, 4, 2, weighted=True)
    want = call(backend, cukde.score, s)
    passes = stacks_api._passes(dispatch.backend(backend.asarray(s.X)))
    with mock.patch.object(passes, "_MOST_MEMBERS", 2, create=True):
        np.testing.assert_array_equal(call(backend, cukde.score, s), want)


@pytest.mark.parametrize("form", FORMS)
def test_empty_stacks_single_members_and_no_queries(backend: Backend, form: str) -> None:
    for b, m in ((0, 5), (0, 0), (1, 0), (3, 0), (1, 5)):
        s = Sample(b, 20, m, 2, "float32", form)
        assert call(backend, cukde.kde, s).shape == (b, m)
        assert call(backend, cukde.score, s).shape == (b, m, 2)
        assert call(backend, cukde.sd_kde, s).shape == (b, m)
        assert backend.asnumpy(cukde.debias(backend.asarray(s.X), s.h)).shape == s.X.shape
    verify(backend, Sample(1, 20, 5, 2, form=form))


def test_layouts_types_and_lists(backend: Backend) -> None:
    s = Sample(3, 40, 9, 2)
    want = call(backend, cukde.kde, s)
    for change in (
        lambda a: np.asfortranarray(a),
        lambda a: np.repeat(a, 2, axis=2)[..., ::2],
        lambda a: np.ascontiguousarray(a[::-1])[::-1],
    ):
        X, Y = (backend.asarray(change(a)) for a in (s.X, s.Y))
        np.testing.assert_array_equal(backend.asnumpy(cukde.kde(X, Y, s.h)), want)
    mixed = cukde.kde(backend.asarray(s.X.astype("f4")), backend.asarray(s.Y), s.h)
    assert backend.asnumpy(mixed).dtype == np.float64
    line = backend.asnumpy(cukde.score(backend.asarray(s.X[..., :1]), backend.asarray(s.Y[0, :, 0]), s.h))
    assert line.shape == (3, 9)
    on_host = cukde.kde(s.X.tolist(), list(s.Y), s.h.tolist())
    np.testing.assert_allclose(on_host, want, rtol=1e-11)


def test_unchecked_stacks(backend: Backend) -> None:
    s = Sample(3, 40, 9, 2, form="deviations", weighted=True)
    for f in FUNCTIONS:
        got, want = (parts(call(backend, f, s, check_finite=check)) for check in (False, True))
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-10, atol=1e-12 * np.abs(w).max())
    s.X[1, 3, 0] = np.nan
    rows = call(backend, cukde.kde, s, check_finite=False)[[0, 2]]
    assert np.isfinite(rows).all()  # members do not touch one another


def test_negative_densities_are_reported_once(backend: Backend) -> None:
    X = backend.asarray(np.zeros((2, 4, 1)))
    Y = backend.asarray(np.array([0.0, 3.0]))
    with pytest.warns(cukde.NegativeDensityWarning, match="clipped 2 of 4 densities") as record:
        clipped = backend.asnumpy(cukde.laplace_kde(X, Y, 1.0, negative="clip"))
    assert len(record) == 1
    assert record[0].filename == __file__
    np.testing.assert_allclose(clipped, [[0.5984134, 0.0]] * 2, rtol=1e-6)


X, Y = np.arange(24.0).reshape(3, 4, 2), np.zeros((3, 5, 2))
NAN, LOPSIDED, FLAT = X.copy(), np.stack([np.eye(2)] * 3), np.stack([np.eye(2)] * 3)
NAN[2, 1, 0] = np.nan
LOPSIDED[1, 0, 1] = 0.5
FLAT[2] = 1
OF_NO_MASS, NEGATIVE, NAN_WEIGHTS = np.ones((3, 3, 4))
OF_NO_MASS[1] = 0
NEGATIVE[2, 1] = -1
NAN_WEIGHTS[0, 1] = np.nan


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((X[:, :0], Y, 1.0), {}, ValueError, "X must have at least one row and one column in each member"),
        ((X, Y[:2], 1.0), {}, ValueError, "Y must have shape (3, m, 2), or (m, 2) for queries that all members share"),
        ((X, Y[..., :1], 1.0), {}, ValueError, "Y must have shape (3, m, 2)"),
        ((X, Y[0, 0], 1.0), {}, ValueError, "Y must have shape (3, m, 2)"),
        ((X[0], Y, 1.0), {}, ValueError, "Y must have shape (rows, columns)"),
        ((X, Y, [1.0, 2.0]), {}, ValueError, "write numpy.broadcast_to(h, (3, 2)) to give it to every member"),
        ((X, Y, np.eye(2)), {}, ValueError, "write numpy.broadcast_to(h, (3, 2, 2)) to give it to every member"),
        ((X, Y, np.ones(4)), {}, ValueError, "3 numbers of shape (3,), standard deviations of shape (3, 2)"),
        ((X, Y, [1.0, -1.0, 2.0]), {}, ValueError, "h must be positive; it is not in member 1"),
        ((X, Y, [1.0, 1.0, np.inf]), {}, ValueError, "h must be finite; it holds NaN or infinity in member 2"),
        ((X, Y, LOPSIDED), {}, ValueError, "h[1] must be a symmetric covariance"),
        ((X, Y, FLAT), {}, ValueError, "h[2] must be a positive definite covariance"),
        ((X, Y, 1.0), {"score_bandwidth": [1.0, 2.0]}, ValueError, "score_bandwidth must be a number, or for a stack"),
        ((X, Y, 1.0), {"weights": np.ones((2, 4))}, ValueError, "weights must have shape (3, 4), or (4,)"),
        ((X, Y, 1.0), {"weights": OF_NO_MASS}, ValueError, "weights[1] must not all be zero"),
        ((X, Y, 1.0), {"weights": NEGATIVE}, ValueError, "weights[2] must not be negative"),
        ((X, Y, 1.0), {"weights": NAN_WEIGHTS}, ValueError, "weights[0] must be finite"),
        ((NAN, Y, 1.0), {}, ValueError, "X[2] must be finite"),
        ((X, NAN, 1.0), {}, ValueError, "Y[2] must be finite"),
        ((X, NAN[2], 1.0), {}, ValueError, "Y must be finite"),
        ((X, Y, [1.0, 1e-200, 1.0]), {}, ValueError, "rescale the data or enlarge h (member 1 of the stack)"),
        ((X, Y, 1.0), {"score_bandwidth": 1e-200}, ValueError, "rescale the data or enlarge h"),
        ((da.from_array(X), Y, 1.0), {}, TypeError, "X must be a plain array where X has three dimensions"),
        ((X, da.from_array(Y), 1.0), {}, TypeError, "Y must be a plain array where X has three dimensions"),
    ],
)
def test_errors(arguments: Any, options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        cukde.sd_kde(*arguments, **options)


@settings(max_examples=40, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.sampled_from([*FUNCTIONS, cukde.debias]), st.integers(0, 9), st.data())
def test_malformed_calls(function: Callable[..., Any], seed: int, data: st.DataObject) -> None:
    """One argument of a good call is damaged or replaced: what comes is a result, a TypeError or a ValueError."""
    s = Sample(2, 6, 3, 2, "float32", FORMS[seed % 4], weighted=seed % 2 == 0)
    given = {"X": s.X, "Y": s.Y, "h": s.h, "weights": s.w} | {"check_finite": True, "precision": None}
    if function is cukde.debias:
        del given["Y"]
    name = data.draw(st.sampled_from(list(given)))
    old = given[name]
    damages = [*DAMAGE] if isinstance(old, np.ndarray) else []
    how = data.draw(st.sampled_from([*damages, *WRONG]))
    with np.errstate(all="ignore"):
        given[name] = DAMAGE[how](old) if how in damages else WRONG[how]()
    broken = broken_promise(function.__name__, Call(function, (), given))
    assert broken is None, broken


def test_what_stacks_have_not() -> None:
    with pytest.raises(ValueError, match="X must have shape"):
        cukde.kernel_sum(X, X, Y, 1.0)
    with pytest.raises(ValueError, match="the performance model, which has no stacks"):
        cost_calls.of_queries(X, Y, 1.0)


@pytest.mark.parametrize(
    ("a", "expected"),
    [
        (X, True),
        (X.tolist(), True),
        (list(X), True),
        ((X[0].tolist(),), True),
        (X[0], False),
        (X[0].tolist(), False),
        ([], False),
        ([[]], False),
        (np.zeros((1, 1, 1, 1)), False),
        (None, False),
        ("abc", False),
        (3.0, False),
    ],
)
def test_what_a_stack_is(a: Any, expected: bool) -> None:
    assert stacks_check.is_stack(a) == expected


def test_stacks_are_told_by_the_interface_of_gpu_arrays() -> None:
    class OnGpu:
        def __init__(self, *shape: int) -> None:
            self.__cuda_array_interface__ = {"shape": shape}

    assert stacks_check.is_stack(OnGpu(2, 3, 4))
    assert not stacks_check.is_stack(OnGpu(2, 3))
