"""What is public says so: names of modules, types of arguments and results, and short texts of results."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import cukde
from cukde import perf

MODULES = ["cukde", *(f"cukde.{name}" for name in ("bandwidth", "dask", "estimators", "functions", "perf", "plot"))]


@pytest.mark.parametrize("name", MODULES)
def test_modules_list_their_public_names_alone(name: str) -> None:
    module = importlib.import_module(name)
    assert dir(module) == sorted(module.__all__)
    assert all(hasattr(module, each) for each in dir(module))


def test_results_are_short_texts() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    assert repr(cukde.Concordance(*[rng.integers(0, 9, (40, 40))] * 5)) == (
        "Concordance("
        + ", ".join(f"{name}=<numpy array of shape (40, 40), int64>" for name in cukde.Concordance._fields)
        + ")"
    )
    assert repr(cukde.kendalltau([1, 2, 3], [1, 2, 3])).startswith("SignificanceResult(statistic=1.0, pvalue=0.33")
    found: list[Any] = [
        cukde.modes(X, 0.8),
        cukde.bandwidth.cross_validate(X),
        cukde.kendall_matrix(rng.normal(size=(30, 30)), pvalue=True),
        perf.cost("kde", n=100, m=10, d=2),
        perf.predict("kde", "H200", n=100, m=10, d=2),
    ]
    for result in found:
        text = repr(result)
        assert text.startswith(f"{type(result).__name__}(")
        assert len(text) < 600
        assert "\n" not in text
    assert "labels=<numpy array of shape (60,), int64>" in repr(found[0])
    assert "bandwidth=[0." in repr(found[1])
