"""The outlier detector: against leave-one-out densities by the formula, scikit-learn's checks, and hostile input."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import cukde
from tests.reference import kde

_RNG = np.random.default_rng(7)
ROWS = np.concatenate([_RNG.normal(size=(76, 2)), [[9.0, 9.0], [-8.0, 7.0]]])
NEW = _RNG.normal(size=(9, 2)) * 3
H = 0.6

# scikit-learn's forests and support vectors are excused from it, too: a weight says how much a row counts.
EXCUSED = {"check_sample_weight_equivalence_on_dense_data": "a weight of 2 is not two rows, of which one is left"}


def others(X: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Log densities at rows of the other rows, one after the other."""
    w = np.ones(len(X)) if weights is None else weights
    rest = [np.arange(len(X)) != i for i in range(len(X))]
    return np.array([np.log(kde(X[r], X[[i]], H, weights=w[r])[0]) for i, r in enumerate(rest)])


@parametrize_with_checks(
    [cukde.OutlierDetector(), cukde.OutlierDetector(method="sd")], expected_failed_checks=lambda _: EXCUSED
)
def test_scikit_learns_checks_of_estimators(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_are_judged_by_the_others_and_new_ones_by_all(backend: ModuleType, weighted: bool) -> None:
    w = _RNG.uniform(0.5, 2, len(ROWS)) if weighted else None
    given = None if w is None else backend.asarray(w)
    X = backend.asarray(ROWS)
    detector = cukde.OutlierDetector(bandwidth=H, contamination=0.1).fit(X, sample_weight=given)
    scores = backend.asnumpy(detector.score_samples(X))
    np.testing.assert_allclose(scores, others(ROWS, w), rtol=1e-10)
    of_new = backend.asnumpy(detector.score_samples(backend.asarray(NEW)))
    np.testing.assert_allclose(of_new, np.log(kde(ROWS, NEW, H, weights=w)), rtol=1e-10)
    level = cukde.hdr_threshold(X, H, 0.9, log=True, weights=given)
    assert detector.offset_ == pytest.approx(float(level), rel=1e-12)
    both = np.concatenate([NEW, ROWS[::-1]])  # any order, with others: the same answers
    found = backend.asnumpy(detector.decision_function(backend.asarray(both)))
    np.testing.assert_allclose(found, np.concatenate([of_new, scores[::-1]]) - detector.offset_, rtol=1e-9, atol=1e-12)
    labels = detector.fit_predict(X, sample_weight=given)
    np.testing.assert_array_equal(labels, np.where(scores < detector.offset_, -1, 1))
    share = (labels < 0).mean() if w is None else w[labels < 0].sum() / w.sum()
    assert 0.1 - w.max() / w.sum() < share <= 0.1 if w is not None else share == pytest.approx(7 / 78)
    assert (labels[-2:] == -1).all()


def test_of_copies_one_is_left() -> None:
    """A pair of equal rows far out vouch for each other; float32 and float64 rows are the same rows."""
    X = np.concatenate([ROWS, ROWS[-1:]]).astype(np.float32)
    detector = cukde.OutlierDetector(bandwidth=H, contamination=0.02).fit(X)
    assert list(detector.predict(X[-3:].astype(np.float64))) == [-1, 1, 1]
    assert detector.score_samples(X).dtype == np.float32
    assert list(detector.predict(X[-3:] + np.float32(0.01))) == [1, 1, 1]  # these are new


def test_copies_with_weights_of_their_own_have_the_score_of_the_heaviest(backend: ModuleType) -> None:
    """A copy of no weight does not make a row that stands alone vouch for itself."""
    X = np.concatenate([ROWS[-1:], ROWS])
    w = np.r_[0.0, np.ones(len(ROWS))]
    detector = cukde.OutlierDetector(bandwidth=H, contamination=0.03)
    detector.fit(backend.asarray(X), sample_weight=backend.asarray(w))
    scores = backend.asnumpy(detector.training_scores_)
    alone = cukde.OutlierDetector(bandwidth=H, contamination=0.03).fit(ROWS)
    assert scores[0] == scores[-1] == pytest.approx(alone.training_scores_[-1], rel=1e-9)
    np.testing.assert_array_equal(backend.asnumpy(detector.score_samples(backend.asarray(X))), scores)
    assert detector.predict(backend.asarray(X[:1]))[0] == -1


def test_the_share_of_new_rows_is_that_of_the_level() -> None:
    X, Y = _RNG.normal(size=(2, 2000, 4))
    detector = cukde.OutlierDetector(contamination=0.1).fit(X)
    assert (detector.predict(X) < 0).sum() == 200
    assert (detector.predict(Y) < 0).mean() == pytest.approx(0.1, abs=0.025)
    assert (cukde.OutlierDetector().fit_predict(X) < 0).sum() == 100


@pytest.mark.parametrize(
    "options",
    [{"method": "sd"}, {"method": "positive"}, {"kernel": "exponential"}, {"metric": "manhattan"}],
    ids=lambda options: next(iter(options.values())),
)
def test_every_estimate_that_is_a_density(options: dict[str, Any]) -> None:
    detector = cukde.OutlierDetector(bandwidth=H, **options).fit(ROWS)
    density = cukde.KernelDensity(bandwidth=H, **options).fit(ROWS)
    np.testing.assert_allclose(detector.score_samples(ROWS), density.score_samples(ROWS, leave_one_out=True))
    np.testing.assert_allclose(detector.score_samples(NEW), density.score_samples(NEW))
    assert list(detector.predict(ROWS[-2:])) == [-1, -1]


def test_a_pipeline_and_a_search() -> None:
    X, benign = load_breast_cancer(return_X_y=True)
    kind = np.where(benign, 1, -1)
    steps = make_pipeline(StandardScaler(), PCA(6), cukde.OutlierDetector())
    found = GridSearchCV(steps, {"outlierdetector__bandwidth": [0.05, 1.5]}, scoring="roc_auc", cv=3).fit(X, kind)
    assert found.best_params_ == {"outlierdetector__bandwidth": 1.5}
    best = found.best_estimator_.fit(X[kind > 0])
    assert roc_auc_score(kind, best.decision_function(X)) > 0.93
    by_likelihood = GridSearchCV(steps, {"outlierdetector__bandwidth": [0.05, 1.0]}, cv=3).fit(X)
    assert by_likelihood.best_params_ == {"outlierdetector__bandwidth": 1.0}


def test_frames_keep_their_names() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS, columns=["a", "b"])
    detector = cukde.OutlierDetector(bandwidth={"b": H, "a": H}).fit(frame)
    assert list(detector.feature_names_in_) == ["a", "b"]
    plain = cukde.OutlierDetector(bandwidth=H).fit(ROWS)
    some = pandas.concat([frame[:3], pandas.DataFrame(NEW, columns=["a", "b"])])  # some known, some new
    np.testing.assert_array_equal(detector.decision_function(some), plain.decision_function(some.to_numpy()))
    with pytest.raises(ValueError, match="names"):
        detector.predict(frame[["b", "a"]])


@pytest.mark.parametrize("method", ["kde", "sd"])
def test_files_pickles_and_copies(tmp_path: Path, method: str) -> None:
    detector = cukde.OutlierDetector(bandwidth=H, method=method, contamination=0.2).fit(ROWS)
    detector.save(tmp_path / "kept.npz")
    loaded = cukde.OutlierDetector.load(tmp_path / "kept.npz")
    for one in (loaded, pickle.loads(pickle.dumps(detector)), copy.deepcopy(detector)):
        np.testing.assert_array_equal(one.predict(ROWS), detector.predict(ROWS))
        assert (one.offset_, one.contamination) == (detector.offset_, 0.2)
    with pytest.raises(ValueError, match="undamaged file"):
        cukde.KernelDensity.load(tmp_path / "kept.npz")


def test_a_gpu_detector(backend: ModuleType) -> None:
    X = backend.asarray(ROWS)
    labels = cukde.OutlierDetector(bandwidth=H).fit(X).predict(backend.asarray(NEW))
    assert type(labels) is np.ndarray
    np.testing.assert_array_equal(labels, cukde.OutlierDetector(bandwidth=H).fit(ROWS).predict(NEW))


def test_a_fit_that_raises_leaves_the_last_one(tmp_path: Path) -> None:
    """Also one that comes as far as the level, of which there is none where no row reaches another."""
    detector = cukde.OutlierDetector(kernel="tophat", bandwidth=3.0).fit(ROWS)
    want = detector.predict(NEW), detector.offset_
    with pytest.raises(ValueError, match="bandwidth"):
        detector.set_params(bandwidth=0.001).fit(ROWS)
    assert detector.bandwidth == 0.001  # parameters are the user's
    detector.save(tmp_path / "kept")
    for each in (detector, cukde.OutlierDetector.load(tmp_path / "kept")):
        np.testing.assert_array_equal(each.predict(NEW), want[0])
        assert each.offset_ == want[1]


@pytest.mark.parametrize("wrong", [0, -0.1, 0.6, "all", None, True, np.nan])
def test_contamination_is_a_share(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r'contamination must be "auto" or a number in \(0, 0.5\]'):
        cukde.OutlierDetector(contamination=wrong).fit(ROWS)


def test_what_is_refused() -> None:
    da = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match="method"):
        cukde.OutlierDetector(method="laplace").fit(ROWS)
    with pytest.raises(TypeError, match="Dask collection: fit a sample"):
        cukde.OutlierDetector().fit(da.from_array(ROWS))
    with pytest.raises(TypeError, match="Dask collection: fit a sample"):
        cukde.OutlierDetector().fit(ROWS).predict(da.from_array(NEW))
    with pytest.raises(ValueError, match="n_samples=1"):
        cukde.OutlierDetector(bandwidth=1.0).fit(ROWS[:1])
    with pytest.raises(ValueError, match=r"^bandwidth must reach another row from all but 0\.05"):
        cukde.OutlierDetector(bandwidth=1e-3, kernel="tophat").fit(ROWS)
    with pytest.raises(ValueError, match="two rows or more"):
        cukde.OutlierDetector(bandwidth=1.0).fit(ROWS[:2], sample_weight=[1.0, 0.0])
