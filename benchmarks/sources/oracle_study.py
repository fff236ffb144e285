"""What bias reduction is worth: KDE, SD-KDE and Laplace-corrected KDE against a known density in one dimension.

python -m benchmarks.sources.oracle_study --record benchmarks/results/oracle_study.json --figure docs/oracle_study.png

The density is 0.5 N(-1.5, 0.5^2) + 0.5 N(1, 1). Each estimator is taken at the bandwidth that minimises its mean
integrated squared error over the samples (MISE), found anew at each n, and at its own normal-reference rule.

What it finds (``benchmarks/results/oracle_study.json``). At the minimising bandwidth MISE falls like n^-0.87 for
SD-KDE and for Laplace-corrected KDE, n^-0.79 for KDE: five samples leave a standard error of 0.015 in each of these
slopes, and 0.01 in their difference. The exact slopes over these sizes are -0.868 for Laplace-corrected KDE and -0.787
for KDE, on their way to -8/9 and -4/5.
At the rules the order turns round: they smooth a mixture 2 to 2.5 times too much, which costs fourth-order estimators,
with a squared bias like h^8, far more than KDE. There SD-KDE has 3.0 times KDE's MISE at n = 1,000 and 11 times at
10,000,000, and a slope of -0.59 where KDE has -0.74. With two modes in the data, take less than the rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import cukde
from benchmarks import record

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
SEEDS = 5

SHARES, MEANS, DEVIATIONS = np.array([0.5, 0.5]), np.array([-1.5, 1.0]), np.array([0.5, 1.0])

# 9 deviations of the wider component each way leave 1e-18 of the mass outside, and 1e-8 of an estimate's at any
# bandwidth of the study. The smallest one, 0.03, is 25 steps: squares are integrated to rounding, and absolute values,
# which have kinks, to a part in a thousand.
GRID = np.linspace(-8, 10, 2**14 + 1)


class Estimator(NamedTuple):
    name: str
    estimate: Callable[..., Any]
    rule: Callable[..., Any]
    order: float  # the best bandwidth falls like n^-order


ESTIMATORS = (
    Estimator("kde", cukde.kde, cukde.bandwidth.silverman, 1 / 5),
    Estimator("sd_kde", cukde.sd_kde, cukde.bandwidth.sd, 1 / 9),
    Estimator("laplace_kde", cukde.laplace_kde, cukde.bandwidth.laplace, 1 / 9),
)


class Errors(NamedTuple):
    ise: float
    iae: float
    negative_mass: float


def density(x: np.ndarray) -> np.ndarray:
    """The density that the samples are of."""
    z = (x[:, None] - MEANS) / DEVIATIONS
    return np.exp(-0.5 * z * z) @ (SHARES / (DEVIATIONS * math.sqrt(2 * math.pi)))


def sample(n: int, seed: int) -> np.ndarray:
    """Independent of the samples of other sizes and seeds."""
    rng = np.random.default_rng([n, seed])
    component = rng.choice(len(SHARES), n, p=SHARES)
    return MEANS[component] + DEVIATIONS[component] * rng.standard_normal(n)


def errors(estimate: np.ndarray, grid: np.ndarray = GRID) -> Errors:
    """Integrals by the trapezoid rule of what an estimate on the grid has wrong."""
    difference = estimate - density(grid)
    integrands = difference**2, abs(difference), np.maximum(-estimate, 0)
    return Errors(*(float(np.trapezoid(values, grid)) for values in integrands))


def expected_ise(name: str, n: int, h: float) -> float:
    """Exact MISE of a linear estimator, by Parseval (Marron and Wand 1992, section 2, have it in closed form).

    With the Fourier transforms p of the density and K of the kernel at bandwidth h it is the integral of
    |p|^2 (1 - K)^2 + K^2 (1 - |p|^2) / n over the frequencies, divided by 2 pi.
    """
    k = np.linspace(0, 12 / h, 2**16)  # K is below 1e-29 beyond
    p = np.exp(1j * k[:, None] * MEANS - 0.5 * (k[:, None] * DEVIATIONS) ** 2) @ SHARES
    power = abs(p) ** 2
    kernel = np.exp(-0.5 * (h * k) ** 2) * {"kde": 1.0, "laplace_kde": 1 + 0.5 * (h * k) ** 2}[name]
    return float(np.trapezoid(power * (1 - kernel) ** 2 + kernel**2 * (1 - power) / n, k)) / math.pi


def minimising(estimator: Estimator, samples: Sequence[np.ndarray], low: float, high: float) -> tuple[float, Any]:
    """Bandwidth between two that has the least mean ISE, within 1%, and the errors of each sample there."""
    from scipy.optimize import minimize_scalar

    seen = {}

    def mise(log_h: float) -> float:
        seen[log_h] = [errors(estimator.estimate(X, GRID, math.exp(log_h))) for X in samples]
        return float(np.mean([of_one.ise for of_one in seen[log_h]]))

    bounds = math.log(low), math.log(high)
    found = float(minimize_scalar(mise, bounds=bounds, method="bounded", options={"xatol": 0.01}).x)
    if min(found - bounds[0], bounds[1] - found) < 0.02:
        raise ValueError(f"the best bandwidth of {estimator.name} is not between {low:.3g} and {high:.3g}")
    return math.exp(found), seen[found]


def study(sizes: Sequence[int] = SIZES, seeds: int = SEEDS) -> Iterator[dict[str, Any]]:
    """Rows of the record, one for an estimator, a size and a choice of bandwidth."""
    # The rules suit a normal density of the same variance: they smooth a mixture too much.
    best = {estimator.name: 0.4 * _rule(estimator, sample(sizes[0], 0)) for estimator in ESTIMATORS}
    reach, before = 3.0, sizes[0]
    for n in sizes:
        samples = [sample(n, seed) for seed in range(seeds)]
        for estimator in ESTIMATORS:
            guess = best[estimator.name] * (before / n) ** estimator.order
            h, of_each = minimising(estimator, samples, guess / reach, guess * reach)
            best[estimator.name] = h
            yield _row(estimator, n, "minimising", h, of_each)
            rules = [_rule(estimator, X) for X in samples]
            of_each = [errors(estimator.estimate(X, GRID, h)) for X, h in zip(samples, rules, strict=True)]
            yield _row(estimator, n, "rule", float(np.mean(rules)), of_each)
        reach, before = 1.4, n


def _rule(estimator: Estimator, X: np.ndarray) -> float:
    return float(estimator.rule(X)[0])


def _row(estimator: Estimator, n: int, bandwidth: str, h: float, of_each: Sequence[Errors]) -> dict[str, Any]:
    mise, miae, negative_mass = (float(mean) for mean in np.mean(of_each, axis=0))
    row = {
        "op": estimator.name,
        "backend": "cpu",
        "shape": {"n": n, "m": len(GRID), "d": 1},
        "dtype": "float64",
        "precision": "float64",
        "bandwidth": bandwidth,
        "h": h,
        "mise": mise,
        "miae": miae,
        "negative_mass": negative_mass,
        "ise": [of_one.ise for of_one in of_each],
        "iae": [of_one.iae for of_one in of_each],
        "negative": [of_one.negative_mass for of_one in of_each],
    }
    if estimator.name != "sd_kde":  # which is not linear
        row["mise_expected"] = expected_ise(estimator.name, n, h)
    return row


def slopes(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Slopes of log MISE and log MIAE against log n, and what they exceed those of KDE by.

    The standard errors are of the mean of the seeds' own slopes. All estimators have the same samples: most of that
    error is common to them and drops out of a difference.
    """
    for bandwidth in ("minimising", "rule"):
        of_kde: dict[str, np.ndarray] = {}
        for estimator in ESTIMATORS:
            some = [row for row in rows if (row["op"], row["bandwidth"]) == (estimator.name, bandwidth)]
            log_n = np.log([row["shape"]["n"] for row in some])
            found: dict[str, Any] = {"op": estimator.name, "bandwidth": bandwidth}
            for mean, each in (("mise", "ise"), ("miae", "iae")):
                fitted = _slopes(log_n, [[row[mean], *row[each]] for row in some])
                beyond = fitted - of_kde.setdefault(mean, fitted)
                for name, values in ((f"slope_{mean}", fitted), (f"slope_{mean}_beyond_kde", beyond)):
                    found[name] = float(values[0])
                    found[f"{name}_error"] = float(values[1:].std(ddof=1)) / math.sqrt(len(values) - 1)
            if "mise_expected" in some[0]:
                found["slope_mise_expected"] = float(_slopes(log_n, [[row["mise_expected"]] for row in some])[0])
            yield found


def _slopes(log_n: np.ndarray, values: Sequence[Sequence[float]]) -> np.ndarray:
    """Least-squares slopes of the logarithms, one a column."""
    return np.polyfit(log_n, np.log(values), 1)[0]


def line(row: dict[str, Any]) -> str:
    """A row for people."""
    text = f"{row['op']:<12}{row['bandwidth']:<11}"
    if "slope_mise" in row:
        text += "slope"
        for name in ("mise", "mise_beyond_kde", "miae", "miae_beyond_kde"):
            value, error = row[f"slope_{name}"], row[f"slope_{name}_error"]
            text += f"  {name.replace('_', ' ')} {value:.3f} +- {error:.3f}"
        return text + (f"  mise expected {row['slope_mise_expected']:.3f}" if "slope_mise_expected" in row else "")
    text += f"n={row['shape']['n']:<9} h={row['h']:.4f}"
    text += "".join(f"  {name.replace('_', ' ')} {row[name]:.2e}" for name in ("mise", "miae", "negative_mass"))
    return text + (f"  mise expected {row['mise_expected']:.2e}" if "mise_expected" in row else "")


def main() -> None:
    parser = record.arguments("sources.oracle_study", __doc__)
    parser.add_argument("--figure", type=Path, help="draw them in this file, PNG or SVG")
    parser.add_argument("--most", type=int, default=SIZES[-1], help="largest number of points")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="samples of each size")
    wanted = parser.parse_args()
    rows = record.kept(
        study([n for n in SIZES if n <= wanted.most], wanted.seeds), wanted.record, line, lambda rows: [*slopes(rows)]
    )
    if wanted.figure:
        from docs.figures import oracle

        fitted = [row for row in rows if "slope_mise" in row]
        oracle.draw(rows[: -len(fitted)], fitted, wanted.figure)
        print(f"drawn in {wanted.figure}")


if __name__ == "__main__":
    main()
