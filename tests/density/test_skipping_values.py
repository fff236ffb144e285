"""Sums of values without the pairs that cannot matter, against float64: each column has its tolerance.

Test bodies run on the CPU, in the emulation, and on a GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cukde
from cukde.core.plan import only, traced
from cukde.density.cost import calls as cost_calls
from cukde.density.options import Options
from cukde.density.pairs import frame as pairs_frame
from cukde.density.pairs.cpu import passes as pairs_passes
from cukde.density.pairs.cpu.skipping import choice, passes, values as skipping_values
from cukde.density.plan import gpu as plan_gpu
from cukde.density.plan.shape import Device, Shape
from cukde.density.sums import PartialSums
from tests import reference, tolerances
from tests.conftest import Backend
from tests.density import test_skipping as cases
from tests.density.conftest import Modules, gpu_of
from tests.density.test_skipping import DEFAULT, DEFEATING, HARD, SIZES, Case


def prepare_on_cpu(case: Case, V: np.ndarray, precision: str, tolerance: float | None = None) -> passes.Prepared:
    X, log_weights = case.X, cases.log_weights_of(case)
    Y = X if case.Y is None and log_weights is not None else case.Y
    if log_weights is not None:
        counted = log_weights > -1e29
        X, V, log_weights = X[counted], V[counted], log_weights[counted]
    chosen = DEFAULT[precision] if tolerance is None else tolerance
    assert skipping_values.served(V, log_weights, X.itemsize)
    options = Options(precision, log_weights)
    return passes.prepare(X, Y, case.h, "values", options, pairs_frame.frame(X), chosen, values=V)


def prepare_on_gpu(
    gpu: Modules, case: Case, V: np.ndarray, precision: str, tolerance: float | None = None, **options: Any
) -> Any:
    from cukde.density.pairs.gpu.shape import current

    X, Y, log_weights, values = (gpu.asarray(a) for a in (case.X, case.Y, cases.log_weights_of(case), V))
    if not plan_gpu.skipping_serves("sum", precision, X.shape[1], current().capability):
        pytest.skip(cases.NO_KERNELS)
    frame = gpu.skipping.frame.frame(gpu.skipping.frame.sample(X))
    chosen = DEFAULT[precision] if tolerance is None else tolerance
    columns = gpu.skipping.values.columns_of(values)
    assert [column.place for column in columns] == list(np.flatnonzero(V.any(axis=0)))
    return gpu.skipping.values.prepare(
        X, Y, values, case.h, Options(precision, log_weights, **options), frame, chosen, columns
    )


def found_on_gpu(gpu: Modules, of: Any) -> PartialSums:
    found = gpu.skipping.values.run(of)
    return type(found)(*(gpu.asnumpy(a) for a in found))


def check(backend: Backend, case: Case, V: np.ndarray, precision: str, tolerance: float | None = None) -> float:
    """Compare every column with all pairs in double, and return the share of pairs that were taken."""
    V = V.astype(case.X.dtype)
    if backend.name == "numpy":
        on_cpu = prepare_on_cpu(case, V, precision, tolerance)
        found = passes.run(on_cpu)
        cases.check(found._replace(moments=None), case, "sum", precision, tolerance, device="cpu")
        taken = passes.tried(on_cpu, np.arange(len(on_cpu.queries))).summed
        share = taken / (len(case.X) * len(on_cpu.queries))
    else:
        gpu = gpu_of(backend)
        with traced() as ran:
            found = found_on_gpu(gpu, prepare_on_gpu(gpu, case, V, precision, tolerance))
        share = ran[-1].found["share"]()
    assert {a.dtype for a in found} == {np.dtype(np.float64)}
    assert found.moments is not None
    assert found.moments.shape == (len(case.queries), V.shape[1])
    cases.check_values(found, case, V, precision, tolerance, device=backend.device)
    return float(share)


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


@pytest.mark.parametrize(
    ("d", "k"),
    [(2, 1), (2, 30), (3, 3), (5, 3), (5, 16), (6, 32), (8, 1), (8, 16), (17, 3), (40, 1), (64, 3), (128, 1)],
)
@pytest.mark.parametrize("precision", DEFAULT)
def test_sums_match_the_formula(backend: Backend, precision: str, d: int, k: int) -> None:
    """Both signs in every column, at other points and, of few columns, at the data."""
    n, m = backend.size(1500, 190), backend.size(300, 129)
    V = np.random.default_rng(k).standard_normal((n, k))
    check(backend, cases.normal(n, None if k == 3 else m, d).of(precision), V, precision)


@pytest.mark.parametrize("d", [2, 6])
@pytest.mark.parametrize("precision", DEFAULT)
@pytest.mark.parametrize(("n", "m"), [*SIZES, (1, None), (63, None), (129, None)])
def test_sizes_off_the_blocks(backend: Backend, n: int, m: int | None, precision: str, d: int) -> None:
    rng = np.random.default_rng(n)
    V = np.stack((rng.standard_normal(n), np.where(np.arange(n) == n // 2, -3.0, 0.0)), axis=1)
    check(backend, cases.normal(n, m, d).of(precision), V, precision)


@pytest.mark.parametrize("d", [2, 6])
@pytest.mark.parametrize("precision", DEFAULT)
@pytest.mark.parametrize("name", HARD)
def test_hard_data(backend: Backend, name: str, precision: str, d: int) -> None:
    """Far queries, duplicates, points that are alone, weights; values over 30 decades, of one sign and of both."""
    n, m = backend.size(800, 321), 100
    case = cases.hard(n, m, d, precision)[name]().of(precision)
    rng = np.random.default_rng(d)
    decades = 10 ** rng.uniform(-15, 15, n)
    check(backend, case, np.stack((decades, signs(rng, (n,)) * decades), axis=1), precision)


@pytest.mark.parametrize(("precision", "tolerance"), cases.TOLERANCES)
@pytest.mark.parametrize("d", [5, 6])
@pytest.mark.parametrize("name", DEFEATING)
def test_what_is_left_out_is_at_most_the_tolerance(
    backend: Backend, name: str, d: int, precision: str, tolerance: float
) -> None:
    """Far data have the other sign than near ones, so that one bound is that of the other part; or signs alternate."""
    n = backend.size(1024, 512)
    case = cases.defeating(n, 64, d, tolerance)[name]()
    distance = np.linalg.norm(case.X - case.queries.mean(axis=0), axis=1)
    of_sides = np.where(distance <= np.sort(distance)[n // 20], 1.0, -1.0)
    V = np.stack((of_sides, (-1.0) ** np.arange(n), np.arange(n) % 3.0), axis=1)
    check(backend, case.of(precision), V, precision, tolerance)


@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.parametrize(("precision", "tolerance"), cases.TOLERANCES)
@pytest.mark.parametrize("d", [2, 6])
@pytest.mark.parametrize("apart", [1.0, 2.5, 5.0])
def test_values_that_grow_away_from_the_queries(
    backend: Backend, apart: float, d: int, precision: str, tolerance: float, weighted: bool
) -> None:
    """Thirty decades along the clusters, rising, falling, signed, at random; zero at the queries; zero everywhere."""
    case, at = clusters(d, backend.size(2048, 512), backend.size(128, 64), apart=apart)
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
    check(backend, case, np.stack(columns, axis=1), precision, tolerance)
    if backend.name == "numpy":  # whose columns have their pairs together
        for column in columns:
            check(backend, case, column[:, None], precision, tolerance)


@pytest.mark.parametrize("d", [2, 6])
@pytest.mark.parametrize("precision", DEFAULT)
def test_terms_that_cancel(backend: Backend, precision: str, d: int) -> None:
    """Every point stands twice, with values of both signs: the sum is zero, and its error one of the absolute terms.

    What lies between two points of opposite values is left out by the sum of both, not by the far one alone.
    """
    case, at = clusters(d, backend.size(2000, 256), 64)
    twice = case._replace(X=np.concatenate((case.X, case.X))).of(precision)
    value = np.concatenate((1.0 + at, -1.0 - at))
    of_sides = np.where(np.concatenate((at, at)) < 4, 1.0, -1e3)
    share = check(backend, twice, np.stack((value, of_sides), axis=1), precision)
    assert share < 0.8


@pytest.mark.parametrize("d", [2, 6])
def test_a_column_decides_on_its_pairs(backend: Backend, d: int) -> None:
    """One that is zero near the queries takes its own far pairs; on a GPU no more pairs of the others."""
    case, at = clusters(d, backend.size(4096, 1024), 128, apart=4.0 if backend.name == "numpy" else 5.0)
    case = case.of("float32")
    near, far = (1.0 + at)[:, None], np.where(at == 5, 1.0, 0.0)[:, None]
    of_near, of_far = (check(backend, case, V, "float32") for V in (near, far))
    assert of_near < (0.7 if backend.name == "numpy" else 0.5)
    both = check(backend, case, np.concatenate((near, far), axis=1), "float32")
    if backend.name == "numpy":
        assert of_near < of_far <= both
        assert check(backend, case, np.concatenate((near, 0 * far), axis=1), "float32") == of_near
    else:
        assert both == pytest.approx((of_near + of_far) / 2, rel=0.01)


@pytest.mark.parametrize("d", [3, 6])
@pytest.mark.parametrize("precision", DEFAULT)
def test_deterministic_sums_are_the_same_on_every_run(gpu: Modules, d: int, precision: str) -> None:
    n = gpu.size(5000, 260)
    case = cases.normal(n, gpu.size(1000, 130), d).of(precision)
    V = np.random.default_rng(0).standard_normal((n, 2)).astype(precision)
    first, again = (
        gpu.skipping.values.run(prepare_on_gpu(gpu, case, V, precision, deterministic=True)).moments for _ in range(2)
    )
    np.testing.assert_array_equal(*(gpu.asnumpy(a).view(np.int64) for a in (first, again)))


@pytest.mark.parametrize("precision", DEFAULT)
def test_sums_beyond_the_range_are_taken_again(gpu: Modules, monkeypatch: pytest.MonkeyPatch, precision: str) -> None:
    """By differences, where a column has no finite sum; others stand."""
    case = cases.normal(300, 130, 3).of(precision)
    V = np.random.default_rng(0).standard_normal((300, 2))
    summed, calls = gpu.skipping.passes.summed, []

    def broken(*args: Any) -> Any:
        reference, S, T, taken = summed(*args)
        calls.append(args)
        if len(calls) == 2:
            S[:64] = np.inf
        return reference, S, T, taken

    monkeypatch.setattr(gpu.skipping.passes, "summed", broken)
    of = prepare_on_gpu(gpu, case, V.astype(precision), precision)
    totals = gpu.asnumpy(gpu.skipping.values.run(of).total)
    assert np.isfinite(totals).sum() >= 64
    calls.clear()
    cases.check_values(found_on_gpu(gpu, prepare_on_gpu(gpu, case, V.astype(precision), precision)), case, V, precision)


class TestChoiceOfAGPU:
    """Which pass is taken, and that both agree."""

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    @pytest.mark.parametrize("d", [3, 8])
    def test_kernel_sum_is_that_of_the_formula(self, gpu: Modules, d: int, dtype: str) -> None:
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

    def chosen(self, gpu: Modules, V: np.ndarray, d: int = 3, **options: Any) -> Any:
        case, _ = clusters(d, 600, 130, apart=8.0)
        X, Y = (gpu.asarray(a.astype(np.float32)) for a in (case.X, case.queries))
        of = Options("float32", squared_radius=100.0)._replace(**options)
        many = 10**11  # queries, so that only what a pair takes counts
        shape = Shape("values", 600, many, d, k=V.shape[1], rtol=of.rtol, device=Device.of((9, 0)))
        return gpu.skipping.choice.near_values(
            gpu.arguments.Arguments(X, Y, case.h, of, shape), gpu.asarray(V)
        ).prepared

    def test_a_tolerance_of_zero_takes_all(self, gpu: Modules) -> None:
        V = np.ones((600, 1), np.float32)
        assert self.chosen(gpu, V) is not None
        assert self.chosen(gpu, V, rtol=0.0) is None
        assert self.chosen(gpu, V, squared_radius=None) is None

    @pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
    def test_values_that_are_not_finite_or_all_zero_take_all(self, gpu: Modules, value: float) -> None:
        assert self.chosen(gpu, np.full((600, 1), value, np.float32)) is None


class TestChoiceOfTheCPU:
    """Which pass is taken."""

    def taken(self, V: np.ndarray, **options: object) -> bool:
        case, _ = clusters(2, 20_000, 1_000)
        X, Y = case.X.astype(V.dtype), case.queries.astype(V.dtype)
        of = pairs_passes._located(Options(str(V.dtype), **options), X, Y, case.h)
        return choice.prepared(X, Y, case.h, "values", of, single=V.dtype == np.float32, values=V) is not None

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
