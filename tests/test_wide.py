"""The engine of many dimensions, emulated: every kernel, edge and block against float64."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests import reference
from tests.test_f16 import ALLOWED, OUTPUTS, Sample, verify
from tests.test_f16_symmetric import SHIFT
from tests.tolerances import check

# Precision, which chooses the terms of a point, and the spread that the engine is told.
FORMS = {"one-term": ("tf32", 50.0), "two-terms": ("float32", 50.0), "unknown-spread": ("float32", None)}


@pytest.fixture
def gpu(emulated_device: None, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The modules under test, on the emulated device; blocks of powers so small that there are several."""
    from cukde.gpu import _specialise, _wide, density

    monkeypatch.setattr(_wide, "_STAGED_ROWS", 128)
    monkeypatch.setattr(_wide, "_STAGED_BYTES", 2**17)
    return SimpleNamespace(wide=_wide, density=density, specialise=_specialise)


def allowed(form: str) -> float:
    return ALLOWED[1 if form == "one-term" else 3]


def sums(gpu: SimpleNamespace, s: Sample, output: str, form: str, *, k: int = 5, **options: Any) -> Any:
    precision, spread = FORMS[form]
    return gpu.density.partial_sums(
        s.X,
        None if s.Y is s.X else s.Y,
        s.h,
        output,
        values=s.V[:, :k] if output == "values" else None,
        log_weights=s.log_weights,
        precision=precision,
        spread=spread,
        **options,
    )


@pytest.mark.parametrize("weighted", [False, True], ids=["uniform", "weighted"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("d", [65, 100, 128, 200])
def test_sums_match_reference(gpu: SimpleNamespace, d: int, output: str, form: str, weighted: bool) -> None:
    s = Sample(300, 150, d, weighted=weighted and output != "values")
    verify(s, output, sums(gpu, s, output, form), allowed(form))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("output", OUTPUTS)
def test_data_against_themselves(gpu: SimpleNamespace, output: str, form: str) -> None:
    s = Sample(300, 1, 70)
    s.Y = s.X
    verify(s, output, sums(gpu, s, output, form), allowed(form))


@pytest.mark.parametrize("n", [1, 127, 128, 129, 300])
def test_mean_shift_of_the_data(gpu: SimpleNamespace, n: int) -> None:
    s = Sample(n, 1, 70)
    s.Y = s.X
    of = sums(gpu, s, "moments", "two-terms", ratio=True)
    shift = of.moments / of.total[:, None] / s.h
    check(np.abs(shift - s.h * reference.score(s.X, s.X, s.h)), np.asarray(SHIFT["split"].value), "shift")
