"""The demo's first part: one call of KernelDensity by scikit-learn and by cukde, for a map of handwritten digits."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from sklearn import neighbors
from sklearn.decomposition import PCA

import cukde
from cukde.cli import demo_methods
from cukde.core import dispatch

SIDE = 180  # points of the map along each axis
CALLS = 3
EMPTY = 1e-6  # of the peak density: the map counts as empty below


class Timed(NamedTuple):
    """Calls of one library on one device, and their result."""

    name: str
    seconds: list[float]
    log_density: np.ndarray


class Map(NamedTuple):
    """Digits on two principal axes, and their log density at the points of a grid."""

    images: np.ndarray
    X: np.ndarray
    h: float
    Y: np.ndarray  # the first axis runs fastest
    peer: Timed  # scikit-learn
    ours: list[Timed]  # on the CPU, and on the GPU where that was asked for

    @property
    def differences(self) -> np.ndarray:
        """How far cukde's log density at each point is from scikit-learn's, on the device where it is farther."""
        return np.abs([each.log_density - self.peer.log_density for each in self.ours]).max(axis=0)

    @property
    def filled(self) -> np.ndarray:
        """Which points are not in the empty part of the map."""
        log_density = self.peer.log_density
        return np.asarray(log_density > log_density.max() + math.log(EMPTY))

    def errors(self, points: np.ndarray) -> tuple[float, float]:
        """Return the largest errors of scikit-learn and of cukde at some points: the distances from the plain sum."""
        exact = plain_log_density(self.X, self.Y[points], self.h)
        peer, *ours = (float(np.abs(each.log_density[points] - exact).max()) for each in (self.peer, *self.ours))
        return peer, max(ours)


def measure(images: np.ndarray, to_gpu: Callable[[Any], Any] | None, stage: Callable[[str], None]) -> Map:
    """Choose a bandwidth by cross-validation and time the calls; ``stage`` shows what is done."""
    stage("choosing the bandwidth")
    X = PCA(2, random_state=0).fit_transform(images)
    h = float(demo_methods.search("kde", X).best_params_["bandwidth"])
    x, y = np.linspace(X.min(axis=0), X.max(axis=0), SIDE).T
    Y = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)

    def call(estimator: Any, move: Callable[[Any], Any]) -> Callable[[], Any]:
        return lambda: dispatch.to_host(estimator(bandwidth=h).fit(move(X)).score_samples(move(Y)))

    peer = call(neighbors.KernelDensity, np.asarray)
    ours = {f"cukde, {numba.get_num_threads()} threads": call(cukde.KernelDensity, np.asarray)}
    if to_gpu is not None:
        ours["cukde, GPU with copies"] = call(cukde.KernelDensity, to_gpu)
    stage("compiling")
    for first in ours.values():  # scikit-learn has nothing to compile
        first()
    return Map(images, X, h, Y, *in_turn({"scikit-learn, 1 thread": peer} | ours, stage))


def in_turn(calls: dict[str, Callable[[], Any]], stage: Callable[[str], None]) -> tuple[Timed, list[Timed]]:
    """Time each call some times, in turns, so that a busy machine slows all alike; the first is the peer's."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    results = {}
    for turn in range(1, CALLS + 1):
        for name, call in calls.items():
            stage(f"call {turn} of {CALLS}: {name}")
            start = time.perf_counter()
            results[name] = call()
            seconds[name].append(time.perf_counter() - start)
    peer, *ours = (Timed(name, seconds[name], results[name]) for name in calls)
    return peer, ours


def plain_log_density(X: np.ndarray, Y: np.ndarray, h: float) -> np.ndarray:
    """Return KDE's log density by its formula, in float64, with distances from differences."""
    n, d = X.shape
    sums = logsumexp(-cdist(Y, X, "sqeuclidean") / (2 * h**2), axis=1)
    return np.asarray(sums - math.log(n) - d / 2 * math.log(2 * math.pi * h**2))
