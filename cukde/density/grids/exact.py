"""Densities on product grids exactly: Gaussians of separate axes are products, and sums of these one of matrices."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from cukde.core.cpu import arrays as cpu
from cukde.density.domains.columns import Column
from cukde.density.plan import compositions as plan_compositions

_NUMBERS = 2**22  # of factors at a time, which bounds memory
_UNDERFLOWS = 39.0  # deviations beyond which a Gaussian is 0

_PRODUCTS_OF_THREAD = 2**18  # multiply-adds of a product that BLAS takes in the caller's thread


def density(
    x: Any,
    weights: Any,
    axes: Sequence[np.ndarray],
    deviations: np.ndarray,
    dtype: np.dtype,
    backend: ModuleType,
    columns: Sequence[Column] | None = None,
) -> Any:
    """Return the density of two dimensions or more, float64; ``dtype`` is what it is going to be rounded to.

    ``columns`` are those of a domain, in whose cell points and axes then lie.
    """
    xp = backend.xp
    cut = halves(tuple(map(len, axes)))
    shape = tuple(math.prod(map(len, part)) for part in (axes[:cut], axes[cut:]))
    few = backend is cpu and plan_compositions.grid_is_few(len(x), sum(shape), math.prod(shape))
    compiled = None if few else loops(backend)
    out = xp.zeros(shape)
    on_device = [xp.asarray(g) for g in axes]
    # Products of factors below this are subnormal, which processors take long over, and 0 in single precision. GPUs do
    # not, and take longer over the mask: 0.3 s for 10^6 points at 1,024 x 1,024 cells beside 0.1 s without.
    least = 1e-154 if backend is cpu and dtype.itemsize == 4 else 0.0
    rows = max(64, _NUMBERS // max(1, sum(shape)))
    for start in range(0, len(x), rows):
        block = x[start : start + rows].astype(np.float64, copy=False)
        factors = []
        for part in (range(cut), range(cut, len(axes))):
            product: Any = None
            for k in part:
                pair = block[:, k], on_device[k]
                if columns is None:
                    values = _kernel_values(*pair, float(deviations[k]), least, compiled, xp)
                else:
                    values = _values_in_domain(*pair, columns[k], least, compiled, xp)
                product = values if product is None else _rowwise(product, values)
            factors.append(product)
        share = 1 / len(x) if weights is None else weights[start : start + rows, None]
        thinner = int(shape[1] < shape[0])
        factors[thinner] *= share
        if compiled is not None:
            compiled.add_product(*factors, out)
        elif backend is cpu:
            _add_product(factors[0], factors[1], out)
        else:
            out += factors[0].T @ factors[1]
    return out.reshape([len(g) for g in axes])


def halves(sizes: tuple[int, ...]) -> int:
    """Where to cut the axes in two for the two matrices to have the fewest columns."""
    return min(range(1, len(sizes)), key=lambda cut: math.prod(sizes[:cut]) + math.prod(sizes[cut:]))


def _add_product(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """Add a.T @ b to ``out``, by columns that BLAS takes in the caller's thread."""
    width = max(1, _PRODUCTS_OF_THREAD // a.size)
    for start in range(0, out.shape[1], width):
        part = slice(start, start + width)
        out[:, part] += a.T @ b[:, part]


def _kernel_values(x: Any, g: Any, h: float, least: float, loops: ModuleType | None, xp: Any) -> Any:
    """Gaussians of one axis with their constants, (rows, g); exponentials below ``least`` are 0."""
    out = xp.empty((len(x), len(g)))

    def fill(rows: slice) -> None:
        part = out[rows]
        xp.subtract(g, x[rows, None], out=part)
        part /= h
        xp.multiply(part, part, out=part)
        part *= -0.5
        xp.exp(part, out=part)
        if least:
            part[part < least] = 0
        part *= 1 / (math.sqrt(2 * math.pi) * h)

    fill(slice(None)) if loops is None else loops.by_rows(fill, len(x))
    return out


def _values_in_domain(x: Any, g: Any, column: Column, least: float, loops: ModuleType | None, xp: Any) -> Any:
    """The same of a column with walls or a period: over all images of a point, or over waves."""
    if column.waves:
        of_data, of_axis = column.waves_of_data(x, xp), column.waves_of_queries(g, "sum", xp)[0]
        return (1 + of_data.T @ of_axis.T) / (column.period if column.periodic else column.width)
    out = _kernel_values(x, g, column.h, least, loops, xp)
    # Points and coordinates lie in one cell: of a period the nearest image may be in the next one.
    more = (max(column.cells) + 1, -max(column.cells) - 1) if column.periodic else ()
    for cell in (*column.cells, *more):
        z = column.image(x, cell)
        away = xp.maximum(xp.maximum(z - g.max(), g.min() - z), 0)
        rows = xp.flatnonzero(away <= _UNDERFLOWS * column.h)
        if len(rows):
            out[rows] += _kernel_values(z[rows], g, column.h, least, loops, xp)
    return out


def _rowwise(a: Any, b: Any) -> Any:
    """Products of the entries of two matrices' rows, each with each."""
    return (a[:, :, None] * b[:, None, :]).reshape(len(a), a.shape[1] * b.shape[1])


@functools.cache
def loops(backend: ModuleType) -> ModuleType | None:
    """Compiled loops over points, where the backend has them."""
    if backend.name == "gpu":
        return None
    from cukde.density.grids import cpu

    return cpu
