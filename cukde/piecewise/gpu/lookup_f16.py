"""Functions of float16 numbers by a table of all of them: the launcher of ``kernels_cu/piecewise/lookup_f16.cu``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile, device
from cukde.core.gpu.launch import Specialisation
from cukde.piecewise.plan import TABLE_BYTES

NUMBERS = 2**16
_THREADS, _IN_FLIGHT = 1024, 2
_TILE = _THREADS * _IN_FLIGHT * 8


def numbers() -> Any:
    """All float16 numbers in the order of their bits, on the current device."""
    return cp.arange(NUMBERS, dtype=np.uint16).view(np.float16)


def evaluate(table: Any, x: Any, out: Any) -> None:
    """Write to ``out`` the entries of ``table``, which are for :func:`numbers`, for x; all float16 and contiguous."""
    blocks = min(-(-x.size // _TILE), device.multiprocessors())
    _KERNEL.launch((blocks,), (_THREADS,), x, table, out, x.size)


@core_compile.listed
def specialisations() -> Iterator[Specialisation]:
    """Every kernel of this module."""
    yield _KERNEL


_KERNEL = Specialisation(
    "piecewise/lookup_f16",
    "lookup_f16",
    core_compile.macros(THREADS=_THREADS, IN_FLIGHT=_IN_FLIGHT),
    "3P q",
    TABLE_BYTES,
)
