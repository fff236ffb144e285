"""The kernels of ``kernels_cu/density/plane.cu``."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import numpy as np

from cukde.core.gpu import compile as core_compile
from cukde.core.gpu.launch import C_TYPE, DOUBLE, FLOAT, Specialisation
from cukde.density.plane import plan as plane_plan

THREADS = 256
"""Of a block."""

_TYPES = {
    "extremes": "2P q",
    "cells_of_points": "3P q 3i 4d",
    "spread_flags": "2P 4i",
    "list_cells": "5P i",
    "cell_moments": "6P 6i 4d",
    "add_parts": "5P 2i",
    "spread_masses": "5P 5i",
    "choose_cells": "5P i 2d",
    "translate": "5P 5i",
    "cell_values": "9P q 4i 6d",
    "sum_window": "10P 4i 7d",
}
_OF_POINTS = "extremes", "cells_of_points", "cell_moments"
_OF_QUERIES = "cell_values", "sum_window"
_OF_ANY = "spread_flags", "list_cells", "add_parts", "spread_masses", "choose_cells"


def blocks(count: int) -> tuple[int]:
    """Return a grid of so many threads."""
    return (max(1, -(-count // THREADS)),)


@functools.cache
def kernel(name: str, columns: int = 2, storage: np.dtype = DOUBLE, with_moments: bool = False) -> Specialisation:
    """Return a kernel, of points of so many columns stored in a dtype where it reads any."""
    dims = 2 if name in _OF_ANY else columns
    defines = core_compile.macros(DIMS=dims, STORAGE=C_TYPE[storage], MOMENTS=int(with_moments))
    return Specialisation("density/plane", name, defines, _TYPES[name])


def kernels(columns: int, storage: np.dtype, *, moments: bool) -> Iterator[Specialisation]:
    """What a pass launches for points of so many columns stored in a dtype."""
    for name in _TYPES:
        of_points = storage if name in (*_OF_POINTS, *_OF_QUERIES) else DOUBLE
        yield kernel(name, 2 if name in _OF_ANY else columns, of_points, moments and name in _OF_QUERIES)


@core_compile.listed
def specialisations() -> Iterator[Specialisation]:
    """Every kernel."""
    for columns in plane_plan.COLUMNS:
        for storage in (FLOAT, DOUBLE):
            yield from kernels(columns, storage, moments=False)
            yield from kernels(columns, storage, moments=True)
