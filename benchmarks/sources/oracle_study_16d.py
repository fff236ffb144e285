"""Errors of KDE, SD-KDE and Laplace-corrected KDE against a known density in 16 dimensions, by importance sampling.

The sources' mixture (:mod:`benchmarks.sources.oracle_mixture`), three samples of each size, each estimator by its own
rule and at the bandwidth of least MISE on a grid by steps of a tenth: of the same samples and test points, so that the
least is a little better than a new sample would have it. The integrals and bands are those of
:mod:`benchmarks.sources.importance`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from benchmarks import record
from benchmarks.sources import importance
from benchmarks.sources.estimates import FIRST, FUSED, KDE, SD, SEPARATE, Estimate, Method, checked, where
from benchmarks.sources.importance import Draws, Integrated
from benchmarks.sources.oracle_mixture import Mixture

METHODS = (KDE, SD, FUSED, SEPARATE)
SEEDS = 3


class Studied(NamedTuple):
    """A method at one size: errors by its rule and at the bandwidth of least MISE."""

    method: Method
    n: int
    rule: Integrated
    minimising: Integrated
    row: dict[str, Any] | None  # of the record, with times; that of two passes is the peer in the row of the one


def study(
    sizes: Sequence[int], m: int, no_gpu: str | None, seconds: float, oracle: Mixture | None = None
) -> Iterator[Studied]:
    """Errors and times of every method at every size, m test points; sizes rise."""
    oracle = oracle or Mixture.standardised()
    backend, xp = where(no_gpu)
    before: dict[str, tuple[int, float]] = {}
    for n in sizes:
        samples = [Draws.of(oracle, n, m, seed, xp.asarray) for seed in range(SEEDS)]
        found: dict[str, Studied] = {}
        for method in METHODS:
            fit = functools.partial(Estimate, method)
            rules = [method.bandwidth(s.X) for s in samples]
            if method is SEPARATE:  # the same estimator as in one pass
                h = found[FUSED.name].minimising.h
                best = importance.integrated(fit, samples, [h] * SEEDS, oracle)
            else:
                size, h = before.get(method.name, (n, FIRST * rules[0]))
                best = importance.minimising(fit, samples, oracle, method.carried(h, size, n, oracle.d))
            before[method.name] = n, best.h
            found[method.name] = Studied(method, n, importance.integrated(fit, samples, rules, oracle), best, None)
        X, Y = samples[0].X, xp.asarray(samples[0].of_oracle)
        Y = xp.concatenate([Y, xp.asarray(Estimate(KDE, X, found[KDE.name].rule.h).draw(samples[0]))])
        for of in found.values():
            yield of if of.method is SEPARATE else of._replace(row=_timed(of, found, backend, X, Y, seconds))


def _timed(of: Studied, found: dict[str, Studied], backend: str, X: Any, Y: Any, seconds: float) -> dict[str, Any]:
    """Row of the record: the method's errors, and its time at m queries by its rule."""
    h = of.rule.h
    error = max(checked(of.method, X, Y, each) for each in (h, of.minimising.h))
    row = {
        "op": of.method.op,
        "backend": backend,
        "shape": {"n": of.n, "m": len(Y), "d": X.shape[1]},
        "dtype": "float32",
        "precision": "float32",
        "rel_err_max": error,
        "by_rule": of.rule.row(),
        "minimising": of.minimising.row(),
    }
    peers: dict[str, Any] = {}
    if of.method is FUSED:
        two = found[SEPARATE.name].method
        peers[two.name] = functools.partial(two.estimate, X, Y, h), checked(two, X, Y, h)
    return record.compared(functools.partial(of.method.estimate, X, Y, h), row, peers, seconds=seconds)[0]
