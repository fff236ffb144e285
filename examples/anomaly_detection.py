"""Finds anomalies without labels: the rows where the density is low.

python -m examples.anomaly_detection

scikit-learn's breast-cancer set has 30 measurements of each tumour. The example takes all 357 benign tumours and the
first 21 malignant ones, one row in 18, as outlier benchmarks of this set do. In 30 dimensions all of the 378 rows are
far from each other, so the example estimates the density of three principal components, which hold 70% of the
variance. It uses all rows and no labels.

The labels only serve to judge the result, by the area under the receiver operating characteristic (AUROC): the share
of pairs in which a malignant row has a lower density than a benign one. It is 1/2 for guesses and 1 for a perfect
order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import cukde

MALIGNANT = 21
COMPONENTS = 3
EXPECTED = 0.05  # share of the rows to flag


class Found(NamedTuple):
    """How well low densities match the labels."""

    auroc: float  # of sd_kde
    auroc_of_sklearn: float  # of sklearn.neighbors.KernelDensity
    flagged: int  # number of rows whose density is below the level
    malignant: int  # number of flagged rows that are malignant


def tumours() -> tuple[np.ndarray, np.ndarray]:
    """Return principal components (378, 3) with standard deviation 1, and flags (378,) of the malignant rows."""
    from sklearn.datasets import load_breast_cancer

    X, benign = load_breast_cancer(return_X_y=True)
    rows = np.concatenate([np.flatnonzero(benign == 1), np.flatnonzero(benign == 0)[:MALIGNANT]])
    X = X[rows]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    _, _, axes = np.linalg.svd(X, full_matrices=False)
    X = X @ axes[:COMPONENTS].T
    return X / X.std(axis=0), benign[rows] == 0


def auroc(scores: np.ndarray, positive: np.ndarray) -> float:
    """Return the share of pairs of a positive and another row in which the positive scores higher; ties count half."""
    from scipy.stats import rankdata

    # In double precision: SciPy 1.18 gives the ranks the type of the scores.
    ranks, others = rankdata(np.asarray(scores, np.float64))[positive], len(scores) - positive.sum()
    return float((ranks.mean() - (len(ranks) + 1) / 2) / others)  # their ranks among themselves are 1, 2, ...


def detect(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return log densities (n,) without each row's own kernel, and flags (n,) of rows outside the densest region."""
    h = cukde.bandwidth.sd(X)
    log_p = cukde.sd_kde(X, X, h, log=True, leave_one_out=True)
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
