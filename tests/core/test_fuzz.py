"""Malformed calls of every public function: what comes out is a result, a TypeError, a ValueError or documented."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.framed_calls import FRAMED, Framed, framed, silently_wrong
from tests.malformed_calls import DAMAGE, DOCUMENTED, WRONG, broken_promise, calls
from tests.public_calls import CALLS, ON_DEVICE, Call, Draw, public_names, sandbox

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
    for seed in range(2):
        CALLS[name](Draw(seed))()


class Ambiguous:
    """As an empty array of CuPy's: its truth is a warning, and it compares itself entry by entry."""

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        pytest.fail("asked for its truth")

    def __eq__(self, other: object) -> bool:
        pytest.fail(f"compared with {other!r}")


@pytest.mark.parametrize("name", sorted(ON_DEVICE - {"KernelDensity"}))  # whose options fit checks
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


class TestBrokenPromises:
    """Each kind is found."""

    @staticmethod
    def found(f: Any, *args: Any) -> str | None:
        return broken_promise("toy", Call(f, args))

    def test_an_error_of_another_type(self) -> None:
        assert self.found(lambda: {}["a"]) == "toy raised KeyError: 'a'"
        assert self.found(int, "x") is None
        assert self.found(len, 3) is None

    def test_a_warning_about_a_cast(self) -> None:
        assert "ComplexWarning" in str(self.found(lambda: np.ones(2, complex).astype(float)))
        assert "RuntimeWarning" in str(self.found(lambda: np.ones(2) / np.zeros(2)))

    def test_changed_arguments(self) -> None:
        for f, a in (
            (lambda a: a.sort(), np.array([2.0, 1.0])),
            (lambda a: a.pop(), [1]),
            (lambda a: a.clear(), {1: 2}),
        ):
            assert self.found(f, a) == "toy changed its arguments"

    def test_documented_errors_are_those_of_one_function(self) -> None:
        def no_file() -> None:
            raise FileNotFoundError

        assert broken_promise("perf.roofline", Call(no_file)) is None
        assert broken_promise("kde", Call(no_file)) is not None


def test_wrong_numbers_of_frames_are_found() -> None:
    """As of columns that are taken by position."""
    a = np.arange(6.0).reshape(3, 2)
    plain = Call(np.sum, (a,), {"axis": 0})
    moved = Call(lambda: pd.DataFrame(a[:, ::-1]).sum())
    assert "Mismatched elements" in str(silently_wrong(Framed(plain, moved, None)))
    assert silently_wrong(Framed(plain, plain, "a column less")) == "nothing was said of a column less"
    assert "frames are refused" in str(silently_wrong(Framed(plain, Call(int, ("x",)), None)))
    assert "arrays are refused" in str(silently_wrong(Framed(Call(int, ("x",)), plain, None)))


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
