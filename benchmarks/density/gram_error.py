"""Measure how exponents formed by inner products lose accuracy as the data spread, on the CPU.

For scaled squared radii S (largest squared distance to the centre, in bandwidths) it prints the worst relative error
of the kernel sum over queries whose nearest point is within exponent 80, for the single and the double
precision product. The limits in ``cukde/density/pairs/cpu/passes.py`` come from this table:

    python -m benchmarks.density.gram_error
"""

from __future__ import annotations

import numpy as np

from cukde.density.pairs.cpu import passes as pairs_passes

N, M = 2000, 400


def exact_log_sums(X: np.ndarray, Y: np.ndarray, h: float) -> tuple[np.ndarray, np.ndarray]:
    """Log kernel sums and smallest exponents in extended precision, from differences."""
    logs, least = np.empty(len(Y)), np.empty(len(Y))
    X = X.astype(np.longdouble)
    for i, y in enumerate(Y.astype(np.longdouble)):
        exponents = -((X - y) ** 2).sum(axis=1) / (2 * np.longdouble(h) ** 2)
        top = exponents.max()
        logs[i], least[i] = top + np.log(np.exp(exponents - top).sum()), -top
    return logs, least


def worst_error(d: int, squared_radius: float, dtype: type, rng: np.random.Generator) -> tuple[float, float]:
    """Worst relative errors at one scaled squared radius: of a Gaussian cloud, and of queries scattered about it."""
    X = rng.normal(size=(N, d)).astype(dtype)
    near = (X[:M] + 0.02 * rng.normal(size=(M, d))).astype(dtype)
    far = (1.1 * rng.normal(size=(M, d))).astype(dtype)
    centre = X.mean(axis=0, dtype=np.float64)
    radius = np.sqrt(max(((A - centre) ** 2).sum(axis=1).max() for A in (X, near, far)))
    h = float(radius / np.sqrt(squared_radius))
    errors = []
    for Y in (near, far):
        pairs = pairs_passes._Gram(X, Y, h, centre, 0.0, dtype, pairs_passes._group(d, squared_radius, dtype))
        sums = pairs_passes._Sums(pairs, "sum", None, 0.0, X.shape).run()
        logs, least = exact_log_sums(X, Y, h)
        close = least < 80
        difference = np.abs(sums.reference + np.log(sums.total) - logs)[close]
        errors.append(float(difference.max()) if close.any() else float("nan"))
    return errors[0], errors[1]


def main() -> None:
    for dtype, squared_radii in (
        (np.float32, (30, 60, 100, 150, 200, 300, 500, 700)),
        (np.float64, (500, 1e3, 2e3, 4e3, 8e3)),
    ):
        print(f"{dtype.__name__}: worst relative error, queries on the data / scattered")
        for d in (1, 2, 4, 16, 64):
            rng = np.random.default_rng(d)
            cells = ("{:.1e}/{:.1e}".format(*worst_error(d, s, dtype, rng)) for s in squared_radii)
            print(f"  d={d:<3}" + "  ".join(f"S={s:g}: {cell}" for s, cell in zip(squared_radii, cells, strict=True)))


if __name__ == "__main__":
    main()
