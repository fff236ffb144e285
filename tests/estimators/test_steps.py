"""The estimator's debiasing in several steps and without the own point: densities, rules, files, Dask, errors."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import cukde
from cukde import KernelDensity
from tests.conftest import Backend

RNG = np.random.default_rng(4)
X, Y, W = RNG.standard_normal((70, 2)), RNG.standard_normal((20, 2)), RNG.exponential(size=70)
MOVED = [{"steps": 2}, {"own_point": False}, {"steps": 3, "own_point": False}]


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("moved", MOVED, ids=str)
def test_densities_are_those_of_the_function(backend: Backend, moved: dict[str, Any], weighted: bool) -> None:
    w = backend.asarray(W) if weighted else None
    data, queries = backend.asarray(X), backend.asarray(Y)
    e = KernelDensity(bandwidth=0.5, method="sd", **moved).fit(data, sample_weight=w)
    want = cukde.sd_kde(data, queries, 0.5, weights=w, log=True, **moved)
    np.testing.assert_allclose(*map(backend.asnumpy, (e.score_samples(queries), want)), rtol=0, atol=1e-11)
    points = cukde.debias(data, 0.5, weights=w, **moved)
    np.testing.assert_allclose(*map(backend.asnumpy, (e.points_, points)), rtol=0, atol=1e-12)
    once = KernelDensity(bandwidth=0.5, method="sd").fit(data, sample_weight=w)
    assert abs(backend.asnumpy(e.points_ - once.points_)).max() > 0.01
    assert np.isfinite(backend.asnumpy(e.score_samples(data, leave_one_out=True))).all()


def test_the_rule_is_that_of_the_steps() -> None:
    e = KernelDensity(bandwidth="sd", method="sd", steps=np.int64(2)).fit(X)
    np.testing.assert_array_equal(e.bandwidth_, cukde.bandwidth.sd(X, steps=2))
    assert (e.bandwidth_ > cukde.bandwidth.sd(X)).all()


@pytest.mark.parametrize("moved", MOVED, ids=str)
def test_dask_collections(moved: dict[str, Any]) -> None:
    e = KernelDensity(bandwidth=0.5, method="sd", **moved)
    want = clone(e).fit(X).score_samples(Y)
    lazy = e.fit(da.from_array(X, chunks=(30, 2))).score_samples(Y)
    np.testing.assert_allclose(lazy, want, rtol=0, atol=1e-11)


def test_it_is_saved_pickled_and_cloned(tmp_path: Path) -> None:
    e = KernelDensity(bandwidth=0.5, method="sd", steps=2, own_point=False).fit(X)
    e.save(tmp_path / "model")
    for other in (KernelDensity.load(tmp_path / "model"), pickle.loads(pickle.dumps(e)), clone(e).fit(X)):
        np.testing.assert_array_equal(other.score_samples(Y), e.score_samples(Y))
        assert other.get_params() == e.get_params()


def test_a_search_over_steps() -> None:
    grid = [{"method": ["kde"]}, {"method": ["sd"], "steps": [1, 2], "own_point": [True, False]}]
    search = GridSearchCV(KernelDensity(bandwidth=0.5), grid, cv=3, error_score="raise").fit(X)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert len(set(search.cv_results_["mean_test_score"])) == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 2}, 'steps and own_point are for method="sd"; got steps=2'),
        ({"method": "laplace", "own_point": False}, r"^steps\b.*1"),
        ({"method": "sd", "steps": 0}, r"^steps\b"),
        ({"method": "sd", "steps": 2, "bandwidth": "cross_validate"}, r"^bandwidth\b.*2"),
    ],
    ids=["kde", "laplace", "none", "cross_validate"],
)
def test_bad_parameters_are_told_before_any_work(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        KernelDensity(**options).fit(X)


def test_a_change_after_the_fit_is_told() -> None:
    e = KernelDensity(bandwidth=0.5, method="sd", steps=2).fit(X).set_params(steps=3)
    with pytest.raises(ValueError, match=r"^steps\b.*2.*3"):
        e.score_samples(Y)


def test_one_row_cannot_leave_out_its_own_point() -> None:
    with pytest.raises(ValueError, match="own_point=False"):
        KernelDensity(method="sd", own_point=False).fit(X, sample_weight=np.eye(70)[0])
