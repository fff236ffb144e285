"""Programs of long runs at their smallest, and that they tell what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cukde
from benchmarks.stress import malformed, soak
from tests.public_calls import Call, sandbox

X = np.linspace(-1, 1, 12).reshape(6, 2) ** 3


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda X, Y, h: X[7], "raised IndexError"),
        (lambda X, Y, h: X.astype("f4") @ [1, 2, 3], "names no argument: matmul"),
        (lambda X, Y, h: X * np.nan, "NaN out of finite arguments"),
        (lambda X, Y, h: X * X.strides[0], "but of plain arrays"),
        (lambda X, Y, h: X.fill(0), "changed its arguments"),
        (cukde.kde, None),
    ],
)
def test_faults_are_told(function: Any, text: str | None) -> None:
    call = Call(function, (X[::-1].copy()[::-1], X, 1.0), {})
    if text is not None and "NaN" in text:
        call = Call(lambda X, Y, h, check_finite: function(X, Y, h), call.args, {"check_finite": True})
    _, found = malformed.fault("kde", call)
    assert found is None if text is None else found is not None and text in found


def test_some_calls() -> None:
    with sandbox():
        for number in range(30):
            assert malformed.outcome_of(number)[-1] is None


def test_a_soak_of_a_second(capsys: pytest.CaptureFixture[str]) -> None:
    assert soak.main(["--seconds", "1", "--on", "cpu", "--largest", "400", "--seed", "3"]) == 0
    assert "0 wrong, 0 changed bits" in capsys.readouterr().out


def test_growth_is_told() -> None:
    steady = [{"host_mb": 500.0, "cpu_ms": 3.0} for _ in range(200)]
    assert not any(found["grew"] for found in soak.growth(steady).values())
    leaking = [{"host_mb": 500.0 + k, "cpu_ms": 3.0} for k in range(200)]
    assert {name: found["grew"] for name, found in soak.growth(leaking).items()} == {"host_mb": True, "cpu_ms": False}
