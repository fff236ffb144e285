"""Cost of CuPy's sort of one array: CUB's radix sort, a pass over all keys for each digit."""

from __future__ import annotations

from cukde.core.cost import elementwise
from cukde.core.cost.cost import Part
from cukde.core.cost.peaks import Peaks

_DIGIT_BITS = 8

# Threads of a block; keys of a thread and blocks on a multiprocessor, by the bytes of a key and whether 8 bytes go
# along. They follow CUB's policies for sm_90 (tuning_radix_sort.cuh) and 228 KB of shared memory.
_THREADS = 384
_ITEMS = {(4, False): 19, (8, False): 24, (4, True): 30, (8, True): 24}
_RESIDENT = {(4, False): 5, (8, False): 2, (4, True): 2, (8, True): 2}

# Instruction slots of a key in a pass, counted in what NVRTC makes of CUB's agent for sm_90: ranks by votes of a warp,
# bit by bit. Integer comparisons, selections and additions have half as many lanes and count twice.
_SLOTS = {4: 150, 8: 105}

# Cycles of a block for each key of a thread: its load, the votes, the wait for the blocks before it, and writes to
# places of its own. Measured on an H200 as the rest of calls whose other parts are counted: densities of 16,777,216
# points take 0.97 ms in float32 and 2.03 ms in float64, and a sum of values, for which positions go along, takes 2.51
# ms.
_CYCLES, _CYCLES_OF_POSITION = 2000, 1000


def keys(name: str, n: int, size: int) -> Part:
    """Sort ``n`` numbers of 4 or 8 bytes, after a copy and a count of the digits."""
    return _sort(name, n, size, positions=False, before=3 * size)


def positions(name: str, on: Peaks, n: int, size: int) -> list[Part]:
    """Find the order of ``n`` numbers; their positions, of 8 bytes, go along."""
    return [
        elementwise.passes(f"{name}: positions", on, n, 8.0 * n),
        _sort(name, n, size, positions=True, before=3 * size),
    ]


def _sort(name: str, n: int, size: int, *, positions: bool, before: int) -> Part:
    digits = 8 * size // _DIGIT_BITS
    tile = _THREADS * _ITEMS[size, positions]
    resident = _RESIDENT[size, positions]
    return Part(
        name,
        float(n) * (before + digits * 2 * (size + 8 * positions)),
        {"instruction": float(n) * digits * _SLOTS[size]},
        blocks=float(digits * -(-n // tile)),
        resident=resident,
        cycles=_ITEMS[size, positions] * (_CYCLES + _CYCLES_OF_POSITION * positions),
        launches=digits + 3,
    )
