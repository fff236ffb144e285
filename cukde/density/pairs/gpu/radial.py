"""Densities by kernels beside the Gaussian on the GPU: the launcher of ``radial.cu``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cukde.core.gpu import compile as core_compile
from cukde.core.gpu.launch import C_TYPE, DOUBLE, FLOAT, Specialisation
from cukde.density.kernels import KERNELS, Kernel, edge
from cukde.density.options import Options
from cukde.density.pairs.gpu import ends, finish, operands
from cukde.density.pairs.gpu.shape import shape_of
from cukde.density.pairs.gpu.skipping import compact, exponential
from cukde.density.pairs.gpu.skipping.blocks import THREADS, kernel_of
from cukde.density.pairs.gpu.skipping.compact import Scalars
from cukde.density.sums import Epilogue, PartialSums


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
        Of which ``log_weights`` and ``own`` count, and of the exponential the tolerances and whether the points are
        known to be finite.
    """
    X, Y = operands.of_one_dtype(X, Y)
    unit = _unit(h)
    scale = operands.LOG2_E / (unit * h) if kernel == "exponential" else (unit * h) ** -2
    scalars = Scalars(unit, scale, h * h, *edge(kernel, X.shape[1], X.dtype == FLOAT))
    sums: PartialSums | None = None
    some = not options.own_out  # passes over some blocks know no own pairs
    precision = "float64" if X.dtype == DOUBLE else "float32"
    of_pass = options._replace(precision=precision, rtol=options.tolerance, local_factors=None)
    shape = shape_of("sum", len(X), len(X if Y is None else Y), X.shape[1], of_pass, itself=Y is None, kernel=kernel)
    if some and kernel == "exponential":
        sums = exponential.sums(X, Y, h, unit, scale, options, shape)
    elif some and (look := compact.look(X, Y, h, shape)).pays:
        sums = compact.sums(X, Y, kernel, options.log_weights, scalars, look.frame)
    if sums is None:
        sums = _sums(X, Y, kernel, options, scalars)
    return ends.density(sums, Epilogue(log_constant, log, dtype))


def _unit(h: float) -> float:
    """A power of two that brings h below 2, and changes no bit of the coordinates."""
    return 2.0 ** -max(0, math.frexp(h)[1] - 1)


def _sums(X: Any, Y: Any | None, kernel: Kernel, options: Options, scalars: Scalars) -> PartialSums:
    """Launch the kernel, and merge what its splits leave."""
    Y = X if Y is None else Y
    (n, d), m = X.shape, Y.shape[0]
    out = finish.empty(m, 0)
    if m == 0:
        return out
    splits = finish.splits(n, m, 0, out)
    arrays = X, Y, options.log_weights, splits.reference, splits.total
    _kernel(kernel, X.dtype).launch(splits.grid, (THREADS,), *arrays, n, m, d, splits.rows, *scalars, options.own_out)
    return finish.merge(splits, out)


@core_compile.specialised(KERNELS, C_TYPE)
def _kernel(kernel: Kernel, real: np.dtype) -> Specialisation:
    return kernel_of("radial", kernel, real, "5P 2q i q 2r d 2r i", kernel)
