"""SD-KDE and its passes on a GPU beside every rival that runs there, each row checked before it is timed.

python -m pytest benchmarks/density/bench_sd_kde.py --record benchmarks/results/NAME.json
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import pytest

import cukde
from benchmarks import memory, peers
from tests.conftest import why_no_gpu

if why_no_gpu() is None:
    from benchmarks.density import study_wmma
    from benchmarks.density.mixture import CHECKED, error, exact_density, exact_sd_kde, in_double, mixture, score_error

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(why_no_gpu() is not None, reason=str(why_no_gpu()))]

_LARGE = 1048576, 131072

_FLASH_DENSITIES = "Flash-SD-KDE, TF32", "Flash-SD-KDE, TF32, the paper's kernels", "Flash-SD-KDE, fp32_ieee"
_FLASH = (
    *_FLASH_DENSITIES,
    "Flash-SD-KDE, TF32, symmetric_atomic",
    "Flash-SD-KDE, fp32_ieee, symmetric_atomic",
    "Flash-SD-KDE, fp32_ieee, ordered_splitk",
)

# Ordered pairs a second that the exponentials of an H200 allow.
_EXPONENTIALS = 4.18e12
_BOUND = "one exponential an ordered pair (0.263 s for 2^40)"

# Worst relative error of the density over 1,000 random queries; of the score in units of 1/h, over the reach.
_TOLERANCE = {("kde", "float32"): 3e-5, ("score", "float32"): 3e-5, ("sd_kde", "float32"): 3e-4}
# Of one term a point: at the size that is promised, and what the docstrings say of any other.
_TOLERANCE_OF_TF32, _TOLERANCE_OF_TF32_ELSEWHERE = 2e-2, 5e-2

# Of bench_memory: 2^20 bytes each, above the inputs.
_MOST_MB = 500


def _tolerance(op: str, precision: str, n: int, m: int) -> float:
    if precision == "float32":
        return _TOLERANCE[op, precision]
    return _TOLERANCE_OF_TF32 if (op, n, m) == ("sd_kde", *_LARGE) else _TOLERANCE_OF_TF32_ELSEWHERE


def _row(op: str, n: int, m: int, d: int, precision: str, error: float | None, pairs: float) -> dict[str, Any]:
    return {
        "op": op,
        "backend": "gpu",
        "shape": {"n": n, "m": m, "d": d},
        "dtype": "float32",
        "precision": precision,
        "rel_err_max": error,
        "bound_ms": 1e3 * pairs / _EXPONENTIALS,
        "bound": _BOUND,
    }


def _beside(names: tuple[str, ...], precision: str) -> tuple[str, ...]:
    """Beside our rows of TF32, not the rivals that compute in float32 alone and take their time."""
    slow: tuple[str, ...] = ("fp32_ieee", "PyKeOps", "cuVS") if precision == "tf32" else ()
    return tuple(name for name in names if not any(word in name for word in slow))


def _pairs(op: str, n: int, m: int) -> int:
    return n * m + (n * n if op == "sd_kde" else 0)


@pytest.mark.parametrize("precision", ["float32", "tf32"])
@pytest.mark.parametrize(
    ("n", "m", "names"),
    [
        (2048, 256, (*_FLASH, "torch.compile", "PyTorch", "CuPy", "PyKeOps")),
        (32768, 4096, (*_FLASH, "torch.compile", "PyTorch", "CuPy", "PyKeOps")),
        (131072, 16384, (*_FLASH, "PyKeOps")),
        (*_LARGE, _FLASH),
    ],
)
def bench_sd_kde(compare: Callable[..., None], precision: str, n: int, m: int, names: tuple[str, ...]) -> None:
    X, Y, h = mixture(n, m)
    exact = exact_sd_kde(n, m, 16, h)
    ours = error(cukde.sd_kde(X, Y, h, precision=precision), exact)
    assert ours <= _tolerance("sd_kde", precision, n, m)
    row = _row("sd_kde", n, m, 16, precision, ours, _pairs("sd_kde", n, m))
    beside = peers.rivals("sd_kde", _beside(names, precision), X, Y, h, error=lambda density: error(density, exact))
    compare(lambda: cukde.sd_kde(X, Y, h, precision=precision), row, beside)


@pytest.mark.parametrize("precision", ["float32", "tf32"])
def bench_kde(compare: Callable[..., None], precision: str) -> None:
    n, m = _LARGE
    X, Y, h = mixture(n, m)
    exact = exact_density("kde", X, Y, h)
    ours = error(cukde.kde(X, Y, h, precision=precision), exact)
    assert ours <= _tolerance("kde", precision, n, m)
    names = _beside((*_FLASH_DENSITIES, "cuVS", "PyKeOps"), precision)
    beside = peers.rivals("kde", names, X, Y, h, error=lambda density: error(density, exact))
    row = _row("kde", n, m, 16, precision, ours, _pairs("kde", n, m))
    compare(lambda: cukde.kde(X, Y, h, precision=precision), row, beside)


@pytest.mark.parametrize("precision", ["float32", "tf32"])
def bench_laplace(compare: Callable[..., None], precision: str) -> None:
    n, m = _LARGE
    X, Y, h = mixture(n, m)
    some = Y[:CHECKED]
    got = cukde.laplace_kde(X, some, h, precision=precision)
    exact = cukde.laplace_kde(X.astype("f8"), some.astype("f8"), h)
    ours = float(abs(got - exact).max() / abs(got).max())
    assert ours <= {"float32": 1e-4, "tf32": 5e-2}[precision]
    row = _row("laplace_kde", n, m, 16, precision, ours, n * m)
    beside = peers.rivals(
        "laplace_kde",
        _beside(("Flash-SD-KDE, TF32", "Flash-SD-KDE, fp32_ieee"), precision),
        *(X, Y, h),
        error=lambda density: float(abs(density[:CHECKED] - exact).max() / abs(exact).max()),
    )
    compare(lambda: cukde.laplace_kde(X, Y, h, precision=precision), row, beside)


@pytest.mark.parametrize("precision", ["float32", "tf32"])
def bench_score(compare: Callable[..., None], precision: str) -> None:
    n, m = _LARGE
    X, Y, h = mixture(n, m)
    ours = score_error(cukde.score(X, Y, h, precision=precision), X, Y, h)
    assert ours <= _tolerance("score", precision, n, m)
    compare(lambda: cukde.score(X, Y, h, precision=precision), _row("score", n, m, 16, precision, ours, n * m), {})


@pytest.mark.parametrize("op", ["kde", "score"])
def bench_wmma_study(compare: Callable[..., None], without: Callable[..., None], op: str) -> None:
    """What the tensor cores give a kernel by ``nvcuda::wmma``, beside the rows of ``bench_kde`` and ``bench_score``."""
    n, m = _LARGE
    if reason := study_wmma.why_absent():
        without(_row(op, n, m, 16, "tf32 (wmma study)", None, n * m), reason)
        pytest.skip(reason)
    X, Y, h = mixture(n, m)
    call = functools.partial(getattr(study_wmma, op), X, Y, h)
    ours = score_error(call(), X, Y, h) if op == "score" else error(call(), exact_density("kde", X, Y, h))
    assert ours <= _tolerance(op, "tf32", n, m)
    compare(call, _row(op, n, m, 16, "tf32 (wmma study)", ours, n * m), {})


@pytest.mark.parametrize("timing", ["eager", "graph"])
@pytest.mark.parametrize(("n", "m"), [(2048, 256), (32768, 4096)])
def bench_graph(compare: Callable[..., None], n: int, m: int, timing: str) -> None:
    """The same call launched from Python and replayed from a CUDA graph, both on a non-blocking stream."""
    import cupy as cp

    X, Y, h = mixture(n, m)
    exact = exact_sd_kde(n, m, 16, h)
    cp.cuda.Device().synchronize()  # the stream below waits for no other

    call: Callable[[], Any] = functools.partial(cukde.sd_kde, X, Y, h, check_finite=False)
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        if timing == "graph":
            # Replays write where the captured call had its arrays: in a pool of their own nobody else gets them.
            pool = cp.cuda.MemoryPool()
            with cp.cuda.using_allocator(pool.malloc):
                call()  # compiles the kernels and fills the pool, neither of which a capture may do
                graph, density = _captured(stream, call)
            density.fill(0)
            call = functools.partial(graph.launch, stream)
            call()
        else:
            density = call()
        ours = error(density, exact)
        assert ours <= _tolerance("sd_kde", "float32", n, m)
        row = _row("sd_kde", n, m, 16, "float32", ours, _pairs("sd_kde", n, m)) | {"timing": timing}
        compare(call, row, {})
        stream.synchronize()


def _captured(stream: Any, call: Callable[[], Any]) -> tuple[Any, Any]:
    """Graph of a call, and the array that its replays write to."""
    stream.synchronize()
    stream.begin_capture()
    try:
        result = call()
    except BaseException:
        # The capture is void; what broke it is the error to be seen.
        with contextlib.suppress(Exception):
            stream.end_capture()
        raise
    return stream.end_capture(), result


@pytest.mark.parametrize("precision", ["float32", "tf32"])
def bench_debias(compare: Callable[..., None], precision: str) -> None:
    n = 1048576
    X, _, h = mixture(*_LARGE)
    moved = cukde.debias(X, h, precision=precision)[:CHECKED]
    exact = X[:CHECKED] + 0.5 * in_double(X, X, h)[1]
    ours = float(abs(moved - exact).max() / h)
    assert ours <= {"float32": 3e-4, "tf32": 5e-3}[precision]
    # The bound is that of an ordered pass; the symmetric one needs half as many exponentials.
    compare(lambda: cukde.debias(X, h, precision=precision), _row("debias", n, n, 16, precision, ours, n * n), {})


@pytest.mark.parametrize("m", [4, 64, 1024, 4096])
def bench_few_queries(compare: Callable[..., None], m: int) -> None:
    n = 32768
    X, Y, h = mixture(n, 4096)
    y = Y[:m]
    ours = error(cukde.sd_kde(X, y, h), exact_sd_kde(n, 4096, 16, h))
    assert ours <= _tolerance("sd_kde", "float32", n, m)
    compare(lambda: cukde.sd_kde(X, y, h), _row("sd_kde", n, m, 16, "float32", ours, _pairs("sd_kde", n, m)), {})


def bench_memory(compare: Callable[..., None]) -> None:
    """Memory above the inputs, in the row's ``peak_mb``."""
    n, m = _LARGE
    X, Y, h = mixture(n, m)
    peak = memory.peak_mb(lambda: cukde.sd_kde(X, Y, h))
    row = _row("sd_kde", n, m, 16, "float32", None, _pairs("sd_kde", n, m)) | {"peak_mb": peak}
    compare(lambda: cukde.sd_kde(X, Y, h), row, {})
    assert peak <= _MOST_MB
