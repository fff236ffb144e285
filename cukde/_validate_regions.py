"""The errors a user of highest-density regions can cause, raised before anything is computed."""

from __future__ import annotations

from typing import Any

import numpy as np

METHODS = ("kde", "sd")


def mass(given: Any) -> np.ndarray:
    """Return probabilities between 0 and 1, float64, of a number or an array of any shape on the host."""
    try:
        out = np.asarray(given)
    except ValueError as error:
        raise ValueError(f"mass must be a number or a rectangular array: {error}") from None
    if out.dtype.kind not in "fiu" or out.dtype.itemsize > 8:
        raise TypeError(f"mass must be a number between 0 and 1, or an array of them; got {given!r}")
    out = out.astype(np.float64)
    inside = (out > 0) & (out < 1)
    if not inside.all():
        raise ValueError(f"mass must lie between 0 and 1; got {out[~inside].flat[0]:g}")
    return out
