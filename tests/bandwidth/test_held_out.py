"""The held-out study measures what it says."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.neighbors import KernelDensity

from benchmarks.bandwidth import held_out


def test_scores_of_kde_are_those_of_scikit_learn() -> None:
    X = np.random.default_rng(3).standard_normal((120, 2)) * np.array([1.0, 50.0])
    scores = held_out.study(X, 2)["kde"]
    order = np.random.default_rng(1).permutation(120)
    held, fitted = X[order[:24]], X[order[24:]]
    scale = fitted.std(axis=0, ddof=1)
    deviations = held_out.cukde.bandwidth.cross_validate(fitted / scale).bandwidth
    theirs = KernelDensity(bandwidth=1.0).fit(fitted / scale / deviations)
    expected = theirs.score_samples(held / scale / deviations) - np.log(scale * deviations).sum()
    assert scores.log_likelihoods[1] == pytest.approx(expected.mean(), abs=1e-9)
    assert scores.bandwidths[1] == pytest.approx(np.exp(np.log(deviations).mean()))


def test_a_row() -> None:
    X = np.random.default_rng(0).standard_normal((150, 1))
    (row,) = held_out.rows([held_out.Set("normal", lambda: X, "")], 3)
    assert row["shape"] == {"n": 150, "d": 1}
    assert row["gain"] == pytest.approx(row["sd"] - row["kde"], abs=1e-12)
    assert 0 <= row["won"] <= 3
    assert row["kde_deviation"] > 0
    scores = held_out.study(X, 3)
    of_sparse = [
        (sd - kde)[np.argsort(kde)[:3]].sum() / 30
        for sd, kde in zip(scores["sd"].log_densities, scores["kde"].log_densities, strict=True)
    ]
    assert row["gain_of_sparse"] == pytest.approx(np.mean(of_sparse), abs=1e-12)
    line = held_out.line(row)
    assert line.startswith("| normal | 150 x 1 |")
    assert f"{row['won']} of 3" in line
