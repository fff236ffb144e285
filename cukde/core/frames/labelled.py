"""An array with the names of its columns, for functions by which columns are chosen by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class Labelled:
    """An array in host memory; ``columns`` are the names of its columns."""

    def __init__(self, array: Any, columns: Sequence[Any]) -> None:
        self.array, self.columns = array, list(columns)
        self.shape, self.ndim, self.dtype = array.shape, array.ndim, array.dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.array, dtype)


class LabelledOnDevice:
    """An array on a GPU; ``columns`` are the names of its columns."""

    def __init__(self, array: Any, columns: Sequence[Any]) -> None:
        self.array, self.columns = array, list(columns)
        self.shape, self.ndim, self.dtype = array.shape, array.ndim, array.dtype

    def to_cupy(self) -> Any:
        """Return the array."""
        return self.array


def labelled(array: Any, columns: Sequence[Any]) -> Any:
    """Give an array the names of its columns."""
    return (Labelled if isinstance(array, np.ndarray) else LabelledOnDevice)(array, columns)
