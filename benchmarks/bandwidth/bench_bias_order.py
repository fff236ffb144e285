"""Order of the bias of KDE and its bias-reduced forms: the slope of its logarithm against that of the bandwidth.

python -m benchmarks.bandwidth.bench_bias_order --record benchmarks/results/bias_order_cpu.json

"infinite sample": the mean of a linear estimate, and what a nonlinear one tends to as rows are added, is the estimate
of the density itself. The estimators are given it as a weighted sample: points of a lattice in a ball about the query,
with the density for weights. For smooth integrands such a sum is the integral to 1e-8 (the trapezoid rule), as long as
the lattice is no coarser than the bandwidth; the ball may end where neither the kernel nor the score of the points
that matter sees its end. The slope is that of the root mean square over some queries, by least squares over bandwidths
that are small beside the components. There is no noise in it.

"random samples" is the check that this is what samples tend to: scrambled Sobol points through the quantiles of the
density, at larger bandwidths, and the slope of the mean over the draws, beside that of the infinite sample at the same
bandwidths and queries. Bands are bootstrap intervals over the draws. A finite sample adds to a nonlinear
estimate's mean a term of order 1/(n h^d), which is not of the bandwidth alone: it is kept small.
"""

from __future__ import annotations

import argparse
import functools
import math
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import cukde
from benchmarks import record
from benchmarks.bandwidth.bench_rule_of_thumb import Clock
from benchmarks.bandwidth.normal_mixtures import Mixture
from cukde.core import dispatch

DIMENSIONS = (1, 2, 4)
ORDERS = {"kde": 2, "sd": 4, "sd2": 4, "laplace": 4, "positive": 4}
TOLERANCE = 0.1  # of a slope
BANDWIDTHS = np.geomspace(0.04, 0.12, 5)

# Of the ball in bandwidths, by the scores that are taken, and the spacing of its lattice. The query sees the kernel of
# a point at half the radius to exp(-(radius / 2)^2 / 2), and its score sees the end of the ball to as much: together
# exp(-radius^2 / 4), and with a score of moved points exp(-radius^2 / 6). Sums of Gaussians on the lattice are
# integrals to exp(-2 pi^2 / spacing^2).
_RADIUS = {"sd2": 12.5}
_RADIUS_OF_OTHERS = 9.5
_SPACING = {1: 0.7, 2: 0.7, 4: 0.95}

# Of the random samples: bandwidths at which their noise is small beside the bias.
WIDER = {1: np.geomspace(0.15, 0.4, 4), 2: np.geomspace(0.25, 0.5, 4), 4: np.geomspace(0.4, 0.7, 4)}
ROWS = {"cpu": {1: 2**14, 2: 2**14, 4: 2**14}, "gpu": {1: 2**18, 2: 2**18, 4: 2**19}}

_REPLICATES = 1000


class Truth(NamedTuple):
    """A density and where the bias is measured: where neither it nor its derivatives are small."""

    density: Mixture
    queries: np.ndarray  # (m, d)


def truths(d: int) -> Iterator[Truth]:
    """One normal, and two of different deviations."""
    first = np.eye(1, d)
    one, two = np.zeros((1, d)), np.concatenate([-1.0 * first, 1.5 * first])
    along = np.full((1, d), 1 / math.sqrt(d))
    yield Truth(
        Mixture("normal", np.ones(1), one, np.ones((1, d))), np.concatenate([0 * along, 0.6 * along, 1.9 * along])
    )
    deviations = np.repeat([[0.8], [1.2]], d, axis=1)
    yield Truth(Mixture("two normals", np.array([0.4, 0.6]), two, deviations), np.concatenate([two, 0.3 * first]))


@functools.cache
def lattice(method: str, d: int) -> np.ndarray:
    """Points in a ball about 0, in bandwidths."""
    radius, spacing = _RADIUS.get(method, _RADIUS_OF_OTHERS), _SPACING[d]
    steps = spacing * np.arange(-math.floor(radius / spacing), math.floor(radius / spacing) + 1)
    points = np.stack(np.meshgrid(*[steps] * d, indexing="ij"), axis=-1).reshape(-1, d)
    inside: np.ndarray = points[(points**2).sum(axis=1) <= radius**2]
    return inside


@functools.cache
def mass_of_positive(truth: Mixture, h: float) -> float:
    """Integral of p g(L/p - 1) of the infinite sample, with p and L in closed form, by a lattice over everything.

    L is p - (h^2 / 2) Laplacian p, and the Laplacian of a component is its density times (|z|^2 - d) over its variance.
    """
    d, smoothed = truth.d, truth.smoothed(h)
    spacing, reach = 0.7 * float(smoothed.deviations.min()), 8 * float(smoothed.deviations.max())
    axes = [
        np.arange(smoothed.means[:, k].min() - reach, smoothed.means[:, k].max() + reach, spacing) for k in range(d)
    ]
    total = 0.0
    rest = np.stack(np.meshgrid(*axes[1:], indexing="ij"), axis=-1).reshape(-1, d - 1) if d > 1 else np.empty((1, 0))
    for first in axes[0]:
        Y = np.concatenate([np.full((len(rest), 1), first), rest], axis=1)
        p, laplacian = np.zeros(len(Y)), np.zeros(len(Y))
        for share, mean, deviation in zip(smoothed.shares, smoothed.means, smoothed.deviations, strict=True):
            squares = (((Y - mean) / deviation) ** 2).sum(axis=1)
            part = share * np.exp(-0.5 * squares) / (2 * math.pi * deviation[0] ** 2) ** (d / 2)
            p += part
            laplacian += part * (squares - d) / deviation[0] ** 2
        t = np.divide(-0.5 * h * h * laplacian, p, out=np.zeros_like(p), where=p > 0)
        total += float((p * np.exp(np.arcsinh(t))).sum())
    return max(1.0, total * spacing**d)  # but for rounding it is at least 1


def estimate(method: str, X: Any, Y: Any, h: float, weights: Any, mass: float) -> Any:
    """A density by its name; ``mass`` is what the positive one is divided by."""
    if method == "kde":
        return cukde.kde(X, Y, h, weights=weights)
    if method in ("sd", "sd2"):
        return cukde.sd_kde(X, Y, h, weights=weights, steps=2 if method == "sd2" else 1)
    if method == "laplace":
        return cukde.laplace_kde(X, Y, h, weights=weights)
    return cukde.positive_kde(X, Y, h, weights=weights, mass=mass)


def infinite(truth: Truth, method: str, h: float, backend: ModuleType) -> np.ndarray:
    """Bias at the queries."""
    xp, points = backend.xp, h * lattice(method, truth.density.d)
    volume = (h * _SPACING[truth.density.d]) ** truth.density.d
    mass = mass_of_positive(truth.density, h) if method == "positive" else 1.0
    found = []
    for y in truth.queries:
        weights = truth.density.density(y + points)
        # About the query: differences of near points are then exact to rounding.
        density = estimate(method, xp.asarray(points), xp.zeros((1, len(y))), h, xp.asarray(weights), mass)
        found.append(float(density[0]) * float(weights.sum()) * volume)
    return np.array(found) - truth.density.density(truth.queries)


def slope(bandwidths: np.ndarray, bias: np.ndarray) -> float:
    """Of the logarithm of the root mean square over the queries, (bandwidths, queries)."""
    size = np.sqrt((bias**2).mean(axis=1))
    return float(np.polyfit(np.log(bandwidths), np.log(size), 1)[0])


def sobol(truth: Mixture, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Scrambled Sobol points through the quantiles of each component, n a power of two, and their weights.

    Each point has the component's distribution, so that the mean over scrambles of a linear estimate is exact.
    """
    from scipy import special, stats

    parts = []
    for number, (mean, deviation) in enumerate(zip(truth.means, truth.deviations, strict=True)):
        points = stats.qmc.Sobol(truth.d, rng=np.random.default_rng([seed, number])).random(n)
        parts.append(mean + deviation * special.ndtri(np.clip(points, 1e-12, 1 - 1e-12)))
    return np.concatenate(parts), np.repeat(truth.shares / n, n)


def rows(wanted: argparse.Namespace, backend: ModuleType, clock: Clock) -> Iterator[dict[str, Any]]:
    """A row a method, density and arm."""
    for d in wanted.dimensions:
        for truth in truths(d):
            for method in wanted.methods:
                if clock.is_over:
                    yield {"op": "left_out", "what": f"{method}, {truth.density.name}, d={d}"}
                    continue
                yield _infinite_row(truth, method, backend)
                if not clock.is_over and wanted.draws > 1:
                    yield _random_row(truth, method, wanted.draws, backend, clock)


def _row(truth: Truth, method: str, arm: str, backend: ModuleType, bandwidths: np.ndarray) -> dict[str, Any]:
    return {
        "op": "bias_order",
        "backend": backend.name,
        "shape": {"d": truth.density.d},
        "dtype": "float64",
        "precision": "float64",
        "arm": arm,
        "method": method,
        "density": truth.density.name,
        "theory": ORDERS[method],
        "bandwidths": [float(f"{h:.6g}") for h in bandwidths],
    }


def _infinite_row(truth: Truth, method: str, backend: ModuleType) -> dict[str, Any]:
    begin = time.perf_counter()
    bias = np.array([infinite(truth, method, h, backend) for h in BANDWIDTHS])
    row = _row(truth, method, "infinite sample", backend, BANDWIDTHS)
    peak = float(truth.density.density(truth.queries).max())
    return row | {
        "slope": slope(BANDWIDTHS, bias),
        "bias": [float(f"{size:.6g}") for size in np.sqrt((bias**2).mean(axis=1)) / peak],  # over the largest density
        "seconds": time.perf_counter() - begin,
    }


def _random_row(truth: Truth, method: str, draws: int, backend: ModuleType, clock: Clock) -> dict[str, Any]:
    begin, d = time.perf_counter(), truth.density.d
    n, bandwidths = ROWS[backend.name][d], WIDER[d]
    xp, exact = backend.xp, truth.density.density(truth.queries)
    masses = [mass_of_positive(truth.density, h) if method == "positive" else 1.0 for h in bandwidths]
    samples = []
    for seed in range(draws):
        if clock.is_over and len(samples) > 1:
            break
        X, weights = map(xp.asarray, sobol(truth.density, n // len(truth.density.shares), seed))
        Y = xp.asarray(truth.queries)
        found = [estimate(method, X, Y, h, weights, mass) for h, mass in zip(bandwidths, masses, strict=True)]
        samples.append(backend.asnumpy(xp.stack(found)) - exact)
    bias = np.array(samples)
    again = np.random.default_rng(0).integers(len(bias), size=(_REPLICATES, len(bias)))
    slopes = [slope(bandwidths, bias[one].mean(axis=0)) for one in again]
    low, high = np.percentile(slopes, [2.5, 97.5])
    row = _row(truth, method, "random samples", backend, bandwidths)
    row["shape"] = {"n": n, "d": d}
    return row | {
        "draws": len(bias),
        "slope": slope(bandwidths, bias.mean(axis=0)),
        "slope_low": float(low),
        "slope_high": float(high),
        "slope_of_infinite": slope(bandwidths, np.array([infinite(truth, method, h, backend) for h in bandwidths])),
        "seconds": time.perf_counter() - begin,
    }


def line(row: dict[str, Any]) -> str:
    """A row for people."""
    if row["op"] == "left_out":
        return f"no time for {row['what']}"
    text = f"d={row['shape']['d']} {row['density']:<12} {row['method']:<9} {row['arm']:<16} slope {row['slope']:.3f}"
    if row["arm"] == "random samples":
        text += f" [{row['slope_low']:.3f}, {row['slope_high']:.3f}] of an infinite one {row['slope_of_infinite']:.3f}"
    else:
        text += f", theory {row['theory']}, bias {row['bias'][0]:.2e} to {row['bias'][-1]:.2e}"
    return f"{text} ({row['seconds']:.1f} s)"


def main() -> None:
    parser = record.arguments("bandwidth.bench_bias_order", __doc__)
    parser.add_argument("--backend", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--draws", type=int, default=10, help="random samples; 0 leaves them out")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which nothing new begins")
    parser.add_argument("--dimensions", type=int, nargs="+", choices=DIMENSIONS, default=DIMENSIONS)
    parser.add_argument("--methods", nargs="+", choices=list(ORDERS), default=list(ORDERS))
    wanted = parser.parse_args()
    done = record.kept(rows(wanted, dispatch.named(wanted.backend), Clock(wanted.budget)), wanted.record, line)
    far = [row for row in done if row.get("arm") == "infinite sample" and abs(row["slope"] - row["theory"]) > TOLERANCE]
    print(f"{len(far)} slopes are not within {TOLERANCE} of theory")


if __name__ == "__main__":
    main()
