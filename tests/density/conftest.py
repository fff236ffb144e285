"""Fixtures of several files of tests."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tests.conftest import BACKENDS, Backend


@pytest.fixture(params=[BACKENDS[0], BACKENDS[2]])
def either(request: pytest.FixtureRequest) -> Backend:
    """NumPy and CuPy: what is beside the passes over pairs is the same in the emulation as in NumPy."""
    return Backend(request.param)


class Modules:
    """Modules of passes over pairs on a GPU by their names, those of ``skipping`` too, and what else a test needs."""

    def __init__(self, package: str = "cukde.density.pairs.gpu", **own: Any) -> None:
        self._package = package
        vars(self).update(own)

    def __getattr__(self, name: str) -> Any:
        if name == "skipping":
            return Modules(f"{self._package}.skipping")
        return importlib.import_module(f"{self._package}.{name}")


def gpu_of(device: Backend) -> Modules:
    """The modules under test, where they run, and arrays for them."""
    own = {name: getattr(device, name) for name in ("asarray", "asnumpy", "size", "xp")}
    return Modules(backend=device, emulated=device.name == "emulated", **own)


@pytest.fixture
def gpu(device: Backend) -> Modules:
    return gpu_of(device)
