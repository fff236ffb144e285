"""SciPy's own tests of ``scipy.stats.kendalltau``, run on ``cukde.kendalltau``."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# The files that call it, and how many tests of it must have passed in each at least: SciPy 1.17 has 72, 25, 7 and 1.
FILES = {"test_stats": 50, "test_axis_nan_policy": 15, "test_mstats_basic": 5, "test_resampling": 1}
NAMES = "kendalltau or kendall_tau"


def test_scipys_own_tests_pass(tmp_path: Path) -> None:
    if importlib.util.find_spec("scipy.stats.tests") is None:
        pytest.skip("SciPy is installed without its tests")
    root = Path(__file__).parents[1]
    report = tmp_path / "report.json"
    configuration = tmp_path / "pytest.ini"
    configuration.write_text("[pytest]\n")  # SciPy's tests, not under this project's options
    options = ["-q", "-c", configuration, "-p", "tests.scipy_kendalltau", "-p", "no:cacheprovider", "-k", NAMES]
    modules = [f"scipy.stats.tests.{name}" for name in FILES]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--pyargs", *modules],
        env=os.environ | {"PYTHONPATH": str(root), "CUKDE_SCIPY_REPORT": str(report)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    passed = json.loads(report.read_text())
    assert {name for name, least in FILES.items() if passed.get(name, 0) < least} == set(), passed
