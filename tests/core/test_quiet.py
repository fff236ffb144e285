"""What callers set by ``numpy.seterr`` and make of warnings does not reach the arithmetic of public calls."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cukde
from tests.public_calls import CALLS, Call, Draw, only_documented_warnings, sandbox

pytestmark = pytest.mark.small  # as users call them

# Random without a seed, as of SciPy.
_RANDOM = {"gaussian_kde.integrate_box", "gaussian_kde.resample"}


@pytest.fixture(scope="module", autouse=True)
def folder() -> Iterator[None]:
    with sandbox():
        yield


class Odd(Draw):
    """Draws whose numbers lie at the ends of their range, or far apart; the seed says which."""

    _KINDS = (
        "usual",
        "small",
        "large",
        "two rows",
        "offset, and weights of zero",
        "far apart, and weights of 30 decades",
        "constant",
        "subnormal",
        "squares overflow",
        "a constant column",
        "far queries",
        "ties",
    )

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.kind = self._KINDS[seed % len(self._KINDS)]
        if self.kind == "two rows":
            self.n = 2

    def array(self, *shape: int) -> np.ndarray:
        a, double = self.rng.normal(size=shape), self.dtype == "float64"
        scales = {"small": 1e-30, "large": 1e30, "far queries": 100.0}
        scales |= {"subnormal": 1e-310 if double else 1e-42, "squares overflow": 1e160 if double else 1e20}
        a *= scales.get(self.kind, 1.0)
        if self.kind.startswith("offset"):
            a += 1e6
        elif self.kind.startswith("far apart"):
            a = np.where(self.rng.random(shape) < 0.1, a * 1e4, a)
        elif self.kind == "constant":
            a[...] = 1.5
        elif self.kind == "a constant column" and a.ndim > 1:
            a[:, :1] = 2
        elif self.kind == "ties":
            a = np.round(a)
        return a.astype(self.dtype)

    def positive(self, *shape: int) -> np.ndarray:
        w = self.rng.uniform(0.3, 2, shape)
        if "30 decades" in self.kind:
            w = 10 ** self.rng.uniform(-25, 5, shape)
        elif "zero" in self.kind:
            w[1:-1] *= self.rng.random(w[1:-1].shape) < 0.5
        return w.astype(self.dtype)


class Refused(str):
    """The type of an error, and what it says."""


def outcome(call: Call) -> Any:
    """Its result, or its error."""
    try:
        return call()
    except Exception as error:
        return Refused(f"{type(error).__name__}: {error}")


def strictly(call: Call) -> Any:
    """The same where floating-point errors raise, as do warnings that no function documents."""
    with warnings.catch_warnings(), np.errstate(all="raise"):
        only_documented_warnings()
        return outcome(call)


def same(a: Any, b: Any) -> bool:
    """Whether results are the same, to the bit."""
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray | np.number | float):
        return np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind in "fc")
    return type(a) is type(b)


@pytest.mark.parametrize(("k", "name"), list(enumerate(CALLS)))
def test_calls_are_the_same_where_floating_point_errors_raise(k: int, name: str) -> None:
    for seed in (k % 12, (k + 5) % 12):
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                first, second = CALLS[name](Odd(seed)), CALLS[name](Odd(seed))
                usual = outcome(first)
        except Exception:  # what the call is made of refuses such data
            continue
        strict = strictly(second)
        if isinstance(usual, Refused) or isinstance(strict, Refused):
            assert usual == strict
        else:
            assert name in _RANDOM or same(usual, strict)


def test_the_callers_settings_stay() -> None:
    with np.errstate(all="raise"):
        cukde.kde(np.zeros(5), np.full(3, 60.0), 1.0)
        with pytest.raises(FloatingPointError):
            np.exp(np.float64(-800))


def test_densities_that_underflow_are_zero_for_frames_and_estimators_too() -> None:
    X, far = np.linspace(0, 1, 50), np.full(4, 1e3)
    with np.errstate(all="raise"):
        assert not cukde.kde(X, far, 1.0).any()
        assert not cukde.kde(pd.DataFrame({"a": X}), pd.DataFrame({"a": far}), 1.0).any()
        assert not cukde.gaussian_kde(X)(far).any()
        assert np.isfinite(cukde.KernelDensity().fit(X[:, None]).score_samples(far[:, None])).all()
