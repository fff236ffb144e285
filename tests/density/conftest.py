"""Fixtures of several files of tests."""

from __future__ import annotations

import pytest

from tests.conftest import BACKENDS, Backend


@pytest.fixture(params=[BACKENDS[0], BACKENDS[2]])
def either(request: pytest.FixtureRequest) -> Backend:
    """NumPy and CuPy: what is beside the passes over pairs is the same in the emulation as in NumPy."""
    return Backend(request.param)
