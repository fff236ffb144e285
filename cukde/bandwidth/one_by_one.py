"""Criteria that score one bandwidth at a time, with gradients by central differences."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from cukde.bandwidth import check
from cukde.bandwidth.data import Question

# Steps of central differences in log h, where rounding of the score and the step's square err alike.
STEP = {"float32": 2e-2, "float64": 1e-4}


class OneByOne(ABC):
    """What :class:`cukde.bandwidth.search.Criterion` asks for, of the score of one bandwidth."""

    def __init__(self, of: Question) -> None:
        self._backend, self.is_logarithmic, self.precision = of.backend, of.is_logarithmic, of.arithmetic
        self.step = STEP[self.precision]  # of central differences in log h

    def scores(self, h: np.ndarray) -> np.ndarray:
        """Return the scores of (B, d) deviations, the greater the better."""
        return check.scores(np.array([self.score(one) for one in h]))

    def with_gradient(self, h: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the score of (d,) deviations and its derivatives by their logarithms."""
        steps = self.step * np.eye(len(h))
        above, below = (np.array([self.score(h * np.exp(sign * one)) for one in steps]) for sign in (1, -1))
        return self.score(h), (above - below) / (2 * self.step)

    @abstractmethod
    def score(self, h: np.ndarray) -> float:
        """Score of (d,) deviations."""
