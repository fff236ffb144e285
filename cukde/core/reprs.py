"""Results in a line or two, however large their arrays are."""

from __future__ import annotations

from typing import Any

import numpy as np

_FEW = 6  # entries of an array that are shown


def of_result(result: Any) -> str:
    """Return a named tuple as text: numbers and few entries as they are, of other arrays their kind and shape."""
    fields = zip(result._fields, result, strict=True)
    return f"{type(result).__name__}({', '.join(f'{name}={_shown(value)}' for name, value in fields)})"


def _shown(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if shape is None:
        return repr(value)
    if isinstance(value, np.generic):
        return repr(value.item())
    if isinstance(value, np.ndarray) and value.size <= _FEW:
        return " ".join(np.array2string(value, separator=", ", precision=4).split())
    return f"<{type(value).__module__.partition('.')[0]} array of shape {shape}, {value.dtype}>"
