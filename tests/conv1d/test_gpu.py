"""Depthwise convolution of the GPU backend, against float64 sums from the definition."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from cukde.core import plan as core_plan
from tests.conftest import Backend, forget
from tests.conv1d.cases import (
    Expected,
    activated,
    changed,
    check,
    expected,
    expected_grad,
    geometry,
    met,
    rows_of,
    sample,
)
from tests.private import Geometry, conv1d_plan, sums_kernel

DTYPES = ("float16", "float32", "float64")


@pytest.fixture
def conv1d(device: Backend) -> ModuleType:
    """The launcher, on the device."""
    from cukde.conv1d.gpu import direct as conv1d

    forget(conv1d)
    return conv1d


def kernel(g: Geometry, dtype: str, aligned: bool = True) -> str:
    """The kernel that convolves."""
    return sums_kernel("forward", g, 8 * np.dtype(dtype).itemsize, aligned)


def check_both(
    device: Backend, conv1d: ModuleType, g: Geometry, dtype: str, activation: str | None = None, biased: bool = False
) -> None:
    """The convolution and its gradient by x."""
    x, w, bias = sample(g, g.length, dtype)
    on_device = [device.asarray(a) for a in (x, w, bias if biased else None)]
    y = device.asnumpy(conv1d.forward(*on_device, g, activation))
    assert y.dtype == dtype
    assert y.shape == g.shape(g.outputs)
    check(y, activated(expected(x, w, bias if biased else None, g), activation), g, g.taps)
    dy = sample(g, g.outputs, dtype)[0]
    dx = device.asnumpy(conv1d.input_grad(device.asarray(dy), on_device[1], g))
    assert dx.dtype == dtype
    assert dx.shape == g.shape(g.length)
    check(dx, expected_grad(dy, w, g), g, g.taps)


LENGTHS = {"float16": 2048, "float32": 1024, "float64": 512}  # of a tile of rows


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows(device: Backend, conv1d: ModuleType, dtype: str) -> None:
    """Lengths around a tile, each with taps of every remainder and rows of every alignment; taps staged in turns."""
    tile = LENGTHS[dtype]
    for taps, length in ((1, tile), (2, tile + 1), (3, tile // 2 - 3), (4, tile), (5, tile + 16), (31, tile - 1)):
        for before in (taps - 1, 0, (taps - 1) // 2):
            g = geometry(1, 3, length, taps, before=before, after=taps - 1 - before, flip=before == 0)
            with core_plan.only("rows", "short_rows", "strided"):
                assert kernel(g, dtype) == "rows"
                check_both(device, conv1d, g, dtype)
    for taps in (258, tile + 77):
        check_both(device, conv1d, geometry(1, 2, tile + 8, taps), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_far_from_their_zeros(device: Backend, conv1d: ModuleType, dtype: str) -> None:
    """More zeros before and after than a row has elements, and than a tile has; outputs that meet no input."""
    tile = LENGTHS[dtype]
    for before, after in ((2 * tile + 5, 3), (1, 2 * tile), (tile + 100, tile + 100)):
        check_both(device, conv1d, geometry(2, 1, 50, 40, before=before, after=after), dtype)


@pytest.mark.parametrize("length", [1, 9, 16, 64, 131, 248])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_short_rows(device: Backend, conv1d: ModuleType, dtype: str, length: int) -> None:
    """Taps of every remainder at every place, more than inputs, some that meet none; vectors that fit or do not."""
    for taps in (1, 6, 7, 8, 31, 64, 300):
        for before, after in ((taps - 1, 0), (0, taps - 1), (taps // 2, taps - 1 - taps // 2), (taps + 5, 3)):
            g = geometry(5, 2, length, taps, before=before, after=after, flip=before == 0)
            with core_plan.only("rows", "short_rows", "strided"):
                if g.outputs < LENGTHS[dtype] // 4:
                    assert kernel(g, dtype) == "short_rows"
                check_both(device, conv1d, g, dtype, "silu" if taps == 7 else None, taps > 6)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_short_rows_of_many_items(device: Backend, conv1d: ModuleType, dtype: str) -> None:
    """A whole block of rows, and one more, of every number of threads a row; padding beyond what taps reach."""
    for length in (16, 33, 60, 64, 75, 100, 130, 255):
        g = geometry(1000, 2, length, 5, before=2, after=2)
        side = conv1d_plan.cut_short_rows(g, 8 * np.dtype(dtype).itemsize)
        assert side is not None
        rows, threads = side.block
        assert 64 <= rows * threads <= 128
        for batch in (rows, rows + 1):
            check_both(device, conv1d, g._replace(batch=batch), dtype)
    for before, after in ((120, 0), (0, 120), (70, 90), (-3, 20)):
        g = geometry(6, 3, 64, 9, before=before, after=after)
        assert kernel(g, dtype) == "short_rows"
        check_both(device, conv1d, g, dtype)
    for g in (geometry(3, 3, 64, 9), geometry(9, 3, 4000, 3990, before=0)):  # too few rows, too few that fit
        assert kernel(g, dtype) == "strided"


@pytest.mark.parametrize("length", [61, 64])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_short_rows_meet_what_is_not_finite(device: Backend, conv1d: ModuleType, dtype: str, length: int) -> None:
    """At the ends of rows and of what a thread owns."""
    for taps, before in ((5, 4), (6, 2), (31, 30), (64, 63), (64, 0)):
        g = geometry(5, 3, length, taps, before=before, after=taps - 1 - before)
        x, w, _ = sample(g, length, dtype)
        for item, place in enumerate((0, 15, 16, 31, length - 1)):
            x[item, item % 3, place] = (np.inf, np.nan)[item % 2]
        y = device.asnumpy(conv1d.forward(device.asarray(x), device.asarray(w), None, g, None))
        at, is_there = met(g)
        reached = (~np.isfinite(x)[:, :, at] & is_there).any(2)
        np.testing.assert_array_equal(np.isfinite(y), ~reached)


FEW_TAPS = [(taps, before) for taps in (1, 2, 3, 4) for before in range(taps)]


@pytest.mark.parametrize("vectors", [1, 5, 32, 40, 97, 131])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_few_taps(device: Backend, conv1d: ModuleType, dtype: str, vectors: int) -> None:
    """Every place of the taps. Several rows to a slab, rows of one slab, of two, of a whole warp and of one more."""
    width = 16 // np.dtype(dtype).itemsize
    length = vectors * width
    for taps, before in FEW_TAPS:
        g = geometry(5, 3, length, taps, before=before, after=taps - 1 - before, flip=before == 1)
        assert kernel(g, dtype) == "few_taps"
        assert kernel(g, dtype, aligned=False) != "few_taps"
        check_both(device, conv1d, g, dtype)
    for more in (-width, width):  # outputs than inputs
        g = geometry(2, 17, length, 3, before=1, after=1 + more)
        if g.outputs > 0:
            assert kernel(g, dtype) == "few_taps"
            check_both(device, conv1d, g, dtype, None, True)
    for beyond in (-1, 4):
        assert kernel(geometry(1, 1, length, 4, before=beyond, after=3 - beyond), dtype) != "few_taps"


@pytest.mark.parametrize("vectors", [3, 64, 160])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_few_taps_meet_what_is_not_finite(device: Backend, conv1d: ModuleType, dtype: str, vectors: int) -> None:
    """Within a vector and at its ends, at the ends of slabs, of warps and of rows."""
    width = 16 // np.dtype(dtype).itemsize
    length = vectors * width
    for taps, before in FEW_TAPS:
        g = geometry(2, 3, length, taps, before=before, after=taps - 1 - before)
        x, w, _ = sample(g, g.length, dtype)
        places = np.array([0, width // 2, width - 1, width, 32 * width - 1, 32 * width, 128 * width - 1, 128 * width])
        places = np.append(places[places < length - 1], length - 1)
        x[0, 1, places], x[1, 2, places[::2]] = np.inf, np.nan
        assert kernel(g, dtype) == "few_taps"
        y = device.asnumpy(conv1d.forward(device.asarray(x), device.asarray(w), None, g, None))
        at, is_there = met(g)
        reached = (~np.isfinite(x)[:, :, at] & is_there).any(2)
        np.testing.assert_array_equal(np.isfinite(y), ~reached)


@pytest.mark.parametrize("activation", [None, "silu", "gelu"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_bias_and_activation(device: Backend, conv1d: ModuleType, dtype: str, activation: str | None) -> None:
    for g in (
        geometry(2, 3, 601, 4),
        geometry(5, 3, 40, 4),
        geometry(2, 8, 40, 4, last=True),
        geometry(1, 3, 20, 3, stride=2),
    ):
        check_both(device, conv1d, g, dtype, activation, True)


@pytest.mark.parametrize("channels", [1, 3, 8, 300])
@pytest.mark.parametrize("dtype", DTYPES)
def test_channels_last(device: Backend, conv1d: ModuleType, dtype: str, channels: int) -> None:
    """Vectors of channels and single ones, more than a block has; windows that end within a thread's."""
    for taps, length, dilation in ((1, 33, 1), (4, 19, 1), (4, 40, 3), (17, 20, 1), (31, 50, 1), (33, 9, 1)):
        before = (taps - 1) // 2 * dilation
        after = (taps - 1) * dilation - before
        g = geometry(2, channels, length, taps, dilation=dilation, before=before, after=after, last=True)
        if channels > 1:
            assert kernel(g, dtype) == "channels_last"
        check_both(device, conv1d, g, dtype)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_strides_and_dilations(device: Backend, conv1d: ModuleType, dtype: str, last: bool) -> None:
    """Strides that share factors with dilations, longer than the taps reach, and longer than the input."""
    for stride, dilation, taps in ((2, 1, 4), (3, 2, 5), (4, 6, 7), (6, 4, 3), (7, 1, 2), (100, 3, 4), (1, 20, 4)):
        for before, after in ((0, 0), ((taps - 1) * dilation, 0), (3, 90)):
            g = geometry(
                *(2, 3, 70, taps),
                **{"stride": stride, "dilation": dilation, "before": before, "after": after, "last": last},
                flip=before == 3,
            )
            check_both(device, conv1d, g, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_strides_over_more_than_a_block(device: Backend, conv1d: ModuleType, dtype: str) -> None:
    """Of positions, and of channels where they are last."""
    for g in (geometry(1, 2, 2403, 3, stride=2), geometry(2, 70, 31, 3, stride=2, last=True)):
        check_both(device, conv1d, g, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_many_short_rows(device: Backend, conv1d: ModuleType, dtype: str) -> None:
    """More rows than a grid has blocks aside, in both orders."""
    for batch, channels, length, stride in ((3, 22_000, 2, 1), (66_000, 1, 3, 1), (22_000, 3, 3, 2)):
        check_both(device, conv1d, geometry(batch, channels, length, 2, stride=stride), dtype)
    tile = LENGTHS[dtype]
    with changed(conv1d_plan, MOST_BLOCKS_ASIDE=1):
        assert kernel(geometry(2, 1, tile, 2), dtype) == "strided"
    for last in (False, True):  # beyond what is counted in 32 bits
        assert kernel(geometry(1, 2, 2**29, 2, last=last), dtype) == "strided"


@pytest.mark.parametrize("offset", [1, 3, 8])
@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_that_begin_anywhere(device: Backend, conv1d: ModuleType, dtype: str, offset: int) -> None:
    for g in (
        geometry(1, 2, LENGTHS[dtype], 4),
        geometry(5, 2, 40, 9),
        geometry(2, 8, 20, 4, last=True),
        geometry(2, 2, 20, 4, stride=2),
    ):
        x, w, _ = sample(g, g.length, dtype)
        whole = device.asarray(np.concatenate([np.full(offset, np.nan, dtype), x.ravel(), np.full(9, np.nan, dtype)]))
        view = whole[offset : offset + x.size].reshape(x.shape)
        y = device.asnumpy(conv1d.forward(view, device.asarray(w), None, g, None))
        check(y, expected(x, w, None, g), g, g.taps)


@pytest.mark.parametrize(
    "g", [geometry(1, 1, 600, 7), geometry(1, 8, 60, 7, last=True), geometry(1, 1, 60, 7, stride=2)]
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_not_finite_reaches_no_further_than_its_taps(
    device: Backend, conv1d: ModuleType, dtype: str, g: Geometry
) -> None:
    x, w, _ = sample(g, g.length, dtype)
    rows = x.swapaxes(1, 2) if g.channels_last else x
    rows[..., 30] = np.inf
    y = device.asnumpy(conv1d.forward(device.asarray(x), device.asarray(w), None, g, None))
    at, is_there = met(g)
    reached = ((at == 30) & is_there).any(0)
    np.testing.assert_array_equal(np.isfinite(rows_of(y, g)), np.broadcast_to(~reached, rows_of(y, g).shape))


def test_float16_beyond_its_range(device: Backend, conv1d: ModuleType) -> None:
    """Sums are in float32: terms may be beyond float16, and a result that is, is infinite."""
    for g in (geometry(1, 1, 600, 4), geometry(1, 8, 60, 4, last=True), geometry(1, 2, 61, 4, dilation=2)):
        x = np.full(g.shape(g.length), 60000, "f2")
        w = np.tile(np.array([1, -1, 1, -1], "f2"), (g.channels, 1))
        y = device.asnumpy(conv1d.forward(device.asarray(x), device.asarray(w), None, g, None))
        check(y, expected(x, w, None, g), g, g.taps)
        y = device.asnumpy(conv1d.forward(device.asarray(x), device.asarray(np.abs(w)), None, g, None))
        assert np.isposinf(rows_of(y, g)[..., g.reach :]).all()


@pytest.mark.parametrize("last", [False, True])
def test_an_empty_batch(device: Backend, conv1d: ModuleType, last: bool) -> None:
    for stride in (1, 2):
        g = geometry(0, 3, 20, 4, stride=stride, last=last)
        check_both(device, conv1d, g, "float32")


@pytest.mark.gpu
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_more_than_two_to_the_31_elements(dtype: str, last: bool) -> None:
    """The last outputs of the last item, by a convolution of these inputs alone."""
    import cupy as cp

    from cukde.conv1d.gpu import direct as conv1d

    g = geometry(33, 64, 2**20 + 8, 4, last=last)
    x = cp.empty(g.shape(g.length), dtype)
    x[...] = cp.arange(x.shape[2]) % 13 - 6
    x[-1, -20:] *= 2
    w = cp.asarray(sample(g, 1, dtype)[1])
    y = conv1d.forward(x, w, None, g, None)
    part = slice(-20, None)
    tail = (x[-1:, part] if last else x[-1:, :, part]).get()
    got = (y[-1:, part] if last else y[-1:, :, part]).get()
    small = g._replace(batch=1, length=20)
    want = expected(tail, w.get(), None, small)
    inner = slice(g.reach, None)
    kept = Expected(want.value[..., inner], want.size[..., inner])
    check(got[:, inner] if last else got[:, :, inner], kept, small, g.taps)
