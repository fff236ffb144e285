"""Measure how exponents formed by inner products lose accuracy as the data spread, on the CPU.

For scaled squared radii S (largest squared distance to the centre, in bandwidths) it prints the worst relative error
of the kernel sum over queries whose nearest point is within exponent 80, for the single and the double
precision product. Rounding averages out in a cloud of points, but not in two clusters of duplicates. The limits in
``cukde/density/pairs/cpu/passes.py`` come from this table:

    python -m benchmarks.density.gram_error
"""

from __future__ import annotations

import numpy as np

from cukde.density.pairs.cpu import passes as pairs_passes, query_blocks

N, M, TRIES = 1000, 200, 5


def exact_log_sums(X: np.ndarray, Y: np.ndarray, h: float) -> tuple[np.ndarray, np.ndarray]:
    """Log kernel sums and smallest exponents in extended precision, from differences."""
    logs, least = np.empty(len(Y)), np.empty(len(Y))
    X = X.astype(np.longdouble)
    for i, y in enumerate(Y.astype(np.longdouble)):
        exponents = -((X - y) ** 2).sum(axis=1) / (2 * np.longdouble(h) ** 2)
        top = exponents.max()
        logs[i], least[i] = top + np.log(np.exp(exponents - top).sum()), -top
    return logs, least


def duplicates(d: int, rng: np.random.Generator) -> np.ndarray:
    """Rows of two clusters without a width, along a few of the dimensions, on both sides of the mean."""
    at = rng.normal(size=d)
    at[rng.integers(1, d + 1) :] = 0
    return np.where(np.arange(N)[:, None] % 2, at, -at)


def worst_error(d: int, squared_radius: float, dtype: type, rng: np.random.Generator) -> tuple[float, float, float]:
    """Worst relative errors at one scaled squared radius.

    Of a Gaussian cloud, of queries scattered about it, and of queries near duplicates in the worst of several places.
    """
    X = rng.normal(size=(N, d)).astype(dtype)
    near = (X[:M] + 0.02 * rng.normal(size=(M, d))).astype(dtype)
    far = (1.1 * rng.normal(size=(M, d))).astype(dtype)
    centre = X.mean(axis=0, dtype=np.float64)
    radius = np.sqrt(max(((A - centre) ** 2).sum(axis=1).max() for A in (X, near, far)))
    h = float(radius / np.sqrt(squared_radius))
    errors, tight = [], []
    samples = [(X, near), (X, far)]
    for _ in range(TRIES):
        some = duplicates(d, rng)
        scale = float(radius / np.sqrt((some**2).sum(axis=1).max()))
        some = (some * scale + centre).astype(dtype)
        shrunk = (some[:M] - centre) * (1 - 0.02 * rng.random((M, 1))) + centre
        samples.append((some, shrunk.astype(dtype)))
    for X, Y in samples:
        group = pairs_passes._group(d, squared_radius, dtype)
        pairs = pairs_passes._Gram(X, Y, h, centre, dtype, group, None)
        total, moments = np.zeros(len(Y)), np.zeros(Y.shape)
        for start in range(0, len(Y), query_blocks.TILE_QUERIES):
            rows = slice(start, min(start + query_blocks.TILE_QUERIES, len(Y)))
            pairs.add_own(rows, slice(0, len(X)), total, moments)
        logs, least = exact_log_sums(X, Y, h)
        close = least < 80
        difference = np.abs(np.log(total) - logs)[close]
        error = float(difference.max()) if close.any() else float("nan")
        (errors if len(errors) < 2 else tight).append(error)
    return errors[0], errors[1], max(tight)


def main() -> None:
    for dtype, squared_radii in (
        (np.float32, (20, 44, 88, 150, 300)),
        (np.float64, (500, 1.4e3, 2.8e3, 4e3)),
    ):
        print(f"{dtype.__name__}: worst relative error, queries on the data / scattered / duplicates")
        for d in (1, 2, 4, 8, 16, 64):
            rng = np.random.default_rng(d)
            cells = ("{:.1e}/{:.1e}/{:.1e}".format(*worst_error(d, s, dtype, rng)) for s in squared_radii)
            print(f"  d={d:<3}" + "  ".join(f"S={s:g}: {cell}" for s, cell in zip(squared_radii, cells, strict=True)))


if __name__ == "__main__":
    main()
