"""First calls that NumPy answers while the compiler runs: the same results, within what is promised."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import cukde
from cukde.core.cpu import survey
from tests.private import meanwhile

PATIENT = settings(max_examples=12, deadline=None, derandomize=True)


@contextlib.contextmanager
def nothing_compiled() -> Iterator[list[Callable[..., Any]]]:
    """Passes find that their code is missing; those that were asked to be compiled."""
    asked: list[Callable[..., Any]] = []

    def refusing(*_: Any) -> None:
        raise meanwhile.NotCompiledError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(meanwhile, "enabled", True)
        patch.setattr(meanwhile, "_if_compiled", refusing)
        patch.setattr(meanwhile._background, "ask", lambda compiled, *_: asked.append(compiled))
        patch.setattr(meanwhile._background, "spent", {})
        yield asked


def both(call: Callable[[], Any]) -> tuple[np.ndarray, np.ndarray]:
    """What NumPy answers, and compiled code."""
    with nothing_compiled() as asked:
        plain = call()
    assert asked
    return np.asarray(plain), np.asarray(call())


CALLS: dict[str, Callable[..., Any]] = {
    "kde": lambda X, Y, h, w, o: cukde.kde(X, Y, h, weights=w, log=True, **o),
    "score": lambda X, Y, h, w, o: cukde.score(X, Y, h, weights=w, **o),
    "debias": lambda X, Y, h, w, o: cukde.debias(X, h, weights=w, **o),
    "laplace_kde": lambda X, Y, h, w, o: cukde.laplace_kde(X, Y, h, weights=w, **o),
    "kernel_sum": lambda X, Y, h, w, o: cukde.kernel_sum(X, np.ones(len(X)) if w is None else w, Y, h, **o),
}


@PATIENT
@given(
    name=st.sampled_from(sorted(CALLS)),
    d=st.sampled_from([1, 1, 2, 3, 9]),
    n=st.integers(2100, 4500),
    h=st.sampled_from([0.03, 0.3, 3.0]),
    offset=st.sampled_from([0.0, 1e3]),
    weighted=st.booleans(),
    options=st.sampled_from([{}, {}, {"rtol": 0}, {"rtol": 1e-4}]),
    dtype=st.sampled_from(["float32", "float64"]),
    seed=st.integers(0, 99),
)
def test_densities(
    name: str,
    d: int,
    n: int,
    h: float,
    offset: float,
    weighted: bool,
    options: dict[str, Any],
    dtype: str,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    X, Y = ((rng.normal(size=(rows, d)) + offset).astype(dtype) for rows in (n, 2100))
    w = rng.uniform(0.1, 2, n) if weighted else None
    plain, compiled = both(lambda: CALLS[name](X, Y, h, w, options))
    tolerance = max(options.get("rtol", 0), 1e-4 if dtype == "float32" else 1e-10)
    scale = np.abs(compiled).max() if name in ("laplace_kde", "kernel_sum") else 1 + np.abs(compiled)
    assert plain.dtype == compiled.dtype
    assert (np.abs(plain - compiled) <= 10 * tolerance * scale * max(1.0, 1 / h)).all()


@pytest.mark.long
@settings(PATIENT, max_examples=6)
@given(
    output=st.sampled_from(["kde", "score"]),
    h=st.sampled_from([0.2, 0.5, 1.2]),
    offset=st.sampled_from([-1.0, 1e3]),
    weighted=st.booleans(),
    spread=st.sampled_from([1.0, 1.5]),
    d=st.sampled_from([2, 3]),
)
def test_transforms(output: str, h: float, offset: float, weighted: bool, spread: float, d: int) -> None:
    """Of more pairs than NumPy takes one by one."""
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(30_000, d)) + offset, spread * rng.normal(size=(6000, d)) + offset
    w = rng.uniform(0.1, 2, len(X)) if weighted else None
    plain, compiled = both(lambda: CALLS[output](X, Y, h, w, {}))
    assert (np.abs(plain - compiled) <= 1e-10 * (1 + np.abs(compiled))).all()


@PATIENT
@given(n=st.integers(1000, 5000), p=st.integers(2, 4), ties=st.booleans(), nan=st.booleans(), seed=st.integers(0, 99))
def test_kendalls_tau(n: int, p: int, ties: bool, nan: bool, seed: int) -> None:
    """Counts are integers: all bits are the same."""
    rng = np.random.default_rng(seed)
    A = np.round(rng.normal(size=(n, p))) if ties else rng.normal(size=(n, p))
    if nan:
        A[rng.integers(n, size=3), 0] = np.nan
    for call in (
        lambda: cukde.kendall_matrix(A, nan_policy="omit"),
        lambda: cukde.kendalltau(np.tile(A[:, 0], 9), np.tile(A[:, 1], 9), nan_policy="omit"),
    ):
        with nothing_compiled():
            plain = call()
        assert np.array_equal(plain, call())


@pytest.mark.parametrize("weighted", [False, True])
def test_stacks(weighted: bool) -> None:
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(300, 20, 2)), rng.normal(size=(300, 5, 2))
    w = rng.uniform(0.1, 2, (300, 20)) if weighted else None
    for function in (cukde.kde, cukde.score, cukde.laplace_kde):
        plain, compiled = both(lambda function=function: function(X, Y, 0.4, weights=w))
        np.testing.assert_allclose(plain, compiled, rtol=1e-9, atol=1e-12)


def test_deterministic_calls_wait_for_the_compiler() -> None:
    X = np.random.default_rng(0).normal(size=9000)
    with nothing_compiled() as asked:
        first = cukde.kde(X, X, 0.3, deterministic=True)
    assert all(f is survey.loop for f in asked)  # of which only choices are made
    assert (first == cukde.kde(X, X, 0.3, deterministic=True)).all()


def test_many_answers_take_no_longer_than_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).normal(size=9000)
    with nothing_compiled() as asked:
        cukde.cdf(x, x, 0.3)
        before = len(asked)
        cukde.cdf(x, x, 0.3)
        assert len(asked) == 2 * before > 0
        monkeypatch.setattr(meanwhile, "_PATIENCE", 0.0)
        cukde.cdf(x, x, 0.3)
        assert len(asked) == 2 * before


SCRIPT = """
import numpy as np, cukde, time, os
x = np.random.default_rng(0).normal(size=20000)
first = cukde.kde(x, x, 0.2)
from cukde.core.cpu import jit, meanwhile
assert "outward" not in jit.compiled() and meanwhile.compiles()
x[:] = np.nan  # the caller's own
if hasattr(os, "fork") and (pid := os.fork()) == 0:
    os._exit(int(not np.isfinite(cukde.kendalltau(np.arange(30.0), np.arange(30.0)).statistic)))
elif hasattr(os, "fork"):
    assert os.waitpid(pid, 0)[1] == 0
"""
COMPILED = """
import threading, warnings
enter, threads = warnings.catch_warnings.__enter__, set()
def entered(self):
    threads.add(threading.current_thread())
    return enter(self)
warnings.catch_warnings.__enter__ = entered  # which replaces the filters of all threads
while meanwhile.compiles():
    time.sleep(0.05)
assert "evaluate" in jit.compiled()
x = np.random.default_rng(0).normal(size=20000)
assert np.abs(cukde.kde(x, x, 0.2) / first - 1).max() < 1e-11
assert threads <= {threading.main_thread()}
"""


@pytest.mark.long
@pytest.mark.parametrize("script", [SCRIPT, SCRIPT + COMPILED], ids=["which ends at once", "which goes on"])
def test_a_process_without_a_cache(script: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr


@pytest.mark.small
@pytest.mark.parametrize("d", [2, 6, 40])
def test_few_queries(d: int) -> None:
    """What NumPy adds to sums is not added again by compiled code."""
    rng = np.random.default_rng(d)
    X, Y = rng.normal(size=(9000, d)), rng.normal(size=(3, d))
    for call in (cukde.score, cukde.kde, cukde.laplace_kde):
        with nothing_compiled():
            plain = call(X, Y, 2.0)
        np.testing.assert_allclose(plain, call(X, Y, 2.0), rtol=1e-9)
