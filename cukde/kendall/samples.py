"""Two paired samples as rows of two arrays, with the broadcasting, axes and masks of SciPy's statistics."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from cukde.core.frames.numbers import lacking
from cukde.kendall import check


class Rows(NamedTuple):
    """Two variables in each row, and the shape of the results, one for each row."""

    x: Any  # (b, n)
    y: Any  # (b, n)
    shape: tuple[int, ...]  # of the result, without the reduced axes; b entries
    kept: tuple[int, ...]  # the same, with the reduced axes of size 1
    nan: np.ndarray | None  # (b,) rows with NaN of the user's, where masked entries are NaN too; None without masks


def rows(x: Any, y: Any, axis: Any, backend: ModuleType) -> Rows:
    """Check two samples and move the axes to reduce to the end; for None flatten the samples.

    Masked entries become NaN, which the backends leave out.
    """
    (x, x_nan), (y, y_nan) = _sample("x", x, backend), _sample("y", y, backend)
    arrays = [x, y, *(a for a in (x_nan, y_nan) if a is not None)]
    ndim = max(x.ndim, y.ndim)
    shape: tuple[int, ...]
    if axis is None:
        n = check.length(x, y)
        shape, kept = (), (1,) * ndim
        x, y, *nans = (_as_row(a, n) for a in arrays)
    else:
        full = check.common_shape(x, y)
        axes = check.axes(axis, ndim)
        shape = tuple(size for i, size in enumerate(full) if i not in axes)
        kept = tuple(1 if i in axes else size for i, size in enumerate(full))
        x, y, *nans = (_as_rows(a, full, axes, backend.xp) for a in arrays)
    return Rows(x, y, shape, kept, np.any([a.any(axis=1) for a in nans], axis=0) if nans else None)


def _as_row(a: Any, n: int) -> Any:
    """Return the first ``n`` entries of the flattened array."""
    row = a.reshape(1, a.size)
    return row if a.size == n else row[:, :n]


def _as_rows(a: Any, shape: tuple[int, ...], axes: tuple[int, ...], xp: Any) -> Any:
    """Broadcast an array, and put the entries along ``axes`` into rows."""
    n = math.prod(shape[i] for i in axes)
    b = math.prod(size for i, size in enumerate(shape) if i not in axes)
    return xp.moveaxis(xp.broadcast_to(a, shape), axes, tuple(range(-len(axes), 0))).reshape(b, n)


def _sample(name: str, a: Any, backend: ModuleType) -> tuple[Any, np.ndarray | None]:
    """Return a sample that the backend can compare, and of a masked sample the places of NaN that is not masked."""
    if np.ma.is_masked(a):
        check.mask_on_host(name, backend)
        values = check.sample(name, a.data, backend)
        mask = np.ma.getmaskarray(a).reshape(values.shape)
        nan = lacking(values) & ~mask
        return check.ranked(name, values, nan | mask), nan
    out = check.sample(name, a, backend)
    return (out if check.comparable(out.dtype) else check.ranked(name, out, lacking(out))), None
