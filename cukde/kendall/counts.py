"""Counts of concordant, discordant and tied pairs of samples, from which both backends compute Kendall's tau.

Two samples i < j of a pair of variables (x, y) are concordant where ``sign(x_j - x_i) sign(y_j - y_i)`` is 1,
discordant where it is -1, and tied where it is 0. Every statistic of the family follows from these counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cukde.core import reprs
from cukde.core.public import public_in


class Ties(NamedTuple):
    """Sums over the groups of equal values of a variable; t is the number of values in a group."""

    pairs: Any  # sum of t (t - 1) / 2, int64: pairs of samples that are tied
    triples: Any  # sum of t (t - 1) (t - 2), float64: int64 overflows where 2e6 values are equal
    variance: Any  # sum of t (t - 1) (2 t + 5), float64: subtracted from the variance
    classes: Any  # distinct values, int64

    @classmethod
    def none(cls, xp: Any, shape: tuple[int, ...]) -> Ties:
        """Sums over no ties, in arrays of their own."""
        return cls(xp.zeros(shape, np.int64), xp.zeros(shape), xp.zeros(shape), xp.zeros(shape, np.int64))


class PairCounts(NamedTuple):
    """Counts of pairs of samples for pairs of variables; the arrays broadcast to the shape of the result.

    ``samples`` counts the samples without NaN in either variable; all other counts are of these.
    """

    samples: Any  # int64
    concordant: Any  # int64
    discordant: Any  # int64
    x: Ties
    y: Ties

    @classmethod
    def none(cls, xp: Any, shape: tuple[int, ...], ties: tuple[int, ...] | None = None) -> PairCounts:
        """Counts of 0 of one shape, with sums over ties of another, in arrays of their own."""
        ties = shape if ties is None else ties
        samples, concordant, discordant = (xp.zeros(shape, np.int64) for _ in range(3))
        return cls(samples, concordant, discordant, Ties.none(xp, ties), Ties.none(xp, ties))

    @property
    def pairs(self) -> Any:
        """All pairs of samples, n (n - 1) / 2."""
        return self.samples * (self.samples - 1) // 2

    @property
    def tied_in_both(self) -> Any:
        """Pairs of samples that are tied in x and in y."""
        return self.concordant + self.discordant - self.pairs + self.x.pairs + self.y.pairs

    @property
    def arrays(self) -> tuple[Any, ...]:
        """All arrays, the fields of ties included."""
        return (*self[:3], *self.x, *self.y)

    @property
    def transposed(self) -> PairCounts:
        """The counts of (y, x)."""
        return self._replace(x=self.y, y=self.x)

    def map(self, function: Callable[[Any], Any]) -> PairCounts:
        """Apply a function to each array."""
        samples, concordant, discordant = map(function, self[:3])
        return PairCounts(samples, concordant, discordant, Ties(*map(function, self.x)), Ties(*map(function, self.y)))


@public_in("cukde")
@reprs.readable
class SignificanceResult(NamedTuple):
    """A statistic and its p-value, with the names that SciPy gives them."""

    statistic: Any
    pvalue: Any

    @property
    def correlation(self) -> Any:
        """The statistic, by another name."""
        return self.statistic
