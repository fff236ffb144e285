"""Leave-one-out scores of rows that depend on those near in time: the mean over every k-th row, from several starts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from cukde.bandwidth.data import Question
from cukde.bandwidth.search import Criterion

_STARTS = 8  # at most: scores of more differ little from their mean


class Thinned:
    """A criterion of rows that are about independent of each other; its bandwidths are for as many."""

    def __init__(self, kind: Callable[[Question], Criterion], of: Question) -> None:
        step = of.rows.step
        starts = np.unique(np.linspace(0, step, _STARTS, endpoint=False).astype(int))
        thin = [of.rows.every(step, int(start), of.backend.xp) for start in starts]
        self._each = [kind(of._replace(rows=each)) for each in thin]
        first = self._each[0]
        self.precision, self.is_logarithmic = first.precision, first.is_logarithmic
        self.ranges: np.ndarray = np.max([each.ranges for each in self._each], axis=0)

    def scores(self, h: np.ndarray) -> np.ndarray:
        """Return the scores of (B, d) deviations, the greater the better."""
        return np.asarray(np.mean([each.scores(h) for each in self._each], axis=0))

    def with_gradient(self, h: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the score of (d,) deviations and its derivatives by their logarithms."""
        scores, gradients = zip(*(each.with_gradient(h) for each in self._each), strict=True)
        return float(np.mean(scores)), np.mean(gradients, axis=0)
