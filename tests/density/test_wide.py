"""The engine of many dimensions, emulated: every kernel, edge and block against float64."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cukde
from cukde.density.options import Options
from tests import reference
from tests.density.samples import OUTPUTS, SHIFT, Sample, verify
from tests.density.test_f16 import ALLOWED
from tests.tolerances import check

FORMS = {"one-term": "tf32", "two-terms": "float32"}  # precision, which chooses the terms of a point


@pytest.fixture
def gpu(emulated_device: None, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The modules under test, on the emulated device; blocks of powers so small that there are several."""
    from cukde.density.pairs.gpu import passes as pairs_passes, wide

    monkeypatch.setattr(wide, "_STAGED_ROWS", 128)
    monkeypatch.setattr(wide, "_STAGED_BYTES", 2**17)
    return SimpleNamespace(wide=wide, density=pairs_passes, monkeypatch=monkeypatch)


def allowed(form: str) -> float:
    return ALLOWED[1 if form == "one-term" else 3]


def sums(
    gpu: SimpleNamespace, s: Sample, output: str, form: str, *, k: int = 5, ratio: bool = False, **options: Any
) -> Any:
    return gpu.density.partial_sums(
        s.X,
        None if s.Y is s.X else s.Y,
        s.h,
        output,
        Options(FORMS[form], **{"log_weights": s.log_weights, "squared_radius": 50.0} | options),
        values=s.V[:, :k] if output == "values" else None,
        ratio=ratio,
    )


def itself(n: int, d: int, **options: Any) -> Sample:
    """A sample whose queries are the data."""
    s = Sample(n, 1, d, **options)
    s.Y = s.X
    return s


@pytest.mark.parametrize("n", [1, 127, 128, 129, 300])
def test_mean_shift_of_the_data(gpu: SimpleNamespace, n: int) -> None:
    s = itself(n, 70)
    of = sums(gpu, s, "moments", "two-terms", ratio=True)
    shift = of.moments / of.total[:, None] / s.h
    check(np.abs(shift - s.h * reference.score(s.X, s.X, s.h)), np.asarray(SHIFT["split"].value), "shift")


@pytest.mark.parametrize("output", ["sum", "laplace", "moments"])
def test_what_has_no_weight_counts_nowhere(gpu: SimpleNamespace, output: str) -> None:
    """Of all data one has a weight, and it is the nearest of few queries."""
    s, alone = Sample(150, 40, 70, weighted=True), Sample(150, 40, 70)
    s.w = np.where(np.arange(150) == 130, 2.0, 0.0)
    alone.X = s.X[130:131]
    verify(alone, output, sums(gpu, s, output, "two-terms"), allowed("two-terms"))


@pytest.mark.parametrize("output", OUTPUTS)
def test_points_in_float64(gpu: SimpleNamespace, output: str) -> None:
    """They are rounded once they are centred, so that an offset costs nothing; sums are those of precision float32."""
    s = Sample(150, 40, 70, dtype="float64")
    s.X += 1e6
    s.Y += 1e6
    verify(s, output, sums(gpu, s, output, "two-terms"), allowed("two-terms"))


@pytest.mark.parametrize("output", OUTPUTS)
def test_the_radius_need_not_be_known(gpu: SimpleNamespace, output: str) -> None:
    s = Sample(150, 40, 70)
    verify(s, output, sums(gpu, s, output, "two-terms", squared_radius=None), allowed("two-terms"))


@pytest.mark.parametrize("output", OUTPUTS)
def test_what_is_no_number_spoils_its_sums(gpu: SimpleNamespace, output: str) -> None:
    """A query those of its own, a datum all."""
    s = Sample(150, 40, 70)
    s.Y[7, 3] = np.nan
    total = sums(gpu, s, output, "two-terms", squared_radius=None).total
    np.testing.assert_array_equal(np.isnan(total), np.arange(40) == 7)
    s.X[30, 0] = np.nan
    assert np.isnan(sums(gpu, s, output, "two-terms", squared_radius=None).total).all()


@pytest.mark.parametrize(
    ("form", "layout"),
    [("two-terms", (1, 32, 4, 1)), ("two-terms", (2, 32, 3, 1)), ("one-term", (2, 64, 2, 1))],
)
def test_layouts_that_are_not_chosen_are_right(
    gpu: SimpleNamespace, form: str, layout: tuple[int, int, int, int]
) -> None:
    """Operands of 96 columns where that is enough."""
    of = gpu.wide.Layout(*layout)
    gpu.monkeypatch.setattr(gpu.wide, "layout", lambda task: of)
    for s in (Sample(200, 150, 70), itself(200, 70)):
        verify(s, "moments", sums(gpu, s, "moments", form), allowed(form))


@pytest.mark.parametrize(("of_references", "of_moments", "depth"), [(64, 32, 128), (32, 64, 128), (32, 32, 96)])
def test_operands_are_whole_steps_of_both_passes(
    gpu: SimpleNamespace, of_references: int, of_moments: int, depth: int
) -> None:
    depths, prepare = set(), gpu.wide.prepare
    layouts = {64: gpu.wide.Layout(1, 64, 2, 2), 32: gpu.wide.Layout(1, 32, 4, 1)}

    def noted(*args: Any, **options: Any) -> Any:
        operand = prepare(*args, **options)
        depths.add(operand.hi.shape[1])
        return operand

    gpu.monkeypatch.setattr(gpu.wide, "prepare", noted)
    gpu.monkeypatch.setattr(
        gpu.wide, "layout", lambda task: layouts[of_references if task.output == "sum" else of_moments]
    )
    s = Sample(150, 40, 70)
    verify(s, "moments", sums(gpu, s, "moments", "two-terms"), allowed("two-terms"))
    assert depths == {depth}


def test_no_queries(gpu: SimpleNamespace) -> None:
    s = Sample(150, 40, 70)
    none = s.Y[:0]
    assert cukde.kde(s.X, none, s.h).shape == cukde.laplace_kde(s.X, none, s.h).shape == (0,)
    assert cukde.score(s.X, none, s.h).shape == (0, 70)
    assert cukde.kernel_sum(s.X, s.V[:, :65], none, s.h).shape == (0, 65)
