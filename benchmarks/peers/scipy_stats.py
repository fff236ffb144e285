"""SciPy, on the CPU: Knight's algorithm, samples sorted by NumPy; NumPy arrays."""

from __future__ import annotations

from typing import Any

from scipy import stats


def kendalltau(x: Any, y: Any) -> Any:
    """tau-b of two samples."""
    return stats.kendalltau(x, y).statistic
