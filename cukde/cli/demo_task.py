"""The demo's work: handwritten digits in 16 dimensions, bandwidths by cross-validation, two questions.

How likely are rows that were held out? And does a low density give away a digit that the training rows do not
have? Nothing that is fitted (projection, bandwidth, density) ever sees a held-out row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, train_test_split
from threadpoolctl import threadpool_limits

import cukde

DIMENSIONS = 16
FOLDS = 3
HELD_OUT = 1 / 3  # share of the rows

# Multiples of the reference bandwidth that cross-validation chooses from.
GRID = np.geomspace(0.5, 1.8, 8)


@dataclass(frozen=True)
class Method:
    """One estimator on one device; ``density(X, Y, h)`` is higher for more usual rows of ``Y``."""

    name: str
    device: str
    density: Callable[[np.ndarray, np.ndarray, float], Any]
    signed: bool = False  # whether it returns a density that may be negative, not its logarithm
    twin: str | None = None  # the method that computes the same estimator

    @property
    def label(self) -> str:
        """Name the method, and its device where that is not the CPU."""
        return self.name if self.device == "CPU" else f"{self.name} ({self.device})"


class Rows(NamedTuple):
    """Projected rows to fit and to score, with the bandwidth's unit."""

    train: np.ndarray
    queries: np.ndarray
    reference: float  # of the training rows: Silverman's rule for one bandwidth in all directions


class Task(NamedTuple):
    """A digit that is left out of the training rows and must be found by its low density, or no digit."""

    rows: Rows  # queries: held-out rows of the training digits, then all rows of the digit left out
    anomalous: np.ndarray  # whether a query is of the digit left out
    folds: list[Rows]  # within the training rows, each with its own projection
    images: np.ndarray  # of the queries, for show


@dataclass
class Outcome:
    """The results of one method in all tasks."""

    method: Method
    multiples: list[float] = field(default_factory=list)  # chosen from the grid, one for each task
    auroc: list[float] = field(default_factory=list)  # one for each digit left out
    log_density: np.ndarray | None = None  # of the held-out rows, with all digits; None for signed methods
    curve: list[float] = field(default_factory=list)  # cross-validation on that task, one for each grid point
    # For KDE: the largest error of a held-out row's log density, at the chosen bandwidth and at the grid's smallest.
    errors: tuple[float, ...] | None = None
    seconds: float = 0.0


def split(labels: np.ndarray, left_out: int | None, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the numbers of the rows to fit, of held-out rows, and of all rows of the digit left out."""
    others = np.flatnonzero(labels != left_out) if left_out is not None else np.arange(len(labels))
    train, held_out = train_test_split(others, test_size=HELD_OUT, random_state=seed, stratify=labels[others])
    return train, held_out, np.setdiff1d(np.arange(len(labels)), others)


def project(images: np.ndarray, train: np.ndarray, queries: np.ndarray) -> Rows:
    """Project on the principal axes of the training rows alone."""
    axes = PCA(DIMENSIONS, random_state=0).fit(images[train])
    X = axes.transform(images[train])
    reference = np.sqrt(np.mean(cukde.bandwidth.silverman(X) ** 2))
    return Rows(X, axes.transform(images[queries]), float(reference))


def prepare(images: np.ndarray, labels: np.ndarray, left_out: int | None, seed: int) -> Task:
    """Split and project the rows of one task, and of the folds within its training rows."""
    train, held_out, anomalies = split(labels, left_out, seed)
    queries = np.r_[held_out, anomalies]
    cuts = StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(train, labels[train])
    folds = [project(images, train[fit], train[rest]) for fit, rest in cuts]
    return Task(project(images, train, queries), labels[queries] == left_out, folds, images[queries])


def prepare_all(seed: int) -> list[Task]:
    """Return the task with all digits, then one for each digit left out."""
    images, labels = load_digits(return_X_y=True)
    with threadpool_limits(1):  # 64 columns: more threads would only wait for each other
        return [prepare(images, labels, left_out, seed) for left_out in (None, *range(10))]


def criterion(scores: np.ndarray, signed: bool) -> tuple[int, float]:
    """Judge a bandwidth by held-out rows; the largest wins.

    For a density this is the mean log density. A signed estimate is judged first by its number of positive values at
    held-out rows, then by their mean log. (Least squares, the textbook's choice for signed estimates, depends on the
    few densest rows in 16 dimensions: it chooses half the bandwidth, with which a quarter of the held-out rows are
    negative and the ranking fails.)
    """
    if not signed:
        return 0, float(scores.mean())
    positive = scores[scores > 0]
    mean = float(np.log(positive).mean()) if len(positive) else -np.inf
    return len(positive) - len(scores), mean


def cross_validate(method: Method, folds: Sequence[Rows]) -> tuple[int, list[float]]:
    """Return the place of the best multiple on the grid, and the criterion's mean along the grid."""
    judged = []
    for multiple in GRID:
        each = [
            criterion(method.density(X, Y, float(multiple) * reference), method.signed) for X, Y, reference in folds
        ]
        judged.append((sum(sign for sign, _ in each), float(np.mean([mean for _, mean in each]))))
    return judged.index(max(judged)), [mean for _, mean in judged]


def run(method: Method, task: Task, outcome: Outcome) -> None:
    """Choose the bandwidth, fit and score, which is timed; then judge the scores."""
    X, Y, reference = task.rows
    start = time.perf_counter()
    best, curve = cross_validate(method, task.folds)
    scores = method.density(X, Y, float(GRID[best]) * reference)
    outcome.seconds += time.perf_counter() - start
    outcome.multiples.append(float(GRID[best]))
    if task.anomalous.any():
        outcome.auroc.append(float(roc_auc_score(task.anomalous, -scores)))  # low density: anomalous
    else:
        outcome.curve = curve
        outcome.log_density = None if method.signed else scores
        if "KDE" in (method.name, method.twin):
            outcome.errors = tuple(error(method, X, Y, float(GRID[i]) * reference) for i in (best, 0))


def error(method: Method, X: np.ndarray, Y: np.ndarray, h: float) -> float:
    """Return the largest error of a method that gives KDE's log density."""
    return float(np.abs(method.density(X, Y, h) - plain_log_density(X, Y, h)).max())


def plain_log_density(X: np.ndarray, Y: np.ndarray, h: float) -> np.ndarray:
    """Return KDE's log density by its formula, in float64, with distances from differences."""
    exponents = -cdist(Y, X, "sqeuclidean") / (2 * h**2)
    constant = X.shape[1] / 2 * np.log(2 * np.pi * h**2) + np.log(len(X))
    return logsumexp(exponents, axis=1) - constant


def cpu_methods() -> list[Method]:
    """Return the library's three estimators."""
    return [
        Method("KDE", "CPU", lambda X, Y, h: cukde.kde(X, Y, h, log=True)),
        Method("SD-KDE", "CPU", lambda X, Y, h: cukde.sd_kde(X, Y, h, log=True)),
        Method("Laplace", "CPU", lambda X, Y, h: cukde.laplace_kde(X, Y, h), signed=True),
    ]


def gpu_methods() -> list[Method]:
    """Return the same on the GPU, copies there and back included. Needs a GPU that works."""
    import cupy

    def on_gpu(method: Method) -> Method:
        def density(X: np.ndarray, Y: np.ndarray, h: float) -> np.ndarray:
            result: np.ndarray = cupy.asnumpy(method.density(cupy.asarray(X), cupy.asarray(Y), h))
            return result

        return Method(method.name, "GPU", density, method.signed, twin=method.name)

    return [on_gpu(method) for method in cpu_methods()]


def scikit_learn() -> Method:
    """Return scikit-learn's KDE, which uses trees."""
    from sklearn.neighbors import KernelDensity

    return Method(
        "scikit-learn KDE", "CPU", lambda X, Y, h: KernelDensity(bandwidth=h).fit(X).score_samples(Y), twin="KDE"
    )
