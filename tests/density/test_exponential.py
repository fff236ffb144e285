"""The exponential kernel on the CPU where pairs are left out: against float64, and what is left out."""

from __future__ import annotations

import math
from unittest import mock

import numpy as np
import pytest

from cukde.density.kernel_density import kernel_density
from cukde.density.pairs.cpu import radial
from cukde.density.pairs.cpu.skipping import exponential, exponential_choice
from cukde.density.sums import PartialSums
from tests import reference
from tests.tolerances import FAR, KERNEL_DENSITY, check

ROUNDING = {np.dtype(name): (KERNEL_DENSITY[name].value, FAR[name].value) for name in ("float32", "float64")}


def of_formula(
    X: np.ndarray, Y: np.ndarray, h: float, log_weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of the sums, (m,) float64, and the exponents of the largest terms."""
    X, Y = X.astype(np.float64), Y.astype(np.float64)
    logs, largest = np.empty(len(Y)), np.empty(len(Y))
    for i, y in enumerate(Y):
        terms = -np.sqrt(((X - y) ** 2).sum(axis=1)) / h
        terms += 0.0 if log_weights is None else log_weights
        largest[i] = terms.max()
        logs[i] = largest[i] + math.log(math.fsum(np.exp(terms - largest[i])))
    return logs, np.abs(largest)


def verify(
    X: np.ndarray, Y: np.ndarray, h: float, log_weights: np.ndarray | None = None, *, rtol: float, atol: float = 0.0
) -> tuple[exponential.Posed, PartialSums]:
    """Take the pass, and check its sums: nothing is added, and what is left out is allowed, beside rounding."""
    posed = exponential.pose(X, Y, h, log_weights, rtol=rtol, atol=atol)
    sums = exponential.run(posed)
    want, largest = of_formula(X, Y, h, log_weights)
    near, far = ROUNDING[X.dtype]
    rounding = np.maximum(near, far * largest)
    excess = sums.reference + np.log(sums.total) - want
    check(excess, rounding, "excess")
    with np.errstate(over="ignore"):  # of an absolute tolerance beside a sum that underflows
        check(-np.expm1(excess), rounding + rtol + (atol * np.exp(-want) if atol else 0.0), "left out")
    return posed, sums


def share(posed: exponential.Posed) -> float:
    """Share of all pairs that are summed."""
    m = len(posed.queries)
    return exponential.tried(posed, np.arange(m)).summed / (m * posed.data.n)


def clusters(d: int, n: int = 3000, m: int = 200, dtype: str = "float64") -> tuple[np.ndarray, np.ndarray]:
    """Clusters some tens of bandwidths of 0.1 apart, with duplicates and an outlier; the last queries are far off."""
    rng = np.random.default_rng([d, n])
    centres = 4 * rng.standard_normal((7, d))
    X = centres[rng.integers(7, size=n)] + 0.3 * rng.standard_normal((n, d))
    X[: n // 8] = X[0]
    X[-1] += 1e3
    Y = X[rng.integers(n, size=m)] + 0.1 * rng.standard_normal((m, d))
    Y[-4:] += 10.0 ** np.arange(1, 5)[:, None]
    Y[: m // 8] = X[: m // 8]
    return X.astype(dtype), Y.astype(dtype)


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rtol", [1e-13, 1e-5, 1e-2])
@pytest.mark.parametrize("d", [1, 2, 3, 5, 17])
def test_sums_match_the_formula(d: int, rtol: float, dtype: str, weighted: bool) -> None:
    X, Y = clusters(d, dtype=dtype)
    log_weights = np.random.default_rng(d).uniform(-30, 5, len(X)) if weighted else None
    posed, _ = verify(X, Y, 0.1, log_weights, rtol=rtol)
    assert weighted or d == 17 or share(posed) < 0.7


@pytest.mark.parametrize("n", [1, 63, 64, 65, 1024, 1025])
@pytest.mark.parametrize("m", [1, 17, 129])
def test_sizes_off_the_blocks(n: int, m: int) -> None:
    rng = np.random.default_rng([n, m])
    verify(rng.standard_normal((n, 2)), rng.standard_normal((m, 2)), 0.05, rtol=1e-6)


@pytest.mark.parametrize("atol", [1e-300, 1e-6, 1e-2, 1.0, 100.0, 1e300])
@pytest.mark.parametrize("rtol", [0.0, 1e-13, 1e-3])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_absolute_tolerances(d: int, rtol: float, atol: float) -> None:
    X, Y = clusters(d)
    for log_weights in (None, np.random.default_rng(d).uniform(-12, -3, len(X))):
        verify(X, Y, 0.1, log_weights, rtol=rtol, atol=atol)


def test_an_absolute_tolerance_leaves_out_more() -> None:
    X, Y = clusters(2)
    shares = [share(verify(X, Y, 0.1, rtol=1e-13, atol=atol)[0]) for atol in (0.0, 1e-6, 1e-2, 1.0, 1e300)]
    assert (np.diff(shares) < 0).all()
    assert shares[-1] < 0.2  # the nearest block of 64, and those within two bandwidths
    for log_weight in (-6.0, 300.0):  # the same, where all weights are small or large
        log_weights = np.full(len(X), log_weight)
        posed, _ = verify(X, Y, 0.1, log_weights, rtol=1e-13, atol=1e-2 * math.exp(log_weight))
        assert share(posed) == shares[2]


@pytest.mark.parametrize("rtol", [1e-8, 1e-3, 1e-1])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_shells_of_any_radius(d: int, rtol: float) -> None:
    """Most of the data lie at one distance, where leaving out is just allowed, or just not."""
    rng = np.random.default_rng(d)
    directions = rng.standard_normal((6000, d))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    limit, shares, worst = math.log(6000 / 64 / rtol), [], 0.0
    for radius in limit + np.arange(-3, 3.5, 0.25):
        X = np.concatenate((np.zeros((64, d)), radius * directions))
        Y = 1e-9 * directions[:40]
        posed, sums = verify(X, Y, 1.0, rtol=rtol)
        shares.append(share(posed))
        worst = max(worst, float(-np.expm1(sums.reference + np.log(sums.total) - of_formula(X, Y, 1.0)[0]).min()))
    assert shares[0] > 0.99
    assert shares[-1] < 0.2
    assert worst > 1e-2 * rtol


@pytest.mark.parametrize("n_far", [1, 64, 10_000])
def test_many_steps_of_distance(n_far: int) -> None:
    """Each step away lies e times as much mass per point's term, so that no bin is small beside all others."""
    steps = np.arange(1, 40)
    counts = np.minimum(n_far * np.exp(0.7 * steps), 2000).astype(int)
    X = np.concatenate((np.zeros(64), np.repeat(steps.astype(float), counts)))[:, None]
    for rtol in (1e-10, 1e-4, 1e-2):
        verify(X, np.linspace(-1, 1, 30)[:, None], 1.0, rtol=rtol)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("distance", [1e2, 1e5, 1e9])
def test_queries_far_from_all(distance: float, dtype: str) -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((2000, 2)).astype(dtype)
    Y = (distance * rng.standard_normal((50, 2))).astype(dtype)
    verify(X, Y, 0.05, rtol=1e-4)
    verify(X, Y, 0.05, np.log(rng.uniform(size=2000)), rtol=1e-4, atol=1e-3)


class TestChoice:
    """Who takes all pairs."""

    def taken(self, X: np.ndarray, Y: np.ndarray, h: float, rtol: float = 1e-5) -> bool:
        return exponential_choice.posed(X, Y, h, None, rtol=rtol, atol=0.0) is not None

    def test_narrow_bandwidths_leave_out(self) -> None:
        rng = np.random.default_rng(0)
        for d in (1, 2, 3):
            X, Y = rng.standard_normal((9000, d)), rng.standard_normal((3000, d))
            for dtype in ("float32", "float64"):
                assert self.taken(X.astype(dtype), Y.astype(dtype), 0.005)
                assert not self.taken(X.astype("f4"), Y.astype("f4"), 3.0)

    def test_many_dimensions_by_what_queries_take(self) -> None:
        rng = np.random.default_rng(0)
        X = (20 * rng.standard_normal((8, 8)))[rng.integers(8, size=9000)] + 0.1 * rng.standard_normal((9000, 8))
        assert self.taken(X, X + 0.01, 0.05)
        assert not self.taken(rng.standard_normal((9000, 8)), rng.standard_normal((5000, 8)), 0.5)

    def test_small_calls_and_no_tolerance(self) -> None:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((9000, 2))
        assert not self.taken(X, X[:100], 0.005)
        assert not self.taken(X[:300], X[:300], 0.005)
        assert not self.taken(X, X, 0.005, rtol=0.0)

    @pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
    def test_points_out_of_range(self, value: float) -> None:
        X = np.random.default_rng(0).standard_normal((9000, 2)).astype(np.float32)
        X[5] = value
        assert not self.taken(X, X[:1000], 0.005)
        assert not self.taken(X[6:], X[:1000], 0.005)
        assert not self.taken(X[6:], X[6:1006], 1e-35)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rtol_of_the_function(dtype: str) -> None:
    X, Y = clusters(2, 20_000, 500, dtype)
    w = np.random.default_rng(1).uniform(0, 1, len(X))
    w[::7] = 0
    p, _ = reference.kernel_density(X, Y, 0.1, "exponential", w)
    default = {"float32": 1e-5, "float64": 1e-13}[dtype]
    for rtol in (None, 0, 1e-8, 1e-2):
        with mock.patch.object(exponential, "run", wraps=exponential.run) as left_out:
            got = kernel_density(X, Y, 0.1, kernel="exponential", weights=w, rtol=rtol)
        assert left_out.called == (rtol != 0)
        with mock.patch.object(radial.exponential_choice, "posed", return_value=None):
            dense = kernel_density(X, Y, 0.1, kernel="exponential", weights=w)
        assert (got == dense).all() == (rtol == 0)
        allowed = KERNEL_DENSITY[dtype].value + (default if rtol is None else rtol)
        check(np.abs(got - p)[:-4], allowed * p[:-4], "density")


@pytest.mark.parametrize("rtol", [-1e-3, 0.2, np.nan])
def test_tolerances_out_of_range(rtol: float) -> None:
    with pytest.raises(ValueError, match=r"rtol must be a number from 0 to 0\.1"):
        kernel_density(np.zeros((3, 1)), np.zeros((3, 1)), 1.0, kernel="linear", rtol=rtol)


def test_same_bits_on_every_run() -> None:
    X, Y = clusters(2, 20_000, 500)
    runs = [kernel_density(X, Y, 0.1, kernel="exponential", log=True) for _ in range(2)]
    np.testing.assert_array_equal(*runs)
