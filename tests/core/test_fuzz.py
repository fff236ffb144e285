"""Malformed calls of every public function: what comes out is a result, a TypeError, a ValueError or documented."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import dask.array as da
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import cukde
import cukde.dask
import cukde.torch
from tests.framed_calls import FRAMED, framed, silently_wrong
from tests.malformed_calls import DAMAGE, DOCUMENTED, WRONG, broken_promise, calls
from tests.public_calls import CALLS, ON_DEVICE, Draw, public_names, sandbox

pytestmark = pytest.mark.small  # as users call them

MORE = int(os.environ.get("CUKDE_FUZZ", "0"))
"""Calls of each function that no other run had, if set: ``CUKDE_FUZZ=500 python -m pytest tests/core/test_fuzz.py``."""

EXAMPLES = MORE or 8

# Written to a picture, which takes a tenth of a second.
_SLOW = {"perf.roofline": 2}


@pytest.fixture(scope="module", autouse=True)
def folder() -> Iterator[None]:
    with sandbox():
        yield


def test_every_public_function_is_called() -> None:
    assert public_names() == set(CALLS)
    assert set(DOCUMENTED) <= set(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_calls_that_fit_work(name: str) -> None:
    """What is damaged is right before."""
    CALLS[name](Draw(0))()


class Ambiguous:
    """As an empty array of CuPy's: its truth is a warning, and it compares itself entry by entry."""

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        pytest.fail("asked for its truth")

    def __eq__(self, other: object) -> bool:
        pytest.fail(f"compared with {other!r}")


@pytest.mark.parametrize("name", sorted(ON_DEVICE - {"KernelDensity", "OutlierDetector"}))  # whose options fit checks
def test_options_that_are_arrays_are_refused_unasked(name: str) -> None:
    """Also by functions that take arrays of a GPU, which would say of an empty one that it is false."""
    for seed in range(3):
        call = CALLS[name](Draw(seed))
        for option, value in call.kwargs.items():
            if isinstance(value, bool | str):
                with pytest.raises((TypeError, ValueError), match=option):
                    replace(call, kwargs=call.kwargs | {option: Ambiguous()})()


@pytest.mark.parametrize("name", CALLS)
def test_malformed_calls(name: str) -> None:
    @settings(
        max_examples=EXAMPLES if MORE else _SLOW.get(name, EXAMPLES),
        deadline=None,
        database=None,
        derandomize=not MORE,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def check(data: st.DataObject) -> None:
        broken = broken_promise(name, data.draw(calls(name)))
        assert broken is None, broken

    check()


@pytest.mark.parametrize("name", sorted(FRAMED))
def test_frames_are_arrays_with_names(name: str) -> None:
    """Whatever the order of columns, the library and the dtypes; what is spoilt is an error, never other numbers."""

    @settings(max_examples=EXAMPLES, deadline=None, database=None, derandomize=not MORE)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        calls = framed(name, lambda options: data.draw(st.sampled_from(options)), data.draw(st.integers(0, 999)))
        wrong = silently_wrong(calls)
        assert wrong is None, wrong

    check()


X = np.linspace(-1, 1, 12).reshape(6, 2) ** 3
RAGGED = [[1.0], [1.0, 2.0]]
MANY = np.ones(3)  # whose truth is ambiguous

FOUND: dict[str, tuple[Callable[[], Any], str]] = {
    "no columns": (lambda: cukde.mutual_information(X, None, None, 0.7), "columns_a must be columns"),
    "no finite weight": (
        lambda: cukde.conditional_cdf(
            X, {0: X[:1, 0]}, X[:1, 1], 0.7, weights=[1, np.inf, 1, 1, 1, 1], check_finite=False
        ),
        "weights must be finite",
    ),
    "no queries": (lambda: cukde.conditional_cdf(X, {0: X[:1, 0]}, None, 0.7), "Y must be an array"),
    "almost no rows": (lambda: cukde.bandwidth.positive(X, n_eff=5e-324), "n_eff must leave"),
    "many at a value": (lambda: cukde.conditional_sample(X, {0: 0.5}, 0.7, size=2**63), "size must be at most"),
    "more samples than numbers": (lambda: cukde.positive_mass(X, 0.7, samples=2**63), "samples must be at most"),
    "a sample beyond memory": (lambda: cukde.gaussian_kde(X.T).resample(2**63), "size must be at most"),
    "the size of a sample": (lambda: cukde.gaussian_kde(X.T).resample("3"), "size must be an integer"),
    "a negative seed": (lambda: cukde.gaussian_kde(X.T).resample(3, seed=-1), "seed must be from 0 to"),
    "a rule of lists": (lambda: cukde.gaussian_kde(X.T, RAGGED), "bw_method must be a rectangular array"),
    "periods of lists": (lambda: cukde.kde(X[:, 0], X[:, 0], 0.7, periods=RAGGED), "periods must be"),
    "scales of lists": (lambda: cukde.plot.pairs(X, log_scale=RAGGED), "log_scale must be"),
    "masses of lists": (lambda: cukde.plot.contours(X, mass=RAGGED), "mass must be"),
    "labels of lists": (lambda: cukde.plot.anomalies(X[:2, 0], hue=RAGGED), "hue must have shape"),
    "pieces beyond memory": (lambda: cukde.fit_piecewise(np.exp, (-1, 1), pieces=2**63), "pieces must be at most"),
    "a short period": (lambda: cukde.kde(X[:, 0], X[:, 0], 0.7, periods=5e-324), "must be at least 1e-300"),
    "no dtype": (lambda: cukde.perf.cost("kde", "H200", dtype=1, n=9, m=9, d=2), "dtype must be a dtype"),
    "a masked end": (
        lambda: cukde.fit_piecewise(np.exp, np.ma.masked_equal([0.0, 1.0], 1)),
        "domain must not have masked",
    ),
    "one limit": (lambda: cukde.plot.density(X[:, 0], limits=np.array(1.5)), "limits must be a pair"),
    "methods": (lambda: cukde.bandwidth.select(X, methods=3), "methods must be a sequence of names"),
    "functions": (lambda: cukde.warmup(9, 9, 2, functions=len), "functions must be a sequence of names"),
    "a function": (lambda: cukde.warmup(9, 9, 2, functions=[MANY]), "functions must be among"),
    "sizes": (lambda: cukde.warmup(9, 9, 2**63, functions="kde"), "n, m, d and values must be"),
    "a polynomial": (lambda: cukde.functions.polynomial(["exp"]), "name must be one of"),
    "no polynomial": (lambda: cukde.torch.evaluate(len, X), "p must be a cukde.PiecewisePolynomial"),
    "predict": (lambda: cukde.perf.predict("kde", "H200", n=9, m=9, d=2, cold=MANY), "cold must be"),
    "sensitivity": (lambda: cukde.perf.sensitivity("kde", "H200", n=9, m=9, d=2, cold=MANY), "cold must be"),
    "explain": (lambda: cukde.perf.explain(cukde.kde, X, X, 0.7, on="cpu", cold=MANY), "cold must be"),
    "no function": (lambda: cukde.perf.explain(memoryview(X), X, X, 0.7), "explain needs|fn must"),
    "bytes": (lambda: cukde.perf.flash_tile_bytes(2, moments=MANY), "moments must be"),
    "a roofline": (lambda: cukde.perf.roofline(3), "points must be a sequence of calls"),
    "a picture": (lambda: cukde.perf.roofline([], path=3), "path must be the path of a file"),
    "a file": (lambda: cukde.KernelDensity().fit(X).save("a\0b"), "path must be the path of a file"),
    "turns": (lambda: cukde.perf.measure(len, X, rotate=3), "rotate must be a sequence"),
    "weights of blocks": (lambda: cukde.dask.block_boxes(da.from_array(X), weights=2), "weights must have shape"),
    "no weights of blocks": (
        lambda: cukde.dask.density_interval(da.from_array(X), X, 0.7, weights=()),
        "weights must have shape",
    ),
    "axes of lists": (lambda: cukde.kendalltau(X, X, axis=[0, [1, 0]]), "axis must be"),
    "dates": (
        lambda: cukde.dask.density_interval(da.from_array(X), da.from_array(X.astype("M8[s]")), 0.7),
        "Y must hold real numbers",
    ),
}
"""Calls of ``benchmarks/stress/malformed.py`` that once raised errors of the implementation, or returned NaN."""


@pytest.mark.parametrize("found", FOUND)
def test_errors_name_the_argument(found: str) -> None:
    call, message = FOUND[found]
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_numbers_may_be_small_integers() -> None:
    cukde.warmup(np.int8(18), None, np.int8(1), functions="kde", values=np.int8(3), backend="cpu")


def test_sizes_may_be_fractions() -> None:
    sizes = {"n": 100, "d": 3}
    found = cukde.perf.sensitivity("kde", "A100", m=Fraction(1, 2), **sizes)
    assert found.rows == cukde.perf.sensitivity("kde", "A100", m=0.5, **sizes).rows


def test_damage_is_done() -> None:
    """No kind of damage raises itself, and each makes something else."""
    a = np.linspace(-1, 1, 6).reshape(3, 2)
    for name, damage in DAMAGE.items():
        made = damage(a.copy())
        same = type(made) is np.ndarray and made.dtype == a.dtype and made.shape == a.shape and (made == a).all()
        if name not in ("sorted", "strided", "read-only"):
            assert not same, name
    for make in WRONG.values():
        make()
