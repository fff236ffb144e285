"""Boxes of the blocks of a Dask array, computed once for calls that leave out blocks that cannot matter."""

from __future__ import annotations

import math
from typing import Any

import dask

from cukde.core import dispatch
from cukde.core.cpu import arrays as core_arrays
from cukde.core.dask.arrays import collected, rows, stand_in, unknown_rows, whole_rows
from cukde.core.over_dask import is_dask
from cukde.core.quiet import called, quiet
from cukde.core.types import ArrayLike
from cukde.density import check as density_check
from cukde.density.dask.arguments import beside
from cukde.density.dask.blocks import Place
from cukde.density.dask.parts import BlockBoxes, Measured, measure, parts_of_block, together


@quiet
def block_boxes(X: ArrayLike, *, weights: ArrayLike | None = None) -> BlockBoxes:
    """Compute boxes around the rows of each block; calls with ``boxes`` then leave out blocks that cannot matter.

    Each block is read once, by its own task, and gives some hundred numbers. Store them with the data: later calls then
    read only the blocks that matter (``docs/dask.md``).

    Parameters
    ----------
    X : dask.array.Array, or a Dask data frame, shape (n, d) or (n,)
        Data or queries, of NumPy or CuPy arrays. Rows that are near each other should be in one block.
    weights : array_like, shape (n,), optional
        Weights of the data, plain or a Dask array, for calls with those weights.

    Returns
    -------
    BlockBoxes
        Boxes of the rows in their order; they also serve an array with the same rows in other blocks.

    Raises
    ------
    TypeError
        If ``X`` is not a Dask collection; boxes of plain arrays are computed where they are needed.
    ValueError
        For NaN and infinity, negative weights, and an unknown number of rows with weights in other blocks.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import cukde.dask
    >>> X = da.from_array(np.arange(6.0)[:, None] ** 3, chunks=(2, 1))
    >>> boxes = cukde.dask.block_boxes(X)
    >>> cukde.dask.kde(X, np.array([[0.5]]), 1.0, boxes=boxes).compute().round(4)
    array([0.1174])

    Notes
    -----
    Boxes are exact. The cost is a pass over the data, about ten operations a number, computed by Dask's scheduler.
    """
    if not is_dask(X):
        raise TypeError(
            f"X must be a Dask array or a Dask data frame; got {type(X).__name__}, whose boxes need no call"
        )
    x = whole_rows(rows("X", X))
    w = None if weights is None else collected("weights", weights, X)
    if w is not None and not unknown_rows(x, w):
        density_check.weights(stand_in(w), len(x), core_arrays)
    w = beside("weights", w, x)
    parts = parts_of_block(x.numblocks[0])
    blocks = x.to_delayed().ravel()
    others = [None] * len(blocks) if w is None else w.to_delayed().ravel()
    task = dask.delayed(called)
    tasks = [task(_checked, a, b, number, parts) for number, (a, b) in enumerate(zip(blocks, others, strict=True))]
    return together(dask.compute(*tasks), 1 if x.ndim == 1 else x.shape[1], weighted=w is not None)


def _checked(points: Any, weights: Any, number: int, parts: int) -> Measured:
    """Check the values of a block, and measure it."""
    backend, place = dispatch.backend(points), Place("X", number)
    with place.errors():
        x = density_check.points("X", points, backend)
        w = None if weights is None else dispatch.to_host(density_check.weights(weights, x.shape[0], backend))
    for name, a in (("X", x), ("weights", w)):
        if a is not None and not dispatch.backend(a).xp.isfinite(a).all():
            place.refuse(a, name)
    if w is not None and len(w):
        with place.errors():
            density_check.weight_range(float(w.min()), math.inf)
    return measure(x, w, parts)
