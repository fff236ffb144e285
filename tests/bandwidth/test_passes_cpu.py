"""Cross-validation on the CPU: which rows are summed twice, the limits of both dtypes, and blocks and threads."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from cukde.bandwidth.cpu import tiles
from cukde.density.pairs.cpu import pair_blocks
from tests.private import WorkerPool, bandwidth_cpu as bandwidth_passes, threads as core_threads
from tests.tolerances import DENSITY, check, log_error

DTYPES = ("float32", "float64")
PRECISION = {"float32": "ieee", "float64": "float64"}
ROUNDING = {"float32": 2e-6, "float64": 1e-13}
"""Two orders of the same sums: some eps of kernels' exponents."""

_COEFFICIENTS = np.array([[1.5, -0.7, 0.06, -1.0, 0.3], [1, 0, 0, 0, 0], [0, 0, 0, -2, 0.5]])


def exponents(X: np.ndarray, scale: float) -> np.ndarray:
    """Return scale |x_i - x_j|^2, infinite for a row and itself, from differences in double."""
    D = X.astype(np.float64)[:, None] - X.astype(np.float64)[None]
    q: np.ndarray = scale * (D * D).sum(axis=2)
    np.fill_diagonal(q, np.inf)
    return q


def log_sums(X: np.ndarray, scale: float, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(log sum_{i != j} w_i exp(-q_ij), smallest q_ij of each row)."""
    q = exponents(X, scale)
    terms = np.log(w) - q
    top = terms.max(axis=1)
    return top + np.log(np.exp(terms - top[:, None]).sum(axis=1)), q.min(axis=1)


def check_logs(got: np.ndarray, X: np.ndarray, scale: float, w: np.ndarray, dtype: str) -> None:
    want, near = log_sums(X, scale, w)
    check(np.abs(got - want), log_error("cpu", PRECISION[dtype], near), "log density")


def passes(X: np.ndarray, scale: float, w: np.ndarray | None) -> Iterator[np.ndarray]:
    """What each pass returns, gradients in units that go with the scale."""
    scales = scale * np.array([0.25, 1.0, 3.0])
    logs = bandwidth_passes.leave_one_out(X, scales, w)
    yield logs
    yield bandwidth_passes.least_squares(X, scales, _COEFFICIENTS, w)
    yield scale * bandwidth_passes.likelihood_gradient(X, scale, logs[1], w)
    yield scale * bandwidth_passes.least_squares_gradient(X, scale, _COEFFICIENTS[0], w)
    kernels = np.exp(-np.nan_to_num(exponents(X, scale), posinf=0.0)) * (1 / len(X) if w is None else w)
    totals = kernels.sum(axis=1)
    moments = kernels @ X.astype(np.float64) - totals[:, None] * X
    yield bandwidth_passes.debiased_leave_one_out(X, moments / totals[:, None], totals, scale, w)


def sample(n: int, d: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Normal rows, and weights of two decades."""
    rng = np.random.default_rng(n)
    w = 10 ** rng.uniform(-2, 0, n)
    return rng.standard_normal((n, d)).astype(dtype), w / w.sum()


class TestSettled:
    """A sum beside which what underflowed may count is made again, by log-sum-exp."""

    @pytest.fixture
    def again(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        """Rows that were summed again."""
        rows_again: list[int] = []
        write = tiles.write_far_rows

        def spy(data: np.ndarray, rows: np.ndarray, *others: Any) -> None:
            rows_again.extend(rows.tolist())
            write(data, rows, *others)

        monkeypatch.setattr(tiles, "write_far_rows", spy)
        return rows_again

    @pytest.mark.parametrize(("dtype", "settled", "unsettled"), [("float32", 95, 110), ("float64", 1200, 1300)])
    @pytest.mark.parametrize("weights", ["equal", "skewed"])
    def test_rows_by_their_distance(
        self, again: list[int], dtype: str, settled: float, unsettled: float, weights: str
    ) -> None:
        """Each row but the first is at a known exponent from its nearest, with kernels from 1 to nothing."""
        # Rows on a line, ever further apart.
        q = np.geomspace(0.1, 1e5, 300)
        X = np.concatenate([[0.0], np.cumsum(np.sqrt(2 * q))])[:, None].astype(dtype)
        w = np.full(301, 1 / 301) if weights == "equal" else sample(301, 1, dtype)[1]
        got = bandwidth_passes.leave_one_out(X, np.array([0.5]), None if weights == "equal" else w)[0]
        check_logs(got, X, 0.5, w, dtype)
        _, near = log_sums(X, 0.5, w)
        must, may = set(np.flatnonzero(near > unsettled)), set(np.flatnonzero(near > settled))
        assert must
        assert len(may) < 300
        assert must <= set(again) <= may

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_only_the_bandwidths_that_need_it(self, again: list[int], dtype: str) -> None:
        X, _ = sample(150, 2, dtype)
        scales = np.array([0.5, 1e9, 2.0])
        got = bandwidth_passes.leave_one_out(X, scales, None)
        assert sorted(again) == list(range(150))
        for row, scale in zip(got, scales, strict=True):
            check_logs(row, X, scale, np.full(150, 1 / 150), dtype)

    @pytest.mark.parametrize(("further", "lighter"), [(22.0, 1.0), (45.0, 1e-25)])
    def test_points_beyond_the_nearest_count(self, further: float, lighter: float) -> None:
        """Many of them, or such as weigh more, however small their kernels are beside its own."""
        X = np.full((130, 1), 1e4)
        X[0], X[1], X[64:] = 0, np.sqrt(2 * 2000), -np.sqrt(2 * (2000 + further))
        w = np.ones(130)
        w[1] = lighter
        w /= w.sum()
        check_logs(bandwidth_passes.leave_one_out(X, np.array([0.5]), w)[0], X, 0.5, w, "float64")

    @pytest.mark.parametrize("decades", [11, 13, 30, 250])
    def test_weights_beyond_single_precision(self, decades: int) -> None:
        """Rows near others of next to no weight, far from those that have some."""
        X, w = sample(100, 2, "float32")
        X[50:] += 12
        w[50:] *= 10.0**-decades
        w /= w.sum()
        got = bandwidth_passes.leave_one_out(X, np.array([0.5]), w)[0]
        check_logs(got, X, 0.5, w, "float32")


def pair_sum(q: float, w: float, p: np.ndarray) -> float:
    """Least squares of two rows, each of weight w."""
    v = 1 / (1 - w)
    return float(w * w * (np.exp(-q / 2) * (p[0] + p[1] * q + p[2] * q * q) + 2 * v * np.exp(-q) * (p[3] + p[4] * q)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_far_beyond_the_range_of_squares(dtype: str) -> None:
    """It has a logarithm, and adds nothing to sums of pairs, whose polynomials are out of range."""
    X = np.array([[0.0], [1.0], [3e25 if dtype == "float32" else 1e140]], dtype)
    scales = np.array([0.5, 2.0])
    for row, scale in zip(bandwidth_passes.leave_one_out(X, scales, None), scales, strict=True):
        check_logs(row, X, scale, np.full(3, 1 / 3), dtype)
    got = bandwidth_passes.least_squares(X, scales, _COEFFICIENTS[[0, 0]], None)
    want = [pair_sum(scale, 1 / 3, _COEFFICIENTS[0]) for scale in scales]
    np.testing.assert_allclose(got, want, rtol=2 * DENSITY["cpu", PRECISION[dtype]].value)
    got = bandwidth_passes.least_squares_gradient(X, 0.5, _COEFFICIENTS[0], None)
    np.testing.assert_allclose(got, want[:1], rtol=1e-12)
    # The third row has both of the others at its own distance. Their shares are at most 1, and no digit of logarithms
    # that large says more.
    logs = bandwidth_passes.leave_one_out(X, scales[:1], None)[0]
    for error in (0, -1e-15, 1e-15):
        got = bandwidth_passes.likelihood_gradient(X, 0.5, logs * (1 + error), None)
        assert 0 <= got[0] <= 0.67 * np.float64(X[2, 0]) ** 2


@pytest.mark.parametrize("dtype", DTYPES)
def test_least_squares_of_rows_of_next_to_no_weight(dtype: str) -> None:
    """Their weights beside the largest are no single numbers."""
    X = np.array([[0.0], [1.0], [100.0], [200.0]], dtype)
    w = np.array([1e-60, 1e-60, 0.5, 0.5])
    got = bandwidth_passes.least_squares(X, np.array([0.5]), _COEFFICIENTS[:1], w)
    np.testing.assert_allclose(got, pair_sum(0.5, 1e-60, _COEFFICIENTS[0]), rtol=1e-12)


def test_no_error_is_common_to_all_rows() -> None:
    """A coefficient of the exponent halfway between two single numbers is kept whole."""
    rng = np.random.default_rng(0)
    X = (np.arange(400)[:, None] * 12.0 + rng.uniform(-0.5, 0.5, (400, 1))).astype(np.float32)
    bits = 1 + 2.0**-24
    scale = bits / np.log2(np.e) / 2
    got = bandwidth_passes.leave_one_out(X, np.array([scale]), None)[0]
    want, near = log_sums(X, scale, np.full(400, 1 / 400))
    assert 35 < near.min() < near.max() < 65
    assert abs(np.mean(got - want)) < 4e-7  # 3e-6 with a coefficient that is rounded


class TestBlocks:
    """Cuts of the work change neither what is summed nor, for a number of threads, a bit of it."""

    @pytest.mark.parametrize("count", range(1, 10))
    def test_all_pairs_meet_once_and_none_twice_at_a_time(self, count: int) -> None:
        rounds = list(pair_blocks.rounds(count))
        met = [pair for pairs in rounds for pair in pairs]
        assert sorted(met) == [(i, j) for i in range(count) for j in range(i, count)]
        for pairs in rounds[1:]:
            busy = [i for pair in pairs for i in pair]
            assert len(busy) == len(set(busy))

    def test_number_of_blocks(self) -> None:
        """Rows are in one block or another, and there are not ever more blocks."""
        for n in (2, 256, 257, 40_000, 10**6):
            own = [rows for rows, columns in pair_blocks.run(lambda *pair: pair, n) if rows == columns]
            assert [own[0].start, own[-1].stop] == [0, n]
            assert all(a.stop == b.start for a, b in pairwise(own))
            assert len(own) <= 128

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("size", [34, 129, 200])
    def test_off_the_edges_of_tiles(self, monkeypatch: pytest.MonkeyPatch, dtype: str, size: int) -> None:
        X, w = sample(391, 3, dtype)
        monkeypatch.setattr(pair_blocks, "_LEAST_ROWS", 391)
        whole = list(passes(X, 0.5, w))
        monkeypatch.setattr(pair_blocks, "_LEAST_ROWS", size)
        for got, want in zip(passes(X, 0.5, w), whole, strict=True):
            np.testing.assert_allclose(got, want, rtol=0, atol=ROUNDING[dtype] * np.abs(want).max())
        check_logs(whole[0][1], X, 0.5, w, dtype)

    @pytest.mark.parametrize("dtype", DTYPES)
    def test_same_bits_on_any_number_of_threads(self, monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
        X, w = sample(400, 2, dtype)
        X[::7] *= 40  # of which some are unsettled
        monkeypatch.setattr(pair_blocks, "_LEAST_ROWS", 40)
        monkeypatch.setattr(core_threads, "count", lambda: 1)
        alone = list(passes(X, 0.5, w))
        pool = WorkerPool(lambda: 3)
        monkeypatch.setattr(core_threads, "_workers", pool)
        for threads in (2, 3, 3):
            monkeypatch.setattr(core_threads, "count", lambda threads=threads: threads)
            for got, want in zip(passes(X, 0.5, w), alone, strict=True):
                np.testing.assert_array_equal(got, want)
        pool.close()


@pytest.mark.parametrize("dtype", DTYPES)
def test_units_do_not_change_a_bit(dtype: str) -> None:
    """However large or small: squares of such numbers are out of range."""
    X, w = sample(60, 3, dtype)
    plain = list(passes(X, 0.5, w))
    for exponent in (-100, 100) if dtype == "float32" else (-500, 500):
        unit = 2.0**exponent
        for got, want in zip(passes((X * unit).astype(dtype), 0.5 / unit / unit, w), plain, strict=True):
            np.testing.assert_array_equal(got, want)
