"""Launch float32 and tf32 passes at small sizes that cross tile edges: what to run under compute-sanitizer.

With the spread unknown to the host the difference kernels that stand by are launched too.

compute-sanitizer --tool memcheck python -m benchmarks.small_launches
compute-sanitizer --tool racecheck python -m benchmarks.small_launches
"""

from __future__ import annotations

import itertools
from typing import Any

import cupy as cp
import numpy as np

from cukde import _compile
from cukde.gpu import _specialise, density
from tests import reference

N, M = 200, 70


def main() -> None:
    launched: set[tuple[str, _compile.Defines]] = set()
    kernel = _compile.kernel

    def noted(stem: str, name: str, defines: _compile.Defines, shared_bytes: int = 0) -> Any:
        launched.add((stem, defines))
        return kernel(stem, name, defines, shared_bytes)

    _compile.kernel = noted
    rng = np.random.default_rng(0)
    worst = 0.0
    for d in (4, 16, 30, 40, 64):
        X, Y = rng.normal(size=(N, d)), rng.normal(size=(M, d))
        h = float(np.sqrt(d))
        exact = reference.kde(X, Y, h) * np.exp(-reference.log_constant(h, d)) * N
        of_data = reference.kde(X, X, h) * np.exp(-reference.log_constant(h, d)) * N
        x, y = cp.asarray(X, "f4"), cp.asarray(Y, "f4")
        for output, precision, weights in itertools.product(
            ("sum", "moments", "laplace", "values"), ("float32", "tf32"), (None, cp.zeros(N))
        ):
            for k, spread, itself in itertools.product(
                (1, 40) if output == "values" else (0,), (None, 100.0), (False, True)
            ):
                sums = density.partial_sums(
                    x,
                    None if itself else y,
                    h,
                    output,
                    values=cp.asarray(rng.normal(size=(N, k)), "f4") if k else None,
                    log_weights=weights,
                    precision=precision,
                    spread=spread,
                )
                if output != "laplace":
                    total = (cp.exp(sums.reference) * sums.total).get()
                    worst = max(worst, float(np.abs(total / (of_data if itself else exact) - 1).max()))
    assert worst < 2e-2, worst
    known = {(stem, defines) for stem, _, defines in _specialise.kernels()}
    assert launched <= known, launched - known
    print(f"{len(launched)} of {len(known)} kernels launched; worst relative error {worst:.1e}")


if __name__ == "__main__":
    main()
