"""Sums of values without the pairs that cannot matter, against float64: each column has its tolerance; emulated."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cukde
from cukde.core.plan import only, traced
from cukde.density.cost import calls as cost_calls
from cukde.density.options import Options
from cukde.density.plan import gpu as plan_gpu
from cukde.density.plan.shape import Device, Shape
from tests import reference, tolerances
from tests.conftest import Backend
from tests.density import test_skipping as cases
from tests.density.test_skipping import DEFAULT, DEFEATING, SIZES, Case
from tests.density.test_skipping_values_cpu import clusters, signs


@pytest.fixture
def gpu(device: Backend) -> SimpleNamespace:
    """The modules under test, and arrays for them."""
    from cukde.density.pairs.gpu.arguments import Arguments
    from cukde.density.pairs.gpu.skipping import choice, frame, passes, plan, values

    return SimpleNamespace(
        arguments=Arguments,
        choice=choice,
        frame=frame,
        passes=passes,
        plan=plan,
        values=values,
        asarray=device.asarray,
        asnumpy=device.asnumpy,
        size=device.size,
    )


def pose(
    gpu: SimpleNamespace, case: Case, V: np.ndarray, precision: str, tolerance: float | None = None, **options: Any
) -> Any:
    from cukde.density.pairs.gpu.shape import current

    X, Y, log_weights, values = (gpu.asarray(a) for a in (case.X, case.Y, cases.log_weights_of(case), V))
    if not plan_gpu.skipping_serves("sum", precision, X.shape[1], current().capability):
        pytest.skip(cases.NO_KERNELS)
    frame = gpu.frame.frame(gpu.frame.sample(X))
    chosen = DEFAULT[precision] if tolerance is None else tolerance
    columns = gpu.values.columns_of(values)
    assert [column.place for column in columns] == list(np.flatnonzero(V.any(axis=0)))
    return gpu.values.pose(X, Y, values, case.h, Options(precision, log_weights, **options), frame, chosen, columns)


def check(
    gpu: SimpleNamespace, case: Case, V: np.ndarray, precision: str, tolerance: float | None = None, **options: Any
) -> float:
    """Compare every column with all pairs in double, and return the share of pairs that were taken."""
    V = V.astype(case.X.dtype)
    of = pose(gpu, case, V, precision, tolerance, **options)
    with traced() as ran:
        found = gpu.values.run(of)
    found = type(found)(*(gpu.asnumpy(a) for a in found))
    assert {a.dtype for a in found} == {np.dtype(np.float64)}
    assert found.moments.shape == (len(case.queries), V.shape[1])
    cases.check_values(found, case, V, precision, tolerance)
    share: float = ran[-1].found["share"]()
    return share


HARDEST = (
    "queries at 30 deviations",
    "queries at 100 to 1000 deviations",
    "all equal, queries elsewhere",
    "half equal",
    "every point alone",
    "queries between lone points",
    "outlier at 1e9",
    "heavy tail",
    "clusters 1e5 bandwidths apart",
    "zero weights",
    "10 of Silverman's",
)


@pytest.mark.parametrize(("d", "k"), [(2, 1), (2, 30), (5, 3), (5, 16), (8, 1), (8, 16), (17, 3), (64, 3), (128, 1)])
@pytest.mark.parametrize("precision", DEFAULT)
def test_sums_match_the_formula(gpu: SimpleNamespace, precision: str, d: int, k: int) -> None:
    """Both signs in every column, at other points and, of few columns, at the data."""
    n, m = gpu.size(3000, 190), gpu.size(1000, 129)
    V = np.random.default_rng(k).standard_normal((n, k))
    case = cases.normal(gpu, n, None if k == 3 else m, d).of(precision)
    check(gpu, case, V, precision)


@pytest.mark.parametrize("d", [2, 6])
@pytest.mark.parametrize("precision", DEFAULT)
@pytest.mark.parametrize(("n", "m"), [*SIZES, (63, None), (129, None)])
def test_sizes_off_the_blocks(gpu: SimpleNamespace, n: int, m: int | None, precision: str, d: int) -> None:
    rng = np.random.default_rng(n)
    V = np.stack((rng.standard_normal(n), np.where(np.arange(n) == n // 2, -3.0, 0.0)), axis=1)
    check(gpu, cases.normal(gpu, n, m, d).of(precision), V, precision)


@pytest.mark.parametrize("d", [2, 6])
@pytest.mark.parametrize("precision", DEFAULT)
@pytest.mark.parametrize("name", HARDEST)
def test_hard_data(gpu: SimpleNamespace, name: str, precision: str, d: int) -> None:
    """Far queries, duplicates, points that are alone, weights; values over 30 decades, of one sign and of both."""
    n, m = gpu.size(3000, 321), gpu.size(1000, 100)
    case = cases.hard(name, n, m, d, precision).of(precision)
    rng = np.random.default_rng(d)
    decades = 10 ** rng.uniform(-15, 15, n)
    check(gpu, case, np.stack((decades, signs(rng, (n,)) * decades), axis=1), precision)


@pytest.mark.parametrize(("precision", "tolerance"), cases.TOLERANCES)
@pytest.mark.parametrize("d", [5, 6])
@pytest.mark.parametrize("name", DEFEATING)
def test_what_is_left_out_is_at_most_the_tolerance(
    gpu: SimpleNamespace, name: str, d: int, precision: str, tolerance: float
) -> None:
    """Far data have the other sign than near ones, so that one bound is that of the other part; or signs alternate."""
    n = gpu.size(2048, 512)
    case = cases.defeating(name, n, 64, d, tolerance)
    distance = np.linalg.norm(case.X - case.queries.mean(axis=0), axis=1)
    V = np.stack((np.where(distance <= np.sort(distance)[n // 20], 1.0, -1.0), (-1.0) ** np.arange(n)), axis=1)
    check(gpu, case.of(precision), V, precision, tolerance)


@pytest.mark.parametrize(("precision", "tolerance"), cases.TOLERANCES)
@pytest.mark.parametrize("d", [2, 6])
@pytest.mark.parametrize("apart", [1.0, 2.5, 5.0])
def test_values_that_grow_away_from_the_queries(
    gpu: SimpleNamespace, apart: float, d: int, precision: str, tolerance: float
) -> None:
    """Thirty decades along the clusters, rising, falling, signed; zero at the queries; one far value; all zero."""
    case, at = clusters(d, gpu.size(4000, 512), gpu.size(1000, 64), apart=apart)
    rng, n = np.random.default_rng(d), len(case.X)
    rise = 10 ** (30.0 * at / 7 - 15)
    columns = (
        rise,
        1 / rise,
        signs(rng, (n,)) * rise,
        np.where(at < 2, 0.0, rise),
        np.where(at == 7, -1.0, 0.0),
        np.zeros(n),
        np.where(np.arange(n) == n - 1, 1e15, 0.0),
    )
    check(gpu, case.of(precision), np.stack(columns, axis=1), precision, tolerance)


@pytest.mark.parametrize("d", [2, 6])
@pytest.mark.parametrize("precision", DEFAULT)
def test_terms_that_cancel(gpu: SimpleNamespace, precision: str, d: int) -> None:
    """Every point stands twice, with values of both signs: the sum is zero, and its error one of the absolute terms.

    What lies between two points of opposite values is left out by the sum of both, not by the far one alone.
    """
    case, at = clusters(d, gpu.size(2000, 256), 64)
    twice = case._replace(X=np.concatenate((case.X, case.X))).of(precision)
    value = np.concatenate((1.0 + at, -1.0 - at))
    of_sides = np.where(np.concatenate((at, at)) < 4, 1.0, -1e3)
    share = check(gpu, twice, np.stack((value, of_sides), axis=1), precision)
    assert share < 0.8


@pytest.mark.parametrize("d", [3, 6])
@pytest.mark.parametrize("precision", DEFAULT)
def test_deterministic_sums_are_the_same_on_every_run(gpu: SimpleNamespace, d: int, precision: str) -> None:
    n = gpu.size(5000, 260)
    case = cases.normal(gpu, n, gpu.size(1000, 130), d).of(precision)
    V = np.random.default_rng(0).standard_normal((n, 2)).astype(precision)
    check(gpu, case, V, precision, deterministic=True)
    first, again = (gpu.values.run(pose(gpu, case, V, precision, deterministic=True)).moments for _ in range(2))
    np.testing.assert_array_equal(*(gpu.asnumpy(a).view(np.int64) for a in (first, again)))


@pytest.mark.parametrize("d", [2, 6])
def test_a_column_decides_on_its_pairs(gpu: SimpleNamespace, d: int) -> None:
    """One that is zero near the queries takes its own far pairs, and no more pairs of the others."""
    case, at = clusters(d, gpu.size(8000, 1024), 128)
    case = case.of("float32")
    near, far = (1.0 + at)[:, None], np.where(at == 5, 1.0, 0.0)[:, None]
    of_near, of_far = (check(gpu, case, V, "float32") for V in (near, far))
    assert of_near < 0.5
    both = check(gpu, case, np.concatenate((near, far), axis=1), "float32")
    assert both == pytest.approx((of_near + of_far) / 2, rel=0.01)


@pytest.mark.parametrize("precision", DEFAULT)
def test_sums_beyond_the_range_are_taken_again(
    gpu: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    """By differences, where a column has no finite sum; others stand."""
    case = cases.normal(gpu, 300, 130, 3).of(precision)
    V = np.random.default_rng(0).standard_normal((300, 2))
    summed, calls = gpu.passes.summed, []

    def broken(*args: Any) -> Any:
        reference, S, T, taken = summed(*args)
        calls.append(args)
        if len(calls) == 2:
            S[:64] = np.inf
        return reference, S, T, taken

    monkeypatch.setattr(gpu.passes, "summed", broken)
    of = pose(gpu, case, V.astype(precision), precision)
    totals = gpu.asnumpy(gpu.values.run(of).total)
    assert np.isfinite(totals).sum() >= 64
    calls.clear()
    check(gpu, case, V, precision)


class TestChoice:
    """Which pass is taken, and that both agree."""

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize("d", [3, 8])
    def test_kernel_sum_is_that_of_the_formula(self, gpu: SimpleNamespace, d: int, dtype: str) -> None:
        case, at = clusters(d, 600, 130, apart=8.0)
        V = np.stack((1.0 + at, signs(np.random.default_rng(d), at.shape)), axis=1).astype(dtype)
        X, Y = case.X.astype(dtype), case.queries.astype(dtype)
        arguments = [gpu.asarray(a) for a in (X, V, Y)]
        with only("skipping"), traced() as ran:
            found, all_pairs = (gpu.asnumpy(cukde.kernel_sum(*arguments, case.h, rtol=rtol)) for rtol in (None, 0))
        (share,) = (one.found["share"]() for one in ran if one.name == "skipping")
        assert 0 < share < 0.6
        total, size = reference.kernel_sum(X, V, Y, case.h)
        allowed = tolerances.DENSITY["gpu", dtype].value + DEFAULT[dtype]
        for sums in (found, all_pairs):
            tolerances.check(np.abs(sums - total), allowed * size, "values")
        taken = cost_calls.taken("values")
        with only("skipping"):
            assert taken(lambda: cukde.kernel_sum(*arguments, case.h), gpu=True)["share"] == pytest.approx(share)
            assert taken(lambda: cukde.kernel_sum(*arguments, case.h, rtol=0), gpu=True)["share"] is None

    def chosen(self, gpu: SimpleNamespace, V: np.ndarray, d: int = 3, **options: Any) -> Any:
        case, _ = clusters(d, 600, 130, apart=8.0)
        X, Y = (gpu.asarray(a.astype(np.float32)) for a in (case.X, case.queries))
        of = Options("float32", squared_radius=100.0)._replace(**options)
        many = 10**11  # queries, so that only what a pair takes counts
        shape = Shape("values", 600, many, d, k=V.shape[1], rtol=of.rtol, device=Device.of((9, 0)))
        return gpu.choice.near_values(gpu.arguments(X, Y, case.h, of, shape), gpu.asarray(V)).posed

    def test_a_tolerance_of_zero_takes_all(self, gpu: SimpleNamespace) -> None:
        V = np.ones((600, 1), np.float32)
        assert self.chosen(gpu, V) is not None
        assert self.chosen(gpu, V, rtol=0.0) is None
        assert self.chosen(gpu, V, squared_radius=None) is None

    def test_many_columns_take_all_by_products_and_fewer_by_differences(self, gpu: SimpleNamespace) -> None:
        V = np.ones((600, 32), np.float32)
        assert self.chosen(gpu, V, 8) is None
        assert self.chosen(gpu, V[:, :2], 8) is not None
        assert self.chosen(gpu, V[:, :8], 8, squared_radius=1e5) is not None
        assert self.chosen(gpu, np.eye(600, 32, dtype=np.float32), 8) is not None  # values are few
        assert self.chosen(gpu, np.ones((600, 33), np.float32), 8, squared_radius=1e5) is None
        assert self.chosen(gpu, V[:, :0], 8) is None

    @pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
    def test_values_that_are_not_finite_or_all_zero_take_all(self, gpu: SimpleNamespace, value: float) -> None:
        assert self.chosen(gpu, np.full((600, 1), value, np.float32)) is None
