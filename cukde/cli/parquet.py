"""Tables in Parquet files, read and written with pyarrow."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cukde.cli.errors import CommandError, file_errors
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

    def __init__(self, path: Path) -> None:
        require()
        from pyarrow import parquet

        self.path = path
        with _arrow_errors("read", path):
            self._file = parquet.ParquetFile(path)
            self._schema = self._file.schema_arrow
        self.names: list[str] | None = list(self._schema.names)
        self.width = len(self.names)
        if self.width == 0:
            raise CommandError(f"{path} has no columns")
        if len(set(self.names)) < self.width:
            raise CommandError(f"{path} has several columns of one name: {', '.join(self.names)}")

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
            arrays = [_numbers(table.column(name)) for name in names]
        for name, values in zip(names, arrays, strict=True):
            good = np.isfinite(values)
            if finite and not good.all():
                row = int(np.argmin(good))
                got = "null or nan" if np.isnan(values[row]) else values[row]
                raise CommandError(
                    f"{self.path}, row {row} (from 0), column {name!r}: expected a finite number; got {got}: "
                    "fill or drop that row"
                )
        return np.stack(arrays, axis=1)

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


def _numbers(column: Any) -> np.ndarray:
    from pyarrow import types

    kind = column.type
    if types.is_boolean(kind) or types.is_decimal(kind):
        column = column.cast("float64")
    out: np.ndarray = column.to_numpy()
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
