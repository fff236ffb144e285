"""The search of the CPU backend on knots that tempt it, and the points it may take wrongly."""

from __future__ import annotations

import numpy as np
import pytest

from cukde.piecewise.cpu import locate, passes as piecewise_passes
from tests.private import Pieces, rounded_knots

rng = np.random.default_rng(5)
KNOTS = {
    "one piece": [2.0, 3.0],
    "uniform": np.linspace(-1, 1, 257),
    "a third of a unit apart": np.arange(1001) / 3,
    "far from 0": 1e5 + np.arange(65) / 64,
    "nearly uniform": np.arange(100) + rng.uniform(-0.1, 0.1, 100),
    "barely not uniform": np.arange(100) + rng.uniform(-0.3, 0.3, 100),
    "random": np.sort(rng.uniform(-3, 5, 500)),
    "geometric": 2.0 ** -np.arange(100)[::-1],
    "neighbours": np.cumsum(np.full(300, 2.0**-23)) + 1,
    "one outlier": np.concatenate([np.arange(50) * 1e-6, [1e6]]),
    "4,096 random": np.cumsum(rng.exponential(size=4097)),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", KNOTS)
def test_pieces(name: str, dtype: type) -> None:
    knots = np.asarray(KNOTS[name], dtype)
    assert (np.diff(knots) > 0).all()
    x = np.concatenate([np.nextafter(knots, dtype(-np.inf)), knots, np.nextafter(knots, dtype(np.inf))])
    x = np.concatenate([x, rng.uniform(2 * knots[0] - knots[-1], 2 * knots[-1] - knots[0], 5000).astype(dtype)])
    x = np.concatenate([x, [-np.inf, np.inf, np.finfo(dtype).max, -np.finfo(dtype).max, 0.0, -0.0]]).astype(dtype)
    piece = np.empty(len(x), np.uint32)
    locate.locate(x, locate.search(knots), piece)
    np.testing.assert_array_equal(piece, np.searchsorted(knots[1:-1], x, side="right"))


def test_uniform_knots_need_no_table() -> None:
    for name, knots in KNOTS.items():
        uniform = locate.search(np.asarray(knots)).guide.size == 0
        assert uniform == (
            name in ("one piece", "uniform", "a third of a unit apart", "far from 0", "nearly uniform", "neighbours")
        )


def test_random_knots_need_two_comparisons() -> None:
    assert locate.search(np.asarray(KNOTS["random"])).stride <= 2


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_writes_where_it_is_told(dtype: type) -> None:
    prepared = piecewise_passes.prepare(Pieces(np.ones((2, 3, 2)), np.arange(4.0), True), np.dtype(dtype))
    x = np.arange(-1, 5).astype(dtype)
    memory = np.full((8, 2), 7, dtype)
    out = piecewise_passes.evaluate(prepared, x, False, memory[1:-1])
    assert np.shares_memory(out, memory)
    np.testing.assert_array_equal(memory[:, 0], np.array([7, np.nan, 1, 1, 1, 2, np.nan, 7]))
    np.testing.assert_array_equal(memory[:, 0], memory[:, 1])


def test_farther_from_a_knot_than_the_largest_number() -> None:
    """x - knot is infinite where x is not: what the leading coefficients that are not zero make of it."""
    x = np.array([-1.7e308, 0, 1e308, 1.7e308])
    for c, expected in (([0, 0, 5.0], [5, 5, 5, 5]), ([0, 1.0, 0], [0, 1.7e308, np.inf, np.inf])):
        pieces = Pieces(np.array(c).reshape(3, 1, 1), np.array([-1.7e308, 1.7e308]), True)
        y = piecewise_passes.evaluate(piecewise_passes.prepare(pieces, x.dtype), x, False)
        np.testing.assert_array_equal(y, expected)


def test_rounding_keeps_points_in_their_pieces() -> None:
    knots = np.cumsum(rng.uniform(0.01, 1, 200)) - 30
    given = Pieces(rng.standard_normal((4, 199, 1)), knots, True)
    single = rounded_knots(given, np.dtype(np.float32))
    assert (single.knots[:-1] >= knots[:-1]).all()
    assert single.knots[-1] <= knots[-1]
    x = np.float32(knots[1:-1])
    x = np.concatenate([x, np.nextafter(x, np.float32(99)), np.nextafter(x, np.float32(-99))])
    np.testing.assert_array_equal(
        np.searchsorted(single.knots, x, "right"), np.searchsorted(knots, x.astype(float), "right")
    )
    assert rounded_knots(given, np.dtype(np.float64)) is given
