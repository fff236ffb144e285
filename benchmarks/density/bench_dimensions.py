"""SD-KDE from 1 to 4,096 dimensions beside plain CuPy, each row checked before it is timed.

python -m pytest benchmarks/density/bench_dimensions.py --record benchmarks/results/NAME.json
python -m benchmarks.figures.dimensions benchmarks/results/NAME.json FIGURE.svg
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

import cukde
from benchmarks import peers
from tests.conftest import why_no_gpu
from tests.tolerances import SD_DENSITY

if why_no_gpu() is None:
    import cupy as cp

    from benchmarks.density.mixture import CHECKED, error, mixture
    from benchmarks.sources import exact

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(why_no_gpu() is not None, reason=str(why_no_gpu()))]

N, M = 65_536, 8_192
MEDIAN_EXPONENT = 20.0

# What an H200 does in a second: exponentials, and flops of float16 products (wgmma's rate, 1.5 times mma.sync's).
_EXPONENTIALS, _FLOPS = 4.18e12, 957e12
_BOUND = "the longer of exponentials and float16 products, each pair of data taken once"


def bound_ms(d: int) -> float:
    """Least time of both passes, for an exponent of three products, or of four beyond 64 dimensions."""
    products = 3 if d <= 64 else 4
    pairs, ordered = N * N / 2 + N * M, N * N
    return 1e3 * max(pairs / _EXPONENTIALS, 2 * d * (products * pairs + ordered) / _FLOPS)


@pytest.mark.parametrize("d", [1, 2, 4, 8, 16, 32, 64, 128, 256, 768, 3072, 4096])
def bench_dimensions(compare: Callable[..., None], d: int) -> None:
    """The bandwidth is such that the median exponent is 20."""
    X, Y, _ = mixture(N, M, d)
    a, b = X[:2048].astype("f8"), Y[:512].astype("f8")
    squares = (b * b).sum(axis=1)[:, None] + (a * a).sum(axis=1) - 2 * b @ a.T
    h = float(cp.sqrt(cp.median(squares) / (2 * MEDIAN_EXPONENT)))

    moved = X + 0.5 * exact.log_sums_and_shift(X, X, h, exact.exponents_by_products)[1]
    log_density = exact.log_sums_and_shift(moved, Y[:CHECKED], h, exact.exponents_by_products)[0]
    log_density -= math.log(N) + 0.5 * d * math.log(2 * math.pi * h * h)
    del moved
    # The density itself underflows from d = 64 on. Its logarithm comes rounded to float32, where it is in the thousands
    # to 2^-11: that is not counted.
    got = cukde.sd_kde(X, Y, h, log=True)
    rounding = 0.5 * float(cp.finfo(got.dtype).eps) * float(abs(log_density).max())
    ours = max(0.0, error(got, log_density, log=True) - rounding)
    assert ours <= SD_DENSITY["float32"].value
    row = {
        "op": "sd_kde",
        "backend": "gpu",
        "shape": {"n": N, "m": M, "d": d},
        "dtype": "float32",
        "precision": "float32",
        "rel_err_max": ours,
        "bound_ms": bound_ms(d),
        "bound": _BOUND,
    }
    # Plain CuPy gives a density, which many dimensions take out of the range of float32: it has no error there.
    finite = (cp.finfo(cp.float32).minexp + 8) * math.log(2) < float(log_density.min())
    finite &= float(log_density.max()) < (cp.finfo(cp.float32).maxexp - 1) * math.log(2)
    beside = peers.rivals("sd_kde", ("CuPy",), X, Y, h, error=lambda got: error(got, log_density) if finite else None)
    compare(lambda: cukde.sd_kde(X, Y, h, log=True), row, beside)
