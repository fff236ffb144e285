"""Logarithms of weights divided by their sum: the launcher of ``kernels_cu/density/log_weights.cu``."""

from __future__ import annotations

import functools
from typing import Any

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile, device, scratch, survey
from cukde.core.gpu.launch import C_TYPE, DOUBLE, Specialisation

_THREADS = 256
_ROWS_OF_PART, _PARTS_OF_MULTIPROCESSOR = 4096, 2


def logarithms(weights: Any) -> Any:
    """Logarithms of weights, shape (n,), divided by their sum, float64; the same bits on every run."""
    w, n = survey.numbers(weights), weights.size
    out = cp.empty(n)
    rows, parts, memory = _plan(n, device.multiprocessors())
    (tops, sums), _ = memory.allocate()
    _kernel("part_sums", w.dtype).launch((parts,), (_THREADS,), w, tops, sums, n, rows)
    _kernel("log_weights", w.dtype).launch((-(-n // _THREADS),), (_THREADS,), w, tops, sums, out, n, parts)
    return out


@functools.lru_cache(maxsize=1024)
def _plan(n: int, multiprocessors: int) -> tuple[int, int, scratch.Layout]:
    """Weights of a part, number of the parts, and memory for them."""
    rows = max(_ROWS_OF_PART, -(-n // (_PARTS_OF_MULTIPROCESSOR * multiprocessors)))
    parts = -(-n // rows)
    return rows, parts, scratch.Layout([[((parts,), DOUBLE)] * 2])


_TYPES = {"part_sums": "3P 2q", "log_weights": "4P q i"}


@core_compile.specialised(_TYPES, C_TYPE)
def _kernel(name: str, dtype: np.dtype) -> Specialisation:
    return Specialisation("density/log_weights", name, core_compile.macros(STORAGE=C_TYPE[dtype]), _TYPES[name])
