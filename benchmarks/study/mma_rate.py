"""Products a second of the tensor cores, in integers: launcher of ``kernels_cu/study/mma_rate.cu``.

python -m benchmarks.study.mma_rate
"""

from __future__ import annotations

from typing import Any

import cupy as cp
import numpy as np

from benchmarks import timing
from cukde import _compile
from cukde.gpu import _device

STEM = "study/mma_rate"
OPERATIONS = {"s8": 2 * 16 * 8 * 32, "b1": 2 * 16 * 8 * 256}  # of one product; multiply and add are two
_THREADS, _PRODUCTS = 256, 16  # of a block, of a warp and a repeat
_BLOCKS, _REPEATS = 8, 4096  # blocks of a multiprocessor


def kernel(numbers: str) -> tuple[str, str, _compile.Defines]:
    """Stem, name and macros of the kernel for "s8" or "b1"."""
    name = f"mma_rate_{numbers}"
    return STEM, name, (("KERNEL", name), ("ONE_BIT", str(int(numbers == "b1"))))


def launch(numbers: str, blocks: int, repeats: int, operands: Any) -> Any:
    """Sums of the accumulators, one a thread."""
    sums = cp.empty(blocks * _THREADS, np.int32)
    _compile.kernel(*kernel(numbers))((blocks,), (_THREADS,), (operands, sums, np.int32(repeats)))
    return sums


def operations_per_second(numbers: str) -> float:
    """Of the current device at its present clock: for "s8", int8 by m16n8k32; for "b1", bits by m16n8k256."""
    blocks = _BLOCKS * _device.multiprocessors()
    operands = cp.asarray(np.random.default_rng(0).integers(2**32, size=6, dtype=np.uint32))
    taken = timing.measure(lambda: launch(numbers, blocks, _REPEATS, operands), gpu=True, seconds=0.3)
    return blocks * _THREADS // 32 * _PRODUCTS * _REPEATS * OPERATIONS[numbers] / taken["median_ms"] * 1e3


def main() -> None:
    for numbers in OPERATIONS:
        print(f"{numbers}: {operations_per_second(numbers):.3e} op/s")


if __name__ == "__main__":
    main()
