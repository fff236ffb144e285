"""Anomalies without labels: rows where the density is low.

python -m examples.anomaly_detection

scikit-learn's breast-cancer set has 30 measurements of each tumour. Here are all 357 benign ones and the first 21 that
are malignant, one row in eighteen, as in the outlier benchmarks made of this set. In 30 dimensions 378 rows are all far
from each other, so densities are those of three principal components, which hold 70% of the variance. They are
estimated from all rows together; the labels are looked at when all is done, to say how often a malignant row has a
lower density than a benign one: the area under the receiver operating characteristic (AUROC), 1/2 for guesses and 1 for
a perfect order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import cukde

MALIGNANT = 21
COMPONENTS = 3
EXPECTED = 0.05  # of the rows, to be flagged


class Found(NamedTuple):
    """What the densities say of the labels."""

    auroc: float  # of sd_kde
    auroc_of_sklearn: float  # of sklearn.neighbors.KernelDensity
    flagged: int  # rows below the level that holds the others
    malignant: int  # of these


def tumours() -> tuple[np.ndarray, np.ndarray]:
    """Principal components (378, 3) of the measurements, each of deviation 1; and which rows are malignant."""
    from sklearn.datasets import load_breast_cancer

    X, benign = load_breast_cancer(return_X_y=True)
    rows = np.concatenate([np.flatnonzero(benign == 1), np.flatnonzero(benign == 0)[:MALIGNANT]])
    X = X[rows]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    _, _, axes = np.linalg.svd(X, full_matrices=False)
    X = X @ axes[:COMPONENTS].T
    return X / X.std(axis=0), benign[rows] == 0


def auroc(scores: np.ndarray, positive: np.ndarray) -> float:
    """How often a positive row has the higher score of a pair with another; half of it where they are the same."""
    from scipy.stats import rankdata

    ranks, others = rankdata(scores)[positive], len(scores) - positive.sum()
    return float((ranks.mean() - (len(ranks) + 1) / 2) / others)  # among themselves they have the ranks 1, 2, ...


def detect(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log densities (n,), low where a row is unlike the others; and which rows are outside the region of the others."""
    h = cukde.bandwidth.sd(X)
    log_p = cukde.sd_kde(X, X, h, log=True)
    level = cukde.hdr_threshold(X, h, 1 - EXPECTED, method="sd", log=True)
    return log_p, log_p < level


def main() -> Found:
    from sklearn.neighbors import KernelDensity

    X, malignant = tumours()
    log_p, flagged = detect(X)
    of_sklearn = KernelDensity(bandwidth="silverman").fit(X).score_samples(X)
    found = Found(
        auroc(-log_p, malignant),
        auroc(-of_sklearn, malignant),
        int(flagged.sum()),
        int((flagged & malignant).sum()),
    )
    print(f"AUROC: sd_kde {found.auroc:.4f}, sklearn.neighbors.KernelDensity {found.auroc_of_sklearn:.4f}")
    print(
        f"of the {found.flagged} rows of {len(X)} with the lowest density {found.malignant} are malignant, "
        f"as are {malignant.sum()} of all"
    )
    return found


if __name__ == "__main__":
    main()
