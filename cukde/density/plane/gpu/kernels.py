"""The kernels of ``kernels_cu/density/plane.cu``."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from cukde.core.gpu import compile as core_compile
from cukde.core.gpu.launch import C_TYPE, DOUBLE, Specialisation

THREADS = 256
"""Of a block, but in translations."""

_TYPES = {
    "extremes": "2P q",
    "cells_of_points": "2P q 2i 3d",
    "cell_moments": "5P 4i 3d",
    "add_parts": "4P 2i",
    "accept_cells": "6P 3i 2d",
    "translate": "5P 3i 4q",
    "cell_values": "8P q 3i 4d",
    "sum_window": "10P 3i 6d",
}
_OF_POINTS = "extremes", "cells_of_points", "cell_moments"
_OF_QUERIES = "cell_values", "sum_window"


@functools.cache
def kernel(name: str, storage: np.dtype = DOUBLE, with_moments: bool = False) -> Specialisation:
    """Return a kernel, of points stored in a dtype where it reads any."""
    defines = core_compile.macros(STORAGE=C_TYPE[storage], MOMENTS=int(with_moments))
    return Specialisation("density/plane", name, defines, _TYPES[name])


@core_compile.listed
def specialisations() -> Iterator[Specialisation]:
    """Every kernel."""
    for name in _TYPES:
        for storage in C_TYPE if name in (*_OF_POINTS, *_OF_QUERIES) else (DOUBLE,):
            for with_moments in (False, True) if name in _OF_QUERIES else (False,):
                yield kernel(name, storage, with_moments)
