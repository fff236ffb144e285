"""Maxima that lie close together made one, and their order; on the host."""

from __future__ import annotations

import numpy as np

# Log densities that differ by less are equal as far as their order goes, and so are coordinates in bandwidths.
_EQUAL, _EQUAL_PLACES = 8, 6


def merged(
    z: np.ndarray, log_density: np.ndarray, distance: float, box: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return which of the points (k, d), in bandwidths, stand for all, in their order, and which stands for each.

    The highest stands for those within ``distance`` of it, then the highest of the others, and so on: no two of those
    that are kept are closer. Memory is O(k d). ``box`` are periods of the columns, 0 where there is none.
    """
    if box is not None:  # rounding may have taken points to the end of a period
        z = np.where((box > 0) & (z >= box), 0.0, z)
    order = _descending(z, log_density)
    z = z[order]
    # Points that are all but equal first, which a tree takes long over.
    _, first, which = np.unique(np.round(z, _EQUAL_PLACES), axis=0, return_index=True, return_inverse=True)
    rank = np.argsort(first)  # in the order of density again
    inverse = np.empty_like(rank)
    inverse[rank] = np.arange(len(rank))
    some, which = z[first[rank]], inverse[which.reshape(-1)]

    from scipy.spatial import cKDTree  # which import cukde need not wait for

    tree = cKDTree(some, boxsize=box)
    has_others = tree.query_ball_point(some, distance, return_length=True) > 1
    owner = np.arange(len(some))
    absorbed = np.zeros(len(some), bool)
    for i in np.flatnonzero(has_others):
        if absorbed[i]:
            continue
        others = np.array(tree.query_ball_point(some[i], distance))
        others = others[(others > i) & ~absorbed[others]]
        owner[others], absorbed[others] = i, True
    kept = np.flatnonzero(~absorbed)
    number = np.empty(len(some), np.int64)
    number[kept] = np.arange(len(kept))
    cluster = np.empty(len(order), np.int64)
    cluster[order] = number[owner[which]]
    return order[first[rank][kept]], cluster


def _descending(z: np.ndarray, log_density: np.ndarray) -> np.ndarray:
    """Order by density, highest first; among equals by coordinates, the first column first."""
    columns = np.round(z, _EQUAL_PLACES).T[::-1]
    return np.lexsort([*columns, -np.round(log_density, _EQUAL)])
