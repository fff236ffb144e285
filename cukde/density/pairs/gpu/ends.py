"""What becomes of the sums of a pass, in one launch: the launcher of ``kernels_cu/density/ends.cu``.

Results have the dtype that is asked for; beyond its range they are infinite.
"""

from __future__ import annotations

from typing import Any

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile
from cukde.core.gpu.launch import C_TYPE, DOUBLE, FLOAT, Specialisation
from cukde.density.pairs.gpu import finish
from cukde.density.sums import Epilogue, PartialSums


def density(sums: PartialSums | finish.Splits, epilogue: Epilogue, form: finish.DensityForm = "kde") -> Any:
    """Densities, (m,), or their logarithms; a negative one has none: NaN."""
    arrays, m, splits = _parts(sums)
    out = cp.empty(m, epilogue.dtype)
    if m:
        wanted = finish.wanted(form, log=epilogue.log)
        kernel = kernel_of_density(out.dtype)
        of_total = form == "kde"
        arrays = (*arrays[:2], None if of_total else arrays[2])
        _launch(kernel, m, *arrays, out, epilogue.log_constant, m, splits, wanted)
    return out


def gradient(sums: PartialSums | finish.Splits, h: float, dtype: np.dtype) -> Any:
    """Gradients of the log density, (m, k), from the moments about the queries."""
    return _points(sums, None, 1 / (h * h), dtype)


def debiased(X: Any, sums: PartialSums | finish.Splits, step: float) -> Any:
    """Points moved by ``step`` times their mean shift, from their output "moments", float64.

    They take the memory of the moments, of one split of the data.
    """
    return _points(sums, X, step, DOUBLE)


def ready(X: Any, Y: Any, sums: PartialSums | finish.Splits, h: float, score_h: float) -> tuple[Any, Any]:
    """See :func:`cukde.density.sums.ready`."""
    return debiased(X, sums, 0.5 * (h / score_h) ** 2), Y.astype(DOUBLE, copy=False)


def _points(sums: PartialSums | finish.Splits, Y: Any | None, step: float, dtype: np.dtype) -> Any:
    arrays, m, splits = _parts(sums)
    moments = arrays[2]
    k = moments.shape[-1]
    out = cp.empty((m, k), dtype) if Y is None or splits > 1 else moments
    if m:
        _launch(kernel_of_points(dtype, DOUBLE if Y is None else Y.dtype), m, *arrays, Y, out, step, m, k, splits)
    return out


def _parts(sums: PartialSums | finish.Splits) -> tuple[tuple[Any, Any, Any], int, int]:
    """The arrays, and the numbers of queries and splits."""
    if isinstance(sums, finish.Splits):
        return sums.sums, sums.total.shape[-1], sums.parts
    reference, total = (finish.contiguous(a, DOUBLE) for a in sums[:2])
    moments = None if sums.moments is None else finish.contiguous(sums.moments, DOUBLE)
    return (reference, total, moments), len(total), 1


def _launch(kernel: Specialisation, m: int, *args: Any) -> None:
    kernel.launch(finish.finish_grid(m), (finish.FINISH_THREADS,), *args)


@core_compile.specialised(C_TYPE)
def kernel_of_density(out: np.dtype) -> Specialisation:
    """What :func:`density` launches for a result of a dtype."""
    return Specialisation("density/ends", "density_of_sums", core_compile.macros(OUT=C_TYPE[out]), "4P d q 2i")


@core_compile.specialised(cases=lambda: ((FLOAT, DOUBLE), (DOUBLE, DOUBLE), (DOUBLE, FLOAT)))
def kernel_of_points(out: np.dtype, storage: np.dtype) -> Specialisation:
    """What makes points of a dtype of others of the dtype ``storage``."""
    defines = core_compile.macros(OUT=C_TYPE[out], STORAGE=C_TYPE[storage])
    return Specialisation("density/ends", "points_of_sums", defines, "5P d q 2i")
