"""The method and the bandwidth whose estimates of most rows give the others most likelihood."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple, Unpack

import numpy as np

from cukde.bandwidth import check, data, rules, search
from cukde.bandwidth.cost import of_selection, selection as cost
from cukde.core import dispatch, random_state as core_random_state, reprs
from cukde.core.cost.registry import declare
from cukde.core.entry import names, returned as entry_returned
from cukde.core.entry.names import Labelled
from cukde.core.entry.public_call import public_call
from cukde.core.frames.columns import labels_of
from cukde.core.over_dask import meta
from cukde.core.public import public_in
from cukde.core.random_state import DEFAULT, RandomState
from cukde.core.types import Array, ArrayLike
from cukde.density.api import kde
from cukde.density.estimates import ESTIMATES, NOT_NEGATIVE
from cukde.density.keywords import OfReference, takes
from cukde.density.rules_by_name import ABRAMSON

FOLDS = 5

# From 4 times a reference rule downward by steps of 26%, within which the score is flat about its maximum, until three
# in a row are no better.
_GRID = search.Grid(steps=3, first=3, size=4, more=1, patience=3)


def _adaptive(X: Any, Y: Any, h: Any, **options: Any) -> Any:
    pilot = {name: value for name, value in options.items() if name != "log"}
    return kde(X, Y, h, local_factors=rules.abramson(X, h, **pilot), **options)


class Candidate(NamedTuple):
    """A method: its density, its reference rule, and the power of 1/n that its best bandwidth goes by."""

    density: Callable[..., Any]
    rule: Callable[..., Any]
    order: int
    call: str

    def rate(self, d: int) -> float:
        return 1 / (d + 2 * self.order)


_OF_KDE = ESTIMATES["kde"]
CANDIDATES = {
    **{
        method: Candidate(each.density, getattr(rules, each.rule), each.order, each.call)
        for method, each in ESTIMATES.items()
        if method in NOT_NEGATIVE
    },
    ABRAMSON: Candidate(
        _adaptive,
        rules.silverman,
        _OF_KDE.order,
        f"{_OF_KDE.call[:-1]}, local_factors=cukde.bandwidth.abramson(X, h))",
    ),
}


class _Selection(NamedTuple):
    method: str
    bandwidth: np.ndarray
    score: float
    call: str
    methods: tuple[str, ...]
    bandwidths: np.ndarray
    scores: np.ndarray


@public_in("cukde.bandwidth")
@reprs.readable
class Selection(Labelled, _Selection):
    """The result of :func:`cukde.bandwidth.select`: see there."""

    def density(self, X: ArrayLike, Y: ArrayLike, **options: Any) -> Array:
        """Compute the density of the data ``X`` at ``Y``, with options of :func:`cukde.kde` such as ``log``."""
        h = names.bandwidth("found", self, labels_of(meta(X)), len(self.bandwidth)).bandwidth
        out: Array = CANDIDATES[self.method].density(X, Y, h, **options)
        return out


@declare(cost, of_selection, name="bandwidth.select")
@public_call(entry_returned.with_columns)
@takes(OfReference, described=["n_eff"])
def select(
    X: ArrayLike,
    methods: Sequence[str] = tuple(CANDIDATES),
    *,
    most_rows: int = 10_000,
    random_state: RandomState = DEFAULT,
    **options: Unpack[OfReference],
) -> Selection:
    r"""Choose a density estimate and its bandwidth by how well they predict held-out rows.

    The rows are divided into five folds at random. Each method with each bandwidth is fitted to four folds and scored
    by the mean log density of the fifth, for each fold in turn.

    Parameters
    ----------
    X : array_like, shape (n, d) or (n,)
        Data, at least ten rows; (n,) means d = 1. A GPU array computes on the GPU.
    methods : sequence of {"kde", "sd", "positive", "abramson"}
        Candidates: :func:`cukde.kde`, :func:`cukde.sd_kde`, :func:`cukde.positive_kde`, and for "abramson"
        :func:`cukde.kde` with the factors of :func:`abramson`, whose pilot has the same bandwidth.
    most_rows : int
        Largest number of rows to use, at least ten. If there are more, a random sample is used, and its best bandwidth
        is scaled to n rows: by the power 1/(d+4) of the ratio of the numbers, for "sd" and "positive" 1/(d+8).
    random_state : int, numpy.random.RandomState, numpy.random.Generator or None
        Random state of the sample and the folds; the default gives the same result on every call.

    Returns
    -------
    Selection
        A named tuple; its arrays live where the data do, and are float64.

        ``method`` : str, the best method.

        ``bandwidth`` : (d,), its best bandwidth in units of the data, to be given as ``h``.

        ``score`` : float, the mean log density of held-out rows.

        ``call`` : str, the call that computes the estimate; ``found.density(X, Y)`` makes it. So does the function of
        that method with the result itself as ``h``, such as ``cukde.kde(X, Y, found)``; it takes factors along.

        ``methods``, ``bandwidths``, ``scores`` : all methods, the best bandwidth of each, (k, d), and its score, (k,).

    Raises
    ------
    TypeError
        As :func:`scott`.
    ValueError
        As :func:`scott`; for an unknown method or none, fewer than ten rows, and ``most_rows`` below ten.

    Warns
    -----
    BandwidthRangeWarning
        If every row shares its values with others, and the likelihood grows without bound as the bandwidth shrinks.
        Count every value once, or spread the values over the step that they were rounded to.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> X = np.random.default_rng(0).standard_t(2, size=500)  # heavy tails
    >>> found = cukde.bandwidth.select(X)
    >>> found.method, found.call
    ('abramson', 'cukde.kde(X, Y, h, local_factors=cukde.bandwidth.abramson(X, h))')
    >>> p = found.density(X, X[:5])

    Notes
    -----
    *Why folds.* Scores of all methods must be of the same kind to be compared. With leave-one-out scores, as in
    :func:`cross_validate`, the factors of "abramson" would depend on the row that is left out.

    *Accuracy.* ``docs/choosing_evidence.md`` compares the result with every method by every rule, on 14 real sets and
    on mixtures whose density is known.

    *Bandwidths.* Candidates are multiples of the method's reference rule, from 4 times downward in steps of 26% until
    three in a row are no better, however far that is, and upward if 4 times is the best. If the likelihood has several
    maxima, the widest is found.

    *Cost.* With m the smaller of n and ``most_rows``, a bandwidth takes 5 (0.8 m)(0.2 m) pairs; "sd" and "abramson"
    take 5 (0.8 m)^2 more, and "positive" 5 times the cost of its mass. About ten bandwidths are tried.
    """
    chosen = check.methods(methods, CANDIDATES)
    most = check.most_rows(most_rows)
    weights = options.get("weights")
    backend = dispatch.backend(X, weights=weights)
    with backend.device_of(X):
        rows = data.rows_of(X, options, backend)
        ends_of = data.domain(X, rows, options, backend)
        ends = {"bounds": options.get("bounds"), "periods": options.get("periods")}
        domain = {name: value for name, value in ends.items() if value is not None}
        seed, thin = core_random_state.integer(random_state), rows.every(rows.step, 0, backend.xp)
        folds = Folds.of(thin, most, seed, weights is not None, domain, backend)
        found = [folds.best(CANDIDATES[name]) for name in chosen]
        scores = np.array([score for _, score in found])
        bandwidths = np.array([h for h, _ in found])
        if rows.step > 1:
            rates = [CANDIDATES[name].rate(rows.points.shape[1]) for name in chosen]
            deviations = rules.deviations(rows, backend, ends_of)
            more = [rows.widened(h / deviations, rate) for h, rate in zip(bandwidths, rates, strict=True)]
            bandwidths *= np.array(more)[:, None]
        best = int(scores.argmax())
        return Selection(
            chosen[best],
            backend.asarray(bandwidths[best]),
            float(scores[best]),
            CANDIDATES[chosen[best]].call,
            chosen,
            backend.asarray(bandwidths),
            backend.asarray(scores),
        )


class Fold(NamedTuple):
    """Rows that are fitted and others that are scored, with weights or None."""

    fitted: Any
    fitted_weights: Any
    scored: Any
    scored_weights: Any


class Folds(NamedTuple):
    """A sample of rows in folds."""

    each: list[Fold]
    share: float  # rows that are fitted over all there are
    tied: search.Tied
    domain: dict[str, Any]
    backend: ModuleType

    @staticmethod
    def of(rows: data.Rows, most: int, seed: int, weighted: bool, domain: dict[str, Any], backend: ModuleType) -> Folds:
        """Take a random sample of the rows that have weight."""
        counted = np.flatnonzero(backend.asnumpy(rows.weights)) if weighted else np.arange(len(rows.points))
        check.rows_of_folds(len(counted))
        order = np.random.default_rng(seed).permutation(counted)[:most]
        each = []
        for fold in range(FOLDS):
            place = np.arange(len(order)) % FOLDS
            fitted, scored = (backend.asarray(order[where]) for where in (place != fold, place == fold))
            weights = (rows.weights[fitted], rows.weights[scored]) if weighted else (None, None)
            each.append(Fold(rows.points[fitted], weights[0], rows.points[scored], weights[1]))
        tied = functools.partial(rows.tied, "likelihood", backend)
        return Folds(each, len(each[0].fitted) / len(counted), tied, domain, backend)

    def best(self, candidate: Candidate) -> tuple[np.ndarray, float]:
        """The bandwidth of the best score, for all rows, and its score."""
        first = self.each[0]
        rule = candidate.rule(first.fitted, weights=first.fitted_weights, **self.domain)
        reference = np.asarray(self.backend.asnumpy(rule), np.float64)

        def scores(h: np.ndarray) -> np.ndarray:
            return np.nan_to_num([self.score(candidate, each) for each in h], nan=-np.inf)

        tried, found = search.along(_GRID, reference, scores, self.tied)
        best = int(found.argmax())
        if best in (0, len(found) - 1):
            search.warn("largest" if best else "smallest", tried[best], self.tied)
        return tried[best] * self.share ** candidate.rate(len(reference)), float(found[best])

    def score(self, candidate: Candidate, h: np.ndarray) -> float:
        """Mean log density of the rows that are left out."""
        total, sums = 0.0, []
        for fold in self.each:
            weights = {} if fold.fitted_weights is None else {"weights": fold.fitted_weights}
            log_p = candidate.density(fold.fitted, fold.scored, h, log=True, **weights, **self.domain)
            log_p = log_p.astype(np.float64)
            sums.append(log_p.sum() if fold.scored_weights is None else fold.scored_weights @ log_p)
            total += len(log_p) if fold.scored_weights is None else float(fold.scored_weights.sum())
        return float(sum(sums)) / total  # added on the device: one wait for all folds
