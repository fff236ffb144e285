"""A pytest plugin: scikit-learn's tests of ``KernelDensity`` collected and run with cukde's in its place.

It reports how many tests passed in which cukde's was fitted or was refused to be.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import sklearn.neighbors

import cukde

_made = 0
_passed = 0


class KernelDensity(cukde.KernelDensity):
    """cukde's, counted; at the place where a pickle looks for it."""

    def __new__(cls, *args: Any, **options: Any) -> Any:
        global _made
        _made += 1
        return super().__new__(cls)


# Scikit-learn's own signature, which clone and get_params read.
KernelDensity.__init__ = cukde.KernelDensity.__init__  # type: ignore[method-assign]

# Before anything is collected: the tests import the name.
sklearn.neighbors.KernelDensity = KernelDensity


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    global _passed
    before = _made
    result = yield
    _passed += _made > before
    return result


def pytest_sessionfinish() -> None:
    Path(os.environ["CUKDE_REPORT"]).write_text(str(_passed))
