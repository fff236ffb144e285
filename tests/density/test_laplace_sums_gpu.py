"""Both sums of the Laplace correction by every engine over pairs, and the positive density that they make; emulated."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from cukde.density import backends
from cukde.density.options import Options
from cukde.density.sums import Epilogue, Output
from tests import reference, tolerances
from tests.density.samples import Sample, verify

BEYOND = 1e6
"""A scaled squared radius that is left to differences."""


@pytest.fixture
def gpu(emulated_device: None, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The modules under test, on the emulated device, and the names of the kernels that they launch."""
    from cukde.core.gpu import arrays
    from cukde.core.gpu.launch import Specialisation
    from cukde.density.pairs.gpu import passes

    names: list[str] = []
    launch = Specialisation.launch

    def noted(self: Specialisation, *args: object) -> None:
        names.append(self.name)
        launch(self, *args)

    monkeypatch.setattr(Specialisation, "launch", noted)
    return SimpleNamespace(passes=passes, arrays=arrays, launched=names)


@pytest.mark.parametrize(("d", "weighted"), [(1, False), (7, True), (17, False), (33, True), (70, False)])
@pytest.mark.parametrize("output", ["laplace", "laplace_moments"])
@pytest.mark.parametrize("precision", ["ieee", "float64"])
def test_sums_by_differences(gpu: SimpleNamespace, precision: str, output: Output, d: int, weighted: bool) -> None:
    """In splits of the data, of float64 data in either arithmetic, and far from the origin."""
    s = Sample(520, 40, d, weighted=weighted, dtype="float64")
    s.X += 1e3
    s.Y += 1e3
    sums = gpu.passes.partial_sums(s.X, s.Y, s.h, output, Options(precision, s.log_weights, squared_radius=BEYOND))
    assert sums.moments.shape == (40, d if output == "laplace_moments" else 1)
    assert "merge_splits" in gpu.launched
    assert f"{output}_{'f64' if precision == 'float64' else 'ieee'}" in gpu.launched
    verify(s, output, sums, tolerances.DENSITY["gpu", precision].value)


@pytest.mark.parametrize("d", [1, 2, 3, 70])
@pytest.mark.parametrize("precision", ["float32", "tf32", "ieee", "float64"])
def test_moments_are_summed_by_differences_in_every_precision(gpu: SimpleNamespace, precision: str, d: int) -> None:
    s = Sample(150, 40, d, dtype="float64" if precision == "float64" else "float32")
    options = Options(precision, None, s.X.mean(axis=0, dtype=float), 50.0)
    passes = backends.passes(gpu.arrays, d, options)
    sums = passes.partial_sums(s.X, s.Y, s.h, "laplace_moments", options)
    assert [name for name in gpu.launched if name != "merge_splits"] == [
        "laplace_moments_f64" if precision == "float64" else "laplace_moments_ieee"
    ]
    verify(s, "laplace_moments", sums, tolerances.DENSITY["gpu", "float64" if precision == "float64" else "ieee"].value)


ENGINES = {
    "f16x2": ("float32", 5, 50.0, "laplace_f16x2"),
    "f16": ("tf32", 16, 50.0, "laplace_f16"),
    "wide": ("float32", 70, 50.0, "laplace_wide_f16x2"),
    "f64": ("float64", 5, 50.0, "laplace_f64_products"),
    "wide_f64": ("float64", 70, 50.0, "powers_f64"),
    "differences": ("ieee", 5, 50.0, "laplace_ieee"),
}


@pytest.mark.parametrize("log", [False, True], ids=["density", "log"])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("engine", ENGINES)
def test_positive_density(gpu: SimpleNamespace, engine: str, weighted: bool, log: bool) -> None:
    precision, d, squared_radius, kernel = ENGINES[engine]
    s = Sample(150, 70, d, weighted=weighted, dtype="float64" if precision == "float64" else "float32")
    options = Options(precision, s.log_weights, s.X.mean(axis=0, dtype=float), squared_radius)
    epilogue = Epilogue(s.log_scale, log, s.X.dtype)
    got = gpu.passes.laplace_density(s.X, s.Y, s.h, options, epilogue, positive=True)
    assert kernel in gpu.launched
    want, condition = reference.log_positive(s.X, s.Y, s.h, s.w)
    exponent = reference.nearness(s.X, s.Y, s.h, s.w).exponent
    allowed = condition * tolerances.log_error("gpu", precision, exponent)
    (tolerances.check_log if log else tolerances.check_density)(got, want, allowed, "positive density")


@pytest.mark.parametrize("reach", [24.0, 1e3, 1e15])
def test_logarithms_of_positive_densities_are_finite_far_away(gpu: SimpleNamespace, reach: float) -> None:
    """At so many bandwidths from the middle: where exponentials underflow, and where differences take all pairs."""
    s = Sample(150, 40, 3)
    directions = np.random.default_rng(0).standard_normal((20, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    s.Y[::2] = 3 + reach * s.h * directions
    options = Options("float32", None, np.full(3, 3.0), 1.1 * reach**2)
    got = gpu.passes.laplace_density(s.X, s.Y, s.h, options, Epilogue(s.log_scale, True, s.X.dtype), positive=True)
    assert ("laplace_f16x2" in gpu.launched) == (reach < 1e3)
    want, condition = reference.log_positive(s.X, s.Y, s.h)
    exponent = reference.nearness(s.X, s.Y, s.h).exponent
    tolerances.check_log(got, want, condition * tolerances.log_error("gpu", "float32", exponent))
