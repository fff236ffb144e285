"""Passes of an unknown scaled squared radius: while a stream is captured nothing waits for it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cukde
from cukde.core.plan import only
from cukde.density.options import Options
from cukde.density.sums import PartialSums
from tests import reference, tolerances
from tests.conftest import Backend
from tests.density.samples import OUTPUTS, Sample, verify
from tests.tolerances import DENSITY, SD_DENSITY, log_error


@pytest.fixture
def gpu(device: Backend, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The passes, as if they were captured."""
    from cukde.density.pairs.gpu import passes

    def fails(*_: Any, **__: Any) -> None:
        raise AssertionError("a captured call waits")

    monkeypatch.setattr("cukde.core.gpu.device.capturing", lambda: True)
    for name in ("cukde.core.gpu.survey.look", "cukde.core.gpu.arrays.look"):
        monkeypatch.setattr(name, fails)
    return SimpleNamespace(passes=passes, asarray=device.asarray, asnumpy=device.asnumpy)


def computed(gpu: SimpleNamespace, s: Sample, output: Any, precision: str) -> PartialSums:
    """By the function under test, on the host."""
    log_weights = None if s.log_weights is None else gpu.asarray(s.log_weights)
    X, V = gpu.asarray(s.X), gpu.asarray(s.V[:, :5]) if output == "values" else None
    Y = None if s.Y is s.X else gpu.asarray(s.Y)
    sums = gpu.passes.partial_sums(X, Y, s.h, output, Options(precision, log_weights), values=V)
    return PartialSums(*(None if a is None else gpu.asnumpy(a) for a in sums))


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("precision", ["float32", "tf32", "float64"])
@pytest.mark.parametrize("d", [3, 20, 65])
def test_sums_near_the_centre(gpu: SimpleNamespace, d: int, precision: str, output: Any) -> None:
    s = Sample(330, 70, d, weighted=output != "values", dtype="float64" if precision == "float64" else "float32")
    verify(s, output, computed(gpu, s, output, precision), DENSITY["gpu", precision].value)


@pytest.mark.parametrize("at", [1e3, 1e6, np.nan, np.inf])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("precision", ["float32", "tf32", "float64"])
def test_a_query_far_out_spoils_no_other(gpu: SimpleNamespace, precision: str, output: Any, at: float) -> None:
    s = Sample(150, 70, 3, dtype="float64" if precision == "float64" else "float32")
    s.Y[7] += at
    sums = computed(gpu, s, output, precision)
    near = np.arange(70) != 7
    far, s.Y = s.Y[7:8], s.Y[near]
    verify(s, output, PartialSums(*(None if a is None else a[near] for a in sums)), DENSITY["gpu", precision].value)
    if np.isfinite(at):
        log_total = reference.log_kde(s.X, far, s.h) - s.log_scale
        allowed = log_error("gpu", precision, reference.nearness(s.X, far, s.h).exponent)
        tolerances.check(np.abs(sums.reference[7:8] + np.log(sums.total[7:8]) - log_total), allowed, "log total")
    if np.isnan(at):
        assert np.isnan(sums.total[7])


def nan_among_the_data(gpu: SimpleNamespace, precision: str, output: Any, d: int = 3) -> None:
    """Assert that it is in every sum."""
    s = Sample(330, 70, d, dtype=precision)
    s.X[129, 1] = np.nan
    sums = computed(gpu, s, output, precision)
    assert np.isnan(sums.total if sums.moments is None else sums.moments.sum(axis=1)).all()


@pytest.mark.parametrize("output", [*OUTPUTS[:3], "values"])
@pytest.mark.parametrize("d", [3, 40])
def test_nan_among_the_data(gpu: SimpleNamespace, d: int, output: Any) -> None:
    nan_among_the_data(gpu, "float32", output, d)


@pytest.mark.parametrize("output", OUTPUTS)
def test_nan_among_the_data_in_double(gpu: SimpleNamespace, output: Any) -> None:
    nan_among_the_data(gpu, "float64", output)


@pytest.mark.parametrize("at", [np.nan, np.inf])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_unchecked_data_that_are_not_finite(
    device: Backend, monkeypatch: pytest.MonkeyPatch, precision: str, output: Any, at: float
) -> None:
    """Where the host may wait, differences take them, however many they are: NaN is in every sum, infinity in none."""
    from cukde.density.pairs.gpu import centred, passes
    from cukde.density.pairs.gpu.skipping import choice

    def fails(*_: Any, **__: Any) -> None:
        raise AssertionError("others are to take these")

    for module, name in ((centred, "take"), (choice, "looked")):
        monkeypatch.setattr(module, name, fails)
    here = SimpleNamespace(passes=passes, asarray=device.asarray, asnumpy=device.asnumpy)
    s = Sample(330, 70, 3, dtype=precision)
    s.X[200] = at
    with only("centred", "skipping", "apart"):
        sums = computed(here, s, output, precision)
    assert np.isnan(sums.total).all() == np.isnan(at)
    assert np.isnan(sums.total).any() == np.isnan(at)


@pytest.mark.parametrize("spread", [1.0, 50.0])
@pytest.mark.parametrize("d", [3, 16])
def test_debiased_densities(gpu: SimpleNamespace, d: int, spread: float) -> None:
    rng = np.random.default_rng(d)
    X, Y = (spread * rng.standard_normal((rows, d)).astype(np.float32) for rows in (330, 40))
    got = cukde.sd_kde(gpu.asarray(X), gpu.asarray(Y), [1.5] * d, log=True, check_finite=False)
    want = reference.sd_kde(X, Y, 1.5, log=True)
    np.testing.assert_allclose(gpu.asnumpy(got), want, rtol=2e-6, atol=SD_DENSITY["float32"].value)
