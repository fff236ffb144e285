"""Scores of rows of an embedding, lower for rows less like the fitted ones: densities and scikit-learn's detectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import cukde
from benchmarks.density.embedding_axes import Axes
from benchmarks.density.embeddings import Draw

EXPECTED = 0.05  # share of ordinary rows that an alarm's level is made for

# Multiples of a deviation, those of the default grid of cross_validate and as many again below; and of the best
# bandwidth of a KDE, for SD-KDE, whose own is somewhat wider.
_OF_DEVIATION = 2.0 ** (np.arange(-56, 9) / 8)
_OF_KDE = 2.0 ** (np.arange(-2, 8) / 8)


class Found(NamedTuple):
    """What a detector says of the queries of a draw, and how it came to that."""

    scores: np.ndarray  # NaN, the logarithm of a negative density, is lower than any
    log_density: np.ndarray | None = None  # of all columns, where the detector is one
    data: np.ndarray | None = None  # of a KDE
    queries: np.ndarray | None = None
    h: Any = None


class Detector(NamedTuple):
    """A way to score queries."""

    name: str
    score: Callable[[Draw, Axes, int], Found]  # of a draw, its axes and a seed
    by_axes: bool  # and so it takes the time of the axes, too
    density: str = ""  # the function of cukde that makes the scores, if one does


def _by_rule(method: str) -> Callable[[Draw, Axes, int], Found]:
    function, rule = {
        "kde": (cukde.kde, "silverman"),
        "sd": (cukde.sd_kde, "sd"),
        "laplace": (cukde.laplace_kde, "laplace"),
    }[method]

    def score(draw: Draw, axes: Axes, seed: int) -> Found:
        h = getattr(cukde.bandwidth, rule)(draw.fitted)
        log_p = function(draw.fitted, draw.queries, h, log=True)
        return Found(log_p, log_p, draw.fitted, draw.queries, h)

    return score


def cross_validated(X: np.ndarray) -> float:
    """One deviation for all columns, by leave-one-out likelihood."""
    deviation = float(np.sqrt(X.var(axis=0).mean()))
    return float(cukde.bandwidth.cross_validate(X, "kde", deviation * _OF_DEVIATION).bandwidth[0])


def _all_columns(draw: Draw, axes: Axes, seed: int) -> Found:
    h = cross_validated(draw.fitted)
    log_p = cukde.kde(draw.fitted, draw.queries, h, log=True)
    return Found(log_p, log_p, draw.fitted, draw.queries, h)


def _axes_alone(draw: Draw, axes: Axes, seed: int) -> Found:
    data, queries = (axes.columns(rows)[:, :-1] for rows in (draw.fitted, draw.queries))
    h = cukde.bandwidth.cross_validate(data, "kde").bandwidth
    return Found(cukde.kde(data, queries, h, log=True), None, data, queries, h)


def axes_and_rest(draw: Draw, axes: Axes, seed: int = 0) -> Found:
    """KDE of the k + 1 numbers."""
    data, queries = axes.columns(draw.fitted), axes.columns(draw.queries)
    h = cukde.bandwidth.cross_validate(data, "kde").bandwidth
    log_p = cukde.kde(data, queries, h, log=True)
    return Found(log_p, axes.of_all_columns(log_p, queries), data, queries, h)


def _sd_of_axes_and_rest(draw: Draw, axes: Axes, seed: int) -> Found:
    data, queries = axes.columns(draw.fitted), axes.columns(draw.queries)
    near = cukde.bandwidth.cross_validate(data, "kde").bandwidth
    h = cukde.bandwidth.cross_validate(data, "sd", near * _OF_KDE[:, None]).bandwidth
    log_p = cukde.sd_kde(data, queries, h, log=True)
    return Found(log_p, axes.of_all_columns(log_p, queries), data, queries, h)


def _rest_alone(draw: Draw, axes: Axes, seed: int) -> Found:
    return Found(-axes.distance(draw.queries))


def _normal(draw: Draw, axes: Axes, seed: int) -> Found:
    log_p = axes.normal(draw.queries)
    return Found(log_p, log_p)


def _isolation_forest(draw: Draw, axes: Axes, seed: int) -> Found:
    from sklearn.ensemble import IsolationForest

    return Found(IsolationForest(random_state=seed).fit(draw.fitted).score_samples(draw.queries))


def _local_outlier_factor(draw: Draw, axes: Axes, seed: int) -> Found:
    from sklearn.neighbors import LocalOutlierFactor

    return Found(LocalOutlierFactor(novelty=True).fit(draw.fitted).score_samples(draw.queries))


def _neighbour(k: int) -> Callable[[Draw, Axes, int], Found]:
    from sklearn.neighbors import NearestNeighbors

    def score(draw: Draw, axes: Axes, seed: int) -> Found:
        distances, _ = NearestNeighbors(n_neighbors=k).fit(draw.fitted).kneighbors(draw.queries)
        return Found(-distances[:, -1])

    return score


DETECTORS = (
    Detector("KDE, its rule", _by_rule("kde"), False, "kde"),
    Detector("SD-KDE, its rule", _by_rule("sd"), False, "sd_kde"),
    Detector("Laplace, its rule", _by_rule("laplace"), False, "laplace_kde"),
    Detector("KDE, cross-validated", _all_columns, False, "kde"),
    Detector("KDE of the axes", _axes_alone, True, "kde"),
    Detector("KDE of axes and rest", axes_and_rest, True, "kde"),
    Detector("SD-KDE of axes and rest", _sd_of_axes_and_rest, True, "sd_kde"),
    Detector("the rest alone", _rest_alone, True),
    Detector("normal axes and rest", _normal, True),
    Detector("nearest neighbour", _neighbour(1), False),
    Detector("fifth neighbour", _neighbour(5), False),
    Detector("LocalOutlierFactor", _local_outlier_factor, False),
    Detector("IsolationForest", _isolation_forest, False),
)


def finite(scores: np.ndarray) -> np.ndarray:
    """The scores as numbers that rank alike: NaN below all others."""
    scores = np.asarray(scores, np.float64)
    return np.nan_to_num(scores, nan=np.nanmin(scores) - 1)
