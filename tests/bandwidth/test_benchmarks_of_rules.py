"""The studies of covariances and of chains, on a small set and on few draws."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.bandwidth import chains, covariances
from benchmarks.bandwidth.held_out import Set


@pytest.mark.long
def test_a_covariance_is_judged_by_rows_that_were_not_fitted() -> None:
    rng = np.random.default_rng(0)
    long = rng.normal(size=(150, 2)) * 0.1 + rng.uniform(-2, 2, (150, 1))
    found = covariances.row(Set("long", lambda: long, ""), 2, rival=False)
    assert found["covariance"] > found["deviations"]
    assert found["gain"] > found["gain_error"] > 0
    assert covariances.line(found).startswith("| long | 150 x 2 |")


@pytest.mark.long
def test_errors_of_chains_are_relative_to_the_least() -> None:
    found = chains.row(chains.CHAINS[3], 400, 2)
    assert 0.2 < found["best"] < 1.5
    values = [found[name] for name in found if "," in name]
    assert all(value > 0.9 for value in values)
    assert found["silverman, density"] < found["silverman, rows"]
    assert chains.line(found).count("|") == 12


@pytest.mark.parametrize("chain", chains.CHAINS, ids=lambda chain: chain.name)
def test_chains_draw_from_their_densities(chain: chains.Chain) -> None:
    x = chain.draw(4000, np.random.default_rng(1))
    grid = chains.GRID
    variance = (grid**2 * chain.density(grid)).sum() * (grid[1] - grid[0])
    assert abs(x.std() ** 2 / variance - 1) < 0.6
