"""pandas with its defaults, on the CPU; NumPy arrays.

Two samples take SciPy's function. A matrix takes it for each pair of columns before pandas 3.1, and a compiled loop of
pandas's own since.
"""

from __future__ import annotations

from typing import Any

import pandas as pd


def kendalltau(x: Any, y: Any) -> Any:
    """tau-b of two samples."""
    return pd.Series(x).corr(pd.Series(y), method="kendall")


def kendall_matrix(A: Any) -> Any:
    """tau-b of all pairs of columns."""
    return pd.DataFrame(A).corr(method="kendall").to_numpy()
