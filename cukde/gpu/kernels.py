"""Densities by kernels beside the Gaussian on the GPU: the launcher of ``kernel_density.cu``."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import cupy as cp
import numpy as np

from cukde import _compile
from cukde._kernels import KERNELS, Kernel, edge
from cukde._partial import PartialSums, to_density
from cukde.gpu import _operands, _results
from cukde.gpu._specialisation import C_TYPE, DOUBLE, FLOAT

_THREADS = 256

# Dimensions staged at a time. Of one to three a warp squares zeros too, which is little beside what follows a distance.
_CHUNK = 8


def kernel_density(
    X: Any,
    Y: Any | None,
    h: float,
    kernel: Kernel,
    *,
    log_constant: float,
    log: bool,
    log_weights: Any = None,
    dtype: np.dtype,
) -> Any:
    """Return ``exp(log_constant)`` times the sums of the kernel, shape (m,), or the logarithm of that.

    On the current device and stream; nothing waits for the result.

    Parameters
    ----------
    X : array, shape (n, d)
        Data, float32 or float64, C-contiguous. Squared distances are summed in their type, near the edge
        of a kernel in double.
    Y : array, shape (m, d), optional
        Queries; None are the data themselves.
    h : float
        Bandwidth, in the units of ``X``.
    kernel : {"tophat", "epanechnikov", "exponential", "linear", "cosine"}
        See :mod:`cukde._kernels`.
    log_weights : array, shape (n,), optional
        Float64; -1e30 stands for the logarithm of zero. Default 0.
    """
    X, Y = _operands.of_one_dtype(X, Y)
    Y = X if Y is None else Y
    (n, d), m = X.shape, Y.shape[0]
    out = _results.empty(m, 0)
    if m:
        out = _results.merge(_launch(X, Y, h, kernel, log_weights, n, m, d, out), out)
    with np.errstate(divide="ignore"):  # nothing near a query: the logarithm is -inf
        return to_density(out, log_constant, log, dtype, cp)


def _launch(
    X: Any, Y: Any, h: float, kernel: Kernel, log_weights: Any, n: int, m: int, d: int, out: PartialSums
) -> _results.Splits:
    real = X.dtype
    splits = _results.splits(n, m, 0, out)
    unit = 2.0 ** -max(0, math.frexp(h)[1] - 1)  # brings h below 2, and changes no bit of the coordinates
    scale = _operands.LOG2_E / (unit * h) if kernel == "exponential" else (unit * h) ** -2
    _compile.kernel(*_specialise(kernel, real))(
        (*splits.blocks, splits.parts),
        (_THREADS,),
        (
            X,
            Y,
            _operands.or_null(log_weights),
            splits.reference,
            splits.total,
            np.int64(n),
            np.int64(m),
            np.int32(d),
            np.int64(splits.rows),
            real.type(unit),
            real.type(scale),
            np.float64(h * h),
            *map(real.type, edge(kernel, d, real == FLOAT)),
        ),
    )
    return splits


def specialisations() -> Iterator[tuple[str, str, _compile.Defines]]:
    """Stem, name and macros of every kernel of this module."""
    for kernel in KERNELS:
        for real in (FLOAT, DOUBLE):
            yield _specialise(kernel, real)


@functools.cache
def _specialise(kernel: Kernel, real: np.dtype) -> tuple[str, str, _compile.Defines]:
    name = f"{kernel}_{'f64' if real == DOUBLE else 'ieee'}"
    c_type = C_TYPE[real]
    defines = (("KERNEL", name), ("KIND", kernel.upper()), ("REAL", c_type), ("STORAGE", c_type))
    return "kernel_density", name, (*defines, ("CHUNK", str(_CHUNK)))
