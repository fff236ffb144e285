"""Densities, scores and debiased data with a factor of the bandwidth for each point; Abramson's rule for them.

Against float64 oracles.

Test bodies run on every backend: the CPU, the CUDA kernels emulated on the host, and a GPU where there is one.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

import cukde
from cukde import bandwidth
from cukde.core import dispatch
from cukde.density import backends
from cukde.density.options import Options
from cukde.density.sums import Output, merge
from tests import reference, tolerances
from tests.conftest import Backend

COVARIANCE = np.array([[1.0, 0.0, 0.0], [0.3, 0.7, 0.0], [-0.2, 0.1, 1.4]])


def sample(d: int, n: int, m: int, dtype: str, offset: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Data, queries among them, and factors from 1/3 to 3."""
    rng = np.random.default_rng([d, n])
    X, Y = (rng.standard_normal((rows, d)) + offset for rows in (n, m))
    return X.astype(dtype), Y.astype(dtype), 3.0 ** rng.uniform(-1, 1, n)


def skewed(n: int) -> np.ndarray:
    """Weights of which some are tiny and every fifth is zero."""
    w = 10.0 ** np.random.default_rng(n).uniform(-6, 3, n)
    w[::5] = 0
    return w


def verify(
    backend: Backend,
    X: np.ndarray,
    Y: np.ndarray,
    h: Any,
    factors: np.ndarray,
    w: np.ndarray | None = None,
    precision: str | None = None,
    score_bandwidth: Any = None,
    **options: Any,
) -> list[np.ndarray]:
    """Check the density, the score with it and alone, the debiased data and both corrected densities; return all."""
    data, queries = backend.asarray(X), backend.asarray(Y)
    options |= {"local_factors": backend.asarray(factors), "weights": backend.asarray(w), "precision": precision}
    dtype = np.result_type(X, Y)
    taken = "float64" if (precision or str(dtype)) == "float64" else "ieee"
    of = reference.local(X, Y, h, factors, w)
    allowed = tolerances.log_error(backend.device, taken, of.exponent)

    p, log_alone = (backend.asnumpy(cukde.kde(data, queries, h, log=log, **options)) for log in (False, True))
    assert p.dtype == log_alone.dtype == dtype
    tolerances.check_density(p, of.log, allowed)
    tolerances.check_log(log_alone, of.log, allowed)
    log_p, score = map(backend.asnumpy, cukde.density_and_score(data, queries, h, **options))
    alone = backend.asnumpy(cukde.score(data, queries, h, **options))
    tolerances.check_log(log_p, of.log, allowed)
    rounding = 0.5 * np.finfo(dtype).eps * np.linalg.norm(reference.whiten_gradient(of.score, h), axis=1)
    for found in (score, alone):
        assert found.dtype == dtype
        error = np.linalg.norm(reference.whiten_gradient(found - of.score, h), axis=1)
        tolerances.check(error, allowed * np.maximum(1, of.steepness) + rounding, "score")

    corrected = backend.asnumpy(cukde.laplace_kde(data, queries, h, **options))
    tolerances.check_scaled(corrected, of.log, of.laplace, of.size, allowed, "laplace")

    moved = backend.asnumpy(cukde.debias(data, h, score_bandwidth=score_bandwidth, **options))
    want = reference.local_debias(X, h, factors, score_bandwidth, w)
    of_score = h if score_bandwidth is None else score_bandwidth
    at_data = reference.local(X, X, of_score, factors, w)
    allowed = tolerances.log_error(backend.device, taken, at_data.exponent) * np.maximum(1, at_data.reach)
    ratio = np.linalg.norm(reference.whiten(reference.whiten_gradient(np.eye(X.shape[1]), h), of_score), 2) ** 2
    rounding = np.finfo(dtype).eps * np.linalg.norm(reference.whiten(np.abs(want), h), axis=1)
    tolerances.check(np.linalg.norm(reference.whiten(moved - want, h), axis=1), ratio * allowed + rounding, "moved")

    log_sd = backend.asnumpy(cukde.sd_kde(data, queries, h, score_bandwidth=score_bandwidth, log=True, **options))
    of = reference.local(want, Y, h, factors, w)
    near = reference.Nearness(of.exponent, np.maximum(1, of.steepness), of.reach)
    single = "float64" if taken == "float64" else "float32"
    tolerances.check_log(log_sd, of.log, tolerances.sd_log_error(single, near, reference.size_in_bandwidths(X, h)))
    return [log_alone, log_p, score, corrected, moved, log_sd]


def verify_density(
    backend: Backend, X: np.ndarray, Y: np.ndarray, h: Any, factors: np.ndarray, w: Any = None, **options: Any
) -> np.ndarray:
    """Check a log density alone, where it is of any size or of many rows; return it."""
    options |= {"local_factors": backend.asarray(factors), "weights": backend.asarray(w)}
    got = backend.asnumpy(cukde.kde(backend.asarray(X), backend.asarray(Y), h, log=True, **options))
    want, exponent = reference.log_local_kde(X, Y, h, factors, w)
    taken = "float64" if got.dtype == np.float64 else "ieee"
    tolerances.check_log(got, want, tolerances.log_error(backend.device, taken, exponent))
    return got


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("d", [1, 2, 5, 17])
def test_all_match_the_formulas(backend: Backend, d: int, dtype: str, weighted: bool) -> None:
    n, m = backend.size(700, 130), backend.size(200, 50)
    X, Y, factors = sample(d, n, m, dtype)
    verify(backend, X, Y, 0.5 * math.sqrt(d), factors, skewed(n) if weighted else None)


@pytest.mark.parametrize(("precision", "dtype"), [("ieee", "float64"), ("tf32", "float32"), ("float64", "float32")])
@pytest.mark.parametrize("form", ["scalar", "deviations", "covariance"])
def test_bandwidths_and_precisions_of_every_form(backend: Backend, form: str, dtype: str, precision: str) -> None:
    X, Y, factors = sample(3, backend.size(400, 100), 40, dtype, offset=100.0)
    h = {"scalar": 0.6, "deviations": np.diag(COVARIANCE), "covariance": COVARIANCE @ COVARIANCE.T}[form]
    other = {"scalar": 0.8, "deviations": COVARIANCE @ COVARIANCE.T, "covariance": 1.5}[form]
    verify(backend, X, Y, np.asarray(h), factors, precision=precision, score_bandwidth=other)


def test_steps_move_points_with_their_factors(backend: Backend) -> None:
    X, _, factors = sample(3, 120, 1, "float64")
    once = reference.local_debias(X, 0.8, factors)
    want = X + 0.5 * reference.local(once, X, 0.8, factors).shift
    found = cukde.debias(backend.asarray(X), 0.8, steps=2, local_factors=backend.asarray(factors))
    np.testing.assert_allclose(backend.asnumpy(found), want, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("d", [1, 3])
def test_factors_over_four_decades(backend: Backend, d: int, dtype: str) -> None:
    """At the data themselves, where narrow points are steep and wide ones share the density."""
    n = backend.size(500, 120)
    X, _, _ = sample(d, n, 1, dtype)
    verify(backend, X, X, 0.5, 10.0 ** np.random.default_rng(d).uniform(-2, 2, n), skewed(n))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_far_queries_have_scores(backend: Backend, dtype: str) -> None:
    """They point to the data that reach them, the widest."""
    X, _, factors = sample(3, 80, 1, dtype)
    factors[7] = 4.0
    Y = np.array(10.0 ** np.arange(2, 7)[:, None] * [1.0, -2.0, 0.5], dtype)
    arrays = {"local_factors": backend.asarray(factors), "check_finite": False}
    found = backend.asnumpy(cukde.score(backend.asarray(X), backend.asarray(Y), 0.5, **arrays))
    np.testing.assert_allclose(found, (X[7] - Y) / (4.0 * 0.5) ** 2, rtol=1e-6 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_factor_of_all_points_is_one_of_the_bandwidth(backend: Backend, dtype: str) -> None:
    X, Y, _ = sample(2, 150, 60, dtype)
    data, queries, factors = backend.asarray(X), backend.asarray(Y), backend.asarray(np.full(150, 1.5))
    rtol = 1e-3 if dtype == "float32" else 1e-11
    for function in (cukde.score, cukde.density_and_score, cukde.sd_kde, cukde.laplace_kde):
        got, want = (function(data, queries, h, **o) for h, o in ((0.4, {"local_factors": factors}), (0.6, {})))
        for one, other in zip(*(a if isinstance(a, tuple) else (a,) for a in (got, want)), strict=True):
            one, other = backend.asnumpy(one), backend.asnumpy(other)
            np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * abs(other).max())
    moved = backend.asnumpy(cukde.debias(data, 0.4, local_factors=factors))
    np.testing.assert_allclose(moved, backend.asnumpy(cukde.debias(data, 0.6)), rtol=rtol, atol=rtol)


def test_the_score_is_the_gradient_of_the_log_density() -> None:
    X, Y, factors = sample(3, 100, 20, "float64")
    h, step = np.array([0.5, 0.9, 0.7]), 1e-5

    def log_p(y: np.ndarray) -> np.ndarray:
        return cukde.kde(X, y, h, local_factors=factors, log=True)

    steps = step * np.eye(3)
    want = np.stack([(log_p(Y + one) - log_p(Y - one)) / (2 * step) for one in steps], axis=1)
    np.testing.assert_allclose(cukde.score(X, Y, h, local_factors=factors), want, rtol=1e-7, atol=1e-7)


class TestBias:
    """Of a smooth periodic density: sums over a fine grid, weighted by it, are the means of the estimates.

    Three periods are far more than the kernels of the middle one reach.
    """

    X = np.linspace(-3 * np.pi, 3 * np.pi, 1200, endpoint=False)
    Y = np.linspace(-np.pi, np.pi, 41)

    def factors(self, name: str) -> np.ndarray:
        f = self.density(self.X)
        shapes = {"equal": f**0, "weaker": f**-0.25, "another shape": 1 + 0.4 * np.sin(self.X), "Abramson": f**-0.5}
        return shapes[name]

    def density(self, x: np.ndarray) -> np.ndarray:
        return 1 + 0.4 * np.cos(x)

    def order(self, function: Any, name: str) -> float:
        bias = []
        for h in (0.12, 0.06):
            p = function(self.X, self.Y, h, weights=self.density(self.X), local_factors=self.factors(name))
            bias.append(float(abs(6 * np.pi * p - self.density(self.Y)).max()))
        return math.log2(bias[0] / bias[1])

    @pytest.mark.parametrize("name", ["equal", "weaker", "another shape"])
    def test_of_corrected_estimates_is_of_fourth_order_at_least(self, name: str) -> None:
        assert 1.8 < self.order(cukde.kde, name) < 2.2
        for function in (cukde.sd_kde, cukde.laplace_kde):
            assert self.order(function, name) > 3.5

    def test_beside_abramsons_law_is_of_fourth_order_without_a_shift(self) -> None:
        assert self.order(cukde.kde, "Abramson") > 3.5
        weights, middle = self.density(self.X), abs(self.X) < np.pi
        moves = [
            cukde.debias(self.X, 0.2, weights=weights, local_factors=self.factors(name)) - self.X
            for name in ("equal", "Abramson")
        ]
        most, hardly = (abs(move[middle]).max() for move in moves)
        assert hardly < 0.1 * most


def test_sd_kde_gains_by_factors_in_heavy_tails() -> None:
    """Student's t of 3 degrees, 6 samples of 300; each estimate has its best bandwidth, so that no rule decides."""
    truth, y = stats.t(3), np.linspace(-30, 30, 801)
    errors = dict.fromkeys(itertools.product((cukde.kde, cukde.sd_kde), (False, True)), 0.0)
    for seed in range(6):
        X = truth.rvs(300, random_state=seed)
        pilot = bandwidth.silverman(X)
        factors = bandwidth.abramson(X, pilot)
        for function, adaptive in errors:
            tried = [
                ((function(X, y, pilot * c, local_factors=factors if adaptive else None) - truth.pdf(y)) ** 2).sum()
                for c in np.geomspace(0.4, 3, 11)
            ]
            assert 0 < np.argmin(tried) < 10
            errors[function, adaptive] += min(tried)
    with_factors = errors.pop((cukde.sd_kde, True))
    assert with_factors < 0.4 * errors[cukde.kde, False]
    assert with_factors < 0.7 * min(errors.values())


def test_domains_have_images_of_factors(backend: Backend) -> None:
    rng = np.random.default_rng(3)
    X, Y = rng.uniform(0, 1, (backend.size(60, 24), 2)), rng.uniform(0, 1, (20, 2))
    factors, h = rng.uniform(0.4, 2.0, len(X)), 0.2
    mirrored = [(X * [s, 1] + [2.0 * i, j]) for s in (1, -1) for i in range(-5, 6) for j in range(-8, 9)]
    everywhere, of_all = np.concatenate(mirrored), np.tile(factors, len(mirrored))
    domain: dict[str, Any] = {"bounds": [(0, 1), None], "periods": [None, 1]}
    options = domain | {"local_factors": backend.asarray(factors)}
    of = reference.local(everywhere, Y, h, of_all)
    data, queries = backend.asarray(X), backend.asarray(Y)
    score = backend.asnumpy(cukde.score(data, queries, h, **options))
    np.testing.assert_allclose(score, of.score, rtol=1e-10, atol=1e-9)
    corrected = backend.asnumpy(cukde.laplace_kde(data, queries, h, **options))
    np.testing.assert_allclose(corrected, np.exp(of.log) * of.laplace * len(mirrored), rtol=1e-10, atol=1e-10)
    moved = X + 0.5 * reference.local(everywhere, X, h, of_all).shift
    moved = np.stack([reference.folded(moved[:, 0], (0, 1), None), reference.folded(moved[:, 1], None, 1)], axis=1)
    np.testing.assert_allclose(backend.asnumpy(cukde.debias(data, h, **options)), moved, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("output", ["moments", "laplace_moments"])
@pytest.mark.parametrize("precision", ["float32", "ieee", "float64"])
def test_moments_of_gradients_merge(backend: Backend, precision: str, output: Output) -> None:
    """Of terms over squared factors, in each way to sum them."""
    X, Y, factors = sample(3, 200, 50, "float64" if precision == "float64" else "float32")
    log_weights, parts = -3 * np.log(factors), []
    passes = backends.pairs(dispatch.backend(backend.asarray(X)))
    for rows in (slice(0, 90), slice(90, None)):
        x, log_w, f = (backend.asarray(a[rows]) for a in (X, log_weights, factors))
        options = Options(precision, log_weights=log_w, local_factors=f, of_gradient=True)
        parts.append(passes.partial_sums(x, backend.asarray(Y), 0.7, output, options))
    merged = merge(parts, backend.xp)

    steps = X[None].astype(float) - Y[:, None]
    q = 0.5 * (steps**2).sum(axis=2) / (0.7 * factors) ** 2
    terms = np.exp(log_weights - q)
    of_moments = terms / factors**2 * (3.5 - q if output == "laplace_moments" else 1.0)
    want = np.einsum("mn,mnd->md", of_moments, steps) / terms.sum(axis=1)[:, None]
    rtol = 1e-11 if precision == "float64" else 1e-4
    np.testing.assert_allclose(backend.asnumpy(merged.moments / merged.total[:, None]), want, rtol=rtol, atol=rtol)


def test_a_score_bandwidth_has_the_range_of_the_narrowest_point(backend: Backend) -> None:
    X = backend.asarray(np.array([[0.0, 0.0], [1e8, 0.0], [0.0, 1.0]], np.float32))
    factors = backend.asarray(np.array([1.0, 1.0, 1e-7]))
    cukde.sd_kde(X, X, 1.0, local_factors=factors)
    with pytest.raises(ValueError, match=r"must lie within 1e[+]18 bandwidths"):
        cukde.sd_kde(X, X, 1.0, score_bandwidth=1e-5, local_factors=factors)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logarithm_is_finite_anywhere(backend: Backend, dtype: str) -> None:
    n = backend.size(2300, 333)
    X, Y, factors = sample(3, n, 9, dtype)
    Y *= np.array(10.0 ** np.arange(9)[:, None], dtype)
    verify_density(backend, X, Y, 0.5, factors, skewed(n))


@pytest.mark.parametrize("h", [1e-20, 1e-11, 1e-5, 1e11, 1e20])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bandwidths_of_any_size(backend: Backend, dtype: str, h: float) -> None:
    """Beside factors at the ends of their range; nothing leaves the range of the arithmetic."""
    X, Y, factors = sample(1, 80, 20, dtype)
    X, Y = (a * np.dtype(dtype).type(h) for a in (X, Y))
    factors[:3] = 1e-8, 1e16, 1e-7
    verify_density(backend, X, np.concatenate((Y, X[:3])), h, factors)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("d", [1, 4])
def test_factors_of_one_change_nothing(backend: Backend, d: int, dtype: str) -> None:
    n = backend.size(800, 150)
    X, Y, _ = sample(d, n, 60, dtype)
    arrays = [backend.asarray(a) for a in (X, Y)]
    with_ones = cukde.kde(*arrays, 0.5, local_factors=backend.asarray(np.ones(n)), log=True)
    without = cukde.kde(*arrays, 0.5, log=True)
    allowed = 2 * tolerances.DENSITY[backend.device, dtype].value
    np.testing.assert_allclose(backend.asnumpy(with_ones), backend.asnumpy(without), rtol=1e-6, atol=allowed)


def test_splits_layouts_and_empty_queries(backend: Backend) -> None:
    """Few queries, for which the data are cut; data and factors that are not contiguous."""
    n = backend.size(20_000, 1500)
    X, Y, factors = sample(2, n, 3, "float32")
    w, strided = skewed(n), (np.asfortranarray(X), np.repeat(Y, 2, axis=0)[::2], 0.3, np.repeat(factors, 2)[::2])
    np.testing.assert_array_equal(verify_density(backend, *strided, w), verify_density(backend, X, Y, 0.3, factors, w))
    assert verify_density(backend, X, Y[:0], 0.3, factors).shape == (0,)
    runs = [verify_density(backend, X, Y, 0.3, factors, deterministic=True) for _ in range(2)]
    np.testing.assert_array_equal(*runs)


def test_density_integrates_to_one() -> None:
    X, factors, w = np.array([0.0, 0.7, 0.8, 6.0]), [0.1, 1.0, 2.5, 7.0], [0.2, 0.1, 0.4, 0.3]

    def p(y: np.ndarray) -> np.ndarray:
        return cukde.kde(X, y, 0.5, local_factors=factors, weights=w)

    ends = [-60, -5, -0.5, 0, 0.5, 5, 12, 70]
    mass = math.fsum(integrate.fixed_quad(p, a, b, n=200)[0] for a, b in itertools.pairwise(ends))
    assert mass == pytest.approx(1, abs=1e-9)


def test_arguments_are_checked(backend: Backend) -> None:
    X = backend.asarray(np.arange(6.0).reshape(3, 2))

    def density(factors: Any, **options: Any) -> Any:
        return cukde.kde(X, X, 1.0, local_factors=backend.asarray(factors), **options)

    for shape in ((), (2,), (3, 1)):
        with pytest.raises(ValueError, match=r"local_factors must have shape \(3,\), one for each row of X; got"):
            density(np.ones(shape))
    for factors, least in (([1.0, 0.0, 1.0], "0"), ([1.0, 2.0, -0.5], "-0.5")):
        with pytest.raises(ValueError, match=f"local_factors must be positive; the smallest is {least}"):
            density(factors)
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="local_factors must be finite; it holds NaN or infinity"):
            density([1.0, bad, 1.0])
    for factors in ([1.0, 1e-9, 1.0], [1.0, 1.0, 1e17]):
        with pytest.raises(
            ValueError, match=r"local_factors must lie between 1e-08 and 1e[+]16; they reach from .*clip"
        ):
            density(factors)
    with pytest.raises(TypeError, match=r"local_factors must hold real numbers .* got dtype complex128"):
        density([1j, 1.0, 1.0])
    far = backend.asarray(np.array([[0.0, 0.0], [1e12, 0.0], [0.0, 1.0]], np.float32))
    cukde.kde(far, far, 1.0)
    with pytest.raises(ValueError, match=r"X and Y must lie within 1e[+]18 bandwidths"):
        cukde.kde(far, far, 1.0, local_factors=backend.asarray(np.array([1.0, 1.0, 1e-7])))


# Abramson's rule


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("d", "alpha"), [(1, 0.5), (3, 0.5), (3, 1.0), (3, 0.0)])
def test_abramson_matches_its_formula(backend: Backend, d: int, alpha: float, dtype: str, weighted: bool) -> None:
    n = backend.size(900, 150)
    X, _, _ = sample(d, n, 1, dtype)
    X[0] += 30  # alone
    w = skewed(n) if weighted else None
    got = backend.asnumpy(bandwidth.abramson(backend.asarray(X), 0.5, alpha=alpha, weights=backend.asarray(w)))
    assert (got.shape, got.dtype) == ((n,), np.float64)
    allowed = 2 * alpha * tolerances.DENSITY[backend.device, dtype].value + 4e-16
    np.testing.assert_allclose(got, reference.abramson(X, 0.5, alpha, w), rtol=allowed)
    log_mean = np.log(got).mean() if w is None else w @ np.log(got) / w.sum()
    assert log_mean == pytest.approx(0, abs=1e-6 if dtype == "float32" else 1e-12)


def test_abramson_takes_densities_of_any_size(backend: Backend) -> None:
    """In so many dimensions that densities themselves leave float64."""
    X = np.random.default_rng(0).standard_normal((60, 200)) * 1e-3
    got = backend.asnumpy(bandwidth.abramson(backend.asarray(X), np.full(200, 1e-3)))
    assert reference.log_kde(X, X, 1e-3).min() > 1000
    np.testing.assert_allclose(got, reference.abramson(X, 1e-3, 0.5), rtol=1e-11)


def test_rows_without_weight_have_a_factor_of_one(backend: Backend) -> None:
    X, w = np.array([0.0, 0.5, 1e6]), np.array([1.0, 2.0, 0.0])
    factors = bandwidth.abramson(backend.asarray(X), 0.5, weights=backend.asarray(w))
    assert backend.asnumpy(factors)[2] == 1
    np.testing.assert_allclose(backend.asnumpy(factors)[:2], reference.abramson(X[:2], 0.5, 0.5, w[:2]), rtol=1e-12)


def test_abramson_checks_its_arguments(backend: Backend) -> None:
    X = backend.asarray(np.arange(4.0))
    for alpha in (-0.1, 1.1, np.nan):
        with pytest.raises(ValueError, match="alpha must be a number from 0 to 1; got"):
            bandwidth.abramson(X, 1.0, alpha=alpha)
    for wrong in ("0.5", None, True, 1j):
        with pytest.raises(TypeError, match="alpha must be a number from 0 to 1; got"):
            bandwidth.abramson(X, 1.0, alpha=wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="h must be positive"):
        bandwidth.abramson(X, -1.0)
    with pytest.raises(ValueError, match="weights must not be negative"):
        bandwidth.abramson(X, 1.0, weights=backend.asarray(-np.ones(4)))


def _best(X: np.ndarray, truth: Any, adaptive: bool) -> tuple[float, float]:
    """Integrated squared error at the best of many bandwidths, and that bandwidth over Silverman's."""
    y = np.linspace(-30, 30, 1201)
    want = truth.pdf(y)
    pilot = bandwidth.silverman(X)
    factors = bandwidth.abramson(X, pilot) if adaptive else None
    widths = np.geomspace(0.2, 2, 13)
    errors = [((cukde.kde(X, y, pilot * c, local_factors=factors) - want) ** 2).sum() * (y[1] - y[0]) for c in widths]
    best = int(np.argmin(errors))
    assert 0 < best < len(widths) - 1
    return float(errors[best]), float(widths[best])


def test_abramson_improves_on_a_fixed_bandwidth_in_heavy_tails() -> None:
    """Student's t of 3 degrees, 10 samples of 300: each estimate has its best bandwidth, so that no rule decides."""
    truth = stats.t(3)
    samples = [truth.rvs(300, random_state=seed) for seed in range(10)]
    fixed, adaptive = (np.mean([_best(X, truth, a) for X in samples], axis=0) for a in (False, True))
    error, width = adaptive / fixed
    assert error < 0.7
    assert 1.5 < width < 2.1
