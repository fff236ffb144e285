r"""Product kernels of mixed columns as one Gaussian: codes become points whose distances give the kernels.

Of a column of c levels and a bandwidth l, the kernel from a datum's level i to a level k is

.. math::

    1 - l \text{ if } k = i \text{, else } \frac{l}{c - 1}; \qquad
    \frac{l^{|k - i|}}{\sum_m l^{|m - i|}} \text{ of ordered levels}

(Aitchison and Aitken 1976; a geometric kernel like that of Wang and van Ryzin 1981, divided by its sum over the levels
that there are). The first is 1 - l times exp(-D/2), where D is 0 or the squared distance of the corners of a simplex.
The second is exp(-D/2) over its sum, where D is the squared distance of sums of unit steps, one for each level passed.
So both are factors of a Gaussian in c - 1 columns more, whose bandwidth is 1.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cukde.core.frames.categories import Kinds, Levels

# Stands for an infinite distance: of l = 0, where other levels count nothing.
_FARTHEST = 1000.0  # exp(-1000) is 0


def largest(of: Levels) -> float:
    """The largest bandwidth of a column of levels: all levels are then alike."""
    c = len(of.values)
    return 1.0 if of.ordered else (c - 1) / c


def points(of: Levels, width: float) -> np.ndarray:
    """Where levels lie, (c, c - 1) float64; (c, 0) where they are alike."""
    c = len(of.values)
    if c == 1 or width >= largest(of):
        return np.empty((c, 0))
    share = width if of.ordered else width / ((1 - width) * (c - 1))
    exponent = -math.log(share) if share > 0 else math.inf
    steps = np.arange(c)[:, None] > np.arange(c - 1)
    if of.ordered:
        return (steps - 0.5) * math.sqrt(2 * min(exponent, _FARTHEST))
    k = np.arange(1, c)
    corners = np.where(np.arange(c)[:, None] == k, -k, ~steps) / np.sqrt(k * (k + 1))
    # Level 0 has ones in all columns, level j is -j in column j: rows at distances of sqrt(2).
    return np.where(np.arange(c)[:, None] > k, 0, corners) * math.sqrt(min(exponent, _FARTHEST))


def logarithms(of: Levels, width: float) -> np.ndarray:
    """Logarithms of the kernel from each level to each, (c, c), finite; rows of the kernel sum to 1."""
    where = points(of, width)
    exponents = -0.5 * ((where[:, None] - where) ** 2).sum(axis=2)
    out: np.ndarray = exponents - np.log(np.exp(exponents).sum(axis=1, keepdims=True))
    return out


class Mixed:
    """The kernel of all columns: their levels, None of numbers, and one bandwidth for each."""

    def __init__(self, kinds: Kinds, h: np.ndarray) -> None:
        self.kinds, self.h = kinds, h

    @functools.cached_property
    def places(self) -> list[np.ndarray]:
        """Where the levels of each column lie; empty of numbers."""
        return [
            np.empty((0, 1)) if of is None else points(of, float(width))
            for of, width in zip(self.kinds, self.h, strict=True)
        ]

    def of_columns(self, chosen: Sequence[int]) -> Mixed:
        """The kernel of some columns: that of the others is summed, or integrated, to 1."""
        return Mixed(tuple(self.kinds[k] for k in chosen), self.h[list(chosen)])

    def apply(self, A: Any, origin: np.ndarray, xp: Any) -> Any:
        """Points (n, d), codes among numbers, as points of the Gaussian, float64; NaN stays NaN."""
        parts = []
        for k, (of, where) in enumerate(zip(self.kinds, self.places, strict=True)):
            column = A[:, k].astype(xp.float64)
            if of is None:
                parts.append(((column - float(origin[k])) / float(self.h[k]))[:, None])
            elif where.shape[1]:
                parts.append(_at_codes(where, column, xp) + (column - column)[:, None])
        return xp.ascontiguousarray(xp.concatenate(parts, axis=1)) if parts else xp.zeros((len(A), 1))

    @property
    def log_norm(self) -> float:
        """Logarithm of the constant of the kernel, but for that of ordered levels, which :meth:`log_sums` has."""
        out = 0.0
        for of, width in zip(self.kinds, self.h.tolist(), strict=True):
            if of is None:
                out -= 0.5 * math.log(2 * math.pi) + math.log(width)
            elif not of.ordered:
                out += math.log1p(-width)
        return out

    def log_sums(self, A: Any, xp: Any) -> Any | None:
        """Logarithm of what the kernels of ordered columns sum to at each datum, (n,); None without such columns."""
        out = None
        for k, of in enumerate(self.kinds):
            if of is not None and of.ordered:
                sums = -logarithms(of, float(self.h[k])).diagonal()  # of exponents, which are 0 there
                found = _at_codes(sums, A[:, k], xp)
                out = found if out is None else out + found
        return out

    @property
    def numbers(self) -> list[int]:
        """The columns of numbers."""
        return [k for k, of in enumerate(self.kinds) if of is None]

    @property
    def levels(self) -> list[int]:
        """The columns of categories."""
        return [k for k, of in enumerate(self.kinds) if of is not None]

    def cells(self, A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The combinations of codes that occur, (q, d), and which one each point on the host has; NaN counts as 0."""
        found, which = np.unique(np.nan_to_num(A[:, self.levels]), axis=0, return_inverse=True)
        out = np.zeros((len(found), A.shape[1]), np.int64)
        out[:, self.levels] = found
        return out, which.reshape(-1)

    def log_kernel(self, A: Any, cell: np.ndarray, xp: Any) -> Any:
        """Logarithm of the kernels of levels from each datum to a cell, (n,); NaN of codes that are."""
        out = xp.zeros(len(A))
        for k, (of, width) in enumerate(zip(self.kinds, self.h.tolist(), strict=True)):
            if of is not None:
                to_cell = np.ascontiguousarray(logarithms(of, width)[:, cell[k]])
                out = out + _at_codes(to_cell, A[:, k], xp) + (A[:, k] - A[:, k])
        return out

    def moved(self, A: np.ndarray, rng: Any) -> np.ndarray:
        """Draw a point from the kernel at each of the points, (n, d) float64 on the host."""
        out = A.astype(np.float64)
        for k, (of, width) in enumerate(zip(self.kinds, self.h.tolist(), strict=True)):
            if of is None:
                out[:, k] += width * rng.normal(size=len(A))
            else:
                c, codes = len(of.values), A[:, k].astype(np.int64)
                sums = np.cumsum(np.exp(logarithms(of, width)), axis=1) + np.arange(c)[:, None]
                at = np.searchsorted(sums.ravel(), codes + rng.uniform(size=len(A)), side="right")
                out[:, k] = np.clip(at - c * codes, 0, c - 1)
        return out


def _at_codes(of_levels: np.ndarray, codes: Any, xp: Any) -> Any:
    """What belongs to levels, at codes (n,); at NaN that of the first."""
    return xp.asarray(of_levels)[xp.where(codes == codes, codes, 0).astype(xp.int64)]
