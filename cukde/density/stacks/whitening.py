"""Bandwidths of the members of a stack: linear maps to coordinates in which each is 1, see :mod:`cukde.density.whitening`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cukde.density.stacks import check
from cukde.density.whitening import Whitening, in_plain_range


class StackWhitening:
    """z = L^-1 (x - origin) of each member, with its bandwidth's covariance H = L L^T.

    Numbers in the ordinary range map nothing (``plain``): members stay as they are, with bandwidths ``h`` (b,).
    Everything else yields float64 coordinates with bandwidths 1.
    """

    def __init__(self, bandwidths: np.ndarray, d: int, name: str = "h") -> None:
        self.bandwidths, self._d, self._name = bandwidths, d, name
        b = len(bandwidths)
        self.plain = bandwidths.ndim == 1 and bool(in_plain_range(bandwidths).all())
        self.h = bandwidths if self.plain else np.ones(b)
        if bandwidths.ndim == 3:
            factors = check.cholesky(bandwidths, name)
            self._inverses = np.linalg.solve(factors, np.broadcast_to(np.eye(d), factors.shape))
            log_det = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
        else:
            deviations = np.broadcast_to(bandwidths if bandwidths.ndim == 2 else bandwidths[:, None], (b, d))
            with np.errstate(over="ignore"):  # of subnormal numbers; the data then spread beyond any range
                self._inverses = 1.0 / deviations[:, None]
            log_det = np.log(deviations).sum(axis=1)
        self.log_norm = -0.5 * d * math.log(2 * math.pi) - log_det

    def member(self, i: int) -> Whitening:
        """The map of one member, as a single density has it."""
        return Whitening(self.bandwidths[i], self._d, f"{self._name}[{i}]")

    def apply(self, A: Any, origins: Any, xp: Any) -> Any:
        """Whiten points (b, m, d), or (1, m, d) that members share; ``origins`` (b, d)."""
        if self.plain:
            return A
        centred = A.astype(xp.float64) - origins[:, None]
        if self.bandwidths.ndim == 3:
            return centred @ xp.asarray(self._inverses.transpose(0, 2, 1))
        return centred * xp.asarray(self._inverses)

    def images(self, origins: Any, xp: Any) -> Any:
        """Where :meth:`apply` sends ``origins``."""
        return origins if self.plain else xp.zeros_like(origins)

    def score(self, s: Any, xp: Any) -> Any:
        """Map scores (b, m, d) in whitened coordinates back."""
        if self.plain:
            return s
        inverses = xp.asarray(self._inverses)
        with np.errstate(over="ignore"):  # a score beyond the range of float64 is infinite, as on the GPU
            return s @ inverses if self.bandwidths.ndim == 3 else s * inverses

    def smooth(self, s: Any, xp: Any) -> Any:
        """H s: what scores are multiplied by in the debiasing shift."""
        if self.bandwidths.ndim == 3:
            return s @ xp.asarray(self.bandwidths)
        h = xp.asarray(self.bandwidths[:, None] if self.bandwidths.ndim == 2 else self.bandwidths[:, None, None])
        with np.errstate(over="ignore", invalid="ignore"):
            return s * h * h  # h^2 itself may leave float64
