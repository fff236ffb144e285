"""``KernelDensity`` of columns of categories beside numbers."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chisquare, kstest, norm
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import cukde
from cukde import KernelDensity, OutlierDetector
from tests.conftest import Backend
from tests.density.test_mixed import KINDS, H, frame, of_polars, sample

TABLE = frame(sample(60))
BY_NAME = dict(zip(TABLE.columns, H, strict=True))


def test_densities_are_those_of_the_function(backend: Backend) -> None:
    X, Y = backend.asarray(sample(40)), backend.asarray(sample(12, 1))
    fitted = KernelDensity(bandwidth=H, kinds=KINDS).fit(X)
    want = backend.asnumpy(cukde.kde(X, Y, H, kinds=KINDS, log=True))
    np.testing.assert_allclose(backend.asnumpy(fitted.score_samples(Y)), want, rtol=1e-12)
    assert fitted.score(Y) == pytest.approx(want.sum())
    want = cukde.kde(X, None, H, kinds=KINDS, log=True, leave_one_out=True)
    got = fitted.score_samples(X, leave_one_out=True)
    np.testing.assert_allclose(backend.asnumpy(got), backend.asnumpy(want), rtol=1e-12)
    assert isinstance(fitted.sample(3, random_state=0), backend.xp.ndarray)


@pytest.mark.parametrize("make", [lambda t: t, of_polars], ids=["pandas", "polars"])
def test_frames(make: Any) -> None:
    table, w = make(TABLE), np.random.default_rng(0).uniform(0.1, 1, 60)
    fitted = KernelDensity(bandwidth=H).fit(table, sample_weight=w)
    want = cukde.kde(TABLE, TABLE, H, log=True, weights=w)
    np.testing.assert_allclose(fitted.score_samples(table), want, rtol=1e-12)
    loaded = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(loaded.score_samples(table), fitted.score_samples(table))
    drawn, again = fitted.sample(40, random_state=3), loaded.sample(40, random_state=3)
    if isinstance(drawn, pd.DataFrame):
        pd.testing.assert_frame_equal(drawn, again)
        assert drawn.dtypes.to_dict() == table.dtypes.to_dict()
    else:
        assert drawn.equals(again)
        assert drawn.schema == table.schema


def test_samples_have_the_density() -> None:
    """Cells by chi-square, and the numbers of the data without their kernels."""
    columns = ["a", "site", "level"]
    fitted = KernelDensity(bandwidth=H[:3]).fit(TABLE[columns])
    drawn = fitted.sample(20_000, random_state=0)
    cells = pd.DataFrame(
        [*itertools.product(["bay", "hill", "wood"], ["low", "mid", "high", "top"])], columns=columns[1:]
    )
    p = cukde.kde(TABLE[columns[1:]], cells.astype({"level": TABLE["level"].dtype}), H[1:3])
    counts = drawn.groupby(columns[1:], observed=False).size()
    got = [counts[tuple(cell)] for cell in cells.to_numpy()]
    assert chisquare(got, 20_000 * p / p.sum()).pvalue > 1e-3
    distribution = lambda y: norm.cdf((np.asarray(y)[:, None] - TABLE["a"].to_numpy()) / H[0]).mean(axis=1)  # noqa: E731
    assert kstest(drawn["a"].to_numpy()[:3000], distribution).pvalue > 1e-3


def test_samples_stay_within_bounds() -> None:
    table = TABLE[["a", "site"]].assign(a=abs(TABLE["a"]))
    fitted = KernelDensity(bandwidth={"a": 1.0, "site": 0.2}, bounds={"a": (0, None)}).fit(table)
    drawn = fitted.sample(500, random_state=0)
    assert drawn["a"].min() >= 0
    assert set(drawn["site"]) == {"bay", "hill", "wood"}


def test_pipelines_and_searches() -> None:
    doubled = FunctionTransformer(lambda t: t.assign(a=2 * t["a"]))
    line = make_pipeline(doubled, KernelDensity(bandwidth="cross_validate")).fit(TABLE)
    assert np.isfinite(line.score(TABLE))
    assert line[-1].bandwidth_.shape == (5,)
    assert line[-1].feature_names_in_.tolist() == list(TABLE.columns)
    table = TABLE.astype({"site": "category"})  # whose levels a part of the rows has, too
    search = GridSearchCV(KernelDensity(), {"bandwidth": [BY_NAME, BY_NAME | {"a": 30.0}]}, error_score="raise")
    assert search.fit(table).best_params_["bandwidth"]["a"] == H[0]
    fitted = KernelDensity(bandwidth=lambda t: {name: 0.3 for name in t.columns}).fit(table)
    assert fitted.bandwidth_.tolist() == [0.3] * 5
    assert clone(fitted).get_params()["kinds"] is None
    numbers = fitted.fit(TABLE[["a", "b"]])  # again, without categories
    assert numbers.score_samples(TABLE[["b", "a"]][["a", "b"]]).shape == (60,)


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: KernelDensity().fit(TABLE), ValueError, "^bandwidth must be 5 numbers"),
        (lambda: KernelDensity(bandwidth="scott").fit(TABLE), ValueError, "^bandwidth must be numbers or"),
        (lambda: KernelDensity(bandwidth=H, method="sd").fit(TABLE), ValueError, "^method must be 'kde' where"),
        (
            lambda: KernelDensity(bandwidth=H, kernel="tophat").fit(TABLE),
            ValueError,
            "^kernel must be 'gaussian' where",
        ),
        (
            lambda: KernelDensity(bandwidth=H).fit(TABLE.assign(site=None)),
            ValueError,
            "missing values; its column 'site'",
        ),
        (
            lambda: KernelDensity(bandwidth=H).fit(TABLE).save(Path("none.npz")),
            TypeError,
            "^save takes fits of columns",
        ),
        (lambda: KernelDensity(bandwidth=H).fit(TABLE).grad_log_density(TABLE), NotImplementedError, "numbers alone"),
        (
            lambda: KernelDensity(bandwidth=H).fit(TABLE).score_samples(sample(5)),
            ValueError,
            "^X must have categories of X; its column 1 has",
        ),
        (
            lambda: KernelDensity(bandwidth=H).fit(TABLE).score_samples(TABLE.assign(site="sea")),
            ValueError,
            "^X must have categories of X; its column 'site' has 'sea'",
        ),
        (lambda: KernelDensity(bandwidth=H).fit(TABLE).score_samples(TABLE[["a", "b"]]), ValueError, "feature names"),
        (lambda: KernelDensity(bandwidth=H).fit(TABLE).score_samples(TABLE.iloc[:, ::-1]), ValueError, "feature names"),
    ],
)
def test_wrong_arguments_say_what_to_do(call: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        call()


def test_outliers_of_categories() -> None:
    kinds = [None, *KINDS[1:]]
    for X, options in ((TABLE, {}), (sample(60), {"kinds": kinds})):
        detector = OutlierDetector(bandwidth=H, contamination=0.1, **options).fit(X)
        density = KernelDensity(bandwidth=H, **options).fit(X)
        np.testing.assert_array_equal(detector.training_scores_, density.score_samples(X, leave_one_out=True))
        np.testing.assert_array_equal(detector.score_samples(X), detector.training_scores_)
        assert (detector.predict(X) < 0).sum() == 6
    new = TABLE[:2].assign(a=[0.12, 30.0])
    fitted = OutlierDetector(bandwidth=H, contamination=0.1).fit(TABLE)
    np.testing.assert_allclose(fitted.score_samples(new), KernelDensity(bandwidth=H).fit(TABLE).score_samples(new))
    assert fitted.predict(new)[1] == -1


def test_dask_is_refused() -> None:
    da = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match=r"^kinds must be None for Dask"):
        KernelDensity(bandwidth=H, kinds=KINDS).fit(da.from_array(sample(20)))
