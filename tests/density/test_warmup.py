"""After :func:`cukde.warmup` no call of the workload asks for a kernel that is not there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cukde
from cukde.core.gpu import compile as core_compile
from cukde.core.plan import only
from tests import host_emulation
from tests.conftest import why_no_gpu


@pytest.fixture
def asked(emulated_device: None, monkeypatch: pytest.MonkeyPatch) -> list[core_compile.Kernel]:
    """Kernels that are loaded, in order; they compute nothing, and what the survey should say, NumPy does."""
    from cukde.core.cpu import arrays as core_arrays
    from cukde.core.gpu import arrays as gpu_arrays, survey

    found: list[core_compile.Kernel] = []
    look, mean, ends = survey.look, survey.mean, survey.ends

    def load(wanted: core_compile.Kernel) -> Any:
        found.append(wanted)
        return lambda grid, block, args: None

    def looked(*arrays: Any) -> Any:
        look(*arrays)
        return core_arrays.look(*arrays)

    def meant(A: Any) -> Any:
        mean(A)
        return core_arrays.mean(A)

    def ended(ascending: Any, queries: Any) -> tuple[float, float, float]:
        ends(ascending, queries)
        return float(ascending[0]), float(ascending[-1]), float(np.abs(queries).max(initial=0))

    def launch(chosen: Any, *_: Any) -> None:
        found.append(chosen.kernel)
        if core_compile.is_rehearsal():
            core_compile.note(chosen.kernel)

    monkeypatch.setattr("cukde.core.gpu.compile.load", load)
    monkeypatch.setattr("cukde.core.gpu.numba_cuda.launch", launch)
    monkeypatch.setattr("cukde.density.plan.gpu.LINE_PAIRS", 1000)
    monkeypatch.setattr(gpu_arrays, "look", looked)
    monkeypatch.setattr(gpu_arrays, "mean", meant)
    monkeypatch.setattr(survey, "mean", meant)
    monkeypatch.setattr(survey, "ends", ended)
    monkeypatch.setattr("cukde.core.dispatch.why_no_gpu", lambda: None)
    return found


def points(rows: int, d: int, dtype: str, squared_radius: float) -> np.ndarray:
    """Points of which one is as far from the origin as the scaled squared radius says, in bandwidths of 1."""
    rng = np.random.default_rng([rows, d])
    out = rng.standard_normal((rows, d))
    return (out * (squared_radius**0.5 / np.linalg.norm(out, axis=1).max())).astype(dtype)


def workload(X: Any, Y: Any, h: Any, V: Any, **options: Any) -> Iterator[Any]:
    """Every call there is."""
    for log in (False, True):
        yield cukde.kde(X, Y, h, log=log, **options)
        yield cukde.sd_kde(X, Y, h, log=log, **options)
        yield cukde.laplace_kde(X, Y, h, log=log, **options)
    yield cukde.laplace_kde(X, Y, h, negative="clip", **options)
    yield cukde.score(X, Y, h, **options)
    yield cukde.density_and_score(X, Y, h, **options)
    yield cukde.debias(X, h, **options)
    del options["weights"]
    yield cukde.kernel_sum(X, V, Y, h, **options)


SIZES = [
    (1, 1, 1),
    (300, 250, 1),
    (1, 5, 16),
    (50, 1, 2),
    (300, 40, 3),
    (700, 70, 16),
    (130, None, 16),
    (129, 20, 33),
    (90, None, 65),
]
SQUARED_RADII = (1e-6, 1.0, 30.0, 101.0, 150.0, 218.0, 219.0, 274.0, 276.0, 399.0, 600.0, 750.0, 5e3, 1e7)


@pytest.mark.parametrize(("n", "m", "d"), SIZES)
@pytest.mark.parametrize(("dtype", "precision"), [("float32", None), ("float32", "tf32"), ("float64", None)])
@pytest.mark.parametrize(("weights", "deterministic"), [(False, False), (True, False), (False, True)])
def test_no_call_asks_for_more(
    asked: list[core_compile.Kernel],
    n: int,
    m: int | None,
    d: int,
    dtype: str,
    precision: str | None,
    weights: bool,
    deterministic: bool,
) -> None:
    options: dict[str, Any] = {"precision": precision, "deterministic": deterministic}
    names = cukde.warmup(n, m, d, dtype=dtype, weights=weights, values=5, **options)
    ready = set(asked)
    assert sorted(names) == sorted(kernel.name for kernel in ready)
    asked.clear()
    w = np.random.default_rng(0).uniform(1, 2, n) if weights else None
    V = np.ones((n, 5), dtype)
    for squared_radius in SQUARED_RADII:
        X = points(n, d, dtype, squared_radius)
        Y = X if m is None else points(m, d, dtype, squared_radius)
        for check_finite in (True, False):
            for _ in workload(X, Y, 1.0, V, weights=w, check_finite=check_finite, **options):
                pass
    assert asked
    assert not set(asked) - ready


@pytest.mark.parametrize("h", [np.full(3, 0.5), np.diag([0.1, 2.0, 7.0])], ids=["deviations", "covariance"])
def test_any_form_of_bandwidth(asked: list[core_compile.Kernel], h: np.ndarray) -> None:
    cukde.warmup(300, 40, 3, h=h, values=2)
    ready = set(asked)
    asked.clear()
    for squared_radius in SQUARED_RADII:
        X, Y = points(300, 3, "float32", squared_radius), points(40, 3, "float32", squared_radius)
        for _ in workload(X, Y, h, np.ones((300, 2), "float32"), weights=None):
            pass
    assert not set(asked) - ready


@pytest.mark.parametrize(
    ("d", "stem", "others"),
    [
        (3, "near_boxes", {"near_boxes_once", "near_sum_few"}),
        (16, "near_units", {"near_pairs_once", "add_own", "near_sum_by_chunks"}),
    ],
)
def test_passes_that_leave_out_pairs(asked: list[core_compile.Kernel], d: int, stem: str, others: set[str]) -> None:
    with only("skipping"):
        names = cukde.warmup(300, 40, d, functions=["kernel_sum"], values=2)
        of_debiased = cukde.warmup(300, 40, d, functions=["sd_kde"])
        of_laplace = cukde.warmup(300, 40, d, functions=["laplace_kde"])
    assert {"morton_codes", "order_points", "finish_skipping", f"{stem}_sum_single", "kernel_sum_ieee"} < set(names)
    names = of_debiased
    assert {"morton_codes", "order_points", "finish_skipping"} | others < set(names)
    assert {f"{stem}_{summed}_single" for summed in ("sum", "moments")} < set(names)
    assert {"kde_f16x2", "score_symmetric_f16x2"} & set(names)  # all pairs stay a choice
    assert f"{stem}_laplace_single" in of_laplace


def test_only_the_functions_that_are_named(asked: list[core_compile.Kernel]) -> None:
    names = cukde.warmup(300, 40, 16, functions=["kde"])
    assert "kde_f16x2" in names
    assert not any(name.startswith(("score", "laplace", "kernel_sum")) for name in names)
    assert any(name.startswith("kernel_sum") for name in cukde.warmup(30, 4, 16, functions="kernel_sum", values=3))


def test_nothing_is_launched_but_the_survey(emulated_device: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cukde.core.dispatch.why_no_gpu", lambda: None)
    launched = []

    def load(wanted: core_compile.Kernel) -> Any:
        def launch(*args: Any) -> None:
            launched.append(wanted.stem)
            host_emulation.kernel(*wanted[:4])(*args)

        return launch

    monkeypatch.setattr("cukde.core.gpu.compile.load", load)
    cukde.warmup(300, 40, 16)
    assert set(launched) == {"core/survey"}


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"n": 0}, ValueError, "n must be at least 1; got 0"),
        ({"m": -1}, ValueError, "m must be at least 1; got -1"),
        ({"d": 2.0}, TypeError, "d must be an integer; got 2.0"),
        ({"values": 0}, ValueError, "values must be at least 1"),
        ({"functions": ["kdf"]}, ValueError, "functions must be among kde, .*; got 'kdf'"),
        ({"functions": ["kernel_sum"]}, ValueError, "values must be the number of columns of V"),
        ({"dtype": "float16"}, ValueError, 'dtype must be "float32" or "float64"; got \'float16\''),
        ({"precision": "double"}, ValueError, "precision must be one of"),
        ({"h": -1.0}, ValueError, "h must be positive"),
        ({"backend": "tpu"}, ValueError, 'backend must be "gpu", "cpu" or None'),
    ],
)
def test_bad_arguments_are_named(wrong: dict[str, Any], error: type[Exception], message: str) -> None:
    arguments: dict[str, Any] = {"n": 10, "m": 5, "d": 2, "backend": "cpu"} | wrong
    with pytest.raises(error, match=message):
        cukde.warmup(arguments.pop("n"), arguments.pop("m"), arguments.pop("d"), **arguments)


def test_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cukde.core.dispatch.why_no_gpu", lambda: "CuPy finds none")
    with pytest.raises(RuntimeError, match=r"CuPy finds none.*cukde info"):
        cukde.warmup(10, 5, 2, backend="gpu")
    assert "add_sums" in cukde.warmup(1000, 100, 2, functions="kde")


ON_THE_CPU = """
import numpy as np, cukde
from cukde.core.cpu import jit
{warm}
before = sorted(jit.compiled())
rng = np.random.default_rng(0)
X, Y = (rng.standard_normal((rows, {d})).astype("f4") for rows in ({n}, {m}))
for h in (1.0, 0.1, 1e-5):
    for check_finite in (True, False):
        for call in (cukde.kde, cukde.score, cukde.sd_kde, cukde.laplace_kde, cukde.density_and_score):
            call(X, Y, h, check_finite=check_finite)
print(before == sorted(jit.compiled()))
"""


@pytest.mark.long
@pytest.mark.parametrize(("warm", "n", "m", "d"), [(True, 3000, 700, 3), (False, 3000, 700, 3), (True, 900, 200, 1)])
def test_no_call_compiles_on_the_cpu(warm: bool, n: int, m: int, d: int) -> None:
    """In a process of its own: what Numba has compiled stays with the process."""
    call = f"cukde.warmup({n}, {m}, {d}, backend='cpu')" if warm else ""
    code = ON_THE_CPU.format(warm=call, n=n, m=m, d=d)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(warm)


ON_A_GPU = """
import cupy as cp, cukde
from cupy.cuda import compiler
{warm}
compiled, compile = [], compiler._compile_module_with_cache
def noted(source, *args, **named):
    compiled.append(source)
    return compile(source, *args, **named)
compiler._compile_module_with_cache = noted
X, Y = (cp.random.default_rng(0).standard_normal((rows, 16), dtype=cp.float32) for rows in (3000, 700))
compiled.clear()
for h in (2.0, 0.3, 0.01):
    for check_finite in (True, False):
        for call in (cukde.kde, cukde.score, cukde.sd_kde, cukde.laplace_kde, cukde.density_and_score):
            call(X, Y, h, check_finite=check_finite)
print(not compiled)
"""


@pytest.mark.gpu
@pytest.mark.skipif(why_no_gpu() is not None, reason=str(why_no_gpu()))
@pytest.mark.parametrize("warm", [True, False])
def test_no_call_compiles_on_a_gpu(warm: bool) -> None:
    """Nor loads from the disk: neither kernels of this package nor those of CuPy's own functions."""
    call = "cukde.warmup(3000, 700, 16)" if warm else ""
    done = subprocess.run(
        [sys.executable, "-c", ON_A_GPU.format(warm=call)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(warm)


@pytest.mark.parametrize("h", [1e308, [1e308, 1e200]])
def test_a_bandwidth_that_no_data_radius_over(h: Any) -> None:
    with pytest.raises(ValueError, match="h must be smaller"):
        cukde.warmup(5, 2, np.size(h), functions=["kde"], h=h, dtype="float64", backend="cpu")
