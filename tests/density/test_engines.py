"""Every engine of the GPU that takes all pairs by products, emulated, against float64: sizes, weights and values."""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

from cukde.core.gpu.launch import Specialisation
from cukde.core.plan import only
from cukde.density.options import Options
from cukde.density.plan import gpu as plan_gpu
from tests.density.samples import OUTPUTS, Sample, verify
from tests.tolerances import DENSITY


class Engine(NamedTuple):
    """A pass, what it is asked for, and the dimensions that its kernels are for and at whose edges they change."""

    name: str
    precision: str
    dimensions: tuple[int, ...]
    allowed: float
    squared_radius: float = 50.0
    kernel: str = ""  # of sums

    @property
    def dtype(self) -> str:
        return "float64" if self.precision == "float64" else "float32"

    def sample(self, n: int, m: int | None, d: int | None = None, *, weighted: bool = False) -> Sample:
        """Of dimensions that all kernels have; without queries at the data."""
        s = Sample(n, m or 1, d or self.dimensions[0], weighted=weighted, dtype=self.dtype)
        s.Y = s.X if m is None else s.Y
        return s


FLOAT32, FLOAT64 = (DENSITY["gpu", dtype].value for dtype in ("float32", "float64"))
ONE_TERM = 1e-2  # 11 bits of z, r |z| 2^-12 of an exponent
FEW, MANY = (5, 2, 15, 16, 17, 20, 33, 64), (66, 65, 100, 192)
ENGINES = {
    "f16": Engine("f16", "float32", FEW, FLOAT32, kernel="kde_f16x2"),
    "f16 of one term": Engine("f16", "tf32", FEW, ONE_TERM, kernel="kde_f16"),
    "f16 of four products": Engine("f16", "float32", (5, 2, 16), FLOAT32, 270.0, kernel="kde_f16x2"),
    "f64": Engine("f64", "float64", (5, 2, 7, 8, 9, 16, 17, 32, 33, 48, 49, 64), FLOAT64, kernel="kde_f64_products"),
    "wide": Engine("wide", "float32", MANY, FLOAT32, kernel="kde_wide_f16x2"),
    "wide of one term": Engine("wide", "tf32", MANY, ONE_TERM, kernel="kde_wide_f16"),
    "wide_f64": Engine("wide_f64", "float64", MANY, FLOAT64, kernel="powers_f64"),
}
EVERY = pytest.mark.parametrize("name", ENGINES)
ITSELF = pytest.mark.parametrize("itself", [False, True], ids=["queries", "itself"])


@pytest.fixture
def passes(emulated_device: None, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Passes over pairs; blocks of powers in memory are so small that there are several."""
    from cukde.density.pairs.gpu import passes, wide, wide_f64

    for engine, size in ((wide, 2**17), (wide_f64, 2**18)):
        monkeypatch.setattr(engine, "_STAGED_ROWS", 128)
        monkeypatch.setattr(engine, "_STAGED_BYTES", size)
    return passes


def check(passes: ModuleType, name: str, s: Sample, output: Any, k: int = 5) -> None:
    """Take the pass, and compare its sums with the oracle."""
    engine = ENGINES[name]
    V = s.V[:, :k] if output == "values" else None
    options = Options(engine.precision, s.log_weights, squared_radius=engine.squared_radius)
    with only(engine.name):
        sums = passes.partial_sums(s.X, None if s.Y is s.X else s.Y, s.h, output, options, values=V)
    verify(s, output, sums, engine.allowed, k)


@EVERY
def test_the_engine_is_that_of_the_name(passes: ModuleType, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    names: list[str] = []
    launch = Specialisation.launch
    monkeypatch.setattr(Specialisation, "launch", lambda of, *a: (names.append(of.name), launch(of, *a))[1])
    check(passes, name, ENGINES[name].sample(150, 70), "sum")
    assert ENGINES[name].kernel in names


def test_an_exponent_may_take_four_products() -> None:
    engine = ENGINES["f16 of four products"]
    for d in engine.dimensions:
        form = plan_gpu.form("float32", d, engine.squared_radius)
        assert form is not None
        assert form.products == 4


@ITSELF
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize(("name", "d"), [(name, d) for name, of in ENGINES.items() for d in of.dimensions])
def test_sums_match_the_formula(passes: ModuleType, name: str, d: int, output: str, itself: bool) -> None:
    check(passes, name, ENGINES[name].sample(300, None if itself else 150, d), output)


@ITSELF
@pytest.mark.parametrize("output", ["sum", "laplace", "moments"])
@pytest.mark.parametrize(
    ("name", "d"), [(name, d) for name, of in ENGINES.items() for d in (of.dimensions[0], of.dimensions[-1])]
)
def test_weights_of_thirty_decades_and_zero(passes: ModuleType, name: str, d: int, output: str, itself: bool) -> None:
    s = ENGINES[name].sample(150, None if itself else 70, d, weighted=True)
    assert (s.w == 0).any()
    check(passes, name, s, output)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize(
    ("n", "m"),
    [
        (1, 1),
        (1, 40),
        (40, 1),
        (63, 64),
        (64, 65),
        (128, 256),
        (129, 257),
        (700, 9),
        (1, None),
        (129, None),
        (640, None),
    ],
)
@EVERY
def test_any_number_of_rows(passes: ModuleType, name: str, n: int, m: int | None, output: str) -> None:
    check(passes, name, ENGINES[name].sample(n, m), output)


@ITSELF
@pytest.mark.parametrize("k", [1, 7, 15, 16, 17, 30, 33, 64, 65, 130])
@EVERY
def test_any_number_of_values(passes: ModuleType, name: str, k: int, itself: bool) -> None:
    """Beyond 64 in blocks of columns."""
    check(passes, name, ENGINES[name].sample(140, None if itself else 40), "values", k)


@EVERY
def test_values_of_any_range(passes: ModuleType, name: str) -> None:
    """Each row of values has its own size, and one column is a tiny multiple of another."""
    s = ENGINES[name].sample(140, 40)
    decades = 250 if s.X.dtype == np.float64 else 30
    s.V = (s.V * 10.0 ** np.random.default_rng(0).uniform(-decades, decades, (140, 1))).astype(s.X.dtype)
    s.V[:, 1] = s.V[:, 0] * s.V.dtype.type(1e-6)
    check(passes, name, s, "values", 66)
