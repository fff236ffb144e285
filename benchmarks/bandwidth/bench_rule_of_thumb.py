"""Every method by every rule: squared errors against known densities, likelihood of rows they have not seen, and time.

python -m benchmarks.bandwidth.bench_rule_of_thumb mixtures --record FILE
python -m benchmarks.bandwidth.bench_rule_of_thumb real --record FILE

"mixtures" draws samples of the densities of :mod:`benchmarks.bandwidth.normal_mixtures`. The error is the integrated
squared one (:mod:`benchmarks.bandwidth.squared_errors`) over the integral of the squared density; the loss is the mean
of log f - log p_hat over fresh points, in nats. The Laplace-corrected estimate has no loss: it can be negative. "real"
splits the sets of :mod:`benchmarks.bandwidth.real_sets`: four fifths are fitted, the rest is scored, with columns in
deviations of the fitted rows. The oracle is the best bandwidth of a grid for the very sample, which no rule can know.
"select" is :func:`cukde.bandwidth.select`, which chooses the method too; "took" counts what it chose.

A run ends after ``--budget`` seconds, and its record says what it left out; ``--part I/K`` runs each K-th case alone,
so that several programs share the work. docs/choosing_evidence.md has the outcome.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import cukde
from benchmarks.bandwidth import normal_mixtures, real_sets
from benchmarks.bandwidth.estimates import Draws, Fitted, Method, methods
from benchmarks.bandwidth.normal_mixtures import Mixture
from benchmarks.bandwidth.rules_tried import rules
from benchmarks.bandwidth.squared_errors import ByPoints, OnGrid
from benchmarks.record import target
from benchmarks.tools import records
from cukde.core import dispatch

SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
DIMENSIONS = (1, 2, 4, 8, 16)

HELD_OUT = 0.2  # of the rows of a real set, or as many as there are fresh points if those are fewer

PAIRWISE = {"cpu": 2_000, "gpu": 20_000}
"""Rows that cross-validation and folds take at most, by backend: more are sampled and the bandwidth is narrowed."""


class Clock:
    """Whether there is time left."""

    def __init__(self, budget: float) -> None:
        self._end = time.monotonic() + budget

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self._end


class Outcome(NamedTuple):
    """Of one method by one rule for one sample; NaN for what there is not."""

    ise: float = math.nan  # over the integral of the squared density
    ise_error: float = math.nan  # its standard error
    loss: float = math.nan  # nats; of real sets minus the mean log density
    negative_mass: float = math.nan
    undefined: float = math.nan  # share of the scored points at which there is no logarithm
    bandwidth: float = math.nan  # geometric mean over the columns
    choose_ms: float = math.nan
    density_ms: float = math.nan


class Sample(NamedTuple):
    """Data, points that they are scored by, and how a density there is judged."""

    X: Any
    Y: Any
    log_true: float  # mean log of the true density at Y; 0 where it is unknown
    error: Callable[[Fitted], Any] | None
    roughness: float


class Outcomes(NamedTuple):
    """Of one sample."""

    of: dict[str, dict[str, Outcome]]  # by method and rule
    took: str  # the method that was selected


def outcomes(sample: Sample, of: dict[str, Method], most: int) -> Outcomes:
    """Every method by every rule."""
    found: dict[str, dict[str, Outcome]] = {}
    backend, d = dispatch.backend(sample.X), sample.X.shape[1]
    for name, method in of.items():
        by_rule = found[name] = {}
        for rule in rules(method, d, most):
            backend.synchronize()
            begin = time.perf_counter()
            try:
                h = rule.choose(sample.X)
            except ValueError:  # discrete data have no bandwidth by some rules
                by_rule[rule.name] = Outcome()
                continue
            choose_ms = 1e3 * (time.perf_counter() - begin)
            by_rule[rule.name] = _judged(sample, method, h)._replace(choose_ms=choose_ms)
        by_rule |= _oracles(sample, method)
    took, by_folds = _selected(sample, most)
    for name, outcome in by_folds.items():
        if name in found:
            found[name]["folds"] = outcome
    found["select"] = {"folds": by_folds[took]}
    return Outcomes(found, took)


def _selected(sample: Sample, most: int) -> tuple[str, dict[str, Outcome]]:
    """By :func:`cukde.bandwidth.select`: the method, and the outcome of each of those that it knows.

    Its time is that of all of them.
    """
    begin = time.perf_counter()
    chosen = cukde.bandwidth.select(sample.X, most_rows=most)
    choose_ms = 1e3 * (time.perf_counter() - begin)
    widths = np.asarray(dispatch.to_host(chosen.bandwidths), np.float64)
    known = methods()
    outcomes = {name: _judged(sample, known[name], h) for name, h in zip(chosen.methods, widths, strict=True)}
    return chosen.method, {name: outcome._replace(choose_ms=choose_ms) for name, outcome in outcomes.items()}


def _judged(sample: Sample, method: Method, h: np.ndarray) -> Outcome:
    """Errors, likelihood and time at one bandwidth."""
    backend = dispatch.backend(sample.X)
    begin = time.perf_counter()
    fitted = Fitted(method, sample.X, h)
    log_p = fitted.log_density(sample.Y)
    backend.synchronize()
    density_ms = 1e3 * (time.perf_counter() - begin)
    undefined = float((~backend.xp.isfinite(log_p)).mean())
    loss = math.nan if method.signed else sample.log_true - float(log_p.mean())
    out = Outcome(loss=loss, undefined=undefined, bandwidth=float(np.exp(np.log(h).mean())), density_ms=density_ms)
    if sample.error is None:
        return out
    errors = sample.error(fitted)
    return out._replace(
        ise=errors.ise / sample.roughness,
        ise_error=errors.standard_error / sample.roughness,
        negative_mass=errors.negative_mass,
    )


def _oracles(sample: Sample, method: Method) -> dict[str, Outcome]:
    """The least error and the least loss over a grid of bandwidths."""
    best: dict[str, Outcome] = {}

    def better(h: np.ndarray) -> bool:
        out, improved = _judged(sample, method, h), False
        for name in ("ise", "loss"):
            value = getattr(out, name)
            if not math.isnan(value) and not value >= getattr(best.get(name), name, math.inf):
                best[name], improved = out, True
        return improved

    rule, worse = dispatch.to_host(method.rule(sample.X)).astype(np.float64), 0
    for step in range(6, -16, -1):  # from 4 times the rule down to 1/32, until three in a row are no better
        worse = 0 if better(rule * 2 ** (step / 3)) else worse + 1
        if worse == 3:
            break
    return {f"oracle_{name}": out._replace(density_ms=math.nan) for name, out in best.items()}


def of_mixture(oracle: Mixture, n: int, draw: int, points: int, dtype: Any, backend: ModuleType) -> Sample:
    """Sample number ``draw`` of n points; samples of other sizes and draws are independent of it."""
    xp, rng = backend.xp, np.random.default_rng([n, draw, oracle.d])
    X = xp.asarray(oracle.sample(n, rng).astype(dtype))
    fresh = xp.asarray(oracle.sample(points, rng).astype(dtype))
    log_true = float(oracle.log_density(fresh, xp).mean())
    if oracle.d == 1:
        return Sample(X, fresh, log_true, OnGrid(oracle, dtype, xp), oracle.roughness)
    draws = Draws(
        xp.asarray(rng.integers(n, size=points)),
        xp.asarray(rng.standard_normal((points, oracle.d)).astype(dtype)),
        xp.asarray(rng.exponential(size=points)),
        xp.asarray(rng.uniform(size=points)),
    )
    return Sample(X, fresh, log_true, ByPoints(oracle, draws, rng, dtype, xp), oracle.roughness)


def of_set(rows: np.ndarray, n: int | None, draw: int, points: int, dtype: Any, backend: ModuleType) -> Sample:
    """Split number ``draw``; at most n rows are fitted and ``points`` scored."""
    order = np.random.default_rng(draw).permutation(len(rows))
    cut = round(len(rows) * HELD_OUT)
    scored, fitted = rows[order[:cut][:points]], rows[order[cut:][:n]]
    mean, scale = fitted.mean(axis=0), fitted.std(axis=0, ddof=1)
    X, Y = (backend.xp.asarray(((part - mean) / scale).astype(dtype)) for part in (fitted, scored))
    return Sample(X, Y, 0.0, None, math.nan)


class Case(NamedTuple):
    """What a row of the record is about."""

    name: str
    d: int
    n: int | None
    sample: Callable[[int], Sample]


def row(case: Case, draws: int, of: dict[str, Method], most: int, backend: str, clock: Clock) -> dict[str, Any]:
    """Outcomes of a case, over its draws; fewer where the time ends."""
    found: list[Outcomes] = []
    n = case.n
    for draw in range(draws):
        if clock.is_over:
            break
        sample = case.sample(draw)
        n = len(sample.X)
        found.append(outcomes(sample, of, min(most, n)))
    return {
        "op": "rule_of_thumb",
        "backend": backend,
        "shape": {"n": n, "d": case.d},
        "density": case.name,
        "draws": len(found),
        "pairwise_rows": most,
        "took": dict(Counter(one.took for one in found)),
        "results": _summary([one.of for one in found]) if found else {},
    }


def _summary(draws: Sequence[dict[str, dict[str, Outcome]]]) -> dict[str, Any]:
    """Means and deviations over the draws, and gains of loss over KDE by likelihood, sample by sample."""
    base = np.array([one["kde"]["likelihood"].loss for one in draws]) if "kde" in draws[0] else None
    out: dict[str, Any] = {}
    for method, by_rule in draws[0].items():
        for rule in by_rule:
            values = np.array([one[method].get(rule, Outcome()) for one in draws], np.float64)
            summary: dict[str, float] = {}
            for name, column in zip(Outcome._fields, values.T, strict=True):
                known = column[np.isfinite(column)]
                if len(known) == 0:
                    continue
                if name.endswith("_ms"):
                    summary[name] = float(np.median(known))
                    continue
                if len(known) < len(column):  # of the others there is nothing to average
                    summary[f"{name}_known"] = len(known)
                summary[name] = float(known.mean())
                if len(known) > 1 and name in ("ise", "loss"):
                    summary[f"{name}_deviation"] = float(known.std(ddof=1))
            losses = values[:, Outcome._fields.index("loss")]
            if base is not None and np.isfinite(base - losses).all():
                gains = base - losses
                summary |= {"gain": float(gains.mean()), "won": int((gains > 0).sum())}
                if len(gains) > 1:
                    summary["gain_deviation"] = float(gains.std(ddof=1))
            out.setdefault(method, {})[rule] = {key: float(f"{value:.4g}") for key, value in summary.items()}
    return out


def line(row: dict[str, Any]) -> str:
    """What a person sees of a row: each method's best rule, by the loss or, where it has none, the error."""
    shape = row["shape"]
    parts = [f"{row['density']:<24} d={shape['d']:<3} n={shape['n']:<8} x{row['draws']}"]
    for method, by_rule in row["results"].items():
        cells = []
        for rule, of in by_rule.items():
            loss = f"{of['loss']:.4f}" if "loss" in of else "-"
            cells.append(f"{rule} {loss}" + (f"/{of['ise']:.2e}" if "ise" in of else ""))
        parts.append(f"  {method:<9}" + ", ".join(cells))
    return "\n".join(parts)


def cases(wanted: argparse.Namespace, backend: ModuleType) -> Iterator[Case]:
    """Those that the arguments ask for, small ones first."""
    dtype = np.dtype(wanted.dtype)
    if wanted.arm == "real":
        for each in real_sets.SETS:
            if wanted.only and each.name not in wanted.only:
                continue
            try:
                rows = each.rows()
            except (ImportError, OSError) as failed:
                print(f"{each.name} is left out: {failed}")
                continue
            sample: Any = lambda draw, rows=rows: of_set(rows, wanted.rows, draw, wanted.points, dtype, backend)  # noqa: E731
            yield Case(each.name, rows.shape[1], None, sample)
        return
    for n in wanted.sizes:
        for d in wanted.dimensions:
            for oracle in normal_mixtures.family(d):
                if wanted.only and oracle.name not in wanted.only:
                    continue
                sample = lambda draw, n=n, oracle=oracle: of_mixture(oracle, n, draw, wanted.points, dtype, backend)  # noqa: E731
                yield Case(oracle.name, d, n, sample)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bandwidth.bench_rule_of_thumb",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("arm", choices=["mixtures", "real"])
    parser.add_argument("--backend", choices=["cpu", "gpu"], default="cpu")
    parser.add_argument("--draws", type=int, default=10, help="samples of a density, splits of a set")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which nothing new begins")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--dimensions", type=int, nargs="+", choices=DIMENSIONS, default=DIMENSIONS)
    parser.add_argument("--only", nargs="+", help="names of densities or sets")
    parser.add_argument("--methods", nargs="+", help="names of methods; all by default")
    parser.add_argument("--rows", type=int, help="of a real set that are fitted at most; all by default")
    parser.add_argument("--points", type=int, default=4096, help="fresh points, and of either half of an integral")
    parser.add_argument("--pairwise", type=int, help="rows that cross-validation takes at most")
    parser.add_argument("--part", default="0/1", help="I/K: each K-th case from the I-th")
    parser.add_argument("--dtype", choices=["float32", "float64"])
    parser.add_argument("--record", type=target, help="write the rows to this JSON file")
    wanted = parser.parse_args()
    wanted.dtype = wanted.dtype or {"cpu": "float64", "gpu": "float32"}[wanted.backend]
    return wanted


def main() -> None:
    wanted = arguments()
    clock = Clock(wanted.budget)
    backend = dispatch.named(wanted.backend)
    of = methods()
    if wanted.methods:
        of = {name: of[name] for name in wanted.methods}
    most = wanted.pairwise or PAIRWISE[backend.name]
    part, parts = map(int, wanted.part.split("/"))
    done: list[dict[str, Any]] = []
    left_out: list[str] = []
    for number, case in enumerate(cases(wanted, backend)):
        if number % parts != part:
            continue
        found = row(case, wanted.draws, of, most, backend.name, clock)
        if found["draws"]:
            done.append(found | {"dtype": wanted.dtype, "precision": wanted.dtype})
            print(line(done[-1]), flush=True)
        if found["draws"] < wanted.draws:
            left_out.append(f"{case.name}, d={case.d}, n={case.n}: {found['draws']} of {wanted.draws} draws")
            print(f"no time for {left_out[-1]}", flush=True)
        if wanted.record:  # after each case: a run that is stopped leaves what it had
            records.write(wanted.record, [*done, *({"op": "left_out", "what": each} for each in left_out)])
    if wanted.record:
        print(f"written to {wanted.record}")


if __name__ == "__main__":
    main()
