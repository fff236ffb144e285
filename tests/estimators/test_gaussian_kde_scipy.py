"""SciPy's own tests of ``scipy.stats.gaussian_kde``, run on ``cukde.gaussian_kde``."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests import others_tests

# How many of its tests must have passed on ours at least: SciPy 1.17 has 55 that are not slow, most of dtypes.
LEAST = 45


@pytest.mark.long
def test_scipys_own_tests_pass(tmp_path: Path) -> None:
    if importlib.util.find_spec("scipy.stats.tests") is None:
        pytest.skip("SciPy is installed without its tests")
    modules = ["scipy.stats.tests.test_kdeoth"]
    report, printed = others_tests.run(tmp_path, "estimators.scipy_gaussian_kde", modules)
    assert int(report) >= LEAST, printed[-5000:]
