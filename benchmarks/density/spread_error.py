"""Error of the float16 engines up to the limit of the scaled squared radius, against float64.

The limits in ``cukde/density/pairs/gpu/f16.py`` rest on it.

python -m benchmarks.density.spread_error

Inner products cancel most for points far from the centre and close together: in small clouds at up to the full radius
from it, and at queries that coincide with the furthest of normal data, each its own nearest neighbour by far.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.sources import exact
from cukde.core.gpu import arrays as core_arrays
from cukde.density.options import Options
from cukde.density.pairs.gpu import passes as pairs_passes, wide
from cukde.density.plan import gpu as plan_gpu

N, M = 20_000, 4_000
DIMENSIONS = (2, 3, 5, 8, 12, 15, 16, 24, 32, 48, 64, 65, 128, 768, 3072)
_CLOUDS, _NEAR = 50, 5  # of them near the centre
_VALUES = 16


def clouds(d: int, squared_radius: float) -> tuple[Any, Any]:
    """Data and queries, float32, within the squared radius of the origin for a bandwidth of 1."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((_CLOUDS, d))
    centres *= (0.9 * squared_radius) ** 0.5 / np.linalg.norm(centres, axis=1, keepdims=True)
    centres[:_NEAR] *= 0.3
    width = (0.35 if d <= 16 else 0.2) * min(1, (64 / d) ** 0.5)
    out = []
    for rows in (N, M):
        points = centres[rng.integers(_CLOUDS, size=rows)] + width * rng.standard_normal((rows, d))
        points *= np.minimum(1, squared_radius**0.5 / np.linalg.norm(points, axis=1, keepdims=True))
        out.append(core_arrays.asarray(points.astype(np.float32)))
    return out[0], out[1]


def copies(d: int, squared_radius: float) -> tuple[Any, Any]:
    """Normal data with the squared radius about the origin, and the same points as queries."""
    points = np.random.default_rng(1).standard_normal((M, d))
    points *= squared_radius**0.5 / np.linalg.norm(points, axis=1).max()
    X = core_arrays.asarray(points.astype(np.float32))
    return X, X.copy()


def errors(X: Any, Y: Any, squared_radius: float) -> dict[str, tuple[float, float]]:
    """Worst and mean error of log totals by output, and of sums of values relative to their absolute terms."""
    xp = core_arrays.xp
    V = core_arrays.asarray(np.random.default_rng(2).standard_normal((len(X), _VALUES)).astype(np.float32))
    options = Options("float32", centre=xp.zeros(X.shape[1]), squared_radius=squared_radius)
    of_queries = exact.log_sums_and_shift(X, Y, 1.0, exact.exponents_by_products)[0]
    of_data = exact.log_sums_and_shift(X, X[: len(Y)], 1.0, exact.exponents_by_products)[0]
    found = {}
    for name, queries, output, want in (
        ("sum", Y, "sum", of_queries),
        ("moments", Y, "moments", of_queries),
        ("at themselves", None, "moments", of_data),
    ):
        sums = pairs_passes.partial_sums(X, queries, 1.0, output, options)
        error = (sums.reference + xp.log(sums.total))[: len(Y)] - want
        found[name] = float(abs(error).max()), float(error.mean())
    sums = pairs_passes.partial_sums(X, Y, 1.0, "values", options, values=V)
    worst, mean = 0.0, 0.0
    for rows, e in exact.exponents_by_products(X, Y, 1.0):
        phi = xp.exp(e - sums.reference[rows, None])
        error = (sums.moments[rows] - phi @ V.astype(np.float64)) / (phi @ abs(V).astype(np.float64))
        worst, mean = max(worst, float(abs(error).max())), mean + float(error.sum()) / sums.moments.size
    return found | {"values": (worst, mean)}


def main(dimensions: tuple[int, ...] = DIMENSIONS) -> None:
    print(f"worst (and mean) error of log sums, h = 1; of {_VALUES} values, relative to the sum of absolute terms")
    for d in dimensions:
        limit = wide.NEAR if d > plan_gpu.MOST_COLUMNS else plan_gpu.forms("float32", d, "sum")[-1].limit
        for part in (0.15, 0.3, 0.5, 0.75, 0.99):
            squared_radius = part * limit
            chosen = [plan_gpu.form("float32", d, squared_radius, output) for output in ("sum", "values")]
            for title, (X, Y) in (("clouds", clouds(d, squared_radius)), ("copies", copies(d, squared_radius))):
                cells = (
                    f"{name} {worst:.1e} ({mean:+.1e})" for name, (worst, mean) in errors(X, Y, squared_radius).items()
                )
                products = " and ".join("4" if one is None else str(one.products) for one in chosen)
                print(
                    f"d={d:<4} squared radius {squared_radius:4.0f}  {products} products  {title}  "
                    + "   ".join(cells),
                    flush=True,
                )


if __name__ == "__main__":
    main()
