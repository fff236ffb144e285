"""Densities in float64 that results of the sections are held against before they are timed."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

import cukde
from cukde.core.dispatch import to_host

# Debiased points that are held against sums over all pairs.
_MOVED = 32


class Task(NamedTuple):
    """Data, queries, (rows, d) or a line's (rows,), and the bandwidth; float32."""

    X: Any
    Y: Any
    h: float

    @property
    def d(self) -> int:
        """Dimensions."""
        return 1 if self.X.ndim == 1 else int(self.X.shape[1])

    def on_gpu(self) -> Task:
        """The same on the current GPU."""
        import cupy as cp

        return Task(cp.asarray(self.X), cp.asarray(self.Y), self.h)


class WrongResultError(ValueError):
    """A result is off by more than is promised: there is no sense in timing it."""


class Truth:
    """What the densities of a task are at its first queries; on a GPU where there is one.

    Queries are drawn at random: the first are as good as any.
    """

    def __init__(self, task: Task, *, gpu: bool, checked: int | None = None) -> None:
        self._task = task.on_gpu() if gpu else task
        self._gpu = gpu
        self._known: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        # Both oracles go through all pairs of the checked queries: sums of as many take a second at most.
        pairs = 2e9 if gpu else 2e6
        self.checked = min(len(task.Y), checked or max(8, min(1000 if gpu else 100, int(pairs / len(task.X)))))

    def check(self, op: str, got: Any, device: str, precision: str) -> float:
        """Return the error of a result, and refuse one that is off by more than is promised."""
        found, most = self.error(op, got), allowed(op, device, precision)
        if not found <= most:
            raise WrongResultError(
                f"{op} of precision {precision} on the {device} is off by {found:.2e} at n = {len(self._task.X):,}, "
                f"d = {self._task.d}, where {most:.0e} is allowed: it is not timed"
            )
        return found

    def error(self, op: str, got: Any) -> float:
        """Worst relative error of a density, of its signed sum's absolute terms for "laplace_kde".

        Of a score the longest error in units of 1/h, over the mean distance, in h, of the data that count: what a
        density's error makes of it; of "debias" in units of h. Of a result at some of the first queries those count.
        """
        exact, size = self._values(op)
        values = to_host(got[: len(exact)]).astype(np.float64)
        wrong = np.abs(values.reshape(-1, *exact.shape[1:]) - exact[: len(values)])  # of a line's scores a column
        lengths = np.linalg.norm(wrong, axis=1) if wrong.ndim == 2 else wrong
        return float((lengths / size[: len(values)]).max())

    def _values(self, op: str) -> tuple[np.ndarray, np.ndarray]:
        """At the checked queries, and what errors are relative to."""
        if op not in self._known:
            self._known[op] = self._made(op)
        return self._known[op]

    def _made(self, op: str) -> tuple[np.ndarray, np.ndarray]:
        task, Y = self._task, self._task.Y[: self.checked]
        if op == "laplace_kde":
            return self._laplace(Y)
        if op == "score":
            return self._score(Y)
        if op == "debias":
            return self._debiased()
        density = np.exp(self._log_density(self._moved() if op == "sd_kde" else task.X, Y))
        return density, density

    def _log_density(self, X: Any, Y: Any) -> np.ndarray:
        if not self._gpu:
            from tests import reference  # which loads SciPy

            return reference.log_kde(X, Y, self._task.h)
        from benchmarks.sources import exact

        logs: np.ndarray = to_host(exact.log_sums(_rows(X), _rows(Y), self._task.h))
        return logs + self._log_constant()

    def _laplace(self, Y: Any) -> tuple[np.ndarray, np.ndarray]:
        task = self._task
        if not self._gpu:
            from tests import reference  # which loads SciPy

            return reference.laplace(task.X, Y, task.h)
        from benchmarks.sources import exact

        scale = math.exp(self._log_constant())
        total, size = map(to_host, exact.laplace(_rows(task.X), _rows(Y), task.h))
        return scale * total, scale * size

    def _score(self, Y: Any) -> tuple[np.ndarray, np.ndarray]:
        task = self._task
        if not self._gpu:
            from tests import reference  # which loads SciPy

            return reference.score(task.X, Y, task.h), reference.nearness(task.X, Y, task.h).reach / task.h
        from benchmarks.sources import exact

        score, reach = map(to_host, exact.score_and_reach(_rows(task.X), _rows(Y), task.h))
        return score, reach / task.h

    def _log_constant(self) -> float:
        task = self._task
        return -0.5 * task.d * math.log(2 * math.pi * task.h**2) - math.log(len(task.X))

    def _moved(self) -> Any:
        """Debiased data by the library in float64, some of them held against sums over all pairs.

        All pairs of the data at themselves would take the oracles minutes.
        """
        moved = cukde.debias(self._task.X.astype("f8"), self._task.h)
        self.check("debias", moved, "gpu" if self._gpu else "cpu", "float64")
        return moved

    def _debiased(self) -> tuple[np.ndarray, np.ndarray]:
        task = self._task
        x = task.X.astype("f8")
        some = x[: min(_MOVED, self.checked)]
        if self._gpu:
            from benchmarks.sources import exact

            shift = to_host(exact.log_sums_and_shift(_rows(x), _rows(some), task.h)[1])
        else:
            from tests import reference

            shift = task.h**2 * reference.score(x, some, task.h)
        points = to_host(some)
        return points + 0.5 * shift.reshape(points.shape), np.full(len(points), task.h)


def allowed(op: str, device: str, precision: str) -> float:
    """Error that is promised of an operation."""
    from tests.tolerances import DENSITY, SD_DENSITY  # which load SciPy

    of_density = DENSITY[device, precision].value
    if op not in ("sd_kde", "debias"):
        return of_density
    return max(of_density, SD_DENSITY["float64" if precision == "float64" else "float32"].value)


def _rows(A: Any) -> Any:
    return A[:, None] if A.ndim == 1 else A
