"""Passes whose few far rows are taken apart, against float64; emulated, and on a GPU."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cukde.core.plan import only
from cukde.density.options import Options
from cukde.density.sums import PartialSums
from tests import reference, tolerances
from tests.conftest import Backend
from tests.density.samples import Sample

FAR = 1 / 40
"""Share of the rows that lie far out, where some do."""

ROOT_SHIFT = {"float32": 1.5e-4, "tf32": 4e-4}
"""Worst error of a mean shift: bandwidths times the root of the scaled squared radius (``test_mutual_sums.py``)."""


@pytest.fixture
def gpu(device: Backend) -> Iterator[SimpleNamespace]:
    """The modules under test, which look for far rows in passes of any size."""
    from cukde.density.pairs.gpu import difference, passes

    with only("apart"):
        yield SimpleNamespace(difference=difference, passes=passes, asarray=device.asarray, asnumpy=device.asnumpy)


def sample(n: int, m: int | None, d: int, where: str, *, weighted: bool = False, times: float = 1.0) -> Sample:
    """Data around 3; of data, queries or both some are 60 deviations and more away, two of them side by side.

    With ``times`` they are so many times as far.
    """
    s = Sample(n, m or n, d, weighted=weighted)
    rng = np.random.default_rng(d)
    for A in [s.X] * (where != "queries") + [s.Y] * (where != "data"):
        few = max(2, int(FAR * len(A)))
        rows = rng.choice(len(A), few, replace=False)
        directions = rng.standard_normal((few, d))
        directions /= np.linalg.norm(directions, axis=1)[:, None]
        A[rows] += (times * rng.uniform(60, 200, few)[:, None] * directions).astype(A.dtype)
        A[rows[1]] = A[rows[0]] + 0.1 * s.h
    if m is None:
        s.Y = s.X
    return s


def computed(gpu: SimpleNamespace, s: Sample, output: Any, precision: str, *, ratio: bool = False) -> PartialSums:
    centre = s.X.astype(float).mean(axis=0)
    squared_radius = max(float(((A - centre) ** 2).sum(axis=1).max()) for A in (s.X, s.Y)) / s.h**2
    log_weights = None if s.log_weights is None else gpu.asarray(s.log_weights)
    options = Options(precision, log_weights, gpu.asarray(centre), squared_radius, rtol=0.0)
    X = gpu.asarray(s.X)
    Y = None if s.Y is s.X else gpu.asarray(s.Y)
    sums = gpu.passes.partial_sums(X, Y, s.h, output, options, ratio=ratio)
    return PartialSums(*(None if a is None else gpu.asnumpy(a) for a in sums))


def radius_of_near(s: Sample) -> float:
    """Largest distance of the data that are not far out to their middle, in bandwidths."""
    distances = np.linalg.norm(s.X - 3.0, axis=1)
    return float(distances[distances < 30].max()) / s.h


def check(s: Sample, output: str, sums: PartialSums, precision: str) -> None:
    """By the documented errors of the engines: of log totals, of Laplace sums, and of mean shifts."""
    near = reference.nearness(s.X, s.Y, s.h, s.w)
    allowed = tolerances.log_error("gpu", precision, near.exponent)
    if output == "laplace":
        log_scale, total, size = reference.scaled_laplace(s.X, s.Y, s.h, s.w)
        error = np.exp(sums.reference - (log_scale - s.log_scale)) * sums.moments[:, 0] - total
        tolerances.check(np.abs(error), allowed * size, "Laplace sum")
    if output == "moments":
        allowed = np.maximum(allowed, ROOT_SHIFT.get(precision, 0.0) * radius_of_near(s))
        error = sums.moments / sums.total[:, None] / s.h - s.h * reference.score(s.X, s.Y, s.h, s.w)
        tolerances.check_score(np.linalg.norm(error, axis=1), allowed, near.reach)
    log_total = reference.log_kde(s.X, s.Y, s.h, s.w) - s.log_scale
    tolerances.check(np.abs(sums.reference + np.log(sums.total) - log_total), allowed, "log total")


@pytest.fixture
def pairs_by_differences(gpu: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Pairs of each launch of the kernel of differences that is no stand-in."""
    taken: list[int] = []
    launch = gpu.difference.launch

    def counted(precision: str, X: Any, Y: Any, *args: Any, **options: Any) -> Any:
        if "guard" not in options:
            taken.append(len(X) * len(X if Y is None else Y))
        return launch(precision, X, Y, *args, **options)

    monkeypatch.setattr(gpu.difference, "launch", counted)
    return taken


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("where", ["data", "queries", "both", "itself"])
@pytest.mark.parametrize("output", ["sum", "laplace", "moments"])
@pytest.mark.parametrize(("d", "precision"), [*itertools.product((3, 16, 40), ("float32", "tf32")), (70, "float64")])
def test_sums_match_the_formula(
    gpu: SimpleNamespace,
    pairs_by_differences: list[int],
    d: int,
    precision: str,
    output: str,
    where: str,
    weighted: bool,
) -> None:
    times = 30 if precision == "float64" else 1  # as products serve farther
    s = sample(330, None if where == "itself" else 170, d, where, weighted=weighted, times=times)
    check(s, output, computed(gpu, s, output, precision), precision)
    assert 0 < sum(pairs_by_differences) < 0.2 * len(s.X) * len(s.Y)


def test_of_many_far_rows_none_is_apart(gpu: SimpleNamespace, pairs_by_differences: list[int]) -> None:
    s = Sample(200, 120, 16)
    s.X[::8] *= 60
    check(s, "sum", computed(gpu, s, "sum", "float32"), "float32")
    assert pairs_by_differences == [200 * 120]


@pytest.mark.parametrize("n", [3, 40])
def test_few_rows(gpu: SimpleNamespace, n: int) -> None:
    """One far row of three is one of many; of 40 it is not."""
    s = Sample(n, 5, 4)
    s.X[n // 2] += 1000
    check(s, "moments", computed(gpu, s, "moments", "float32"), "float32")
