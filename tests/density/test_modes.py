"""Modes and clusters, against plain mean shift in float64 over all pairs, and maxima that SciPy finds from a grid.

On domains and of Dask arrays against modes of the data and all their images.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import dask.array as da
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from scipy import optimize
from scipy.spatial import distance

import cukde
from cukde.density.arguments import prepare
from cukde.density.modes import merge
from cukde.density.modes.api import Modes
from cukde.density.modes.coordinates import Coordinates
from cukde.density.modes.mean_shift import Field
from tests import reference
from tests.conftest import Backend

# In bandwidths: modes beside those of the oracle in float64, and their rounding in float32 besides; labels are compared
# by where plain mean shift ends, whose last step is below the first of these.
_STILL, _RIGHT, _SAME = 1e-7, 1e-6, 1e-2


def mixture(n: int, d: int, dtype: str = "float64", groups: int = 4, seed: int = 0) -> np.ndarray:
    """Normal groups, of which some overlap."""
    rng = np.random.default_rng([seed, d])
    centres = rng.normal(size=(groups, d)) * 4
    return (centres[rng.integers(groups, size=n)] + rng.normal(size=(n, d))).astype(dtype)


def plain_mean_shift(X: Any, h: Any, weights: Any = None, seeds: Any = None, most: int = 4000) -> np.ndarray:
    """Where mean shift ends from each seed, in bandwidths; every step over all pairs."""
    z, x = (reference.whiten(reference.points(a), h) for a in (X if seeds is None else seeds, X))
    w = np.ones(len(x)) if weights is None else weights
    x, w = x[w > 0], w[w > 0]
    left = np.arange(len(z))
    for _ in range(most):
        squares = distance.cdist(z[left], x, "sqeuclidean")
        shares = w * np.exp(-0.5 * (squares - squares.min(axis=1, keepdims=True)))
        there = shares @ x / shares.sum(axis=1, keepdims=True)
        still = np.linalg.norm(there - z[left], axis=1) <= _STILL
        z[left] = there
        left = left[~still]
        if len(left) == 0:
            return z
    raise AssertionError("the oracle has not converged")


def found(backend: Backend, X: np.ndarray, h: Any, **options: Any) -> Modes:
    """Modes as NumPy arrays, of the form and in the order that is promised."""
    arrays = {name: backend.asarray(a) if isinstance(a, np.ndarray) else a for name, a in options.items()}
    out = cukde.modes(backend.asarray(X), h, **arrays)
    points, log_density, labels = map(backend.asnumpy, out[:3])
    k = len(points)
    assert points.shape == (k, *X.shape[1:])
    assert log_density.shape == (k,)
    assert (np.diff(log_density) <= 1e-7).all()
    assert labels.dtype == np.int64
    assert set(labels) == set(range(k))
    return Modes(points, log_density, labels, out.iterations)


def bandwidths_between(a: np.ndarray, b: np.ndarray, h: Any) -> np.ndarray:
    return np.asarray(np.linalg.norm(reference.whiten(reference.points(a) - reference.points(b), h), axis=1))


def verify(backend: Backend, X: np.ndarray, h: Any, wrong: int = 0, **options: Any) -> Modes:
    """Compare labels with where plain mean shift goes, and modes with maxima."""
    out = found(backend, X, h, **options)
    weights, seeds = options.get("weights"), options.get("seeds")
    ends = reference.whiten(reference.points(out.points[out.labels]), h)
    away = np.linalg.norm(plain_mean_shift(X, h, weights, seeds) - ends, axis=1)
    assert (away > _SAME).sum() <= wrong
    check_maxima(X, h, out, weights)
    return out


def check_maxima(X: np.ndarray, h: Any, out: Modes, weights: Any = None) -> None:
    """A gradient that vanishes, a second derivative that bends down, and the density itself."""
    d = reference.points(X).shape[1]
    points = reference.points(out.points)
    single = np.result_type(out.points) == np.float32
    rounding = 2e-7 * np.linalg.norm(reference.whiten(abs(points), h), axis=1) if single else 0.0
    # Half of a Newton step is more than the error where curvature is at least half of what differences say.
    steps = np.array([newton_step(X, h, y, weights) for y in points])
    assert (np.linalg.norm(steps.reshape(-1, d), axis=1) <= _RIGHT + 2 * rounding).all()
    want = reference.log_kde(X, points, h, weights)
    np.testing.assert_allclose(out.log_density, want, rtol=1e-6 if single else 1e-10, atol=1e-6 if single else 1e-10)


def newton_step(X: np.ndarray, h: Any, y: np.ndarray, weights: Any) -> np.ndarray:
    """The distance to where the gradient vanishes, in bandwidths; no curvature there is upward."""
    d, width = len(y), 1e-4
    steps = np.linalg.cholesky(reference.covariance(h, d)) * width
    beside = np.concatenate([y + steps.T, y - steps.T, y[None]])
    gradients = reference.whiten_gradient(reference.score(X, beside, h, weights), h)
    second = (gradients[:d] - gradients[d : 2 * d]) / (2 * width)
    bends = np.linalg.eigvalsh(0.5 * (second + second.T))
    assert bends.max() < 2e-4
    return np.asarray(np.linalg.solve(second - 1e-9 * np.eye(d), gradients[-1]))


@pytest.mark.parametrize(("d", "dtype"), [(1, "float64"), (2, "float32"), (3, "float64"), (5, "float32")])
def test_clusters_are_those_of_plain_mean_shift(backend: Backend, d: int, dtype: str) -> None:
    X = mixture(backend.size(200, 60), d, dtype)
    out = verify(backend, X, 0.8)
    assert out.points.dtype == dtype
    assert len(out.points) > 1


def test_many_bumps(either: Backend) -> None:
    """So narrow that groups fall into dozens of modes, some of single points."""
    out = verify(either, mixture(200, 2), 0.35)
    assert len(out.points) > 20


def test_every_point_is_its_own_mode(either: Backend) -> None:
    """In more than two columns without second derivatives."""
    X = mixture(150, 4)
    out = found(either, X, 0.02)
    assert len(out.points) == len(X)
    np.testing.assert_allclose(out.points[out.labels], X, atol=1e-12)


@pytest.mark.parametrize("d", [1, 2])
def test_modes_are_those_of_a_fine_grid(either: Backend, d: int) -> None:
    """Every maximum of a grid is climbed by SciPy's optimiser in float64, and no other mode is found."""
    X, h = mixture(300, d), 0.7
    axes = [np.arange(X[:, k].min() - h, X[:, k].max() + h, 0.15 if d == 2 else 0.01) for k in range(d)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    p = reference.log_kde(X, grid.reshape(-1, d), h).reshape(grid.shape[:-1])
    inside = tuple(slice(1, -1) for _ in range(d))
    top = np.ones(p[inside].shape, bool)
    for offset in np.ndindex(*(3,) * d):
        if offset != (1,) * d:
            top &= p[inside] > p[tuple(slice(o, o + n - 2) for o, n in zip(offset, p.shape, strict=True))]
    want = []
    for start in grid[inside][top]:
        climbed = optimize.minimize(
            lambda y: -reference.log_kde(X, y[None], h)[0],
            start,
            jac=lambda y: -reference.score(X, y[None], h)[0],
            method="BFGS",
            options={"gtol": 1e-10},
        )
        want.append((climbed.fun, *climbed.x))
    want.sort()
    out = found(either, X, h)
    assert len(out.points) == len(want)
    np.testing.assert_allclose(out.points, np.array(want)[:, 1:], atol=1e-6 * h)


@pytest.mark.parametrize("h", [[0.6, 1.3, 0.9], "covariance"])
def test_other_bandwidths(either: Backend, h: Any) -> None:
    if h == "covariance":
        h = np.array([[0.8, 0.3, 0.0], [0.3, 1.1, -0.2], [0.0, -0.2, 0.5]])
    verify(either, mixture(150, 3) + 100, h)


def test_weights(backend: Backend) -> None:
    """Among them zeros, whose rows are labelled all the same; one lies far out."""
    X = mixture(backend.size(150, 50), 2)
    w = np.random.default_rng(1).uniform(0, 2, len(X)) ** 3
    w[::7] = 0
    X[0] = 60
    verify(backend, X, 0.8, weights=w)


def test_seeds(either: Backend) -> None:
    X = mixture(150, 2)
    seeds = np.random.default_rng(0).uniform(-9, 9, (40, 2))
    every = found(either, X, 0.8)
    out = verify(either, X, 0.8, seeds=seeds)
    assert out.labels.shape == (40,)
    assert bandwidths_between(out.points[:1], every.points[:1], 0.8)[0] < 1e-6
    one = found(either, X, 0.8, seeds=seeds[:1])
    assert len(one.points) == 1


def test_one_column_given_as_a_vector(either: Backend) -> None:
    X = mixture(1500, 1)[:, 0]
    out = verify(either, X[:200], 0.5)
    assert out.points.ndim == 1
    assert len(X) ** 2 > 2**20  # by the fast transform
    table = found(either, X[:, None], 0.5)
    np.testing.assert_allclose(found(either, X, 0.5).points, table.points[:, 0])
    check_maxima(X, 0.5, table)


@pytest.mark.parametrize("precision", ["ieee", "tf32", "float64"])
def test_precisions(backend: Backend, precision: str) -> None:
    """Modes are found in float64; labels of coarse passes may differ at a border."""
    X = mixture(backend.size(150, 40), 3, "float32")
    out = verify(backend, X, 0.8, wrong=2 if precision == "tf32" else 0, precision=precision)
    assert out.points.dtype == "float32"


def test_offset(either: Backend) -> None:
    X = mixture(150, 2)
    near, far = found(either, X, 0.8), found(either, X + 1e6, 0.8)
    np.testing.assert_array_equal(far.labels, near.labels)
    np.testing.assert_allclose(far.points - 1e6, near.points, atol=1e-6)


def test_same_bits_on_every_run(either: Backend) -> None:
    X = mixture(400, 3, "float32")
    runs = [found(either, X, 0.7, deterministic=True) for _ in range(2)]
    for a, b in zip(runs[0], runs[1], strict=True):
        np.testing.assert_array_equal(a, b)


class TestSteps:
    """A step of mean shift never lowers the density, in whatever field."""

    @settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(d=st.sampled_from([1, 2, 3, 7]), seed=st.integers(0, 1000), form=st.sampled_from(["h", "d", "H"]))
    def test_ascent(self, d: int, seed: int, form: str) -> None:
        rng = np.random.default_rng(seed)
        X, Y = mixture(60, d, seed=seed), rng.uniform(-8, 8, (30, d))
        h = {"h": 0.7, "d": rng.uniform(0.3, 2, d), "H": np.cov(rng.normal(size=(d, d + 3))).reshape(d, d)}[form]
        problem, _ = prepare(X, Y, h)
        field = Field(problem, Coordinates.of(problem.whitening, problem.options.centre, None))
        z = problem.whitening.apply(Y, problem.options.centre, np)
        shift, log_density = field.shift(z)
        np.testing.assert_allclose(log_density, reference.log_kde(X, Y, h), rtol=1e-11, atol=1e-10)
        moved = problem.whitening.restore(z + shift, problem.options.centre)
        np.testing.assert_allclose(
            moved, Y + reference.score(X, Y, h) @ reference.covariance(h, d), rtol=1e-8, atol=1e-8
        )
        gain = field.shift(z + shift)[1] - log_density
        least = 0.5 * (shift**2).sum(axis=1) / field.h**2
        assert (gain >= least * (1 - 1e-9) - 1e-10).all()


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    n=st.integers(1, 30),
    d=st.integers(1, 4),
    dtype=st.sampled_from(["float32", "float64"]),
    seed=st.integers(0, 99),
    repeated=st.booleans(),
)
def test_small_samples(n: int, d: int, dtype: str, seed: int, repeated: bool) -> None:
    X = mixture(n, d, dtype, seed=seed)
    if repeated:
        X = np.repeat(X, 3, axis=0)
    verify(Backend("numpy"), X, 0.9)


class TestShapes:
    """Data that are hard for an iteration."""

    def test_a_single_point(self, either: Backend) -> None:
        out = found(either, np.array([[3.0, -2.0]]), 0.5)
        np.testing.assert_array_equal(out.points, [[3.0, -2.0]])
        assert out.log_density[0] == pytest.approx(-np.log(2 * np.pi * 0.25))

    def test_equal_points(self, either: Backend) -> None:
        out = found(either, np.full((50, 3), 7.5), 0.5)
        np.testing.assert_allclose(out.points, [[7.5] * 3], atol=1e-12)

    def test_equal_bumps_are_in_order_of_their_coordinates(self, either: Backend) -> None:
        X = np.array([[2.0, 1.0], [-2.0, 1.0], [2.0, -1.0], [-2.0, -1.0]])
        out = found(either, X, 0.5)
        signs = [[-1, -1], [-1, 1], [1, -1], [1, 1]]
        np.testing.assert_array_equal(np.sign(out.points), signs)
        np.testing.assert_array_equal(out.labels, [3, 1, 2, 0])

    @pytest.mark.parametrize("h", [0.6, np.diag([0.36, 0.36])])
    def test_a_seed_on_a_saddle_goes_on(self, either: Backend, h: Any) -> None:
        """To the side of the larger coordinate; the sample is symmetric about zero."""
        X = np.array([[-1.0, 0.0], [1.0, 0.0]])
        out = found(either, X, h, seeds=np.array([[0.0, 0.0], [0.0, 3.0], [-0.1, 0.0]]))
        assert len(out.points) == 2
        assert out.points[0, 0] < -0.9
        np.testing.assert_array_equal(out.labels, [1, 1, 0])

    def test_a_minimum_is_left(self, either: Backend) -> None:
        angle = 2 * np.pi * np.arange(3) / 3
        X = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        out = found(either, X, 0.4, seeds=np.zeros((1, 2)))
        check_maxima(X, 0.4, out)
        assert np.linalg.norm(out.points[0]) > 0.9

    def test_two_bumps_about_to_be_one(self, either: Backend) -> None:
        """Two points are one mode up to a distance of two bandwidths, where it is flat to the fourth order."""
        for apart, k in ((1.9, 1), (2.0, 1), (2.0001, 1), (2.1, 2)):
            out = found(either, np.array([[0.0], [apart]]), 1.0)
            assert len(out.points) == k, apart
            if k == 1:
                assert out.points[0, 0] == pytest.approx(apart / 2, abs=0.03)

    def test_a_shoulder_is_climbed(self, either: Backend) -> None:
        """Its slope all but vanishes, so that points settle on it, and Newton's steps from there go too far."""
        X, w = np.array([[0.0], [2.6]]), np.array([1.0, 0.523417])
        least = reference.score(X, np.linspace(1.5, 2.6, 1000), 1.0, w).max()
        assert -3e-4 < least < -1e-4
        out = found(either, X, 1.0, weights=w, seeds=np.linspace(-1, 3, 41)[:, None])
        np.testing.assert_array_equal(out.labels, 0)
        assert out.iterations < 100

    def test_a_plateau(self, either: Backend) -> None:
        """Equally spaced points: the density between them is flat to 1e-8, and the ends are higher nowhere."""
        X = np.arange(40.0)[:, None]
        out = found(either, X, 1.2)
        assert len(out.points) < len(X)
        assert np.ptp(out.log_density) < 1e-6

    def test_outliers_are_modes_of_their_own(self, either: Backend) -> None:
        X = np.concatenate([mixture(100, 2, groups=1), [[1e4, 0.0], [0.0, 3e7]]])
        out = found(either, X, 1.0)
        assert len(out.points) == 3
        np.testing.assert_array_equal(out.points[out.labels[-2:]], X[-2:])

    def test_rows_far_apart(self) -> None:
        """1e9 bandwidths: float64 tells coordinates to 1e-7 of one."""
        X = np.array([[1e9, 0.0], [1e9, 0.5], [-1e9, 0.0]])
        out = found(Backend("numpy"), X, 1.0)
        np.testing.assert_array_equal(out.labels, [0, 0, 1])
        np.testing.assert_allclose(out.points, [[1e9, 0.25], [-1e9, 0]], atol=1e-6)


class TestMerging:
    def test_the_highest_stands_for_those_near_it(self) -> None:
        z = np.array([[0.0], [0.9], [1.8], [5.0], [0.0]])
        kept, cluster = merge.merged(z, np.array([1.0, 3.0, 2.0, 0.0, 1.0]), 1.0)
        np.testing.assert_array_equal(kept, [1, 3])
        np.testing.assert_array_equal(cluster, [0, 0, 0, 1, 0])
        kept, _ = merge.merged(z, np.array([3.0, 2.0, 1.0, 0.0, 3.0]), 1.0)
        np.testing.assert_array_equal(z[kept, 0], [0.0, 1.8, 5.0])  # no chain of neighbours

    @pytest.mark.parametrize("d", [1, 3])
    def test_none_are_closer(self, d: int) -> None:
        rng = np.random.default_rng(0)
        z = rng.normal(size=(500, d))
        z = np.concatenate([z, z[:200]])
        height = rng.normal(size=700)
        kept, cluster = merge.merged(z, height, 0.3)
        between = np.linalg.norm(z[kept][:, None] - z[kept], axis=2)
        assert between[np.triu_indices(len(kept), 1)].min() > 0.3
        assert (np.linalg.norm(z - z[kept][cluster], axis=1) <= 0.3).all()
        assert (np.diff(height[kept]) < 0).all()

    def test_of_modes(self, either: Backend) -> None:
        X = mixture(200, 2)
        many, few = found(either, X, 0.5), found(either, X, 0.5, merge_distance=8.0)
        assert 1 < len(few.points) < len(many.points)
        np.testing.assert_allclose(few.points[0], many.points[0])
        assert len(found(either, X, 0.5, merge_distance=1e6).points) == 1


def test_seeds_that_have_not_converged(either: Backend) -> None:
    X = mixture(200, 2)
    with pytest.warns(cukde.ConvergenceWarning, match=f"{len(X)} of {len(X)} seeds had not reached a maximum after 1 "):
        out = found(either, X, 0.8, max_iterations=1)
    assert out.iterations == 1
    np.testing.assert_allclose(
        out.points[out.labels], X + 0.64 * reference.score(X, X, 0.8), atol=_SAME * 0.8 + 0.1 * 0.8
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found(either, X, 0.8, tolerance=1e-3)


def test_lost_seeds(either: Backend) -> None:
    """With check_finite=False."""
    X = mixture(100, 2)
    seeds = X[:5].copy()
    seeds[1] = np.nan
    with pytest.warns(cukde.ConvergenceWarning, match="1 of 5 seeds"):
        out = cukde.modes(either.asarray(X), 0.8, seeds=either.asarray(seeds), check_finite=False)
    labels = either.asnumpy(out.labels)
    assert labels[1] == -1
    np.testing.assert_array_equal(np.delete(labels, 1) >= 0, True)
    with pytest.warns(cukde.ConvergenceWarning):
        out = cukde.modes(either.asarray(X * np.nan), 0.8, check_finite=False)
    assert either.asnumpy(out.points).shape == (0, 2)


@functools.cache
def _separated() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    truth = np.repeat(np.arange(4), 60)
    return np.array([[0, 0], [9, 0], [0, 9], [9, 9.0]])[truth] + rng.normal(size=(240, 2)), truth


def test_scikit_learn_makes_the_same_clusters() -> None:
    """Of well separated groups, with bandwidths of the same variance a column."""
    cluster = pytest.importorskip("sklearn.cluster", reason="install the test extra")
    X, truth = _separated()
    h = 1.0
    theirs = cluster.MeanShift(bandwidth=2 * h * np.sqrt(4)).fit(X).labels_
    for labels in (cukde.modes(X, h).labels, theirs):
        assert len(set(zip(labels, truth, strict=True))) == 4


class TestErrors:
    X = np.zeros((4, 3))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"seeds": np.zeros((2, 2))}, r"seeds must have 3 columns like X; got shape \(2, 2\)"),
            ({"seeds": np.zeros((0, 3))}, "seeds must have at least one row"),
            ({"seeds": np.full((2, 3), np.nan)}, "seeds must be finite"),
            ({"tolerance": 0}, "tolerance must be at least 1e-09"),
            ({"tolerance": 0.2}, "tolerance must be at most merge_distance"),
            ({"merge_distance": 0}, "merge_distance must be positive"),
            ({"max_iterations": 0}, "max_iterations must be at least 1"),
        ],
    )
    def test_values(self, either: Backend, options: dict[str, Any], message: str) -> None:
        given = {"h": 1.0} | options
        given = {name: either.asarray(a) if isinstance(a, np.ndarray) else a for name, a in given.items()}
        with pytest.raises(ValueError, match=message):
            cukde.modes(either.asarray(self.X), **given)

    def test_dask(self) -> None:
        array = pytest.importorskip("dask.array").ones((4, 3))
        for options in ({"X": array}, {"seeds": array}, {"weights": array[:, 0]}):
            with pytest.raises(TypeError, match="seeds must be an array in memory beside Dask collections"):
                cukde.modes(**({"X": self.X, "h": 1.0} | options))
        with pytest.raises(TypeError, match="h must be a number or a plain array"):
            cukde.modes(self.X, array, seeds=self.X)


RNG = np.random.default_rng(0)
WAITS = np.concatenate([RNG.exponential(1, 90), RNG.normal(4, 0.3, 60)])
ANGLES = np.concatenate([RNG.normal(0, 15, 90), RNG.normal(170, 20, 60)])
BOTH = np.stack([ANGLES, np.concatenate([RNG.exponential(0.5, 90), RNG.beta(5, 1, 60) * 3])], axis=1)
BOTH = BOTH[BOTH[:, 1] <= 3]
DOMAIN: dict[str, Any] = {"bounds": [None, (0, 3)], "periods": [360, None]}


def in_order(found: Any, backend: Backend) -> tuple[np.ndarray, np.ndarray]:
    """Points and labels, in ascending order of the points."""
    points = backend.asnumpy(found.points)
    points = points[:, None] if points.ndim == 1 else points
    order = np.lexsort(points.T[::-1])
    rank = np.argsort(order)
    return points[order], rank[backend.asnumpy(found.labels)]


@pytest.mark.parametrize("side", [1, -1])
def test_a_wall_mirrors_the_data(backend: Backend, side: int) -> None:
    """Modes inside are those of the data and their mirror images; one lies on the wall, and is reported there."""
    x = side * WAITS
    bounds = [(0, None) if side == 1 else (None, 0)]
    found = cukde.modes(backend.asarray(x), 0.3, bounds=bounds)
    points, labels = in_order(found, backend)
    everywhere, all_labels = in_order(cukde.modes(np.concatenate([x, -x]), 0.3), Backend("numpy"))
    want = np.where(abs(everywhere) < 1e-6, 0, everywhere)
    inside = side * want[:, 0] >= 0
    assert (want == 0).any()
    np.testing.assert_allclose(points, want[inside], rtol=0, atol=1e-6)
    assert (points == 0).any()
    np.testing.assert_array_equal(labels, all_labels[: len(x)] - (np.flatnonzero(inside)[0]))
    log_p = cukde.kde(x, points[:, 0], 0.3, log=True, bounds=bounds)
    np.testing.assert_allclose(np.sort(backend.asnumpy(found.log_density)), np.sort(log_p), rtol=0, atol=1e-9)


def test_a_turn_changes_nothing_but_where_modes_are(backend: Backend) -> None:
    """A mode at a period's end is one, with the rows on both sides of it."""
    found = in_order(cukde.modes(backend.asarray(ANGLES), 12.0, periods=[360]), backend)
    assert ((found[0] >= 0) & (found[0] < 360)).all()
    for turn in (90.0, 360.0, -3600.0 + 1e-9):
        points, labels = in_order(cukde.modes(backend.asarray(ANGLES + turn), 12.0, periods=[360]), backend)
        back = (points - turn) % 360
        order = np.argsort(back[:, 0])
        away = abs(back[order] - found[0])
        assert np.minimum(away, 360 - away).max() < 1e-4
        np.testing.assert_array_equal(np.argsort(order)[labels], found[1])
    on_end = np.array([-1.0, 1.0, 359.0, 180.0])
    points = cukde.modes(backend.asarray(on_end), 20.0, periods=[360]).points
    np.testing.assert_allclose(np.sort(backend.asnumpy(points))[-1], 359.666667, atol=1e-3)
    points = cukde.modes(backend.asarray(on_end[:2]), 20.0, periods=[360]).points
    np.testing.assert_array_equal(backend.asnumpy(points), [0.0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_several_columns_have_no_slope_at_modes(either: Backend, dtype: str) -> None:
    """With deviations; and a labelled row climbs to its mode by plain steps of mean shift."""
    backend = either
    x, h = BOTH.astype(dtype), np.array([15.0, 0.2])
    seeds = x[::9]
    found = cukde.modes(backend.asarray(x), h, seeds=backend.asarray(seeds), **DOMAIN)
    points, labels = backend.asnumpy(found.points).astype(np.float64), backend.asnumpy(found.labels)
    assert found.points.dtype == np.dtype(dtype)
    assert (points[:, 1] == 0).any()
    slope = cukde.score(x.astype(np.float64), points, h, **DOMAIN) * h
    assert abs(slope).max() < (1e-5 if dtype == "float64" else 1e-3)
    z = seeds.astype(np.float64)
    for _ in range(500):
        z = z + h**2 * cukde.score(x.astype(np.float64), z, h, **DOMAIN)
        z[:, 1] = np.clip(z[:, 1], 0, 3)
    away = abs((z - points[labels]) / h)
    away[:, 0] = np.minimum(away[:, 0], 360 / 15 - away[:, 0])
    assert (away.max(axis=1) < 0.05).all()


def test_modes_of_two_walls_far_from_zero(backend: Backend) -> None:
    x = 1e4 + np.array([0.0, 0.02, 0.5, 0.51, 1.0, 0.97])
    points = backend.asnumpy(cukde.modes(backend.asarray(x), 0.05, bounds=[(1e4, 1e4 + 1)]).points)
    np.testing.assert_allclose(np.sort(points), 1e4 + np.array([0, 0.505, 1]), atol=1e-7)
    assert {1e4, 1e4 + 1} < set(points.tolist())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"h": np.eye(2)}, "h must be a number or 2 deviations for modes with bounds or periods; got a covariance"),
        ({"seeds": np.array([[0.0, 4.0], [0.0, 1.0]])}, "seeds must lie within bounds; 1 of 2 rows lie outside"),
        ({"bounds": [None, (1, 3)]}, r"X must lie within its bounds; \d+ of \d+ rows have column 1 outside"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], message: str) -> None:
    given = {"h": 1.0} | DOMAIN | options
    with pytest.raises(ValueError, match=message):
        cukde.modes(BOTH, **given)
    if "bounds" not in options:
        with pytest.raises(ValueError, match=message):
            cukde.modes(da.from_array(BOTH, chunks=(40, 2)), **({"seeds": BOTH[:3]} | given))


class TestDask:
    @pytest.mark.parametrize("name", ["number", "deviations", "covariance", "domain", "line"])
    def test_modes_are_those_of_plain_arrays(self, name: str) -> None:
        x = RNG.normal(size=(150, 3)) if name == "covariance" else BOTH
        h = {"number": 1.0, "covariance": 0.2 * np.cov(x.T)}.get(name, np.array([15.0, 0.2]))
        if name == "line":
            x, h = WAITS, 0.3
        w = RNG.uniform(0.5, 1, len(x))
        options: dict[str, Any] = DOMAIN if name == "domain" else {}
        options = {"seeds": x[::5], **options}
        want = cukde.modes(x, h, weights=w, **options)
        lazy = da.from_array(x, chunks=(60, *x.shape[1:]))
        got = cukde.modes(lazy, h, weights=da.from_array(w, chunks=60), **options)
        assert isinstance(got.points, np.ndarray)
        np.testing.assert_allclose(got.points, want.points, rtol=0, atol=2e-6 * np.max(h))
        np.testing.assert_allclose(got.log_density, want.log_density, rtol=0, atol=1e-9)
        np.testing.assert_array_equal(got.labels, want.labels)

    def test_dtypes_and_warnings(self) -> None:
        x = BOTH.astype(np.float32)
        with pytest.warns(cukde.ConvergenceWarning, match="seeds had not reached a maximum after 1 steps") as caught:
            found = cukde.modes(da.from_array(x, chunks=(60, 2)), [15.0, 0.2], seeds=x[:40], max_iterations=1)
        assert caught[0].filename == __file__
        assert found.points.dtype == np.float32
