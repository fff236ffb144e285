"""Objects that public functions return are pickled by the names of public modules, and come back as they were."""

from __future__ import annotations

import functools
import pickle
import pickletools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukde
from cukde import perf
from tests.perf import toys

PUBLIC = {
    f"cukde{name}" for name in ("", ".bandwidth", ".dask", ".estimators", ".functions", ".perf", ".plot", ".sphere")
}
SIZES = {"n": 100, "m": 10, "d": 2}
X = np.random.default_rng(0).normal(size=(20, 2)).round(3)


@functools.cache
def _explained() -> perf.Explanation:
    return perf.explain(toys.whole, X[:, 0], on=toys.CPU, seconds=1e-3)


# By the name of the class: public, or of what a public function returns.
MADE: dict[str, Callable[[], Any]] = {
    "KernelDensity": lambda: cukde.KernelDensity(bandwidth=0.5).fit(X),
    "OutlierDetector": lambda: cukde.OutlierDetector(bandwidth=0.5).fit(X),
    "gaussian_kde": lambda: cukde.gaussian_kde(X.T),
    "PiecewisePolynomial": lambda: cukde.PiecewisePolynomial([[1.0, 2.0]], [0.0, 1.0, 2.0]),
    "FittedPolynomial": lambda: cukde.fit_piecewise(np.exp, (0, 1), 1),
    "CovarianceValidation": lambda: cukde.bandwidth.cross_validate(
        np.random.default_rng(0).normal(size=(20, 2)), covariance=True
    ),
    "CrossValidation": lambda: cukde.bandwidth.cross_validate(np.arange(3.0), bandwidths=[0.5, 1, 2]),
    "Selection": lambda: cukde.bandwidth.select(X),
    "Modes": lambda: cukde.modes(X, 1.0),
    "SignificanceResult": lambda: cukde.kendalltau([1, 2, 3], [1, 3, 2]),
    "Concordance": lambda: cukde.concordance(np.eye(3)),
    "Cost": lambda: perf.cost("kde", **SIZES),
    "Counted": lambda: perf.Counted((perf.Part("all", bytes=16.0),), "by hand"),
    "Part": lambda: perf.cost("kde", **SIZES).parts[0],
    "Peaks": lambda: perf.peaks("H200"),
    "Prediction": lambda: perf.predict("kde", "H200", **SIZES),
    "PartTime": lambda: perf.predict("kde", "H200", **SIZES).parts[0],
    "CallPlan": lambda: perf.plan(cukde.kde, X, X, 1.0, gpu="H200"),
    "Explanation": _explained,
    "Stage": lambda: _explained().stages[0],
    "UnitRate": lambda: _explained().rates[0],
    "Roofline": lambda: perf.roofline([_explained()]),
    "RooflinePoint": lambda: perf.roofline([_explained()]).points[0],
    "Sensitivity": lambda: perf.sensitivity("kde", "H200", **SIZES),
    "Perturbed": lambda: perf.sensitivity("kde", "H200", **SIZES).rows[0],
    "Times": lambda: perf.Times.of([1.0, 2.0, 3.0]),
    **{
        name: functools.partial(getattr(cukde, name), "a message") for name in cukde.__all__ if name.endswith("Warning")
    },
}


def modules_of(pickled: bytes) -> set[str]:
    """Modules of this library that a pickle names; protocol 2 names each as it is."""
    named = {str(argument).split(" ")[0] for code, argument, _ in pickletools.genops(pickled) if code.name == "GLOBAL"}
    return {module for module in named if module.split(".")[0] == "cukde"}


@pytest.mark.parametrize("name", MADE)
def test_objects_are_pickled_by_public_names(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    toys.declare_all(monkeypatch)
    made = MADE[name]()
    assert type(made).__name__ == name
    named = modules_of(pickle.dumps(made, 2))
    assert named
    assert named <= PUBLIC
    again = pickle.loads(pickle.dumps(made))
    assert type(again) is type(made)
    assert repr(again) == repr(made)


def test_every_public_class_of_the_model_is_made() -> None:
    assert {name for name in perf.__all__ if name[0].isupper()} - {"Unit"} <= MADE.keys()
