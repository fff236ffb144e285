"""Points of any library as an array, for classes and pictures, which bring nothing back to that library."""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.core import check as core_check
from cukde.core.cpu import arrays as host
from cukde.core.entry import missing as entry_missing, namespaces
from cukde.core.frames import columns
from cukde.core.frames.categories import Kinds
from cukde.core.frames.libraries import known, library_of


def taken(argument: str, a: Any, *, missing: bool = False, rounded: bool = False, kinds: Kinds | None = None) -> Any:
    """Return a frame, a series, a masked array or an array of another library as an array; all else as it is.

    Masked entries are refused, and so are missing values unless ``missing`` says that they are left out, and integers
    that float64 does not have unless they may be ``rounded``. Sparse arrays are left to scikit-learn. ``kinds`` are
    levels of columns of a frame, whose labels become codes.
    """
    frame = a if library_of(a) is not None else known(a)
    if frame is not None:
        a = columns.taken(argument, frame, kinds=kinds)
        if not missing:
            entry_missing.refuse(argument, frame, a, may_omit=False)
    elif isinstance(a, np.ma.MaskedArray) or (missing and isinstance(a, list | tuple | np.ndarray)):
        return core_check.array(argument, a, host, missing=missing, rounded=rounded)
    elif namespaces.is_foreign(a):
        a = namespaces.taken(argument, a)
    elif not hasattr(a, "toarray"):
        core_check.in_memory(argument, a)
    if not rounded:
        core_check.exact(argument, a)
    return a
