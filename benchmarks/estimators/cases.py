"""Outlier detectors: a fit with the labels of its rows, on real data, beside scikit-learn's.

Rows of one kind are ordinary, and some of another are outliers among them, in standardised columns or principal
components. The AUROC is that of the scores of these rows, without labels in the fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import cukde
from benchmarks.record import Case
from cukde.core.dispatch import named, to_host

_COMPONENTS = 8


def _tumours() -> tuple[np.ndarray, np.ndarray]:
    """Benign tumours, and one malignant one in ten; and which these are."""
    from sklearn.datasets import load_breast_cancer

    X, benign = load_breast_cancer(return_X_y=True)
    kept = (benign == 1) | (np.cumsum(benign == 0) % 10 == 0)
    return X[kept], benign[kept] == 0


def _digits() -> tuple[np.ndarray, np.ndarray]:
    """Images of 1 to 9, and one in ten of those of 0."""
    from sklearn.datasets import load_digits

    X, digit = load_digits(return_X_y=True)
    kept = (digit > 0) | (np.cumsum(digit == 0) % 10 == 0)
    return X[kept], digit[kept] == 0


def _scattered(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Eight groups, and one row in a hundred anywhere."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, _COMPONENTS)) * 0.3 + rng.uniform(-3, 3, (8, _COMPONENTS))[rng.integers(8, size=n)]
    odd = np.arange(n) % 100 == 0
    rows[odd] = rng.uniform(-4, 4, (odd.sum(), _COMPONENTS))
    return rows, odd


_SETS: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "breast cancer": _tumours,
    "digits": _digits,
    "groups 3000": lambda: _scattered(3_000),
    "groups 30000": lambda: _scattered(30_000),
}
SETS = tuple(_SETS)


def outliers(backend: str, name: str, bandwidth: str) -> Case:
    """``fit_predict`` of the rows; the record has the AUROC of every detector."""
    from sklearn.decomposition import PCA
    from sklearn.ensemble import IsolationForest
    from sklearn.metrics import roc_auc_score
    from sklearn.neighbors import LocalOutlierFactor
    from sklearn.preprocessing import StandardScaler

    X, odd = _SETS[name]()
    columns = PCA(_COMPONENTS, random_state=0).fit_transform(StandardScaler().fit_transform(X))
    rows = named(backend).asarray(columns)
    share = float(odd.mean())
    detector = cukde.OutlierDetector(contamination=share, bandwidth=bandwidth)
    theirs: dict[str, Any] = {
        "LocalOutlierFactor": LocalOutlierFactor(contamination=share),
        "IsolationForest": IsolationForest(contamination=share, random_state=0),
    }
    for each in (detector, *theirs.values()):
        each.fit_predict(rows if each is detector else columns)
    scores = {
        "OutlierDetector": to_host(detector.training_scores_),
        "LocalOutlierFactor": theirs["LocalOutlierFactor"].negative_outlier_factor_,
        "IsolationForest": theirs["IsolationForest"].score_samples(columns),
    }
    auroc = {one: float(roc_auc_score(odd, -values)) for one, values in scores.items()}
    about = {"op": "OutlierDetector", "backend": backend, "shape": {"n": len(X), "d": _COMPONENTS, "set": name}}
    more = {"dtype": "float64", "precision": "float64", "rel_err_max": None, "bandwidth": bandwidth, "auroc": auroc}

    def fitted(of: Any, data: Any) -> Callable[[], Any]:
        return lambda: of.fit_predict(data)

    beside: dict[str, Any] = {} if backend == "gpu" else {k: (fitted(v, columns), None) for k, v in theirs.items()}
    return Case(fitted(detector, rows), about | more, beside)
