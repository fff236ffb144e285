"""Densities on product grids exactly: Gaussians of separate axes are products, and sums of these one of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from cukde.density.grids import spread

_NUMBERS = 2**22  # of factors at a time, which bounds memory


def density(
    x: Any, weights: Any, axes: Sequence[np.ndarray], deviations: np.ndarray, dtype: np.dtype, backend: ModuleType
) -> Any:
    """Return the density of two dimensions or more, float64; ``dtype`` is what it is going to be rounded to."""
    xp, loops = backend.xp, spread.loops(backend)
    cut = halves(tuple(map(len, axes)))
    shape = tuple(math.prod(map(len, part)) for part in (axes[:cut], axes[cut:]))
    out = xp.zeros(shape)
    on_device = [xp.asarray(g) for g in axes]
    # Products of factors below this are subnormal, which processors take long over, and 0 in single precision.
    least = 1e-154 if dtype.itemsize == 4 else 0.0
    rows = max(64, _NUMBERS // max(1, sum(shape)))
    for start in range(0, len(x), rows):
        block = x[start : start + rows].astype(np.float64, copy=False)
        factors = []
        for part in (range(cut), range(cut, len(axes))):
            product: Any = None
            for k in part:
                values = _kernel_values(block[:, k], on_device[k], float(deviations[k]), least, backend)
                product = values if product is None else _rowwise(product, values)
            factors.append(product)
        share = 1 / len(x) if weights is None else weights[start : start + rows, None]
        thinner = int(shape[1] < shape[0])
        factors[thinner] *= share
        if loops is None:
            out += factors[0].T @ factors[1]
        else:
            loops.add_product(*factors, out)
    return out.reshape([len(g) for g in axes])


def halves(sizes: tuple[int, ...]) -> int:
    """Where to cut the axes in two for the two matrices to have the fewest columns."""
    return min(range(1, len(sizes)), key=lambda cut: math.prod(sizes[:cut]) + math.prod(sizes[cut:]))


def _kernel_values(x: Any, g: Any, h: float, least: float, backend: ModuleType) -> Any:
    """Gaussians of one axis with their constants, (rows, g)."""
    xp = backend.xp
    peak = 1 / (math.sqrt(2 * math.pi) * h)
    loops = spread.loops(backend)
    if loops is not None:
        return loops.kernel_values(x, g, h, peak, least)
    z = (g - x[:, None]) / h
    values = xp.exp(-0.5 * z * z)
    return xp.where(values < least, 0, values) * peak


def _rowwise(a: Any, b: Any) -> Any:
    """Products of the entries of two matrices' rows, each with each."""
    return (a[:, :, None] * b[:, None, :]).reshape(len(a), a.shape[1] * b.shape[1])
