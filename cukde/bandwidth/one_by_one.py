"""Criteria that score one bandwidth at a time, with gradients by central differences."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

import numpy as np

from cukde.bandwidth import check

# Steps of central differences in log h, where rounding of the score and the step's square err alike.
STEP = {"float32": 2e-2, "float64": 1e-4}


class OneByOne(ABC):
    """What :class:`cukde.bandwidth.search.Criterion` asks for, of the score of one bandwidth."""

    objective: Literal["likelihood", "least_squares"]
    step: float  # of central differences in log h

    @property
    def is_logarithmic(self) -> bool:
        """Whether scores have no unit: that of the data adds to them."""
        return self.objective == "likelihood"

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
