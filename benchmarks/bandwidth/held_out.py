"""How well KDE and SD-KDE predict data they have not seen, each with its own bandwidth by leave-one-out likelihood.

python -m benchmarks.bandwidth.held_out --record benchmarks/results/held_out.json

Ten times four fifths of a set are fitted and the rest is scored. Columns are divided by the deviations of the fitted
rows, which both estimators share and which moves their log densities by the same number. The table is that of
docs/held_out.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import cukde
from benchmarks import record

SPLITS = 10
HELD_OUT = 0.2  # of the rows
SPARSE = 0.1  # of the rows held out: those to which KDE gives the least density

ESTIMATORS: dict[str, Callable[..., Any]] = {"kde": cukde.kde, "sd": cukde.sd_kde}


class Set(NamedTuple):
    """Data of n rows and d columns."""

    name: str
    rows: Callable[[], np.ndarray]
    what: str


def _sklearn(name: str, columns: slice = slice(None)) -> np.ndarray:
    from sklearn import datasets

    data: np.ndarray = getattr(datasets, f"load_{name}")().data
    return data[:, columns]


def _principal(X: np.ndarray, k: int) -> np.ndarray:
    """The first k principal components."""
    centred = X - X.mean(axis=0)
    return centred @ np.linalg.svd(centred, full_matrices=False)[2][:k].T


def _mixture(shares: Sequence[float], means: Any, deviations: Any, n: int) -> np.ndarray:
    """Draw of a mixture of normals; means and deviations (k,) or (k, d)."""
    rng = np.random.default_rng(0)
    means, deviations = (np.atleast_2d(np.asarray(a, np.float64).T).T for a in (means, deviations))
    part = rng.choice(len(shares), size=n, p=np.asarray(shares) / np.sum(shares))
    return means[part] + deviations[part] * rng.standard_normal((n, means.shape[1]))


def _eight_normals() -> np.ndarray:
    means = 2 * np.random.default_rng(1).standard_normal((8, 16))
    return _mixture([1] * 8, means, np.ones_like(means), 4000)


def _moons() -> np.ndarray:
    from sklearn.datasets import make_moons

    return make_moons(2000, noise=0.1, random_state=0)[0]


_SKEWED = [(2 / 3) ** k for k in range(8)]
_CLAW = [0.5] + [0.1] * 5

SETS = (
    Set("iris", lambda: _sklearn("iris"), "measurements of flowers, rounded to 0.1"),
    Set("wine", lambda: _sklearn("wine"), "chemistry of three cultivars"),
    Set("breast cancer", lambda: _sklearn("breast_cancer", slice(0, 10)), "means of ten features of cell nuclei"),
    Set("diabetes", lambda: _sklearn("diabetes", slice(2, 10)), "body mass, blood pressure and six serum values"),
    Set("digits", lambda: _principal(_sklearn("digits"), 8), "images, their first eight principal components"),
    Set("normal, 1-D", lambda: _mixture([1], [0], [1], 2000), "Marron and Wand's 1"),
    Set("strongly skewed", lambda: _mixture([1] * 8, [3 * (s - 1) for s in _SKEWED], _SKEWED, 2000), "their 3"),
    Set("bimodal", lambda: _mixture([1, 1], [-1, 1], [2 / 3, 2 / 3], 2000), "their 6"),
    Set("claw", lambda: _mixture(_CLAW, [0, -1, -0.5, 0, 0.5, 1], [1] + [0.1] * 5, 2000), "their 10"),
    Set("uniform square", lambda: np.random.default_rng(0).uniform(size=(2000, 2)), "edges all around"),
    Set("two moons", _moons, "two arcs with normal noise of 0.1"),
    Set("Student's t", lambda: np.random.default_rng(0).standard_t(3, size=(2000, 4)), "3 degrees of freedom, 4-D"),
    Set("normal, 8-D", lambda: np.random.default_rng(0).standard_normal((4000, 8)), "independent columns"),
    Set("eight normals", _eight_normals, "a mixture in 16-D, means of deviation 2"),
)


class Scores(NamedTuple):
    """Log densities of held-out rows, a row a split, and the bandwidths behind them in deviations."""

    log_densities: list[np.ndarray]
    bandwidths: list[float]

    @property
    def log_likelihoods(self) -> np.ndarray:
        """Mean log densities, one a split."""
        return np.mean(self.log_densities, axis=1)


def study(X: np.ndarray, splits: int) -> dict[str, Scores]:
    """Scores of each estimator on the same splits."""
    found = {name: Scores([], []) for name in ESTIMATORS}
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(X))
        cut = round(len(X) * HELD_OUT)
        held_out, fitted = X[order[:cut]], X[order[cut:]]
        scale = fitted.std(axis=0, ddof=1)
        for name, estimate in ESTIMATORS.items():
            h = cukde.bandwidth.cross_validate(fitted / scale, name).bandwidth
            log_p = estimate(fitted / scale, held_out / scale, h, log=True) - np.log(scale).sum()
            found[name].log_densities.append(log_p)
            found[name].bandwidths.append(float(np.exp(np.log(h).mean())))
    return found


def rows(sets: Sequence[Set], splits: int) -> Iterator[dict[str, Any]]:
    """A row a set."""
    for each in sets:
        X = each.rows()
        found = study(X, splits)
        of_rows = np.subtract(found["sd"].log_densities, found["kde"].log_densities)
        gains = of_rows.mean(axis=1)
        sparse = found["kde"].log_densities < np.quantile(found["kde"].log_densities, SPARSE, axis=1)[:, None]
        row: dict[str, Any] = {
            "op": "held_out",
            "backend": "cpu",
            "shape": {"n": X.shape[0], "d": X.shape[1]},
            "dtype": "float64",
            "precision": "float64",
            "set": each.name,
            "what": each.what,
            "splits": splits,
            "gain": float(gains.mean()),
            "gain_deviation": float(gains.std(ddof=1)),
            "gain_of_sparse": float(np.where(sparse, of_rows, 0).mean()),
            "won": int((gains > 0).sum()),
        }
        for name, scores in found.items():
            row[name] = float(scores.log_likelihoods.mean())
            row[f"{name}_deviation"] = float(scores.log_likelihoods.std(ddof=1))
            row[f"{name}_bandwidth"] = float(np.median(scores.bandwidths))
        yield row


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    cells = [
        row["set"],
        f"{row['shape']['n']:,} x {row['shape']['d']}",
        *(f"{row[name]:.3f} ± {row[f'{name}_deviation']:.3f}" for name in ESTIMATORS),
        f"{row['gain']:+.4f} ± {row['gain_deviation']:.4f}",
        f"{row['gain_of_sparse']:+.4f}",
        f"{row['won']} of {row['splits']}",
        *(f"{row[f'{name}_bandwidth']:.2f}" for name in ESTIMATORS),
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = record.arguments("bandwidth.held_out", __doc__)
    parser.add_argument("--splits", type=int, default=SPLITS)
    wanted = parser.parse_args()
    print("| set | rows | KDE | SD-KDE | gain | of sparse | splits won | h of KDE | of SD-KDE |\n" + "|---" * 9 + "|")
    done = record.kept(rows(SETS, wanted.splits), wanted.record, line)
    ahead = sum(row["gain"] > 0 for row in done)
    always, never = (sum(row["won"] == all_of for row in done) for all_of in (wanted.splits, 0))
    print(f"SD-KDE is ahead on {ahead} of {len(done)} sets, on every split of {always} and on none of {never}")


if __name__ == "__main__":
    main()
