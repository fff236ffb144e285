"""Leave-one-out sums of one column by the fast transform are those of all pairs."""

from __future__ import annotations

import numpy as np
import pytest

import cukde
from cukde.bandwidth import scores_1d
from tests import reference
from tests.conftest import Backend
from tests.private import (
    backend_of,
    bandwidth_cpu as cpu_passes,
    bandwidth_passes_of,
)
from tests.tolerances import LINE, check

ALLOWED = LINE["float64"].value / scores_1d._LEAST_REST  # what is left of a sum is right to the error of the whole
SCALES = 0.5 / np.geomspace(1e-4, 3, 4) ** 2


def sample(n: int, weighted: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """A dense middle, distant rows, equal rows, and one that is far from all."""
    rng = np.random.default_rng(n)
    X = np.concatenate([rng.normal(size=n - n // 4), 30 * rng.standard_cauchy(n // 4)])
    X[:7], X[-1] = X[7:14], 1e6
    w = rng.uniform(size=n) ** 9 if weighted else None
    return X[:, None], None if w is None else w / w.sum()


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("few", [1, 64, 10_000])
def test_sums(backend: Backend, monkeypatch: pytest.MonkeyPatch, few: int, weighted: bool) -> None:
    """``few`` rows are taken by all pairs: halves of halves end with one row, with some, or never begin."""
    monkeypatch.setattr(scores_1d, "_FEW", few)
    X, w = sample(backend.size(1000, 90 if few > 1 else 28), weighted)
    x = backend.asarray(X)
    got = scores_1d.leave_one_out(x, SCALES, backend.asarray(w), backend_of(x))
    for scale, logs in zip(SCALES, backend.asnumpy(got), strict=True):
        exact = reference.leave_one_out(X, float(scale), w)
        check(np.abs(logs - exact.log), ALLOWED + 8 * np.finfo(float).eps * exact.exponent, "log sum")


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_least_squares(backend: Backend, weighted: bool) -> None:
    X, w = sample(backend.size(1000, 90), weighted)
    x = backend.asarray(X)
    coefficients = np.tile([1.0, 0, 0, -np.sqrt(2), 0], (len(SCALES), 1))
    got = scores_1d.least_squares(x, SCALES, coefficients, backend.asarray(w), backend_of(x))
    for scale, of, each in zip(SCALES, coefficients, got, strict=True):
        exact = reference.least_squares(X, float(scale), of, w)
        check(np.abs(each - exact.value), np.full((), ALLOWED * exact.size), "sum over pairs")


@pytest.mark.parametrize("objective", ["likelihood", "least_squares"])
def test_scores_are_those_of_all_pairs(backend: Backend, monkeypatch: pytest.MonkeyPatch, objective: str) -> None:
    X = backend.asarray(np.random.default_rng(1).normal(size=backend.size(5000, 120)))
    h = np.geomspace(0.05, 1, 4)
    passes = bandwidth_passes_of(backend_of(X))
    found = []
    for least in (1, 10**9):
        monkeypatch.setattr(passes, "LEAST_ROWS_OF_LINE", least)
        found.append(cukde.bandwidth.cross_validate(X, "kde", h, objective).scores)  # type: ignore[arg-type]
    by_line, by_pairs = map(backend.asnumpy, found)
    np.testing.assert_allclose(by_line, by_pairs, rtol=1e-10)


def test_many_rows_of_the_cpu_go_by_the_transform(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(2).normal(size=20_000)
    called = []
    pairs = cpu_passes.leave_one_out
    monkeypatch.setattr(cpu_passes, "leave_one_out", lambda *given: called.append(len(given[0])) or pairs(*given))
    found = cukde.bandwidth.cross_validate(X)
    assert max(called, default=0) <= scores_1d._FEW
    assert found.bandwidth[0] == pytest.approx(cukde.bandwidth.silverman(X)[0], rel=0.3)
