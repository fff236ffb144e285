"""Densities by kernels beside the Gaussian, and by Gaussians with a factor a row of the data, on the GPU.

The launcher of ``radial.cu``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, Literal

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile
from cukde.core.gpu.launch import C_TYPE, DOUBLE, FLOAT, Specialisation
from cukde.density.kernels import KERNELS, Kernel, edge
from cukde.density.options import Options
from cukde.density.pairs.gpu import finish, operands
from cukde.density.pairs.gpu.skipping import compact, exponential
from cukde.density.pairs.gpu.skipping.blocks import CHUNK, THREADS
from cukde.density.pairs.gpu.skipping.compact import Scalars
from cukde.density.sums import PartialSums, to_density


def kernel_density(
    X: Any,
    Y: Any | None,
    h: float,
    kernel: Kernel,
    *,
    log_constant: float,
    log: bool,
    dtype: np.dtype,
    options: Options,
) -> Any:
    """Return ``exp(log_constant)`` times the sums of the kernel, shape (m,), or the logarithm of that.

    On the current device and stream; nothing waits for the result. Where all pairs take milliseconds, blocks of data
    that no query reaches are left out, of the exponential those that the tolerances allow, and a look at the points may
    wait for the device.

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
        See :mod:`cukde.density.kernels`.
    options : Options
        Of which ``log_weights`` count, and of the exponential the tolerances and whether the points are known to be
        finite.
    """
    X, Y = operands.of_one_dtype(X, Y)
    unit = _unit(h)
    scale = operands.LOG2_E / (unit * h) if kernel == "exponential" else (unit * h) ** -2
    scalars = Scalars(unit, scale, h * h, *edge(kernel, X.shape[1], X.dtype == FLOAT))
    sums: PartialSums | None = None
    if kernel == "exponential":
        sums = exponential.sums(X, Y, h, unit, scale, options)
    elif (look := compact.look(X, Y, h)).pays:
        sums = compact.sums(X, Y, kernel, options.log_weights, scalars, look.frame)
    if sums is None or core_compile.is_rehearsal():  # whose points say nothing
        sums = _sums(X, Y, kernel, X.dtype, options.log_weights, None, scalars)
    with np.errstate(divide="ignore"):  # nothing near a query: the logarithm is -inf
        return to_density(sums, log_constant, log, dtype, cp)


def local_sums(X: Any, Y: Any | None, h: float, factors: Any, *, log_weights: Any, precision: str) -> PartialSums:
    """Sum Gaussians of bandwidths ``h factors`` at each query, on the current device and stream, without waiting.

    Parameters
    ----------
    X, Y, h
        As for :func:`kernel_density`. Pairs are taken in double for ``precision`` "float64", otherwise in float32,
        where float64 arrays keep 48 bits of each coordinate.
    factors : array, shape (n,)
        Float64, positive.
    log_weights : array, shape (n,)
        Float64, logarithms of weights over ``factors`` to the power d; about -1e30 for a weight of zero.
    """
    X, Y = operands.of_one_dtype(X, Y)
    real = DOUBLE if precision == "float64" else FLOAT
    scales = (0.5 * operands.LOG2_E / (_unit(h) * h * factors) ** 2).astype(real)
    return _sums(X, Y, "gaussian", real, log_weights, scales, Scalars(_unit(h), 0.0, h * h, 0.0, 0.0))


def _unit(h: float) -> float:
    """A power of two that brings h below 2, and changes no bit of the coordinates."""
    return 2.0 ** -max(0, math.frexp(h)[1] - 1)


def _sums(
    X: Any,
    Y: Any | None,
    kernel: Kernel | Literal["gaussian"],
    real: np.dtype,
    log_weights: Any,
    scales: Any | None,
    scalars: Scalars,
) -> PartialSums:
    """Launch the kernel, and merge what its splits leave."""
    Y = X if Y is None else Y
    (n, d), m = X.shape, Y.shape[0]
    out = finish.empty(m, 0)
    if m == 0:
        return out
    splits = finish.splits(n, m, 0, out)
    arrays = X, Y, log_weights, scales, splits.reference, splits.total
    _kernel(kernel, real, X.dtype).launch(splits.grid, (THREADS,), *arrays, n, m, d, splits.rows, *scalars)
    return finish.merge(splits, out)


@core_compile.listed
def specialisations() -> Iterator[Specialisation]:
    """Every kernel of this module."""
    for kernel in KERNELS:
        for real in (FLOAT, DOUBLE):
            yield _kernel(kernel, real, real)
    for real, storage in ((FLOAT, FLOAT), (FLOAT, DOUBLE), (DOUBLE, DOUBLE)):
        yield _kernel("gaussian", real, storage)


@functools.cache
def _kernel(kernel: Kernel | Literal["gaussian"], real: np.dtype, storage: np.dtype) -> Specialisation:
    name = f"{kernel}_{'f64' if real == DOUBLE else 'ieee'}"
    defines = core_compile.macros(
        KERNEL=name, KIND=kernel.upper(), REAL=C_TYPE[real], STORAGE=C_TYPE[storage], CHUNK=CHUNK
    )
    return Specialisation("density/radial", name, defines, f"6P 2q i q {storage.char} {real.char} d 2{real.char}")
