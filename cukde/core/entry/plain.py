"""Types of arguments that need nothing done, by which the usual call is told at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

PLAIN: set[type] = {np.ndarray, np.float64, np.float32, np.int64, np.bool_}
PLAIN |= {float, int, bool, str, complex, bytes, type(None), list, tuple, range}


def see(arguments: Iterable[Any]) -> None:
    """Count CuPy's arrays among plain ones from the first that is seen."""
    for kind in map(type, arguments):
        if kind.__module__ == "cupy" and kind.__name__ == "ndarray":
            PLAIN.add(kind)
