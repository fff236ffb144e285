"""Scikit-learn's own tests of ``KernelDensity``, and its checks of estimators, run on ``cukde.KernelDensity``."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import cukde
from tests import others_tests

# How many of its tests must have passed on ours at least: scikit-learn 1.9 has 56 that make an estimator.
LEAST = 50


@pytest.mark.long
def test_scikit_learns_own_tests_pass(tmp_path: Path) -> None:
    if importlib.util.find_spec("sklearn.neighbors.tests") is None:
        pytest.skip("scikit-learn is installed without its tests")
    modules = ["sklearn.neighbors.tests.test_kde"]
    report, printed = others_tests.run(tmp_path, "estimators.sklearn_kernel_density", modules)
    assert int(report) >= LEAST, printed[-5000:]


@parametrize_with_checks([cukde.KernelDensity(), cukde.KernelDensity(method="sd")])
def test_scikit_learns_checks_of_estimators(estimator: Any, check: Any) -> None:
    check(estimator)
