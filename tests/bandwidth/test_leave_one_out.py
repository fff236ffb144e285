"""Leave-one-out sums for many bandwidths on the device, each pair once, against float64 sums over the other points."""

from __future__ import annotations

import dataclasses
import itertools
import math
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests import reference, tolerances
from tests.conftest import Backend

DTYPES = ("float32", "float64")
DIMENSIONS = (1, 2, 4, 17, 64)

# An exponent up to which every sum is settled where weights are about equal, by the range of the type.
SETTLED_TO = {"float32": 110.0, "float64": 1200.0}


@pytest.fixture
def launcher(device: Backend) -> ModuleType:
    """The launcher, on the device."""
    from cukde.bandwidth.gpu import leave_one_out

    return leave_one_out


@pytest.fixture(autouse=True)
def loaded() -> None:
    """The launcher is there before the emulation takes CuPy's place in it."""
    pytest.importorskip("cukde.bandwidth.gpu.leave_one_out", exc_type=ImportError)


def sample(n: int, d: int, dtype: str) -> tuple[np.ndarray, float]:
    """Normal data, and a scale at which exponents of neighbours are about 1."""
    X = np.random.default_rng([n, d]).standard_normal((n, d))
    return X.astype(dtype), 0.5 * max(1.0, n ** (2 / d) / 10) / d


def skewed(n: int) -> np.ndarray:
    """Weights over nine decades."""
    w = 10.0 ** np.random.default_rng(n).uniform(-9, 0, n)
    return w / w.sum()


def verify(
    device: Backend, launcher: ModuleType, X: np.ndarray, scales: Any, weights: np.ndarray | None = None
) -> np.ndarray:
    """Check what is settled, and that all is finite; return what is not settled."""
    scales = np.atleast_1d(np.asarray(scales, np.float64))
    logs, unsettled = map(device.asnumpy, launcher.symmetric(device.asarray(X), scales, device.asarray(weights)))
    assert logs.dtype == np.float64
    assert unsettled.dtype == np.bool_
    assert logs.shape == unsettled.shape == (len(scales), len(X))
    assert np.isfinite(logs).all()
    for scale, log, left in zip(scales, logs, unsettled, strict=True):
        want = reference.leave_one_out(X.astype(np.float64), float(scale), weights)
        allowed = tolerances.leave_one_out_error("gpu", X.dtype.name, want)
        tolerances.check_log(log[~left], want.log[~left], allowed[~left], "log of a leave-one-out sum")
        if weights is None:
            assert not left[want.exponent < SETTLED_TO[X.dtype.name]].any()
    return unsettled


@pytest.mark.parametrize("weights", ["uniform", "skewed"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", DIMENSIONS)
def test_sums_match_reference(device: Backend, launcher: ModuleType, d: int, dtype: str, weights: str) -> None:
    n = device.size(2777, 301)
    X, scale = sample(n, d, dtype)
    unsettled = verify(
        device, launcher, X, scale * np.array([0.1, 1.0, 20.0]), skewed(n) if weights == "skewed" else None
    )
    assert unsettled[:2].mean() < 0.02


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2, 3, 15, 16, 17, 31, 33, 127, 129, 255, 256, 257, 513, 700])
def test_edges_of_tiles_and_blocks(device: Backend, launcher: ModuleType, n: int, dtype: str) -> None:
    X, _ = sample(n, 2, dtype)
    assert not verify(device, launcher, X, [0.5, 4.0], skewed(n)).any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [3, 8, 9, 16, 100])
def test_chunks_of_dimensions(device: Backend, launcher: ModuleType, d: int, dtype: str) -> None:
    X, _ = sample(140, d, dtype)
    assert not verify(device, launcher, X, 0.5 / d).any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bandwidths", [1, 3, 16, 17, 24, 25, 65])
def test_numbers_of_bandwidths(device: Backend, launcher: ModuleType, bandwidths: int, dtype: str) -> None:
    """In no order, in one pass and in several."""
    X, scale = sample(150, 4, dtype)
    scales = np.random.default_rng(bandwidths).permutation(np.geomspace(0.01, 10, bandwidths)) * scale
    assert verify(device, launcher, X, scales).mean() < 0.1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tiles", [1, 5, 23, 64])
def test_strips_of_any_length(
    device: Backend, launcher: ModuleType, monkeypatch: pytest.MonkeyPatch, tiles: int, dtype: str
) -> None:
    """Blocks that end within a row block, go on with another, and have nothing left to do."""
    cut = launcher._cut

    def of_tiles(*sizes: Any) -> Any:
        made = cut(*sizes)
        walks, strips, passes = made.grid
        return dataclasses.replace(made, grid=(walks, -(-strips * made.tiles // tiles), passes), tiles=tiles)

    monkeypatch.setattr(launcher, "_cut", of_tiles)
    for n in (700, 1100):  # two and three row blocks of float32, and six and nine of float64
        X, _ = sample(n, 2, dtype)
        assert not verify(device, launcher, X, 2.0, skewed(n)).any()


def test_cuts_cover_every_tile_once(launcher: ModuleType) -> None:
    """And stay within a grid's limits, however many rows there are."""
    for form in launcher._FORMS.values():
        for n in (2, 255, 256, 257, 5000, 100_000, 2**31 - 1):
            for bandwidths in (1, 8, 64, 1000):
                cut = launcher._cut(n, bandwidths, form, 132)
                walks, strips, passes = cut.grid
                row_blocks = -(-n // form.rows)
                tiles = [-(-(n - k * form.rows) // form.columns) for k in (0, row_blocks - 1)]
                assert 2 * walks - row_blocks in (0, 1)
                assert strips * cut.tiles >= sum(tiles if row_blocks > 1 else tiles[:1])
                assert (strips - 1) * cut.tiles < sum(tiles)
                assert (passes - 1) * cut.bandwidths < bandwidths <= passes * cut.bandwidths
                assert cut.bandwidths <= form.bandwidths
                assert walks < 2**31
                assert max(strips, passes) < 2**16


@pytest.mark.parametrize("dtype", DTYPES)
def test_duplicates(device: Backend, launcher: ModuleType, dtype: str) -> None:
    """Each point seven times: what is left out is one of them, however narrow the bandwidth."""
    n = 7 * device.size(300, 40)
    X = np.repeat(sample(n // 7, 2, dtype)[0], 7, axis=0)[np.random.default_rng(0).permutation(n)]
    assert not verify(device, launcher, X, [1.0, 1e9, 1e30]).any()
    logs, _ = launcher.symmetric(device.asarray(X), np.array([1e30]), None)
    np.testing.assert_allclose(device.asnumpy(logs), np.log(6 / n), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_data_far_from_zero(device: Backend, launcher: ModuleType, dtype: str) -> None:
    X, scale = sample(device.size(2000, 300), 4, "float64")
    assert not verify(device, launcher, (X + 1e4).astype(dtype), [0.1 * scale, scale]).any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_isolated_points(device: Backend, launcher: ModuleType, dtype: str) -> None:
    """They are left to another pass, and no row is that has near ones; where all are isolated, all of them."""
    n = device.size(2000, 270)
    X, _ = sample(n, 2, dtype)
    X[5], X[n - 1] = 70.0, -3000.0
    unsettled = verify(device, launcher, X, [1e-9, 1.0, 1e12], skewed(n))
    assert not unsettled[0].any()
    assert unsettled[1, [5, n - 1]].all()
    assert unsettled[1].sum() <= 3
    assert unsettled[2].mean() > 0.99


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_that_lose_terms_are_not_settled(device: Backend, launcher: ModuleType, dtype: str) -> None:
    """Exponents of the nearest other point all over the range of the type, and beyond it."""
    n = device.size(1500, 250)
    far = {"float32": 250.0, "float64": 2500.0}[dtype]
    gaps = np.sqrt(np.linspace(0.5 * far, far, n))
    X = np.cumsum(gaps)[:, None].astype(dtype)
    unsettled = verify(device, launcher, X, 1.0)
    assert 0.1 < unsettled.mean() < 0.99


@pytest.mark.parametrize("smallest", [1e-30, 1e-37, 1e-39, 1e-60, 1e-300, 5e-324])
@pytest.mark.parametrize("dtype", DTYPES)
def test_weights_out_of_range(device: Backend, launcher: ModuleType, dtype: str, smallest: float) -> None:
    """A near point of a weight so small that the type has none like it may still be most of a sum."""
    X = np.array([0.0, 3.0, 3.5, 3.7, 20.0, 20.1])[:, None].astype(dtype)
    w = np.array([0.5, 0.25, 0.25, smallest, smallest, smallest])
    unsettled = verify(device, launcher, X, [0.1, 1.0, 3.0], w / w.sum())
    if dtype == "float32" and smallest < 1e-38:
        assert unsettled[2, 4:].all()
    else:
        assert not unsettled[0].any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bits", [-50, 13, 50])
def test_units_change_no_bit(device: Backend, launcher: ModuleType, bits: int, dtype: str) -> None:
    """Data and bandwidths in another unit, of which squares are out of the range of float32."""
    X, scale = sample(300, 3, dtype)
    scales = scale * np.array([0.3, 1.0, 5.0])
    of_one, _ = launcher.symmetric(device.asarray(X), scales, None)
    moved = np.ldexp(X, bits), np.ldexp(scales, -2 * bits)
    assert not verify(device, launcher, *moved).any()
    logs, _ = launcher.symmetric(device.asarray(moved[0]), moved[1], None)
    # Sums in another order, and logarithms of 2^shift times the sums: each rounds by as much.
    rounding = np.spacing(launcher._FORMS[np.dtype(dtype)].shift * math.log(2))
    np.testing.assert_allclose(device.asnumpy(logs), device.asnumpy(of_one), rtol=0, atol=max(1e-13, 2 * rounding))


@pytest.mark.parametrize("dtype", DTYPES)
def test_coordinates_out_of_range(device: Backend, launcher: ModuleType, dtype: str) -> None:
    """Beyond what is finite in units of the bandwidth a point is far from every other: it is never settled wrongly."""
    largest = float(np.finfo(dtype).max)
    X = np.concatenate((np.linspace(0, 1, 50), [largest, largest, -largest, largest / 2**20]))[:, None].astype(dtype)
    logs, unsettled = map(device.asnumpy, launcher.symmetric(device.asarray(X), np.array([1e20, 3e20]), None))
    assert np.isfinite(logs).all()
    assert unsettled[:, 50:].all()
    X = np.concatenate((np.linspace(0, 1e-10, 50), [1e17, 1e17]))[:, None].astype(dtype)
    assert not verify(device, launcher, X, [1e20, 3e20]).any()


def test_bandwidths_of_every_size(device: Backend, launcher: ModuleType) -> None:
    """At once, from where all points are one to where none sees another."""
    X, _ = sample(200, 2, "float32")
    unsettled = verify(device, launcher, X, np.geomspace(1e-17, 1e17, 35))
    assert not unsettled[:17].any()
    assert unsettled[-8:].all()


@pytest.fixture
def leaving_out(launcher: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The launcher, made to leave out pairs of any number of points, beyond the own tiles of a row block."""
    monkeypatch.setattr(launcher, "_leaves_out", lambda *sizes: True)
    monkeypatch.setattr(launcher, "_NEAR", 8)
    return launcher


@pytest.mark.parametrize("weights", ["uniform", "skewed"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [1, 4, 17])
def test_leaving_out_matches_reference(
    device: Backend, leaving_out: ModuleType, d: int, dtype: str, weights: str
) -> None:
    n = device.size(5000, 901)
    X, scale = sample(n, d, dtype)
    w = skewed(n) if weights == "skewed" else None
    unsettled = verify(device, leaving_out, X, scale * np.array([20.0, 0.1, 1.0]), w)
    assert unsettled[1:].mean() < 0.02


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2, 31, 255, 256, 257, 511, 513, 770])
def test_leaving_out_at_edges(device: Backend, leaving_out: ModuleType, n: int, dtype: str) -> None:
    X, _ = sample(n, 2, dtype)
    assert not verify(device, leaving_out, X, [0.5, 40.0], skewed(n)).any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bandwidths", [1, 16, 17, 24, 25, 50])
def test_leaving_out_of_numbers_of_bandwidths(
    device: Backend, leaving_out: ModuleType, bandwidths: int, dtype: str
) -> None:
    X, _ = sample(600, 2, dtype)
    scales = np.random.default_rng(bandwidths).permutation(np.geomspace(0.1, 50, bandwidths))
    assert verify(device, leaving_out, X, scales).mean() < 0.1


@pytest.mark.parametrize("weights", ["uniform", "skewed"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_left_out(
    device: Backend, leaving_out: ModuleType, monkeypatch: pytest.MonkeyPatch, dtype: str, weights: str
) -> None:
    """Of a tolerance that shows: something of many sums, and of none more than that part of what is kept."""
    from cukde.density.plan.shape import TOLERANCE

    n, tolerance = device.size(4000, 1100), 50.0
    X = np.random.default_rng(3).standard_normal((n, 2)).astype(dtype)
    w = skewed(n) if weights == "skewed" else None
    scales = np.array([0.5, 5.0, 50.0])
    monkeypatch.setitem(TOLERANCE, dtype, tolerance)
    logs, unsettled = map(device.asnumpy, leaving_out.symmetric(device.asarray(X), scales, device.asarray(w)))
    assert not unsettled.any()
    full = np.stack([reference.leave_one_out(X.astype(np.float64), float(scale), w).log for scale in scales])
    kept = np.exp(logs - full)
    assert kept.max() <= 1.0001
    assert 1 / (1 + tolerance) <= kept.min() < 0.95


@pytest.mark.parametrize("dtype", DTYPES)
def test_leaving_out_beside_isolated_points(device: Backend, leaving_out: ModuleType, dtype: str) -> None:
    """Whose sums are all of far pairs, where they are in range, and without a bound where they are not."""
    n = 777
    X = np.random.default_rng(5).standard_normal((n, 2)).astype(dtype)
    X[5], X[200], X[n - 1] = 9.0, -14.0, -3000.0
    unsettled = verify(device, leaving_out, X, [1e-9, 0.4, 0.5, 1e12], skewed(n))
    assert not unsettled[0].any()
    assert unsettled[1:3, n - 1].all()
    assert unsettled[1:3].sum() <= 6
    assert unsettled[3].mean() > 0.99


@pytest.mark.parametrize("dtype", DTYPES)
def test_leaving_out_coordinates_out_of_range(device: Backend, leaving_out: ModuleType, dtype: str) -> None:
    largest = float(np.finfo(dtype).max)
    near = np.linspace(0, 1, 700)
    X = np.concatenate((near, [largest, largest, -largest, largest / 2**20]))[:, None].astype(dtype)
    logs, unsettled = map(device.asnumpy, leaving_out.symmetric(device.asarray(X), np.array([1e3, 1e4]), None))
    assert np.isfinite(logs).all()
    assert unsettled[:, 700:].all()
    for log, scale in zip(logs, (1e3, 1e4), strict=True):
        want = reference.leave_one_out(X[:700].astype(np.float64), scale)
        allowed = tolerances.leave_one_out_error("gpu", dtype, want)
        tolerances.check_log(log[:700] + np.log(len(X) / 700), want.log, allowed, "log of a leave-one-out sum")


def test_only_many_exponentials_are_left_out(launcher: ModuleType) -> None:
    """Of few, an order of the points takes longer than it saves."""
    for form in launcher._FORMS.values():
        assert launcher._leaves_out((100_000, 4), 64, form)
        assert not launcher._leaves_out((10_000, 4), 32, form)
        assert not launcher._leaves_out((100_000, 129), 64, form)


def test_cuts_cover_near_and_other_tiles(launcher: ModuleType) -> None:
    """Of every walk, those of a row block and of the one as far from the end."""
    for form in launcher._FORMS.values():
        own = form.rows // form.columns
        for n, (first, until) in itertools.product(
            (5000, 5128, 100_000), ((0, own), (0, launcher._NEAR), (launcher._NEAR, launcher._ALL))
        ):
            cut = launcher._cut(n, 64, form, 132, first, until)
            walks, strips, _ = cut.grid
            row_blocks = -(-n // form.rows)
            assert 2 * walks - row_blocks in (0, 1)
            of_blocks = [max(0, min(-(-(n - k * form.rows) // form.columns), until) - first) for k in range(row_blocks)]
            of_walks = [of_blocks[k] + of_blocks[-1 - k] for k in range(row_blocks // 2)]
            assert max(of_walks) <= strips * cut.tiles < max(of_walks) + own + cut.tiles
