"""Values as operands of the tensor cores: launcher of ``kernels_cu/density/values.cu``."""

from __future__ import annotations

from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile
from cukde.core.gpu.launch import C_TYPE, Specialisation, at_least
from cukde.density.pairs.gpu import finish, operands

# Columns that a block of values may have. Those of more values are several blocks of the widest.
COLUMNS = (16, 32, 64)

_THREADS = 256
_POSITIONS = 8  # of a thread


class Values(NamedTuple):
    """Values in two bfloat16 terms, padded with zeros; see ``values.cu`` for the order of columns."""

    hi: Any  # (blocks, padded rows, columns) uint16, the bits of bfloat16
    lo: Any  # likewise


def columns_of(k: int) -> int:
    """Columns of a block of ``k`` values."""
    return at_least(k, COLUMNS)


def contiguous(V: Any) -> Any:
    """``V`` in row-major order; what is neither float32 nor float64 becomes float32."""
    return finish.contiguous(V, V.dtype if V.dtype in C_TYPE else np.dtype(np.float32))


def prepare(V: Any) -> Values:
    """Operands of ``V``, shape (n, k), in one launch; see :func:`contiguous` for what they may be."""
    V = contiguous(V)
    n, k = V.shape
    columns = columns_of(k)
    rows = operands.padded(n)
    shape = -(-k // columns), rows, columns
    values = Values(cp.empty(shape, np.uint16), cp.empty(shape, np.uint16))
    grid = -(-rows * columns // (_POSITIONS * _THREADS)), shape[0]
    _kernel(V.dtype, columns).launch(grid, (_THREADS,), V, *values, n, k, rows)
    return values


@core_compile.specialised(C_TYPE, COLUMNS)
def _kernel(dtype: np.dtype, columns: int) -> Specialisation:
    defines = core_compile.macros(STORAGE=C_TYPE[dtype], COLUMNS=columns)
    return Specialisation("density/values", "prepare_values", defines, "3P q i q")
