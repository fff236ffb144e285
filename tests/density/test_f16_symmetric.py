"""The symmetric pass on tensor cores, emulated: its kernels and its launcher against float64."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from tests import reference
from tests.density.samples import SHIFT, SYMMETRIC, TOTAL
from tests.tolerances import DENSITY, check as check_errors

OPERAND = {"exact": True, "split": True, "one-term": False}  # kept in two float16 terms?


@pytest.fixture
def gpu(emulated_device):
    """The modules under test, emulated."""
    from cukde.density.pairs.gpu import f16_symmetric, operands as pairs_operands

    return f16_symmetric, pairs_operands


class Sums(NamedTuple):
    """Sums over all data rows at the data."""

    total: np.ndarray
    moments: np.ndarray

    @property
    def shift(self) -> np.ndarray:
        return self.moments / self.total[:, None]


def data(n, d):
    """Points around 3, and a bandwidth at which points have neighbours whatever the dimension."""
    rng = np.random.default_rng(1000 * n + d)
    return (3 + rng.standard_normal((n, d))).astype(np.float32), 0.35 * d**0.5


def formula(X, h):
    X = X.astype(float)
    difference = X[None] - X[:, None]
    phi = np.exp(-(difference**2).sum(axis=2) / (2 * h**2))
    return Sums(phi.sum(axis=1), (phi[:, :, None] * difference).sum(axis=1))


def computed(gpu, X, h, mode, **options):
    symmetric, operands = gpu
    operand, _ = operands.prepare(X, None, X.mean(axis=0, dtype=float), h, split=OPERAND[mode], symmetric=True)
    S, T = symmetric.launch(operand, exact_sums=mode == "exact", **options)
    result = symmetric.finish(operand, S, T, *X.shape, h)
    np.testing.assert_array_equal(result.reference, 0)
    assert result.reference.shape == result.total.shape == (len(X),)
    return Sums(result.total, result.moments)


def check(found, X, h, mode):
    expected = formula(X, h)
    assert np.abs(found.total / expected.total - 1).max() <= TOTAL[mode].value
    assert np.abs(found.shift - expected.shift).max() / h <= SHIFT[mode].value


@pytest.mark.parametrize("n", [1, 5, 127, 128, 129, 300])
@pytest.mark.parametrize("depth", SYMMETRIC)
@pytest.mark.parametrize("mode", OPERAND)
def test_sums_match_the_formula(gpu, mode, depth, n):
    X, h = data(n, SYMMETRIC[depth])
    check(computed(gpu, X, h, mode), X, h, mode)


@pytest.mark.parametrize("chunk", [64, 192, 256, 320, 1024])
@pytest.mark.parametrize("depth", [16, 32])
def test_every_pair_is_summed_once_whatever_the_chunks(gpu, depth, chunk):
    X, h = data(600, SYMMETRIC[depth])
    check(computed(gpu, X, h, "exact", chunk=chunk), X, h, "exact")


def test_points_alone_are_exact(gpu):
    X = np.arange(20, dtype=np.float32)[:, None] * np.ones(16, np.float32) * 3
    found = computed(gpu, X, 1.0, "split")  # the next point is 12 bandwidths away
    np.testing.assert_array_equal(found.total, 1)
    np.testing.assert_array_equal(found.moments, 0)


def test_equal_points_count_each_other(gpu):
    X = np.full((70, 16), 7.0, np.float32)
    found = computed(gpu, X, 1.0, "exact")
    np.testing.assert_allclose(found.total, 70, rtol=1e-6)
    np.testing.assert_allclose(found.moments, 0, atol=1e-4)


@pytest.mark.parametrize("beyond", [False, True])
def test_nothing_is_done_beyond_the_limit(gpu, beyond):
    symmetric, operands = gpu
    X, h = data(130, 16)
    squared_radius = np.zeros(1, np.float32)
    operand, _ = operands.prepare(
        X, None, X.mean(axis=0, dtype=float), h, split=True, symmetric=True, squared_radius=squared_radius
    )
    limit = float(squared_radius[0]) * (0.99 if beyond else 1.0)
    S, T = symmetric.launch(operand, squared_radius=squared_radius, limit=limit)
    assert S.any() == T.any() == (not beyond)


def test_a_radius_that_is_no_number_is_beyond_any_limit(gpu):
    symmetric, operands = gpu
    X, h = data(64, 16)
    operand, _ = operands.prepare(X, None, X.mean(axis=0, dtype=float), h, split=True, symmetric=True)
    S, _ = symmetric.launch(operand, squared_radius=np.full(1, np.nan, np.float32), limit=1e30)
    assert not S.any()


VALUES = {16: 7, 32: 30}  # columns, by those of their operands
KERNELS_OF_VALUES = [(depth, columns) for depth in SYMMETRIC for columns in VALUES]


class TestValues:
    """Sums of values in place of points."""

    @staticmethod
    def values(n, k, dtype="float32"):
        """Values whose sizes go over 60 decades from row to row, and whose last column is tiny beside the first."""
        rng = np.random.default_rng([n, k])
        V = rng.standard_normal((n, k)) * 10 ** rng.uniform(-30, 30, (n, 1))
        V[:, -1] *= 1e-6
        return V.astype(dtype)

    @staticmethod
    def computed(gpu, X, h, V, **options):
        from cukde.density.pairs.gpu import values as pairs_values

        symmetric, operands = gpu
        operand, _ = operands.prepare(X, None, X.mean(axis=0, dtype=float), h, split=True, symmetric=True)
        S, T = symmetric.launch(operand, pairs_values.prepare(V), **options)
        return symmetric.finish_values(V, S, T)

    @staticmethod
    def verify(found, X, h, V):
        n = len(X)
        assert found.reference.shape == found.total.shape == (n,)
        np.testing.assert_array_equal(found.reference, 0)
        total, _ = reference.kernel_sum(X, np.ones((n, 1)), X, h)
        check_errors(np.abs(found.total / total[:, 0] - 1), np.asarray(TOTAL["exact"].value), "total")
        want, size = reference.kernel_sum(X, V, X, h)
        check_errors(np.abs(found.moments - want), DENSITY["gpu", "float32"].value * size, "values")

    @pytest.mark.parametrize("n", [1, 5, 127, 128, 129, 300])
    @pytest.mark.parametrize(("depth", "columns"), KERNELS_OF_VALUES)
    def test_sums_match_the_formula(self, gpu, depth, columns, n):
        X, h = data(n, SYMMETRIC[depth])
        V = self.values(n, VALUES[columns])
        self.verify(self.computed(gpu, X, h, V), X, h, V)

    @pytest.mark.parametrize("chunk", [64, 192, 256, 320, 1024])
    @pytest.mark.parametrize(("depth", "columns"), [(16, 16), (32, 32)])  # passed between warps; from shared phi
    def test_every_pair_is_summed_once_whatever_the_chunks(self, gpu, depth, columns, chunk):
        X, h = data(600, SYMMETRIC[depth])
        V = self.values(600, columns)
        self.verify(self.computed(gpu, X, h, V, chunk=chunk), X, h, V)

    @pytest.mark.parametrize("k", [1, 15, 16, 17, 32])
    def test_values_at_the_edges_of_operands(self, gpu, k):
        X, h = data(140, 3)
        for dtype in ("float32", "float64"):
            V = self.values(140, k, dtype)
            self.verify(self.computed(gpu, X, h, V), X, h, V)

    @pytest.mark.parametrize(("row_tiles", "phi_is_shared"), [(2, False), (4, False), (1, True), (2, True), (3, True)])
    @pytest.mark.parametrize("depth", [16, 32])
    def test_layouts_that_are_not_chosen_are_right(self, gpu, depth, row_tiles, phi_is_shared):
        symmetric, _ = gpu
        of = symmetric.laid_out(16, row_tiles=row_tiles, blocks=2, phi_is_shared=phi_is_shared)
        X, h = data(500, SYMMETRIC[depth])
        V = self.values(500, 9)
        self.verify(self.computed(gpu, X, h, V, chunk=192, tiling=of), X, h, V)

    def test_points_alone_have_their_own_values(self, gpu):
        X = np.arange(20, dtype=np.float32)[:, None] * np.ones(16, np.float32) * 5  # 20 bandwidths apart
        for dtype in ("float32", "float64"):
            V = self.values(20, 3, dtype)
            found = self.computed(gpu, X, 1.0, V)
            np.testing.assert_array_equal(found.total, 1)
            np.testing.assert_array_equal(found.moments, V)

    def test_what_is_far_counts_where_nothing_is_near(self, gpu):
        """Of two points the one has no value of its own, and the other is 12 bandwidths away."""
        X = np.zeros((2, 16), np.float32)
        X[1] = 3
        V = np.array([[0, 1], [1e30, 0]], np.float32)
        self.verify(self.computed(gpu, X, 1.0, V), X, 1.0, V)

    def test_sums_up_to_the_end_of_the_range(self, gpu):
        X = np.zeros((70, 16), np.float32)
        V = np.full((70, 2), 4.5e36, np.float32)
        V[:, 1] = -3e38
        found = self.computed(gpu, X, 1.0, V)
        np.testing.assert_allclose(found.moments[:, 0], 70 * float(V[0, 0]), rtol=3e-5)
        assert (found.moments[:, 1] < -np.finfo(np.float32).max).all()

    @pytest.mark.parametrize(("depth", "columns"), KERNELS_OF_VALUES)
    def test_shared_memory_fits_every_device(self, gpu, depth, columns):
        symmetric, _ = gpu
        for layout in symmetric.every_layout(depth, 3, columns):
            assert symmetric.shared_bytes(depth, 3, columns, layout) <= 99 * 1024

    @pytest.mark.parametrize("rows", [128, 32768, 1 << 20])
    def test_a_block_adds_up_less(self, gpu, rows):
        symmetric, _ = gpu
        assert symmetric.split(rows, symmetric.layout(16, 3, 16), 132).chunk <= 2048


# (row tiles, overlap) of shared phi, each as far as registers and 99 KiB reach.
LAYOUTS = {16: [(2, False), (4, False)], 32: [(2, True), (3, True), (4, False)], 48: [(2, False)], 64: [(2, False)]}


@pytest.mark.parametrize(
    ("depth", "row_tiles", "overlap"), [(depth, *layout) for depth, layouts in LAYOUTS.items() for layout in layouts]
)
def test_layouts_that_are_not_chosen_are_right(gpu, depth, row_tiles, overlap):
    symmetric, _ = gpu
    X, h = data(400, SYMMETRIC[depth])
    for mode in OPERAND:
        of = symmetric.Layout(row_tiles, 2, overlap=overlap)
        check(computed(gpu, X, h, mode, chunk=192, tiling=of), X, h, mode)


@pytest.mark.parametrize("terms", [1, 3])
@pytest.mark.parametrize("depth", SYMMETRIC)
def test_shared_memory_fits_every_device(gpu, depth, terms):
    symmetric, _ = gpu
    for layout in symmetric.every_layout(depth, terms):
        assert symmetric.shared_bytes(depth, terms, 0, layout) <= 99 * 1024


@pytest.mark.parametrize("depth", SYMMETRIC)
@pytest.mark.parametrize("rows", [128, 384, 2048, 32768, 1 << 20, 1 << 26])
@pytest.mark.parametrize("terms", [1, 3])
def test_split_fills_the_device_and_bounds_what_a_block_adds_up(gpu, terms, rows, depth):
    symmetric, _ = gpu
    layout = symmetric.layout(depth, terms)
    cut = symmetric.split(rows, layout, 132)
    owned = layout.rows
    assert cut.chunk % 64 == 0
    assert 64 <= cut.chunk <= 8192
    chunks = -(-rows // cut.chunk)
    assert cut.grid[1] == (chunks + 1) // 2 <= 65535
    for c in {0, chunks // 2, (chunks - 1) // 2}:
        ends = {min((k + 1) * cut.chunk, rows) for k in (c, chunks - 1 - c)} if chunks > 1 else {rows}
        assert sum(-(-end // owned) for end in ends) <= cut.grid[0]
    if rows >= 2048:
        assert cut.grid[0] * cut.grid[1] >= 132
