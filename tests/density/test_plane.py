"""Densities of two and three columns to a relative tolerance, on data and queries that try to break the bounds."""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import cukde
from cukde.core.cpu import meanwhile
from cukde.core.plan import only
from cukde.density.pairs.cpu import passes as pairs_passes
from cukde.density.plan import gpu as plan_gpu
from cukde.density.plane import plan as plane_plan
from cukde.density.plane.cpu import cells as plane_cells, passes as plane_passes
from cukde.density.sums import Output
from tests import reference
from tests.conftest import Backend
from tests.density.samples import adversarial
from tests.tolerances import check_density, check_log, check_score, log_error

H = 0.11
# On the CPU wider in three columns: cells that hold hardly more than a point take long there.
H_CPU = {2: H, 3: 3 * H}

Expanded = list[tuple[np.ndarray, np.ndarray]]
"""Queries of each transform, and which of them are left to pairs."""

COLUMNS = pytest.mark.parametrize("d", plane_plan.COLUMNS)


def _data(d: int, n: int, h: float = H) -> dict[str, Callable[[], tuple[np.ndarray, float, np.ndarray | None]]]:
    """Points, a bandwidth and weights, by name."""
    rng = np.random.default_rng([d, n])
    normal = rng.standard_normal((n, d))
    width = plane_plan.plan(h, 1e-5, "sum", d).width
    light = np.arange(n) % 3 == 0
    return {
        "normal": lambda: (normal, h, None),
        "far from zero": lambda: (normal + 1e4, h, None),
        "too far from zero for cells": lambda: (normal + 2.0**43 * h, h, None),
        "uneven weights": lambda: (normal, h, 10.0 ** rng.uniform(-9, 3, n) * (rng.uniform(size=n) > 0.1)),
        "corners of cells": lambda: (width * rng.integers(-6, 6, (n, d)).astype(float), h, None),
        "one cell": lambda: (normal * 1e-3, h, None),
        "all equal": lambda: (np.full((n, d), 3.7), h, None),
        "wide h": lambda: (normal, 20.0, None),
        "every point alone": lambda: (normal, 1e-7, None),
        "spread over 1e6 bandwidths": lambda: (normal * h + 3e5 * h * rng.integers(-1, 2, (n, d)), h, None),
        "more than the curve has room for": lambda: (normal * h + 1e11 * h * rng.integers(-1, 2, (n, 1)), h, None),
        # Beside the few light points the others count, 11 bandwidths away, by exp(-60) 1e26 = 0.9.
        "a heavy cluster far from a light one": lambda: (
            np.where(light[:, None], 0.05 * normal, 0.05 * normal + [11.0, *[0.0] * (d - 1)]) * h,
            h,
            np.where(light, 1.0, 1e26),
        ),
        # Its sums leave the range of normal numbers.
        "a cluster of hardly any weight": lambda: (
            np.where(light[:, None], normal * h, normal * h + 40 * h),
            h,
            np.where(light, 1e-299, 1.0),
        ),
    }


DATA = tuple(_data(2, 3))


def verify(X: Any, Y: Any, h: Any, rtol: float | None, weights: Any = None, backend: Backend | None = None) -> None:
    """Check densities and their logarithms: the tolerance, and beside it what rounding is allowed to do."""
    on = backend or Backend("numpy")
    x, y, w = (on.asarray(a) for a in (X, Y, weights))
    want = reference.log_kde(X, Y, h, weights)
    dtype = str(np.result_type(X, Y))
    allowed = log_error(on.device, dtype, reference.nearness(X, Y, h, weights).exponent) - np.log1p(-(rtol or 0.0))
    check_log(on.asnumpy(cukde.kde(x, y, h, weights=w, rtol=rtol, log=True)), want, allowed)
    check_density(on.asnumpy(cukde.kde(x, y, h, weights=w, rtol=rtol)), want, allowed)


def verify_score(
    X: Any, Y: Any, h: float, rtol: float | None, weights: Any = None, backend: Backend | None = None
) -> None:
    """Check scores in units of 1/h: the error of either moment, of the sum, and what rounding is allowed to do."""
    on = backend or Backend("numpy")
    near = reference.nearness(X, Y, h, weights)
    got = on.asnumpy(cukde.score(*(on.asarray(a) for a in (X, Y)), h, weights=on.asarray(weights), rtol=rtol))
    error = h * np.linalg.norm(got - reference.score(X, Y, h, weights), axis=1)
    allowed = log_error(on.device, str(np.result_type(X, Y)), near.exponent) + (1 + np.sqrt(2)) * (rtol or 0.0)
    rounding = h * np.finfo(got.dtype).eps * np.abs(got).max(axis=1)
    # Differences of coordinates far from zero keep fewer digits than the bandwidth has.
    held = 2 * reference.size_in_bandwidths(X, h) * np.finfo(np.float64).eps
    check_score(np.maximum(0, error - rounding - held), allowed, near.reach)


@pytest.fixture
def without_rules(many_pairs: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few pairs, and expansions wherever their bound holds, whatever costs less."""
    monkeypatch.setattr(plane_passes, "_worth", lambda *arguments: True)
    monkeypatch.setattr(plane_passes, "_PAIR_COST", 1e9)


@pytest.fixture
def transform(backend: Backend, request: pytest.FixtureRequest) -> Iterator[Backend]:
    """The backend, which takes the transform whatever it takes, and expansions wherever their bound holds."""
    if backend.name == "numpy":
        request.getfixturevalue("without_rules")
        yield backend
        return
    with only("plane"):
        yield backend


@pytest.fixture
def expanded(transform: Backend, monkeypatch: pytest.MonkeyPatch) -> Expanded:
    """Queries of each transform, and which of them are left to pairs."""
    found: Expanded = []
    if transform.name == "numpy":
        expand = plane_passes._expand
        monkeypatch.setattr(plane_passes, "_expand", lambda *a: (expand(*a), found.append((a[2], a[-1])))[0])
        return found
    expansions = importlib.import_module("cukde.density.plane.gpu.expansions")
    values = expansions.values

    def noted(Y: Any, *arguments: Any) -> Any:
        sums = values(Y, *arguments)
        left = np.zeros(len(Y), bool)
        left[transform.asnumpy(sums.rest)[: int(sums.counts[0])]] = True
        found.append((transform.asnumpy(Y), left))
        return sums

    monkeypatch.setattr(expansions, "values", noted)
    return found


@COLUMNS
@pytest.mark.parametrize("rtol", [1e-2, 1e-5, 1e-9, None])
@pytest.mark.parametrize("output", plane_plan.SERVED)
@pytest.mark.parametrize("name", DATA)
def test_sums_are_within_the_tolerance(
    transform: Backend, name: str, output: Output, rtol: float | None, d: int
) -> None:
    n, m = transform.size(700 if d == 2 else 400, 300), transform.size(150, 80)
    X, h, weights = _data(d, n, H_CPU[d] if transform.name == "numpy" else H)[name]()
    if transform.name == "emulated" and h == H and "cluster" not in name:
        h *= 10  # fewer cells, each a block of the kernel
    Y = adversarial(X, h, m)
    if output == "sum":
        verify(X, Y, h, rtol, weights, transform)
        return
    verify_score(X, Y, h, rtol, weights, transform)
    verify_score(X, X, h, rtol, weights, transform)


@COLUMNS
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rtol", [1e-5, None])
def test_queries_of_each_kind(transform: Backend, rtol: float | None, dtype: str, d: int) -> None:
    rng = np.random.default_rng(5)
    n, m = transform.size(1500 if d == 2 else 600, 200), transform.size(1000 if d == 2 else 400, 60)
    h = 0.6 if (transform.name, d) == ("emulated", 3) else 0.2
    X = np.concatenate([rng.standard_normal((n, d)), 0.05 * rng.standard_normal((n // 2, d)) + 4]).astype(dtype)
    Y = np.concatenate([rng.standard_normal((m, d)), adversarial(X.astype(float), h, m)]).astype(dtype)
    verify(X, Y, h, rtol, backend=transform)


@COLUMNS
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("weighted", [False, True])
def test_debiased_data_are_moved_by_expansions(
    transform: Backend, dtype: str, weighted: bool, d: int, expanded: Expanded
) -> None:
    rng = np.random.default_rng(8)
    X = rng.standard_normal((transform.size(900, 250), d)).astype(dtype)
    w = rng.uniform(0.1, 1, len(X)) if weighted else None
    x, y, weights = map(transform.asarray, (X, X[:40], w))
    for score_bandwidth in (None, 0.8):
        options = {"score_bandwidth": score_bandwidth, "weights": weights}
        moved = transform.asnumpy(cukde.debias(x, 0.6, **options))
        want = reference.debias(X, 0.6, score_bandwidth, w)
        assert np.abs(moved - want).max() <= (2e-6 if dtype == "float32" else 2e-12)
        got = transform.asnumpy(cukde.sd_kde(x, y, 0.6, **options))
        allowed = np.full(40, {"cpu": 1e-5, "gpu": 3e-5}[transform.device] if dtype == "float32" else 1e-11)
        check_log(np.log(got), reference.log_kde(want, X[:40], 0.6, w), allowed)
    assert len(expanded) == 2 * 3  # debias, and both passes of sd_kde
    if transform.name == "numpy":
        assert np.mean([left.mean() for _, left in expanded]) < 0.3  # of the few points of each cell here


@COLUMNS
@pytest.mark.parametrize("form", ["scalar", "vector", "covariance"])
def test_bandwidths_of_every_form(transform: Backend, form: str, d: int) -> None:
    rng = np.random.default_rng(6)
    X, Y = (rng.standard_normal((rows, d)) + 100 for rows in (300, 60))
    factor = 0.2 * np.array([[1.0, 0, 0], [0.3, 0.7, 0], [-0.2, 0.1, 1.2]])[:d, :d]
    h = {"scalar": 0.2, "vector": np.diag(factor), "covariance": factor @ factor.T}[form]
    verify(X, Y, h, 1e-4, backend=transform)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    rtol=st.sampled_from([0.1, 1e-3, 1e-6, 1e-10, None]),
    dtype=st.sampled_from(["float32", "float64"]),
    weighted=st.booleans(),
    d=st.sampled_from(plane_plan.COLUMNS),
)
def test_any_clusters(seed: int, rtol: float | None, dtype: str, weighted: bool, d: int) -> None:
    rng = np.random.default_rng(seed)
    h, clusters = 10 ** rng.uniform(-3, 1), rng.integers(1, 6)
    of = rng.integers(clusters, size=400)
    spread, apart = (h * 10 ** rng.uniform(low, high, (clusters, 1)) for low, high in ((-2, 2), (-1, 1.5)))
    centres = apart * rng.standard_normal((clusters, d))
    X = (centres[of] + spread[of] * rng.standard_normal((400, d))).astype(dtype)
    # In float64 only: rounding is judged by the nearest point, which may be one of hardly any weight.
    weights = 10.0 ** rng.uniform(-12, 0, clusters)[of] if weighted and dtype == "float64" else None
    with (
        mock.patch.object(plane_passes, "_worth", return_value=True),
        only("plane"),
        mock.patch.object(plane_passes, "_PAIR_COST", 1e9 if rng.uniform() < 0.7 else plane_passes._PAIR_COST),
    ):
        verify(X, adversarial(X.astype(float), h, 120, seed).astype(dtype), h, rtol, weights)


class TestWork:
    """Which pass takes two or three columns."""

    @pytest.fixture
    def summed(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        """Numbers of queries that are summed pair by pair."""
        found: list[int] = []
        sums = pairs_passes.partial_sums

        def counted(X: Any, Y: Any, *args: Any, **kwargs: Any) -> Any:
            found.append(len(Y))
            return sums(X, Y, *args, **kwargs)

        monkeypatch.setattr(pairs_passes, "partial_sums", counted)
        return found

    @COLUMNS
    @pytest.mark.parametrize("rtol", [1e-5, None])
    def test_expansions_take_most_queries_of_wide_bandwidths(
        self, rtol: float | None, d: int, summed: list[int]
    ) -> None:
        X = np.random.default_rng(0).standard_normal((30000, d)).astype(np.float32)
        cukde.kde(X, X, 0.5, rtol=rtol)
        assert sum(summed) < {2: 300, 3: 900}[d]

    @COLUMNS
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_both_ways_agree(self, dtype: str, d: int, monkeypatch: pytest.MonkeyPatch) -> None:
        X = np.random.default_rng(0).standard_normal((6000, d)).astype(dtype)
        Y = 1.5 * X[:2000]
        monkeypatch.setattr(plane_passes, "_PAIR_COST", 1e9)
        left, expand = [], plane_passes._expand
        monkeypatch.setattr(plane_passes, "_expand", lambda *args: (expand(*args), left.append(args[-1].mean()))[0])
        ways = []
        for worth in (True, False):
            monkeypatch.setattr(plane_passes, "_worth", lambda *arguments, worth=worth: worth)
            with meanwhile.within(meanwhile.WAITING):
                ways.append((cukde.kde(X, Y, 0.5), 0.5 * cukde.score(X, Y, 0.5)))
        (density, score), (by_pairs, score_by_pairs) = ways
        tolerance = 2e-5 if dtype == "float32" else 2e-12
        assert np.abs(density / by_pairs - 1).max() <= tolerance
        assert np.abs(score - score_by_pairs).max() <= 5 * tolerance
        assert len(left) == 2  # of one way
        assert max(left) < 0.2

    @COLUMNS
    @pytest.mark.parametrize(("h", "rtol"), [(0.01, 1e-5), (0.01, None), (0.5, 0.0), (0.5, 1e-14)])
    def test_pairs_take_narrow_ones_and_small_tolerances(
        self, h: float, rtol: float | None, d: int, summed: list[int]
    ) -> None:
        X = np.random.default_rng(0).standard_normal((30000, d))
        cukde.kde(X, X[:2000], h, rtol=rtol)
        assert sum(summed) == 2000


@COLUMNS
@pytest.mark.parametrize("output", plane_plan.SERVED)
@pytest.mark.parametrize("rtol", [1e-2, 1e-6, plane_plan.LEAST_RTOL])
def test_the_bound_of_a_line_is_no_less_than_its_error(rtol: float, output: Output, d: int) -> None:
    plan = plane_plan.plan(1.0, rtol, output, d)
    rho = plan.width / 2
    edge = np.linspace(-1, 1, 21)
    basis = edge[:, None] ** np.arange(plan.order)
    slopes = np.arange(plan.order) * edge[:, None] ** np.maximum(0, np.arange(plan.order) - 1) / rho
    used = []
    for o in range(plan.reach + 1):
        apart = (edge[:, None] - edge) * rho + 2 * rho * o  # queries by points
        exact = np.exp(-0.5 * apart**2)
        T, error = plan.translation[o + plan.reach], plan.error[o + plan.reach]
        off = np.abs(basis @ T @ basis.T - exact).max()
        most = exact.max()
        if output == "moments":
            off = max(off, np.abs(slopes @ T @ basis.T + apart * exact).max())
            most = max(most, np.abs(apart * exact).max())
        assert off <= error
        assert most <= plan.most[o + plan.reach] * (1 + 1e-12)
        assert exact.min() <= plan.mean[o + plan.reach] <= exact.max()
        used.append(off / error)
    if rtol > plane_plan.LEAST_RTOL:  # where rounding does not decide; a tenth of that would be 10 times too loose
        assert max(used) > 0.02
    assert plan.mean.sum() == pytest.approx(np.sqrt(2 * np.pi) / plan.width)  # of data spread evenly


@pytest.mark.parametrize("output", plane_plan.SERVED)
@pytest.mark.parametrize("rtol", [1e-2, 1e-6, plane_plan.LEAST_RTOL])
def test_the_bound_of_a_line_is_that_of_the_formula(rtol: float, output: Output) -> None:
    """No looser, which no accuracy would show."""
    plan = plane_plan.plan(1.0, rtol, output, 2)
    P, rho = plan.order, plan.width / 2
    missed = np.zeros(2)  # of values, and of derivatives
    for i, k in itertools.product(range(P + 24), repeat=2):
        if max(i, k) >= P:
            size = (rho / 2) ** (i + k) * math.sqrt(math.factorial(i + k)) / math.factorial(i) / math.factorial(k)
            size *= (1 if i == 0 else 2) * (1 if k == 0 else 2)
            missed += size, k * k / rho * size if output == "moments" else 0
    gap = plan.width * np.maximum(0, np.abs(np.arange(-plan.reach, plan.reach + 1)) - 1)
    sizes = np.abs(plan.translation).sum(axis=2)
    rounded = sizes.sum(axis=1)
    if output == "moments":
        rounded = np.maximum(rounded, sizes @ np.arange(P) / rho)
    error = 1.0865 * missed.max() * np.exp(-(gap**2) / 4) + 8 * 2.0**-52 * rounded
    np.testing.assert_allclose(plan.error, error, rtol=1e-6)
    R = plan.width * plan.reach
    np.testing.assert_allclose(plan.beyond, (R if output == "moments" else 1) * math.exp(-(R**2) / 2), rtol=1e-9)


@COLUMNS
@pytest.mark.parametrize("output", plane_plan.SERVED)
@pytest.mark.parametrize("rtol", [1e-2, 1e-6, plane_plan.LEAST_RTOL])
def test_the_bound_of_a_cell_is_no_less_than_its_error(rtol: float, output: Output, d: int) -> None:
    """By cells at random offsets: E of the recursion, coordinate by coordinate."""
    plan = plane_plan.plan(1.0, rtol, output, d)
    rng = np.random.default_rng(1)
    for _ in range(40):
        offsets = rng.integers(-2, 3, d)
        x, y = (np.sign(rng.uniform(-1, 1, (30, d))) * rng.uniform(0.7, 1, (30, d)) for _ in range(2))
        apart = (0.5 * (y[:, None] - x) + offsets) * plan.width
        of_line, bound, most = np.ones((30, 30)), 0.0, 1.0
        for k, o in enumerate(offsets + plan.reach):
            powers = np.arange(plan.order)
            of_line = of_line * (y[:, k, None] ** powers @ plan.translation[o] @ (x[:, k, None] ** powers).T)
            bound = bound * (plan.most[o] + plan.error[o]) + most * plan.error[o]
            most *= plan.most[o]
        assert np.abs(of_line - np.exp(-0.5 * (apart**2).sum(axis=-1))).max() <= bound


def shares(X: np.ndarray, w: np.ndarray, Y: np.ndarray, plan: plane_plan.Plan) -> np.ndarray:
    """How much of the tolerance the bound of each query uses up, by all cells: more than 1 is left to pairs."""
    o = np.floor(Y / plan.width)[:, None] - np.floor(X / plan.width)
    near = (np.abs(o) <= plan.reach).all(axis=2)
    o = np.where(near[..., None], o, 0).astype(int) + plan.reach
    most, error = plan.most[o], plan.error[o]
    off = most.prod(axis=2) * np.expm1(np.log1p(error / most).sum(axis=2))
    bound = (np.where(near, off, plan.beyond) * w).sum(axis=1)
    mean = (near * w * plan.mean[o].prod(axis=2)).sum(axis=1)
    total = np.exp(reference.log_kde(X, Y, plan.bandwidth, w) - reference.log_constant(plan.bandwidth, X.shape[1]))
    with np.errstate(divide="ignore"):
        used = np.maximum(bound / mean, bound * (1 + plan.rtol) / (total * w.sum())) / plan.rtol
    return np.where(near.any(axis=1), used, np.inf)


def loaded(d: int, n: int, m: int, width: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points whose weights are of many decades, in cells that hear of each other and others; and queries."""
    rng = np.random.default_rng(d)
    side = 4.0 if d == 2 else 2.5
    X, Y = (width * (rng.uniform(-side, side, (rows, d)) + 40 * rng.integers(0, 2, (rows, 1))) for rows in (n, m))
    return X, 10.0 ** rng.uniform(-8, 8, n), Y


def check_left(X: np.ndarray, w: np.ndarray, plan: plane_plan.Plan, Y: np.ndarray, left: np.ndarray) -> None:
    """Queries are left to pairs where their bound is beyond the tolerance: a tenth or ten times of it would be seen."""
    used = shares(X, w, Y, plan)
    clear = np.abs(np.log(used)) > 1e-4
    np.testing.assert_array_equal(left[clear], used[clear] > 1)
    for low, high in ((0.1, 1), (1, 10)):
        assert ((used > low) & (used < high)).sum() > 5


@COLUMNS
@pytest.mark.parametrize("output", plane_plan.SERVED)
def test_queries_are_left_where_their_bound_is_beyond_the_tolerance(
    transform: Backend, output: Output, d: int, expanded: Expanded
) -> None:
    rtol, h = 1e-6, 0.5
    plan = plane_plan.plan(h, rtol, output, d)
    X, w, Y = loaded(d, 80, transform.size(600, 400), plan.width)
    function = cukde.kde if output == "sum" else cukde.score
    with meanwhile.within(meanwhile.WAITING):
        function(*map(transform.asarray, (X, Y)), h, weights=transform.asarray(w), rtol=rtol)
    ((queries, left),) = expanded
    check_left(X, w, plan, queries, left)


@COLUMNS
def test_numbers_of_cells_are_in_tiles(d: int) -> None:
    layout = plane_cells.LAYOUT[d]
    places = np.random.default_rng(0).integers(0, 2 ** layout.bits[0], (50, 3))
    places[:, 1] %= 2 ** layout.bits[1]
    numbers = [int(plane_cells.number(*place, *layout)) for place in places]
    assert [plane_cells.places(number, *layout) for number in numbers] == [tuple(place) for place in places.tolist()]
    side, second = 2 ** layout.within[1], 2 ** layout.within[0]
    tiles = [(y // second, z // side, x) for x, y, z in places.tolist()]
    assert sorted(range(50), key=numbers.__getitem__) == sorted(range(50), key=lambda i: (tiles[i], numbers[i]))
    assert max(numbers) < plane_cells.OUTSIDE
    lattice = plane_cells.Lattice(d, 1.0, np.zeros(3, np.int64))
    points = places[:, [0, 1, 2] if d == 3 else [0, 2]]
    assert plane_cells.numbers(points + 0.5, lattice).tolist() == numbers
    beside = np.array([[-1.0] + [2.0] * (d - 1), [2.0] * (d - 1) + [2.0 ** layout.bits[2]], [np.nan] * d])
    assert (plane_cells.numbers(beside, lattice) == plane_cells.OUTSIDE).all()


_CHOICE = "cukde.density.plane.gpu.choice"


@pytest.mark.usefixtures("transform")
class TestDevice:
    """The transform of the GPU backend, whose kernels are emulated where there is no GPU."""

    @pytest.fixture
    def transform(self, device: Backend) -> Iterator[Backend]:
        with only("plane"):
            yield device

    @COLUMNS
    def test_most_queries_of_dense_data_are_accepted(self, device: Backend, d: int, expanded: Expanded) -> None:
        rng = np.random.default_rng(7)
        X, Y = rng.standard_normal((1500, d)), rng.standard_normal((200, d))
        verify(X, Y, 0.5 if d == 2 else 0.9, 1e-5, backend=device)
        assert expanded[0][1].mean() < 0.05

    @COLUMNS
    @pytest.mark.parametrize("weighted", [False, True])
    def test_queries_beside_the_data_take_those_around(
        self,
        device: Backend,
        weighted: bool,
        d: int,
        expanded: Expanded,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        passes = importlib.import_module("cukde.density.plane.gpu.passes")
        over_all, sums = [], passes.pairs_passes.partial_sums

        def noted(X: Any, Y: Any, *arguments: Any, **options: Any) -> Any:
            if len(X) == 800:  # or data outside of the grid
                over_all.append(len(Y))
            return sums(X, Y, *arguments, **options)

        monkeypatch.setattr(passes.pairs_passes, "partial_sums", noted)
        rng = np.random.default_rng(11)
        X, Y = rng.standard_normal((800, d)), rng.standard_normal((90, d))
        Y *= rng.uniform(2.5, 4.5, (90, 1)) / np.linalg.norm(Y, axis=1, keepdims=True)
        Y[7] = [60.0] + [0.0] * (d - 1)
        weights = rng.uniform(0.1, 10, 800) if weighted else None
        verify(X, Y, 0.4, 1e-6, weights, backend=device)
        verify_score(X, Y, 0.4, 1e-6, weights, backend=device)
        assert min(left.sum() for _, left in expanded) > 10
        assert max(over_all) < 4 * d  # the far one, and some others at most

    @COLUMNS
    @pytest.mark.parametrize("output", ["density", "score"])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_data_outside_of_the_grid_are_added_as_pairs(
        self,
        device: Backend,
        output: str,
        weighted: bool,
        d: int,
        expanded: Expanded,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(importlib.import_module(_CHOICE), "_CELLS", 2**14)
        ms = plan_gpu.plane_transform_ms
        monkeypatch.setattr(plan_gpu, "plane_transform_ms", lambda shape, products, far: ms(shape, products, 0.0))
        rng = np.random.default_rng(9)
        X = rng.standard_normal((1000, d))
        X[::200] *= 500
        X[50] = [4.0] + [0.0] * (d - 1)  # just outside of most of them
        Y = np.concatenate([rng.standard_normal((50, d)), X[::50] + 0.1])
        weights = rng.uniform(0.1, 10, 1000) if weighted else None
        check = verify if output == "density" else verify_score
        check(X, Y, 0.6, 1e-6, weights, backend=device)
        assert 0 < expanded[0][1].mean() < 0.5

    @COLUMNS
    def test_a_cell_of_many_points_is_summed_in_parts(
        self, device: Backend, d: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        expansions = importlib.import_module("cukde.density.plane.gpu.expansions")
        monkeypatch.setattr(expansions, "_POINTS_OF_PART", 50)
        X = np.random.default_rng(3).standard_normal((700, d))
        verify(X, X[:50], 3.0, 1e-6, backend=device)
        verify_score(X, X[:50], 3.0, 1e-6, backend=device)

    @COLUMNS
    @pytest.mark.parametrize("points", [100, 49, 50, 51])
    def test_a_cell_at_the_edges_of_parts(
        self,
        device: Backend,
        points: int,
        d: int,
        expanded: Expanded,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Beside a cell of 30 points, so that parts do not begin at multiples; no query is left to pairs."""
        monkeypatch.setattr(importlib.import_module("cukde.density.plane.gpu.expansions"), "_POINTS_OF_PART", 50)
        X = 0.5 + 0.01 * np.random.default_rng(3).standard_normal((30 + points, d))
        X[30:] += 6  # another cell
        verify(X, X[20:40], 1.0, 1e-6, backend=device)
        verify_score(X, X[20:40], 1.0, 1e-6, backend=device)
        assert len(expanded) >= 2
        assert not np.concatenate([left for _, left in expanded]).any()

    @pytest.mark.parametrize(("least", "memory"), [(0, 2**30), (12**2, 2**30), (2**27, 1000)])
    def test_expansions_that_take_too_much_memory_are_not_made(
        self,
        device: Backend,
        least: int,
        memory: int,
        expanded: Expanded,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Of cells of data, of those that translations go to, and of a device with little memory."""
        monkeypatch.setattr(importlib.import_module(_CHOICE), "_NUMBERS", least)
        monkeypatch.setattr(importlib.import_module(_CHOICE), "_NUMBERS_OF_POINT", 0)
        monkeypatch.setattr("cukde.core.gpu.device.memory_bytes", lambda: memory)
        X = 0.5 + 0.01 * np.random.default_rng(7).standard_normal((50, 2))  # all in one cell
        verify(X, 200 * (X - 0.5), 1.0, 1e-5, backend=device)
        assert not expanded


class TestOtherCalls:
    """A tolerance is a permission: sums over all pairs satisfy it."""

    def test_local_factors(self, backend: Backend) -> None:
        rng = np.random.default_rng(1)
        X, factors = backend.asarray(rng.standard_normal((60, 2))), backend.asarray(rng.uniform(1, 2, 60))
        got = cukde.kde(X, X, 0.5, rtol=1e-3, local_factors=factors)
        assert (got == cukde.kde(X, X, 0.5, local_factors=factors)).all()

    def test_data_that_nobody_has_looked_at(self, without_rules: None) -> None:
        X, spoiled = np.random.default_rng(1).standard_normal((2, 60, 2))
        spoiled[:3] = [[np.nan], [np.inf], [-np.inf]]
        got = cukde.kde(spoiled, X, 0.5, rtol=1e-3, check_finite=False)
        np.testing.assert_array_equal(got, cukde.kde(spoiled, X, 0.5, check_finite=False))
        got = cukde.kde(X, spoiled, 0.5, rtol=1e-3, log=True, check_finite=False)
        np.testing.assert_allclose(got[3:], reference.log_kde(X, spoiled[3:], 0.5), atol=2e-3)

    def test_no_queries_and_no_weight(self, without_rules: None) -> None:
        X = np.random.default_rng(1).standard_normal((60, 2))
        assert cukde.kde(X, X[:0], 0.5, rtol=1e-3).shape == (0,)
        one = np.zeros(60)
        one[7] = 2.0
        verify(X, X, 0.5, 1e-3, one)


@COLUMNS
def test_the_same_bits_on_any_number_of_threads(d: int, monkeypatch: pytest.MonkeyPatch, without_rules: None) -> None:
    X = np.random.default_rng(2).standard_normal((2000, d))
    want = cukde.kde(X, X, 0.2, rtol=1e-5)
    threads = importlib.import_module("cukde.core.cpu.threads")
    monkeypatch.setattr(threads, "count", lambda: 1)
    assert (cukde.kde(X, X, 0.2, rtol=1e-5) == want).all()
