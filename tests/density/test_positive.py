"""The positive estimate, its score and its mass, against float64 oracles and integrals.

Test bodies run on every backend: the CPU, the CUDA kernels emulated on the host, and a GPU where there is one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import integrate

import cukde
from cukde.density import correction
from cukde.density.positive import mass as positive_mass
from tests import reference, tolerances
from tests.conftest import Backend

COVARIANCE = np.array([[1.0, 0.3, 0.0], [0.3, 0.8, 0.2], [0.0, 0.2, 1.3]])
CASES = [(1, "float32"), (1, "float64"), (2, "float32"), (3, "float64"), (16, "float32"), (17, "float64")]
ids = [f"d{d}-{dtype}" for d, dtype in CASES]


def sample(d: int, dtype: str, n: int = 300, m: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Two clusters, and queries among them, between them, at a point, and far from all."""
    rng = np.random.default_rng([d, n])
    X = rng.standard_normal((n, d)) + 6.0 * (rng.random((n, 1)) < 0.4)
    Y = np.concatenate([X[: m // 2] + 0.3, rng.uniform(-2, 8, (m - m // 2, d))])
    Y[0], Y[1], Y[2] = X[0], 40.0, -1000.0
    return X.astype(dtype), Y.astype(dtype)


def exponential(n: int) -> np.ndarray:
    """Weights, one of them 0, one nearly all of the sum."""
    w = np.random.default_rng(n).exponential(size=n)
    w[3], w[11] = 0, 1e3
    return w


def log_error(backend: Backend, X: np.ndarray, Y: np.ndarray, h: Any, w: Any, want: reference.Positive) -> np.ndarray:
    """That of log p, and that of t, relative to the absolute terms, by the slope of asinh."""
    dtype = X.dtype.name
    of_terms = tolerances.log_error(backend.device, dtype, reference.nearness(X, Y, h, w).exponent)
    return of_terms * (1 + want.size / np.hypot(1, want.t))


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize(("d", "dtype"), CASES, ids=ids)
def test_density_is_that_of_the_formula(backend: Backend, d: int, dtype: str, weighted: bool) -> None:
    X, Y = sample(d, dtype)
    h, w = 0.4 * d**0.5, exponential(len(X)) if weighted else None
    want = reference.positive(X, Y, h, w)
    arrays = backend.asarray(X), backend.asarray(Y)
    options = {"weights": backend.asarray(w), "mass": 1.25}
    got = backend.asnumpy(cukde.positive_kde(*arrays, h, log=True, **options))
    assert got.dtype == dtype
    tolerances.check_log(got, want.log - np.log(1.25), log_error(backend, X, Y, h, w, want))
    p = backend.asnumpy(cukde.positive_kde(*arrays, h, **options))
    assert (p >= 0).all()
    assert (p[:2] > 0).any()
    near = want.log > -60
    np.testing.assert_allclose(np.log(p[near]), got[near], rtol=0, atol=8 * np.finfo(dtype).eps * 70)


@pytest.mark.parametrize("h", [[0.5, 0.4, 0.8], COVARIANCE, 1e-14], ids=["deviations", "covariance", "tiny"])
def test_bandwidths_of_every_form(backend: Backend, h: Any) -> None:
    X, Y = sample(3, "float64")
    if np.ndim(h) == 0:
        X, Y = X * h, Y * h
    want = reference.positive(X, Y, h)
    data = backend.asarray(X), backend.asarray(Y)
    got = backend.asnumpy(cukde.positive_kde(*data, h, log=True, mass=1))
    tolerances.check_log(got, want.log, log_error(backend, X, Y, h, None, want))
    check_score(backend, backend.asnumpy(cukde.positive_score(*data, h)), X, Y, h, None)


@pytest.mark.parametrize(("d", "dtype"), CASES, ids=ids)
def test_score_is_the_gradient(backend: Backend, d: int, dtype: str) -> None:
    X, Y = sample(d, dtype)
    h, w = 0.4 * d**0.5, exponential(len(X))
    options = {"weights": backend.asarray(w)}
    got = backend.asnumpy(cukde.positive_score(backend.asarray(X), backend.asarray(Y), h, **options))
    check_score(backend, got, X, Y, h, w)


def check_score(backend: Backend, got: np.ndarray, X: np.ndarray, Y: np.ndarray, h: Any, w: Any) -> None:
    """In bandwidths the error is that of the terms times their reach, by the size of t and the slope of asinh."""
    want = reference.positive(X, Y, h, w)
    near = reference.nearness(X, Y, h, w)
    error = np.linalg.norm(reference.whiten((got - want.score) @ reference.covariance(h, X.shape[1]), h), axis=1)
    base = tolerances.log_error(backend.device, X.dtype.name, near.exponent)
    allowed = base * near.reach * (1 + 2 * want.size / np.hypot(1, want.t))
    tolerances.check(error, allowed, "score in bandwidths")


def test_the_oracle_of_the_score_is_a_derivative() -> None:
    X, Y = sample(2, "float64")
    step = 1e-5
    got = reference.positive(X, Y[3:], 0.7).score
    for k, e in enumerate(np.eye(2) * step):
        above, below = (reference.positive(X, Y[3:] + sign * e, 0.7).log for sign in (1, -1))
        np.testing.assert_allclose((above - below) / (2 * step), got[:, k], rtol=0, atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_without_a_row_of_its_own(backend: Backend, weighted: bool) -> None:
    X, _ = sample(2, "float64", 40)
    w, h = exponential(40) if weighted else None, 0.5
    want, allowed = [], []
    for i in range(40):
        rest = np.delete(X, i, axis=0), X[i : i + 1], h, None if w is None else np.delete(w, i)
        one = reference.positive(*rest)
        want.append(one.log[0])
        allowed.append(2 * log_error(backend, *rest, one)[0])
    data = backend.asarray(X)
    options = {"weights": backend.asarray(w), "mass": 1, "leave_one_out": True, "log": True}
    got = backend.asnumpy(cukde.positive_kde(data, data, h, **options))
    tolerances.check_log(got, np.array(want), np.array(allowed))


@pytest.mark.parametrize(
    ("bounds", "periods"), [([(-3, None), None], None), ([None, (-4, 9)], [9.0, None])], ids=["an end", "both kinds"]
)
def test_on_a_domain(backend: Backend, bounds: Any, periods: Any) -> None:
    X, Y = sample(2, "float64", 60, 20)
    X, Y = X.clip(-2.9, 8), Y.clip(-2.9, 8)
    want = reference.in_domain(X, Y, 0.5, bounds, periods)
    options = {"bounds": bounds, "periods": periods, "mass": 1, "log": True}
    got = backend.asnumpy(cukde.positive_kde(backend.asarray(X), backend.asarray(Y), 0.5, **options))
    t = want.laplace - 1
    allowed = tolerances.log_error(backend.device, "float64", want.exponent) * (1 + want.size / np.hypot(1, t))
    tolerances.check_log(got, want.log + np.arcsinh(t), allowed)


def quadrature(X: np.ndarray, h: float, w: Any = None, low: float = -20, high: float = 30) -> float:
    def value(y: float) -> float:
        return float(np.exp(reference.positive(X, np.array([[y]]), h, w).log[0]))

    return float(integrate.quad(value, low, high, epsabs=1e-11, limit=2000, points=np.unique(X)[:20].tolist())[0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_mass_of_one_column_is_the_integral(backend: Backend, dtype: str) -> None:
    X = np.array([-1.0, -0.5, 0.0, 0.3, 9.0]).astype(dtype)
    w = np.array([1.0, 2.0, 0.5, 1.0, 3.0])
    for h in (0.2, 1.0):
        mass = cukde.positive_mass(backend.asarray(X), h, weights=backend.asarray(w))
        assert mass.value == pytest.approx(quadrature(X.astype(float), h, w), abs=1e-9)
        assert 0 <= mass.error < 1e-5


def fine_sum(x: np.ndarray, w: np.ndarray) -> float:
    """The mass for h = 1 by fifty nodes a bandwidth, in extended precision where there is one."""
    y = np.arange(x.min() - 14, x.max() + 14, 0.02, dtype=np.longdouble)[:, None]
    q = (y - x) ** 2 / 2
    terms = w / w.sum() * np.exp(-q) / np.sqrt(2 * np.longdouble(np.pi))
    p, t = terms.sum(axis=1), (terms * (0.5 - q)).sum(axis=1) / terms.sum(axis=1)
    return float(1 + 0.02 * (p * (np.hypot(1, t) - 1)).sum())


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(st.tuples(st.floats(0, 30), st.floats(-14, 0)), min_size=1, max_size=6),
    st.sampled_from(["weights", "line", "period"]),
)
def test_mass_of_weights_of_any_ratio(drawn: list[tuple[float, float]], where: str) -> None:
    """Few points of unlike weights are the hardest for the rule: it bends where one takes over."""
    x, logs = np.array(drawn).T
    w = 10**logs
    options = {"weights": {}, "line": {"bounds": [(-60, None)]}, "period": {"periods": [100.0]}}[where]
    mass = cukde.positive_mass(x, 1.0, weights=w, **options)
    assert abs(mass.value - fine_sum(x, w)) < 1e-12
    assert mass.error < 1e-8


@pytest.mark.parametrize(
    ("bounds", "periods"),
    [([(-1.5, None)], None), ([(None, 2.0)], None), ([(-1.5, 2.0)], None), (None, [4.0])],
    ids=["low", "high", "both", "period"],
)
def test_density_of_one_column_integrates_to_one(backend: Backend, bounds: Any, periods: Any) -> None:
    X = backend.asarray(np.array([-1.4, -1.0, 0.3, 0.5, 1.9]))
    y, step = np.linspace(-8, 8, backend.size(16001, 4001), retstep=True)
    if periods:
        y = y[(y >= 0) & (y < 4)]
    p = backend.asnumpy(cukde.positive_kde(X, backend.asarray(y), 0.4, bounds=bounds, periods=periods))
    inside = y[p > 0]
    ends = 0.5 * step * (p[p > 0][0] * (bounds is not None and inside[0] > -7) + p[p > 0][-1] * (inside[-1] < 3))
    assert p.sum() * step - (0 if periods else ends) == pytest.approx(1, abs=2e-6)


def test_with_a_factor_for_each_point(backend: Backend) -> None:
    """t is that of exponents by each point's own bandwidth, and the mass is that of such kernels."""
    rng = np.random.default_rng(8)
    X, Y, factors = rng.standard_normal((50, 2)), rng.standard_normal((30, 2)), rng.uniform(0.5, 2, 50)
    q = 0.5 * (((Y[:, None] - X) / (0.6 * factors[:, None])) ** 2).sum(axis=2)
    terms = np.exp(-q) / (2 * np.pi * (0.6 * factors) ** 2) / 50
    t = 1 - (terms * q).sum(axis=1) / terms.sum(axis=1)
    data, options = backend.asarray(X), {"local_factors": backend.asarray(factors)}
    got = backend.asnumpy(cukde.positive_kde(data, backend.asarray(Y), 0.6, mass=1, log=True, **options))
    np.testing.assert_allclose(got, np.log(terms.sum(axis=1)) + np.arcsinh(t), rtol=0, atol=1e-11)
    axis = np.linspace(-12, 12, 121)
    exact = cukde.positive_mass(data, 0.6, axes=[axis, axis], **options).value
    mass = cukde.positive_mass(data, 0.6, **options)
    assert abs(mass.value - exact) < 4 * mass.error


def test_mass_around_a_period_does_not_depend_on_where_it_begins() -> None:
    X = np.array([0.2, 1.0, 4.0, 359.5])
    inside, across = (cukde.positive_mass(X + shift, 1.0, periods=[360.0]).value for shift in (100.0, 0.0))
    on_line = cukde.positive_mass(np.array([0.2, 1.0, 4.0, -0.5]), 1.0).value
    assert inside == pytest.approx(on_line, abs=1e-10)
    assert across == pytest.approx(on_line, abs=1e-10)


@pytest.mark.parametrize("d", [2, 6])
def test_estimated_mass_is_within_its_error(backend: Backend, d: int) -> None:
    rng = np.random.default_rng(d)
    X = rng.standard_normal((40, d))
    w = rng.exponential(size=40)
    mass = cukde.positive_mass(backend.asarray(X), 0.8, weights=backend.asarray(w), samples=2048)
    many = reference.positive(X, draws(X, 0.8, w, 100_000 if backend.name == "numpy" else 30_000), 0.8, w)
    mean = np.exp(np.arcsinh(many.t)) - many.t
    error = np.hypot(mass.error, mean.std() / np.sqrt(len(mean)))
    assert 0 < mass.error < 0.02
    assert abs(mass.value - mean.mean()) < 4 * error


def draws(X: np.ndarray, h: float, w: np.ndarray, count: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    return X[rng.choice(len(X), count, p=w / w.sum())] + h * rng.standard_normal((count, X.shape[1]))


def test_mass_of_a_grid_is_the_integral(backend: Backend) -> None:
    X = np.random.default_rng(0).standard_normal((20, 2))
    axes = [np.linspace(-9, 9, 91), np.linspace(-9, 9, 91)]
    mass = cukde.positive_mass(backend.asarray(X), 0.6, axes=axes)
    estimate = cukde.positive_mass(backend.asarray(X), 0.6)
    assert mass.error < 1e-5
    assert abs(mass.value - estimate.value) < 4 * estimate.error
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    p = backend.asnumpy(cukde.positive_kde(backend.asarray(X), backend.asarray(points), 0.6, mass=mass))
    assert p.sum() * 0.2**2 == pytest.approx(1, abs=1e-8)


def test_estimates_are_the_same_from_call_to_call() -> None:
    X = np.random.default_rng(0).standard_normal((30, 3))
    assert cukde.positive_mass(X, 0.5) == cukde.positive_mass(X, 0.5, random_state=0)
    assert cukde.positive_mass(X, 0.5) != cukde.positive_mass(X, 0.5, random_state=1)
    given = cukde.positive_kde(X, X, 0.5, mass=cukde.positive_mass(X, 0.5))
    np.testing.assert_array_equal(cukde.positive_kde(X, X, 0.5), given)


def test_factor_has_its_bound_at_a_point_by_itself() -> None:
    for d in (1, 5, 300):
        X = np.zeros((1, d))
        factor = np.exp(cukde.positive_kde(X, X, 1.0, mass=1, log=True) - cukde.kde(X, X, 1.0, log=True))
        assert factor[0] == pytest.approx(correction.largest_factor(d), rel=1e-12)


@pytest.mark.parametrize("mass", [0.5, 0, -1, np.nan, np.inf, "one", True])
def test_refuses_other_masses(mass: Any) -> None:
    with pytest.raises(ValueError, match=r"mass must be a number of at least 1"):
        cukde.positive_kde(np.zeros(3), np.zeros(2), 1.0, mass=mass)


def test_refuses_what_it_cannot_integrate_over() -> None:
    X = np.zeros((3, 2))
    for axes, message in (
        ([[0, 1, 2]], "axes must hold 2 arrays"),
        ([[0, 1, 2], [0, 1]], r"axes\[1\] must hold an odd number"),
        ([[0, 1, 2], [0, 2, 1]], r"axes\[1\] must hold an odd number of coordinates, 3 at least, that rise"),
    ):
        with pytest.raises(ValueError, match=message):
            cukde.positive_mass(X, 1.0, axes=axes)
    with pytest.raises(ValueError, match="samples must be at least 2"):
        cukde.positive_mass(X, 1.0, samples=1)
    with pytest.raises(ValueError, match="got a stack"):
        cukde.positive_kde(np.zeros((2, 3, 2)), np.zeros((4, 2)), 1.0)


def test_weights_that_are_not_checked_may_be_nan() -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    weights = np.where(np.arange(40) == 3, np.nan, 1.0)
    assert np.isnan(cukde.positive_mass(X, 0.3, weights=weights, check_finite=False).value)


@pytest.mark.parametrize("d", [1, 2, 3, 16, 300])
def test_points_of_a_mass_are_normal_steps_whose_mean_excess_alone_is_known(d: int) -> None:
    places, steps = positive_mass.draws(20_000, d, np.random.default_rng(d))
    assert ((places >= 0) & (places < 1)).all()
    np.testing.assert_allclose(steps.mean(axis=0), 0, atol=0.02)
    np.testing.assert_allclose(steps.var(axis=0), 1, atol=0.03)
    t = 0.5 * (d - np.random.default_rng(0).chisquare(d, 400_000))
    excess = np.hypot(1, t) - 1
    assert abs(positive_mass._mean_alone(d) - excess.mean()) < 4 * excess.std() / np.sqrt(len(t))
