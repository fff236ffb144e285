"""The share of pairs that can matter, by samples."""

from __future__ import annotations

import numpy as np

from cukde.density.pairs import frame as pairs_frame

QUERIES, DATA = 128, 512
"""Rows of the samples that are looked at, at most."""


def share(data: np.ndarray, queries: np.ndarray, h: float, least: float, *, itself: bool = False) -> float:
    """Share of pairs of samples whose exponents are not below log(least), relative to the query's largest.

    With ``itself`` that is 0: of the query's own pair.
    """
    data = data[:: max(1, len(data) // DATA)]
    queries = queries[:: max(1, len(queries) // QUERIES)]
    centre = data.mean(axis=0)
    x, y = (((a - centre) / h).astype(np.float32, copy=False) for a in (data, queries))
    exponents = pairs_frame.product(y, np.ascontiguousarray(x.T))
    exponents -= 0.5 * np.einsum("ij,ij->i", x, x)
    top = 0.5 * np.einsum("ij,ij->i", y, y) if itself else exponents.max(axis=1)
    return np.count_nonzero(exponents >= (top + np.float32(np.log(least)))[:, None]) / max(1, exponents.size)


def reached(data: np.ndarray, queries: np.ndarray, h: float, least: float, *, itself: bool = False) -> float:
    """Share of pairs of samples that blocks as wide as the data are apart would take, besides those that count.

    A block of neighbours reaches as far as the nearest point of a sample, of clusters and curves not far.
    """
    distances, apart = _distances(data, queries, h), np.median(_nearest(_distances(data, data, h), 1))
    nearest = np.zeros(len(distances)) if itself else _nearest(distances, 0)
    reach = np.sqrt(nearest * nearest - 2 * np.log(least)) + 2 * apart
    return np.count_nonzero(distances <= reach[:, None]) / max(1, distances.size)


def exponents(data: np.ndarray, queries: np.ndarray, h: float) -> np.ndarray:
    """Smallest exponents of the queries of samples."""
    smallest: np.ndarray = _squares(data, queries, h).min(axis=1, initial=np.inf) / 2
    return smallest


def _nearest(distances: np.ndarray, rank: int) -> np.ndarray:
    """Distances to the points of such a rank, from 0, or to the last."""
    rank = min(rank, distances.shape[1] - 1)
    column: np.ndarray = np.partition(distances, rank, axis=1)[:, rank]
    return column


def _distances(data: np.ndarray, queries: np.ndarray, h: float) -> np.ndarray:
    distances: np.ndarray = np.sqrt(np.maximum(_squares(data, queries, h), 0))
    return distances


def within(data: np.ndarray, queries: np.ndarray, radius: float) -> float:
    """Share of pairs of samples that lie within a distance of each other."""
    squares = _squares(data, queries, radius)
    return np.count_nonzero(squares < 1) / max(1, squares.size)


def exponential_share(data: np.ndarray, queries: np.ndarray, h: float, rtol: float, atol: float) -> float:
    """Share of pairs of samples whose exponential kernels are not below rtol times the query's mean, and atol."""
    distances = _distances(data, queries, h)
    nearest = distances.min(axis=1, keepdims=True)
    means = np.exp(nearest - distances).mean(axis=1, dtype=np.float64)
    with np.errstate(divide="ignore"):  # of an atol of 0
        least = np.logaddexp(np.log(rtol) + np.log(means) - nearest[:, 0], np.log(atol))
    return np.count_nonzero(-distances >= least[:, None]) / max(1, distances.size)


def _squares(data: np.ndarray, queries: np.ndarray, radius: float) -> np.ndarray:
    """Squared distances of samples in radii, about: queries by data."""
    data = data[:: max(1, len(data) // DATA)]
    queries = queries[:: max(1, len(queries) // QUERIES)]
    centre = data.mean(axis=0)
    x, y = (((a - centre) / radius).astype(np.float32, copy=False) for a in (data, queries))
    squares: np.ndarray = -2 * pairs_frame.product(y, np.ascontiguousarray(x.T))
    squares += np.einsum("ij,ij->i", x, x)
    squares += np.einsum("ij,ij->i", y, y)[:, None]
    return squares
