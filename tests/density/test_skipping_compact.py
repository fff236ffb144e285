"""Kernels of bounded support over the blocks that a query reaches: no pair that counts is left out, and others are."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from unittest import mock

import numpy as np
import pytest

from cukde.density.kernel_density import kernel_density
from cukde.density.kernels import BOUNDED, edge
from tests import reference
from tests.conftest import Backend
from tests.density.conftest import Modules
from tests.density.test_kernel_density import blocks_left_out
from tests.density.test_skipping import SIZES, Case
from tests.tolerances import KERNEL_DENSITY, KERNEL_DENSITY_OF_SIZE, check

DIMENSIONS = (1, 2, 3, 5, 8, 17)
DTYPES = ("float32", "float64")


def clusters(n: int, m: int, d: int, rng: np.random.Generator) -> Case:
    """Five that do not see each other; every third query sees nothing."""
    centres = 40 * rng.standard_normal((5, d))
    X = centres[np.arange(n) % 5] + 0.3 * rng.standard_normal((n, d))
    Y = centres[np.arange(m) % 5] + 0.3 * rng.standard_normal((m, d))
    Y[::3] += 500
    return Case(X, Y, 0.4 * math.sqrt(d))


def integers(n: int, m: int, d: int, rng: np.random.Generator) -> Case:
    """Points of a lattice, of which many lie at a distance of just the bandwidth."""
    X, Y = (rng.integers(0, 30 if d < 3 else 12, (rows, d)) * 1.0 for rows in (n, m))
    X[:, 3:], Y[:, 3:] = X[:, 3:] // 6, Y[:, 3:] // 6
    return Case(X, Y, 5.0)


def duplicates(n: int, m: int, d: int, rng: np.random.Generator) -> Case:
    """A few places, each of which fills blocks."""
    places = rng.standard_normal((3, d))
    return Case(places[rng.integers(0, 3, n)], places[rng.integers(0, 3, m)] + 0.5 / math.sqrt(d), 0.75)


def outliers(n: int, m: int, d: int, rng: np.random.Generator) -> Case:
    """Points a million deviations out, alone or in pairs."""
    X, Y = rng.standard_normal((n, d)), rng.standard_normal((m, d))
    X[::50] *= 1e6
    Y[::40] = X[::50][: len(Y[::40])]
    return Case(X, Y, 0.4 if d == 1 else math.sqrt(2 * d - 1.7))


def far_from_zero(n: int, m: int, d: int, rng: np.random.Generator) -> Case:
    """Coordinates hold few digits of what tells points apart."""
    return Case(
        1e5 + rng.standard_normal((n, d)), 1e5 + rng.standard_normal((m, d)), 0.4 if d == 1 else math.sqrt(2 * d - 1.7)
    )


def weighted(n: int, m: int, d: int, rng: np.random.Generator) -> Case:
    """Weights of any size, and zeros: a whole cluster of them, and every fifth row."""
    case = clusters(n, m, d, rng)
    w = 10.0 ** rng.uniform(-6, 3, n)
    w[np.arange(n) % 5 == 2] = 0
    w[::7] = 0
    w[0] = 1
    return case._replace(w=w)


def themselves(n: int, m: int, d: int, rng: np.random.Generator) -> Case:
    """The data at the data."""
    return clusters(n, m, d, rng)._replace(Y=None)


HARD: dict[str, Callable[[int, int, int, np.random.Generator], Case]] = {
    "clusters": clusters,
    "integers": integers,
    "duplicates": duplicates,
    "outliers": outliers,
    "far from zero": far_from_zero,
    "weighted": weighted,
    "themselves": themselves,
}


def density(backend: Backend, case: Case, kernel: str, *, left_out: bool, log: bool = False) -> np.ndarray:
    """By the pass that leaves out blocks, or by that which takes all pairs."""
    X, w = backend.asarray(case.X), backend.asarray(case.w)
    Y = X if case.Y is None else backend.asarray(case.Y)
    with blocks_left_out(whatever=left_out):
        return backend.asnumpy(kernel_density(X, Y, case.h, kernel=kernel, weights=w, log=log))


def verify(backend: Backend, case: Case, kernel: str) -> np.ndarray:
    """Check densities and their logarithms against the formula, and what counts against all pairs."""
    got = density(backend, case, kernel, left_out=True)
    p, size = reference.kernel_density(case.X, case.queries, case.h, kernel, case.w)
    name = str(got.dtype)
    allowed = KERNEL_DENSITY[name].value * p + KERNEL_DENSITY_OF_SIZE.value * size + np.finfo(name).tiny
    check(np.abs(got.astype(np.float64) - p), allowed, f"density by {kernel}")
    np.testing.assert_array_equal(got > 0, density(backend, case, kernel, left_out=False) > 0)
    logs = density(backend, case, kernel, left_out=True, log=True)
    np.testing.assert_array_equal(logs == -np.inf, got == 0)
    return got


def of(dtype: str, case: Case) -> Case:
    """The same with points of a dtype."""
    return case._replace(X=case.X.astype(dtype), Y=None if case.Y is None else case.Y.astype(dtype))


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", BOUNDED)
@pytest.mark.parametrize("name", HARD)
def test_densities_match_the_formula(backend: Backend, name: str, kernel: str, dtype: str, d: int) -> None:
    n, m = backend.size(1500, 450), backend.size(300, 150)
    got = verify(backend, of(dtype, HARD[name](n, m, d, np.random.default_rng(d))), kernel)
    assert (got > 0).mean() > 0.3
    if name in ("clusters", "weighted"):
        assert (got[::3] == 0).all()


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "m"), SIZES)
def test_sizes_off_the_blocks(backend: Backend, n: int, m: int, dtype: str, d: int) -> None:
    verify(backend, of(dtype, weighted(n, m, d, np.random.default_rng(d))), "linear")
    verify(backend, of(dtype, themselves(n, m, d, np.random.default_rng(d))), "tophat")


@pytest.mark.parametrize("at", [0.0, 1000.0])
@pytest.mark.parametrize("h", [0.37, 5.0, 3e5])
@pytest.mark.parametrize("d", [*DIMENSIONS, 64])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rounding_of_boxes_leaves_out_no_pair(backend: Backend, dtype: str, d: int, h: float, at: float) -> None:
    """Boxes are points, 64 times the same, about as far from a query as the bandwidth: each counts or does not."""
    rng = np.random.default_rng(d)
    count = backend.size(200, 24)
    steps = rng.standard_normal((count, d))
    lengths = h * (1 + 10.0 ** rng.uniform(-17, -5, count) * rng.choice((-1, 1), count))
    steps *= (lengths / np.linalg.norm(steps, axis=1))[:, None]
    centre = np.full(d, at + 0.3)
    X, Y = np.repeat(centre + steps, 64, axis=0), np.repeat(centre[None], 70, axis=0)
    case = of(dtype, Case(X, Y, h))
    logs = density(backend, case, "tophat", left_out=True, log=True)
    if backend.name != "numpy":  # whose passes round squared distances differently
        np.testing.assert_array_equal(logs, density(backend, case, "tophat", left_out=False, log=True))
    differences = case.X[::64].astype(np.float64) - case.queries[0].astype(np.float64)
    q = (differences**2).sum(axis=1) / h**2
    rounding = (d + 4) * 2.0**-52
    found = count * np.exp(logs.astype(np.float64) + reference.radial_log_integral("tophat", d) + d * math.log(h))
    assert (found >= 0.999 * (q < 1 - rounding).sum()).all()
    assert (found <= 1.001 * (q < 1 + rounding).sum()).all()


@pytest.mark.parametrize("d", [1, 2, 8])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", BOUNDED)
def test_blocks_at_just_a_bandwidth_do_not_count(backend: Backend, kernel: str, dtype: str, d: int) -> None:
    """Blocks of equal points at a distance of just h, and of the next number below it."""
    X = np.zeros((256, d))
    X[:, -1] = np.repeat([3.0, np.nextafter(np.dtype(dtype).type(3.0), 0), -3.0, -3.1], 64)
    got = verify(backend, of(dtype, Case(X, np.zeros((3, d)), 3.0)), kernel)
    assert (got > 0).all()
    X[64:128, -1] = 3.0
    assert (verify(backend, of(dtype, Case(X, np.zeros((3, d)), 3.0)), kernel) == 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1e-11, 1e-6, 1e11])
@pytest.mark.parametrize("d", [1, 3, 5])
def test_data_of_any_size(backend: Backend, d: int, size: float, dtype: str) -> None:
    case = clusters(backend.size(1000, 300), 100, d, np.random.default_rng(d))
    assert case.Y is not None
    case = of(dtype, Case(size * case.X, size * case.Y, size * case.h))
    left_out, all_pairs = (density(backend, case, "linear", left_out=left_out, log=True) for left_out in (True, False))
    assert np.isfinite(left_out).sum() > 50
    np.testing.assert_allclose(left_out, all_pairs, rtol=1e-5 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("d", [2, 3, 5])
@pytest.mark.parametrize("form", ["vector", "covariance"])
def test_bandwidths_of_every_form(backend: Backend, form: str, d: int) -> None:
    case = clusters(backend.size(1000, 300), 100, d, np.random.default_rng(d))
    assert case.Y is not None
    deviations = case.h * np.geomspace(0.5, 2, d)
    h = deviations if form == "vector" else np.diag(deviations**2) + 0.05
    case = of("float32", case)
    p, size = reference.kernel_density(case.X, case.Y, h, "cosine")
    with blocks_left_out(whatever=True):
        got = backend.asnumpy(kernel_density(*map(backend.asarray, case[:2]), h, kernel="cosine"))
    check(np.abs(got - p), KERNEL_DENSITY["float32"].value * p + KERNEL_DENSITY_OF_SIZE.value * size, "density")


def test_same_bits_on_every_run(backend: Backend) -> None:
    case = weighted(backend.size(50_000, 900), backend.size(3000, 100), 3, np.random.default_rng(0))
    runs = [density(backend, of("float32", case), "cosine", left_out=True) for _ in range(3)]
    np.testing.assert_array_equal(runs[0], runs[1])
    np.testing.assert_array_equal(runs[0], runs[2])


@pytest.mark.parametrize("d", [1, 2, 5])
def test_points_that_are_not_numbers_add_nothing(gpu: Modules, d: int) -> None:
    """As all pairs have it where nobody has checked; a sample does not see them."""
    case = clusters(450, 150, d, np.random.default_rng(d))
    X, Y, backend = case.X, case.queries, gpu.backend
    X[[3, 77]], X[200, 0], Y[5], Y[10] = np.nan, np.inf, np.nan, -np.inf
    frame = None if d == 1 else gpu.skipping.frame.frame(np.ascontiguousarray(X[np.isfinite(X).all(axis=1)]))
    found = []
    for pays in (True, False):
        with mock.patch.object(gpu.skipping.compact, "look", return_value=gpu.skipping.compact.Look(pays, frame)):
            p = kernel_density(*map(backend.asarray, (X, Y)), case.h, kernel="linear", check_finite=False)
            found.append(backend.asnumpy(p))
    np.testing.assert_allclose(*found, rtol=1e-12)
    assert (found[0] > 0).sum() > 60
    assert found[0][5] == found[0][10] == 0


def of_three_clusters(
    gpu: Modules, d: int, step: np.ndarray, of_second: int, dtype: str
) -> tuple[np.ndarray, np.ndarray]:
    """Which of 128 queries have a sum, and which see the third cluster, whose weights are not numbers.

    Clusters are steps apart. The second has no weight, so that no block has points of the first and the third. Queries
    are at the first and, so many of them, at the third.
    """
    rng = np.random.default_rng(d)
    of_cluster = np.arange(900) % 3
    X = rng.standard_normal((900, d)) + of_cluster[:, None] * step
    weights = np.array([0.0, -1e30, np.nan])[of_cluster]
    Y = rng.standard_normal((128, d))
    Y[128 - of_second :] += 2 * step
    order, squared_h = rng.permutation(128), 16.0 * d
    sees_third = order >= 128 - of_second
    points = [gpu.asarray(a.astype(dtype)) for a in (X, Y[order])]
    scalars = gpu.skipping.compact.Scalars(
        0.25, 16 / squared_h, squared_h, *edge("epanechnikov", d, dtype == "float32")
    )
    frame = None if d == 1 else gpu.skipping.frame.frame(gpu.skipping.frame.sample(points[0]))
    total = gpu.backend.asnumpy(
        gpu.skipping.compact.sums(*points, "epanechnikov", gpu.asarray(weights), scalars, frame).total
    )
    q = ((X[::3, None] - Y[order[~sees_third]]) ** 2).sum(axis=2) / squared_h
    np.testing.assert_allclose(total[~sees_third], np.maximum(1 - q, 0).sum(axis=0), rtol=1e-5)
    return ~np.isnan(total), sees_third


@pytest.mark.parametrize("d", [1, 2, 5, 8, 17])
@pytest.mark.parametrize("dtype", DTYPES)
def test_far_blocks_are_left_out(gpu: Modules, dtype: str, d: int) -> None:
    """By warps too, of the block of which a half is near them."""
    summed, near = of_three_clusters(gpu, d, np.full(d, 100.0), 32, dtype)
    np.testing.assert_array_equal(summed, ~near)


@pytest.mark.parametrize("dtype", DTYPES)
def test_blocks_that_are_far_in_the_last_dimension(gpu: Modules, dtype: str) -> None:
    """Which boxes of blocks have, and those of warps do not."""
    summed, near = of_three_clusters(gpu, 17, 400.0 * (np.arange(17) == 16), 64, dtype)
    np.testing.assert_array_equal(summed, ~near)


def test_blocks_are_shared_by_splits(gpu: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few queries: every split has some of the blocks, and the last have one less."""
    monkeypatch.setattr(gpu.skipping.blocks, "_BLOCKS_OF_SPLIT", 1)
    for n, items in itertools.product((64 * 7, 64 * 300 + 5), (1, 3, 1000)):
        if gpu.backend.name == "emulated" and n > 1000 and items > 3:
            continue
        monkeypatch.setattr(gpu.skipping.blocks, "_ITEMS_OF_MULTIPROCESSOR", items)
        verify(gpu.backend, clusters(n, 70, 2, np.random.default_rng(n)), "linear")
