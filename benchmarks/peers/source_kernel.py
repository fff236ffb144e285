"""The kernel of the source for Kendall's tau, all pairs of samples by float compares; CuPy arrays.

It counts pairs tied in both variables as concordant and those tied in one as discordant: tau only without ties.
"""

from __future__ import annotations

from typing import Any

import cupy as cp
import numpy as np

from benchmarks.kendall import study_pairs


def kendall_matrix(A: Any) -> Any:
    """Its statistic for all pairs of columns."""
    columns = cp.ascontiguousarray(A.T, np.float32)
    return study_pairs.agreement(columns, columns)
