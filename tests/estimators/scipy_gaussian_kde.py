"""A pytest plugin: SciPy's tests of ``gaussian_kde`` collected and run with cukde's in its place.

It reports how many tests passed in which cukde's was made or was refused to be.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import scipy.stats

import cukde

_made = 0
_passed = 0


class gaussian_kde(cukde.gaussian_kde):
    """cukde's, counted."""

    def __new__(cls, *args: Any, **options: Any) -> Any:
        global _made
        _made += 1
        return super().__new__(cls)


# Before anything is collected: the tests derive classes from it.
scipy.stats.gaussian_kde = gaussian_kde


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    global _passed
    before = _made
    result = yield
    _passed += _made > before
    return result


def pytest_sessionfinish() -> None:
    Path(os.environ["CUKDE_REPORT"]).write_text(str(_passed))
