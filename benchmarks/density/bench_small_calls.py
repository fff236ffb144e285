"""Calls of few points on a GPU, whose time is more the host's than the device's, beside rivals that launch less.

python -m pytest benchmarks/density/bench_small_calls.py --record benchmarks/results/NAME.json
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest

import cukde
from benchmarks.sources import measured, runtime
from benchmarks.sources.rivals import Patience, on_gpu
from benchmarks.sources.truth import Truth
from tests.conftest import why_no_gpu

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(why_no_gpu() is not None, reason=str(why_no_gpu()))]

_RIVALS = "Flash-SD-KDE", "torch.compile", "CuPy"


@pytest.mark.parametrize("n", [2048, 16384])
@pytest.mark.parametrize("op", runtime.RIVALS)
def bench_small_calls(compare: Callable[..., None], op: str, n: int) -> None:
    task = runtime.drawn(n, n // 8, seed=0)
    truth, there = Truth(task, gpu=True), task.on_gpu()
    call = functools.partial(getattr(cukde, op), *there)
    row = measured.empty(op, task, "gpu", "float32") | {"rel_err_max": truth.check(op, call(), "gpu", "float32")}
    names = [name for name in _RIVALS if name in runtime.RIVALS[op]]
    compare(call, row, on_gpu(op, names, there, truth, Patience(3.0), n))
