"""Scratch memory: aligned pieces of one chunk, from the allocator of the moment, which no result is."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cukde
from tests.conftest import Backend
from tests.core.test_launch import sample

pytest.importorskip("cupy", reason="the launchers of the GPU backend need CuPy")

F4, F8, U2 = np.dtype("f4"), np.dtype("f8"), np.dtype("u2")
PIECES = [[((3, 5), U2), None], [((7,), F8), ((64,), F4)]]


def test_pieces_are_aligned_and_apart(device: Backend) -> None:
    from cukde.core.gpu.scratch import Layout
    from tests.private import gpu_device as core_device

    layout = Layout(PIECES, [((1,), F4), None, ((2, 3), F4)])
    groups = layout.allocate()
    assert list(map(len, groups)) == [2, 2, 3]
    pieces = list(itertools.chain(*groups))
    kept = [a for a in pieces if a is not None]
    assert [a is None for a in pieces] == [False, True, False, False, False, True, False]
    assert [(a.shape, a.dtype) for a in kept] == [
        ((3, 5), U2),
        ((7,), F8),
        ((64,), F4),
        ((1,), F4),
        ((2, 3), F4),
    ]
    spans = [(core_device.address(a), math.prod(a.shape) * a.dtype.itemsize) for a in kept]
    assert all(start % 256 == 0 for start, _ in spans)
    assert all(start + size <= after for (start, size), (after, _) in itertools.pairwise(spans))
    assert spans[-1][0] + spans[-1][1] - spans[0][0] <= layout.bytes


def test_zeros_are_zero(emulated_device: None) -> None:
    from cukde.core.gpu.scratch import Layout, part

    _, (_, other), (last,) = Layout(PIECES, [((2, 3), F4)]).allocate()
    assert not last.any()
    assert np.isnan(other).all()
    last[...] = np.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(part(last.reshape(-1), 2, (2, 2)), [[2, 3], [4, 5]])


class _Pointer(int):
    """Address of memory as CuPy has it: what is added to it makes another one."""

    def __add__(self, offset: int) -> _Pointer:
        return _Pointer(int(self) + offset)

    def memset_async(self, value: int, size: int) -> None:
        _Pointer.set = (int(self), value, size)


def test_pieces_on_a_device_are_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """All zeros are set at once, and no array is made."""
    from cukde.core.gpu import scratch

    monkeypatch.setattr(scratch, "cp", SimpleNamespace(empty=lambda *_: SimpleNamespace(data=_Pointer(4096))))
    layout = scratch.Layout(PIECES, [((1,), F4), ((2, 3), F4)])
    groups = layout.allocate()
    first, none, second, third, *zeros = itertools.chain(*groups)
    assert none is None
    assert first == (4096, (3, 5), U2)
    assert (second, third) == ((4352, (7,), F8), (4608, (64,), F4))
    assert zeros == [(4864, (1,), F4), (5120, (2, 3), F4)]
    assert _Pointer.set == (4864, 0, 512)
    assert layout.bytes == 5 * 256


@pytest.mark.parametrize("check_finite", [True, False])
def test_results_are_no_pieces(emulated_device: None, monkeypatch: pytest.MonkeyPatch, check_finite: bool) -> None:
    """Nor do they change when the chunks that there were are used again."""
    from cukde.core.gpu import scratch

    chunks: list[np.ndarray] = []
    allocate = scratch.Layout.allocate

    def noted(self: scratch.Layout) -> list[list[Any]]:
        groups = allocate(self)
        chunks.extend(a for a in itertools.chain(*groups) if a is not None)
        return groups

    monkeypatch.setattr(scratch.Layout, "allocate", noted)
    X, Y = sample()
    options = {"check_finite": check_finite}
    got = [
        cukde.kde(X, Y, 1.0, **options),
        cukde.sd_kde(X, Y, 1.0, **options),
        cukde.laplace_kde(X, Y, 1.0, **options),
        cukde.score(X, Y, 1.0, **options),
        cukde.score(X, X, 1.0, **options),
        cukde.kernel_sum(X, X, Y, 1.0, **options),
    ]
    assert chunks
    assert not any(np.shares_memory(a, piece) for a in got for piece in chunks)


@pytest.mark.gpu
def test_memory_comes_from_the_allocator_of_the_moment() -> None:
    """From one without a pool, too, which gives memory back as soon as nothing holds it."""
    import cupy as cp

    X, Y = map(cp.asarray, sample(3000, 200, 16))
    expected = cukde.kde(X, Y, 1.5), cukde.sd_kde(X, Y, 1.5, deterministic=True)
    sizes: list[int] = []

    def malloc(size: int) -> Any:
        sizes.append(size)
        return cp.cuda.MemoryPointer(cp.cuda.Memory(size), 0)

    with cp.cuda.using_allocator(malloc):
        got = cukde.kde(X, Y, 1.5), cukde.sd_kde(X, Y, 1.5, deterministic=True)
    assert sizes
    for a, b in zip(got, expected, strict=True):
        cp.testing.assert_array_equal(a, b)
