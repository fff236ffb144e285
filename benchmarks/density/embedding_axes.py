"""Principal axes of an embedding, and the length of what they leave: k + 1 numbers of a row.

With z the coordinates along k axes in deviations, and r the distance from their plane, rows become (z, log r). A
density f of these is one of all d columns where directions within the rest are taken as equally likely:

    p(y) = f(z, log r) / (prod_i s_i  A r^(d - k)),  A = 2 pi^((d - k) / 2) / Gamma((d - k) / 2)

with the deviations s_i of the axes and the area A of the unit sphere of d - k dimensions. docs/embeddings.md has the
same as a recipe; tests/docs/test_embeddings_page.py holds the two together.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

import cukde

SHARE = 0.9  # of the variance, that so many axes are taken for
MOST = 10  # rows, or more, for each axis


class Axes(NamedTuple):
    """Principal axes of a sample, the longest first."""

    mean: np.ndarray  # (d,)
    axes: np.ndarray  # (k, d)
    variances: np.ndarray  # (k,) along the axes
    rest: float  # variance along each of the other d - k directions
    explained: float  # share of the variance that is along the axes

    @classmethod
    def of(cls, pca: Any, k: int) -> Axes:
        """The first k of a fitted ``sklearn.decomposition.PCA`` of all axes."""
        variances, shares = pca.explained_variance_, pca.explained_variance_ratio_
        rest = float(variances[k:].sum()) / (pca.n_features_in_ - k)
        return cls(pca.mean_, pca.components_[:k], variances[:k], rest, float(shares[:k].sum()))

    @property
    def left(self) -> int:
        """How many dimensions the axes leave."""
        return self.axes.shape[1] - len(self.axes)

    def along(self, Y: np.ndarray) -> np.ndarray:
        """Coordinates (rows, k) along the axes, in the units of the columns."""
        out: np.ndarray = (Y - self.mean) @ self.axes.T
        return out

    def distance(self, Y: np.ndarray) -> np.ndarray:
        """How far rows are from the plane of the axes, (rows,)."""
        centred = Y - self.mean
        out: np.ndarray = np.linalg.norm(centred - (centred @ self.axes.T) @ self.axes, axis=1)
        return out

    def columns(self, Y: np.ndarray) -> np.ndarray:
        """The k + 1 numbers of rows: coordinates in deviations, and the logarithm of the distance."""
        return np.column_stack([self.along(Y) / np.sqrt(self.variances), np.log(self.distance(Y))])

    def of_all_columns(self, log_density: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Log density of all d columns, of that of the k + 1 numbers."""
        log_area = np.log(2) + 0.5 * self.left * np.log(np.pi) - gammaln(0.5 * self.left)
        out: np.ndarray = log_density - 0.5 * np.log(self.variances).sum() - log_area - self.left * columns[:, -1]
        return out

    def normal(self, Y: np.ndarray) -> np.ndarray:
        """Log density of a normal distribution along the axes and of one deviation in all other directions."""
        squares = (self.along(Y) ** 2 / self.variances).sum(axis=1) + self.distance(Y) ** 2 / self.rest
        log_volume = np.log(self.variances).sum() + self.left * np.log(self.rest)
        out: np.ndarray = -0.5 * (squares + log_volume + (len(self.mean)) * np.log(2 * np.pi))
        return out

    def bounds(self, X: np.ndarray, Y: np.ndarray, h: float) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the log density ``cukde.kde(X, Y, h, log=True)`` of all columns, by k + 1 numbers of a row.

        The rests of two rows are r and q long, and no nearer to each other than |r - q|, no farther than r + q. With
        the length as one more column the former is a distance, and with the sign of the query's turned the latter.
        """
        data = np.column_stack([self.along(X), self.distance(X)]).astype(np.float64)
        queries = np.column_stack([self.along(Y), self.distance(Y)]).astype(np.float64)
        turned = queries * np.r_[np.ones(len(self.axes)), -1]
        constant = -0.5 * (self.left - 1) * np.log(2 * np.pi * h * h)
        low, high = (cukde.kde(data, at, h, log=True) + constant for at in (turned, queries))
        return low, high


def how_many(pca: Any, n: int) -> int:
    """The fewest axes with ``SHARE`` of the variance of n rows; no more than one for ``MOST`` rows."""
    enough = int(np.searchsorted(np.cumsum(pca.explained_variance_ratio_), SHARE)) + 1
    return max(1, min(enough, n // MOST))


def own_share(X: np.ndarray, h: Any) -> float:
    """Share of a row's own kernel in the density there, the median of the rows: near 1 each row is a mode."""
    x = np.asarray(X, np.float64)
    log_p = cukde.kde(x, x, h, log=True)
    deviations = np.broadcast_to(np.asarray(h, np.float64), x.shape[1:])
    log_own = -np.log(len(x)) - np.log(deviations).sum() - 0.5 * x.shape[1] * np.log(2 * np.pi)
    return float(np.median(np.exp(log_own - log_p)))
