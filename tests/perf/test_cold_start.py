"""What the first call of a process waits for."""

from __future__ import annotations

import importlib.util
import inspect
import subprocess
import sys

import pytest

import cukde
from benchmarks.perf import first_calls
from tests import passes
from tests.private import compiler_options, core_compile, kernel_code


def loaded(code: str) -> set[str]:
    """Top-level packages that a new process has imported after running some code."""
    report = "import sys; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


HEAVY = {"numba", "scipy", "sklearn", "threadpoolctl", "matplotlib", "pandas"}


def test_the_import_loads_nothing_heavy() -> None:
    assert not loaded("import cukde") & (HEAVY | {"cupy"})


@pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="CuPy is not installed")
def test_the_gpu_backend_loads_neither_numba_nor_scipy() -> None:
    own = loaded(f"import cupy, {', '.join(passes.ON_GPU)}") - loaded("import cupy")
    assert "cukde" in own
    assert not own & HEAVY


def test_piecewise_polynomials_load_numba_only_for_points_on_the_host() -> None:
    """What is made of arrays on the host may be for a GPU."""
    made = "import cukde; p = cukde.PiecewisePolynomial([[1.0]], [0, 1]); cukde.functions.polynomial('exp')"
    fitted = "cukde.fit_piecewise(abs, (1, 2), pieces=3, degree=1, dtype='float32')"
    assert not loaded(f"{made}; p.derivative(); p.integrate(0, 1); {fitted}") & HEAVY
    assert "numba" in loaded(f"{made}; p(0.5)")


def test_the_first_small_calls_of_kendalls_tau_load_nothing_heavy() -> None:
    calls = "cukde.kendalltau(x, x * x); cukde.kendall_matrix(x.reshape(-1, 5), pvalue=True)"
    assert not loaded(f"import cukde, numpy; x = numpy.arange(100.0); {calls}") & HEAVY
    assert "numba" in loaded(
        "import cukde, numpy; x = numpy.arange(100.0); [cukde.kendalltau(x, x) for _ in range(201)]"
    )


def test_numba_loads_without_linear_algebra() -> None:
    code = "import sys; from cukde.core.cpu.jit import njit; njit()(lambda a: a + 1)(1)"
    assert "numba" in loaded(f"{code}; assert 'scipy.linalg' not in sys.modules")


@pytest.mark.gpu
def test_piecewise_polynomials_on_a_gpu_load_no_numba() -> None:
    calls = (
        "cukde.functions.gelu(x); cukde.pwpa(x, [[1.0, 0.0]], [0, 1]); cukde.PiecewisePolynomial([[1.0]], [0, 1])(x)"
    )
    own = loaded(f"import cupy, cukde; x = cupy.ones(3); {calls}") - loaded("import cupy; cupy.ones(3)")
    assert "cukde" in own
    assert not own & HEAVY


@pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="CuPy is not installed")
def test_all_kernels_share_their_options() -> None:
    """CuPy compiles an empty file for every set of options that a process has not met."""
    from cukde import catalogue

    kernels = [core_compile.Kernel(*kernel) for kernel in catalogue.kernels()]
    assert len({compiler_options(kernel.headers) for kernel in kernels}) == 1
    assert len({(kernel_code(kernel.stem, kernel.defines), kernel.name) for kernel in kernels}) == len(kernels)


def test_first_calls_of_every_public_function(monkeypatch: pytest.MonkeyPatch) -> None:
    functions = {name for name in cukde.__all__ if inspect.isfunction(getattr(cukde, name))}
    named = {name.partition(" ")[0] for name in first_calls.CASES}
    assert functions - named == {"warmup", "aos_to_soa", "soa_to_aos", "set_output"}
    assert first_calls.PEERS.keys() <= first_calls.CASES.keys()
    for name in first_calls.PEERS:
        assert first_calls.child(name, 1000, "cpu", peer=True)["next_ms"] > 0
    times = first_calls.child("bandwidth.scott", 1000, "cpu", peer=False)
    assert times.keys() == {"first_ms", *first_calls.EXTRA}
    made_up = {"import_ms": 1.0, "first_ms": 3.0, "next_ms": 2.0, "processor_ms": 5.0, "next_processor_ms": 2.0}
    monkeypatch.setattr(first_calls, "fresh", lambda *args, **kwargs: made_up)
    compiled, cached = first_calls.rows("kde 3-D", 1000, 2)
    assert first_calls.beyond(compiled) == 2.0  # by the clock
    assert first_calls.beyond(compiled | {"processor_ms": 3.0}) == 1.0
    assert (compiled["timing"], cached["timing"], cached["median_ms"]) == ("compiled", "cached", 4.0)
    assert cached["peer"]["median_ms"] == 3.0
    assert cached["shape"] == {"n": 1000}
