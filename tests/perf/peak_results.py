"""What kernels write that peaks of a GPU are measured by, and what they should."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

Results = Iterator[tuple[np.ndarray, np.ndarray, float]]
"""What a kernel wrote, what it should, and by how much it may differ."""


def peaks_of_gpu() -> ModuleType:
    from cukde.perf import _loads_gpu

    return _loads_gpu


def of_chains(unit: Any) -> Results:
    """After 16 steps, x = 2 x - 1 and sums of ones are exact; of 2^-x a step more or less would show."""
    from tests.private import gpu_arrays as core_arrays

    kernels = peaks_of_gpu()
    of = kernels._CHAINS[unit]
    start = np.add.outer(np.tile(np.arange(256), 2), np.arange(of.chains)) / 512

    def results(a: float, b: float, repeats: int, wanted: np.ndarray, allowed: float) -> Any:
        got = kernels.chain(unit, 2, repeats, core_arrays.asarray(np.array([a, b], of.real)))
        return core_arrays.asnumpy(got), wanted.sum(axis=1), allowed

    yield results(0, 0, 0, start, 0)
    if not of.exponential:
        yield results(2, -1, 1, 2.0**16 * (start - 1) + 1, 0)
        yield results(1, 1, 3, start + 48, 0)
        return
    x = start
    for _ in range(16):
        x = 2.0**-x
    yield results(0, 0, 1, x, 1e-5 if of.real == np.float32 else 1e-12)


def of_products(kind: Any) -> Results:
    """The elements of A B sum to the inner product of A's sums over rows with B's sums over columns."""
    from tests.private import gpu_arrays as core_arrays

    operands = np.random.default_rng(7).integers(2**32, size=6, dtype=np.uint32)
    repeats, threads = 3, np.arange(256, dtype=np.uint32).reshape(8, 8, 4)  # warps, groups g, threads t of a group
    wanted = np.zeros(8, np.int64)
    for i, j in np.ndindex(4, 4):
        A = _elements(operands[:4] ^ (threads + np.uint32(i))[..., None], kind)
        B = _elements(operands[4:] ^ (threads + np.uint32(j))[..., None], kind)
        of_rows = A.reshape(8, 8, 4, 2, 2, -1).sum(axis=(1, 4))  # registers 2h and 2h + 1 are rows g and g + 8
        wanted += repeats * (of_rows * B.sum(axis=1)).sum(axis=(1, 2, 3))
    got = core_arrays.asnumpy(peaks_of_gpu().product(kind, 2, repeats, core_arrays.asarray(operands))).reshape(2, 8, 32)
    sums = got.astype(np.int64 if kind in ("s8", "b1") else np.float64).sum(axis=2)
    yield sums % 2**32, np.broadcast_to(wanted % 2**32, (2, 8)), 0


def _elements(words: np.ndarray, kind: str) -> np.ndarray:
    """The numbers that a word stands for, along a new axis, int64."""
    if kind == "s8":
        return words[..., None].view(np.int8).astype(np.int64)
    if kind == "b1":
        return (words[..., None] >> np.arange(32, dtype=np.uint32) & 1).astype(np.int64)
    shifts = np.array([28, 24] if kind == "f16" else [28], np.uint32)
    return (words[..., None] * np.uint32(0x9E3779B1) >> shifts & 15).astype(np.int64) - 8


def of_reads() -> Results:
    """Every block reads everything, as often as it should."""
    from tests.private import gpu_arrays as core_arrays

    data = np.random.default_rng(3).integers(2**32, size=2**14, dtype=np.uint32)
    got = core_arrays.asnumpy(peaks_of_gpu().read(core_arrays.asarray(data), 3, 2)).reshape(3, 256)
    yield got.sum(axis=1, dtype=np.int64) % 2**32, np.full(3, 2 * data.sum(dtype=np.int64) % 2**32), 0
