"""Rows so far out that products would be too coarse for all others: a few of them are taken apart, by differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import survey
from cukde.density.options import Options
from cukde.density.plan.gpu import Dense

_MOST = 1 / 16  # of the rows: then differences of these take less time than products of the others save
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
        if len(far) > _MOST * len(A):
            return None
        return cls(cp.asarray(np.flatnonzero(is_near)), cp.asarray(far))

    @property
    def share(self) -> float:
        """Share of the far ones."""
        return len(self.far) / max(1, len(self.near) + len(self.far))


class Possible(NamedTuple):
    """A pass that products could take but for some rows; whether these are few is not known yet."""

    products: Dense
    find: Callable[[], Apart | None]  # waits for the device

    def likely(self, sample: np.ndarray, h: float) -> bool:
        """Whether few of a sample of the data are beyond, about its own mean."""
        offsets = sample - sample.mean(axis=0)
        squares = np.einsum("ij,ij->i", offsets, offsets, dtype=np.float64)
        return bool((squares > self.products.limit * h * h).mean() <= 2 * _MOST)


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

    @property
    def share(self) -> float:
        """Share of the pairs that are taken apart."""
        return min(1.0, self.data.share + self.queries.share)

    def of_near_data(self, options: Options) -> Options:
        """The options of the pass over near data at near queries."""
        of = _weights_of(options, self.data.near)
        return of._replace(squared_radius=min(options.squared_radius, self.squared_radius))

    def of_far_data(self, options: Options) -> Options:
        """The options of the pass over far data."""
        return _weights_of(options, self.data.far)


def _weights_of(options: Options, rows: Any) -> Options:
    log_weights = options.log_weights
    return options if log_weights is None else options._replace(log_weights=log_weights[rows])
