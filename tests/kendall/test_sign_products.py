"""Products of signs of pairs of samples against sums over all pairs: emulated, and on a GPU where there is one."""

from __future__ import annotations

import itertools
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.kendall.sign_cases import TIES, by_brute_force, has_ties, ranks
from tests.private import sign_chunks, sign_tiles


@pytest.fixture(params=["bits", "bytes"])
def module(request: pytest.FixtureRequest, device: Any, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The launcher on a device that multiplies bits, or one that does not."""
    from cukde.kendall.gpu import sign_products

    monkeypatch.setattr(sign_products, "in_bits", lambda capability: request.param == "bits")
    return sign_products


def check(module: ModuleType, x: np.ndarray, y: np.ndarray | None, n: int | None = None) -> None:
    """Compare with brute force; with `n`, columns from there on are not part of the data."""
    from tests.private import gpu_arrays as core_arrays

    n = x.shape[1] if n is None else n
    samples = [None if r is None else r[:, :n] for r in (x, y)]
    tied = [None if r is None else has_ties(r) for r in samples]
    got = module.products(*(None if r is None else core_arrays.asarray(r) for r in (x, y)), n, *tied)
    want = by_brute_force(samples[0], samples[0] if y is None else samples[1])
    for sums, expected in zip(got, want, strict=True):
        assert sums.dtype == np.int64
        np.testing.assert_array_equal(core_arrays.asnumpy(sums), expected)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize(("p", "n"), [(1, 2), (3, 31), (5, 32), (64, 33), (90, 40), (150, 65), (250, 40)])
def test_rows_with_themselves(module: ModuleType, p: int, n: int, ties: str) -> None:
    """Small tiles and large ones, one and several; samples off and on the edges of items."""
    check(module, ranks(p, n, TIES[ties](p)), None)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize(("p", "q"), [(1, 1), (70, 3), (100, 200)])
def test_rows_with_others(module: ModuleType, p: int, q: int, ties: str) -> None:
    check(module, ranks(p, 50, TIES[ties](p)), ranks(q, 50, TIES[ties](q)[::-1], seed=1))


@pytest.mark.parametrize("others", [False, True])
def test_ties_in_one_argument_only(module: ModuleType, others: bool) -> None:
    x, y = ranks(80, 40, np.full(80, others)), ranks(70, 40, np.full(70, not others))
    check(module, x, y)


@pytest.mark.parametrize("ties", TIES)
def test_several_launches_and_parts(module: ModuleType, monkeypatch: pytest.MonkeyPatch, ties: str) -> None:
    """21 items, a few at a time."""
    monkeypatch.setattr(sign_tiles, "_PLANE_BYTES", 2**16)
    monkeypatch.setattr(sign_tiles, "_FEWEST_SLABS", 16)
    launches = list(sign_chunks(170, 64, bits=False))
    assert len(launches) > 2
    assert launches[0][0] == 0
    assert all(first + count == after for (first, count), (after, _) in itertools.pairwise(launches))
    assert sum(launches[-1]) == 21
    check(module, ranks(9, 170, TIES[ties](9)), None)


def test_a_tile_does_not_overtake_the_one_before(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that work on several tiles, whose last stage is where the next tile's first one goes."""
    monkeypatch.setattr(sign_tiles, "_PLANE_BYTES", 0)
    monkeypatch.setattr(sign_tiles, "_FEWEST_SLABS", 2)
    check(module, ranks(250, 60, TIES["ties"](250)), None)


def test_all_ranks_and_their_neighbours(module: ModuleType) -> None:
    """Codes of neighbours, around the middle and at both ends, where their differences are least and largest."""
    most = sign_tiles.MOST_SAMPLES
    near = np.concatenate([np.arange(c - 6, c + 7) for c in (31_743, 32_767, 30_719, 8_192)])
    ends = np.r_[0:8, most - 8 : most]
    some = np.random.default_rng(0).permutation(np.concatenate((near, ends, near[::3]))).astype(np.uint32)
    check(module, np.stack((some, some[::-1], np.sort(some))), None)


def test_codes_are_in_the_order_of_ranks(module: ModuleType) -> None:
    """Every one, and what comes after the samples is zero."""
    from tests.private import gpu_arrays as core_arrays

    n = sign_tiles.MOST_SAMPLES
    x = core_arrays.asarray(np.arange(n, dtype=np.uint32)[None])
    codes = core_arrays.asnumpy(module._codes(x, None, core_arrays.asarray(np.array([0, -1], np.int32)), n))
    values = codes[:, 0].ravel().view(np.float16)
    assert np.isfinite(values).all()
    assert (np.diff(values[:n].astype(np.float64)) > 0).all()
    assert not np.signbit(values[values == 0]).any()
    assert not values[n:].any()
    assert not codes[:, 1].any()


def test_what_comes_after_the_samples_is_not_looked_at(module: ModuleType) -> None:
    x = np.full((3, 50), 65_535, np.uint32)
    x[:, :41] = ranks(3, 41, np.array([True, False, True]))
    check(module, x, x[:2].copy(), 41)


@pytest.mark.parametrize(("p", "q", "n"), [(0, 3, 5), (3, 0, 5), (3, 2, 0), (3, 2, 1), (0, None, 4)])
def test_nothing_to_count(module: ModuleType, p: int, q: int | None, n: int) -> None:
    y = None if q is None else np.zeros((q, n), np.uint32)
    check(module, np.zeros((p, n), np.uint32), y)


def test_bits_are_multiplied_where_hardware_does() -> None:
    capabilities = ((7, 5), (8, 0), (8, 9), (9, 0), (10, 0), (12, 0))
    assert [sign_tiles.in_bits(c) for c in capabilities] == [False, True, True, True, False, False]


def test_blocks_stay_within_what_every_device_has() -> None:
    catalogue = pytest.importorskip("cukde.catalogue", exc_type=ImportError)
    for _, name, defines in catalogue.kernels():
        macros = dict(defines)
        if name == "sign_products":
            cut = sign_tiles.shape(macros["BITS"] == "1", macros["TIED"] == "1", int(macros["TILE"]))
            assert cut.shared_bytes <= 99 * 1024
