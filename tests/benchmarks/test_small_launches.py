"""What runs under compute-sanitizer: it launches every kernel, and what it launches here is right."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest


@pytest.fixture
def small(emulated_device: None) -> ModuleType:
    """The script, on the emulated device."""
    from benchmarks.stress import small_launches

    return small_launches


@pytest.mark.kernels
def test_every_kernel_is_launched(
    small: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without running them, which takes minutes of compilation: launches do nothing, and nothing is checked."""
    monkeypatch.setattr("cukde.core.gpu.compile.kernel", lambda *_: lambda grid, block, args: None)
    monkeypatch.setattr("cukde.core.gpu.launch._loaded", {})
    monkeypatch.setattr("cukde.core.gpu.numba_cuda._run", lambda *_: None)
    for name in (
        "check",
        "check_symmetric",
        "check_once",
        "check_log",
        "check_order",
        "check_ranks",
        "check_reversed",
        "check_conv1d",
        "check_wait",
        "check_stack",
    ):
        monkeypatch.setattr(small, name, lambda *_: None)
    for name in ("check", "check_density", "check_scaled"):
        monkeypatch.setattr(small.tolerances, name, lambda *_: None)
    # Ranges of weights and factors are those of nothing.
    monkeypatch.setattr("cukde.density.check.weight_range", lambda *_: None)
    monkeypatch.setattr("cukde.density.arguments.least_factor", lambda *_: 1.0)
    # No kernel writes an order: that of nothing would be of rows that are not there.
    in_order = small.merge_sort.in_order
    monkeypatch.setattr(small.merge_sort, "in_order", lambda keys: (keys, 0 * in_order(keys)[1] + np.arange(len(keys))))
    # No kernel writes of which kind blocks are: something is left to every other kernel.
    left = small.near_plan.Left(np.zeros(1, np.int32))
    monkeypatch.setattr(small.near_plan.Left, "of", lambda *_: ((left,), True))
    with np.errstate(all="ignore"):  # arrays hold anything
        small.main([])
    assert "all that are known" in capsys.readouterr().out


# Engines that have tests of their own for every kernel are left out.
@pytest.mark.parametrize(
    "passes",
    [
        "waiting",
        "small_problems",
        "weights_of_calls",
        "ends_of_sums",
        "splits_merged",
        "other_kernels",
        "near_blocks",
        "factors_of_points",
        "products_of_columns",
        "stacks",
        "cross_validation",
        "f64_of_many_dimensions",
        "f16_symmetric",
        "f16_mutual",
        "f16_symmetric_values",
        "values_in_two_terms",
        "one_dimension_of_few_boxes",
        "distribution_functions",
        "ranks_of_columns",
        "counts_of_pairs",
    ],
)
def test_what_is_launched_is_right(small: ModuleType, passes: str) -> None:
    from benchmarks.perf import launched

    with launched.noted() as found:
        getattr(small, passes)(small.Launches(found))
    assert found
