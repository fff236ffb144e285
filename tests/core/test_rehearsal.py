"""What a call asks of the device: how many launches, and no wait where it is told not to look at the data."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import cukde
from tests import host_emulation, reference
from tests.conftest import why_no_gpu
from tests.tolerances import DENSITY, SD_DENSITY

ALLOWED = {"float32": SD_DENSITY["float32"].value, "tf32": DENSITY["gpu", "tf32"].value}

SMALL = 8  # launches of a whole call on small data


@pytest.fixture
def launched(emulated_device: None, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the kernels that the emulated device is asked for, in order."""
    names: list[str] = []

    def noted(stem: str, name: str, *specialisation: Any) -> Any:
        names.append(name)
        return host_emulation.kernel(stem, name, *specialisation)

    monkeypatch.setattr("cukde.core.gpu.compile.kernel", noted)
    return names


def _sample(n: int = 300, m: int = 40, d: int = 16) -> tuple[np.ndarray, np.ndarray, float]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)).astype("f4"), rng.standard_normal((m, d)).astype("f4"), 1.5


@pytest.mark.parametrize("precision", ["float32", "tf32"])
@pytest.mark.parametrize("check_finite", [True, False])
def test_sd_kde_takes_few_launches(launched: list[str], precision: str, check_finite: bool) -> None:
    X, Y, h = _sample()
    got = cukde.sd_kde(X, Y, h, precision=precision, check_finite=check_finite)
    assert len(launched) <= SMALL, launched
    np.testing.assert_allclose(got, reference.sd_kde(X, Y, h), rtol=ALLOWED[precision])


@pytest.mark.parametrize("score_bandwidth", [None, 0.3])
@pytest.mark.parametrize("wide", ["nothing", "data", "queries"])
def test_unchecked_calls_ask_for_no_other_kernels(
    launched: list[str], wide: str, score_bandwidth: float | None
) -> None:
    """Wherever the data lie, for the score and for the density apart."""
    X, Y, h = _sample(150, 20, 4)
    X[0] += 60 if wide == "data" else 0
    Y[0] += 60 if wide == "queries" else 0
    call = functools.partial(cukde.sd_kde, X, Y, h, score_bandwidth=score_bandwidth, log=True)
    checked = call()
    of_checked = set(launched)
    launched.clear()
    got = call(check_finite=False)
    expected = reference.sd_kde(X, Y, h, score_bandwidth, log=True)
    np.testing.assert_allclose(got, expected, rtol=2e-6, atol=ALLOWED["float32"])
    np.testing.assert_allclose(got, checked, rtol=2e-6, atol=ALLOWED["float32"])
    assert set(launched) <= of_checked
    assert ("prepare_f16" in launched) == (wide == "nothing")


def test_kde_takes_few_launches(launched: list[str]) -> None:
    X, Y, h = _sample()
    got = cukde.kde(X, Y, h)
    assert len(launched) <= SMALL - 2, launched
    np.testing.assert_allclose(got, reference.kde(X, Y, h), rtol=DENSITY["gpu", "float32"].value)


@pytest.mark.parametrize("far", [1, 60])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_pass_ends_in_laplace_densities(launched: list[str], dtype: str, far: float) -> None:
    """As what follows the sums makes them: signs, no -0.0, NaN for logarithms of what is negative."""
    X, Y, h = _sample(d=4)
    X, Y = X.astype(dtype), (Y * np.linspace(0.1, 2.5 * far, len(Y))[:, None]).astype(dtype)
    kept, log = (cukde.laplace_kde(X, Y, h / 2, precision="float32", log=log) for log in (False, True))
    assert launched.count("finish_f16") == 2 * (far == 1)
    with pytest.warns(cukde.NegativeDensityWarning):
        clipped = cukde.laplace_kde(X, Y, h / 2, precision="float32", negative="clip")
    assert kept.dtype == log.dtype == dtype
    negative = np.isnan(log)
    assert 0 < negative.sum() < len(Y)
    assert (kept[negative] <= 0).all()
    assert not np.signbit(kept[kept == 0]).any()
    np.testing.assert_allclose(kept[~negative], clipped[~negative], rtol=1e-6, atol=1e-37)
    np.testing.assert_allclose(np.exp(log[~negative]), clipped[~negative], rtol=1e-4, atol=1e-37)
    assert (clipped[negative] == 0).all()


@pytest.mark.parametrize(("call", "allowed"), [(cukde.kde, 4), (cukde.sd_kde, 7), (cukde.laplace_kde, 4)])
def test_calls_take_few_allocations(
    emulated_device: None, monkeypatch: pytest.MonkeyPatch, call: Any, allowed: int
) -> None:
    """The centre, what the survey found, a chunk for each pass, the result; moved points."""
    allocated: list[Any] = []

    def noted(make: Any) -> Any:
        def allocate(shape: Any, *dtype: Any) -> np.ndarray:
            allocated.append(shape)
            return make(shape, *dtype)

        return allocate

    for name in ("empty", "zeros"):
        monkeypatch.setattr(
            host_emulation.NumpyAsCupy,
            name,
            staticmethod(noted(getattr(host_emulation.NumpyAsCupy(None), name))),
            raising=False,
        )
    X, Y, h = _sample()
    call(X, Y, h)
    assert len(allocated) <= allowed, allocated


@pytest.mark.gpu
@pytest.mark.skipif(why_no_gpu() is not None, reason=str(why_no_gpu()))
@pytest.mark.parametrize(("precision", "d"), [("float32", 3), ("float32", 16), ("tf32", 16), ("float32", 1)])
def test_sd_kde_in_a_cuda_graph(precision: str, d: int) -> None:
    """A capture fails where the call waits for the device; the graph computes from what arrays hold when it runs."""
    import cupy as cp

    X, Y, h = _sample(2048, 256, d)
    x, y = cp.asarray(X), cp.asarray(Y)
    stream = cp.cuda.Stream(non_blocking=True)
    pool = cp.cuda.MemoryPool()  # of the graph alone: a later call must not be given its memory
    with cp.cuda.using_allocator(pool.malloc), stream:
        cukde.sd_kde(x, y, h, precision=precision, check_finite=False)  # compile before
        stream.begin_capture()
        out = cukde.sd_kde(x, y, h, precision=precision, check_finite=False)
        graph = stream.end_capture()
        for shift in (0, 0.25):
            cp.add(cp.asarray(X), np.float32(shift), out=x)
            cp.subtract(cp.asarray(Y), np.float32(shift), out=y)
            graph.launch(stream)
            expected = reference.sd_kde(X + np.float32(shift), Y - np.float32(shift), h)
            np.testing.assert_allclose(out.get(), expected, rtol=ALLOWED[precision])
