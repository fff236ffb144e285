"""Tables of numbers in CSV, NPY and Parquet files, of which chosen columns are read.

Python's own module reads CSV, in every installation and row by row: messages name the line of the file, and cells are
written again as they stand. Other readers are faster. But numpy.loadtxt and pyarrow count rows, not lines; pandas names
neither for a word among numbers, and takes a short row for one with missing numbers; pandas and pyarrow are extras, and
need twice the memory.
"""

from __future__ import annotations

import contextlib
import csv
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from cukde.cli import parquet
from cukde.cli.columns import Table
from cukde.cli.errors import CommandError, file_errors

TEXT_SUFFIXES = (".csv", ".tsv", ".txt")
_ROWS_AT_ONCE = 20_000


def open_table(path: Path) -> Table:
    """Open a file by its suffix."""
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return NpyTable(path)
    if suffix in TEXT_SUFFIXES:
        return CsvTable(path)
    if suffix == parquet.SUFFIX:
        return parquet.ParquetTable(path)
    raise CommandError(f"{path} must end in .npy, .parquet or {', '.join(TEXT_SUFFIXES)}, so that its format is known")


class CsvTable:
    """Text with one row a line, cells separated by comma, semicolon or tab.

    The first row is a header, unless all its cells are numbers, or it has numbers and texts in the same columns as the
    second row: a file without a header may have a column of texts.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with _opened(path) as file:
            self.delimiter = _delimiter(list(itertools.islice(file, 20)))
        first_rows = list(itertools.islice(self._lines(), 2))
        if not first_rows:
            raise CommandError(f"{path} is empty; expected a row of numbers on each line")
        first = first_rows[0][1]
        self.width = len(first)
        numeric = [_number(cell) is not None for cell in first]
        second = [_number(cell) is not None for cell in first_rows[-1][1]] if len(first_rows) > 1 else []
        has_header = not all(numeric) and not (any(numeric) and numeric == second)
        self.names = [cell.strip() for cell in first] if has_header else None
        self._first_data = first_rows[1:2] if has_header else first_rows[:1]

    def column(self, index: int) -> str:
        """Return a name in quotes, or an index if there are no names."""
        return f"column {self.names[index]!r}" if self.names else f"column {index}"

    def text_columns(self) -> dict[int, str]:
        """Return the columns with texts in the first row of data; an empty cell there is a missing number."""
        return {
            index: f"{cell!r} on line {line}"
            for line, row in self._first_data
            for index, cell in enumerate(row[: self.width])
            if cell.strip() and _number(cell) is None
        }

    def read(self, columns: Sequence[int], *, finite: bool = True) -> np.ndarray:
        """Return the numbers of some columns as float64."""
        rows = self._rows()
        blocks = [np.empty((0, len(columns)))]
        while chunk := list(itertools.islice(rows, _ROWS_AT_ONCE)):
            block = _numbers([row[index] for _, row in chunk for index in columns]).reshape(-1, len(columns))
            for row, column in np.argwhere(~np.isfinite(block)):
                line, cells = chunk[row]
                cell = cells[columns[column]]
                if finite or (cell.strip() and _number(cell) is None):
                    self._refuse(line, columns[column], cell)
            blocks.append(block)
        return np.concatenate(blocks)

    def cells(self) -> Iterator[list[str]]:
        """Yield the rows as in the file."""
        return (row for _, row in self._rows())

    def arrow(self, names: list[str]) -> Any:
        """Let pyarrow tell the columns' types, by all rows of files up to 2 GiB; empty cells are nulls."""
        from pyarrow import csv as arrow_csv

        return arrow_csv.read_csv(
            self.path,
            arrow_csv.ReadOptions(
                column_names=None if self.names else names,
                block_size=min(self.path.stat().st_size + 1, 2**31 - 1),
            ),
            arrow_csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            arrow_csv.ConvertOptions(null_values=[""]),
        ).rename_columns(names)

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows below the header with their line numbers, all of the same width."""
        for line, row in itertools.islice(self._lines(), 1 if self.names else 0, None):
            if len(row) != self.width:
                raise CommandError(
                    f"{self.path}, line {line}: expected {self.width} cells as in the first row; got {len(row)}"
                )
            yield line, row

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """Yield every row that is not blank."""
        with _opened(self.path) as file:
            reader = csv.reader(file, delimiter=self.delimiter)
            for row in reader:
                if row:
                    yield reader.line_num, row

    def _refuse(self, line: int, index: int, cell: str) -> None:
        where = f"{self.path}, line {line}, {self.column(index)}"
        if not cell.strip():
            raise CommandError(f"{where}: expected a number; the cell is empty: fill or drop that row")
        if _number(cell) is not None:
            raise CommandError(f"{where}: expected a finite number; got {cell!r}: fill or drop that row")
        raise CommandError(f"{where}: expected a number such as -1.5e3; got {cell!r}")


class NpyTable:
    """A NumPy array saved by ``np.save``: (rows, columns), or (rows,) for one column."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.names: list[str] | None = None
        with file_errors("read", path):
            try:
                array: Any = np.load(path, allow_pickle=False)
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
            raise CommandError(
                f"{self.path}, row {row} (from 0), {self.column(columns[column])}: "
                f"expected a finite number; got {block[row, column]}: fill or drop that row"
            )
        return block

    def cells(self) -> Iterator[list[str]]:
        """Yield the rows with every digit that distinguishes their numbers."""
        return ([str(number) for number in row] for row in self._array)

    def arrow(self, names: list[str]) -> Any:
        """Keep the file's dtype, in the byte order of this machine."""
        from pyarrow import table

        native = self._array.astype(self._array.dtype.newbyteorder("="), copy=False)
        return table(dict(zip(names, native.T, strict=True)))


def _number(cell: str) -> float | None:
    """Read a number, or return None, also for Python's 1_000."""
    try:
        return float(cell) if "_" not in cell else None
    except ValueError:
        return None


def _numbers(cells: list[str]) -> np.ndarray:
    """Read many numbers; NaN where there is none."""
    if "_" not in "".join(cells):
        with contextlib.suppress(ValueError):
            return np.array(list(map(float, cells)))
    return np.array([_number(cell) for cell in cells], dtype=np.float64)  # None becomes NaN


def _delimiter(lines: list[str]) -> str:
    """Return the delimiter that cuts all first lines into the same number of cells, two or more.

    Tab and semicolon come first, since their cells may contain commas, but rarely the reverse.
    """
    for delimiter in "\t;,":
        widths = {len(row) for row in csv.reader(lines, delimiter=delimiter) if row}
        if len(widths) == 1 and widths.pop() > 1:
            return delimiter
    return max(",;\t", key=lambda delimiter: lines[0].count(delimiter) if lines else 0)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    """Open text to be read as CSV; errors become messages."""
    try:
        with file_errors("read", path), path.open(newline="", encoding="utf-8-sig") as file:
            yield file
    except UnicodeDecodeError as error:
        raise CommandError(f"{path} is not text in UTF-8: {error}") from None
    except csv.Error as error:
        raise CommandError(f"{path} cannot be read as CSV: {error}") from None
