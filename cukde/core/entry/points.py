"""Points of any library as an array, for classes and pictures, which bring nothing back to that library."""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.core import check as core_check
from cukde.core.cpu import arrays as host
from cukde.core.entry import missing as entry_missing, namespaces
from cukde.core.frames import columns
from cukde.core.frames.libraries import library_of


def taken(argument: str, a: Any, *, missing: bool = False) -> Any:
    """Return a frame, a series, a masked array or an array of another library as an array; all else as it is.

    Masked entries are refused, and so are missing values unless ``missing`` says that they are left out.
    """
    if library_of(a) is not None:
        array = columns.taken(argument, a)
        if not missing:
            entry_missing.refuse(argument, a, array, may_omit=False)
        return array
    if isinstance(a, np.ma.MaskedArray):
        return core_check.array(argument, a, host)
    return namespaces.taken(argument, a) if namespaces.is_foreign(a) else a
