"""Rows so far out that products would be too coarse for all others: a few of them are taken apart, by differences."""

from __future__ import annotations

from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import survey
from cukde.density.options import Options
from cukde.density.plan import gpu as plan_gpu

_WITHIN = 0.999  # of the limit: squared distances are rounded


class Rows(NamedTuple):
    """Which rows of an array are near the centre and which are not, int64 both."""

    near: Any
    far: Any

    @classmethod
    def of(cls, A: Any, centre: Any, limit: float) -> Rows | None:
        """Find them, by squared distances up to ``limit``; None where many are far. Waits for the device."""
        is_near = survey.within(A, centre, _WITHIN * limit)
        far = np.flatnonzero(~is_near)
        if not plan_gpu.apart_is_few(len(far), len(A)):
            return None
        return cls(cp.asarray(np.flatnonzero(is_near)), cp.asarray(far))


def beyond(sample: np.ndarray, limit: float) -> float:
    """Share of a sample of the data whose squared distances to its own mean are beyond a limit."""
    offsets = sample - sample.mean(axis=0)
    return float((np.einsum("ij,ij->i", offsets, offsets, dtype=np.float64) > limit).mean())


class Apart(NamedTuple):
    """The rows of a pass; what is near both in data and queries is within ``squared_radius``."""

    data: Rows
    queries: Rows  # the same where the queries are the data
    squared_radius: float

    @classmethod
    def of(cls, X: Any, Y: Any | None, h: float, options: Options, squared_radius: float) -> Apart | None:
        """Find them, or None where too many rows are far; waits for the device."""
        limit = squared_radius * h * h
        data = Rows.of(X, options.centre, limit)
        queries = data if Y is None or data is None else Rows.of(Y, options.centre, limit)
        return None if data is None or queries is None else cls(data, queries, squared_radius)


def options_of(options: Options, rows: Any) -> Options:
    """Return the options of a pass over some rows of the data."""
    log_weights = options.log_weights
    return options if log_weights is None else options._replace(log_weights=log_weights[rows])
