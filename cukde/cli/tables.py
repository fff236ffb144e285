"""Tables of numbers in text, NPY and Parquet files, of which chosen columns are read."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cukde.cli import device, parquet, text
from cukde.cli.columns import Table, refuse_missing
from cukde.cli.errors import CommandError
from cukde.cli.sources import Source


def open_table(path: Path, options: argparse.Namespace = text.DEFAULTS) -> Table:
    """Open a file by its suffix, or standard input by its first bytes; see :func:`cukde.cli.text.add_options`."""
    source = Source(path)
    if source.suffix == ".npy":
        return NpyTable(source)
    if source.suffix in text.SUFFIXES:
        return text.TextTable(source, options)
    if source.suffix == parquet.SUFFIX:
        return parquet.ParquetTable(source)
    raise CommandError(
        f"{path} must end in .npy, .parquet or {', '.join(text.SUFFIXES)}, perhaps with .gz, .bz2 or .xz, so that its "
        "format is known"
    )


def add_options(parser: Any) -> None:
    """Add the options of commands that compute on columns of a file: which, where, and how it is read."""
    parser.add_argument("--columns", metavar="A,B", help="names of columns, or numbers from 0 if there is no header")
    device.add_option(parser)
    text.add_options(parser)


def rows(table: Table, columns: Sequence[int], *, finite: bool = True) -> np.ndarray:
    """Return the numbers of some columns of a file that must have rows."""
    out = table.read(columns, finite=finite)
    if len(out) == 0:
        raise CommandError(f"{table.path} holds no rows of data")
    return out


class NpyTable:
    """A NumPy array saved by ``np.save``: (rows, columns), or (rows,) for one column."""

    def __init__(self, source: Source) -> None:
        path = self.path = source.path
        self.names: list[str] | None = None
        self.aside: dict[int, str] = {}
        with source.open() as file:
            try:
                array: Any = np.load(file, allow_pickle=False)
            except (ValueError, EOFError) as error:
                raise CommandError(f"{path} is not a NumPy file of plain numbers: {error}") from None
        if not isinstance(array, np.ndarray):
            raise CommandError(f"{path} is an archive of arrays; save the one array with np.save")
        if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
            raise CommandError(f"{path} must hold real numbers; got dtype {array.dtype}")
        if array.ndim not in (1, 2) or array.shape[1:] == (0,):
            raise CommandError(f"{path} must have shape (rows, columns) or (rows,); got {array.shape}")
        self._array = array[:, None] if array.ndim == 1 else array
        self.width = self._array.shape[1]

    def column(self, index: int) -> str:
        """Return the index."""
        return f"column {index}"

    def text_columns(self) -> dict[int, str]:
        """Return none: an array is all numbers."""
        return {}

    def read(self, columns: Sequence[int], *, finite: bool = True) -> np.ndarray:
        """Return some columns in the file's own dtype."""
        block = np.ascontiguousarray(self._array[:, list(columns)])
        good = np.isfinite(block)
        if finite and not good.all():
            row, column = np.argwhere(~good)[0]
            refuse_missing(self, int(row), columns[column], block[row, column])
        return block

    def cells(self) -> Iterator[list[str]]:
        """Yield the rows with every digit that distinguishes their numbers."""
        return ([str(number) for number in row] for row in self._array)

    def arrow(self, names: list[str]) -> Any:
        """Keep the file's dtype, in the byte order of this machine."""
        from pyarrow import table

        native = self._array.astype(self._array.dtype.newbyteorder("="), copy=False)
        return table(dict(zip(names, native.T, strict=True)))
