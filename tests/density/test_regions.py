"""Levels of highest-density regions: exact small cases, the levels of a normal density, and the mass of the regions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import dask.array as da
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from scipy import special, stats

import cukde
from cukde import perf
from cukde.core.cost.registry import called
from tests import reference, tolerances
from tests.conftest import Backend
from tests.perf.processors import H200

CPU = perf.Peaks("two cores", "cpu", {"memory": 2e10, "fma": 1e11}, 0.0, 2, 3e9, 2**25, (0, 0), "made up")


def level(density: np.ndarray, mass: float, w: np.ndarray | None = None) -> float:
    """The definition: the highest of the densities at which rows as dense hold the mass, by exact fractions."""
    shares = [Fraction(float(each)) for each in (np.ones(len(density)) if w is None else w)]
    least = Fraction(mass).limit_denominator(10**6) * sum(shares)
    held = Fraction(0)
    for t, group in itertools.groupby(sorted(zip(density, shares, strict=True), reverse=True), key=lambda row: row[0]):
        held += sum(share for _, share in group)
        if held >= least:
            return float(t)
    raise AssertionError("all rows together hold everything")


@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    n=st.integers(2, 40),
    leave_one_out=st.booleans(),
    d=st.integers(1, 3),
    dtype=st.sampled_from(["float16", "float32", "float64", "int32"]),
    mass=st.sampled_from([0.05, 0.07, 0.1, 0.25, 0.5, 0.7, 0.9, 0.95, 0.99]),
    method=st.sampled_from(["kde", "sd"]),
    weighted=st.booleans(),
    log=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_it_is_the_quantile_of_the_density_at_the_data(
    either: Backend,
    n: int,
    d: int,
    dtype: str,
    mass: float,
    method: Any,
    weighted: bool,
    log: bool,
    seed: int,
    leave_one_out: bool,
) -> None:
    rng = np.random.default_rng(seed)
    X = (3 * rng.standard_normal((n, d))).astype(dtype)
    w = rng.integers(0, 5, n) * 2.0**1021 if weighted else None  # the sum of all is beyond float64
    if w is not None:
        w[[seed % n, (seed + 1) % n]] = 2.0**1021
    x, weights = either.asarray(X), either.asarray(w)
    estimate = cukde.kde if method == "kde" else cukde.sd_kde
    options: dict[str, Any] = {"weights": weights, "log": log, "leave_one_out": leave_one_out}
    p = either.asnumpy(estimate(x, x, 0.8, **options))
    got = cukde.hdr_threshold(x, 0.8, mass, method=method, **options)
    assert got.shape == ()
    assert got.dtype == p.dtype
    assert float(got) == level(p, mass, None if w is None else w / 2.0**1021)
    data = X if method == "kde" else reference.debias(X, 0.8, weights=w)
    if leave_one_out:
        oracle = np.array([_without(i, data, X, 0.8, w) for i in range(n)])
    else:
        oracle = reference.log_kde(data, X, 0.8, w)
    want = level(oracle, mass, None if w is None else w / 2.0**1021)
    allowed = tolerances.SD_DENSITY["float32"].value if p.dtype == "float32" else 1e-11
    assert (float(got) if log else math.log(float(got))) == pytest.approx(want, rel=1e-6, abs=allowed)


def _without(i: int, data: np.ndarray, X: np.ndarray, h: float, w: np.ndarray | None) -> float:
    """Log density at row i of X, of the data without row i."""
    others = None if w is None else np.delete(w, i)
    return float(reference.log_kde(np.delete(data, i, axis=0), X[i : i + 1], h, others)[0])


def test_kernels_of_every_backend(backend: Backend) -> None:
    X = np.random.default_rng(0).standard_normal((backend.size(900, 120), 3)).astype("f4")
    x = backend.asarray(X)
    masses = np.array([[0.5, 0.9], [0.95, 0.01]])
    got = backend.asnumpy(cukde.hdr_threshold(x, 0.5, backend.asarray(masses), log=True))
    assert (got.dtype, got.shape) == (np.float32, (2, 2))
    log_p = backend.asnumpy(cukde.kde(x, x, 0.5, log=True, leave_one_out=True))
    assert [[level(log_p, mass) for mass in row] for row in masses] == got.tolist()
    weighted = backend.asnumpy(cukde.hdr_threshold(x, 0.5, masses, log=True, weights=backend.asarray(np.ones(len(X)))))
    np.testing.assert_allclose(weighted, got, rtol=1e-5)


@pytest.mark.parametrize(("n", "mass", "rank"), [(100, 0.07, 7), (100, 0.95, 95), (10, 0.3, 3), (3, 1e-12, 1)])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_share_within_rounding_is_reached(n: int, mass: float, rank: int, weighted: bool) -> None:
    """0.07 times 100 is more than 7 in float64, and a sum of shares less than their number."""
    X = np.random.default_rng(n).standard_normal(n)
    w = np.full(n, 0.1) if weighted else None
    p = np.sort(cukde.kde(X, X, 0.3, weights=w, leave_one_out=True))[::-1]
    assert cukde.hdr_threshold(X, 0.3, mass, weights=w) == p[rank - 1]


def test_whole_weights_are_repeated_rows() -> None:
    rng = np.random.default_rng(1)
    X, counts = rng.standard_normal((30, 2)), rng.integers(0, 4, 30)
    masses = [0.2, 0.5, 0.9]
    once, repeated = (
        cukde.hdr_threshold(X, 0.5, masses, weights=counts, leave_one_out=False),
        cukde.hdr_threshold(X.repeat(counts, axis=0), 0.5, masses, leave_one_out=False),
    )
    np.testing.assert_allclose(once, repeated, rtol=1e-12)


@pytest.mark.parametrize("method", ["kde", "sd"])
@pytest.mark.parametrize("d", [1, 2])
def test_levels_of_a_normal_density(d: int, method: Any) -> None:
    """Where |x|^2 is the quantile c of a chi-squared variable, the density is (2 pi)^(-d/2) exp(-c / 2).

    Errors: of a quantile of the log density, -chi^2 / 2 but for a constant, sqrt(mass (1 - mass) / n) over its own
    density there, which is that of chi^2 times 2; and of the estimate, whose variance is 1 + h^2 in the mean (kde):
    less by h^2/2 (d - c), of the estimate's noise sqrt(p (4 pi)^(-d/2) h^-d / n) / p.
    """
    n, mass = (20_000, np.array([0.5, 0.9])) if d == 1 else (3000, np.array([0.5, 0.9]))
    X = np.random.default_rng(d).standard_normal((n, d))
    h = float(cukde.bandwidth.silverman(X)[0])
    c = stats.chi2(d).ppf(mass)
    want = -0.5 * d * math.log(2 * math.pi) - 0.5 * c
    of_quantile = np.sqrt(mass * (1 - mass) / n) / (2 * stats.chi2(d).pdf(c))
    of_noise = np.sqrt((4 * math.pi) ** (-d / 2) * h**-d / n / np.exp(want))
    bias = 0.5 * h * h * (c - d) if method == "kde" else 0
    got = cukde.hdr_threshold(X, h, mass, method=method, log=True)
    np.testing.assert_array_less(np.abs(got - want - bias), 4 * of_quantile + of_noise + h**4)


def test_the_region_holds_what_the_documentation_says() -> None:
    """Under the estimate itself, summed on a fine grid and exactly: less than the mass by h^2/2 times an integral."""
    n, mass = 1000, 0.95
    X = np.sort(stats.norm.ppf((np.arange(n) + 0.5) / n))  # no noise: what is left is the bias
    h = float(cukde.bandwidth.silverman(X)[0])
    t = cukde.hdr_threshold(X, h, mass, leave_one_out=False)
    grid = np.linspace(-6, 6, 4001)
    inside = cukde.kde(X, grid, h) >= t
    brute = cukde.kde(X, grid, h)[inside].sum() * (grid[1] - grid[0])
    low, high = grid[inside][[0, -1]]
    assert (np.diff(inside.astype(int)) != 0).sum() == 2  # one piece
    exact = (special.ndtr((high - X) / h) - special.ndtr((low - X) / h)).mean()
    assert brute == pytest.approx(exact, abs=2e-3)
    curvature = 0.5 * h * h * 2 * high * stats.norm.pdf(high)  # minus the integral of p'' over the region
    assert mass - exact == pytest.approx(curvature + 1 / n, rel=0.1)  # rows at both ends count whole, by half too much
    assert 0.006 < mass - exact < 0.010
    assert (special.ndtr(high) - special.ndtr(low)) == pytest.approx(mass, abs=2 / n)  # of new data


def test_two_pieces_around_two_modes() -> None:
    X = np.concatenate([np.linspace(-1, 1, 50), np.linspace(9, 11, 50)])
    t = cukde.hdr_threshold(X, 0.4, 0.9)
    grid = np.linspace(-4, 14, 901)
    inside = cukde.kde(X, grid, 0.4) >= t
    assert (np.diff(inside.astype(int)) != 0).sum() == 4
    assert not inside[450]


def test_logarithms_where_densities_underflow(backend: Backend) -> None:
    """In 100 dimensions."""
    X = 20 * np.random.default_rng(0).standard_normal((60, 100)).astype("f4")
    x = backend.asarray(X)
    with pytest.raises(ValueError, match=r"would be 0 or infinite: write log=True"):
        cukde.hdr_threshold(x, 5.0, 0.5)
    got = float(cukde.hdr_threshold(x, 5.0, 0.5, log=True))
    want = level(np.array([_without(i, X, X, 5.0, None) for i in range(60)]), 0.5)
    assert got == pytest.approx(want, rel=1e-5)


@pytest.mark.parametrize("method", ["kde", "sd"])
@pytest.mark.parametrize("kind", ["normal", "mixture"])
@pytest.mark.parametrize("d", [1, 2, 5, 8, 16, 32])
def test_of_new_points_the_stated_share_is_outside(d: int, kind: str, method: Any) -> None:
    """Where own kernels count it is 93% in 8 dimensions."""
    rng = np.random.default_rng(d)
    X, new = rng.standard_normal((3000, d)), rng.standard_normal((3000, d))
    if kind == "mixture":
        centres = 3 * rng.standard_normal((4, d))
        X, new = (A + centres[rng.integers(4, size=3000)] for A in (X, new))
    h = cukde.bandwidth.silverman(X) if method == "kde" else cukde.bandwidth.sd(X)
    density = cukde.kde if method == "kde" else cukde.sd_kde
    outside = density(X, new, h, log=True) < cukde.hdr_threshold(X, h, 0.95, method=method, log=True)
    assert 0.03 < outside.mean() < 0.07


@pytest.mark.parametrize("method", ["kde", "sd"])
def test_dask_arrays_have_the_levels_of_plain_ones(method: Any) -> None:
    X = np.random.default_rng(0).normal(size=(120, 2))
    w = np.where(np.arange(120) < 40, 0.0, np.random.default_rng(1).uniform(size=120))
    lazy = da.from_array(X, chunks=((40, 0, 80), (1, 1)))
    for mass in (0.9, [0.5, 0.95], np.array([[0.5], [0.1]])):
        for weights in (None, w, da.from_array(w, chunks=50)):
            plain = None if weights is None else w
            want = cukde.hdr_threshold(X, 0.4, mass, method=method, weights=plain)
            got = cukde.hdr_threshold(lazy, 0.4, mass, method=method, weights=weights)
            assert (got.shape, got.dtype) == (np.shape(mass), np.float64)
            np.testing.assert_allclose(got.compute(scheduler="synchronous"), want, rtol=1e-12)
    got = cukde.hdr_threshold(X, 0.4, weights=da.from_array(w, chunks=50), log=True)
    want = cukde.hdr_threshold(X, 0.4, weights=w, log=True)
    np.testing.assert_allclose(got.compute(scheduler="synchronous"), want, rtol=1e-12)


def test_blocks_on_the_backend_have_a_level_there(backend: Backend) -> None:
    X = np.random.default_rng(0).normal(size=(60, 2)).astype("f4")
    lazy = da.from_array(backend.asarray(X), chunks=(25, 2))
    got = cukde.hdr_threshold(lazy, 0.4, [0.5, 0.9]).compute(scheduler="synchronous")
    np.testing.assert_allclose(backend.asnumpy(got), cukde.hdr_threshold(X, 0.4, [0.5, 0.9]), rtol=1e-4)


@pytest.mark.parametrize(
    ("error", "arguments", "message"),
    [
        (ValueError, {"mass": 0}, "mass must lie between 0 and 1; got 0"),
        (ValueError, {"mass": [0.5, 1.0]}, "mass must lie between 0 and 1; got 1"),
        (ValueError, {"mass": np.nan}, "mass must lie between 0 and 1; got nan"),
        (TypeError, {"mass": "0.5"}, "mass must be a number between 0 and 1, or an array of them; got '0.5'"),
        (TypeError, {"mass": None}, "mass must be a number between 0 and 1"),
        (TypeError, {"mass": True}, "mass must be a number between 0 and 1"),
        (ValueError, {"mass": [[0.5], [0.5, 0.6]]}, "mass must be a number or a rectangular array"),
        (ValueError, {"method": "laplace"}, "method must be one of 'kde', 'sd', 'positive'; got 'laplace'"),
        (TypeError, {"mass": da.ones(2) / 2}, "mass must be a number or a plain array; got a Dask collection"),
    ],
)
def test_arguments_that_are_refused(error: type[Exception], arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(error, match=message):
        cukde.hdr_threshold(**({"X": np.arange(5.0), "h": 1.0} | arguments))


def test_costs_are_a_density_and_a_sort() -> None:
    for on in (H200, CPU):
        plain = perf.cost("kde", on, n=4096, m=4096, d=3, at_data=True)
        for method, weighted in (("kde", False), ("kde", True), ("sd", True)):
            found = perf.cost("hdr_threshold", on, n=4096, d=3, method=method, weighted=weighted)
            assert found.exponentials >= plain.exponentials
            assert any(part.name.startswith("sort") for part in found.parts)
    X = np.empty((100, 3), "f4")
    assert called(cukde.hdr_threshold, (X, 1.0, 0.9), {"method": "sd"})[1] == {
        "n": 100,
        "d": 3,
        "dtype": "float32",
        "precision": None,
        "deterministic": False,
        "check_finite": True,
        "weighted": False,
        "method": "sd",
    }
