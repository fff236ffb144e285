"""The study at one bandwidth for all estimates: its rule, its density, and errors that are known."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.sources import one_bandwidth
from benchmarks.sources.oracle_mixture import Mixture


def test_the_bandwidth_is_silvermans_of_one_column_averaged() -> None:
    X = np.stack([np.arange(101.0), 1000 * (np.arange(101.0) == 7)], axis=1)  # the second has no quartiles apart
    narrow = 50 / 1.34  # less than the deviation is, were it of a normal; that of a uniform one is less
    assert one_bandwidth.bandwidth(X[:, :1]) == pytest.approx(0.9 * min(narrow, X[:, 0].std()) * 101**-0.2)
    assert one_bandwidth.bandwidth(X) == pytest.approx(0.9 * min(narrow, X[:, 0].std()) / 2 * 101 ** (-1 / 6))


def test_the_density_of_one_column_integrates_to_one() -> None:
    p = one_bandwidth.NORMALS.density(one_bandwidth.GRID)
    assert np.trapezoid(p, one_bandwidth.GRID[:, 0]) == pytest.approx(1, abs=1e-6)
    found, _ = np.histogram(one_bandwidth.sample(4096, 0), bins=[-6, -1, 1, 6])
    assert found / 4096 == pytest.approx([0.34, 0.35, 0.31], abs=0.04)


def test_rows_of_one_column() -> None:
    rows = list(one_bandwidth.study_1d([128, 512], seeds=2))
    assert [row["op"] for row in rows] == ["kde", "sd_kde", "laplace_kde"] * 2
    for first, second in zip(rows, rows[3:], strict=False):
        assert first["h"] > second["h"]
        assert second["mise"] < first["mise"] == pytest.approx(np.mean(first["ise"]))


def test_errors_of_kde_are_the_exact_ones() -> None:
    oracle = Mixture.standardised(2, 3)
    kde, sd, laplace = one_bandwidth.study_16d([1000], 2000, "no GPU in this test", oracle)
    assert kde["h"] == sd["h"] == laplace["h"]
    for row, signed in ((kde, False), (laplace, True)):
        expected = oracle.expected_ise(1000, row["h"], laplace=signed)
        assert row["mise"] == pytest.approx(expected, rel=0.25)
        assert row["mise_by_oracle"] == pytest.approx(row["mise"], rel=0.25)
