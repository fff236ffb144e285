"""Section 4: errors of KDE, SD-KDE and Laplace-corrected KDE against known densities in 16 dimensions and in one."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.sources.section import Cell, Outcome, Section, Setting, Table

_QUICK_16D, _CPU_16D, _GPU_16D = (1_000, 3_000), (3_000, 10_000, 30_000), (100_000, 300_000, 1_000_000)
_QUICK_1D, _FULL_1D = (1_000, 10_000), (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
_TEST_POINTS = 2_000, 10_000  # quick and full
_SEEDS = 3
_METRICS = ("mise", "miae", "negative_mass")


def run(setting: Setting) -> Outcome:
    """All three studies."""
    return Outcome.joined(study(setting) for study in (_sixteen, _one, _shared))


SECTION = Section(
    4, "Oracle study", "Flash-SD-KDE, section 6.1: figure 2 (16-D), figure 3 (1-D) and figure 4 (fusion)", run
)


def _sixteen(setting: Setting) -> Outcome:
    """Rows of the estimators, and a table with the Laplace correction in two passes, which has none of its own."""
    from benchmarks.sources import oracle_study_16d
    from benchmarks.sources.oracle_mixture import Mixture

    oracle = Mixture.standardised()
    sizes = _QUICK_16D if setting.quick else (*_CPU_16D, *(() if setting.no_gpu else _GPU_16D))
    m = _TEST_POINTS[0 if setting.quick else 1]
    cells: list[list[Cell]] = []
    rows = []
    for of in oracle_study_16d.study(sizes, m, setting.no_gpu, 0.1 if setting.quick else 1.0, oracle):
        for name, found in (("its rule", of.rule), ("least MISE", of.minimising)):
            values = found.mise.mean / oracle.roughness, found.miae.mean, found.negative_mass.mean
            cells.append([of.n, of.method.name, name, found.h, *values])
        rows += [of.row] if of.row else []
    columns = ["n", "estimator", "bandwidth", "h", "MISE / that of 0", "MIAE", "negative mass"]
    return Outcome(rows, [Table(f"Errors, 16-D, {m:,} test points", columns, cells)])


def _one(setting: Setting) -> Outcome:
    """At the bandwidth of least MISE, errors by it and by the rule, checked against the oracle."""
    from benchmarks.sources import oracle_study

    studied = list(oracle_study.study(_QUICK_1D if setting.quick else _FULL_1D, _SEEDS))
    return Outcome(list(_timed_1d(studied, oracle_study.GRID[:, None], 0.05 if setting.quick else 0.5)))


def _timed_1d(studied: Sequence[dict[str, Any]], grid: np.ndarray, seconds: float) -> Iterator[dict[str, Any]]:
    from benchmarks import record
    from benchmarks.sources import oracle_study
    from benchmarks.sources.estimates import FUSED, KDE, SD, SEPARATE, checked

    methods = {method.op: method for method in (KDE, SD, FUSED)}
    some = oracle_study.sample(32, 0)[:, None]  # the grid's ends are too far out for relative errors
    for best, rule in zip(studied[::2], studied[1::2], strict=True):
        method, n, h = methods[best["op"]], best["shape"]["n"], best["h"]
        X = oracle_study.sample(n, 0)[:, None]
        kept = ("h", *_METRICS, "ise", "iae")
        row = record.named(best) | {
            "rel_err_max": checked(method, X, some, h),
            "by_rule": {key: rule[key] for key in kept},
            "minimising": {key: best[key] for key in kept},
        }
        peers: dict[str, Any] = {}
        if method is FUSED:
            two = functools.partial(SEPARATE.estimate, X, grid, h)
            peers[SEPARATE.name] = two, checked(SEPARATE, X, some, h)
        yield record.compared(functools.partial(method.estimate, X, grid, h), row, peers, seconds=seconds)[0]


def _shared(setting: Setting) -> Outcome:
    """A table by the protocol of the source's own study, whose rows have a record of their own."""
    from benchmarks.sources import one_bandwidth

    sizes = one_bandwidth.SIZES_16D if setting.no_gpu else one_bandwidth.SIZES_16D_GPU
    sizes_1d, m = one_bandwidth.SIZES_1D, _TEST_POINTS[0 if setting.quick else 1]
    if setting.quick:
        sizes, sizes_1d = _QUICK_16D, sizes_1d[::3]
    rows = [*one_bandwidth.study_16d(sizes, m, setting.no_gpu), *one_bandwidth.study_1d(sizes_1d)]
    metrics = ("mise", "miae", "mise_by_oracle", "miae_by_oracle")
    names = {method.op: method.name for method in one_bandwidth.METHODS}
    cells: list[list[Cell]] = [
        [row["shape"]["d"], row["shape"]["n"], names[row["op"]], row["h"], *(row.get(name) for name in metrics)]
        for row in rows
    ]
    columns = ["d", "n", "estimator", "h", "MISE", "MIAE", "MISE by points of p", "MIAE by points of p"]
    return Outcome([], [Table("Errors at one bandwidth for all", columns, cells)])
