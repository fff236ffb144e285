"""Tables in Parquet files, read and written with pyarrow."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cukde.cli.columns import EXACT, exact, refuse_missing, together
from cukde.cli.errors import CommandError, file_errors
from cukde.cli.sources import Source
from cukde.core import extras

if TYPE_CHECKING:
    from cukde.cli.columns import Table

SUFFIX = ".parquet"


def require() -> None:
    """Raise without pyarrow."""
    if importlib.util.find_spec("pyarrow") is None:
        raise CommandError(f"Parquet files need pyarrow: {extras.install('parquet')}")


class ParquetTable:
    """A Parquet file, whose numbers keep their dtype."""

    def __init__(self, source: Source) -> None:
        require()
        from pyarrow import parquet

        path = self.path = source.path
        with source.open() as file:
            whole = io.BytesIO(file.read()) if source.in_memory else path
        with _arrow_errors("read", path):
            self._file = parquet.ParquetFile(whole)
            self._schema = self._file.schema_arrow
        self.names: list[str] | None = list(self._schema.names)
        self.width = len(self.names)
        if self.width == 0:
            raise CommandError(f"{path} has no columns")
        if len(set(self.names)) < self.width:
            raise CommandError(f"{path} has several columns of one name: {', '.join(self.names)}")
        index = json.loads((self._schema.metadata or {}).get(b"pandas", b"{}")).get("index_columns", [])
        self.aside = {
            k: "row labels"
            for k, name in enumerate(self.names)
            if name in index or re.fullmatch(r"__index_level_\d+__", name)
        }

    def column(self, index: int) -> str:
        """Return the name in quotes."""
        return f"column {self._schema.names[index]!r}"

    def text_columns(self) -> dict[int, str]:
        """Judge by the types of the columns."""
        from pyarrow import types

        def holds_numbers(kind: Any) -> bool:
            return bool(
                types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)
            )

        return {
            index: f"its type is {field.type}"
            for index, field in enumerate(self._schema)
            if not holds_numbers(field.type)
        }

    def read(self, columns: Sequence[int], *, finite: bool = True) -> np.ndarray:
        """Return some columns in their common dtype; booleans, decimals and columns with nulls become float64."""
        names = [self._schema.names[index] for index in columns]
        with _arrow_errors("read", self.path):
            table = self._file.read(columns=names)
            arrays = [_numbers(self.path, table.column(name), f"column {name!r}") for name in names]
        for index, values in zip(columns, arrays, strict=True):
            good = np.isfinite(values)
            if finite and not good.all():
                row = int(np.argmin(good))
                missing = "null or nan, a missing value"
                refuse_missing(self, row, index, missing if np.isnan(values[row]) else values[row])
        return together(self.path, arrays, [self.column(index) for index in columns])

    def cells(self) -> Iterator[list[str]]:
        """Yield the rows as text, with every digit that distinguishes their numbers; nulls are empty."""
        with _arrow_errors("read", self.path):
            for batch in self._file.iter_batches():
                yield from map(list, zip(*(_texts(column) for column in batch.columns), strict=True))

    def arrow(self, names: list[str]) -> Any:
        """Return what the file holds."""
        with _arrow_errors("read", self.path):
            return self._file.read()


def write(path: Path, table: Table, names: list[str], numbers: np.ndarray, name: str) -> None:
    """Write a table with columns ``names``, and one more column of numbers."""
    from pyarrow import array, parquet

    if len(set(names)) < len(names):
        raise CommandError(f"a Parquet file cannot have several columns of one name: {', '.join(names)}")
    with _arrow_errors("write", path):
        parquet.write_table(table.arrow(names).append_column(name, array(numbers)), path)


def _numbers(path: Path, column: Any, name: str) -> np.ndarray:
    """Return a column as an array; of decimals and of integers with nulls as float64, or refused."""
    from pyarrow import types

    decimal = types.is_decimal(column.type)
    out: np.ndarray = (column.cast("float64") if decimal or types.is_boolean(column.type) else column).to_numpy()
    rounds = decimal or (types.is_integer(column.type) and column.null_count)
    if rounds and abs(out[np.isfinite(out)]).max(initial=0) >= EXACT:
        cells = column.to_pylist()
        whole = [None if cell is None or cell != int(cell) else int(cell) for cell in cells]
        out = exact(path, name, whole, out)
    return out


def _texts(column: Any) -> list[str]:
    from pyarrow import types

    if types.is_floating(column.type) and not column.null_count:
        return list(map(str, column.to_numpy(zero_copy_only=False)))
    return ["" if value is None else str(value) for value in column.to_pylist()]


@contextlib.contextmanager
def _arrow_errors(action: str, path: Path) -> Iterator[None]:
    """Turn pyarrow's errors about damaged or unknown files into messages."""
    from pyarrow import ArrowException

    try:
        with file_errors(action, path):
            yield
    except ArrowException as error:
        raise CommandError(f"cannot {action} {path} as Parquet: {str(error).splitlines()[0]}") from None
