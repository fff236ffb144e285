"""The cost of cross-validation: pairs, bandwidths and directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cukde import bandwidth, perf
from cukde.bandwidth import cost as bandwidth_cost
from tests.private import called

CPU = perf.Peaks("two cores", "cpu", {"memory": 2e10, "fma": 1e11, "scalar": 6e9}, 0.0, 2, 3e9, 2**25, (0, 0), "here")
PAIRS = 1000 * 999 / 2
X = np.random.default_rng(0).normal(size=(1000, 2)).astype(np.float32)


def _cost(on: Any, **sizes: Any) -> perf.Cost:
    return perf.cost("bandwidth.cross_validate", on, n=1000, **{"d": 4, **sizes})


@pytest.mark.parametrize("on", ["H200", CPU], ids=["gpu", "cpu"])
@pytest.mark.parametrize("objective", ["likelihood", "least_squares"])
def test_a_pair_and_bandwidth_take_an_exponential(on: Any, objective: str) -> None:
    cost = _cost(on, bandwidths=64, objective=objective, dtype="float32")
    assert cost.work("exponential") == 64 * PAIRS
    assert _cost(on, bandwidths=64, objective=objective).work("exponential_f64") == 64 * PAIRS
    assert cost.bytes >= 4 * 4 * 1000 + (8 * 64 * 1000 if objective == "likelihood" else 0)


def test_distances_are_taken_once_a_direction() -> None:
    one, two = (_cost(CPU, d=16, bandwidths=8, directions=k, dtype="float32").work("fma") for k in (1, 2))
    assert two - one == 3 * 16 * PAIRS
    one, two, three = (_cost("H200", d=16, bandwidths=8, directions=k, dtype="float32").work("fma") for k in (1, 2, 3))
    assert three - two == two - one > 3 * 16 * PAIRS


@pytest.mark.parametrize("on", ["H200", CPU], ids=["gpu", "cpu"])
def test_without_a_row_debiased_points_take_two_exponentials_an_ordered_pair(on: Any) -> None:
    both, score = _cost(on, bandwidths=3, method="sd"), perf.cost("debias", on, n=1000, d=4, dtype="float64")
    assert both.exponentials == 3 * (score.exponentials + 2 * 1000 * 1000)
    squares = _cost(on, bandwidths=3, method="sd", objective="least_squares")
    assert squares.exponentials == both.exponentials + 3 * PAIRS


@pytest.mark.parametrize(
    ("bandwidths", "count", "directions"),
    [(None, 32, 1), ([0.1, 0.2], 2, 1), ([[0.1, 0.2], [0.2, 0.4], [0.2, 0.2]], 3, 2)],
    ids=["grid", "numbers", "deviations"],
)
def test_sizes_of_a_call(bandwidths: Any, count: int, directions: int) -> None:
    operation, sizes = called(bandwidth.cross_validate, (X, "sd", bandwidths), {"weights": np.ones(1000)})
    assert operation.name == "bandwidth.cross_validate"
    assert (sizes["n"], sizes["d"], sizes["dtype"], sizes["weighted"]) == (1000, 2, "float32", True)
    assert (sizes["bandwidths"], sizes["directions"], sizes["method"]) == (count, directions, "sd")
    assert perf.predict("bandwidth.cross_validate", "H200", **sizes).seconds > 0


def test_sizes_that_do_not_fit_are_refused() -> None:
    for sizes in ({"bandwidths": 0}, {"bandwidths": 2, "directions": 3}, {"directions": 0}):
        with pytest.raises(ValueError, match="bandwidths must be 1 or more, and directions no more of them"):
            _cost("H200", **sizes)


@pytest.mark.parametrize("on", ["H200", CPU], ids=["gpu", "cpu"])
def test_many_rows_of_one_column_take_a_transform_for_each_bandwidth(on: Any) -> None:
    n = bandwidth_cost.LEAST_ROWS_OF_LINE["cpu" if on is CPU else "gpu"]
    density = perf.cost("kde", on, n=n, m=n, d=1, dtype="float64", at_data=True).exponentials
    sizes: dict[str, Any] = {"n": n, "d": 1, "bandwidths": 7}
    assert perf.cost("bandwidth.cross_validate", on, **sizes).exponentials == 7 * density
    assert perf.cost("bandwidth.cross_validate", on, objective="least_squares", **sizes).exponentials == 14 * density
    fewer = perf.cost("bandwidth.cross_validate", on, **sizes | {"n": n - 1})
    assert fewer.exponentials == 7 * (n - 1) * (n - 2) / 2


def test_which_rows_are_many_is_the_backends_own_rule() -> None:
    pytest.importorskip("cupy")
    from cukde.bandwidth.gpu import passes as gpu_passes
    from tests.private import bandwidth_cpu as bandwidth_passes

    assert {
        "cpu": bandwidth_passes.LEAST_ROWS_OF_LINE,
        "gpu": gpu_passes.LEAST_ROWS_OF_LINE,
    } == bandwidth_cost.LEAST_ROWS_OF_LINE


@pytest.mark.parametrize("on", ["H200", CPU], ids=["gpu", "cpu"])
def test_an_effective_size_takes_two_transforms_a_column(on: Any) -> None:
    one, eight = (perf.cost("bandwidth.effective_size", on, n=2**20, d=d).parts for d in (1, 8))
    for few, many in zip(one[:2], eight[:2], strict=True):
        assert many.bytes == 8 * few.bytes > 0
    assert one[1].work["float64"] == 2 * 2.5 * 2**21 * 21
    # No more than what they count comes to the host.
    predicted = [perf.predict("bandwidth.effective_size", "H200", n=n, d=1).seconds for n in (2**20, 2**22)]
    assert predicted[1] < 4.5 * predicted[0] < 0.01
    with pytest.raises(ValueError, match="weighted must be False"):
        perf.cost("bandwidth.effective_size", on, n=100, d=1, weighted=True)


def test_a_gpu_waits_for_each_block_of_rows_and_each_bandwidth() -> None:
    def waits(op: str, **sizes: Any) -> dict[str, float]:
        return {part.name: part.cycles for part in perf.cost(op, "H200", **sizes).parts}

    few, many = (waits("bandwidth.isj", n=blocks * 2**20)["waits"] for blocks in (1, 9))
    assert 5 * few < many < 9 * few
    sizes: dict[str, Any] = {"n": 1000, "d": 4, "method": "sd"}
    once, often = (waits("bandwidth.cross_validate", bandwidths=b, **sizes)["calls"] for b in (1, 32))
    assert often == pytest.approx(32 * once)
    assert waits("bandwidth.cross_validate", n=1000, d=4)["calls"] == pytest.approx(once)  # all bandwidths in a pass
    named = waits("bandwidth.select", n=1000, d=4)
    assert named["sd: calls"] > named["kde: calls"] > 0
    on_cpu = {part.name for part in perf.cost("bandwidth.select", CPU, n=1000, d=4).parts}
    assert not any(name.endswith("calls") for name in on_cpu)
