"""Columns of data chosen by position or by name, and what a bandwidth of all columns is for some of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from cukde.core.frames.columns import labels_of
from cukde.density.compositions import check
from cukde.density.domains import check as domains_check
from cukde.density.domains.domain import Domain, domain_of


def labels(X: Any, d: int) -> list[Any] | None:
    """What the ``d`` columns of a data frame of any library are called; None of what has no such names."""
    names = labels_of(X)
    return list(names) if names is not None and len(names) == d else None


def others(columns: Collection[int], d: int) -> list[int]:
    """The columns that are left, in their order."""
    return [column for column in range(d) if column not in columns]


def marginal_bandwidth(h: np.ndarray, columns: Sequence[int]) -> np.ndarray:
    """The bandwidth of the chosen columns: a Gaussian's marginal has the block of its covariance."""
    if h.ndim == 2:
        return h[np.ix_(columns, columns)]
    return h[list(columns)] if h.ndim else h


class Widths(NamedTuple):
    """A checked bandwidth of all columns, and their domain."""

    h: np.ndarray
    domain: Domain | None

    @classmethod
    def of(cls, h: Any, bounds: Any, periods: Any, d: int) -> Widths:
        """Check a bandwidth on the host, and the bounds and periods, of ``d`` columns."""
        width, domain = check.bandwidth(h, d), domain_of(bounds, periods, d)
        if domain is not None:
            domains_check.bandwidth(width, domain.bounded)
        return cls(width, domain)

    def of_columns(self, columns: Sequence[int]) -> dict[str, Any]:
        """The arguments ``h``, ``bounds`` and ``periods`` of some columns; images keep the mass of the others."""
        part = None if self.domain is None else self.domain.of_columns(columns)
        return {"h": marginal_bandwidth(self.h, columns)} | ({} if part is None else part.arguments)


def in_bandwidths(differences: Any, h: np.ndarray, xp: Any) -> Any:
    """Differences (n, k) float64 in units of a checked bandwidth, L^-1 x of a covariance L L^T."""
    if h.ndim == 2:
        return differences @ xp.asarray(np.linalg.inv(np.linalg.cholesky((h + h.T) / 2)).T)
    return differences / xp.asarray(h)


class ConditionalKernel(NamedTuple):
    """The kernel about a point x, given its coordinates g in some columns: a Gaussian in the others.

    Its mean is ``x_rest + slope (g - x_given)`` and its bandwidth ``h``; its weight is the kernel of bandwidth
    ``h_given`` at g.
    """

    h_given: np.ndarray
    h: np.ndarray
    slope: np.ndarray | None  # (rest, given); None: the columns are not correlated


def conditional_kernel(h: np.ndarray, given: Sequence[int]) -> ConditionalKernel:
    """Split a checked bandwidth of all columns, by the Cholesky factor of the covariance with the given ones first."""
    h_given = marginal_bandwidth(h, given)
    rest = others(given, len(h)) if h.ndim else []
    if h.ndim < 2:
        return ConditionalKernel(h_given, marginal_bandwidth(h, rest), None)
    if not h[np.ix_(rest, given)].any():
        return ConditionalKernel(h_given, h[np.ix_(rest, rest)], None)
    order, k = [*given, *rest], len(given)
    symmetric = (h + h.T) / 2
    factor = np.linalg.cholesky(symmetric[np.ix_(order, order)])
    slope = np.linalg.solve(factor[:k, :k].T, factor[k:, :k].T).T
    return ConditionalKernel(h_given, factor[k:, k:] @ factor[k:, k:].T, slope)
