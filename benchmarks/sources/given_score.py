"""Errors of SD-KDE with a score that is given: the exact one, and exact ones with noise, beside that of the data.

python -m benchmarks.sources.given_score --record benchmarks/results/given_score_cpu.json

Points x move to x + (h^2 / 2) (s(x) + e), with s the score of the density and e normal, its deviation a share of the
root mean square of the score's components; the estimate is KDE of the moved points. The densities are mixtures of three
normals in one and two dimensions (:mod:`benchmarks.sources.oracle_mixture`), five samples of each size. The bandwidth
is that of least MISE of the same samples, on a grid by steps of a tenth. Integrals are sums over a grid of points that
reaches 6 deviations of the mixture each way.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import cukde
from benchmarks import record
from benchmarks.sources import importance
from benchmarks.sources.oracle_mixture import Mixture

SIZES = (100, 1_000, 10_000, 100_000)
SHARES = (0.0, 0.1, 0.3, 1.0)
"""Deviation of the noise, over the root mean square of the score."""

SEEDS = 5
COMPONENTS = 3

_POINTS = {1: 4096, 2: 384}  # of an axis: a step is an eighth of the least bandwidth of the study, or less
_REACH = 6.0

Move = Callable[[np.ndarray, float], np.ndarray]


def score(oracle: Mixture, X: np.ndarray) -> np.ndarray:
    """Gradient of the log density of the mixture at the rows of X."""
    steps = oracle.means - X[:, None]
    log_shares = -0.5 * (steps * steps / oracle.variances).sum(axis=2)
    shares = np.exp(log_shares - log_shares.max(axis=1, keepdims=True))
    return (shares[:, :, None] * steps).sum(axis=1) / shares.sum(axis=1)[:, None] / oracle.variances


def moves(oracle: Mixture, X: np.ndarray, seed: int) -> dict[str, Move]:
    """How each estimate moves the points of a sample at a bandwidth, by name."""
    s = score(oracle, X)
    noise = np.random.default_rng([2, seed]).standard_normal(X.shape) * np.sqrt(np.mean(s * s))

    def by(share: float) -> Move:
        return lambda X, h: X + 0.5 * h * h * (s + share * noise)

    given = {"exact score" if share == 0 else f"noise of {share:g}": by(share) for share in SHARES}
    return {"kde": lambda X, h: X, "score of the data": cukde.debias, **given}


def study(d: int, sizes: Sequence[int] = SIZES, seeds: int = SEEDS) -> Iterator[dict[str, Any]]:
    """Rows of the record: the least MISE of each estimate at each size."""
    oracle = Mixture.standardised(d, COMPONENTS)
    axes = [np.linspace(-_REACH, _REACH, _POINTS[d])] * d
    p = oracle.density(np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, d)).reshape([_POINTS[d]] * d)
    cell = (2 * _REACH / (_POINTS[d] - 1)) ** d
    start = dict.fromkeys(moves(oracle, np.zeros((1, d)), 0), 0.5)

    def errors(samples: Sequence[np.ndarray], of_each: Sequence[Move], h: float) -> list[float]:
        moved = (move(X, h) for X, move in zip(samples, of_each, strict=True))
        return [float(np.square(cukde.evaluate_grid(X, axes, h) - p).sum() * cell) for X in moved]

    for n in sizes:
        samples = [oracle.sample(n, np.random.default_rng([n, seed])).astype(np.float64) for seed in range(seeds)]
        by_name = [moves(oracle, X, seed) for seed, X in enumerate(samples)]
        for name in start:
            at = functools.partial(errors, samples, [move[name] for move in by_name])
            start[name] = importance.least(lambda h, at=at: float(np.mean(at(h))), start[name])
            yield _row(name, n, d, p.size, start[name], at(start[name]))


def _row(estimate: str, n: int, d: int, m: int, h: float, ise: Sequence[float]) -> dict[str, Any]:
    return {
        "op": "kde" if estimate == "kde" else "sd_kde",
        "backend": "cpu",
        "shape": {"n": n, "m": m, "d": d},
        "dtype": "float64",
        "precision": "float64",
        "estimate": estimate,
        "h": h,
        "mise": float(np.mean(ise)),
        "ise": list(ise),
    }


def line(row: dict[str, Any]) -> str:
    """A row for people."""
    return f"d={row['shape']['d']} n={row['shape']['n']:<7} h={row['h']:.4f} {row['estimate']:<18} {row['mise']:.4g}"


def main() -> None:
    wanted = record.arguments("sources.given_score", __doc__).parse_args()
    record.kept(itertools.chain(*map(study, _POINTS)), wanted.record, line)


if __name__ == "__main__":
    main()
