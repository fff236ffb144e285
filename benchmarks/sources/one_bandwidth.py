"""Errors of KDE, SD-KDE and Laplace-corrected KDE at one bandwidth for all, as the authors of Flash-SD-KDE take it.

python -m benchmarks.sources.one_bandwidth --record benchmarks/results/one_bandwidth_cpu.json
python -m benchmarks.sources.one_bandwidth --gpu --record benchmarks/results/one_bandwidth_h200.json

h = 0.9 n^(-1 / (d + 4)) times the mean over the columns of min(s, IQR / 1.34): Silverman's rule for one column. In 16
dimensions the density is the mixture of :mod:`benchmarks.sources.oracle_mixture`, three samples of each size. Errors
are taken twice: at points of the density alone, each weighted by 1 / p, as the authors take them, and as integrals
(:mod:`benchmarks.sources.importance`). In one dimension the density is 0.3 N(-2, 0.4^2) + 0.4 N(0, 0.7^2) +
0.3 N(2, 0.3^2), the sizes are 128 to 4,096, each sample the first points of a largest one, and the errors are integrals
by the trapezoid rule. Densities and sizes are those of ``experiments/error_suite_16d`` and
``benchmarks/toy_1d_mog_oracle_config.py`` of the authors' repository at a333b872.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks import record
from benchmarks.bandwidth import normal_mixtures
from benchmarks.sources import importance
from benchmarks.sources.estimates import FUSED, KDE, SD, Estimate, Method, checked, where
from benchmarks.sources.importance import Draws
from benchmarks.sources.oracle_mixture import Mixture

METHODS = (KDE, SD, FUSED)
SEEDS = 3

SIZES_1D = (128, 256, 512, 1024, 2048, 4096)
SIZES_16D = (3_000, 10_000, 30_000)
SIZES_16D_GPU = (*SIZES_16D, 100_000, 300_000, 500_000, 1_000_000)
TEST_POINTS = 10_000

NORMALS = normal_mixtures.Mixture(
    "three normals", np.array([0.3, 0.4, 0.3]), np.array([[-2.0], [0.0], [2.0]]), np.array([[0.4], [0.7], [0.3]])
)
GRID = np.linspace(-6, 6, 2048)[:, None]


def bandwidth(X: Any) -> float:
    """The bandwidth of all three estimates for points (n, d)."""
    n, d = X.shape
    x = np.asarray(X.get() if hasattr(X, "get") else X, np.float64)
    low, high = np.percentile(x, [25, 75], axis=0)
    return float(0.9 * np.minimum(x.std(axis=0), (high - low) / 1.34).mean() * n ** (-1 / (d + 4)))


def sample(n: int, seed: int) -> np.ndarray:
    """The first n points of a sample of the three normals, (n, 1)."""
    return NORMALS.sample(SIZES_1D[-1], np.random.default_rng(seed))[:n]


def study_1d(sizes: Sequence[int] = SIZES_1D, seeds: int = SEEDS) -> Iterator[dict[str, Any]]:
    """Rows of the record in one dimension."""
    p, x = NORMALS.density(GRID), GRID[:, 0]
    for n in sizes:
        samples = [sample(n, seed) for seed in range(seeds)]
        for method in METHODS:
            bandwidths = [bandwidth(X) for X in samples]
            off = [method.estimate(X, GRID, h) - p for X, h in zip(samples, bandwidths, strict=True)]
            ise, iae = ([float(np.trapezoid(values, x)) for values in of] for of in (np.square(off), np.abs(off)))
            some = GRID[len(GRID) // 4 :: len(GRID) // 64]  # where relative errors can be asked for
            yield _row(method, "cpu", n, len(GRID), 1, bandwidths, checked(method, samples[0], some, bandwidths[0])) | {
                "mise": float(np.mean(ise)),
                "miae": float(np.mean(iae)),
                "ise": ise,
                "iae": iae,
            }


def study_16d(
    sizes: Sequence[int], m: int = TEST_POINTS, no_gpu: str | None = None, oracle: Mixture | None = None
) -> Iterator[dict[str, Any]]:
    """Rows of the record in 16 dimensions, or in those of the mixture."""
    oracle = oracle or Mixture.standardised()
    backend, xp = where(no_gpu)
    for n in sizes:
        samples = [Draws.of(oracle, n, m, seed, xp.asarray) for seed in range(SEEDS)]
        bandwidths = [bandwidth(s.X) for s in samples]
        for method in METHODS:
            found = importance.integrated(functools.partial(Estimate, method), samples, bandwidths, oracle)
            error = checked(method, samples[0].X, xp.asarray(samples[0].of_oracle), bandwidths[0])
            row = _row(method, backend, n, m, oracle.d, bandwidths, error) | found.row()
            for name in ("mise_by_oracle", "miae_by_oracle"):
                row[name] = float(np.mean([getattr(each, name) for each in found.of_each]))
            yield row


def _row(
    method: Method, backend: str, n: int, m: int, d: int, bandwidths: Sequence[float], error: float
) -> dict[str, Any]:
    dtype = "float64" if d == 1 else "float32"
    return {
        "op": method.op,
        "backend": backend,
        "shape": {"n": n, "m": m, "d": d},
        "dtype": dtype,
        "precision": dtype,
        "h": float(np.mean(bandwidths)),
        "rel_err_max": error,
    }


def line(row: dict[str, Any]) -> str:
    """A row for people."""
    named = {name: row[name] for name in ("mise", "miae", "mise_by_oracle", "miae_by_oracle") if name in row}
    values = "".join(f"  {name.replace('_', ' ')} {value:.4g}" for name, value in named.items())
    return f"d={row['shape']['d']:<3} n={row['shape']['n']:<8} h={row['h']:.4f}  {row['op']:<12}{values}"


def main() -> None:
    parser = record.arguments("sources.one_bandwidth", __doc__)
    parser.add_argument("--gpu", action="store_true", help="16 dimensions on the GPU, to a million points")
    wanted = parser.parse_args()
    sizes, no_gpu = (SIZES_16D_GPU, None) if wanted.gpu else (SIZES_16D, "not asked for")
    record.kept(itertools.chain(study_1d(), study_16d(sizes, no_gpu=no_gpu)), wanted.record, line)


if __name__ == "__main__":
    main()
