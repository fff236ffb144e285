"""Cross-validation of mixed columns against the scores and slopes of products of kernels, and statsmodels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import cukde
from cukde.bandwidth import cross_validate
from tests.conftest import Backend
from tests.density.test_mixed import frame, kernels, sample as mixed_sample

KINDS = ["number", "categorical", "ordered"]
SIZES = [0, 3, 5]


def sample(n: int, seed: int = 0) -> np.ndarray:
    """A number that goes with an ordered level, and with an unordered one a little."""
    rng = np.random.default_rng(seed)
    site, level = np.resize(np.arange(3), n), rng.permutation(np.resize(np.arange(5), n))
    return np.column_stack([rng.normal(size=n) + level + 0.8 * (site == 2), site, level])


def score(X: np.ndarray, h: Any, w: Any = None) -> float:
    """The mean log density of each row, given the others."""
    w = np.full(len(X), 1 / len(X)) if w is None else w / w.sum()
    K = np.ones((len(X), len(X)))
    for k, (kind, c) in enumerate(zip(KINDS, SIZES, strict=True)):
        K *= kernels(X[:, k], X[:, k], h[k], kind, c)
    np.fill_diagonal(K, 0)
    return float(w @ np.log(K @ w / (1 - w)))


@pytest.mark.parametrize("weighted", [False, True])
def test_no_other_bandwidths_score_higher(backend: Backend, weighted: bool) -> None:
    X = sample(60)
    w = np.random.default_rng(1).uniform(0.2, 1, 60) if weighted else None
    found = cross_validate(backend.asarray(X), kinds=KINDS, weights=backend.asarray(w))
    h = backend.asnumpy(found.bandwidth)
    assert found.score == pytest.approx(score(X, h, w), abs=1e-9)
    tried = [score(X, row, w) for row in backend.asnumpy(found.bandwidths)]
    np.testing.assert_allclose(backend.asnumpy(found.scores), tried, atol=1e-5)
    limits = [(0.05, 5), (1e-6, 2 / 3), (1e-6, 1)]
    best = minimize(lambda u: -score(X, u, w), np.clip(h, *np.transpose(limits)), method="Nelder-Mead", bounds=limits)
    assert found.score >= -best.fun - 1e-6


def test_single_precision_is_near() -> None:
    X = sample(60)
    single = cross_validate(X.astype("float32"), kinds=KINDS)
    np.testing.assert_allclose(single.score, cross_validate(X, kinds=KINDS).score, atol=1e-4)


def test_a_column_that_says_nothing_is_smoothed_out() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=200), "coin": np.resize(["heads", "tails"], 200)})
    found = cross_validate(table)
    assert found.columns == ("x", "coin")
    assert found.bandwidth[1] > 0.4  # of 0.5, where both levels are alike
    alone = cross_validate(table[["x"]], per_dimension=True)
    assert found.bandwidth[0] == pytest.approx(alone.bandwidth[0], rel=0.1)


def test_the_rule_by_name_and_its_result() -> None:
    table = frame(mixed_sample(50))[["a", "site", "wet"]]
    found = cross_validate(table)
    want = cukde.kde(table, None, found, log=True, leave_one_out=True)
    assert want.mean() == pytest.approx(found.score, abs=1e-9)
    np.testing.assert_array_equal(cukde.kde(table, table, "cross_validate"), cukde.kde(table, table, found))
    turned = cukde.kde(table[["site", "wet", "a"]], table, found)  # whose columns are matched by name
    np.testing.assert_allclose(turned, cukde.kde(table, table, found), rtol=1e-12)


def test_levels_alone() -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 3, 200)
    X = np.column_stack([a, np.where(rng.uniform(size=200) < 0.8, a, rng.integers(0, 3, 200))])
    found = cross_validate(X, kinds=["categorical", "categorical"])
    assert (found.bandwidth < 0.3).all()
    assert found.score > -np.log(9)


def test_statsmodels_finds_no_better_ones() -> None:
    multivariate = pytest.importorskip("statsmodels.nonparametric.kernel_density").KDEMultivariate
    X = sample(60)[:, :2]
    found = cross_validate(X, kinds=KINDS[:2])
    theirs = np.clip(multivariate(X, "cu", bw="cv_ml").bw, 0, [np.inf, 2 / 3])  # beyond, other levels would weigh more
    # Minus the sum of logarithms of sums over the others, of which each is to be divided by n - 1.
    criterion = multivariate(X, "cu", bw=[1, 0.1]).loo_likelihood
    of_theirs, of_ours = (-criterion(h, np.log) / 60 - np.log(59) for h in (theirs, found.bandwidth))
    assert of_ours == pytest.approx(found.score, abs=1e-6)
    assert of_ours >= of_theirs - 1e-6


def test_shared_numbers_warn() -> None:
    X = np.column_stack([np.resize([1.0, 2, 3], 40), np.resize([0, 1], 40)])
    with pytest.warns(cukde.BandwidthRangeWarning, match="column 0 is the smallest"):
        cross_validate(X, kinds=["number", "categorical"])


def test_constant_numbers_are_refused() -> None:
    X = np.column_stack([np.ones(40), np.resize([0, 1], 40)])
    with pytest.raises(ValueError, match=r"^X must vary"):
        cross_validate(X, kinds=["number", "categorical"])
