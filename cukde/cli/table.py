"""A table of numbers with named columns, as a file held it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np


class Table(Protocol):
    """What a command needs of a file, whatever its format."""

    path: Path
    names: list[str] | None  # of the columns, where the file has a header
    width: int  # number of columns

    def column(self, index: int) -> str:
        """Return how messages call a column."""

    def text_columns(self) -> dict[int, str]:
        """Return the columns that hold no numbers, each with what it holds and where."""

    def read(self, columns: Sequence[int], *, finite: bool = True) -> np.ndarray:
        """Return the numbers of some columns, (rows, len(columns)), all finite; otherwise NaN where one is missing."""

    def cells(self) -> Iterator[list[str]]:
        """Yield each row as the text of its cells, all columns."""
