"""Gradient of the weights of a depthwise convolution on the GPU, against float64 sums from the definition."""

from __future__ import annotations

import itertools
from types import ModuleType

import numpy as np
import pytest

from cukde.core.plan import traced
from tests.conftest import Backend, forget
from tests.conv1d import cases
from tests.conv1d.weight_grad_cases import DTYPES, arrays, check, geometry
from tests.private import Geometry, conv1d_plan


@pytest.fixture
def launcher(device: Backend) -> ModuleType:
    """The launcher, on the device."""
    from cukde.conv1d.gpu import weight_grad

    forget(weight_grad)
    return weight_grad


def run(device: Backend, launcher: ModuleType, of: Geometry, dtype: str, *, positive: bool = False) -> None:
    x, dy = arrays(of, dtype, positive=positive)
    got = launcher.weight_grad(device.asarray(x), device.asarray(dy), of, True)
    check(*map(device.asnumpy, got), x, dy, of)


# What is one tile of outputs or more, whole or not; taps of each class of blocks, in one block and in several. With one
# zero before the input, most elements of the first vector are before those that a tile meets, and the last beyond it.
DENSE = [
    geometry(1100, 4),
    geometry(1100, 4, before=1, after=2, channels=1),
    geometry(1030, 32, before=1, after=30, channels=1),
    geometry(1536, 3, before=0, batch=1),
    geometry(1024, 16, before=1, after=14, flip=True),
    geometry(513, 31),
    geometry(520, 33, before=16, after=16, channels=2, flip=True),
    geometry(130, 70, channels=1),
    geometry(600, 5, before=600, after=700, channels=1),  # padding beyond what a tap reaches
    geometry(20, 150, before=149, after=149),  # more taps than inputs
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_of_stride_1(device: Backend, launcher: ModuleType, dtype: str) -> None:
    for of in DENSE:
        run(device, launcher, of, dtype)


@pytest.mark.parametrize("taps", [1, 2, 3, 4])
def test_few_taps(device: Backend, launcher: ModuleType, taps: int) -> None:
    """Every place of the taps; half of a tile, and more than one; more outputs than inputs and fewer; parts."""
    with traced() as ran:
        for before, (length, more) in itertools.product(range(taps), ((512, 0), (1032, 0), (2048, 8), (528, -8))):
            of = geometry(length, taps, before=before, after=max(taps - 1 - before + more, 0), flip=before == 1)
            if of.outputs % 8 == 0:
                run(device, launcher, of, "float16")
    assert {one.name for one in ran} <= {"weight_grad_few_taps", "weight_grad_short_rows"}
    of = geometry(1032, taps, batch=9, channels=2)
    for blocks in (1, 10**6):
        with cases.changed(conv1d_plan, launcher, WEIGHT_BLOCKS=blocks):
            run(device, launcher, of, "float16", positive=True)
            x, dy = map(device.asarray, arrays(of, "float16"))
            first, second = (launcher.weight_grad(x, dy, of, True) for _ in range(2))
            for a, b in zip(first, second, strict=True):
                np.testing.assert_array_equal(device.asnumpy(a), device.asnumpy(b))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_of_short_rows(device: Backend, launcher: ModuleType, dtype: str) -> None:
    """Every number of lanes a row, vectors that fit or do not, a last tile of fewer rows, more taps than inputs."""
    with traced() as ran:
        for length in (1, 16, 17, 40, 64, 90, 131, 176, 200, 256):
            lanes = -(-length // 16)
            batch = 32 // lanes * 5 + 2
            for taps, before in ((1, 0), (4, 1), (5, 4), (31, 15), (64, 63), (130, 129)):
                if length in (17, 64) or taps in (4, 31):
                    of = geometry(length, taps, batch=batch, channels=2, before=before, after=taps - 1 - before)
                    run(device, launcher, of._replace(flip=before == 1), dtype)
        for before, after in ((100, 0), (0, 100), (70, 80), (-5, 20)):
            run(device, launcher, geometry(64, 9, batch=35, before=before, after=after), dtype)
    assert {one.name for one in ran} == {"weight_grad_short_rows"}


# Short sequences too, of which a warp takes several.
STRIDED = [
    geometry(50, 4, batch=9),
    geometry(1, 1, batch=300, channels=1),
    geometry(300, 5, stride=2, dilation=3),
    geometry(301, 4, stride=3, before=1, after=2, flip=True),
    geometry(300, 3, dilation=90),
    geometry(129, 37, stride=4, dilation=2, before=30, after=40),
    geometry(40, 3, stride=1000),
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_of_any_stride(device: Backend, launcher: ModuleType, dtype: str) -> None:
    for of in STRIDED:
        run(device, launcher, of, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_with_channels_last(device: Backend, launcher: ModuleType, dtype: str) -> None:
    for channels, of in zip((1, 40, 3, 5, 33), DENSE[:5], strict=True):
        run(device, launcher, of._replace(channels_last=True, channels=channels, length=300), dtype)
    for channels, of in zip((40, 2, 5, 1, 3, 7, 32), STRIDED, strict=True):
        run(device, launcher, of._replace(channels_last=True, channels=channels), dtype)
    run(device, launcher, geometry(50, 20, stride=6, dilation=4, before=6, after=40, last=True, flip=True), dtype)


@pytest.mark.parametrize("seed", range(6))
def test_random_sizes(device: Backend, launcher: ModuleType, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(4):
        taps, stride, dilation = (int(rng.integers(1, n)) for n in (40, 4, 4))
        length = int(rng.integers(1, 700))
        reach = (taps - 1) * dilation
        before, after = (int(rng.integers(0, 2 * reach + 2)) for _ in range(2))
        after += max(0, reach + 1 - length - before - after)
        of = geometry(
            *(length, taps),
            **{"batch": int(rng.integers(1, 4)), "channels": int(rng.integers(1, 5)), "stride": stride},
            **{"dilation": dilation if stride > 1 else 1, "before": before, "after": after},
            **{"last": bool(rng.integers(2)), "flip": bool(rng.integers(2))},
        )
        run(device, launcher, of, DTYPES[seed % 3])


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_that_begin_anywhere(device: Backend, launcher: ModuleType, dtype: str) -> None:
    long, last = geometry(1040, 4, channels=2), geometry(1040, 4, channels=2, last=True)
    for of in (long, last, geometry(40, 4), geometry(40, 9, batch=20)):
        x, dy = arrays(of, dtype)
        for x_at, dy_at in ((1, 0), (0, 3), (1, 1)):
            views = []
            for a, at in ((x, x_at), (dy, dy_at)):
                whole = device.asarray(np.append(np.full(at, np.nan, dtype), a.ravel()))
                views.append(whole[at:].reshape(a.shape))
            check(*map(device.asnumpy, launcher.weight_grad(*views, of, True)), x, dy, of)


KERNELS = {
    "tiles": geometry(1030, 31, batch=3),
    "short rows": geometry(60, 31, batch=90),
    "strided": geometry(400, 7, batch=5, stride=2),
    "channels last": geometry(400, 7, batch=5, channels=9, last=True),
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("blocks", [1, 7, 10**6])
def test_in_any_number_of_parts(device: Backend, launcher: ModuleType, kernel: str, blocks: int) -> None:
    with cases.changed(conv1d_plan, launcher, WEIGHT_BLOCKS=blocks):
        run(device, launcher, KERNELS[kernel], "float32")


@pytest.mark.parametrize("kernel", KERNELS)
def test_same_bits_on_every_run(device: Backend, launcher: ModuleType, kernel: str) -> None:
    of = KERNELS[kernel]._replace(batch=device.size(64, 3), channels=device.size(100, 3))
    x, dy = map(device.asarray, arrays(of, "float32"))
    first = [device.asnumpy(a).tobytes() for a in launcher.weight_grad(x, dy, of, True)]
    for _ in range(device.size(20, 1)):
        assert [device.asnumpy(a).tobytes() for a in launcher.weight_grad(x, dy, of, True)] == first


# A thread's or a warp's chain as long as it may be: 131,072 outputs of a channel in one block.
LONGEST = {
    "tiles": geometry(131_072 // 16, 4, batch=16, channels=1),
    "short rows": geometry(256, 4, batch=512, channels=1),
    "strided": geometry(131_072 // 16, 3, batch=16, channels=1, dilation=2),
    "channels last": geometry(131_072 // 16, 4, batch=16, channels=32, last=True),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kernel", LONGEST)
def test_long_sums_of_positive_terms(device: Backend, launcher: ModuleType, kernel: str, dtype: str) -> None:
    with cases.changed(conv1d_plan, launcher, WEIGHT_BLOCKS=1):
        run(device, launcher, LONGEST[kernel], dtype, positive=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_nothing_to_sum_up(device: Backend, launcher: ModuleType, dtype: str) -> None:
    for sizes, last in itertools.product(({"batch": 0}, {"channels": 0}), (False, True)):
        of = geometry(30, 4, last=last, **sizes)
        x, dy = arrays(of, dtype)
        dw, db = launcher.weight_grad(device.asarray(x), device.asarray(dy), of, True)
        np.testing.assert_array_equal(device.asnumpy(dw), np.zeros((of.channels, 4)))
        np.testing.assert_array_equal(device.asnumpy(db), np.zeros(of.channels))


def test_without_a_bias(device: Backend, launcher: ModuleType) -> None:
    of = geometry(600, 4)
    x, dy = map(device.asarray, arrays(of, "float32"))
    dw, none = launcher.weight_grad(x, dy, of, False)
    assert none is None
    np.testing.assert_array_equal(*(device.asnumpy(a) for a in (dw, launcher.weight_grad(x, dy, of, True)[0])))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "of",
    [
        geometry(2048, 4, batch=64, channels=256),
        geometry(2048, 31, batch=64, channels=256),
        geometry(4096, 512, batch=16, channels=32),
        geometry(2048, 4, batch=64, channels=256, last=True),
        geometry(2048, 3, batch=64, channels=256, dilation=4),
    ],
    ids=["k4", "k31", "k512", "last", "dilated"],
)
def test_large(of: Geometry, dtype: str) -> None:
    """Against NumPy on some channels."""
    import cupy as cp

    from cukde.conv1d.gpu import weight_grad

    rng = cp.random.default_rng(0)
    x, dy = (rng.standard_normal(of.shape(n), np.float32).astype(dtype) for n in (of.length, of.outputs))
    dw, db = weight_grad.weight_grad(x, dy, of, True)
    some = [0, 7, of.channels - 1]
    index = (slice(None), slice(None), some) if of.channels_last else (slice(None), some)
    part = of._replace(channels=len(some))
    check(dw[some].get(), db[some].get(), x[index].get(), dy[index].get(), part)
