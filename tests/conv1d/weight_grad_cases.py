"""Gradients of the weights of convolutions: sizes, arrays, and by how much sums may differ."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests import tolerances
from tests.conv1d import cases
from tests.private import Geometry

DTYPES = ("float16", "float32", "float64")

# Of the sum of absolute terms, beside the rounding of the result: chains of at most 1,024 terms, added up in float64.
# Measured, with that rounding, 1.6e-7 and 4.5e-16 where all terms are positive and chains of that length.
ALLOWED = {"float16": 5e-7, "float32": 5e-7, "float64": 1e-15}


def geometry(length: int, taps: int, *, batch: int = 2, channels: int = 3, **options: Any) -> Geometry:
    """Sizes; of a causal convolution unless told otherwise."""
    return cases.geometry(batch, channels, length, taps, **options)


def arrays(of: Geometry, dtype: str, *, positive: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """An input and what comes back to the output."""
    rng = np.random.default_rng(of.taps)
    x, dy = (rng.standard_normal(of.shape(n)) for n in (of.length, of.outputs))
    x, dy = (np.abs(a) if positive else a for a in (x, dy))
    return x.astype(dtype), dy.astype(dtype)


def check(dw: np.ndarray, db: np.ndarray, x: np.ndarray, dy: np.ndarray, of: Geometry) -> None:
    """Compare gradients with float64."""
    assert dw.dtype == db.dtype == x.dtype
    assert dw.shape == (of.channels, of.taps)
    want, size = cases.expected_weight_grad(x, dy, of)
    error = np.abs(np.column_stack([dw, db]).astype(np.float64) - want)
    info = np.finfo(x.dtype)
    rounding = float(info.eps) / 2 * np.abs(want) + float(info.smallest_subnormal)
    tolerances.check(error, ALLOWED[x.dtype.name] * size + rounding, f"weight gradient of {of}")
