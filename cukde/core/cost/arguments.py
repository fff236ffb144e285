"""Shapes and types of arguments as they are, on any device, without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np


def shape(a: Any) -> tuple[int, ...]:
    """The shape of an array or of what can be made one."""
    found = getattr(a, "shape", None)
    return tuple(np.shape(a) if found is None else found)


def dtype(a: Any) -> np.dtype:
    """The type of the entries."""
    found = getattr(a, "dtype", None)
    return np.asarray(a).dtype if found is None else np.dtype(found)


def floating(a: Any) -> str:
    """The name of the type of floating numbers that entries are taken as: integers are float64."""
    found = dtype(a)
    return found.name if found.kind == "f" else "float64"
