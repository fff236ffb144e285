"""What SD-KDE gains by more steps than one, and by other ways of taking them, each with its best bandwidth.

python -m benchmarks.density.bench_steps --record benchmarks/results/sd_steps.json

Of each case there are ten draws: samples of a known density, or splits of a data set, a quarter of it held out. A row
is a case and a method. It has the mean log density of held-out rows, and of known densities the integrated squared
error over the integral of the squared density, by the bandwidth of a grid that is best in the mean of all draws. Gains
are over one step; their bands are the least and the greatest of the draws.

Methods, with x the data, x' the points of the step before, and h the bandwidth:

steps     x + (h^2/2) score of x' at x: that of ``cukde.sd_kde(..., steps=k)``; 0 steps is the kernel density.
midpoint  x + (h^2/2) score of x' at (x + x')/2, by the bandwidth h/sqrt(2): half way back along the heat flow.
others    steps whose score at a row leaves out the row's own point.
limited   the same where the mean shift is no longer than h sqrt(d), and shorter the longer it would be beyond: that of
          ``cukde.sd_kde(..., steps=k, own_point=False)``.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from benchmarks.record import target
from benchmarks.tools import records

DRAWS = 10
N, M = 1000, 500  # rows of a sample, queries
MOST = {"steps": 4, "midpoint": 3, "others": 2, "limited": 2}
GRID = 1.18 ** np.arange(-4, 5)  # bandwidths over the middle one of a case

Draw = tuple[np.ndarray, np.ndarray]
"""Rows and held-out rows."""


class Known(NamedTuple):
    """A known density: the integral of its square, and of its product with a kernel density of points."""

    square: float
    overlap: Callable[[np.ndarray, float], float]


class Case(NamedTuple):
    """Where draws come from, and a bandwidth about which the best ones lie."""

    name: str
    d: int
    middle: float
    draw: Callable[[np.random.Generator], Draw]
    known: Known | None


def _normals(X: np.ndarray, variance: float, centre: np.ndarray) -> float:
    """Mean of the density of N(centre, variance I) at points."""
    squares = ((X - centre) ** 2).sum(axis=1)
    return float(np.exp(-0.5 * squares / variance).mean()) * (2 * np.pi * variance) ** (-X.shape[1] / 2)


def modes(d: int, apart: float, middle: float) -> Case:
    """Two normals of deviation 1, ``apart`` in the first column; 0 is one normal."""
    away = apart / 2 * np.eye(d)[0]

    def draw(rng: np.random.Generator) -> Draw:
        Z = rng.standard_normal((N + M, d)) + np.where(rng.random(N + M) < 0.5, 1, -1)[:, None] * away
        return Z[:N], Z[N:]

    square = (4 * math.pi) ** (-d / 2) * (1 + math.exp(-(apart**2) / 4)) / 2
    known = Known(square, lambda X, h: (_normals(X, 1 + h * h, away) + _normals(X, 1 + h * h, -away)) / 2)
    return Case("two modes" if apart else "normal", d, middle, draw, known)


def student(d: int, middle: float) -> Case:
    """Student's t with 4 degrees of freedom: a normal whose precision is a Gamma variable of shape 2 and rate 2."""

    def draw(rng: np.random.Generator) -> Draw:
        Z = rng.standard_normal((N + M, d)) / np.sqrt(rng.gamma(2.0, 0.5, (N + M, 1)))
        return Z[:N], Z[N:]

    nodes, shares = np.polynomial.laguerre.laggauss(48)
    of_precisions = list(zip(nodes / 2, nodes * shares, strict=True))
    log_top = math.lgamma(2 + d / 2) - d / 2 * math.log(4 * math.pi)
    log_square = 2 * log_top + d / 2 * math.log(4 * math.pi) + math.lgamma(4 + d / 2) - math.lgamma(4 + d)
    known = Known(
        math.exp(log_square),
        lambda X, h: sum(share * _normals(X, 1 / precision + h * h, np.zeros(d)) for precision, share in of_precisions),
    )
    return Case("Student's t", d, middle, draw, known)


def of_set(name: str, components: int | None, middle: float) -> Case:
    """A set of scikit-learn, standardised, or its first principal components, standardised again."""
    from sklearn import datasets

    X: np.ndarray = getattr(datasets, f"load_{name}")().data
    X = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1)
    if components is not None:
        X = X @ np.linalg.svd(X, full_matrices=False)[2][:components].T
    X = X / X.std(axis=0)

    def draw(rng: np.random.Generator) -> Draw:
        order = rng.permutation(len(X))
        held_out = len(X) // 4
        return X[order[held_out:]], X[order[:held_out]]

    return Case(name if components is None else f"{name}, PCA", X.shape[1], middle, draw, None)


def cases() -> Iterator[Case]:
    """Known densities in 1 to 16 dimensions, and sets."""
    for d, middle in ((1, 0.5), (2, 0.5), (4, 0.6), (8, 0.7), (16, 0.85)):
        yield modes(d, 0.0, middle)
    for d, middle in ((1, 0.5), (2, 0.5), (4, 0.6), (8, 0.7), (16, 0.85)):
        yield modes(d, 4.0, middle)
    for d, middle in ((1, 0.6), (2, 0.65), (4, 0.75), (8, 0.9), (16, 1.2)):
        yield student(d, middle)
    yield of_set("wine", None, 0.6)
    yield of_set("breast_cancer", 4, 0.5)
    yield of_set("breast_cancer", 8, 0.7)
    yield of_set("diabetes", 8, 0.5)
    yield of_set("digits", 8, 0.4)
    yield of_set("digits", 16, 0.5)


def kernels(X: np.ndarray, Y: np.ndarray, h: float) -> np.ndarray:
    """Kernels of points (n, d) at queries (m, d), 1 at their tops, (m, n)."""
    squares = (Y**2).sum(axis=1)[:, None] + (X**2).sum(axis=1) - 2 * Y @ X.T
    out: np.ndarray = np.exp(np.maximum(squares, 0) * (-0.5 / h**2))
    return out


def step(X: np.ndarray, moved: np.ndarray, h: float, method: str) -> np.ndarray:
    """The next points."""
    if method == "midpoint":
        at, width = (X + moved) / 2, h / np.sqrt(2)
    else:
        at, width = X, h
    K = kernels(moved, at, width)
    if method in ("others", "limited"):
        np.fill_diagonal(K, 0)
    total = K.sum(axis=1)
    shift = (K @ moved - total[:, None] * at) / np.maximum(total, 1e-300)[:, None]
    if method == "limited":
        d = X.shape[1]
        shift *= (d / np.maximum((shift**2).sum(axis=1) / width**2, d))[:, None]
    out: np.ndarray = X + 0.5 * (h / width) ** 2 * shift
    return out


def judged(points: np.ndarray, h: float, held_out: np.ndarray, known: Known | None) -> tuple[float, float]:
    """Mean log density of held-out rows, and the integrated squared error over the integral of the squared density."""
    n, d = points.shape
    squares = (held_out**2).sum(axis=1)[:, None] + (points**2).sum(axis=1) - 2 * held_out @ points.T
    exponents = np.maximum(squares, 0) * (-0.5 / h**2)
    largest = exponents.max(axis=1)
    log_density = np.log(np.exp(exponents - largest[:, None]).sum(axis=1)) + largest
    log_likelihood = float(log_density.mean()) - math.log(n) - d / 2 * math.log(2 * math.pi * h * h)
    if known is None:
        return log_likelihood, np.nan
    square = float(kernels(points, points, math.sqrt(2) * h).mean()) * (4 * math.pi * h * h) ** (-d / 2)
    return log_likelihood, (square - 2 * known.overlap(points, h)) / known.square + 1


def study(case: Case, draws: int) -> Iterator[dict[str, Any]]:
    """Rows of a case."""
    methods = [("steps", 0)] + [(method, k + 1) for method, most in MOST.items() for k in range(most)]
    found = np.empty((len(methods), len(GRID), draws, 2))
    for number in range(draws):
        X, held_out = case.draw(np.random.default_rng(number))
        for i, h in enumerate(case.middle * GRID):
            points: dict[tuple[str, int], np.ndarray] = {}
            for at, (method, k) in enumerate(methods):
                points[method, k] = X if k == 0 else step(X, points.get((method, k - 1), X), h, method)
                found[at, i, number] = judged(points[method, k], h, held_out, case.known)
    means = found.mean(axis=2)
    best = list(zip(means[..., 0].argmax(axis=1), means[..., 1].argmin(axis=1), strict=True))
    once = methods.index(("steps", 1))
    for at, (method, k) in enumerate(methods):
        (by_likelihood, by_error), (of_once, error_of_once) = best[at], best[once]
        gain = found[at, by_likelihood, :, 0] - found[once, of_once, :, 0]
        row: dict[str, Any] = {
            "op": "sd_steps",
            "backend": "cpu",
            "shape": {"n": len(X), "m": len(held_out), "d": case.d},
            "dtype": "float64",
            "precision": "float64",
            "case": case.name,
            "method": method,
            "steps": k,
            "draws": draws,
            "bandwidth": float(case.middle * GRID[by_likelihood]),
            "at_end": bool(by_likelihood in (0, len(GRID) - 1)),
            "log_likelihood": float(found[at, by_likelihood, :, 0].mean()),
            "gain": float(gain.mean()),
            "gain_least": float(gain.min()),
            "gain_most": float(gain.max()),
        }
        if case.known is not None:
            errors = found[at, by_error, :, 1]
            ratios = errors / found[once, error_of_once, :, 1]
            row |= {
                "bandwidth_of_error": float(case.middle * GRID[by_error]),
                "squared_error": float(errors.mean()),
                "ratio": float(errors.mean() / found[once, error_of_once, :, 1].mean()),
                "ratio_least": float(ratios.min()),
                "ratio_most": float(ratios.max()),
            }
        yield row


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.density.bench_steps", description=__doc__)
    parser.add_argument("--record", type=target, help="write the rows to this JSON file")
    parser.add_argument("--draws", type=int, default=DRAWS)
    wanted = parser.parse_args()
    done = []
    for case in cases():
        print(f"{case.name}, d = {case.d}")
        for row in study(case, wanted.draws):
            done.append(row)
            text = f"  {row['method']:<9}{row['steps']}  {row['log_likelihood']:.4f} ({row['bandwidth']:.2f})"
            text += f"{'!' * row['at_end']:<2}{row['gain']:+.4f} [{row['gain_least']:+.4f}, {row['gain_most']:+.4f}]"
            if "ratio" in row:
                text += f"   {row['squared_error']:.4f} ({row['bandwidth_of_error']:.2f}) x {row['ratio']:.3f} "
                text += f"[{row['ratio_least']:.3f}, {row['ratio_most']:.3f}]"
            print(text, flush=True)
    if wanted.record:
        records.write(wanted.record, done)
        print(f"written to {wanted.record}")


if __name__ == "__main__":
    main()
