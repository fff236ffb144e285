"""Error of the float16 engines up to the limit of the spread, against float64: what the limits in ``_f16.py`` rest on.

python -m benchmarks.spread_error

Data and queries stand in 50 small clouds at up to the full spread from the centre, where inner products cancel most.
"""

from __future__ import annotations

from typing import Any

import cupy as cp
import numpy as np

from benchmarks.exact import log_sums
from cukde.gpu import _f16, density

N, M = 20_000, 4_000
_CLOUDS, _NEAR = 50, 5  # of them near the centre


def clouds(d: int, spread: float) -> tuple[Any, Any]:
    """Data and queries, float32, within the spread of the origin for a bandwidth of 1."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((_CLOUDS, d))
    centres *= (0.9 * spread) ** 0.5 / np.linalg.norm(centres, axis=1, keepdims=True)
    centres[:_NEAR] *= 0.3
    width = 0.35 if d <= 16 else 0.2
    out = []
    for rows in (N, M):
        points = centres[rng.integers(_CLOUDS, size=rows)] + width * rng.standard_normal((rows, d))
        points *= np.minimum(1, spread**0.5 / np.linalg.norm(points, axis=1, keepdims=True))
        out.append(cp.asarray(points, np.float32))
    return out[0], out[1]


def main() -> None:
    print("worst (and mean) error of the log density, h = 1, 4,000 queries")
    for d in (2, 4, 8, 12, 16, 24, 32, 48, 64):
        limit = _f16.form("float32", d, None)
        assert limit is not None
        for spread in (0.49 * limit.limit, 0.99 * limit.limit):
            X, Y = clouds(d, spread)
            chosen = _f16.form("float32", d, spread)
            assert chosen is not None
            cells = []
            for output, queries, exact in (
                ("sum", Y, log_sums(X, Y, 1.0)),
                ("moments", Y, log_sums(X, Y, 1.0)),
                ("moments", None, log_sums(X, X[:M], 1.0)),
            ):
                sums = density.partial_sums(
                    X, queries, 1.0, output, precision="float32", centre=cp.zeros(d), spread=spread
                )
                error = (sums.reference + cp.log(sums.total))[:M] - exact
                name = output if queries is not None else "at themselves"
                cells.append(f"{name} {float(abs(error).max()):.1e} ({float(error.mean()):+.1e})")
            print(f"d={d:<3} spread {spread:4.0f}  {chosen.products} products   " + "   ".join(cells))


if __name__ == "__main__":
    main()
