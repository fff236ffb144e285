"""What is public says so: names of modules, types of arguments and results, and short texts of results."""

from __future__ import annotations

import importlib
import inspect
import typing
from typing import Any

import numpy as np
import pytest

import cukde
from cukde import perf
from cukde.core.types import Array
from tests import processes

MODULES = [
    "cukde",
    *(f"cukde.{name}" for name in ("bandwidth", "dask", "estimators", "functions", "perf", "plot", "sphere")),
]


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


def public_functions() -> dict[str, Any]:
    names = [(name, each) for name in MODULES for each in importlib.import_module(name).__all__]
    found = {f"{name}.{each}": getattr(importlib.import_module(name), each) for name, each in names}
    methods = {
        f"{c.__name__}.{k}": getattr(c, k) for c in (cukde.KernelDensity, cukde.PiecewisePolynomial) for k in vars(c)
    }
    found |= {name: each for name, each in methods.items() if "._" not in name}
    return {name: inspect.unwrap(f) for name, f in found.items() if inspect.isfunction(f) or inspect.ismethod(f)}


def test_signatures_say_types() -> None:
    """All of them can be resolved, and none of an argument or a result is just anything, but where it is."""
    dask = pytest.importorskip("dask.array")
    axes = pytest.importorskip("matplotlib.axes")
    anything = {
        *("tck", "p", "return of PiecewisePolynomial.to_scipy"),  # SciPy's
        *("options", "ends", "kwargs", "args", "shapes"),  # what other functions take
    }
    found = public_functions()
    assert len(found) > 60
    bare = []
    for name, function in found.items():
        hints = typing.get_type_hints(function, localns={"da": dask, "Axes": axes.Axes})
        bare += [f"{key} of {name}" for key, hint in hints.items() if hint is Any and key not in anything]
    assert sorted(set(bare) - anything) == []


def test_arrays_are_arrays() -> None:
    import dask.array as da

    assert isinstance(np.ones(2), Array)
    assert isinstance(da.ones(2), Array)
    assert not isinstance([1.0], Array)


def test_dask_is_loaded_when_it_is_first_asked_for() -> None:
    pytest.importorskip("dask.array")
    code = (
        "import sys, cukde; assert 'dask' not in sys.modules; print(cukde.dask.kde.__module__, 'dask' in sys.modules)"
    )
    assert processes.finished(processes.start("-c", code))[0] == "cukde.density.dask.api True\n"
