"""Hooks of pytest plugins that put cukde's class in the place of another library's: how many tests made one and passed.

A plugin imports the hooks, and derives its class from :class:`Counted` first.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

_made = 0
_passed = 0


class Counted:
    """Counts what is made, or is refused to be."""

    def __new__(cls, *args: Any, **options: Any) -> Any:
        global _made
        _made += 1
        return super().__new__(cls)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    global _passed
    before = _made
    result = yield
    _passed += _made > before
    return result


def pytest_sessionfinish() -> None:
    Path(os.environ["CUKDE_REPORT"]).write_text(str(_passed))
