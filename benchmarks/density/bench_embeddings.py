"""Anomalies among embeddings of 384 to 4,096 columns: densities beside scikit-learn's detectors, and what axes lose.

python -m pytest benchmarks/density/bench_embeddings.py --record benchmarks/results/NAME.json

A draw fits rows of one kind, and scores others of that kind and as many of another. Numbers are medians of ten draws,
with quartiles: AUROC, average precision, and the mean log density of ordinary rows that were not fitted, of all columns
and in nats. Times are those of one fit with the scores of all queries, a draw each; those of axes include the axes. Log
densities are held against float64 on the first draw before its rows are kept. Figure and table of docs/embeddings.md:

python -m docs.figures.embeddings benchmarks/results/NAME.json docs/embeddings.svg
python -m benchmarks.density.embeddings_page
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import cukde
from benchmarks.density.embedding_axes import Axes, how_many, own_share
from benchmarks.density.embedding_detectors import (
    DETECTORS,
    EXPECTED,
    Detector,
    Found,
    axes_and_rest,
    cross_validated,
    finite,
)
from benchmarks.density.embeddings import DIMENSIONS, SETS, Draw, Set
from examples.anomaly_detection import auroc
from tests import reference, tolerances

DRAWS = 10
NUMBERS_OF_AXES = (1, 2, 4, 8, 16, 32, 64, 128)
LOOKED_AT = 1024  # columns of the sets whose axes are counted
MODES = 384  # columns up to which modes are counted: Newton's method takes d + 1 densities a step for each that climbs
NORMAL = "independent normal columns"
NORMAL_ROWS = 1000
_ROWS_OF_AXIS = 3  # at least
_CHECKED = 20  # queries
_CALIBRATED = 5  # of the fitted rows one in so many


def summary(numbers: Sequence[Mapping[str, float | None]]) -> dict[str, Any]:
    """Median and quartiles of each number of draws; null where a draw has none."""
    out: dict[str, Any] = {}
    for name in numbers[0]:
        values = [each[name] for each in numbers]
        known = (
            None if any(value is None for value in values) else np.quantile(np.array(values, float), [0.25, 0.5, 0.75])
        )
        for part, quantile in zip(("_q1", "", "_q3"), range(3), strict=True):
            out[f"{name}{part}"] = None if known is None else float(known[quantile])
    return out


def times(seconds: Sequence[float]) -> dict[str, Any]:
    """Of the draws."""
    q1, median, q3 = (float(ms) for ms in 1e3 * np.quantile(seconds, [0.25, 0.5, 0.75]))
    return {"median_ms": median, "q1_ms": q1, "q3_ms": q3, "runs": len(seconds)}


def row(op: str, shape: Mapping[str, Any], rest: Mapping[str, Any]) -> dict[str, Any]:
    """One of the record."""
    return {"op": op, "backend": "cpu", "shape": dict(shape), "dtype": "float32", "precision": "float32", **rest}


def principal(X: np.ndarray) -> Any:
    """All principal axes of rows."""
    from sklearn.decomposition import PCA

    return PCA(svd_solver="full").fit(X)


def error(detector: Detector, found: Found) -> float | None:
    """Worst error of log densities of some queries, of the density; raises where it is more than it may be."""
    if detector.density != "kde":
        return None
    data, queries = found.data, found.queries[:_CHECKED]
    want = reference.log_kde(data, queries, found.h)
    near = reference.nearness(data, queries, found.h)
    tolerances.check_log(found.scores[:_CHECKED], want, tolerances.log_error("cpu", "float32", near.exponent))
    return float(np.expm1(abs(found.scores[:_CHECKED] - want)).max())


def quality(draw: Draw, found: Found) -> dict[str, float | None]:
    """How well a detector tells the kinds of rows, and predicts the ordinary ones."""
    from sklearn.metrics import average_precision_score

    scores = finite(found.scores)
    likelihood = None if found.log_density is None else found.log_density[: len(draw.ordinary)].mean(dtype=np.float64)
    return {
        "auroc": auroc(-scores, draw.anomaly),
        "average_precision": float(average_precision_score(draw.anomaly, -scores)),
        "log_density": None if likelihood is None or not np.isfinite(likelihood) else float(likelihood),
        "without_log": float(np.isnan(found.scores).mean()),
    }


def diagnosis(detector: Detector, draw: Draw, found: Found) -> dict[str, float]:
    """What becomes of a density's kernels: shares of the own one and of the nearest row, and how far data move."""
    if not detector.density or detector.density == "laplace_kde":
        return {}
    if detector.density == "sd_kde":
        moved = (cukde.debias(found.data, found.h) - found.data) / found.h
        return {"moved": float(np.median(np.linalg.norm(moved, axis=1)))}
    squares = reference.exponents(found.data, found.queries[: len(draw.ordinary)], found.h)
    nearest = np.exp(squares.min(axis=1, keepdims=True) - squares).sum(axis=1)
    return {"own_share": own_share(found.data, found.h), "nearest_share": float(np.median(1 / nearest))}


def alarms(draw: Draw, pca: Any, k: int) -> dict[str, dict[str, float]]:
    """Shares of ordinary rows and of anomalies beyond levels that are made for 5% of ordinary rows, by detector.

    A level is of the fitted rows, of densities without each row's own kernel; or of a fifth of them, for axes and
    kernels of the others.
    """
    axes = Axes.of(pca, k)
    found = axes_and_rest(draw, axes)
    others = cukde.kde(found.data, found.data, found.h, log=True, leave_one_out=True)
    density, rest = "KDE of axes and rest", "the rest alone"
    out = {
        density: shares("_by_fitted_rows", found.scores < np.quantile(others, EXPECTED), draw),
        rest: shares(
            "_by_fitted_rows",
            axes.distance(draw.queries) > np.quantile(axes.distance(draw.fitted), 1 - EXPECTED),
            draw,
        ),
    }
    kept = draw.fitted[: len(draw.fitted) // _CALIBRATED]
    with_kept = Draw(draw.fitted[len(kept) :], np.concatenate([kept, draw.ordinary]), draw.anomalies)
    axes = Axes.of(principal(with_kept.fitted), k)
    for name, scores in {
        density: axes_and_rest(with_kept, axes).scores,
        rest: -axes.distance(with_kept.queries),
    }.items():
        out[name] |= shares("", scores[len(kept) :] < level(scores[: len(kept)]), draw)
    return out


def level(scores: np.ndarray) -> float:
    """The score below which a new row is with a probability of at most ``EXPECTED``, whatever it is distributed as."""
    lowest = int(EXPECTED * (len(scores) + 1))
    return float(np.sort(scores)[lowest - 1]) if lowest else -np.inf


def shares(of: str, alarm: np.ndarray, draw: Draw) -> dict[str, float]:
    """How many of each kind of rows raise an alarm."""
    m = len(draw.ordinary)
    return {f"false_alarms{of}": float(alarm[:m].mean()), f"found{of}": float(alarm[m:].mean())}


def of_axes(draw: Draw, pca: Any, k: int, h: float, log_p: np.ndarray) -> dict[str, float | None]:
    """What k axes keep: the density of axes and rest, and bounds for the density of all columns with bandwidth h."""
    axes, m = Axes.of(pca, k), len(draw.ordinary)
    found = axes_and_rest(draw, axes)
    low, high = axes.bounds(draw.fitted, draw.queries, h)
    allowed = 1e-5 * abs(log_p).max()  # projections in float32
    if not ((low <= log_p + allowed) & (log_p <= high + allowed)).all():
        raise ArithmeticError(f"the density of all columns must lie within the bounds of {k} axes; it does not")
    certain = (low[:m, None] > high[None, m:]) | (high[:m, None] < low[None, m:])
    return quality(draw, found) | {
        "explained": axes.explained,
        "own_share": own_share(found.data, found.h),
        "width": float(np.median(high - low)),
        "certain": float(certain.mean()),
    }


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("of", SETS, ids=lambda of: of.name)
def bench_detectors(keep: Callable[[dict[str, Any]], None], of: Set, d: int) -> None:
    numbers: dict[str, list[dict[str, Any]]] = {detector.name: [] for detector in DETECTORS}
    seconds: dict[str, list[float]] = {name: [] for name in numbers}
    errors: dict[str, float | None] = {}
    for seed in range(DRAWS):
        draw = of.draw(d, seed)
        began = time.perf_counter()
        pca = principal(draw.fitted)
        for_axes = time.perf_counter() - began
        k = how_many(pca, len(draw.fitted))
        axes = Axes.of(pca, k)
        for detector in DETECTORS:
            if seed == 0:
                detector.score(draw, axes, seed)  # what is compiled at a first call is not timed
            began = time.perf_counter()
            found = detector.score(draw, axes, seed)
            seconds[detector.name].append(time.perf_counter() - began + for_axes * detector.by_axes)
            if seed == 0:
                errors[detector.name] = error(detector, found)
            k_of = {"k": float(k), "explained": axes.explained} if detector.by_axes else {}
            numbers[detector.name].append(quality(draw, found) | diagnosis(detector, draw, found) | k_of)
        for name, of_alarms in alarms(draw, pca, k).items():
            numbers[name][-1].update(of_alarms)
    shape = {"set": of.name, "n": len(draw.fitted), "m": len(draw.queries), "d": d}
    for name, each in numbers.items():
        accuracy = {} if errors[name] is None else {"rel_err_max": errors[name]}
        keep(row(name, shape, times(seconds[name]) | accuracy | summary(each)))


@pytest.mark.parametrize("of", SETS, ids=lambda of: of.name)
def bench_axes(keep: Callable[[dict[str, Any]], None], of: Set) -> None:
    numbers: dict[int, list[dict[str, Any]]] = {}
    seconds: dict[int, list[float]] = {}
    for seed in range(DRAWS):
        draw = of.draw(LOOKED_AT, seed)
        pca, h = principal(draw.fitted), cross_validated(draw.fitted)
        log_p = cukde.kde(draw.fitted, draw.queries, h, log=True, precision="float64").astype(np.float64)
        for k in NUMBERS_OF_AXES:
            if k < len(draw.fitted) / _ROWS_OF_AXIS:
                began = time.perf_counter()
                numbers.setdefault(k, []).append(of_axes(draw, pca, k, h, log_p))
                seconds.setdefault(k, []).append(time.perf_counter() - began)
    for k, each in numbers.items():
        shape = {"set": of.name, "n": len(draw.fitted), "m": len(draw.queries), "d": LOOKED_AT, "k": k}
        keep(row("so many axes", shape, times(seconds[k]) | summary(each)))


@pytest.mark.parametrize("of", SETS, ids=lambda of: of.name)
def bench_modes(keep: Callable[[dict[str, Any]], None], of: Set) -> None:
    X = of.draw(MODES, 0).fitted
    began = time.perf_counter()
    found = cukde.modes(X, cukde.bandwidth.silverman(X))
    taken = time.perf_counter() - began
    keep(row("modes", {"set": of.name, "n": len(X), "d": MODES}, times([taken]) | {"modes": len(found.points)}))


def bench_normal_columns(keep: Callable[[dict[str, Any]], None]) -> None:
    for d in NUMBERS_OF_AXES:
        each, seconds = [], []
        for seed in range(DRAWS):
            X = np.random.default_rng(seed).standard_normal((NORMAL_ROWS, d)).astype(np.float32)
            began = time.perf_counter()
            each.append({"own_share": own_share(X, cukde.bandwidth.silverman(X))})
            seconds.append(time.perf_counter() - began)
        shape = {"set": NORMAL, "n": NORMAL_ROWS, "d": d}
        keep(row("own share", shape, times(seconds) | summary(each)))
