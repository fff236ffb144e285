"""Launch every specialisation once, at small sizes that cross tile edges: what to run under compute-sanitizer.

compute-sanitizer --tool memcheck python -m benchmarks.small_launches
compute-sanitizer --tool racecheck python -m benchmarks.small_launches
"""

from __future__ import annotations

import cupy as cp
import numpy as np

from cukde import _compile
from cukde.gpu import density
from tests import reference

N, M = 200, 70


def main() -> None:
    launched: set[str] = set()
    kernel = _compile.kernel

    def noted(stem: str, name: str, defines: _compile.Defines) -> object:
        launched.add(str((stem, defines)))
        return kernel(stem, name, defines)

    density._compile.kernel = noted  # type: ignore[assignment]
    rng = np.random.default_rng(0)
    worst = 0.0
    for d in (1, 4, 7, 16, 30, 64, 70):
        X, Y = rng.normal(size=(N, d)), rng.normal(size=(M, d))
        h = float(np.sqrt(d))
        exact = reference.kde(X, Y, h) * np.exp(-reference.log_constant(h, d)) * N
        for output in ("sum", "moments", "laplace", "values"):
            for precision, storage in (("ieee", "f4"), ("ieee", "f8"), ("float64", "f8"), ("tf32", "f4")):
                for k in (1, 12, 70) if output == "values" else (0,):
                    values = cp.asarray(rng.normal(size=(N, k)), storage) if k else None
                    x, y = cp.asarray(X, storage), cp.asarray(Y, storage)
                    sums = density.partial_sums(
                        x, y, h, output, values=values, log_weights=cp.zeros(N), precision=precision, spread=100.0
                    )
                    if output != "laplace":
                        total = (cp.exp(sums.reference) * sums.total).get()
                        worst = max(worst, float(np.abs(total / exact - 1).max()))
    assert worst < 2e-2, worst
    missing = [s.name for s in density.specialisations() if str((s.stem, s.defines)) not in launched]
    assert not missing, missing
    print(f"{len(launched)} specialisations launched; worst relative error {worst:.1e}")


if __name__ == "__main__":
    main()
