"""Calls beside their rivals: tables of cases, whose modules say what is called and what an error is of.

python -m pytest benchmarks/bench_tables.py -k 'kendall and cpu' --record benchmarks/results/NAME.json

Each row is checked before it is timed. A case is a builder and its arguments, the backend first where it has both.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from benchmarks.conv1d import cases as conv1d
from benchmarks.density import cases as density, compositions
from benchmarks.estimators import cases as estimators
from benchmarks.kendall import cases as kendall
from benchmarks.piecewise import cases as piecewise
from benchmarks.record import Case
from benchmarks.sphere import cases as sphere
from tests.conftest import why_no_gpu


def _each(builder: Callable[..., Case], *choices: Any) -> Iterator[Any]:
    """All combinations of arguments: of a list each, anything else as it is."""
    family = builder.__module__.split(".")[1]
    for arguments in itertools.product(*(of if isinstance(of, list) else [of] for of in choices)):
        parts = ["+".join(map(str, a)) if isinstance(a, tuple) else str(a) for a in arguments]
        marks = [pytest.mark.gpu] if "gpu" in arguments else []
        yield pytest.param(
            functools.partial(builder, *arguments), id="-".join([family, builder.__name__, *parts]), marks=marks
        )


BOTH, SINGLE, TIES = ["float32", "float64"], ["float32", "tf32"], [False, True]
DENSITIES = ["kde", "score", "laplace_kde", "sd_kde"]
LARGE = 2**20, 2**17, 16

_FLASH = ("Flash-SD-KDE, TF32", "Flash-SD-KDE, fp32_ieee")
_PAPER = ("Flash-SD-KDE, TF32, the paper's kernels",)
_OTHERS = (
    *("Flash-SD-KDE, TF32, symmetric_atomic", "Flash-SD-KDE, fp32_ieee, symmetric_atomic"),
    *("torch.compile", "PyTorch", "CuPy", "PyKeOps"),
)
_LINE = ("Flash-SD-KDE, float32", "CuPy FFT, grid of 2^12", "CuPy FFT, grid of 2^16")

TABLE = [
    # Densities on the CPU: 16 columns, and one.
    *_each(density.density, "cpu", "kde", 8192, 1024, 16, BOTH, ("scikit-learn", "SciPy")),
    *_each(density.density, "cpu", "score", 8192, 8192, 16, BOTH),
    *_each(density.density, "cpu", "kde", 10**6, 10**5, 1, BOTH, ("KDEpy", "ArviZ", "fastKDE")),
    *_each(density.density, "cpu", DENSITIES[1:], 10**6, 10**5, 1, BOTH),
    *_each(density.density, "cpu", ["kde", "sd_kde"], [4 * 10**6, 16 * 10**6], 2 * 10**6, 1, "float64"),
    *_each(density.distribution, "cpu", ["cdf", "log_cdf"], 10**6, BOTH),
    # Conditional distributions beside statsmodels, and regions.
    *_each(compositions.conditional, ["cpu", "gpu"], "conditional_cdf", 10**5, 10**4, [2, 3], BOTH),
    *_each(compositions.conditional, ["cpu", "gpu"], "conditional_quantile", 10**5, 10**4, [2, 3], "float64"),
    *_each(compositions.conditional, ["cpu", "gpu"], "conditional_sample", 10**5, 10**4, [2, 3], "float64"),
    *_each(compositions.regions, ["cpu", "gpu"], [10**4, 10**5]),
    # On a GPU: SD-KDE and its passes beside every rival that runs there.
    *_each(density.density, "gpu", "sd_kde", 2048, 256, 16, "float32", (*_FLASH, *_PAPER, *_OTHERS)),
    *_each(density.density, "gpu", "sd_kde", 32_768, 4096, 16, "float32", (*_FLASH, *_PAPER, *_OTHERS)),
    *_each(density.density, "gpu", "sd_kde", *LARGE, SINGLE, (*_FLASH, *_PAPER)),
    *_each(density.density, "gpu", "sd_kde", 2**18, 2**15, 16, "float32", ("Flash-SD-KDE, fp32_ieee, ordered_splitk",)),
    *_each(density.density, "gpu", "kde", *LARGE, SINGLE, (*_FLASH, *_PAPER, "cuVS", "PyKeOps")),
    *_each(density.density, "gpu", "laplace_kde", *LARGE, SINGLE, _FLASH),
    *_each(density.density, "gpu", "score", *LARGE, SINGLE),
    *_each(density.density, "gpu", ["kde", "laplace_kde"], *LARGE, SINGLE, (), "all pairs"),
    *_each(density.debias, "gpu", 2**20, 16, SINGLE, "all pairs"),
    *_each(density.density, "gpu", "sd_kde", 32_768, [4, 64, 1024], 16, "float32"),
    *_each(density.density, "gpu", "sd_kde", *LARGE, "float32", (), "deterministic"),
    *_each(density.density, "gpu", "sd_kde", 2048, 256, 16, "float32", (), "graph"),
    *_each(density.density, "gpu", "sd_kde", 32_768, 4096, 16, "float32", (), "graph"),
    *_each(density.density, "gpu", ["kde", "sd_kde"], 32_768, 4096, 16, "float64", ("CuPy",)),
    *_each(density.kernel_sum, "gpu", 65_536, [0, 65_536], 16, "float32", ("CuPy",)),
    # What parts of the engine are worth, and numbers of columns.
    *_each(density.density, "gpu", "kde", 65_536, 8192, 16, ["float32", "tf32", "ieee"], ("whole matrix",)),
    *_each(density.density, "gpu", "sd_kde", 65_536, 8192, 16, ["float32", "tf32", "ieee"]),
    *_each(density.density, "gpu", "laplace_kde", 65_536, 8192, 16, "float32", ("two passes", "CuPy")),
    *_each(
        density.density,
        "gpu",
        "sd_kde",
        65_536,
        8192,
        [2, 4, 8, 16, 32],
        "float32",
        ("CuPy",),
        "",
        2.0,
    ),
    # One column on a GPU.
    *_each(density.density, "gpu", ["kde", "sd_kde"], [2**11, 2**20], 2**17, 1, "float32", _LINE),
    *_each(density.density, "gpu", "sd_kde", 2**20, 2**17, 1, "float64", _LINE[1:]),
    *_each(density.density, "gpu", ["kde", "sd_kde"], 2**22, 2**19, 1, BOTH, _LINE[1:]),
    *_each(density.density, "gpu", ["kde", "score"], [2**18, 2**22], 2**18, 1, "ieee"),
    *_each(
        *(density.density, "gpu", "laplace_kde", [2**k for k in range(10, 21, 2)], 10_000, 1, "ieee"),
        ("kernel sums", "cukde sd_kde", "Flash-SD-KDE, float32"),
    ),
    *_each(density.distribution, "gpu", "cdf", 2**20, BOTH),
    # Other forms of densities.
    *_each(density.stack, ["cpu", "gpu"], ["kde", "score", "sd_kde"], (512, 1000, 256, 4), BOTH),
    *_each(density.stack, ["cpu", "gpu"], ["kde", "score", "sd_kde"], (512, 100, 10, 4), BOTH),
    *_each(density.stack, ["cpu", "gpu"], ["kde", "score", "sd_kde"], (64, 1000, 256, 16), BOTH),
    # Of 1024 x 1024 cells xarray-spatial takes half a minute on the CPU.
    *_each(density.grid, "cpu", 10**6, 2, 256, BOTH, ("KDEpy", "xarray-spatial")),
    *_each(density.grid, "cpu", 10**6, 2, 1024, BOTH, ("KDEpy",)),
    *_each(density.grid, "gpu", 10**6, 2, [256, 1024], BOTH, ("xarray-spatial",)),
    *_each(density.grid, ["cpu", "gpu"], 10**5, 3, 64, BOTH),
    *_each(density.grid, "gpu", 10**6, 2, 1024, BOTH, (), ["fft", "exact"]),
    *_each(density.tolerance, "cpu", 2**17, [2, 3], BOTH),
    *_each(density.tolerance, "gpu", 2**20, 2, BOTH),
    *_each(density.modes, "cpu", 10_000, [2, 4], True),
    *_each(density.modes, "gpu", [10_000, 100_000], [2, 4, 16]),
    *_each(density.fitted, ["cpu", "gpu"], [1_000, 3_000, 10_000, 30_000, 100_000]),
    *_each(density.search, BOTH),
    *_each(density.leave_one_out, "cpu", [2000, 10_000], 64, BOTH),
    *_each(density.leave_one_out, "cpu", 4000, 16, "float64", ["kde", "sd", "laplace"], "least_squares"),
    *_each(density.leave_one_out, "gpu", [10_000, 100_000], 64, BOTH),
    *_each(density.leave_one_out, "gpu", 100_000, 16, "float32", ["kde", "sd", "laplace"], "least_squares"),
    *_each(density.picture, "cpu", ["density", "contours", "pairs"], 100_000),
    *_each(density.picture, "gpu", ["density", "contours", "pairs"], 1_000_000),
    # Places on the globe, and outliers.
    *_each(sphere.density, "cpu", 10**5, [10**4, 10**5], [1.0, 5.0], BOTH),
    *_each(sphere.density, "gpu", 10**6, 10**5, [1.0, 5.0], BOTH),
    *_each(estimators.outliers, ["cpu", "gpu"], [*estimators.SETS], "silverman_deviations"),
    *_each(estimators.outliers, ["cpu", "gpu"], [*estimators.SETS[:3]], "cross_validate"),
    # Kendall's tau; the source's kernel would take half a minute for the most columns.
    *_each(kendall.pair, "cpu", [100_000, 1_000_000], TIES, ("SciPy", "pandas")),
    *_each(kendall.matrix, "cpu", 64, 2000, TIES, ("pandas",)),
    *_each(kendall.matrix, "gpu", [256, 1000], 1000, TIES, ("source kernel", "cuBLAS, sign matrices")),
    *_each(kendall.matrix, "gpu", 64, 10_000, TIES, ("source kernel", "cuBLAS, sign matrices")),
    *_each(kendall.matrix, "gpu", 2000, 4000, TIES, ("cuBLAS, sign matrices",)),
    *_each(kendall.matrix, "gpu", 4000, 10_000, True),
    *_each(kendall.matrix, "gpu", 5, [100, 1000], TIES, ("source kernel",)),
    *_each(kendall.pair, "gpu", [1000, 10_000, 100_000, 1_000_000], TIES, ("SciPy",)),
    # Piecewise polynomials and elementary functions on the CPU; a GPU has a program of its own.
    *_each(piecewise.polynomials, 10**7, [16, 64, 256], [2, 3], ["uniform", "random"], [*BOTH, "float16"]),
    *_each(piecewise.polynomials, 10**7, 4096, 7, ["uniform", "random"], BOTH),
    *_each(piecewise.function, 10**7, [*piecewise.FUNCTIONS], BOTH),
    # Convolution on the CPU; a GPU has a program of its own. The tables of cukde/conv1d/plan.py rest on the long taps.
    *_each(
        *(conv1d.forward, (8, 64, 2048), [4, 31], [*BOTH, "float16"]),
        *([None, "silu", "gelu"], ["BCL", "BLC"]),
    ),
    *_each(conv1d.input_grad, (8, 64, 2048), [4, 31], [*BOTH, "float16"]),
    *_each(conv1d.weight_grad, (8, 64, 2048), [4, 31], [*BOTH, "float16"], ["BCL", "BLC"]),
    *_each(conv1d.long_taps, (4, 32, 16384), [128, 256, 512, 1024, 4096], BOTH),
]


@pytest.mark.parametrize("case", TABLE)
def bench_case(compare: Callable[..., None], case: functools.partial[Case]) -> None:
    if "gpu" in case.args and (reason := why_no_gpu()):
        pytest.skip(reason)
    compare(*case())
