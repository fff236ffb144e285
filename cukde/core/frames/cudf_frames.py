"""Frames and series of cuDF: their columns are arrays on the GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.core.frames import pandas_frames
from cukde.core.frames.numbers import Numbers


class Frames(pandas_frames.Frames):
    """Like those of pandas; columns are taken one by one, of which each may have missing values."""

    on_device = True
    library = "cudf"

    def numbers(self, column: Any, by_order: bool) -> Numbers | None:
        kind = column.dtype
        if not isinstance(kind, np.dtype) or kind.kind not in "fiub":
            return None
        if not column.has_nulls:
            return Numbers(column.to_cupy())
        return Numbers(column.fillna(0).to_cupy(), column.isna().to_cupy())

    def is_category(self, column: Any) -> bool:
        return str(column.dtype) == "category"

    def kind(self, column: Any) -> None:
        """Columns of categories are not taken: give their codes, with ``kinds``."""

    def whole(self, a: Any) -> None:
        return None

    def host(self, index: Any) -> Any:
        """Return an index of pandas: cuDF's do not let anyone go through them."""
        return index.to_pandas()
