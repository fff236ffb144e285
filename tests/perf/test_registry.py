"""Every public operation and every study kernel has a cost."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import benchmarks
import cukde
from cukde import bandwidth, functions, perf, sphere
from cukde.core.cost.sizes import takes
from tests.private import kernels_folder, registry

# What computes nothing of a size on a device, and why it has no cost.
WITHOUT = {
    "KernelDensity": "its methods are the functions",
    "OutlierDetector": "its methods are the functions",
    "gaussian_kde": "its methods are the functions",
    "warmup": "loads kernels",
    "set_output": "is an option",
    "fit_piecewise": "its time is that of the function that is fitted",
    "sphere.from_degrees": "gives points other coordinates",
    "sphere.to_degrees": "gives points other coordinates",
    "functions.polynomial": "returns a polynomial that is kept",
}

_FOUND = [module.name for module in pkgutil.walk_packages(benchmarks.__path__, "benchmarks.")]
HAS_CUPY = importlib.util.find_spec("cupy") is not None  # which the launchers import
_STUDY = [importlib.import_module(name) for name in _FOUND if HAS_CUPY and re.search(r"\.study(_\w+)?$", name)]
STUDY = {module.__name__: module for module in _STUDY if hasattr(module, "STEM")}  # the launchers


def public() -> Iterator[tuple[str, Any]]:
    """Functions and classes by the names of their costs."""
    for module in (cukde, bandwidth, functions, sphere):
        for name in module.__all__:
            found = getattr(module, name)
            if callable(found) and getattr(found, "__module__", "").startswith("cukde"):
                yield f"{module.__name__}.{name}".removeprefix("cukde."), found


PUBLIC = {name: found for name, found in public() if not (isinstance(found, type) and issubclass(found, Warning))}


def is_declared(target: Callable[..., Any]) -> bool:
    return any(operation.target is target for operation in registry._BY_NAME.values())


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_operation_has_a_cost(name: str) -> None:
    assert is_declared(PUBLIC[name]) != (name in WITHOUT)


def test_what_has_no_cost_is_public() -> None:
    assert WITHOUT.keys() <= PUBLIC.keys()


@pytest.mark.parametrize("name", STUDY)
def test_every_study_kernel_has_a_cost(name: str) -> None:
    declared = [found for _, found in inspect.getmembers(STUDY[name], callable) if is_declared(found)]
    assert declared
    assert all(operation.name.startswith("study.") for operation in map(_of, declared))


@pytest.mark.skipif(not HAS_CUPY, reason="the launchers need CuPy: install the test extra")
def test_every_study_source_has_a_launcher() -> None:
    passes = [module.specialisations() for module in _STUDY if hasattr(module, "specialisations")]
    of_calls = {one.stem for kernels in passes for one in kernels}  # in the place of the library's own
    assert {module.STEM for module in STUDY.values()} | of_calls == {
        f"study/{path.stem}" for path in (kernels_folder() / "study").glob("*.cu")
    }


def _of(target: Callable[..., Any]) -> registry.Operation:
    return next(operation for operation in registry._BY_NAME.values() if operation.target is target)


def test_names_are_those_of_the_public_functions() -> None:
    assert {name for name in perf.operations() if not name.startswith("study.")} >= PUBLIC.keys() - WITHOUT.keys()


def test_formulas_that_share_sizes() -> None:
    @dataclasses.dataclass(frozen=True)
    class Sizes:
        n: int
        m: int
        dtype: str = "float32"
        weighted: bool = False

    @takes(Sizes, "n k dtype", dtype="float64")
    def one(on: perf.Peaks, sizes: Sizes, k: int = 3) -> perf.Counted:
        """Count one."""
        return perf.Counted((perf.Part(sizes.dtype, bytes=sizes.n + 100 * sizes.m + 10_000 * k),), "here")

    assert str(inspect.signature(one)).startswith("(on: 'perf.Peaks', *, n: ")
    assert [(p.name, p.default) for p in inspect.signature(one).parameters.values()][2:] == [
        ("k", 3),
        ("dtype", "float64"),
    ]
    assert (one.__name__, one.__doc__) == ("one", "Count one.")
    on = perf.peaks("H200")
    assert one(on, n=1).parts[0] == perf.Part("float64", bytes=30_001)
    assert one(on, Sizes(n=1, m=2), n=5, k=1).parts[0] == perf.Part("float32", bytes=10_205)
    with pytest.raises(TypeError, match="other"):
        one(on, n=1, other=2)
    with pytest.raises(TypeError, match="n"):
        one(on)
