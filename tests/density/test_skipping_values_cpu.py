"""Sums of values on the CPU without the pairs that cannot matter, against float64: each column has its tolerance."""

from __future__ import annotations

import numpy as np
import pytest

import cukde
from cukde.core.plan import only, traced
from cukde.density.options import Options
from cukde.density.pairs import frame as pairs_frame
from cukde.density.pairs.cpu import passes as pairs_passes
from cukde.density.pairs.cpu.skipping import choice, passes, values as skipping_values
from tests import tolerances
from tests.density import test_skipping as cases
from tests.density.test_skipping import DEFAULT, DEFEATING, HARD, SIZES, Case


def pose(case: Case, V: np.ndarray, precision: str, tolerance: float | None = None) -> passes.Posed:
    X, log_weights = case.X, cases.log_weights_of(case)
    Y = X if case.Y is None and log_weights is not None else case.Y
    if log_weights is not None:
        counted = log_weights > -1e29
        X, V, log_weights = X[counted], V[counted], log_weights[counted]
    chosen = DEFAULT[precision] if tolerance is None else tolerance
    assert skipping_values.served(V, log_weights, X.itemsize)
    options = Options(precision, log_weights)
    return passes.pose(X, Y, case.h, "values", options, pairs_frame.frame(X), chosen, values=V)


def check(case: Case, V: np.ndarray, precision: str, tolerance: float | None = None) -> passes.Posed:
    """Compare every column with all pairs in double: by rounding and the tolerance, of its own absolute terms."""
    V = V.astype(case.X.dtype)
    of = pose(case, V, precision, tolerance)
    found = passes.run(of)
    assert {a.dtype for a in found} == {np.dtype(np.float64)}
    total = found._replace(moments=None)
    cases.check(total, case, "sum", precision, tolerance, device="cpu")
    cases.check_values(found, case, V, precision, tolerance, device="cpu")
    return of


def clusters(d: int, n: int = 2048, m: int = 128, *, apart: float = 5.0) -> tuple[Case, np.ndarray]:
    """Eight clusters in a row, and the number of that of each point; queries lie at the first two."""
    rng = np.random.default_rng([d, n])
    at = rng.permutation(np.arange(n) % 8)  # rows in a pattern would be sampled unevenly
    X = 0.2 * rng.standard_normal((n, d))
    X[:, 0] += apart * at
    Y = X[at < 2][:m] + 0.05
    return Case(X, Y, 0.5), at


def signs(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.choice([-1.0, 1.0], shape)


@pytest.mark.parametrize("itself", [False, True], ids=["queries", "itself"])
@pytest.mark.parametrize("k", [1, 3, 32])
@pytest.mark.parametrize("d", [2, 3, 5, 6, 17, 40])
@pytest.mark.parametrize("precision", DEFAULT)
def test_sums_match_the_formula(precision: str, d: int, k: int, itself: bool) -> None:
    case = cases.normal(None, 900, None if itself else 200, d).of(precision)
    check(case, np.random.default_rng(k).standard_normal((900, k)), precision)


@pytest.mark.parametrize("precision", DEFAULT)
@pytest.mark.parametrize(("n", "m"), [*SIZES, (1, None), (63, None), (65, None), (129, None), (1100, 65)])
def test_sizes_off_the_blocks(n: int, m: int | None, precision: str) -> None:
    case = cases.normal(None, n, m, 3).of(precision)
    check(case, np.random.default_rng(n).standard_normal((n, 2)), precision)


@pytest.mark.parametrize("d", [2, 6])
@pytest.mark.parametrize("precision", DEFAULT)
@pytest.mark.parametrize("name", HARD)
def test_hard_data(name: str, precision: str, d: int) -> None:
    case = cases.hard(name, 800, 100, d, precision).of(precision)
    rng = np.random.default_rng(d)
    decades = 10 ** rng.uniform(-15, 15, 800)
    check(case, np.stack((decades, signs(rng, (800,)) * decades), axis=1), precision)


@pytest.mark.parametrize(("precision", "tolerance"), cases.TOLERANCES)
@pytest.mark.parametrize("d", [5, 6])
@pytest.mark.parametrize("name", DEFEATING)
def test_what_is_left_out_is_at_most_the_tolerance(name: str, d: int, precision: str, tolerance: float) -> None:
    case = cases.defeating(name, 1024, 96, d, tolerance).of(precision)
    check(case, np.stack((np.ones(1024), np.arange(1024) % 3.0), axis=1), precision, tolerance)


@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.parametrize(("precision", "tolerance"), cases.TOLERANCES)
@pytest.mark.parametrize("d", [2, 6])
@pytest.mark.parametrize("apart", [1.0, 2.5, 5.0])
def test_values_that_grow_away_from_the_queries(
    apart: float, d: int, precision: str, tolerance: float, weighted: bool
) -> None:
    """Thirty decades along the clusters, rising, falling, signed, at random; zero at the queries; zero everywhere."""
    case, at = clusters(d, apart=apart)
    rng, n = np.random.default_rng(d), len(case.X)
    case = case._replace(w=10 ** rng.uniform(-5, 0, n) if weighted else None).of(precision)
    rise = 10 ** (30.0 * at / 7 - 15)
    columns = (
        rise,
        1 / rise,
        signs(rng, (n,)) * rise,
        10 ** rng.uniform(-15, 15, n),
        np.where(at < 2, 0.0, rise),
        np.where(at == 7, -1.0, 0.0),
        np.zeros(n),
        np.where(np.arange(n) == n - 1, 1e15, 0.0),
    )
    check(case, np.stack(columns, axis=1), precision, tolerance)
    for column in columns:
        check(case, column[:, None], precision, tolerance)


@pytest.mark.parametrize("d", [2, 6])
@pytest.mark.parametrize("precision", DEFAULT)
def test_a_column_decides_on_its_pairs(precision: str, d: int) -> None:
    """Pairs of far clusters are left out for values of one size, and taken where only such have values."""
    case, at = clusters(d, apart=4.0)
    case = case.of(precision)
    everything, n = len(case.X) * len(case.queries), len(case.X)
    near = check(case, 1.0 + at[:, None], precision)
    assert passes.tried(near, np.arange(len(near.queries))).summed < 0.7 * everything
    zeros = check(case, np.stack((1.0 + at, np.zeros(n)), axis=1), precision)
    assert passes.tried(zeros, np.arange(len(zeros.queries))) == passes.tried(near, np.arange(len(near.queries)))
    far = check(case, np.where(at == 5, 1.0, 0.0)[:, None], precision)
    assert passes.tried(far, np.arange(len(far.queries))).summed > passes.tried(near, np.arange(128)).summed


class TestChoice:
    """Which pass is taken, and that both agree."""

    def taken(self, V: np.ndarray, **options: object) -> bool:
        case, _ = clusters(2, 20_000, 1_000)
        X, Y = case.X.astype(V.dtype), case.queries.astype(V.dtype)
        of = pairs_passes._located(Options(str(V.dtype), **options), X, Y, case.h)
        return choice.posed(X, Y, case.h, "values", of, single=V.dtype == np.float32, values=V) is not None

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize("k", [1, skipping_values.MOST_COLUMNS])
    def test_few_columns_leave_out_pairs(self, k: int, dtype: str) -> None:
        assert self.taken(np.ones((20_000, k), dtype))

    @pytest.mark.parametrize("k", [0, skipping_values.MOST_COLUMNS + 1])
    def test_many_or_none_do_not(self, k: int) -> None:
        assert not self.taken(np.ones((20_000, k)))

    def test_a_tolerance_of_zero_takes_all(self) -> None:
        assert not self.taken(np.ones((20_000, 1)), rtol=0.0)

    @pytest.mark.parametrize("value", [np.nan, np.inf, 3e38, 1e308, 1e-308])
    def test_values_beyond_the_ranges_take_all(self, value: float) -> None:
        V = np.zeros((20_000, 2), np.float32 if value == 3e38 else np.float64)
        V[7, 1] = value
        assert not self.taken(V)


@pytest.mark.parametrize("rtol", [None, 1e-3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("d", [2, 3])
def test_kernel_sum_is_that_of_all_pairs(d: int, dtype: str, rtol: float | None) -> None:
    case, at = clusters(d, 20_000, 1_000, apart=3.0)
    rng = np.random.default_rng(d)
    V = np.stack((1.0 + at, signs(rng, at.shape), np.where(at == 0, 1.0, 0.0)), axis=1).astype(dtype)
    X, Y = case.X.astype(dtype), case.queries.astype(dtype)
    with only("skipping"), traced() as ran:
        found = cukde.kernel_sum(X, V, Y, case.h, rtol=rtol)
    (share,) = (one.found["share"]() for one in ran if one.name == "skipping")
    assert 0 < share < 0.7
    want, size = (cukde.kernel_sum(X, v, Y, case.h, rtol=0) for v in (V, np.abs(V)))
    # The exponents of pairs beyond the cluster of a query are larger, and so is their rounding.
    allowed = 2 * tolerances.log_error("cpu", dtype, np.full(1, 120.0)) + (rtol or DEFAULT[dtype])
    tolerances.check(np.abs(found.astype(float) - want), allowed * size + 1e-37, "values")
