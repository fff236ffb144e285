"""Plans of public calls: which passes would take them, on either backend, and what is printed."""

from __future__ import annotations

import functools
import pickle
from typing import Any

import numpy as np
import pytest

import cukde
from cukde import functions, perf
from cukde.core.plan import Candidate, Plan, asked, collected, consulted, forced, note, only, traced
from tests.kendall.test_cost import CPU
from tests.perf.processors import H200

ROWS = np.broadcast_to(np.float16(0), (64, 256, 2048))
TAPS = np.zeros((256, 4), np.float16)


def names(fn: Any, *args: Any, gpu: Any = "H200", **options: Any) -> tuple[str, ...]:
    """Names of the candidates that serve the one pass of a call."""
    (plan,) = perf.plan(fn, *args, gpu=gpu, **options).plans
    return plan.names


def columns(n: int, p: int, dtype: str = "float64") -> np.ndarray:
    return np.broadcast_to(np.zeros((), dtype), (n, p))


def test_few_columns() -> None:
    A = columns(200, 5)
    assert names(cukde.kendall_matrix, A) == ("comparisons", "products", "products with ties", "sorting")
    assert names(cukde.kendall_matrix, A, gpu=CPU) == ("few", "few meanwhile", "bits", "trees")


def test_a_plan_of_columns_changes_with_their_number() -> None:
    """Comparisons of 8 bytes up to 503 samples of 32 columns; sorting before products with ties from 5,234 on."""
    first = [names(cukde.kendall_matrix, columns(n, 32))[0] for n in (503, 504)]
    assert first == ["comparisons", "products"]
    last = [names(cukde.kendall_matrix, columns(n, 32))[-1] for n in (5233, 5234)]
    assert last == ["sorting", "products with ties"]
    assert [names(cukde.kendall_matrix, columns(n, 8), gpu=CPU)[-2] for n in (658, 659)] == ["bits", "few meanwhile"]


def test_pairs_and_counts() -> None:
    x = columns(1000, 1)
    assert names(cukde.kendalltau, x, x) == ("comparisons", "sorting")
    assert names(cukde.kendalltau, x, x, gpu="TITAN V") == ("comparisons", "sorting")
    assert names(cukde.kendalltau, x, x, gpu=CPU) == ("few", "few meanwhile", "trees")
    assert names(cukde.concordance, columns(100, 5))[0] != "comparisons"


def test_convolutions() -> None:
    kernels = names(cukde.depthwise_conv1d, ROWS, TAPS)
    assert kernels == ("few_taps", "rows", "strided", "toeplitz_short", "fft")
    assert names(cukde.depthwise_conv1d, ROWS, np.zeros((256, 5), np.float16))[0] == "toeplitz_short"
    assert names(cukde.depthwise_conv1d_input_grad, ROWS, TAPS) == kernels
    assert names(cukde.depthwise_conv1d_weight_grad, ROWS, ROWS, 4)[:2] == ("weight_grad_few_taps", "weight_grad")
    x = np.broadcast_to(np.float32(0), (4, 32, 16384))
    for taps, found in ((250, ("direct",)), (251, ("fft", "direct"))):
        assert names(cukde.depthwise_conv1d, x, np.zeros((32, taps), np.float32), gpu=CPU) == found


def test_polynomials() -> None:
    p = cukde.PiecewisePolynomial(np.ones((4, 5)), [0, 1, 2, 3, 5, 9])
    many = np.broadcast_to(np.float16(0), 2**22)
    assert names(p, np.zeros(9)) == ("uniform", "tree")
    assert names(p, np.zeros(9, np.float32)) == ("uniform", "guide", "tree")
    assert [names(p, x)[0] for x in (many[:-1], many)] == ["uniform", "lookup_f16"]
    assert names(p, np.zeros(9), extrapolate="periodic") == ("columns uniform", "columns tree")
    assert names(p, np.zeros(9), gpu=CPU) == ("uniform", "guide")
    assert names(functions.exp, np.zeros(9), gpu=CPU) == ("NumPy",)
    assert names(cukde.pwpa, np.zeros(9), [[1.0, 0]], [0, 1]) == ("uniform", "tree")


def test_what_is_printed() -> None:
    plan = perf.plan(cukde.kendall_matrix, columns(8000, 32), gpu="H200")
    assert repr(plan) == str(plan)
    assert str(plan).splitlines() == [
        "kendall_matrix n=8,000 p=32 float64 on H200",
        "Tau of all pairs of 32 columns, 8,000 samples",
        "   -  comparisons         not asked: so many comparisons take longer than the launches of other ways",
        "   1. products            about 0.256 ms; no column has ties",
        "   2. sorting             about 0.284 ms",
        "   3. products with ties  about 0.424 ms",
    ]
    again = pickle.loads(pickle.dumps(plan))
    assert again == plan
    assert type(again.plans[0]).__module__ == "cukde.perf"


def test_a_formula_without_a_plan_says_so() -> None:
    plan = perf.plan(cukde.aos_to_soa, np.zeros((9, 4), np.float32), gpu=CPU)
    assert str(plan) == "aos_to_soa pieces=9 degree=3 float32 on two cores: its cost formula goes by no plan"


def test_the_processor_is_that_of_the_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[Any] = []
    monkeypatch.setattr("cukde.perf._plan.peaks", lambda gpu: wanted.append(gpu) or H200)  # type: ignore[func-returns-value]

    class OnGPU:
        __cuda_array_interface__ = None
        shape, dtype = (100, 3), np.dtype(np.float32)
        size = 300

    for a in (columns(100, 3), OnGPU()):
        perf.plan(cukde.kendall_matrix, a)
    perf.plan(functools.partial(cukde.kendall_matrix, columns(100, 3)), gpu="H100")
    assert wanted == ["cpu", None, "H100"]


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"^fn\b"):
        perf.plan(len, TAPS)
    with pytest.raises(ValueError, match=r"^gpu\b"):
        perf.plan(cukde.kendall_matrix, columns(9, 2), gpu="H2000")
    with pytest.raises(ValueError, match="the arguments of kde must be such as it takes"):
        perf.plan(cukde.kde, 1.0, np.zeros((3, 2)), 0.5, gpu="H200")
    dask_array = pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match="plan takes calls with arrays in memory; got a Dask Array"):
        perf.plan(cukde.kendall_matrix, dask_array.zeros((9, 2)), gpu="H200")


# ------------------------------------------------------------------------------------- what plans are made with

PLAN = Plan("a pass", (Candidate("no", refused="too large"), Candidate("some", 0.5, "even"), Candidate("any")))


def test_the_first_that_serves() -> None:
    assert (PLAN.names, PLAN.sure) == (("some", "any"), "any")
    assert (PLAN.first(), PLAN.first("odd"), PLAN.first("odd", "even")) == ("any", "any", "some")


def test_asking_for_one() -> None:
    assert (asked(), forced(PLAN.names)) == (None, None)
    with only("any", "no"):
        assert asked() == ({"any", "no"}, True)
        assert (PLAN.first("even"), forced(PLAN.names)) == ("any", "any")
    with only("some"):
        assert (PLAN.first("even"), PLAN.first()) == ("some", "any")
    with only("another"):
        assert PLAN.first("even") == "some"


def test_plans_and_passes_are_collected() -> None:
    note("before")
    with collected() as plans, traced() as ran:
        assert consulted(PLAN) is PLAN
        note("some", size=3)
    note("after")
    assert (plans, ran) == ([PLAN], [("some", {"size": 3})])
