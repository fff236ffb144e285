"""The source's kernel for Kendall's tau, all pairs of samples: launcher of ``kernels_cu/study/kendall_pairs.cu``."""

from __future__ import annotations

from typing import Any

import cupy as cp

from cukde.core.gpu.launch import Specialisation
from cukde.perf import Counted, Part, Peaks, declare

STEM = "study/kendall_pairs"
KERNEL = Specialisation(STEM, "kendall_pairs", (), "3P q")
MOST_SAMPLES = 92_000  # a thread meets at most 2^24 pairs of samples, which float counts exactly
BLOCK = (16, 16)

# Instructions of a pair of samples, of the loop over four of them: 28 loads, of which those of a comparison that no
# thread needs are passed over, 24 comparisons, 45 that make and add numbers (NVRTC, sm_90); and of a sample i, with the
# up to three pairs that are not a multiple of four.
_OF_PAIR, _OF_SAMPLE = 97 / 4, 60
# Loads of a pair that some thread needs: all but two, of equal numbers. Each takes a cycle of 128 bytes a warp.
_LOADED = 5 * 128 / 32
_TEXTBOOK_FLOPS, _TEXTBOOK_BYTES = 10, 16


def cost(on: Peaks, *, p: int, q: int, n: int) -> Counted:
    """Count the source's kernel for ``p`` columns with ``q`` of ``n`` samples; columns are read from the cache."""
    pairs, columns = p * q * n * (n - 1) / 2, p * q
    of_samples = columns * n * BLOCK[1] * _OF_SAMPLE  # each sample i is a thread's of each row of the block
    work = {"instruction": pairs * _OF_PAIR + of_samples, "shared": pairs * _LOADED}
    # A block reads both of its columns from the cache once; what it reads again is with it.
    part = Part("pairs", 4.0 * n * (p + q) + 8.0 * columns, work, requested=columns * 8.0 * (n + 1), blocks=columns)
    return Counted(
        (part,),
        "counted from kernels_cu/study/kendall_pairs.cu; textbook: the report on gpuKendall, sections 1 to 3",
        pairs,
        _TEXTBOOK_FLOPS * pairs,
        _TEXTBOOK_BYTES * pairs,
    )


def _sizes(a: Any, b: Any) -> dict[str, int]:
    return {"p": a.shape[0], "q": b.shape[0], "n": a.shape[1]}


@declare(cost, _sizes, name="study.kendall_pairs")
def agreement(a: Any, b: Any) -> Any:
    """(2 (C + Txy) - N) / N, shape (p, q), of the rows of ``a`` (p, n) with those of ``b`` (q, n), float32, contiguous.

    C pairs of samples are concordant, Txy tied in both, N all of them.
    """
    (p, n), q = a.shape, len(b)
    if n > MOST_SAMPLES:
        raise ValueError(f"float counts are exact up to {MOST_SAMPLES:,} samples; got {n:,}")
    result = cp.empty((q, p))
    KERNEL.launch((p, q), BLOCK, a, b, result, n)
    return result.T
