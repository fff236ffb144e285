"""Bounded and periodic columns: where points lie in them, and how they are folded back into them.

Points are taken from an end of their column, so that a mirror image is its point with the sign reversed: exact, however
far from zero the domain lies. A column is then free, has a wall at 0 on one side, two at 0 and its width, or a period.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from cukde.density.domains import check


class Domain(NamedTuple):
    """Ends and periods of the columns, (d,) float64 each, infinite where there is none; in the user's coordinates."""

    low: np.ndarray
    high: np.ndarray
    period: np.ndarray

    @property
    def bounded(self) -> np.ndarray:
        """Columns that have an end, (d,)."""
        return np.isfinite(self.low) | np.isfinite(self.high)

    @property
    def periodic(self) -> np.ndarray:
        """Columns that have a period, (d,)."""
        return np.isfinite(self.period)

    @property
    def cell(self) -> np.ndarray:
        """Width that holds one image of a point, (d,): that between two ends, or the period; infinite for others."""
        with np.errstate(over="ignore"):
            return np.where(self.bounded, self.high - self.low, self.period)

    @property
    def origin(self) -> np.ndarray:
        """What points are taken from, (d,)."""
        return np.where(np.isfinite(self.low), self.low, np.where(np.isfinite(self.high), self.high, 0.0))

    @property
    def ends(self) -> np.ndarray:
        """Where points taken from the origin lie, (2, d)."""
        with np.errstate(over="ignore"):
            return np.stack([self.low, self.high]) - self.origin

    def of_columns(self, columns: Sequence[int]) -> Domain | None:
        """The domain of some columns; None where none of them has an end or a period."""
        out = Domain(*(ends[list(columns)] for ends in self))
        return out if (out.bounded | out.periodic).any() else None

    def outside(self, A: Any, xp: Any) -> Any:
        """Entries outside their bounds, (m, d); points may lie on bounds as their dtype rounds them."""
        limits = np.stack([self.low, self.high])
        if A.dtype.kind == "f":
            with np.errstate(over="ignore"):
                limits = limits.astype(A.dtype)
        low, high = xp.asarray(limits)
        return (low > A) | (high < A)

    def hold(self, A: Any, backend: ModuleType, name: str = "X") -> None:
        """Raise for points of shape (m, d) outside, as data must not lie there."""
        outside = backend.asnumpy(self.outside(A, backend.xp).sum(axis=0))
        check.inside(outside, len(A), self.low, self.high, name)

    def anchored(self, A: Any, xp: Any) -> Any:
        """Points of shape (m, d) from the origin, float64: wrapped, and where they lie outside the bounds on them."""
        out = xp.array(A, dtype=xp.float64, order="C")
        origin = self.origin
        if origin.any():
            out -= xp.asarray(origin)
        self._wrap(out, xp)
        if self.bounded.any():
            low, high = xp.asarray(self.ends)
            out = xp.minimum(xp.maximum(out, low), high)
        return out

    def folded(self, A: Any, xp: Any) -> Any:
        """Anchored points that were moved, reflected or wrapped back into the domain."""
        out = xp.array(A, order="C")
        self._wrap(out, xp)
        low, high = self.ends
        for k in map(int, np.flatnonzero(self.bounded)):
            column = out[:, k]
            if np.isfinite(low[k]) and np.isfinite(high[k]):
                width = float(high[k])
                out[:, k] = width - abs(width - xp.mod(column, 2 * width))
            else:
                out[:, k] = abs(column) if np.isfinite(low[k]) else -abs(column)
        return out

    def sides(self, A: Any, xp: Any) -> Any:
        """-1 for coordinates of anchored points that :meth:`folded` mirrors, 1 for others, float64."""
        out = xp.ones(A.shape)
        low, high = self.ends
        for k in map(int, np.flatnonzero(self.bounded)):
            column = A[:, k]
            if np.isfinite(low[k]) and np.isfinite(high[k]):
                mirrored = xp.mod(column, 2 * float(high[k])) > float(high[k])
            else:
                mirrored = column < 0 if np.isfinite(low[k]) else column > 0
            out[:, k] = xp.where(mirrored, -1.0, 1.0)
        return out

    def restored(self, A: Any, xp: Any) -> Any:
        """Anchored points in the user's coordinates; rounding takes none over a bound."""
        out = A + xp.asarray(self.origin)
        return xp.minimum(xp.maximum(out, xp.asarray(self.low)), xp.asarray(self.high)) if self.bounded.any() else out

    def brought_in(self, A: Any, xp: Any) -> Any:
        """Points anywhere, float64 in the user's coordinates, reflected or wrapped into the domain."""
        return self.restored(self.folded(A - xp.asarray(self.origin), xp), xp)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments ``bounds`` and ``periods`` of a public function that mean this domain."""
        periods = [float(period) if np.isfinite(period) else None for period in self.period]
        return {"bounds": np.stack([self.low, self.high], axis=1), "periods": periods}

    def _wrap(self, out: Any, xp: Any) -> None:
        for k in map(int, np.flatnonzero(self.periodic)):
            out[:, k] = xp.mod(out[:, k], float(self.period[k]))


def domain_of(bounds: Any, periods: Any, d: int) -> Domain | None:
    """Check bounds and periods of ``d`` columns; None where no column has any."""
    if bounds is None and periods is None:
        return None
    free = np.full(d, np.inf)
    low, high = (-free, free) if bounds is None else check.bounds(bounds, d)
    period = free if periods is None else check.periods(periods, d)
    check.one_kind(low, high, period)
    out = Domain(low, high, period)
    return out if (out.bounded | out.periodic).any() else None


def arguments_of(domain: Domain | None) -> dict[str, Any]:
    """The arguments of a public function that mean a domain: none where there is none."""
    return {} if domain is None else domain.arguments
