"""What every function of the family gives at one sample, held against the oracles by the tolerances of them all."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests import reference, tolerances


class Judge:
    """Judges results on the host: of a device, and of a precision if that is not the dtype of the results.

    ``more`` is what a logarithm may be off by beside rounding, such as by pairs that may be left out.
    """

    def __init__(
        self, device: str, X: Any, Y: Any, h: Any, w: Any = None, precision: str | None = None, more: float = 0.0
    ) -> None:
        self.X, self.Y, self.h, self.w = X, Y, h, w
        self.dtype = np.result_type(X, Y)
        self._device, self._precision, self._more = device, precision or str(self.dtype), more
        self.near = reference.nearness(X, Y, h, w)
        self.log = reference.log_kde(X, Y, h, w)
        self.allowed = self.log_error(self.near)

    def log_error(self, near: reference.Nearness) -> np.ndarray:
        """Allowed error of a logarithm of queries so near to the data."""
        return tolerances.log_error(self._device, self._precision, near.exponent) + self._more

    def _form(self, got: np.ndarray, *shape: int) -> None:
        assert got.dtype == self.dtype
        assert got.shape == shape

    def density(self, p: np.ndarray, *logs: np.ndarray) -> None:
        """A density, and its logarithm by one function or several."""
        self._form(p, len(self.Y))
        tolerances.check_density(p, self.log, self.allowed)
        self.logs(*logs)

    def logs(self, *logs: np.ndarray) -> None:
        for log_p in logs:
            self._form(log_p, len(self.Y))
            tolerances.check_log(log_p, self.log, self.allowed)

    def score(self, *scores: np.ndarray) -> None:
        want = reference.score(self.X, self.Y, self.h, self.w)
        for got in scores:
            self._form(got, *self.Y.shape)
            error = np.linalg.norm(reference.whiten_gradient(got - want, self.h), axis=1)
            tolerances.check_score(error, np.maximum(self.allowed, np.finfo(self.dtype).eps), self.near.reach)

    def debiased(self, got: np.ndarray) -> None:
        """By half a bandwidth squared times the score's error, and half a unit in the last place of the result."""
        self._form(got, *self.X.shape)
        want = reference.debias(self.X, self.h, weights=self.w)
        at_data = reference.nearness(self.X, self.X, self.h, self.w)
        error = np.linalg.norm(reference.whiten(got - want, self.h), axis=1)
        rounding = 0.5 * np.finfo(self.X.dtype).eps * reference.size_in_bandwidths(want, self.h)
        tolerances.check(error, 0.5 * self.log_error(at_data) * at_data.reach + rounding, "debiased points")

    def sd(self, log_p: np.ndarray, p: np.ndarray | None = None) -> None:
        """The density of the debiased points."""
        moved = reference.debias(self.X, self.h, weights=self.w)
        near, held = reference.nearness(moved, self.Y, self.h, self.w), reference.size_in_bandwidths(moved, self.h)
        want = reference.log_kde(moved, self.Y, self.h, self.w)
        allowed = tolerances.sd_log_error(self._precision, near, held)
        self._form(log_p, len(self.Y))
        tolerances.check_log(log_p, want, allowed, "log debiased density")
        if p is not None:
            self._form(p, len(self.Y))
            tolerances.check_density(p, want, allowed, "debiased density")

    def laplace(self, got: np.ndarray, *, clipped: bool = False) -> None:
        self._form(got, len(self.Y))
        scale, total, size = reference.scaled_laplace(self.X, self.Y, self.h, self.w)
        total = np.maximum(total, 0) if clipped else total
        tolerances.check_scaled(got, scale, total, size, self.allowed, "Laplace-corrected density")

    def kernel_sum(self, got: np.ndarray, V: np.ndarray) -> None:
        """Without weights."""
        self._form(got, len(self.Y), *V.shape[1:])
        total, size = reference.kernel_sum(self.X, V, self.Y, self.h)
        allowed = self.log_error(reference.nearness(self.X, self.Y, self.h))[:, None] * size
        edge = np.finfo(self.dtype).tiny  # what a result below the dtype's range may become
        tolerances.check(np.abs(got.reshape(total.shape) - total), allowed + edge, "kernel sum")
