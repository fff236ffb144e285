"""Densities on product grids against float64 sums, their promised errors; over domains, and of Dask arrays.

Test bodies run on every backend: the CPU, the GPU backend on the host, and a GPU where there is one.
"""

from __future__ import annotations

import math
from typing import Any

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import cukde
import cukde.dask
from cukde.core.cpu import threads as core_threads
from cukde.density.grids import (
    api as grids_api,
    cpu as grids_cpu,
    exact,
    plan as grids_plan,
    spread as grids_spread,
    transform,
)
from cukde.density.plan import compositions as plan_compositions
from tests import reference
from tests.conftest import Backend
from tests.density.test_dask import computed
from tests.tolerances import DENSITY, GRID, check

COVARIANCE = {1: [[0.2]], 2: [[0.2, 0.1], [0.1, 0.3]], 3: [[0.2, 0.1, 0], [0.1, 0.3, -0.1], [0, -0.1, 0.3]]}
COSTS = plan_compositions.Costs(0, 15, 0.7, 15, 3)


def mesh(axes: Any) -> np.ndarray:
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


def direct(X: np.ndarray, axes: Any, h: Any, w: Any = None) -> np.ndarray:
    """Float64 sums at the grid's points."""
    return reference.kde(X, mesh(axes), h, w).reshape([len(g) for g in axes])


def verify(
    backend: Backend, X: np.ndarray, axes: Any, h: Any, w: Any = None, *, algorithm: str = "auto", **options: Any
) -> np.ndarray:
    """Check a density relative to its largest value on the grid; return it."""
    got = cukde.evaluate_grid(backend.asarray(X), axes, h, weights=backend.asarray(w), algorithm=algorithm, **options)
    got = backend.asnumpy(got)
    assert got.dtype == np.result_type(X, *axes)
    want = direct(X, axes, h, w)
    assert got.shape == want.shape
    assert (got >= 0).all()
    allowed = GRID[str(got.dtype)].value * want.max() + np.finfo(got.dtype).tiny
    check(np.abs(got.astype(np.float64) - want), allowed, f"density by {algorithm}")
    return got


def bandwidth(form: str, d: int) -> Any:
    return {"scalar": 0.4, "vector": np.linspace(0.3, 0.7, d), "covariance": np.array(COVARIANCE[d])}[form]


def axes_of(kind: str, d: int, g: int) -> list[np.ndarray]:
    rng = np.random.default_rng(d)
    return {
        "regular": lambda: [np.linspace(-2.5, 2 + k, g + k) for k in range(d)],
        "descending": lambda: [np.linspace(2 + k, -2.5, g + k) for k in range(d)],
        "unequal": lambda: [rng.normal(size=g + k) for k in range(d)],
        "repeated": lambda: [np.repeat(rng.normal(size=g // 2), 2) for _ in range(d)],
        "one": lambda: [rng.normal(size=1) for _ in range(d)],
        "coarse": lambda: [np.linspace(-3.0, 3, 3 + k) for k in range(d)],
        "mixed": lambda: [np.linspace(2.0, -2, g), rng.normal(size=g), np.array([0.1])][:d],
    }[kind]()


@pytest.mark.parametrize("algorithm", ["auto", "exact", "fft"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_grid_matches_reference(backend: Backend, d: int, dtype: str, algorithm: str) -> None:
    rng = np.random.default_rng(d)
    X, w = rng.normal(size=(150, d)).astype(dtype), rng.uniform(0, 1, 150)
    w[::7] = 0
    axes = [g.astype(dtype) for g in axes_of("regular", d, backend.size(12, 8))]
    h = 0.7 if d == 3 else 0.4
    verify(backend, X, axes, h, algorithm=algorithm)
    verify(backend, X, axes, h, w.astype(dtype), algorithm=algorithm)


@pytest.mark.parametrize("form", ["scalar", "vector", "covariance"])
@pytest.mark.parametrize("kind", ["regular", "descending", "unequal", "repeated", "one", "coarse", "mixed"])
def test_axes_and_bandwidths_of_every_form(backend: Backend, kind: str, form: str) -> None:
    X = np.random.default_rng(0).normal(size=(60, 2)) + 1e3
    axes = [g + 1e3 for g in axes_of(kind, 2, 10)]
    for algorithm in ("auto", "fft"):
        verify(backend, X, axes, bandwidth(form, 2), algorithm=algorithm)


def test_a_covariance_in_space(backend: Backend) -> None:
    X = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    axes = [g.astype(np.float32) for g in axes_of("regular", 3, 6)]
    verify(backend, X, axes, bandwidth("covariance", 3) * 4, algorithm="fft")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("d", [2, 3, 4, 5])
def test_exact_numbers_are_right_each_for_itself(
    backend: Backend, d: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = np.random.default_rng(d).normal(size=(200, d)).astype(dtype)
    axes = [np.linspace(-5, 5, 3 + k % 2).astype(dtype) for k in range(d)]
    w = 10.0 ** np.random.default_rng(d).uniform(-6, 3, 200).astype(dtype)
    h = np.linspace(0.6, 1, d)
    want = direct(X, axes, h, w)
    near = want > (1e-30 if dtype == "float32" else 1e-300)
    for few_numbers in (2**17, 0) if backend.name == "numpy" else (0,):  # in the caller's thread, and in several
        monkeypatch.setattr(plan_compositions, "_FEW_ENTRIES", few_numbers)
        got = cukde.evaluate_grid(backend.asarray(X), axes, h, weights=backend.asarray(w), algorithm="exact")
        error = np.abs(backend.asnumpy(got).astype(np.float64) - want)[near] / want[near]
        check(error, np.full(near.sum(), DENSITY["cpu", dtype].value), "exact density")


@settings(max_examples=12, deadline=None)
@given(
    st.integers(1, 3),
    st.sampled_from(["float32", "float64"]),
    st.floats(0.05, 5),
    st.floats(-20, 20),
    st.floats(0.01, 20),
    st.integers(0, 9),
)
def test_auto_keeps_its_promise(d: int, dtype: str, h: float, centre: float, span: float, seed: int) -> None:
    """Whatever the grid, even where it misses most of the data or all of them."""
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(40, d)) * rng.choice([1, 10], (40, 1))).astype(dtype)
    axes = [np.linspace(centre - span, centre + span, int(rng.integers(1, 9))).astype(dtype) for _ in range(d)]
    got = cukde.evaluate_grid(X, axes, h)
    want = direct(X, axes, h)
    # A transform is good to a part of the largest density, exact sums are good to a part of each.
    allowed = GRID[dtype].value * want.max() + DENSITY["cpu", dtype].value * want + np.finfo(dtype).tiny
    assert (np.abs(got - want) <= allowed).all()


@pytest.mark.parametrize("order", grids_plan.ORDERS)
def test_bound_holds_for_a_point_wherever_it_falls_between_cells(order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is not far from what happens: one point's errors do not cancel those of others."""
    monkeypatch.setattr(grids_plan, "ORDERS", (order,))
    axes = [np.linspace(-4, 4, 41)]
    worst = {}
    for goal in (1e-5, 1e-8):
        plan, _ = grids_plan.plan(axes, np.eye(1), 1, goal, COSTS) or pytest.fail("no plan")
        assert plan.error <= goal
        errors = []
        for place in np.linspace(0, 0.2, 9):
            X = np.array([[place]])
            got, error = transform.density(X, None, np.eye(1), plan, cukde.core.dispatch.named("cpu"), judged=True)
            want = direct(X, axes, 1.0)
            errors.append(np.abs(got - want).max() / want.max())
            assert np.abs(got - want).max() <= error
        worst[goal] = max(errors)
        assert worst[goal] <= plan.error + 1e-13
        assert worst[goal] > 1e-3 * plan.error


@pytest.mark.parametrize("order", [5, 8])
def test_interpolation_is_within_the_bound(order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grids_plan, "ORDERS", (order,))
    axes = [np.random.default_rng(0).uniform(-4, 4, 200)]
    plan, _ = grids_plan.plan(axes, np.eye(1), 1, 1e-6, COSTS) or pytest.fail("no plan")
    assert plan.axes[0].places is not None
    for place in np.linspace(0, 0.5, 9):
        X = np.array([[place]])
        got, _ = transform.density(X, None, np.eye(1), plan, cukde.core.dispatch.named("cpu"), judged=False)
        assert np.abs(got - direct(X, axes, 1.0)).max() <= plan.error * 0.4


def test_points_beside_the_grid_count(backend: Backend) -> None:
    """Those within reach; a heavy one far away does not, but its images on the circle of the transform would."""
    X = np.array([[2.0, 0.0], [0.0, -2.5], [0.0, 0.0], [40.0, 3.0], [-7.9, 0.0], [1e6, -1e6]])
    w = np.array([1, 1, 0.1, 100, 1, 1e4])
    verify(backend, X, [np.linspace(-1, 1, 20)] * 2, 0.5, w)
    alone = cukde.evaluate_grid(
        backend.asarray(X), [np.linspace(-1, 1, 20)] * 2, 0.5, weights=backend.asarray(w), algorithm="fft"
    )
    assert backend.asnumpy(alone).argmax() == direct(X, [np.linspace(-1, 1, 20)] * 2, 0.5, w).argmax()


@pytest.mark.parametrize("shift", [4.0, 7.0, 300.0])
def test_a_grid_of_the_tail_is_right_relative_to_itself(backend: Backend, shift: float) -> None:
    X = np.random.default_rng(0).normal(size=(400, 2)) * 0.5
    axes = [np.linspace(shift, shift + 1, 60)] * 2
    verify(backend, X, axes, 0.5)
    verify(backend, X.astype(np.float32), [g.astype(np.float32) for g in axes], 0.5)


@pytest.mark.parametrize("h", [1e-3, 1e-150, 30.0, 1e9])
def test_bandwidths_small_beside_the_steps_and_large_beside_the_grid(backend: Backend, h: float) -> None:
    X = np.random.default_rng(0).normal(size=(50, 2))
    axes = [np.linspace(-1, 1, 9), np.concatenate([X[:3, 1], [0.5]])]
    axes[0][:3] = X[:3, 0]
    if h < 1e-100:
        X, axes = X * (h * 1e3), [g * (h * 1e3) for g in axes]
    verify(backend, X, axes, h)


def test_logarithm(backend: Backend) -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    axes = [np.linspace(-50, 50, 7), np.array([0.0, 300.0])]
    got = backend.asnumpy(cukde.evaluate_grid(backend.asarray(X), axes, 0.5, log=True))
    want = reference.log_kde(X, mesh(axes), 0.5).reshape(7, 2)
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_pairs_are_taken_in_parts(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    axes = [np.linspace(-2, 2, 5), np.linspace(-1, 3, 7)]
    monkeypatch.setattr(grids_api, "_QUERIES", 4)
    verify(backend, X, axes, np.array(COVARIANCE[2]), algorithm="exact")
    monkeypatch.setattr(exact, "_NUMBERS", 1)
    verify(backend, np.tile(X, (8, 1)), axes, 0.5, np.arange(160.0), algorithm="exact")
    monkeypatch.setattr(grids_spread, "_BLOCK", 300)
    monkeypatch.setattr(grids_cpu, "_POINTS", 7)
    verify(backend, np.tile(X, (8, 1)), axes, 0.5, np.arange(160.0), algorithm="fft")


@pytest.mark.parametrize("d", [1, 2, 3])
def test_integral_is_one(backend: Backend, d: int) -> None:
    """The splines of a point add up to 1, so that the sum over a grid of the whole density is 1 by construction."""
    X = np.random.default_rng(d).normal(size=(50, d))
    axis = np.linspace(-10, 10, {1: 100, 2: 60, 3: 36}[d])
    density = backend.asnumpy(cukde.evaluate_grid(backend.asarray(X), [axis] * d, 0.9, algorithm="fft"))
    assert density.sum() * (axis[1] - axis[0]) ** d == pytest.approx(1, abs=1e-12 if d < 3 else 1e-10)


def test_same_bits_whatever_the_threads(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    X = backend.asarray(np.random.default_rng(0).normal(size=(backend.size(20_000, 2000), 2)))
    runs = []
    for threads in (1, 3, 1):
        monkeypatch.setattr(core_threads, "count", lambda threads=threads: threads)
        runs += [
            backend.asnumpy(cukde.evaluate_grid(X, [np.linspace(-3, 3, 40)] * 2, 0.3, algorithm=m))
            for m in ("fft", "exact")
        ]
    for k in (2, 4):
        np.testing.assert_array_equal(runs[0], runs[k])
    np.testing.assert_array_equal(runs[1], runs[5])


def test_forms_of_arguments(backend: Backend) -> None:
    x = np.random.default_rng(0).normal(size=30)
    g = np.linspace(-1, 1, 5)
    want = direct(x[:, None], [g], 0.5)
    X = backend.asarray(x)
    for axes in (g, g.tolist(), [g], (g.tolist(),), g[None], backend.asarray(g), [backend.asarray(g)]):
        got = backend.asnumpy(cukde.evaluate_grid(X, axes, 0.5))
        np.testing.assert_allclose(got, want, rtol=1e-11)
    both = cukde.evaluate_grid(backend.asarray(np.stack([x, x], 1)), np.stack([g, g]), 0.5)
    assert both.shape == (5, 5)
    plane = backend.asarray(np.stack([x, x], 1).astype(np.float32))
    assert cukde.evaluate_grid(plane, [range(3), g.astype(np.float32)], 0.5).dtype == np.float64
    assert cukde.evaluate_grid(plane, [g.astype(np.float16), g.astype(np.float32)], 0.5).dtype == np.float32
    empty = cukde.evaluate_grid(plane, [g, []], 0.5)
    assert empty.shape == (5, 0)
    assert cukde.evaluate_grid(plane, [[], g], 0.5, log=True).shape == (0, 5)


def test_nan_that_nobody_looks_for_harms_nothing(backend: Backend) -> None:
    X = np.random.default_rng(0).normal(size=(30, 2))
    X[3], X[5] = np.nan, np.inf
    for algorithm in ("fft", "exact", "auto"):
        got = cukde.evaluate_grid(
            backend.asarray(X), [np.linspace(-1, 1, 5)] * 2, 0.5, algorithm=algorithm, check_finite=False
        )
        assert got.shape == (5, 5)


def test_arguments_are_checked(backend: Backend) -> None:
    X, g = backend.asarray(np.zeros((3, 2))), np.linspace(-1, 1, 5)
    for error, message, axes, options in (
        (ValueError, "axes must hold 2 arrays of coordinates, one for each column of X; got 1", g, {}),
        (ValueError, "axes must hold 2 arrays of coordinates, one for each column of X; got 3", [g, g, g], {}),
        (ValueError, r"axes\[1\] must have one dimension; got shape \(5, 1\)", [g, g[:, None]], {}),
        (ValueError, r"axes\[0\] must have one dimension; got shape \(\)", [1.0, 2.0], {}),
        (ValueError, r"axes\[1\] must be finite", [g, g * np.nan], {}),
        (TypeError, r"axes\[0\] must hold real numbers", [["a"], g], {}),
        (ValueError, "algorithm must be one of 'auto', 'exact', 'fft'; got 'FFT'", [g, g], {"algorithm": "FFT"}),
        (ValueError, 'log must be False beside algorithm="fft"', [g, g], {"algorithm": "fft", "log": True}),
    ):
        with pytest.raises(error, match=message):
            cukde.evaluate_grid(X, axes, 1.0, **options)
    with pytest.raises(ValueError, match='algorithm="fft" takes data of up to 3 columns; got 4'):
        cukde.evaluate_grid(backend.asarray(np.zeros((3, 4))), [g] * 4, 1.0, algorithm="fft")
    with pytest.raises(ValueError, match='algorithm="fft" needs a grid of a few cells a bandwidth'):
        cukde.evaluate_grid(X, [g, g], 1e-6, algorithm="fft")
    with pytest.raises(ValueError, match="axes must span a grid that fits in memory"):
        cukde.evaluate_grid(backend.asarray(np.zeros((3, 5))), [np.arange(1000.0)] * 5, 1.0)
    with pytest.raises(TypeError, match="axes must be a plain array; got a Dask collection"):
        cukde.evaluate_grid(X, [da.zeros(3), g], 1.0)


def test_plans_are_of_bounded_memory() -> None:
    axes = [np.linspace(-1, 1, 100)] * 3
    assert grids_plan.plan(axes, np.eye(3) * 1e-6, 100, 1e-6, COSTS) is None
    plan, _ = grids_plan.plan(axes, np.eye(3) * 0.01, 100, 1e-6, COSTS) or pytest.fail("no plan")
    assert math.prod(plan.cells) <= grids_plan._CELLS
    assert all(length % 2 == 0 for length in plan.cells)
    assert {grids_plan._fast_length(n) for n in (1, 7, 1161)} == {2, 8, 1200}


DOMAINS: dict[str, tuple[Any, Any]] = {
    "walls": ([(0, 1)] * 3, None),
    "periods": (None, [1.0, 1.0, 1.0]),
    "mixed": ([(0, None), None, (None, 1)], [None, 1.5, None]),
}


def sample(d: int, n: int = 90, dtype: str = "float64") -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(d)
    X, w = rng.random((n, d)), rng.random(n)
    X[0], X[1], w[2::7] = 0, 1, 0
    return X.astype(dtype), w


def at_points(X: Any, axes: Any, h: Any, **options: Any) -> np.ndarray:
    out: np.ndarray = cukde.kde(X.astype(np.float64), mesh(axes).astype(np.float64), h, **options)
    return out.reshape([len(g) for g in axes])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("h", [0.06, 0.4, 2.0])
@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_grids_match_the_density_at_their_points(backend: Backend, d: int, name: str, h: float, dtype: str) -> None:
    """By every method; coordinates outside, in any order, equally spaced and not."""
    X, w = sample(d, backend.size(90, 40), dtype)
    bounds, periods = (None if a is None else a[:d] for a in DOMAINS[name])
    axes = [np.linspace(1.2, -0.2, 15), np.array([0.3, -3.1, 0.0, 0.31]), np.array([1.0, 0.2])][:d]
    axes = [g.astype(dtype) for g in axes]
    want = at_points(X, axes, h, weights=w, bounds=bounds, periods=periods)
    options = {"weights": backend.asarray(w), "bounds": bounds, "periods": periods}
    for algorithm in ("auto", "exact", "fft"):
        if algorithm == "fft" and h * d > 0.3:
            continue
        got = cukde.evaluate_grid(backend.asarray(X), axes, h, algorithm=algorithm, **options)
        got = backend.asnumpy(got)
        assert got.dtype == np.dtype(dtype)
        outside = want == 0
        assert (got[outside] == 0).all()
        assert abs(got - want).max() <= GRID[dtype].value * want.max()
        if algorithm == "exact" and dtype == "float64":
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-300)


def test_a_covariance_may_link_periods(backend: Backend) -> None:
    X, _ = sample(2)
    H = np.array([[0.01, 0.006], [0.006, 0.01]])
    axes = [np.linspace(0, 1, 9), np.linspace(-1, 0.5, 7)]
    want = at_points(X, axes, H, periods=[1.0, None])
    for algorithm in ("auto", "fft"):
        got = cukde.evaluate_grid(backend.asarray(X), axes, H, algorithm=algorithm, periods=[1.0, None])
        assert abs(backend.asnumpy(got) - want).max() <= 1e-10 * want.max()


def test_log_densities_and_coordinates_outside(backend: Backend) -> None:
    X, _ = sample(2)
    axes, options = [np.array([-1.0, 0.5, 2.0]), np.array([0.0, 400.0])], {"bounds": [(0, 1), None]}
    log_p = backend.asnumpy(cukde.evaluate_grid(backend.asarray(X), axes, 0.1, log=True, **options))
    want = at_points(X, axes, 0.1, log=True, **options)
    np.testing.assert_allclose(log_p, want, rtol=1e-12)
    assert np.isneginf(log_p).sum() == 4
    none = cukde.evaluate_grid(backend.asarray(X), [np.array([-1.0, 2.0]), axes[1]], 0.1, **options)
    np.testing.assert_array_equal(backend.asnumpy(none), np.zeros((2, 2)))


def test_mass_over_a_domain_is_1_by_a_transform(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large sample takes a transform of its images, whose masses at walls come back."""
    rng = np.random.default_rng(0)
    X = rng.random((60_000, 2))
    taken: list[int] = []
    one = grids_api.grids_transform.density
    monkeypatch.setattr(
        grids_api.grids_transform, "density", lambda x, *a, **o: taken.append(len(x)) or one(x, *a, **o)
    )
    g = (np.arange(200) + 0.5) / 200
    p = cukde.evaluate_grid(X, [g, g], 0.03, bounds=[(0, 1), (0, 1)])
    assert abs(p.mean() - 1) < 1e-6
    assert len(X) < taken[0] < 3 * len(X)
    np.testing.assert_allclose(p[:2, :3], at_points(X, [g[:2], g[:3]], 0.03, bounds=[(0, 1)] * 2), rtol=1e-8)


def test_many_images_are_no_data_of_a_transform() -> None:
    X, _ = sample(2)
    with pytest.raises(ValueError, match=r'algorithm="fft" needs .* few images of the data over bounds and periods'):
        cukde.evaluate_grid(X, [np.zeros(3), np.zeros(3)], 3.0, algorithm="fft", periods=[1.0, 1.0])


class TestDask:
    axes = (np.linspace(-0.2, 1.1, 7), np.array([0.5, 0.0, 3.0]))

    @pytest.mark.parametrize("algorithm", ["auto", "exact", "fft"])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_blocks_are_averaged(self, weighted: bool, algorithm: Any) -> None:
        X, w = sample(2)
        w[:30] = 0  # a block without weight
        weights: Any = w if weighted else None
        for options in ({}, {"bounds": [(0, 1), None], "periods": [None, 1.5]}):
            want = at_points(X, self.axes, 0.1, weights=weights, **options)
            for x, v in (
                (da.from_array(X, chunks=((30, 0, 60), (1, 1))), weights),
                (X, da.from_array(w, chunks=45) if weighted else None),
            ):
                if v is None and x is X:
                    continue
                got = computed(cukde.evaluate_grid(x, self.axes, 0.1, weights=v, algorithm=algorithm, **options))
                assert abs(got - want).max() <= 1e-10 * want.max()
        log_p = computed(cukde.evaluate_grid(da.from_array(X, chunks=(30, 2)), self.axes, 0.1, weights=w, log=True))
        np.testing.assert_allclose(log_p, at_points(X, self.axes, 0.1, weights=w, log=True), rtol=1e-12)

    def test_many_blocks_dtypes_and_backends(self, backend: Backend) -> None:
        X, _ = sample(1, 40, "float32")
        lazy = da.from_array(backend.asarray(X), chunks=(2, 1))
        got = cukde.evaluate_grid(lazy, np.float32([0.1, 0.5]), 0.2)
        assert got.dtype == np.float32
        assert got.chunks == ((2,),)
        p = backend.asnumpy(got.compute(scheduler="synchronous"))
        np.testing.assert_allclose(p, at_points(X, [np.array([0.1, 0.5])], 0.2), rtol=3e-5)

    def test_what_is_wrong_is_said(self) -> None:
        X, w = sample(2)
        lazy = da.from_array(X, chunks=(50, 2))
        with pytest.raises(TypeError, match="axes must be a plain array; got a Dask collection"):
            cukde.evaluate_grid(X, [lazy[:, 0], w], 0.1)
        bad = X.copy()
        bad[70] = math.nan
        with pytest.raises(ValueError, match=r"X must be finite.* \(block 1 of X\)"):
            computed(cukde.evaluate_grid(da.from_array(bad, chunks=(50, 2)), self.axes, 0.1))
        bad[70] = 7
        with pytest.raises(ValueError, match=r"1 of 40 rows have column 0 outside .* \(block 1 of X\)"):
            computed(cukde.evaluate_grid(da.from_array(bad, chunks=(50, 2)), self.axes, 0.1, bounds=[(0, 1), None]))
