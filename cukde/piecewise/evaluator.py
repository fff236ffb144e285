"""Piecewise polynomials at arrays of either backend, with what a backend prepares kept for the next call."""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any, Literal

import numpy as np

from cukde.core import dtypes
from cukde.piecewise import check, pieces as piecewise_pieces
from cukde.piecewise.pieces import Pieces


class Evaluator:
    """Values of pieces of float64, which nobody changes, prepared once for each device and dtype.

    What is prepared belongs to devices of this process: it is not to be pickled.
    """

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._prepared: dict[tuple[Any, np.dtype], Any] = {}

    def __call__(
        self, x: Any, extrapolate: bool | Literal["periodic", "clamp"], backend: ModuleType, out: Any = None
    ) -> Any:
        """Evaluate at floating points of any shape on the current device of the backend.

        The result has the dtype of x; its shape is that of x, with an axis for the values where a point has several.
        ``out``, for one value a point, is of the shape and dtype of x and apart from it. Periodic functions are
        computed in float64.
        """
        dtype = np.dtype(np.float64) if extrapolate == "periodic" else x.dtype
        prepared = self._prepare(backend, dtype)
        flat = backend.xp.ascontiguousarray(x if x.ndim == 1 else x.reshape(-1), dtype)
        if out is not None and out.flags.c_contiguous and out.dtype == dtype:
            _passes(backend).evaluate(prepared, flat, extrapolate, out.reshape(-1))
            return out
        values = _passes(backend).evaluate(prepared, flat, extrapolate)
        if values.dtype != x.dtype:
            with np.errstate(over="ignore"):
                values = values.astype(x.dtype)
        if x.ndim != 1:
            values = values.reshape(x.shape + values.shape[1:])
        if out is None:
            return values
        out[...] = values
        return out

    def _prepare(self, backend: ModuleType, dtype: np.dtype) -> Any:
        key = backend.device_key(), dtype
        if key not in self._prepared:
            number = dtypes.arithmetic(dtype)
            pieces = piecewise_pieces.rounded(self._pieces, number)
            check.representable(pieces, number)
            self._prepared[key] = _passes(backend).prepare(pieces, dtype)
        return self._prepared[key]


@functools.cache
def _passes(backend: ModuleType) -> ModuleType:
    """Preparation and evaluation."""
    if backend.name == "gpu":
        from cukde.piecewise.gpu import passes as on_gpu

        return on_gpu
    from cukde.piecewise.cpu import passes as on_cpu

    return on_cpu


Extrapolate = bool | Literal["periodic", "clamp"]
