"""A pytest plugin: SciPy's tests of ``scipy.stats.kendalltau`` collected and run with cukde's in its place.

It reports, for each file of tests, how many tests passed that called cukde's.
"""

from __future__ import annotations

import collections
import json
import os
from pathlib import Path
from typing import Any

import pytest
import scipy.stats
from scipy._lib import _array_api

import cukde

_scipy = scipy.stats.kendalltau
_calls = 0
_passed: collections.Counter[str] = collections.Counter()


def kendalltau(*args: Any, _no_deco: bool = False, **options: Any) -> Any:
    """cukde's function; SciPy's own core where a test asks for that, as the reference to compare with."""
    global _calls
    if _no_deco:
        return _scipy(*args, _no_deco=True, **options)
    _calls += 1
    return cukde.kendalltau(*args, **options)


# Before anything is collected: the tests' tables hold the function itself.
scipy.stats.kendalltau = scipy.stats._stats_py.kendalltau = kendalltau
# From 1.18 on they look up which libraries' arrays a function takes.
_taken = getattr(_array_api, "xp_capabilities_table", {})
if _scipy in _taken:
    _taken[kendalltau] = _taken[_scipy]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    before = _calls
    result = yield
    if _calls > before:
        _passed[item.path.stem] += 1
    return result


def pytest_sessionfinish() -> None:
    Path(os.environ["CUKDE_REPORT"]).write_text(json.dumps(_passed))
