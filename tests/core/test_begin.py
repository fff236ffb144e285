"""Kernels that a pass begins to compile: beside each other, once a source, and all that it launches."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cukde
from cukde.core.gpu.compile import Kernel
from tests import processes, tolerances
from tests.private import Options, core_compile

SOON = 20  # seconds within which threads meet


class Compiler:
    """Stands in for CuPy's modules: it notes what is compiled, and may wait for others or fail."""

    def __init__(self) -> None:
        self.compiled: Counter[str] = Counter()
        self.meet = threading.Barrier(1)
        self.fails = False

    def module(self, code: str, options: tuple[str, ...]) -> SimpleNamespace:
        def get_function(name: str) -> str:
            if not self.compiled[code]:
                self.meet.wait(SOON)
                if self.fails:
                    raise ValueError("of the compiler")
                self.compiled[code] += 1
            return name

        return SimpleNamespace(get_function=get_function)


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Compiler]:
    of_test = Compiler()
    runtime = SimpleNamespace(getDevice=lambda: 0, setDevice=lambda device: None)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(RawModule=of_test.module))
    monkeypatch.setattr(core_compile, "_runtime", lambda: runtime)
    monkeypatch.setattr(core_compile, "code", lambda stem, defines: stem)
    monkeypatch.setattr(core_compile.kernel_cache, "ensure", lambda: None)
    monkeypatch.setattr(core_compile, "_modules", {})
    monkeypatch.setattr(core_compile, "_begun", set())
    core_compile._load.cache_clear()
    yield of_test
    core_compile._load.cache_clear()


def test_sources_compile_beside_each_other(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cukde.core.cpu.processor.cores", lambda: 3)
    compiler.meet = threading.Barrier(3)  # of two threads and this one: alone, none goes on
    core_compile.begin([Kernel("a", "one", ()), Kernel("b", "two", ())])
    assert core_compile.load(Kernel("c", "three", ())) == "three"
    assert core_compile.load(Kernel("a", "one", ())) == "one"
    assert core_compile.load(Kernel("b", "two", ())) == "two"
    assert compiler.compiled == {"a": 1, "b": 1, "c": 1}


def test_kernels_of_a_source_are_compiled_once(compiler: Compiler) -> None:
    kernels = [Kernel("a", name, ()) for name in ("one", "two", "three")]
    core_compile.begin(kernels)
    core_compile.begin(kernels)
    assert [core_compile.load(kernel) for kernel in kernels] == ["one", "two", "three"]
    assert compiler.compiled == {"a": 1}


def test_an_error_is_raised_by_the_launch(compiler: Compiler) -> None:
    compiler.fails = True
    kernel = Kernel("of this test alone", "one", ())  # threads of other tests may still load theirs
    core_compile.begin([kernel])
    with pytest.raises(ValueError, match="of the compiler"):
        core_compile.load(kernel)


_FORKED = """
import os, sys, time
from types import SimpleNamespace
from cukde.core.gpu import compile as core_compile

of_cupy = SimpleNamespace(get_function=lambda name: time.sleep(1) or print(name, flush=True))
runtime = SimpleNamespace(getDevice=lambda: 0, setDevice=lambda device: None)
sys.modules["cupy"] = SimpleNamespace(RawModule=lambda **_: of_cupy, cuda=SimpleNamespace(runtime=runtime))
core_compile.begin([core_compile.Kernel("core/survey", "compiled", ())])
time.sleep(0.5)
child = os.fork()
if child:
    print(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_process_waits_at_its_end_for_what_it_compiles_and_a_child_of_a_fork_does_not(tmp_path: Path) -> None:
    started = processes.start("-c", _FORKED, CUPY_CACHE_DIR=tmp_path)
    assert processes.finished(started)[0].split() == ["0", "compiled"]


_COLD = """
import cupy as cp
import numpy as np
import cukde
from cukde.core.gpu import compile as core_compile

rng = np.random.default_rng(0)
X = rng.standard_t(3, (20_000, 6)).astype("f4")
Y = X[:500].copy()
for function in (cukde.kde, cukde.sd_kde):
    exact = function(X.astype("f8"), Y.astype("f8"), 1.0, log=True)
    print(abs(function(cp.asarray(X), cp.asarray(Y), 1.0, log=True).get() - exact).max())
print(len(core_compile._begun))
"""


@pytest.mark.gpu
def test_first_calls_on_a_gpu_with_an_empty_cache_and_with_a_filled_one(tmp_path: Path) -> None:
    for _ in range(2):
        output, _ = processes.finished(processes.start("-c", _COLD, CUPY_CACHE_DIR=tmp_path))
        of_kde, of_sd_kde, begun = map(float, output.split())
        assert of_kde <= tolerances.DENSITY["gpu", "float32"].value
        assert of_sd_kde <= tolerances.SD_DENSITY["float32"].value
        assert begun > 1


@pytest.mark.parametrize("cores", [2, 8])
def test_likely_kernels_are_left_out_where_cores_are_few(
    cores: int, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cukde.core.cpu.processor.cores", lambda: cores)
    core_compile.begin([Kernel("a", "one", ())], likely=True)
    assert len(core_compile._begun) == (cores == 8)


def test_a_rehearsal_that_loads_nothing_begins_nothing(compiler: Compiler) -> None:
    with core_compile.rehearsed(loads=False):
        core_compile.begin([Kernel("a", "one", ())])
    assert not core_compile._begun


# Looks at the data, which come before a pass is chosen, the weights, and what is made of sums at last.
ALONE = (
    *("column_means", "survey", "range", "part_sums", "log_weights"),
    *("merge_splits", "density_of_sums", "points_of_sums"),
)
OF_DIFFERENCES = "_ieee", "_f64"  # how kernels end that are a pass by themselves

CALLS = {
    "kde": lambda X, Y, **options: cukde.kde(X, Y, 1.5, **options),
    "laplace_kde": lambda X, Y, **options: cukde.laplace_kde(X, Y, 1.5, **options),
    "score": lambda X, Y, **options: cukde.score(X, Y, 1.5, **options),
    "sd_kde": lambda X, Y, **options: cukde.sd_kde(X, Y, 1.5, **options),
}


@pytest.fixture
def alone(emulated_device: None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kernels that are launched first of their source, with which no pass has begun."""
    asked: list[tuple[str, Any]] = []
    names: list[str] = []
    load = core_compile.load

    def launched(kernel: Kernel) -> Any:
        source = kernel.stem, kernel.defines
        if source not in asked:
            asked.append(source)
            names.append(kernel.name)
        return load(kernel)

    def begun(kernels: Iterable[Kernel], *, likely: bool = False) -> None:
        if not likely:
            asked.extend((kernel.stem, kernel.defines) for kernel in kernels)

    monkeypatch.setattr(core_compile, "begin", begun)
    monkeypatch.setattr(core_compile, "load", launched)
    return names


@pytest.mark.small
@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("d", [3, 40, 70])
@pytest.mark.parametrize("name", list(CALLS))
@pytest.mark.parametrize("far", [False, True])
def test_passes_begin_what_they_launch(
    far: bool,
    name: str,
    d: int,
    precision: str,
    weighted: bool,
    ahead: bool,
    alone: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for path in ("small",) if ahead else ("small", "ahead"):
        monkeypatch.setattr(f"cukde.density.backends.{path}", lambda backend: None)
    rng = np.random.default_rng(0)
    X, Y = (rng.standard_normal((rows, d)).astype(precision) for rows in (300, 40))
    if far:
        X[::2] *= 1e3
    options = {"weights": rng.random(300)} if weighted else {}
    CALLS[name](X, Y, precision=precision, **options)
    assert all(kernel in ALONE or kernel.endswith(OF_DIFFERENCES) for kernel in alone), alone


@pytest.mark.parametrize("itself", [False, True])
@pytest.mark.parametrize("output", ["sum", "moments", "laplace"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("d", [2, 5, 8, 40, 64])
def test_passes_that_leave_out_pairs_begin_what_they_launch(
    d: int, precision: str, output: Any, itself: bool, alone: list[str]
) -> None:
    from cukde.density.pairs.gpu.skipping import frame, passes, plan

    rng = np.random.default_rng(0)
    X, Y = (rng.standard_normal((rows, d)) for rows in (300, 70))
    X[::2] *= 30  # wide blocks, and others
    at = None if itself else Y
    prepared = plan.prepare(
        X, at, 0.5, output, Options(precision, None), frame.frame(frame.sample(X)), 1e-5, ratio=itself
    )
    alone.clear()
    passes.run(prepared)
    assert not alone
