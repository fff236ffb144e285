"""The source's kernel for Kendall's tau, all pairs of samples: launcher of ``kernels_cu/study/kendall_pairs.cu``."""

from __future__ import annotations

from typing import Any

import cupy as cp
import numpy as np

from cukde import _compile

STEM, NAME = "study/kendall_pairs", "kendall_pairs"
MOST_SAMPLES = 92_000  # a thread meets at most 2^24 pairs of samples, which float counts exactly
BLOCK = (16, 16)


def agreement(a: Any, b: Any) -> Any:
    """(2 (C + Txy) - N) / N, shape (p, q), of the rows of ``a`` (p, n) with those of ``b`` (q, n), float32, contiguous.

    C pairs of samples are concordant, Txy tied in both, N all of them.
    """
    (p, n), q = a.shape, len(b)
    if n > MOST_SAMPLES:
        raise ValueError(f"float counts are exact up to {MOST_SAMPLES:,} samples; got {n:,}")
    result = cp.empty((q, p))
    _compile.kernel(STEM, NAME, ())((p, q), BLOCK, (a, b, result, np.int64(n)))
    return result.T
