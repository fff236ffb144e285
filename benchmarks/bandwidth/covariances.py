"""Covariances by cross-validation beside deviations, by held-out log likelihood and time.

python -m benchmarks.bandwidth.covariances --record benchmarks/results/covariances.json

Five times four fifths of a set are fitted, and the rest is scored. "gain" is what the result itself says, from rows of
those that were fitted. statsmodels' ``cv_ml`` maximises the same likelihood over deviations; it is run on the first
split of sets of up to 500 rows.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import cukde
from benchmarks import record
from benchmarks.bandwidth.held_out import HELD_OUT, SETS, Set

_NAMES = ("wine", "breast cancer", "diabetes", "digits", "uniform square", "two moons", "normal, 8-D")
_MOST_OF_STATSMODELS = 500


def _turned() -> np.ndarray:
    """Two clusters in eight columns, long along one direction that is no axis."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 8)) * np.geomspace(0.1, 2, 8)
    X[:1000, -1] += 6
    return np.asarray(X @ np.linalg.qr(rng.normal(size=(8, 8)))[0])


def _pair() -> np.ndarray:
    from sklearn.datasets import load_diabetes

    blood: np.ndarray = load_diabetes(scaled=False).data[:, 4:6]
    return blood


STUDIED = (
    Set("two of diabetes", _pair, "total cholesterol and LDL"),
    *(each for each in SETS if each.name in _NAMES),
    Set("turned clusters", _turned, "long along no axis, 8-D"),
)

RULES: dict[str, Callable[[np.ndarray], Any]] = {
    "silverman": lambda X: cukde.bandwidth.silverman(X, covariance=True),
    "deviations": lambda X: cukde.bandwidth.cross_validate(X, per_dimension=True),
    "covariance": lambda X: cukde.bandwidth.cross_validate(X, covariance=True),
}


def _of_statsmodels(X: np.ndarray) -> np.ndarray:
    from statsmodels.nonparametric.kernel_density import KDEMultivariate

    return np.asarray(KDEMultivariate(X, "c" * X.shape[1], bw="cv_ml").bw)


def _timed(rule: Callable[[np.ndarray], Any], X: np.ndarray) -> tuple[Any, float]:
    start = time.perf_counter()
    return rule(X), time.perf_counter() - start


def row(of: Set, splits: int, rival: bool) -> dict[str, Any]:
    """Means over the splits."""
    X = of.rows()
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in RULES}
    gains, rivals = [], {}
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(X))
        cut = round(len(X) * HELD_OUT)
        held_out, fitted = X[order[:cut]], X[order[cut:]]
        scale = fitted.std(axis=0, ddof=1)
        scaled, fresh = fitted / scale, held_out / scale
        for name, rule in RULES.items():
            h, seconds = _timed(rule, scaled)
            found[name].append((float(cukde.kde(scaled, fresh, h, log=True).mean()), seconds))
            if name == "covariance":
                gains.append((h.gain, h.gain_error))
        if rival and seed == 0 and len(X) <= _MOST_OF_STATSMODELS:
            h, seconds = _timed(_of_statsmodels, scaled)
            rivals = {"statsmodels": float(cukde.kde(scaled, fresh, h, log=True).mean()), "statsmodels_s": seconds}
    out: dict[str, Any] = {
        "op": "covariances",
        "backend": "cpu",
        "shape": {"n": len(X), "d": X.shape[1]},
        "dtype": "float64",
        "precision": "float64",
        "set": of.name,
        "splits": splits,
        "gain": float(np.mean(gains, axis=0)[0]),
        "gain_error": float(np.mean(gains, axis=0)[1]),
    }
    for name, pairs in found.items():
        # The first call of a shape may compile.
        out |= {name: float(np.mean(pairs, axis=0)[0]), f"{name}_s": float(np.median(pairs, axis=0)[1])}
    return out | rivals


def rows(splits: int, rival: bool) -> Iterator[dict[str, Any]]:
    """A row a set."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cukde.BandwidthRangeWarning)
        for each in STUDIED:
            yield row(each, splits, rival)


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    of_rival = f"{row['statsmodels']:.3f}, {row['statsmodels_s']:.1f} s" if "statsmodels" in row else ""
    cells = [
        row["set"],
        f"{row['shape']['n']:,} x {row['shape']['d']}",
        *(f"{row[name]:.3f}, {row[f'{name}_s']:.2f} s" for name in RULES),
        of_rival,
        f"{row['gain']:+.3f} ± {row['gain_error']:.3f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = record.arguments("bandwidth.covariances", __doc__)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--no-rival", action="store_true", help="leave out statsmodels")
    wanted = parser.parse_args()
    print(
        "| set | rows | Silverman's covariance | deviations | covariance | statsmodels | gain said |\n"
        + "|---" * 7
        + "|"
    )
    record.kept(rows(wanted.splits, not wanted.no_rival), wanted.record, line)


if __name__ == "__main__":
    main()
