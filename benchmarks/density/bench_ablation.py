"""What each part of the engine is worth: the same work without it, each row checked against float64 first.

python -m pytest benchmarks/density/bench_ablation.py --record benchmarks/results/NAME.json
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import pytest

import cukde
from benchmarks import memory
from benchmarks.perf import launched
from tests.conftest import why_no_gpu
from tests.tolerances import DENSITY, SD_DENSITY

if why_no_gpu() is None:
    from benchmarks.density import variants
    from benchmarks.density.mixture import CHECKED, error, exact_density, mixture
    from benchmarks.peers import plain_cupy, whole_matrix
    from benchmarks.sources import exact

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(why_no_gpu() is not None, reason=str(why_no_gpu()))]

N, M, D = 65_536, 8_192, 16

# Worst relative error of a density over 1,000 random queries. One term a point: what the docstrings say.
_ALLOWED = {
    ("kde", "float32"): DENSITY["gpu", "float32"].value,
    ("kde", "ieee"): DENSITY["gpu", "ieee"].value,
    ("kde", "tf32"): 5e-2,
    ("sd_kde", "float32"): SD_DENSITY["float32"].value,
    ("sd_kde", "ieee"): SD_DENSITY["float32"].value,
    ("sd_kde", "tf32"): 5e-2,
}


def _row(op: str, n: int, m: int, precision: str, error: float, **others: Any) -> dict[str, Any]:
    return {
        "op": op,
        "backend": "gpu",
        "shape": {"n": n, "m": m, "d": D},
        "dtype": "float32",
        "precision": precision,
        "rel_err_max": error,
        **others,
    }


@pytest.mark.parametrize("op", ["kde", "sd_kde"])
@pytest.mark.parametrize("precision", ["float32", "tf32", "ieee"])
def bench_tensor_cores(compare: Callable[..., None], op: str, precision: str) -> None:
    """Products on the tensor cores, in two terms and in one, beside differences on the CUDA cores."""
    X, Y, h = mixture(N, M)
    call = getattr(cukde, op)
    ours = error(call(X, Y, h, precision=precision), exact_density(op, X, Y, h))
    assert ours <= _ALLOWED[op, precision]
    compare(lambda: call(X, Y, h, precision=precision), _row(op, N, M, precision, ours), {})


@pytest.mark.parametrize("matrix", ["never whole", "whole"])
def bench_materialisation(compare: Callable[..., None], matrix: str) -> None:
    """The matrix of kernel values in registers, beside plain CuPy that holds all of it in memory."""
    X, Y, h = mixture(N, M)
    kde = {"never whole": cukde.kde, "whole": whole_matrix.kde}[matrix]
    found = error(kde(X, Y, h), exact_density("kde", X, Y, h))
    if matrix == "never whole":
        assert found <= _ALLOWED["kde", "float32"]
    peak = memory.peak_mb(lambda: kde(X, Y, h))
    row = _row("kde", N, M, "float32" if matrix == "never whole" else "float32 (whole matrix)", found, peak_mb=peak)
    compare(lambda: kde(X, Y, h), row, {})


@pytest.mark.parametrize("passes", ["fused", "two passes", "two sweeps of CuPy"])
def bench_laplace(compare: Callable[..., None], passes: str) -> None:
    """The correction in the pass of the density, beside a pass of its own, and beside plain CuPy."""
    X, Y, h = mixture(N, M)
    call = {
        "fused": cukde.laplace_kde,
        "two passes": variants.laplace_kde_in_two_passes,
        "two sweeps of CuPy": plain_cupy.laplace_kde_in_two_sweeps,
    }[passes]
    total, size = exact.laplace(X, Y[:CHECKED], h)
    scale = math.exp(-0.5 * D * math.log(2 * math.pi * h * h)) / N
    found = float((abs(call(X, Y, h)[:CHECKED] - scale * total) / (scale * size)).max())
    if passes != "two sweeps of CuPy":
        assert found <= _ALLOWED["kde", "float32"]  # of the sum of absolute terms
    precision = "float32" if passes == "fused" else f"float32 ({passes})"
    compare(lambda: call(X, Y, h), _row("laplace_kde", N, M, precision, found), {})


# The ordered pass over 2^40 pairs takes TF32 operands about three seconds: SD-KDE has a smaller row.
@pytest.mark.parametrize(
    ("op", "n", "m", "kernel"), [("kde", 1_048_576, 131_072, "kde"), ("sd_kde", 131_072, 16_384, "score")]
)
@pytest.mark.parametrize("operands", ["float16", "TF32"])
def bench_operands(compare: Callable[..., None], op: str, n: int, m: int, kernel: str, operands: str) -> None:
    """The operands of the tensor cores for precision "tf32": one float16 term, beside TF32 itself."""
    X, Y, h = mixture(n, m)
    call = getattr(cukde, op)
    with variants.tf32_operands() if operands == "TF32" else contextlib.nullcontext():
        with launched.noted() as kernels:
            density = call(X, Y, h, precision="tf32")
        asked = {name for _, name, _ in kernels}
        ending = "_tf32" if operands == "TF32" else "_f16"
        assert any(name.startswith(kernel) and name.endswith(ending) for name in asked)
        ours = error(density, exact_density(op, X, Y, h))
        assert ours <= _ALLOWED[op, "tf32"]
        precision = "tf32" if operands == "float16" else "tf32 (TF32 operands)"
        compare(lambda: call(X, Y, h, precision="tf32"), _row(op, n, m, precision, ours), {})
