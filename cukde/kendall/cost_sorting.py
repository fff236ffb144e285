"""Cost of sorting rows on a GPU: tiles in shared memory, then merges of runs from one array to another.

Instructions and words of shared memory for each key are counted in what NVRTC makes of
``kernels_cu/core/merge_sort.cu`` for sm_90. Most of these instructions compare, select or add integers and count
twice: a multiprocessor has half as many lanes for them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from cukde.core import merge_tiles
from cukde.core.cost.cost import Part


class _Kernel(NamedTuple):
    """Slots of instructions and bytes of shared memory for each key."""

    network: float  # slots: exchanges of sixteen keys of a thread, and what comes before
    round: float  # slots of a merge within a tile
    round_shared: float  # bytes: written, read in the order of the data, and the sources
    step: float  # slots of a bisection that divides a merge among threads
    step_shared: float
    merge: float  # slots of a merge of runs, without its bisection
    merge_shared: float


# By the bytes of a key, and whether its position goes along. 32 lanes that read at random meet in banks: words of 8
# bytes take 6 cycles and words of 4 bytes 3.5 cycles, the mean of the fullest of 16 and of 32 bins; a cycle is 128
# bytes.
_RANDOM_8, _RANDOM_4 = 6.2 * 128 / 32, 3.5 * 128 / 32
_KERNELS = {
    (8, False): _Kernel(130, 31.5, 8 + _RANDOM_8, 24 / 16, 2 * _RANDOM_8 / 16, 68, 2 * 8 + 8 + _RANDOM_8),
    (8, True): _Kernel(196, 35.6, 12 + _RANDOM_8 + _RANDOM_4, 24 / 16, 2 * _RANDOM_8 / 16, 80, 40 + _RANDOM_8),
    (4, False): _Kernel(84, 27, 4 + _RANDOM_4, 22 / 16, 2 * _RANDOM_4 / 16, 55, 2 * 4 + 4 + _RANDOM_4),
}

# Cycles of a block of a merge by itself: the bisection in memory by a warp, with four probes of two reads, 700 cycles a
# read; both halves of its keys, 800 each; the bisection in shared memory, 50 a step; 16 steps, 60 each; results, 800.
_MERGE_CYCLES = 4 * 700 + 2 * 800 + 12 * 50 + 16 * 60 + 800
_ORDER_CYCLES = 1200  # to read the order after the keys are merged, and to write it


def sort(name: str, rows: int, n: int, key_bytes: int, *, order: bool = False) -> tuple[Part, ...]:
    """Sort ``rows`` rows of ``n`` keys of 4 or 8 bytes, with or without their positions."""
    kernel = _KERNELS[key_bytes, order]
    keys, threads = rows * n, merge_tiles.threads(n, key_bytes)
    tile = threads * merge_tiles.ITEMS
    tiles, launches = -(-n // tile), -(-rows // _rows_at_a_time(n))
    rounds = round(math.log2(threads))
    first = round(math.log2(merge_tiles.ITEMS)) + 1
    steps = sum(range(first, first + rounds))  # of all bisections: of 16 keys, then of twice as many each time
    width = key_bytes + 4 * order
    padded = rows * tiles * tile  # a tile that is not full takes as long as a full one
    parts = [
        Part(
            f"{name}: tiles",
            bytes=keys * (key_bytes + width),
            work={
                "instruction": padded * (kernel.network + rounds * kernel.round + steps * kernel.step),
                "shared": padded * (rounds * kernel.round_shared + steps * kernel.step_shared + 4 * key_bytes),
            },
            blocks=rows * tiles,
            resident=_resident(threads, order),
            launches=launches,
        )
    ]
    merges = math.ceil(math.log2(tiles))
    if merges:
        parts.append(
            Part(
                f"{name}: merges",
                bytes=merges * keys * 2 * width,
                work={
                    "instruction": merges * padded * (kernel.merge + math.log2(tile) * kernel.step),
                    "shared": merges * padded * (kernel.merge_shared + math.log2(tile) * kernel.step_shared),
                },
                blocks=merges * rows * tiles,
                resident=_resident(threads, order),
                cycles=_MERGE_CYCLES + order * _ORDER_CYCLES,
                launches=merges * launches,
            )
        )
    return tuple(parts)


def _rows_at_a_time(n: int) -> int:
    """Rows of a launch."""
    first = next(merge_tiles.batches(2**62, n))
    return first.stop - first.start


def _resident(threads: int, order: bool) -> int:
    """Blocks on a multiprocessor, as the kernels are compiled."""
    return (768 if order else 1024) // threads
