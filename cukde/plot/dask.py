"""Pictures of Dask collections: of a random sample of their rows, in memory."""

from __future__ import annotations

import math
from typing import Any

import dask
import dask.array as da
import numpy as np

from cukde.core import dispatch
from cukde.core.dask import check as dask_check
from cukde.core.dask.arrays import collected
from cukde.core.entry import names
from cukde.core.over_dask import is_dask

MOST_ROWS = 100_000
"""Most rows of a picture: far more than one can tell from all."""


def sample(X: Any, weights: Any, seed: int, stream: int) -> tuple[Any, Any]:
    """Return rows and their weights in memory: all of them, or a uniform random sample; frames keep their names.

    Sizes of blocks that are not known are computed first.
    """
    x, w = _sized("X", X), None if weights is None else _sized("weights", weights)
    n = len(x)
    if w is not None and w.shape != (n,):
        raise ValueError(f"weights must have shape ({n},), one for each row of X; got shape {w.shape}")
    # The rows of a picture have no labels.
    if is_dask(X) and hasattr(X, "index") and hasattr(weights, "set_axis") and not is_dask(weights):
        names.same_rows("weights", weights, "X", weights.set_axis(X.index.compute()))
        w = weights.to_numpy()
    if n > MOST_ROWS:
        taken = np.random.default_rng([seed, stream]).choice(n, MOST_ROWS, replace=False, shuffle=False)
        rows = np.sort(taken)
        x, w = (None if a is None else a[rows if is_dask(a) else dispatch.backend(a).asarray(rows)] for a in (x, w))
    x, w = dask.compute(x, w)
    kind = X._meta if is_dask(X) else X
    if hasattr(kind, "columns"):
        x = type(kind)(x, columns=list(kind.columns))
    elif hasattr(kind, "to_frame"):
        x = type(kind)(x, name=kind.name)
    return x, w


def _sized(name: str, a: Any) -> Any:
    a = collected(name, a)
    if is_dask(a):
        dask_check.dimensions(name, a)
        if isinstance(a, da.Array) and math.isnan(a.shape[0]):
            a = a.compute_chunk_sizes()
    return a
