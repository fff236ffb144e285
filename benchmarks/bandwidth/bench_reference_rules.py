"""How far the error of an estimate at its reference rule is above the least, for normal data: by simulation.

python -m benchmarks.bandwidth.bench_reference_rules --record benchmarks/results/reference_rules.json

A row has the excess of the mean integrated squared error at the rule over the least by any bandwidth, in percent, with
its standard error, and the same of the leading-order rule: the bandwidth that the first terms of the error give as n
grows. All bandwidths see the same samples, so that their difference is known better than the errors themselves. The
deviation of the data is known, 1. Of the Laplace-corrected estimate the error is known, and nothing is simulated.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline

import cukde
from benchmarks.record import target
from benchmarks.tools import records
from cukde.bandwidth import normal_reference

# Samples of each number of rows and dimension: their errors vary the more the fewer dimensions there are.
SAMPLES = {
    500: {1: 200, 2: 100, 4: 40, 8: 16, 16: 16},
    2000: {1: 100, 2: 50, 4: 16, 8: 8, 16: 8},
}
QUERIES = 2000  # at which estimates that are no sums of Gaussians are integrated

# Bandwidths over that of the rule. The least is that of a spline through their errors.
RATIOS = np.exp(np.linspace(-0.36, 0.36, 13))


class Method(NamedTuple):
    """An estimate: its rule, what the leading terms of its error give, and its squared error on a sample."""

    name: str
    steps: int
    leading: Callable[[int, int], float]
    error: Callable[[np.ndarray, float, np.random.Generator], float]
    own_point: bool = True

    def rule(self, n: int, d: int) -> float:
        """The bandwidth of the rule."""
        return normal_reference.factor(self.name, n, d, self.steps)


def of_normals(points: Any, h: float) -> float:
    """Integrated squared error of the kernel density of points, against N(0, I), over the integral of its square."""
    d = points.shape[1]
    square = float(cukde.kde(points, points, np.sqrt(2) * h).mean())
    v = 1 + h * h
    overlap = float(np.exp(-0.5 * (points**2).sum(axis=1) / v).mean()) * (2 * np.pi * v) ** (-d / 2)
    return (4 * np.pi) ** (d / 2) * (square - 2 * overlap) + 1


def of_sd(steps: int, *, own_point: bool = True) -> Callable[[np.ndarray, float, np.random.Generator], float]:
    """Error of SD-KDE, by the formula of its points."""
    return lambda X, h, rng: of_normals(cukde.debias(X, h, steps=steps, own_point=own_point), h)


def of_positive(X: np.ndarray, h: float, rng: np.random.Generator) -> float:
    """Error of the positive estimate, by a mean over queries from a mixture of normals."""
    n, d = X.shape
    deviations = np.where(np.arange(QUERIES) % 10 < 7, np.sqrt(0.5), 1.15)
    Y = deviations[:, None] * rng.standard_normal((QUERIES, d))
    squares = (Y**2).sum(axis=1)
    share, wide, p = (np.exp(-0.5 * squares / v) * (2 * np.pi * v) ** (-d / 2) for v in (0.5, 1.15**2, 1.0))
    drawn = X[rng.integers(n, size=QUERIES)] + h * rng.standard_normal((QUERIES, d))
    # The mean of t by the density itself is 0, so that the mass is 1 and the mean of what g(t) has besides.
    mass = 1 + float((np.hypot(1, _corrections(X, drawn, h)) - 1).mean())
    estimate = cukde.kde(X, Y, h) * np.exp(np.arcsinh(_corrections(X, Y, h))) / mass
    return float(((estimate - p) ** 2 / (0.7 * share + 0.3 * wide)).mean() * (4 * np.pi) ** (d / 2))


def _corrections(X: np.ndarray, Y: np.ndarray, h: float) -> np.ndarray:
    """The Laplace correction over the density."""
    out: np.ndarray = cukde.laplace_kde(X, Y, h) / cukde.kde(X, Y, h) - 1
    return out


def _leading_sd(n: int, d: int) -> float:
    r = 1 + d / 3 * (2 / 3) ** (d / 2) + d * (d + 2) / 64 * 2 ** (-d / 2)
    return float((32 * r / (25 * (d + 2) * n)) ** (1 / (d + 8)))


def _leading_laplace(n: int, d: int) -> float:
    return float((8 * (d + 8) / ((d + 4) * (d + 6) * n)) ** (1 / (d + 8)))


def _leading_positive(n: int, d: int) -> float:
    return float(((d + 8) / (8 * n)) ** (1 / (d + 8)))


METHODS = (
    Method("sd", 1, _leading_sd, of_sd(1)),
    Method("sd", 2, _leading_sd, of_sd(2)),
    Method("sd", 3, _leading_sd, of_sd(3)),
    Method("sd", 1, _leading_sd, of_sd(1, own_point=False), own_point=False),
    Method("sd", 2, _leading_sd, of_sd(2, own_point=False), own_point=False),
    Method("positive", 1, _leading_positive, of_positive),
)


class Excess(NamedTuple):
    """Percent above the least error, and standard errors."""

    best: float  # bandwidth
    least: float  # error
    rule: tuple[float, float]
    leading: tuple[float, float]


def excess(errors: np.ndarray, widths: np.ndarray, rule: float, leading: float) -> Excess:
    """Of errors (samples, widths), whose widths rise; standard errors by leaving out each sample."""

    def of(some: np.ndarray) -> np.ndarray:
        curve = CubicSpline(np.log(widths), np.log(some.mean(axis=0)))
        fine = np.linspace(np.log(widths[0]), np.log(widths[-1]), 4001)
        at = int(curve(fine).argmin())
        low = float(curve(fine[at]))
        rest = [100 * np.expm1(float(curve(np.log(h))) - low) for h in (rule, leading)]
        return np.array([np.exp(fine[at]), np.exp(low), *rest])

    count = len(errors)
    whole = of(errors)
    without = np.array([of(np.delete(errors, i, axis=0)) for i in range(count)])
    deviations = np.sqrt((count - 1) / count * ((without - without.mean(axis=0)) ** 2).sum(axis=0))
    return Excess(whole[0], whole[1], (whole[2], deviations[2]), (whole[3], deviations[3]))


def simulated(method: Method, n: int, d: int, samples: int) -> Excess:
    """Simulate the errors about the rule and at the leading-order rule."""
    rule, leading = method.rule(n, d), method.leading(n, d)
    widths = np.unique([*(rule * RATIOS), leading])
    errors = np.empty((samples, len(widths)))
    for sample in range(samples):
        X = np.random.default_rng(sample).standard_normal((n, d))
        errors[sample] = [method.error(X, h, np.random.default_rng([sample, 1])) for h in widths]
    return excess(errors, widths, rule, leading)


def exact_laplace(n: int, d: int) -> Excess:
    """The excess of the exact error of the Laplace-corrected estimate."""
    rule, leading = normal_reference.factor("laplace", n, d), _leading_laplace(n, d)
    k = np.linspace(0, 14 + 14 / leading, 20_001)
    normal = np.exp(-k * k)

    def error(h: float) -> float:
        kernel = (1 + (h * k) ** 2 / 2) * np.exp(-((h * k) ** 2) / 2)
        squares = normal * (1 - kernel) ** 2 + kernel**2 * (1 - normal) / n
        return float((squares * k ** (d - 1)).sum() / (normal * k ** (d - 1)).sum())

    grid = rule * np.exp(np.linspace(-0.05, 0.05, 201))
    all_of = [error(h) for h in grid]
    best, least = grid[int(np.argmin(all_of))], min(all_of)
    return Excess(best, least, *((100 * (error(h) / least - 1), 0.0) for h in (rule, leading)))


def rows(part: float = 1.0) -> Iterator[dict[str, Any]]:
    """A row for each method, size and dimension; ``part`` is that of the samples to take."""
    for method in (*METHODS, None):
        for n, of_dimensions in SAMPLES.items():
            for d, count in of_dimensions.items():
                samples = max(2, round(part * count))
                found = exact_laplace(n, d) if method is None else simulated(method, n, d, samples)
                name, steps = ("laplace", 1) if method is None else (method.name, method.steps)
                yield {
                    "op": "reference_rule",
                    "backend": "cpu",
                    "shape": {"n": n, "d": d},
                    "dtype": "float64",
                    "precision": "float64",
                    "method": name,
                    "steps": steps,
                    "own_point": method is None or method.own_point,
                    "samples": None if method is None else samples,
                    "rule": normal_reference.factor(name, n, d, steps),
                    "leading": _leading_laplace(n, d) if method is None else method.leading(n, d),
                    "best": found.best,
                    "least_error": found.least,
                    "excess_percent": found.rule[0],
                    "excess_standard_error": found.rule[1],
                    "leading_excess_percent": found.leading[0],
                    "leading_excess_standard_error": found.leading[1],
                }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bandwidth.bench_reference_rules", description=__doc__)
    parser.add_argument("--record", type=target, help="write the rows to this JSON file")
    parser.add_argument("--part", type=float, default=1.0, help="part of the samples to take; default all")
    wanted = parser.parse_args()
    done = []
    for row in rows(wanted.part):
        done.append(row)
        name = f"{row['method']} {row['steps']}{'' if row['own_point'] else ' of others'}"
        print(
            f"{name:<16}n={row['shape']['n']:<6}d={row['shape']['d']:<3}"
            f"h {row['leading']:.3f} -> {row['rule']:.3f} (best {row['best']:.3f}), error above the least "
            f"{row['leading_excess_percent']:.1f} ± {row['leading_excess_standard_error']:.1f}% -> "
            f"{row['excess_percent']:.2f} ± {row['excess_standard_error']:.2f}%",
            flush=True,
        )
    if wanted.record:
        records.write(wanted.record, done)
        print(f"written to {wanted.record}")


if __name__ == "__main__":
    main()
