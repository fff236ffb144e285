"""The study of given scores: the score, the moves, and an error that is known."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.sources import given_score
from benchmarks.sources.oracle_mixture import Mixture


@pytest.mark.parametrize("d", [1, 2])
def test_the_score_is_the_gradient_of_the_log_density(d: int) -> None:
    oracle = Mixture.standardised(d, 3)
    X = np.random.default_rng(0).normal(size=(20, d))
    step = 1e-5 * np.eye(d)
    found = [np.log(oracle.density(X + e) / oracle.density(X - e)) / 2e-5 for e in step]
    np.testing.assert_allclose(given_score.score(oracle, X), np.transpose(found), rtol=1e-6, atol=1e-8)


def test_noise_is_a_share_of_the_score() -> None:
    oracle = Mixture.standardised(2, 3)
    X = oracle.sample(4000, np.random.default_rng(0)).astype(np.float64)
    moves = given_score.moves(oracle, X, 0)
    exact = moves["exact score"](X, 0.4) - X
    np.testing.assert_allclose(exact, 0.08 * given_score.score(oracle, X))
    noise = moves["noise of 0.3"](X, 0.4) - X - exact
    assert np.sqrt(np.mean(noise**2) / np.mean(exact**2)) == pytest.approx(0.3, rel=0.05)
    assert moves["kde"](X, 0.4) is X


def test_the_error_of_kde_is_the_exact_one() -> None:
    rows = {row["estimate"]: row for row in given_score.study(1, [500])}
    kde = rows["kde"]
    assert kde["mise"] == pytest.approx(Mixture.standardised(1, 3).expected_ise(500, kde["h"]), rel=0.5)
    assert rows["exact score"]["mise"] < rows["score of the data"]["mise"] < kde["mise"]
