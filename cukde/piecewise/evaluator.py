"""Evaluation of piecewise polynomials by either backend, which keeps the prepared tables for later calls."""

from __future__ import annotations

import functools
import importlib
from functools import partial
from types import ModuleType
from typing import Any, Literal

import numpy as np

from cukde.core import dispatch, dtypes, plan as core_plan
from cukde.piecewise import calculus, check, pieces as piecewise_pieces
from cukde.piecewise.pieces import Pieces

_passes = partial(dispatch.passes, "cukde.piecewise")

Extrapolate = bool | Literal["periodic", "clamp", "raise"]


class Evaluator:
    """Evaluates immutable pieces of float64, prepared once for each device and dtype.

    The prepared tables belong to devices of this process, so an evaluator must not be pickled.
    """

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._prepared: dict[tuple[Any, ...], Any] = {}

    def __call__(self, x: Any, extrapolate: Extrapolate, backend: ModuleType, out: Any = None) -> Any:
        """Evaluate at floating-point x of any shape on the current device of the backend.

        The result has the dtype and the shape of x, with a last axis if there are several values at a point. ``out``,
        for one value at a point, has the shape and dtype of x and does not overlap it. Periodic functions are computed
        in float64.
        """
        if extrapolate == "raise":
            return self._within(self(x, False, backend, out), x, backend)
        on_gpu = backend.name == "gpu" and out is None
        if on_gpu and (values := self._repeated.result((x,), extrapolate)) is not None:
            return values
        dtype = np.dtype(np.float64) if extrapolate == "periodic" else x.dtype
        prepared = self._prepare(backend, dtype, extrapolate)
        flat = backend.xp.ascontiguousarray(x if x.ndim == 1 else x.reshape(-1), dtype)
        if out is not None and out.flags.c_contiguous and out.dtype == dtype:
            _passes(backend).evaluate(prepared, flat, extrapolate, out.reshape(-1))
            return out
        values = _passes(backend).evaluate(prepared, flat, extrapolate)
        if on_gpu:
            _passes(backend).keep(self._repeated, prepared, x, extrapolate)
        if values.dtype != x.dtype:
            with np.errstate(over="ignore"):
                values = values.astype(x.dtype)
        if x.ndim != 1:
            values = values.reshape(x.shape + values.shape[1:])
        if out is None:
            return values
        out[...] = values
        return out

    def again(self, x: Any, extrapolate: Any) -> Any | None:
        """Evaluate at points on a GPU that are like those of a call before; None where there was none."""
        if type(extrapolate) is str and extrapolate == "raise":
            values = self._repeated.result((x,), False)
            return None if values is None else self._within(values, x, dispatch.backend(x, "x"))
        return self._repeated.result((x,), extrapolate)

    def _within(self, values: Any, x: Any, backend: ModuleType) -> Any:
        """Return values that are NaN beyond the knots, if no x lies there; a capture cannot wait to tell."""
        if backend.name == "cpu" or not importlib.import_module("cukde.core.gpu.device").capturing():
            check.within(values, x, self._pieces.knots, backend)
        return values

    @functools.cached_property
    def _repeated(self) -> Any:
        return importlib.import_module("cukde.core.gpu.repeated").Repeated(64)

    def _prepare(self, backend: ModuleType, dtype: np.dtype, extrapolate: Extrapolate) -> Any:
        """Return the tables, which depend on ``extrapolate`` only where an end piece has no number of the dtype."""
        key = backend.device_key(), dtype, core_plan.asked(), extrapolate
        if key not in self._prepared:
            number, pieces = dtypes.arithmetic(dtype), self._pieces
            narrow = piecewise_pieces.has_narrow_end(pieces, number)
            shared = *key[:3], extrapolate if narrow else None
            if shared not in self._prepared:
                clamp = narrow and extrapolate == "clamp"
                if clamp:  # the values at the ends by pieces of their own
                    c, knots = calculus.clamped(pieces.coefficients, pieces.knots, pieces.local)
                    pieces = pieces._replace(coefficients=c, knots=knots)
                pieces = piecewise_pieces.rounded(pieces, number, clamp or extrapolate is True)
                check.representable(pieces, number)
                self._prepared[shared] = _passes(backend).prepare(pieces, dtype)
            self._prepared[key] = self._prepared[shared]
        return self._prepared[key]
