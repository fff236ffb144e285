"""The figure of how the density kernels work: its numbers, and that it is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.tools import records
from docs.figures import kernels


@pytest.fixture(scope="module")
def run() -> dict[str, Any]:
    return records.read(Path(__file__).parents[2] / "benchmarks" / "results" / "perf_h200.json")


def test_what_pairs_cost(run: dict[str, Any]) -> None:
    density, rounded, score, _ = found = kernels.budgets(run)
    # A multiprocessor has 16 exponentials a cycle: one for each pair, or, of the data at themselves, for two.
    assert density.units["exponential"] == pytest.approx(256 / 16, rel=0.01)
    assert rounded.units["exponential"] == pytest.approx(0.75 * density.units["exponential"])
    assert score.units["exponential"] == pytest.approx(density.units["exponential"] / 2, rel=0.01)
    for budget in found:
        assert max(budget.units.values()) < budget.predicted < sum(budget.units.values()) / 0.7
        assert budget.measured == pytest.approx(budget.predicted, rel=0.2)


def test_the_block_is_the_launchers(run: dict[str, Any]) -> None:
    launcher = pytest.importorskip("cukde.density.pairs.gpu.f16_symmetric", reason="the launcher needs CuPy")
    of = kernels._block(kernels.peaks_of(run))
    layout = launcher.every_layout(16, 3)[0]
    assert (16 * of.row_tiles * of.warps, of.at_once) == (layout.rows, layout.blocks)
    assert of.passes_sums == (not layout.phi_is_shared)
