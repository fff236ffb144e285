"""xarray-spatial's ``kde`` of the plane, on the CPU or a GPU by where its template is; NumPy or CuPy arrays, float64.

On the CPU it leaves out what is beyond four bandwidths of a point; on a GPU a thread sums all points of a pixel. Points
are taken from the host alone. Its sums are divided by their number here.
"""

from __future__ import annotations

from typing import Any

import xarray
from xrspatial.kde import kde

from cukde.core.dispatch import backend, to_host


def evaluate_grid(X: Any, axes: Any, h: float) -> Any:
    """Density on a product grid of even steps."""
    rows, columns = (to_host(g) for g in axes)
    empty = backend(X).xp.zeros((len(rows), len(columns)))
    template = xarray.DataArray(empty, dims=("y", "x"), coords={"y": rows, "x": columns})
    points = to_host(X)
    return kde(points[:, 1], points[:, 0], bandwidth=h, template=template).data / len(points)
