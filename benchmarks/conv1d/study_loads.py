"""Loads of the study's warps: which taps meet the sequence, and cycles of a multiprocessor's first cache."""

from __future__ import annotations

import math

from cukde.perf import Peaks

WARP = 32
_LINE = 32  # numbers of a line of the first cache
_REQUEST, _TAGS = 8, 4  # threads of a request before Volta; lines that are looked up in a cycle


def split_first_cache(on: Peaks) -> bool:
    """Whether the first cache is apart from shared memory, and takes a warp's load in requests: before Volta."""
    return on.capability < (7, 0)


def scattered(on: Peaks, apart: int) -> int:
    """Cycles of a load whose threads read numbers so far apart.

    From Volta on, numbers of one bank of 32 wait for each other. Before, a load of a warp is four requests of 8 threads
    (https://forums.developer.nvidia.com/t/pascal-l1-cache/49571/14), and 4 lines are looked up in a cycle. So a P100
    delivers at most 32 bytes a cycle and multiprocessor; its cache was measured at 2 TB/s, which is 27
    (https://github.com/ekondis/gpumembench/issues/2).
    """
    if split_first_cache(on):
        lines = min(_REQUEST, math.ceil(_REQUEST * apart / _LINE))
        return WARP // _REQUEST * math.ceil(lines / _TAGS)
    return math.gcd(apart, WARP)


def side_by_side(on: Peaks) -> int:
    """Cycles of a load of numbers side by side, or of one number for all threads."""
    return scattered(on, 1)


def taps_met(length: int, taps: int, own: int) -> float:
    """Taps that meet an input of one of ``own`` neighbouring outputs, on average: before a sequence there is none."""
    ends = [min(start + own, length) for start in range(0, length, own)]
    return sum(min(taps, end) for end in ends) / len(ends)


def taps_met_by_row(length: int, taps: int) -> float:
    """The same for warps that go through all outputs, from row to row."""
    starts = range(0, length, math.gcd(WARP, length))
    return sum(min(taps, start + WARP, length) for start in starts) / len(starts)


def inputs_met(length: int, taps: int, own: int) -> float:
    """Inputs that ``own`` neighbouring outputs meet, on average."""
    starts = range(0, length, own)
    return sum(min(start + own, length) - max(0, start - taps + 1) for start in starts) / len(starts)
