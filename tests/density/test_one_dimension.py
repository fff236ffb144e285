"""One dimension: the fast Gauss transform against float64 oracles, on data that try to break its bound."""

from __future__ import annotations

import functools
import importlib
import math
import tracemalloc
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

import cukde
from cukde.core.plan import only, traced
from cukde.density.arguments import prepare
from cukde.density.one_dimension import plan as one_dimension_plan
from cukde.density.one_dimension.cpu import few, passes
from cukde.density.options import Options
from cukde.density.sums import Output, PartialSums
from tests import reference, tolerances
from tests.conftest import BACKENDS, Backend
from tests.density import laplace_sums
from tests.density.test_api import Sample

H = 0.37


def _clusters(rng: np.random.Generator, n: int, gaps: list[float]) -> np.ndarray:
    """Points scattered by two bandwidths about positions that are so many bandwidths apart."""
    return H * (np.cumsum(gaps)[rng.integers(len(gaps), size=n)] + 2 * rng.standard_normal(n))


def _data(name: str, n: int) -> tuple[np.ndarray, float]:
    """Data and a bandwidth."""
    rng = np.random.default_rng(3)
    normal = rng.standard_normal(n)
    width = one_dimension_plan.plan(H, "sum", 1e-12).width
    return {
        "smooth": lambda: (normal, H),
        "offset": lambda: (normal + 1e6 * H, H),
        "far offset": lambda: (normal + 2.0**43 * H, H),  # beyond the boxes
        "uniform": lambda: (rng.uniform(-20, 20, n), H),
        "heavy tails": lambda: (rng.standard_cauchy(n), H),
        "one point per box": lambda: (width * (np.arange(n) + rng.uniform(0.01, 0.99, n)), H),
        "on the edges of boxes": lambda: (width * rng.integers(-30, 30, n).astype(float), H),
        "all equal": lambda: (np.full(n, 3.7), H),
        "gaps": lambda: (_clusters(rng, n, [0, 15, 19, 40, 1e3, 1e6]), H),
        "between two blocks": lambda: (H * (rng.uniform(0, 1, n) + rng.choice([-15, 15], n)), H),
        "a range of 1e12 bandwidths": lambda: (_clusters(rng, n, [0, 30, 1e12]), H),
        "a few bandwidths wide": lambda: (normal, 3.0),
        "h a millionth of the range": lambda: (normal, 1e-6),
        "h a million times the range": lambda: (normal, 1e6),
        "one point inside the window": lambda: (np.append(rng.uniform(9.02, 9.6, n - 1) * H, -8.9 * H), H),
        "tiny units": lambda: (normal * 1e-150, H * 1e-150),
    }[name]()


DATA = (
    "smooth",
    "offset",
    "far offset",
    "uniform",
    "heavy tails",
    "one point per box",
    "on the edges of boxes",
    "all equal",
    "gaps",
    "between two blocks",
    "a range of 1e12 bandwidths",
    "a few bandwidths wide",
    "h a millionth of the range",
    "h a million times the range",
    "one point inside the window",
    "tiny units",
)
WEIGHTS = ("uniform", "skewed", "unequal")


@functools.cache
def draw(name: str, weights: str, dtype: str, n: int, m: int) -> Sample:
    """Data, and queries at them, beside them, between them and far away."""
    x, h = _data(name, n)
    rng = np.random.default_rng(4)
    extent = x.max() - x.min()
    y = np.concatenate(
        [
            rng.choice(x, m // 3),
            rng.choice(x, m // 3) + h * rng.uniform(-13, 13, m // 3),
            rng.uniform(x.min() - 10 * h, x.max() + 10 * h, m - 2 * (m // 3) - 6),
            [0.0, x.mean(), x.min() - 1e4 * h, x.max() + 30 * h, x.min() - extent, x.max() + 3 * extent],
        ]
    )
    w = {
        "uniform": lambda: None,
        "skewed": lambda: rng.standard_exponential(n) ** 8 * (rng.uniform(size=n) < 0.8),
        # Points left of the median weigh next to nothing: their neighbourhoods hear of the others from afar.
        "unequal": lambda: np.where(x < np.median(x), 1e-200, 1.0),
    }[weights]()
    V = rng.standard_normal((n, 3)) * rng.standard_exponential((n, 3)) ** 4
    V[:, 2] *= x > np.median(x)  # a column that is nothing where many queries are
    return Sample(x[:, None].astype(dtype), y[:, None].astype(dtype), h, w, V.astype(dtype))


@pytest.fixture
def transform(backend: Backend, many_pairs: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The backend's module, with the transform taken, and expansions in it, however few pairs there are."""
    module = importlib.import_module(f"cukde.density.one_dimension.{backend.device}.passes")
    if backend.device == "cpu":
        monkeypatch.setattr(module, "_PAIR_COST", 1e9)
    with only("line"):
        yield module


@pytest.fixture
def array_operations() -> Iterator[None]:
    """The CPU takes the transform by array operations, however few pairs there are."""
    with only("line few", "line"):
        yield


def allowed_log(dtype: str, exponent: np.ndarray) -> np.ndarray:
    """Allowed error of a log density: double precision, whatever the dtype, up to the tolerance asked for."""
    far = tolerances.FAR["float64"].value * exponent
    return np.maximum(tolerances.LINE[dtype].value, np.where(exponent < tolerances.NEAR.value, 0, far))


CASES = [(name, "uniform") for name in DATA] + [
    (name, w) for name in ("smooth", "gaps", "uniform") for w in WEIGHTS[1:]
]


# Arithmetic is double precision for both; what differs is how points lie and what is asked for.
SINGLE = ("smooth", "offset", "heavy tails", "gaps", "a range of 1e12 bandwidths", "one point inside the window")

# In Numba's simulator, where a call takes seconds.
SIMULATED = [
    ("gaps", "skewed", "float32"),
    ("a range of 1e12 bandwidths", "uniform", "float64"),
]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" not in metafunc.fixturenames:
        return
    every = [(*case, "float64") for case in CASES] + [(name, "uniform", "float32") for name in SINGLE]
    params = []
    for backend in BACKENDS[:1] if metafunc.cls is TestFewPoints else BACKENDS:
        for case in SIMULATED if backend.id == "emulated" else every:
            if metafunc.function.__name__ != "test_kernel_sum" or case[1] == "uniform":  # it has no weights
                name = f"{backend.id}-{'-'.join(case)}".replace(" ", "_")
                params.append(pytest.param(*backend.values, case, id=name, marks=backend.marks))
    metafunc.parametrize(("backend", "case"), params, indirect=["backend"])


class Accuracy:
    """Every function against the oracle."""

    @staticmethod
    def sample(backend: Backend, case: tuple[str, str, str]) -> Sample:
        return draw(*case, backend.size(1500, 120), backend.size(150, 30))

    def test_kde(self, backend: Backend, case: tuple[str, str, str]) -> None:
        s, dtype = self.sample(backend, case), case[-1]
        X, Y, w = (backend.asarray(a) for a in (s.X, s.Y, s.w))
        allowed = allowed_log(dtype, reference.nearness(s.X, s.Y, s.h, s.w).exponent)
        want = reference.log_kde(s.X, s.Y, s.h, s.w)
        tolerances.check_log(backend.asnumpy(cukde.kde(X, Y, s.h, weights=w, log=True)), want, allowed)
        tolerances.check_density(backend.asnumpy(cukde.kde(X, Y, s.h, weights=w)), want, allowed)

    def test_score(self, backend: Backend, case: tuple[str, str, str]) -> None:
        s, dtype = self.sample(backend, case), case[-1]
        X, Y, w = (backend.asarray(a) for a in (s.X, s.Y, s.w))
        near = reference.nearness(s.X, s.Y, s.h, s.w)
        got = backend.asnumpy(cukde.score(X, Y, s.h, weights=w))
        want = reference.score(s.X, s.Y, s.h, s.w)
        rounding = 0.5 * np.finfo(dtype).eps * np.abs(want[:, 0]) * s.h
        allowed = allowed_log(dtype, near.exponent) * near.reach
        tolerances.check(np.abs(got - want)[:, 0] * s.h, allowed + rounding, "score")

    def test_debias(self, backend: Backend, case: tuple[str, str, str]) -> None:
        s, dtype = self.sample(backend, case), case[-1]
        got = backend.asnumpy(cukde.debias(backend.asarray(s.X), s.h, weights=backend.asarray(s.w)))
        want = reference.debias(s.X, s.h, weights=s.w)
        near = reference.nearness(s.X, s.X, s.h, s.w)
        rounding = 0.5 * np.finfo(dtype).eps * np.abs(want[:, 0])
        allowed = 0.5 * s.h * allowed_log(dtype, near.exponent) * near.reach
        tolerances.check(np.abs(got - want)[:, 0], allowed + 1.01 * rounding, "debiased points")

    def test_sd_kde(self, backend: Backend, case: tuple[str, str, str]) -> None:
        s, dtype = self.sample(backend, case), case[-1]
        X, Y, w = (backend.asarray(a) for a in (s.X, s.Y, s.w))
        moved = reference.debias(s.X, s.h, weights=s.w)
        near = reference.nearness(moved, s.Y, s.h, s.w)
        # The points are held in float64, and each may be off by half the tolerance of its own score.
        held = near.reach * np.abs(moved).max() / s.h * np.finfo(np.float64).eps
        allowed = allowed_log(dtype, near.exponent) * (1 + 3 * near.reach) + held
        want = reference.log_kde(moved, s.Y, s.h, s.w)
        tolerances.check_log(backend.asnumpy(cukde.sd_kde(X, Y, s.h, weights=w, log=True)), want, allowed)

    def test_laplace_kde(self, backend: Backend, case: tuple[str, str, str]) -> None:
        s, dtype = self.sample(backend, case), case[-1]
        X, Y, w = (backend.asarray(a) for a in (s.X, s.Y, s.w))
        allowed = allowed_log(dtype, reference.nearness(s.X, s.Y, s.h, s.w).exponent)
        got = backend.asnumpy(cukde.laplace_kde(X, Y, s.h, weights=w))
        tolerances.check_scaled(got, *reference.scaled_laplace(s.X, s.Y, s.h, s.w), allowed, "Laplace")
        problem, _ = prepare(X, Y, s.h, w)
        sums = (None if a is None else backend.asnumpy(a) for a in problem.sums("laplace"))
        laplace_sums.check(PartialSums(*sums), s.X, s.Y, s.h, s.w, allowed)

    def test_kernel_sum(self, backend: Backend, case: tuple[str, str, str]) -> None:
        s, dtype = self.sample(backend, case), case[-1]
        X, Y = (backend.asarray(a) for a in (s.X, s.Y))
        total, size = reference.kernel_sum(s.X, s.V, s.Y, s.h)
        for k in (None, 3):
            V = s.V[:, 0] if k is None else s.V
            got = backend.asnumpy(cukde.kernel_sum(X, backend.asarray(V), Y, s.h)).reshape(len(s.Y), -1)
            base = tolerances.LINE[dtype].value + np.finfo(dtype).eps
            # What a column adds up comes from exponents down to minus the logarithm of its sum.
            with np.errstate(divide="ignore", invalid="ignore"):
                far = np.where(size > 0, np.maximum(base, -tolerances.FAR["float64"].value * np.log(size)), base)
            # A kernel below the range of its dtype may count for nothing.
            edge = np.finfo(dtype).tiny * np.abs(s.V.astype(np.float64)).sum(axis=0)
            allowed = (far * size + edge)[:, : k or 1]
            tolerances.check(np.abs(got - total[:, : k or 1]), allowed, "kernel sum")


@pytest.mark.usefixtures("transform")
class TestAccuracy(Accuracy):
    """By the passes of each backend."""


@pytest.mark.usefixtures("array_operations")
class TestFewPoints(Accuracy):
    """By array operations, as the CPU takes few points."""


@pytest.mark.usefixtures("transform")
class TestRange:
    def test_log_density_ten_thousand_bandwidths_away(self, backend: Backend) -> None:
        x = np.random.default_rng(0).standard_normal((backend.size(2000, 60), 1))
        y = np.array([[x.max() + 1e4 * H], [x.min() - 1e4 * H]])
        got = backend.asnumpy(cukde.kde(backend.asarray(x), backend.asarray(y), H, log=True))
        np.testing.assert_allclose(got, reference.log_kde(x, y, H), rtol=1e-14)

    def test_a_million_points_just_outside_the_window(self, backend: Backend) -> None:
        n = backend.size(1_000_000, 60)
        rng = np.random.default_rng(0)
        for tolerance, dtype in ((1e-12, "float64"), (1e-6, "float32")):
            plan = one_dimension_plan.plan(H, "sum", tolerance)
            edge = plan.width * plan.reach
            x = np.append(edge + rng.uniform(0, H, n - 1), -8.9 * H)[:, None].astype(dtype)
            y = np.array([[0.0], [0.4 * H], [-0.2 * H]], dtype)
            got = backend.asnumpy(cukde.kde(backend.asarray(x), backend.asarray(y), H, log=True))
            tolerances.check_log(got, reference.log_kde(x, y, H), allowed_log(dtype, np.zeros(3)))

    def test_queries_of_which_none_is_near(self, backend: Backend) -> None:
        x = np.linspace(-1, 1, backend.size(500, 60))[:, None]
        y = np.array([[1e9], [-1e15], [40.0]])
        got = backend.asnumpy(cukde.kde(backend.asarray(x), backend.asarray(y), 0.1, log=True))
        np.testing.assert_allclose(got, reference.log_kde(x, y, 0.1), rtol=1e-14)

    def test_score_bandwidths_that_change_the_order_of_points(self, backend: Backend) -> None:
        x = np.random.default_rng(0).standard_normal((backend.size(2000, 60), 1))
        y = np.linspace(-2, 2, backend.size(40, 9))[:, None]
        for narrow in (0.3, 1.0, 2.0)[: backend.size(3, 1)]:
            got = backend.asnumpy(
                cukde.sd_kde(backend.asarray(x), backend.asarray(y), H, score_bandwidth=narrow * H, log=True)
            )
            np.testing.assert_allclose(got, reference.sd_kde(x, y, H, narrow * H, log=True), rtol=0, atol=3e-11)


class TestPlan:
    """The bound itself, pair by pair: what the boxes of a plan may be off by is what they are off by at most."""

    @pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-9, 1e-12])
    @pytest.mark.parametrize("output", ["sum", "moments", "laplace"])
    def test_no_pair_of_points_is_off_by_more(self, output: Output, tolerance: float) -> None:
        plan = one_dimension_plan.plan(H, output, tolerance)
        rho, powers = plan.unit / H, np.arange(plan.order)
        ends = np.concatenate([np.linspace(-1, 1, 21), [-0.999, 0.999]])  # alpha, and beta
        steps = ends[:, None] ** powers  # (points, powers)
        for o, (table, of_total) in enumerate(zip(plan.translation, plan.of_total, strict=True)):
            D = 2 * rho * (o - plan.reach)
            u = D + rho * (ends[:, None] - ends)  # query by point
            phi = np.exp(-0.5 * u * u)
            B = steps @ table.T  # a unit of mass at each alpha: (points, powers of beta)
            if output == "moments":
                got, want = plan.slope / H * (powers[1:] * steps[:, :-1]) @ B[:, 1:].T, -u * phi
            else:
                got, want = steps @ B.T, phi * ((1.5 - 0.5 * u * u) if output == "laplace" else 1)
            assert all(of.shape == plan.translation.shape for of in plan.translations(output))
            assert (np.abs(steps @ (steps @ of_total.T).T - phi) <= plan.error[o]).all()
            assert (np.abs(got - want) <= plan.error[o]).all()
            assert (phi >= plan.least[o] * (1 - 1e-12)).all()

    @pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-12])
    @pytest.mark.parametrize("output", ["sum", "moments", "laplace", "cdf"])
    def test_the_bound_is_that_of_the_formulas(self, output: Output, tolerance: float) -> None:
        """No looser, which no accuracy would show, and no tighter."""
        plan = one_dimension_plan.plan(H, output, tolerance)
        error, least, beyond = bound(plan, output)
        np.testing.assert_allclose(plan.error, error, rtol=1e-9)
        np.testing.assert_allclose(plan.least, least, rtol=1e-9)
        np.testing.assert_allclose(plan.beyond, beyond, rtol=1e-9)

    @pytest.mark.parametrize("h", [1e-280, 3e-7, 0.37, 1.0, 12345.678, 1e280])
    def test_centres_are_exact(self, h: float) -> None:
        plan = one_dimension_plan.plan(h, "sum", 1e-12)
        for box in (0, -1, 12_345_678_901, one_dimension_plan.MOST_BOXES - 1):
            assert Fraction((box + 0.5) * plan.width) == Fraction(2 * box + 1, 2) * Fraction(plan.width)


def bound(plan: one_dimension_plan.Plan, output: Output) -> tuple[np.ndarray, np.ndarray, float]:
    """Errors, least kernels and what is beyond the window of a unit of mass, by the formulas of the module."""
    P, rho, width = plan.order, plan.unit / plan.bandwidth, plan.width / plan.bandwidth
    o = np.arange(-plan.reach, plan.reach + 1)

    def root(n: int) -> float:
        if output == "cdf":
            return math.sqrt(math.factorial(n - 1) / (2 * math.pi))
        return math.sqrt(math.factorial(n)) + (math.sqrt(math.factorial(n + 2)) / 2 if output == "laplace" else 0)

    def remainder(slope: int) -> float:  # with one power of beta less where the slope is taken
        of_beta = math.factorial(P - slope)
        both = [rho ** (P - slope + k) * root(P + k) / (of_beta * math.factorial(k)) for k in range(P)]
        return 1.0865 * (rho**P * root(P + slope) / math.factorial(P) + sum(both))

    T = np.maximum(np.abs(plan.translation), np.abs(plan.of_total))
    sizes = T.sum(axis=(1, 2))
    if output == "moments":
        sizes = np.maximum(sizes, (T.sum(axis=2) * np.arange(P)).sum(axis=1) / rho)
    truncated = max(remainder(slope) for slope in range(1 + (output == "moments")))
    gap = width * np.maximum(0, np.abs(o) - 1)
    error = truncated * np.exp(-(gap**2) / 4) + 8 * 2.0**-52 * sizes
    R = width * plan.reach
    if output == "cdf":
        return error, stats.norm.cdf(width * (o - 1)), stats.norm.cdf(-R)
    return error, np.exp(-((width * (np.abs(o) + 1)) ** 2) / 2), (1.5 + R**2 / 2) * math.exp(-(R**2) / 2)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("output", ["sum", "moments", "laplace", "cdf", "values"])
def test_boxes_are_accepted_where_their_error_is_within_the_tolerance(
    output: Output, dtype: str, many_pairs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the masses of all boxes, which are of thirty decades: a bound ten times too loose or too tight is seen."""
    plan = one_dimension_plan.plan(H, output, one_dimension_plan.TOLERANCE[dtype])
    error, least, beyond = bound(plan, output)
    taken: dict[int, bool] = {}
    translate = passes.expansions.translate

    def noted(selected: Any, targets: Any, *arguments: Any) -> None:
        translate(selected, targets, *arguments)
        taken.update(zip(targets[selected].tolist(), arguments[-1][selected].tolist(), strict=True))

    monkeypatch.setattr(passes.expansions, "translate", noted)
    monkeypatch.setattr(passes, "_PAIR_COST", 1e9)
    rng = np.random.default_rng(8)
    shares = []  # of the tolerance that are used up
    for _ in range(60):
        box = np.unique(rng.integers(0, plan.reach, 12) + 3 * plan.reach * rng.integers(0, 2, 12))
        weights = 10.0 ** rng.uniform(-15, 15, len(box))
        values = rng.standard_normal((len(box), 2)) * 10.0 ** rng.uniform(-3, 3, (len(box), 2))
        asked = np.arange(box[0] - plan.reach, box[-1] + plan.reach + 1)
        x, y = (plan.width * (b + rng.uniform(0.1, 0.9, len(b)))[:, None] for b in (box, asked))
        columns = [weights]
        if output == "values":
            columns += [*(np.abs(values.T) * weights)]
        share = np.zeros(len(asked))
        for i, target in enumerate(asked):
            near = np.abs(target - box) <= plan.reach
            o = target - box[near] + plan.reach
            for mass in columns:
                to_left = mass[box < target - plan.reach].sum() if output == "cdf" else 0.0
                off = (mass[near] * error[o]).sum() + mass[~near].sum() * beyond
                most = plan.tolerance * ((mass[near] * least[o]).sum() + to_left)
                share[i] = max(share[i], off / most if near.any() else np.inf)
        taken.clear()
        with only("line"):
            options = Options(dtype, np.log(weights))
            passes.partial_sums(x, y, H, output, options, values=values if output == "values" else None)
        clear = np.abs(np.log(share)) > 1e-6
        np.testing.assert_array_equal([taken[target] for target in asked[clear].tolist()], share[clear] < 1)
        shares.append(share)
    share = np.concatenate(shares)
    for low, high in ((0.1, 1), (1, 10)):
        assert ((share > low) & (share < high)).sum() > 20


@pytest.mark.parametrize("output", ["sum", "laplace"])
def test_what_queries_leave_out_is_within_the_tolerance(output: Output, many_pairs: None) -> None:
    """A point beside which another one may be left out, or may not, by where the query is; it begins a box."""
    plan = one_dimension_plan.plan(H, output, 1e-6)
    x = plan.width * np.array([[0.5], [16.0]])
    y = np.linspace(-6 * H, 3 * H, 2000)[:, None]
    with only("line"), traced() as ran:
        got = passes.partial_sums(x, y, H, output, Options("float32"))
    assert [step.name for step in ran] == ["line"]
    squares = ((y - x.T) / H) ** 2
    phi = np.exp(-0.5 * squares)
    scale, total = np.exp(got.reference), phi.sum(axis=1)
    assert (np.abs(scale * got.total - total) <= 1e-6 * total).all()
    terms = (1.5 - 0.5 * squares) * phi
    if output == "laplace":
        error = np.abs(scale * got.moments[:, 0] - terms.sum(axis=1)) / total
        assert (error <= 1e-6).all()
        assert error.max() > 5e-7  # it is used up, or the test would be of nothing


class TestChoice:
    def test_array_operations_compile_nothing(self, array_operations: None, monkeypatch: pytest.MonkeyPatch) -> None:
        """Not where some queries are left to pairs either; where points lie too far apart, compiled loops take over."""
        rng = np.random.default_rng(0)
        x, y = rng.standard_normal(600), np.append(rng.standard_normal(200), [-40.0, 30.0])
        compiled = few.dispatch.passes
        asked = []
        monkeypatch.setattr(few.dispatch, "passes", lambda *args: asked.append(args) or compiled(*args))
        w = np.where(x < 0, 1e-200, 1.0)
        for weights in (None, w):
            cukde.sd_kde(x, y, H, weights=weights)
            cukde.cdf(x, y, H, weights=weights)
        cukde.kernel_sum(x, w, y, H)
        assert not asked
        for far, h in ((np.append(x, 1e6), H), (x, 1e-5)):
            want = reference.log_kde(far[:, None], y[:, None], h)
            np.testing.assert_allclose(cukde.kde(far, y, h, log=True), want, rtol=1e-12)
            assert asked
            asked.clear()

    def test_memory_is_that_of_the_occupied_boxes(self) -> None:
        rng = np.random.default_rng(0)
        x = (rng.standard_normal(20_000) + 1e12 * H * rng.integers(0, 2, 20_000))[:, None]
        cukde.sd_kde(x, x[:500], H)  # compiled
        tracemalloc.start()
        try:
            cukde.sd_kde(x, x[:500], H)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 20e6

    def test_many_pairs_are_never_summed_one_by_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A call of 1e11 pairs ends, and its result is that of a few of its queries alone."""
        rng = np.random.default_rng(0)
        x, y = rng.standard_normal((300_000, 1)), rng.standard_normal((300_000, 1))
        from cukde.density.pairs.cpu import passes as pairs_passes

        def refuse(*_: Any, **__: Any) -> None:
            raise AssertionError("all pairs were summed")

        monkeypatch.setattr(pairs_passes, "partial_sums", refuse)
        got = cukde.kde(x, y, 0.05, log=True)
        np.testing.assert_allclose(got[:20], reference.log_kde(x, y[:20], 0.05), atol=1e-12, rtol=0)

    def test_ieee_takes_every_pair(self, backend: Backend, transform: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(one_dimension_plan, "plan", None)
        x = np.linspace(-1, 1, 50).astype(np.float32)
        got = backend.asnumpy(cukde.kde(backend.asarray(x), backend.asarray(x), H, precision="ieee"))
        np.testing.assert_allclose(got, reference.kde(x, x, H), rtol=1e-5)
