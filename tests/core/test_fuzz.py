"""Malformed calls of every public function: what comes out is a result, a TypeError, a ValueError or documented."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

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
