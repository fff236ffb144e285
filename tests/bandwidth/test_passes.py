"""Passes of cross-validation against float64 sums written from their formulas, and against differences of each other.

Test bodies run on every backend: the CPU, the CUDA kernels emulated on the host, and a GPU where there is one.
"""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests import reference
from tests.conftest import Backend
from tests.tolerances import DENSITY, check, leave_one_out_error, pair_error

DTYPES = ("float32", "float64")

COEFFICIENTS = np.array(
    [[1.5, -0.7, 0.06, -1.0, 0.3], [1, 0, 0, 0, 0], [0, 0, 0, -2, 0], [0, 1e-9, 0, 0, 1e9], [0] * 5]
)


class Case(NamedTuple):
    """Data of a test."""

    d: int
    n: int
    weights: str
    layout: str

    def __str__(self) -> str:
        return f"d{self.d}-n{self.n}-{self.weights}-{self.layout}"


CASES = (
    Case(1, 2, "equal", "plain"),
    Case(3, 3, "skewed", "plain"),
    Case(1, 150, "equal", "duplicates"),
    Case(3, 129, "skewed", "duplicates"),
    Case(4, 150, "equal", "isolated"),
    Case(4, 65, "skewed", "isolated"),
    Case(3, 100, "equal", "offset"),
    Case(17, 130, "skewed", "offset"),
    Case(64, 70, "equal", "plain"),
)


class Sample:
    """Rows of a dtype, a bandwidth that reaches some of them, and weights."""

    def __init__(self, case: Case, dtype: str) -> None:
        rng = np.random.default_rng([case.d, case.n])
        X = rng.standard_normal((case.n, case.d))
        self.h = 0.5 * np.sqrt(case.d)
        if case.layout == "duplicates":
            X[1::2] = X[:-1:2][: len(X[1::2])]
        elif case.layout == "offset":
            X += 1e4
        elif case.layout == "isolated":
            X[5, 0] = 50 * self.h
            X[-1, 1] = -1e3 * self.h
        self.X = X.astype(dtype)
        self.exact = self.X.astype(np.float64)
        self.weights = None
        if case.weights == "skewed":
            w = 10.0 ** rng.uniform(-6, 3, case.n)
            w[:2] = 1e-6, 1e3
            self.weights = w / w.sum()
        self.scale = self.scale_of(self.h)

    def scale_of(self, h: float) -> float:
        """What squared distances are multiplied by."""
        return float(1 / (2 * h * h))

    def scales(self, count: int) -> np.ndarray:
        """Of bandwidths up to twice as large, or half."""
        return np.array([self.scale_of(self.h * f) for f in np.geomspace(0.5, 2, count)]) if count > 1 else self.one()

    def one(self) -> np.ndarray:
        """The scale of the one bandwidth."""
        return np.array([self.scale])


@pytest.fixture(params=CASES, ids=str)
def of(request: pytest.FixtureRequest) -> Case:
    return request.param  # type: ignore[no-any-return]


def passes(backend: Backend) -> Any:
    """The module of the backend."""
    return importlib.import_module(f"cukde.bandwidth.{backend.device}.passes")


def on(backend: Backend, *arrays: Any) -> list[Any]:
    """Arrays of the backend."""
    return [backend.asarray(a) for a in arrays]


@pytest.mark.parametrize("dtype", DTYPES)
def test_leave_one_out(backend: Backend, of: Case, dtype: str) -> None:
    s = Sample(of, dtype)
    scales = s.scales(1 if of.n == 100 else 5)
    got = backend.asnumpy(passes(backend).leave_one_out(*on(backend, s.X), scales, *on(backend, s.weights)))
    assert got.shape == (len(scales), of.n)
    assert got.dtype == np.float64
    for row, scale in zip(got, scales, strict=True):
        want = reference.leave_one_out(s.exact, scale, s.weights)
        check(np.abs(row - want.log), leave_one_out_error(backend.device, dtype, want), "log density")


@pytest.mark.parametrize("dtype", DTYPES)
def test_debiased_leave_one_out(backend: Backend, of: Case, dtype: str) -> None:
    """Against taking each row away in turn."""
    s = Sample(of, dtype)
    check_debiased(backend, s.X, s.scale, s.weights)


def check_debiased(backend: Backend, X: np.ndarray, scale: float, w: np.ndarray | None, of_totals: float = 1.0) -> None:
    """Check a pass that is given totals times a factor, which steps are multiplied by."""
    exact = X.astype(np.float64)
    m, totals = reference.mean_shift(exact, scale, w)
    got = passes(backend).debiased_leave_one_out(*on(backend, X, m, of_totals * totals), scale, *on(backend, w))
    got = backend.asnumpy(got)
    assert got.shape == totals.shape
    assert got.dtype == np.float64
    want = reference.debiased_leave_one_out(exact, scale, w)
    allowed = leave_one_out_error(backend.device, str(X.dtype), want) + 2 * (1 - of_totals) * want.exponent
    check(np.abs(got - want.log), allowed, "log density")


def groups(of_rows: int, dtype: str) -> np.ndarray:
    """Rows near those of their group, and groups far apart."""
    rows = np.random.default_rng(0).uniform(0, 3, (40, of_rows, 2)) + 40.0 * np.arange(40)[:, None, None]
    return rows.reshape(-1, 2).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_shares_of_any_size(backend: Backend, dtype: str) -> None:
    """Of a row in the sums at its neighbours, next to it or not: where nearly 1, little is left without the row."""
    w = 10.0 ** np.random.default_rng(1).uniform(-4, 4, 120)
    for order in (np.arange(120), np.random.default_rng(2).permutation(120)):
        check_debiased(backend, groups(3, dtype)[order], 0.5, w / w.sum())


@pytest.mark.parametrize("dtype", DTYPES)
def test_totals_that_are_not_exact(backend: Backend, dtype: str) -> None:
    """What is left without a row is its neighbour's weight, even where the total is less than the row's own term."""
    w = np.where(np.arange(80) % 2, 1.0, 1e-8)
    check_debiased(backend, groups(2, dtype), 0.5, w / w.sum(), of_totals=1 - 1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_shares_of_rows_of_hardly_any_weight(backend: Backend, dtype: str) -> None:
    """Less than the smallest float32 number: they are all that there is near each other."""
    w = np.where(np.arange(120) < 60, 1.0, 1e-60 * np.random.default_rng(3).uniform(1, 2, 120))
    check_debiased(backend, groups(3, dtype), 0.5, w / w.sum())


@pytest.mark.parametrize("weights", ["equal", "skewed"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_in_order(backend: Backend, dtype: str, weights: str) -> None:
    """Each next one nearer to the last ones, by far in bandwidths; more of them than are taken at a time."""
    s = Sample(Case(1, 330, weights, "plain"), dtype)
    X, scale = np.sort(s.X, axis=0), s.scale_of(0.1)
    check_debiased(backend, X, scale, s.weights)
    got = backend.asnumpy(passes(backend).leave_one_out(*on(backend, X), np.array([scale]), *on(backend, s.weights)))
    want = reference.leave_one_out(X.astype(np.float64), scale, s.weights)
    check(np.abs(got[0] - want.log), leave_one_out_error(backend.device, dtype, want), "log density")


@pytest.mark.parametrize("dtype", DTYPES)
def test_least_squares(backend: Backend, of: Case, dtype: str) -> None:
    s = Sample(of, dtype)
    count = 1 if of.n == 100 else 5
    scales, coefficients = s.scales(count), COEFFICIENTS[:count]
    got = passes(backend).least_squares(*on(backend, s.X), scales, coefficients, *on(backend, s.weights))
    assert isinstance(got, np.ndarray)
    assert got.shape == (count,)
    assert got.dtype == np.float64
    want = [reference.least_squares(s.exact, *one, s.weights) for one in zip(scales, coefficients, strict=True)]
    allowed = relative(backend, dtype) * np.array([sums.size for sums in want])
    check(np.abs(got - [sums.value for sums in want]), allowed, "sum over pairs")


def relative(backend: Backend, dtype: str) -> float:
    """Allowed error of a sum over pairs relative to that of absolute terms."""
    return DENSITY[backend.device, "ieee" if dtype == "float32" else dtype].value


@pytest.mark.parametrize("dtype", DTYPES)
def test_least_squares_gradient(backend: Backend, of: Case, dtype: str) -> None:
    s = Sample(of, dtype)
    arguments = s.scale, COEFFICIENTS[0]
    got = passes(backend).least_squares_gradient(*on(backend, s.X), *arguments, *on(backend, s.weights))
    assert isinstance(got, np.ndarray)
    assert got.shape == (of.d,)
    assert got.dtype == np.float64
    want = reference.least_squares(s.exact, *arguments, s.weights)
    check(np.abs(got - want.by_dimension), relative(backend, dtype) * want.size_by_dimension, "gradient")


@pytest.mark.parametrize("dtype", DTYPES)
def test_likelihood_gradient(backend: Backend, of: Case, dtype: str) -> None:
    s = Sample(of, dtype)
    logs = reference.leave_one_out(s.exact, s.scale, s.weights).log
    got = passes(backend).likelihood_gradient(*on(backend, s.X), s.scale, *on(backend, logs, s.weights))
    assert isinstance(got, np.ndarray)
    assert got.shape == (of.d,)
    assert got.dtype == np.float64
    want, allowed = reference.likelihood_gradient(
        s.exact, s.scale, logs, s.weights, lambda q: pair_error(backend.device, dtype, q)
    )
    check(np.abs(got - want), allowed, "gradient")


STEP = 1e-4  # of the logarithm of a column's scale

DIFFERENCES = 1e-7
"""A third of a third derivative times the square of the step, of criteria about 1 times 2 to 3 of a derivative."""


def stretched(X: np.ndarray, k: int, step: float) -> np.ndarray:
    """Column k is longer by a factor."""
    X = X.copy()
    X[:, k] *= np.exp(step)
    return X


@pytest.mark.parametrize("weights", ["equal", "skewed"])
def test_gradient_is_the_slope_of_the_likelihood(backend: Backend, weights: str) -> None:
    s = Sample(Case(3, 70, weights, "plain"), "float64")
    w = np.full(70, 1 / 70) if s.weights is None else s.weights
    take = passes(backend)
    given = backend.asarray(s.weights)

    def logs(X: np.ndarray) -> Any:
        return take.leave_one_out(backend.asarray(X), s.one(), given)[0]

    got = take.likelihood_gradient(backend.asarray(s.X), s.scale, logs(s.X), given)
    for k in range(3):
        above, below = (w @ backend.asnumpy(logs(stretched(s.X, k, step))) for step in (STEP, -STEP))
        assert -2 * s.scale * got[k] == pytest.approx((above - below) / (2 * STEP), rel=DIFFERENCES)


@pytest.mark.parametrize("weights", ["equal", "skewed"])
def test_gradient_is_the_slope_of_least_squares(backend: Backend, weights: str) -> None:
    s = Sample(Case(3, 70, weights, "plain"), "float64")
    p0, p1, p2, r0, r1 = COEFFICIENTS[0]
    slope = np.array([p1 - p0 / 2, 2 * p2 - p1 / 2, -p2 / 2, r1 - r0, -r1])  # by q
    take, given = passes(backend), backend.asarray(s.weights)
    got = take.least_squares_gradient(backend.asarray(s.X), s.scale, slope, given)
    size = reference.least_squares(s.exact, s.scale, slope, s.weights).size_by_dimension
    for k in range(3):
        above, below = (
            take.least_squares(backend.asarray(stretched(s.X, k, step)), s.one(), COEFFICIENTS[:1], given)[0]
            for step in (STEP, -STEP)
        )
        error = np.abs(2 * s.scale * got[k] - (above - below) / (2 * STEP))
        check(error, DIFFERENCES * 2 * s.scale * size[k], "gradient")


@pytest.mark.parametrize("dtype", DTYPES)
def test_bandwidths_of_any_size(backend: Backend, dtype: str) -> None:
    """In one call, and such that squares of distances alone leave the range of the dtype."""
    s = Sample(Case(3, 70, "skewed", "plain"), dtype)
    take, given = passes(backend), backend.asarray(s.weights)
    for unit in (2.0**-80, 2.0**80):
        X = (s.X * unit).astype(dtype)
        scales = s.scale / unit**2 * np.array([1e-16, 1, 4, 1e16])
        coefficients = COEFFICIENTS[[0, 0, 0, 0]]
        got = take.least_squares(backend.asarray(X), scales, coefficients, given)
        want = [
            reference.least_squares(X.astype(np.float64), *one, s.weights)
            for one in zip(scales, coefficients, strict=True)
        ]
        allowed = relative(backend, dtype) * np.array([sums.size for sums in want])
        check(np.abs(got - [sums.value for sums in want]), allowed, "sum over pairs")
        logs = backend.asnumpy(take.leave_one_out(backend.asarray(X), scales[1:3], given))
        for row, scale in zip(logs, scales[1:3], strict=True):
            log = reference.leave_one_out(X.astype(np.float64), scale, s.weights)
            check(np.abs(row - log.log), leave_one_out_error(backend.device, dtype, log), "log density")


@pytest.mark.parametrize("dtype", DTYPES)
def test_far_pairs_do_not_spoil_sums(backend: Backend, dtype: str) -> None:
    """Polynomials that overflow times exponentials that are zero."""
    X = np.array([[0.0], [1.0], [1e15], [-1e18]], dtype)
    take = passes(backend)
    scales = np.array([0.5, 5.0])
    got = take.least_squares(backend.asarray(X), scales, COEFFICIENTS[[0, 0]], None)
    want = [reference.least_squares(X[:2].astype(np.float64), scale, COEFFICIENTS[0]) for scale in scales]
    # Of four rows in place of two: weights of a quarter, of which each leaves three.
    q = scales
    p0, p1, p2, r0, r1 = COEFFICIENTS[0]
    near = np.exp(-q / 2) * (p0 + p1 * q + p2 * q * q) + 8 / 3 * np.exp(-q) * (r0 + r1 * q)
    check(np.abs(got - near / 16), relative(backend, dtype) * np.array([one.size for one in want]), "sum over pairs")
    assert np.isfinite(take.least_squares_gradient(backend.asarray(X), 0.5, COEFFICIENTS[0], None)).all()
    logs = take.leave_one_out(backend.asarray(X), scales, None)
    assert np.isfinite(backend.asnumpy(logs)).all()
    assert np.isfinite(take.likelihood_gradient(backend.asarray(X), 0.5, logs[0], None)).all()


@pytest.mark.long
@pytest.mark.parametrize("dtype", DTYPES)
def test_many_rows(backend: Backend, dtype: str) -> None:
    """Data in splits, more tiles of pairs than blocks; and the same bits on every run."""
    s = Sample(Case(2, backend.size(3000, 700), "skewed", "plain"), dtype)
    take = passes(backend)
    X, weights = on(backend, s.X, s.weights)
    scales = s.one()
    runs = [take.least_squares(X, scales, COEFFICIENTS[:1], weights) for _ in range(2)]
    np.testing.assert_array_equal(*runs)
    want = reference.least_squares(s.exact, s.scale, COEFFICIENTS[0], s.weights)
    check(np.abs(runs[0] - want.value), relative(backend, dtype) * np.full(1, want.size), "sum over pairs")
    got = backend.asnumpy(take.leave_one_out(X, scales, weights))[0]
    log = reference.leave_one_out(s.exact, s.scale, s.weights)
    check(np.abs(got - log.log), leave_one_out_error(backend.device, dtype, log), "log density")


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_row_by_itself(device: Backend, of: Case, dtype: str) -> None:
    """By log-sum-exp, which rows near others do not need."""
    s = Sample(of, dtype)
    logs, unsettled = np.zeros((1, of.n)), np.ones((1, of.n), bool)
    got = passes(device).settle(*on(device, s.X), s.one(), *on(device, s.weights, logs, unsettled))
    want = reference.leave_one_out(s.exact, s.scale, s.weights)
    check(np.abs(device.asnumpy(got)[0] - want.log), leave_one_out_error("gpu", dtype, want), "log density")


@pytest.mark.parametrize("dtype", DTYPES)
def test_each_row_has_a_scale_of_its_own(device: Backend, dtype: str) -> None:
    """In order, each next row nearer to the last ones, and scales over the range of the dtype."""
    s = Sample(Case(2, 330, "skewed", "plain"), dtype)
    X = s.X[np.argsort(s.X[:, 0])]
    scales = s.scale * np.array([1e-12, 100, 1e12, 1])
    logs, unsettled = np.zeros((4, 330)), np.random.default_rng(0).uniform(size=(4, 330)) < [[0.1], [0.9], [0.2], [1]]
    got = device.asnumpy(passes(device).settle(*on(device, X), scales, *on(device, s.weights, logs, unsettled)))
    assert (got[~unsettled] == 0).all()
    for row, scale, taken in zip(got, scales, unsettled, strict=True):
        want = reference.leave_one_out(X.astype(np.float64), scale, s.weights)
        check(np.abs(row - want.log)[taken], leave_one_out_error("gpu", dtype, want)[taken], "log density")


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_without_a_distance(device: Backend, dtype: str) -> None:
    """Squares of distances that overflow beside others: logarithms are finite, and those of the others right."""
    s = Sample(Case(2, 70, "skewed", "plain"), dtype)
    X = s.X.copy()
    X[3], X[60] = np.array([[-0.5], [0.5]], dtype) * np.finfo(dtype).max
    logs, unsettled = np.zeros((1, 70)), np.ones((1, 70), bool)
    got = device.asnumpy(passes(device).settle(*on(device, X), s.one(), *on(device, s.weights, logs, unsettled)))[0]
    assert np.isfinite(got).all()
    near = np.delete(np.arange(70), [3, 60])
    left = s.weights[near].sum()
    want = reference.leave_one_out(s.exact[near], s.scale, s.weights[near] / left)
    check(np.abs(got[near] - np.log(left) - want.log), leave_one_out_error("gpu", dtype, want), "log density")


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_that_a_pass_left_unsettled(device: Backend, dtype: str) -> None:
    """They alone are written, whichever they are, and where there are none nothing is launched."""
    s = Sample(Case(3, 600, "skewed", "plain"), dtype)
    scales = s.scales(3)
    unsettled = np.zeros((3, 600), bool)
    unsettled[0, [0, 63, 64, 599]] = unsettled[2, 7] = True
    before = np.full((3, 600), 7.0)
    logs = passes(device).settle(*on(device, s.X), scales, *on(device, s.weights, before, unsettled))
    logs = device.asnumpy(logs)
    assert (logs[~unsettled] == 7).all()
    for b in (0, 2):
        want = reference.leave_one_out(s.exact, scales[b], s.weights)
        error = np.abs(logs[b] - want.log)[unsettled[b]]
        check(error, leave_one_out_error("gpu", dtype, want)[unsettled[b]], "log density")
