"""Scikit-learn's own tests of ``KernelDensity``, and its checks of estimators, run on ``cukde.KernelDensity``."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import cukde

# How many of its tests must have passed on ours at least: scikit-learn 1.9 has 56 that make an estimator.
LEAST = 50


def test_scikit_learns_own_tests_pass(tmp_path: Path) -> None:
    if importlib.util.find_spec("sklearn.neighbors.tests") is None:
        pytest.skip("scikit-learn is installed without its tests")
    root = Path(__file__).parents[1]
    report = tmp_path / "report.txt"
    configuration = tmp_path / "pytest.ini"
    configuration.write_text("[pytest]\n")  # scikit-learn's tests, not under this project's options
    options = ["-q", "-c", configuration, "-p", "tests.sklearn_kernel_density", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--pyargs", "sklearn.neighbors.tests.test_kde"],
        env=os.environ | {"PYTHONPATH": str(root), "CUKDE_SKLEARN_REPORT": str(report)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    assert int(report.read_text()) >= LEAST, done.stdout[-5000:]


@parametrize_with_checks([cukde.KernelDensity(), cukde.KernelDensity(method="sd")])
def test_scikit_learns_checks_of_estimators(estimator: Any, check: Any) -> None:
    check(estimator)
