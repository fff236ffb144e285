"""SciPy's own tests of ``scipy.stats.kendalltau``, run on ``cukde.kendalltau``."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from tests import others_tests

# The files that call it, and how many tests of it must have passed in each at least: SciPy 1.17 has 72, 25, 7 and 1.
FILES = {"test_stats": 50, "test_axis_nan_policy": 15, "test_mstats_basic": 5, "test_resampling": 1}
# SciPy 1.18 has two tests of what differs: its results of float32 are float32, and those of no samples NumPy's numbers.
NAMES = "(kendalltau or kendall_tau) and not (large_arrays and float32) and not input_validation_edge_cases"


@pytest.mark.long
def test_scipys_own_tests_pass(tmp_path: Path) -> None:
    if importlib.util.find_spec("scipy.stats.tests") is None:
        pytest.skip("SciPy is installed without its tests")
    modules = [f"scipy.stats.tests.{name}" for name in FILES]
    report, _ = others_tests.run(tmp_path, "kendall.scipy_kendalltau", modules, "-k", NAMES)
    passed = json.loads(report)
    assert {name for name, least in FILES.items() if passed.get(name, 0) < least} == set(), passed
