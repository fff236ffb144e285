"""The demo's second part: the methods of the library, compared by the log density of digits that they have not seen."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, train_test_split

import cukde

DIMENSIONS = (2, 16)
METHODS = ("kde", "sd", "positive", "laplace")
FOLDS = 5
GRID = np.geomspace(0.4, 2.5, 10)  # of bandwidths, in multiples of Silverman's rule
_TIE = 2.0  # standard errors of a mean difference


class Comparison(NamedTuple):
    """Log densities of the same held-out rows by each method, on some principal axes of the other rows."""

    dimensions: int
    log_density: dict[str, np.ndarray]

    def lead(self, method: str) -> tuple[float, float]:
        """Return a method's mean lead over KDE at the held-out rows, and the lead's standard error."""
        leads = self.log_density[method] - self.log_density["kde"]
        return float(leads.mean()), float(leads.std(ddof=1) / len(leads) ** 0.5)

    def verdict(self, method: str) -> str:
        """Return whether a method is ahead of KDE, behind it or, within two standard errors, level.

        One whose density is negative at a row, so that its lead is NaN, is behind.
        """
        lead, error = self.lead(method)
        return "level" if abs(lead) <= _TIE * error else "ahead" if lead > 0 else "behind"


def compare(
    images: np.ndarray, labels: np.ndarray, dimensions: int, seed: int, stage: Callable[[str], None]
) -> Comparison:
    """Hold out a third of the rows; nothing that is fitted, bandwidths and axes included, sees them."""
    train, held_out = train_test_split(images, test_size=1 / 3, random_state=seed, stratify=labels)
    axes = PCA(dimensions, random_state=0).fit(train)
    X, Y = axes.transform(train), axes.transform(held_out)
    found = {}
    for method in METHODS:
        stage(f"{method} on {dimensions} axes")
        found[method] = search(method, X).score_samples(Y)
    return Comparison(dimensions, found)


def search(method: str, X: np.ndarray) -> Any:
    """Choose one bandwidth for all axes by scikit-learn's cross-validation, of the held-out folds' log-likelihood."""
    silverman = float(np.sqrt(np.mean(cukde.bandwidth.silverman(X) ** 2)))
    with warnings.catch_warnings():
        # Bandwidths at which Laplace's estimate is negative at a row score -inf, which is right, and warn.
        warnings.simplefilter("ignore")
        return GridSearchCV(cukde.KernelDensity(method=method), {"bandwidth": silverman * GRID}, cv=FOLDS).fit(X)
