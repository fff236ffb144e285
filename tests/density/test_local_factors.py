"""Densities with a factor of the bandwidth for each point, and Abramson's rule for them, against float64 oracles.

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
from cukde.density.sums import PartialSums, merge
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
    **options: Any,
) -> np.ndarray:
    """Check a density and its logarithm; return the latter."""
    given = map(backend.asarray, (X, Y, h))
    arrays = {"local_factors": backend.asarray(factors), "weights": backend.asarray(w)}
    call = dict(zip("XYh", given, strict=True)) | arrays | {"precision": precision} | options
    p, log_p = (backend.asnumpy(cukde.kde(**call, log=log)) for log in (False, True))
    assert p.dtype == log_p.dtype == np.result_type(X, Y)
    want, exponent = reference.log_local_kde(X, Y, h, factors, w)
    taken = "float64" if (precision or str(p.dtype)) == "float64" else "ieee"
    allowed = tolerances.log_error(backend.device, taken, exponent)
    tolerances.check_log(log_p, want, allowed)
    tolerances.check_density(p, want, allowed)
    return log_p


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("d", [1, 2, 5, 17])
def test_density_matches_reference(backend: Backend, d: int, dtype: str, weighted: bool) -> None:
    n, m = backend.size(1500, 150), backend.size(300, 70)
    X, Y, factors = sample(d, n, m, dtype)
    verify(backend, X, Y, 0.4 * math.sqrt(d), factors, skewed(n) if weighted else None)


@pytest.mark.parametrize("precision", ["float32", "tf32", "ieee", "float64"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form", ["scalar", "deviations", "covariance"])
def test_bandwidths_and_precisions_of_every_form(backend: Backend, form: str, dtype: str, precision: str) -> None:
    X, Y, factors = sample(3, backend.size(700, 140), 66, dtype, offset=1e3)
    h = {"scalar": 0.6, "deviations": np.diag(COVARIANCE), "covariance": COVARIANCE @ COVARIANCE.T}[form]
    verify(backend, X, Y, np.asarray(h), factors, precision=precision)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("d", [1, 3])
def test_factors_over_six_decades(backend: Backend, d: int, dtype: str) -> None:
    """At the data themselves, where narrow points and wide ones share the density."""
    n = backend.size(900, 150)
    X, _, _ = sample(d, n, 1, dtype)
    factors = 10.0 ** np.random.default_rng(d).uniform(-3, 3, n)
    verify(backend, X, X, 0.5, factors, skewed(n))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logarithm_is_finite_anywhere(backend: Backend, dtype: str) -> None:
    n = backend.size(2300, 333)
    X, Y, factors = sample(3, n, 9, dtype)
    Y *= np.array(10.0 ** np.arange(9)[:, None], dtype)
    log_p = verify(backend, X, Y, 0.5, factors, skewed(n))
    assert log_p.min() < -1e14


@pytest.mark.parametrize("h", [1e-20, 1e-11, 1e-5, 1e11, 1e20])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bandwidths_of_any_size(backend: Backend, dtype: str, h: float) -> None:
    """Beside factors at the ends of their range; nothing leaves the range of the arithmetic."""
    X, Y, factors = sample(1, 80, 20, dtype)
    X, Y = (a * np.dtype(dtype).type(h) for a in (X, Y))
    factors[:3] = 1e-8, 1e16, 1e-7
    verify(backend, X, np.concatenate((Y, X[:3])), h, factors)


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


def test_a_factor_of_all_points_is_one_of_the_bandwidth(backend: Backend) -> None:
    X, Y, _ = sample(2, 150, 60, "float64")
    arrays = [backend.asarray(a) for a in (X, Y)]
    got = cukde.kde(*arrays, 0.5, local_factors=backend.asarray(np.full(150, 3, np.int8)))
    np.testing.assert_allclose(backend.asnumpy(got), reference.kde(X, Y, 1.5), rtol=1e-12)


def test_splits_layouts_and_empty_queries(backend: Backend) -> None:
    """Few queries, for which the data are cut; data and factors that are not contiguous."""
    n = backend.size(20_000, 1500)
    X, Y, factors = sample(2, n, 3, "float32")
    expected = verify(backend, X, Y, 0.3, factors, skewed(n))
    strided = verify(
        backend, np.asfortranarray(X), np.repeat(Y, 2, axis=0)[::2], 0.3, np.repeat(factors, 2)[::2], skewed(n)
    )
    np.testing.assert_array_equal(strided, expected)
    assert verify(backend, X, Y[:0], 0.3, factors).shape == (0,)
    verify(backend, X.astype("f8"), Y, 0.3, factors, check_finite=False)
    runs = [verify(backend, X, Y, 0.3, factors, deterministic=True) for _ in range(2)]
    np.testing.assert_array_equal(*runs)


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_sums_of_blocks_merge(backend: Backend, precision: str) -> None:
    X, Y, factors = sample(3, 200, 50, precision)
    X[100:] += 20  # a block may be far from a query
    log_weights = -3 * np.log(factors)
    passes = backends.pairs(dispatch.backend(backend.asarray(X)))

    def sums(rows: slice) -> PartialSums:
        x, log_w, f = (backend.asarray(a[rows]) for a in (X, log_weights, factors))
        found: PartialSums = passes.partial_sums(
            x, backend.asarray(Y), 0.7, "sum", Options(precision, log_weights=log_w, local_factors=f)
        )
        return found

    merged = merge([sums(slice(0, 100)), sums(slice(100, None))], backend.xp)
    got = backend.asnumpy(merged.reference + backend.xp.log(merged.total))
    want, exponent = reference.log_local_kde(X, Y, 0.7, factors)
    allowed = tolerances.log_error(backend.device, "ieee" if precision == "float32" else precision, exponent)
    tolerances.check_log(got + reference.log_constant(0.7, 3) - math.log(200), want, allowed)


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


def test_factors_that_are_no_numbers() -> None:
    with pytest.raises(TypeError, match="local_factors must hold real numbers"):
        cukde.kde([[0.0]], [[0.0]], 1.0, local_factors=["a"])


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
