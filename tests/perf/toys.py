"""Toy operations and processors, of round numbers, for tests of the performance model."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cukde.perf import Counted, Part, Peaks, declare
from cukde.perf._measure import Times
from tests.private import perf_explain as _explain, registry

GPU = Peaks(
    name="Toy GPU",
    backend="gpu",
    rates={"memory": 1e12, "cache": 4e12, "fma": 2e13, "exponential": 1e12, "tensor_f16": 1e14},
    launch=5e-6,
    multiprocessors=100,
    clock=1e9,
    cache_bytes=1e6,
    capability=(9, 0),
    source="made up",
)
CPU = Peaks(
    name="Toy CPU",
    backend="cpu",
    rates={
        "memory": 1e10,
        "cache": 1e15,
        "fma": 1e11,
        "exponential": 1e9,
        "exponential_f64": 5e8,
        "float64": 5e10,
        "scalar": 1e9,
    },
    launch=1e-5,
    multiprocessors=2,
    clock=1e9,
    cache_bytes=1e6,
    capability=(0, 0),
    source="made up",
)


def count_half(on: Peaks, *, n: int) -> Counted:
    return Counted((Part("half", bytes=8e3 * n, work={"exponential": 1e3 * n}),), "by hand")


def count_whole(on: Peaks, *, n: int, dtype: str = "float32", precision: str | None = None) -> Counted:
    parts = (
        Part("half", bytes=8e3 * n, work={"exponential": 1e3 * n}),
        Part("rest: sums", bytes=4e3 * n, requested=16e3 * n, work={"instruction": 2e3 * n}, reduction=1e3 * n),
        Part("other", bytes=0, work={"fma": 3e3 * n}),
    )
    return Counted(parts, "by hand", pairs=10 * n, textbook_flops=1e5 * n, textbook_bytes=2e3 * n)


def half(x: Any) -> Any:
    return x


def whole(x: Any, *, precision: str | None = None) -> Any:
    return x


def stages(x: Any, *, precision: str | None = None) -> dict[str, Callable[[], Any]]:
    return {"half": functools.partial(half, x), "rest": lambda: x, "unknown": lambda: x}


class Doubler:
    """An object that is an operation when it is called."""

    def __init__(self, held: Any = None) -> None:
        self.held = held

    def __call__(self, x: Any) -> Any:
        return x


class OnGPU:
    """What an array on a GPU shows of itself."""

    size = 1000
    __cuda_array_interface__: dict[str, Any] = {}  # noqa: RUF012 - an attribute that is looked up alone


def declare_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Declare the toys for one test."""
    monkeypatch.setattr(registry, "_BY_NAME", dict(registry._BY_NAME))
    monkeypatch.setattr(registry, "_BY_TARGET", dict(registry._BY_TARGET))
    declare(count_half, lambda x: {"n": x.size})(half)
    declare(
        count_whole,
        lambda x, precision=None: {"n": x.size, "dtype": "float64", "precision": precision},
        stages=stages,
    )(whole)
    declare(count_half, lambda of, x: {"n": x.size}, name="Doubler")(Doubler)


def time_by(
    monkeypatch: pytest.MonkeyPatch, milliseconds: Callable[[Callable[[], Any]], float]
) -> list[dict[str, Any]]:
    """Make up times; each call is run once. Return what the measurements were asked for."""
    asked: list[dict[str, Any]] = []

    def measure(call: Callable[[], Any], **options: Any) -> Times:
        call()
        asked.append(options)
        median = milliseconds(call)
        return Times(median, 0.9 * median, 1.2 * median, 0.95 * median, 1.1 * median, 7)

    monkeypatch.setattr(_explain, "measure", measure)
    return asked


X = np.zeros(1000)
