"""Calls of few points on a GPU, whose time is more the host's than the device's, beside rivals that launch less.

python -m pytest benchmarks/density/bench_small_calls.py --record benchmarks/results/NAME.json

``bench_small_calls_cpu.py`` has the CPU, ``bench_tables.py`` one dimension and Kendall's tau.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pytest

import cukde
from benchmarks import record
from benchmarks.density import points
from benchmarks.sources import measured
from benchmarks.sources.rivals import Patience, on_gpu
from benchmarks.sources.truth import Task, Truth
from tests.conftest import why_no_gpu

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(why_no_gpu() is not None, reason=str(why_no_gpu()))]

# torch.compile takes seconds to compile for each shape: it is asked for in two and in sixteen dimensions.
_RIVALS = {
    "kde": {2: ("cuVS", "torch.compile", "CuPy"), 16: ("cuVS", "Flash-SD-KDE, TF32", "torch.compile", "CuPy")},
    "sd_kde": {2: ("torch.compile", "CuPy"), 16: ("Flash-SD-KDE, TF32", "torch.compile", "CuPy")},
    "laplace_kde": {16: ("Flash-SD-KDE, TF32", "torch.compile", "CuPy")},
}
_OTHERS = {"kde": ("cuVS", "CuPy"), "sd_kde": ("CuPy",), "laplace_kde": ("CuPy",)}


def _task(n: int, m: int, d: int) -> Task:
    X, Y, h = points.mixture(n, m, d, 0)
    return Task(X, Y, round(float(h), 4))


@pytest.mark.parametrize(
    ("n", "m", "d"),
    [(2048, 256, d) for d in (2, 3, 8, 16)] + [(16_384, 2048, 16), (32_768, 4096, 16)],
)
@pytest.mark.parametrize("op", ["kde", "score", "laplace_kde", "sd_kde"])
def bench_small_calls(compare: Callable[..., None], op: str, n: int, m: int, d: int) -> None:
    task = _task(n, m, d)
    truth, there = Truth(task, gpu=True), task.on_gpu()
    call = functools.partial(getattr(cukde, op), *there)
    row = measured.empty(op, task, "gpu", "float32") | {"rel_err_max": truth.check(op, call(), "gpu", "float32")}
    names = _RIVALS.get(op, {}).get(d, _OTHERS.get(op, ()))
    compare(call, row, on_gpu(op, names, there, truth, Patience(3.0), n))


@pytest.mark.parametrize("m", [1, 4096])
@pytest.mark.parametrize("d", [3, 16])
def bench_fitted_estimator(compare: Callable[..., None], d: int, m: int) -> None:
    """Rows of a fitted estimator, beside the density's kernel alone: the same pass with nothing checked."""
    task = _task(65_536, m, d)
    truth, there = Truth(task, gpu=True), task.on_gpu()
    fitted = cukde.KernelDensity(bandwidth=task.h).fit(there.X)
    call = functools.partial(fitted.score_samples, there.Y)
    row = measured.empty("fitted kde", task, "gpu", "float32")
    row |= {"rel_err_max": truth.error("kde", np.exp(call().get()))}
    record.checked(row, 3e-5)
    unchecked = functools.partial(cukde.kde, *there, log=True, check_finite=False)
    beside = {"cukde.kde, unchecked": (unchecked, truth.error("kde", np.exp(unchecked().get())))}
    compare(call, row, beside | on_gpu("kde", ("cuVS",), there, truth, Patience(3.0), m))
