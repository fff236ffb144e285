"""What a bandwidth is made from: rows and weights that have been checked, and the same brought to a size of 1."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Literal, NamedTuple

import numpy as np

from cukde.bandwidth import check
from cukde.bandwidth.chains import Chain
from cukde.core import check as core_check
from cukde.density import check as density_check
from cukde.density.domains.domain import Domain, domain_of
from cukde.density.estimates import Method
from cukde.density.keywords import OfReference

_PARTS = 1024  # that many rows are cut into

# Of the bandwidth of a chain: relative change that is none, and steps at most; fewer rows than any rule is asked for.
_SETTLED, _ROUNDS, _LEAST = 1e-4, 60, 1.01

OfFew = Callable[[Any], Any]
"""Returns logarithms of sums among few rows without own terms, from their indices; -inf of one row."""

OfOthers = Callable[[Any, Any], Any]
"""Returns logarithms of sums over rows at others, from the indices of both."""


class Rows(NamedTuple):
    """Checked data as they were given."""

    points: Any  # (n, d) float32 or float64, C-contiguous: integers are float64, float16 is float32
    weights: Any  # (n,) float64, the largest 1
    heaviest: Any  # the row that has it
    rest: float  # sum of the weights but the largest
    squares: float  # sum of their squares
    share: float = 1.0  # of the rows that count, where they depend on each other
    chain: Chain | None = None  # which gives the share that counts in a density of some bandwidth
    step: int = 1  # rows so far apart are about independent

    @classmethod
    def of(cls, points: Any, weights: Any) -> Rows:
        """Rows with weights of any sum."""
        w = weights / weights.max()  # the sum of huge weights must not overflow
        heaviest = w.argmax()
        others = w.copy()
        others[heaviest] = 0
        return cls(points, w, heaviest, float(others.sum()), float((others * others).sum()))

    @property
    def total(self) -> float:
        """Sum of the weights."""
        return 1 + self.rest

    @property
    def effective(self) -> float:
        """Squared sum of the weights over the sum of their squares."""
        return self.total**2 / (1 + self.squares)

    def share_at(self, h: float) -> float:
        """Share of the rows that count in a density whose bandwidth is ``h`` standard deviations."""
        return self.share if self.chain is None else self.chain.share(h)

    def settled(self, rule: Callable[[float], float | None], start: float = 0.0) -> float | None:
        """The bandwidth, in deviations, of a rule that takes the effective number of rows, which it decides in turn."""

        def at(share: float) -> float | None:
            return rule(max(self.effective * share, min(_LEAST, self.effective)))

        check.two_rows(len(self.points), self.effective * self.share, dependent=self.share < 1)
        return self._fixed(at, at(self.share_at(start) if start else self.share))

    def widened(self, h: np.ndarray, rate: float) -> float:
        """What a bandwidth for every ``step``-th row, (d,) standard deviations, is multiplied by for all of them."""
        if self.chain is None:
            return (self.step * self.share) ** -rate
        mean = float(np.exp(np.log(h).mean()))
        return (self._fixed(lambda share: mean * (self.step * share) ** -rate, mean) or mean) / mean

    def _fixed(self, at: Callable[[float], float | None], h: float | None) -> float | None:
        """The bandwidth for the share of the rows that count at it; None as soon as there is none.

        The share falls as the bandwidth grows, so that steps go one way, to the next such bandwidth.
        """
        for _ in range(0 if self.chain is None else _ROUNDS):
            last = h
            h = None if last is None else at(self.share_at(last))
            if last is None or h is None or abs(h - last) <= _SETTLED * last:
                break
        return h

    def every(self, step: int, start: int, xp: Any) -> Rows:
        """Each row that is so many after the last one, of those that have weight, and at least two of them."""
        if step == 1:
            return self
        kept = xp.flatnonzero(self.weights > 0)
        most = max(1, len(kept) // 2)
        chosen = kept[start % most :: min(step, most)]
        return Rows.of(self.points[chosen], self.weights[chosen])

    def counted(self, backend: ModuleType, *, weighted: bool) -> tuple[Any, Any | None, np.ndarray]:
        """Rows of positive weight, their weights, which sum to 1, or None without any, and the ranges of the columns.

        Ranges that overflow are infinite or NaN.
        """
        points, weights = self.points, None
        if weighted:
            kept = self.weights > 0
            if not bool(kept.all()):
                points = backend.xp.ascontiguousarray(points[kept])
            weights = self.weights[kept] / self.total
        with np.errstate(over="ignore", invalid="ignore"):
            ranges: np.ndarray = backend.asnumpy(largest(abs(points - points[0]), backend.xp))
        return points, weights, ranges.astype(np.float64)

    def tied(self, objective: str, backend: ModuleType) -> bool:
        """Whether rows share values such that a score may grow without bound as the bandwidth shrinks.

        The mean of logarithms does if every row has its like; squared densities may if some have.
        """
        counts = np.unique(backend.asnumpy(self.points[self.weights > 0]), axis=0, return_counts=True)[1]
        return bool(counts.min() > 1 if objective == "likelihood" else counts.max() > 1)


class Question(NamedTuple):
    """What cross-validation is asked; rows of weight 0 are left out of it."""

    rows: Rows
    domain: Domain | None
    weighted: bool  # whether there are weights at all
    method: Method
    objective: Literal["likelihood", "least_squares"]
    precision: str
    backend: ModuleType

    @property
    def is_logarithmic(self) -> bool:
        """Whether scores have no unit: that of the data adds to them."""
        return self.objective == "likelihood"

    @property
    def arithmetic(self) -> Literal["float32", "float64"]:
        """That of the pairs."""
        return "float64" if self.precision == "float64" or self.domain is not None else "float32"


def rows(
    X: Any, weights: Any, backend: ModuleType, *, line: bool = False, n_eff: Any = None, periods: Any = None
) -> Rows:
    """Check the arguments; ``line`` says that there must be one column."""
    xp, n_eff = backend.xp, check.n_eff(n_eff)
    x, _ = density_check.data(X, backend)
    n, d = x.shape
    check.two_rows(n)
    if line:
        check.one_column(d)
    x = xp.ascontiguousarray(x, dtype=density_check.result_dtype(x))
    if weights is None:
        w = xp.ones(n)
    else:
        w = density_check.weights(weights, n, backend).astype(xp.float64, copy=False)
    _, (x_finite, w_finite), [(least, most)] = backend.look(x, None, None, [], [w])
    core_check.finite({"X": x_finite, "weights": w_finite})
    density_check.weight_range(least, most)

    data_rows = Rows.of(x, w)
    check.two_rows(n, data_rows.effective)
    if n_eff is None:
        return data_rows
    if not isinstance(n_eff, str):
        share = check.effective_rows(n_eff, n) / n
        return data_rows._replace(share=share, step=min(max(1, round(1 / max(share, 1 / n))), n // 2))
    domain = domain_of(None, periods, d)
    chain = Chain.of(x, None if domain is None else domain.period, backend)
    return data_rows._replace(chain=chain, step=min(chain.step, n // 2))


def rows_of(X: Any, options: OfReference, backend: ModuleType, *, line: bool = False) -> Rows:
    """The same of the options of a rule."""
    of = options.get
    return rows(X, of("weights"), backend, line=line, n_eff=of("n_eff"), periods=of("periods"))


def domain(X: Any, data_rows: Rows, options: OfReference, backend: ModuleType) -> Domain | None:
    """Check bounds and periods beside checked rows of the data ``X``; None where no column has any."""
    out = domain_of(options.get("bounds"), options.get("periods"), data_rows.points.shape[1])
    if out is not None:
        out.hold(density_check.data(X, backend)[0], backend)
    return out


def without_each(shares: Any, xp: ModuleType) -> Any:
    """What is left without each of the weights that sum to 1: of the heaviest, the sum of the others itself."""
    out, heaviest = 1 - shares, shares.argmax()
    others = shares.copy()
    others[heaviest] = 0
    out[heaviest] = others.sum()  # it may be next to nothing
    return out


def with_lonely(logs: Any, lonely: Any, few: int, of_few: OfFew, of_others: OfOthers, xp: Any) -> Any:
    """Write the sums of ``lonely`` rows, which others hardly reach, beside those of which own terms are taken off.

    They are summed over all others and among themselves by halves, each the other's data, down to ``few`` rows. Nothing
    is subtracted.
    """

    def among(rows: Any) -> Any:
        n = len(rows)
        if n <= few:
            return of_few(rows)
        parts = rows[: n // 2], rows[n // 2 :]
        within = [among(part) for part in parts]
        cross = [of_others(*pair) for pair in (parts[::-1], parts)]
        return xp.concatenate([xp.logaddexp(*both) for both in zip(within, cross, strict=True)])

    rows = xp.flatnonzero(lonely)
    if len(rows):
        logs[rows] = among(rows)
        if len(rows) < len(logs):
            logs[rows] = xp.logaddexp(logs[rows], of_others(xp.flatnonzero(~lonely), rows))
    return logs


class Sample(NamedTuple):
    """The same, brought to a size of 1."""

    deviations: Any  # (n, d) float64: from a row that counts, over the ranges; 0 where a row has no weight
    ranges: Any  # (d,) float64
    rows: Rows


def sample(data_rows: Rows, backend: ModuleType) -> Sample:
    """Take the offset from the data and divide by their ranges, which must not be 0."""
    xp = backend.xp
    x = data_rows.points.astype(xp.float64, copy=False)
    # Offsets go before anything is squared, taken from a row that counts; ranges are scaled to 1.
    with np.errstate(over="ignore"):  # the ranges are checked next
        deviations = xp.where((data_rows.weights > 0)[:, None], x - x[data_rows.heaviest], 0)
    ranges = largest(abs(deviations), xp)
    check.ranges(backend.asnumpy(ranges))
    deviations /= ranges
    return Sample(deviations, ranges, data_rows)


def largest(a: Any, xp: Any) -> Any:
    """Largest entry of each column, in two steps: CuPy takes a column by one block, which of many rows takes long."""
    whole = len(a) // _PARTS * _PARTS
    parts = [a[:whole].reshape(_PARTS, -1, a.shape[1]).max(axis=1)] if whole else []
    return xp.concatenate([*parts, a[whole:]]).max(axis=0)
