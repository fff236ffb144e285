"""Densities at the data without a row's own kernel, against float64 oracles over the data without the row.

Test bodies run on every backend: the CPU, the CUDA kernels emulated on the host, and a GPU where there is one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukde
from cukde.density import leave_one_out
from cukde.density.plan import cpu as plan_cpu, gpu as plan_gpu
from cukde.density.problem import Problem
from tests import reference, tolerances
from tests.conftest import Backend

COVARIANCE = np.array([[1.0, 0.3, 0.0], [0.3, 0.8, 0.2], [0.0, 0.2, 1.3]])
TWICE = 2  # errors, where an own term is taken from a sum
N = 90


def sample(d: int, dtype: str = "float64", n: int = N) -> np.ndarray:
    """Two clusters, a row that is there twice, and one far from all others."""
    rng = np.random.default_rng([d, n])
    X = rng.standard_normal((n, d))
    X[: n // 3] += 4
    X[5], X[7] = X[6], 30
    return X.astype(dtype)


def exponential(n: int = N) -> np.ndarray:
    """Weights, one of them 0, one nearly all of the sum."""
    w = np.random.default_rng(n).exponential(size=n)
    w[3], w[11] = 0, 1e9
    return w


def each(of_others: Callable[..., Any], X: np.ndarray, w: np.ndarray | None, *others: np.ndarray) -> list[np.ndarray]:
    """Results at each row of a function of the other rows, the row, their weights, and other arrays of theirs."""
    rows = (
        of_others(
            *(np.delete(X, i, axis=0), X[i : i + 1]),
            None if w is None else np.delete(w, i),
            *(np.delete(a, i, axis=0) for a in others),
        )
        for i in range(len(X))
    )
    return [np.concatenate(column) for column in zip(*rows, strict=True)]


def exponents(X: np.ndarray, h: Any, w: np.ndarray | None) -> np.ndarray:
    return each(lambda A, y, v: (reference.nearness(A, y, h, v).exponent,), X, w)[0]


def call(backend: Backend, function: Any, X: np.ndarray, h: Any, w: np.ndarray | None, **options: Any) -> np.ndarray:
    data = backend.asarray(X)
    return backend.asnumpy(function(data, data, h, weights=backend.asarray(w), leave_one_out=True, **options))


@pytest.fixture(params=["passes", "taken"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes leave out own pairs, or own terms are taken from sums, and rows summed again by halves."""
    if request.param == "taken":
        inner = Problem.sums_without_own
        monkeypatch.setattr(Problem, "sums_without_own", lambda p, output: inner(p, output) if len(p.X) <= 7 else None)


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize(("d", "dtype"), [(1, "float64"), (2, "float32"), (3, "float64"), (12, "float32")])
def test_sums_are_those_over_the_other_rows(backend: Backend, way: None, d: int, dtype: str, weighted: bool) -> None:
    X, w, h = sample(d, dtype), exponential() if weighted else None, 0.5
    allowed = TWICE * tolerances.log_error(backend.device, dtype, exponents(X, h, w))

    want = each(lambda A, y, v: (reference.log_kde(A, y, h, v),), X, w)[0]
    tolerances.check_log(call(backend, cukde.kde, X, h, w, log=True), want, allowed)
    tolerances.check_density(call(backend, cukde.kde, X, h, w), want, allowed)

    scale, total, size = each(lambda A, y, v: reference.scaled_laplace(A, y, h, v), X, w)
    tolerances.check_scaled(call(backend, cukde.laplace_kde, X, h, w), scale, total, size, allowed, "laplace")

    scores = each(lambda A, y, v: (reference.score(A, y, h, v), reference.nearness(A, y, h, v).reach), X, w)
    found = call(backend, cukde.score, X, h, w)
    error = np.linalg.norm(found - scores[0], axis=1) * h
    relative = 0.5 * np.finfo(dtype).eps * np.linalg.norm(scores[0], axis=1) * h
    tolerances.check_score(error, allowed + relative, scores[1])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("apart", [50.0, 110.0, 1e5])
@pytest.mark.parametrize("d", [3, 70])
def test_groups_far_apart(backend: Backend, d: int, apart: float, dtype: str) -> None:
    """Within the radius up to which products serve, a little beyond it, and far: each row has near ones."""
    rng, h = np.random.default_rng(5), 0.5
    X = rng.normal(size=(6, d))[rng.integers(6, size=N)] + 0.1 * h * rng.normal(size=(N, d)) + 1e3
    X[::2, 0] += apart * h
    X = X.astype(dtype)
    allowed = TWICE * tolerances.log_error(backend.device, dtype, exponents(X, h, None))
    want = each(lambda A, y, v: (reference.log_kde(A, y, h, v),), X, None)[0]
    tolerances.check_log(call(backend, cukde.kde, X, h, None, log=True), want, allowed)
    scores = each(lambda A, y, v: (reference.score(A, y, h, v), reference.nearness(A, y, h, v).reach), X, None)
    error = np.linalg.norm(call(backend, cukde.score, X, h, None) - scores[0], axis=1) * h
    relative = 0.5 * np.finfo(dtype).eps * np.linalg.norm(scores[0], axis=1) * h
    tolerances.check_score(error, allowed + relative, scores[1])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sd_kde_leaves_out_the_row_that_moved(backend: Backend, way: None, dtype: str) -> None:
    X, h, w = sample(3, dtype), 0.6, exponential()
    moved = reference.debias(X, h, weights=w)
    want = each(lambda A, y, v, B: (reference.log_kde(B, y, h, v),), X, w, moved)[0]
    near = [reference.nearness(np.delete(moved, i, axis=0), X[i : i + 1], h, np.delete(w, i)) for i in range(N)]
    near = reference.Nearness(*map(np.concatenate, zip(*near, strict=True)))
    allowed = TWICE * tolerances.sd_log_error(dtype, near, reference.size_in_bandwidths(X, h))
    tolerances.check_log(call(backend, cukde.sd_kde, X, h, w, log=True), want, allowed)


@pytest.mark.parametrize("h", [np.array([0.5, 0.7, 0.9]), COVARIANCE], ids=["deviations", "covariance"])
def test_bandwidths_of_every_form(backend: Backend, h: np.ndarray) -> None:
    X = sample(3)
    want = each(lambda A, y, v: (reference.log_kde(A, y, h, v),), X, None)[0]
    allowed = TWICE * tolerances.log_error(backend.device, "float64", exponents(X, h, None))
    tolerances.check_log(call(backend, cukde.kde, X, h, None, log=True), want, allowed)


def test_local_factors(backend: Backend) -> None:
    X, factors, h, w = sample(2), 2.0 ** np.random.default_rng(0).uniform(-1, 1, N), 0.5, exponential()
    called = functools.partial(call, backend, X=X, h=h, w=w, local_factors=backend.asarray(factors))
    of = reference.Local(*each(lambda A, y, v, f: reference.local(A, y, h, f, v), X, w, factors))
    allowed = TWICE * tolerances.log_error(backend.device, "float64", of.exponent)
    tolerances.check_log(called(cukde.kde, log=True), of.log, allowed)
    tolerances.check_scaled(called(cukde.laplace_kde), of.log, of.laplace, of.size, allowed, "laplace")
    error = np.linalg.norm(called(cukde.score) - of.score, axis=1) * h
    tolerances.check_score(error, allowed, np.maximum(1, of.steepness))

    moved = reference.local_debias(X, h, factors, weights=w)
    of = reference.Local(*each(lambda A, y, v, f, B: reference.local(B, y, h, f, v), X, w, factors, moved))
    near = reference.Nearness(of.exponent, np.maximum(1, of.steepness), of.reach)
    allowed = TWICE * tolerances.sd_log_error("float64", near, reference.size_in_bandwidths(X, h))
    tolerances.check_log(called(cukde.sd_kde, log=True), of.log, allowed)


def test_domains(backend: Backend) -> None:
    """No image of the row itself counts."""
    X = np.random.default_rng(0).uniform(0, 1, (15, 2))
    domain: dict[str, Any] = {"bounds": [(0, 1), None], "periods": [None, 1.5]}
    want = each(lambda A, y, v: (reference.in_domain(A, y, 0.4, **domain).log,), X, None)[0]
    got = call(backend, cukde.kde, X, 0.4, None, log=True, **domain)
    tolerances.check_log(got, want, np.full(15, 1e-11))


def test_where_transforms_are_faster_only_some_rows_are_summed_again(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those whose own term is most of the sum, at the others and by halves."""
    for plan in (plan_cpu, plan_gpu):
        monkeypatch.setattr(plan, "own_pairs_are_few", lambda n: n**2 <= 20)
    sizes: list[tuple[int, int]] = []
    inner = leave_one_out._part

    def noted(problem: Any, data: Any, queries: Any) -> Any:
        out = inner(problem, data, queries)
        sizes.append((len(out.X), len(out.X if out.Y is None else out.Y)))
        return out

    monkeypatch.setattr(leave_one_out, "_part", noted)
    X = np.concatenate([np.random.default_rng(0).standard_normal((3000, 1)), 10.0 + 5 * np.arange(20)[:, None]])
    got = call(backend, cukde.kde, X, 0.3, None, log=True)[2900:]
    exponents = -0.5 * ((X[2900:] - X.T) / 0.3) ** 2
    exponents[np.arange(120), np.arange(2900, 3020)] = -np.inf
    largest = exponents.max(axis=1)
    want = (
        largest
        + np.log(np.exp(exponents - largest[:, None]).sum(axis=1))
        - math.log(3019 * 0.3 * math.sqrt(2 * math.pi))
    )
    tolerances.check_log(got, want, TWICE * tolerances.log_error(backend.device, "float64", -largest))
    lost = sizes[0][0]
    assert sizes[0] == (lost, lost)
    assert 20 <= lost < 100
    assert (3020 - lost, lost) in sizes


def test_bad_calls_are_refused(backend: Backend) -> None:
    X = backend.asarray(sample(2))
    for function in (cukde.kde, cukde.sd_kde, cukde.laplace_kde, cukde.score, cukde.density_and_score):
        refused = functools.partial(function, h=0.5, leave_one_out=True)
        with pytest.raises(ValueError, match="pass X for Y"):
            refused(X, X + 1)
        want, got = (function(X, Y, 0.5, leave_one_out=True)[0] for Y in (X, X.copy()))
        assert bool((got == want).all())
        with pytest.raises(ValueError, match="two rows or more"):
            refused(X[:1], None)
        with pytest.raises(ValueError, match="two rows or more"):
            refused(X[:2], None, weights=backend.asarray([1.0, 0.0]))
        assert function(X, None, 0.5, leave_one_out=True)[0].shape in ((), (2,), (N,))


class TestEstimator:
    @pytest.mark.parametrize("method", ["kde", "sd", "laplace"])
    def test_it_is_the_function(self, backend: Backend, method: Any) -> None:
        X, w = backend.asarray(sample(3)), backend.asarray(exponential())
        function = {"kde": cukde.kde, "sd": cukde.sd_kde, "laplace": cukde.laplace_kde}[method]
        fitted = cukde.KernelDensity(bandwidth=0.6, method=method).fit(X, sample_weight=w)
        got = backend.asnumpy(fitted.score_samples(X, leave_one_out=True))
        want = backend.asnumpy(function(X, X, 0.6, weights=w, log=True, leave_one_out=True))
        np.testing.assert_allclose(got, want, rtol=1e-12)
        for others in (X[::-1], X[:-1], X + 0.1):
            with pytest.raises(ValueError, match="the data of fit"):
                fitted.score_samples(others, leave_one_out=True)

    @pytest.mark.parametrize("kernel", ["tophat", "exponential"])
    @pytest.mark.parametrize("n", [40, 300], ids=["few", "many"])
    def test_other_kernels(self, backend: Backend, n: int, kernel: Any) -> None:
        X, w = sample(2, n=n), exponential(n)
        fitted = cukde.KernelDensity(bandwidth=1.5, kernel=kernel)
        fitted.fit(backend.asarray(X), sample_weight=backend.asarray(w))
        got = backend.asnumpy(fitted.score_samples(backend.asarray(X), leave_one_out=True))
        want = each(lambda A, y, v: (reference.kernel_density(A, y, 1.5, kernel, v)[0],), X, w)[0]
        assert (got == -np.inf).any() == (kernel == "tophat")
        np.testing.assert_allclose(np.exp(got), want, rtol=1e-10)

    def test_other_metrics(self) -> None:
        X, w = sample(2, n=40), exponential(40)
        fitted = cukde.KernelDensity(bandwidth=1.5, metric="manhattan").fit(X, sample_weight=w)
        got = fitted.score_samples(X, leave_one_out=True)
        for i in (0, 7, 11, 20):
            others = cukde.KernelDensity(bandwidth=1.5, metric="manhattan")
            others.fit(np.delete(X, i, axis=0), sample_weight=np.delete(w, i))
            assert got[i] == pytest.approx(others.score_samples(X[i : i + 1])[0], rel=1e-10)


def test_a_narrow_bandwidth_in_float32(backend: Backend) -> None:
    """Rows far from all others are summed again by another pass than the rest."""
    X = np.random.default_rng(0).standard_normal((3000, 3), np.float32)
    found = cukde.kde(*(2 * [backend.asarray(X)]), 0.085, leave_one_out=True, log=True)
    want = cukde.kde(*(2 * [X.astype(np.float64)]), 0.085, leave_one_out=True, log=True)
    np.testing.assert_allclose(backend.asnumpy(found), want, rtol=1e-5, atol=1e-4)
