"""The library that a data frame or a series is of, told by the module of its type."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from collections.abc import Iterable
from typing import Any

from cukde.core.frames.numbers import Numbers

_CLASSES = {
    "pandas": ("pandas_frames", ("DataFrame", "Series")),
    "cudf": ("cudf_frames", ("DataFrame", "Series")),
    "polars": ("polars_frames", ("DataFrame", "Series")),
    "pyarrow": ("arrow_frames", ("Table", "RecordBatch", "ChunkedArray", "Array")),
}


class Library:
    """What is asked of frames and series, answered here for a library whose rows have no names but their positions."""

    library = ""
    """The module that has its classes."""

    on_device = False
    """Whether its columns are arrays on a GPU."""

    def labels(self, a: Any) -> tuple[Any, ...] | None:
        """Names of the columns of a frame; None of a series."""
        raise NotImplementedError

    def rows(self, a: Any) -> tuple[Any, ...] | None:
        """Names of the rows of a frame or a series of few; None where the library has none."""
        return None

    def columns(self, a: Any) -> list[Any]:
        """The columns of a frame, or the series itself."""
        raise NotImplementedError

    def chosen(self, a: Any, places: list[int]) -> Any:
        """The frame of the columns at these positions."""
        return a[:, places]

    def dtype(self, column: Any) -> Any:
        """The library's own dtype."""
        return column.dtype

    def numbers(self, column: Any, by_order: bool) -> Numbers | None:
        """Return the numbers of a column, or ``by_order`` of ordered categories; None if it holds anything else."""
        raise NotImplementedError

    def is_category(self, column: Any) -> bool:
        """Whether a column is of categories, ordered or not."""
        raise NotImplementedError

    def kind(self, column: Any) -> str | None:
        """Return what a column is by its dtype: "categorical" (text, too), "ordered", "boolean", or None."""
        return None

    def levels(self, column: Any) -> tuple[list[Any], bool] | None:
        """Return the levels of a dtype of categories, and whether they have an order; None of other dtypes."""
        return None

    def objects(self, column: Any) -> list[Any]:
        """The entries of a column as Python's objects."""
        return list(column.to_list())

    def of_categories(self, labels: list[Any], levels: list[Any], ordered: bool) -> Any:
        """Return a column of a dtype of categories."""
        raise NotImplementedError

    def frame(self, columns: dict[Any, Any]) -> Any:
        """Return a frame of columns by their names."""
        return importlib.import_module(self.library).DataFrame(columns)

    def whole(self, a: Any) -> Any | None:
        """Return a frame as an array at once where all columns are of one plain dtype, else None."""
        return None

    def name(self, a: Any) -> Any:
        """The name of a series."""
        return a.name

    def row_label(self, a: Any, row: int) -> Any:
        """The label of a row, None where the library has none."""
        return None

    def same_rows(self, a: Any, b: Any) -> bool:
        """Whether the labels of two frames or series of the library agree, as far as both have some."""
        return True

    def series(self, values: Any, name: str | None, like: Any) -> Any:
        """Return a series with the rows of a frame or a series, or of new ones where ``like`` is None."""
        raise NotImplementedError

    def table(self, values: Any, labels: Iterable[Any], like: Any, rows: Iterable[Any] | None = None) -> Any:
        """Return a frame with columns of these names, and the rows of ``like``, or of the names ``rows``."""
        raise NotImplementedError


def library_of(a: Any) -> Library | None:
    """The library of a frame or a series, of a subclass too; None of anything else."""
    kind: Any = type(a)
    return _of_kind(kind)


def known(a: Any) -> Any | None:
    """Return an index or an array of pandas as a series, and what hands its columns to Arrow as Arrow's; else None."""
    kind: Any = type(a)
    if "pandas" in sys.modules and kind.__module__.partition(".")[0] == "pandas":
        pandas = importlib.import_module("pandas")
        is_line = isinstance(a, pandas.Index | pandas.api.extensions.ExtensionArray)
        return pandas.Series(a) if is_line and not isinstance(a, pandas.MultiIndex) else None
    if hasattr(kind, "__arrow_c_stream__") and importlib.util.find_spec("pyarrow"):
        arrow = importlib.import_module("pyarrow")
        return arrow.table(a) if hasattr(a, "columns") else arrow.chunked_array(a)
    return None


@functools.lru_cache(maxsize=512)
def _of_kind(kind: type) -> Library | None:
    for each in kind.__mro__:
        root = each.__module__.partition(".")[0]
        if root in _CLASSES and each.__name__ in _CLASSES[root][1]:
            return named(root)
    return None


@functools.cache
def named(root: str) -> Library:
    """Return a library by its name."""
    library: Library = importlib.import_module(f"cukde.core.frames.{_CLASSES[root][0]}").Frames()
    return library
