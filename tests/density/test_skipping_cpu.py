"""Passes on the CPU that leave out pairs: local factors, rounding, threads, and which pass is taken.

``test_skipping.py`` has what they share with those of a GPU.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from cukde.core.cpu import threads
from cukde.density.options import Options
from cukde.density.pairs import frame as pairs_frame
from cukde.density.pairs.cpu import passes as pairs_passes
from cukde.density.pairs.cpu.skipping import choice, passes
from cukde.density.sums import Output, PartialSums
from tests import reference, tolerances
from tests.density import test_skipping as cases
from tests.density.test_skipping import DEFAULT, Case, normal


@pytest.mark.parametrize("square", [30.0, 3000.0, 4e5, 4e7, 4e10, 4e14])
@pytest.mark.parametrize("d", [6, 33])
def test_rounding_of_the_screen_leaves_out_no_pair(d: int, square: float) -> None:
    """All points of a block are the same, so that one rounding decides on all of its pairs.

    Beside the block's own 64 points, each of six blocks adds more than the tolerance if it is left out.
    """
    tolerance, n = 1e-2, 1024
    rng = np.random.default_rng([d, int(square) % 2**31])
    at = cases.radius_of(square) * cases.on_shells(np.ones(1), d, rng)
    others = cases.on_shells(cases.radius_of(np.full(6, math.log2(n / tolerance) - 10)), d, rng)
    case = Case(np.repeat(np.concatenate((at, at + others, np.zeros((9, d)))), 64, axis=0), None, 1.0)
    found = passes.run(cases.prepared_on_cpu(case, "sum", "float64", tolerance))
    cases.check(found, case, "sum", "float64", tolerance, device="cpu")


@pytest.mark.parametrize("weighted", [False, True], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("d", [2, 5, 6, 16])
@pytest.mark.parametrize("precision", DEFAULT)
def test_local_factors(precision: str, d: int, weighted: bool) -> None:
    rng = np.random.default_rng(d)
    case = normal(800, 200, d).of(precision)
    factors = np.exp(rng.uniform(-3, 3, 800))
    w = 10 ** -rng.uniform(0, 30, 800) if weighted else np.ones(800)
    logs = np.log(w) - d * np.log(factors)
    assert case.Y is not None
    options = Options(precision, logs, local_factors=factors)
    found = passes.run(
        passes.prepare(case.X, case.Y, case.h, "sum", options, pairs_frame.frame(case.X), DEFAULT[precision])
    )
    r = np.linalg.norm(case.Y[:, None].astype(float) - case.X[None].astype(float), axis=2)
    exponents = logs - 0.5 * (r / (case.h * factors)) ** 2
    top = exponents.max(axis=1)
    want = top + np.log(np.exp(exponents - top[:, None]).sum(axis=1))
    spent = 0.5 * (r / (case.h * factors)) ** 2 + np.abs(logs)
    largest = np.take_along_axis(spent, exponents.argmax(axis=1)[:, None], axis=1)[:, 0]
    allowed = tolerances.log_error("cpu", precision, largest) + DEFAULT[precision]
    tolerances.check(np.abs(found.reference + np.log(found.total) - want), allowed, "log total")


@pytest.mark.parametrize("d", [2, 6, 16])
@pytest.mark.parametrize("precision", DEFAULT)
def test_moments_and_laplace_factors_by_local_factors(precision: str, d: int) -> None:
    case = normal(800, 200, d).of(precision)
    factors = np.exp(np.random.default_rng(d).uniform(-2, 2, 800))
    of, tolerance = reference.local(case.X, case.queries, case.h, factors), DEFAULT[precision]
    allowed = tolerances.log_error("cpu", precision, of.exponent) + tolerance

    def sums(output: Output, tolerance: float, **options: bool) -> PartialSums:
        chosen = Options(precision, -d * np.log(factors), local_factors=factors, **options)
        frame = pairs_frame.frame(case.X)
        return passes.run(passes.prepare(case.X, case.Y, case.h, output, chosen, frame, tolerance))

    def error(found: PartialSums, want: np.ndarray) -> np.ndarray:
        assert found.moments is not None
        return np.linalg.norm(found.moments / found.total[:, None] - want, axis=1) / case.h

    tolerances.check(error(sums("moments", tolerance), of.shift), allowed * np.maximum(1, of.reach), "mean shift")
    gradient = sums("moments", tolerance * factors.min(), of_gradient=True)
    beside = 10 * tolerance  # of what is left out some bandwidths away
    tolerances.check(error(gradient, case.h**2 * of.score), allowed * np.maximum(1, of.steepness) + beside, "score")
    corrected = sums("laplace", tolerance)
    assert corrected.moments is not None
    found = corrected.moments[:, 0] / corrected.total
    tolerances.check(np.abs(found - of.laplace), allowed * of.size, "corrected")


def test_a_gradient_has_the_tolerance_of_the_narrowest_point() -> None:
    rng = np.random.default_rng(0)
    X, Y, factors = rng.standard_normal((20_000, 3)), rng.standard_normal((1_000, 3)), rng.uniform(0.01, 1, 20_000)
    found = []
    for of_gradient in (False, True):
        options = Options("float64", -3 * np.log(factors), local_factors=factors, rtol=1e-6, of_gradient=of_gradient)
        options = pairs_passes._located(options, X, Y, 0.05)
        of = choice.prepared(X, Y, 0.05, "moments", options, single=False)
        assert of is not None
        found.append(of.tolerance)
    assert found == pytest.approx([1e-6, 1e-6 * factors.min()])


@pytest.mark.parametrize("output", ["sum", "ratio", "laplace"])
@pytest.mark.parametrize("d", [3, 6])
def test_every_number_of_threads_gives_the_same_bits(d: int, output: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    of, found = cases.prepared_on_cpu(normal(4500, None, d), output, "float64"), []
    assert of.once == (output == "ratio")
    for count in (1, 2, 5):
        monkeypatch.setattr(threads, "count", lambda count=count: count)
        found.append(passes.run(of))
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


class TestChoice:
    """Which pass is taken."""

    N, M = 20_000, 1_000

    def taken(self, X: np.ndarray, Y: np.ndarray, h: float, **options: object) -> bool:
        of = Options(str(X.dtype), **options)
        of = pairs_passes._located(of, X, Y, h)
        return choice.prepared(X, Y, h, "sum", of, single=X.dtype == np.float32) is not None

    @pytest.mark.parametrize(("d", "times"), [(2, 1), (3, 1), (5, 1), (8, 10)])
    def test_small_bandwidths_leave_out_pairs(self, d: int, times: int) -> None:
        case = normal(self.N * times, self.M * times, d)
        assert self.taken(case.X, case.queries, 0.1 * case.h)

    @pytest.mark.parametrize("options", [{"rtol": 0.0}, {"squared_radius": math.inf}, {"squared_radius": math.nan}])
    def test_not_where_nothing_may_be_left_out(self, options: dict[str, float]) -> None:
        case = normal(self.N, self.M, 2)
        assert not self.taken(case.X, case.queries, 0.1 * case.h, **options)

    @pytest.mark.parametrize("factor", [1e-25, 1e-35, 1e30])
    def test_extreme_bandwidths(self, factor: float) -> None:
        """Beyond the ranges of the pass all pairs are taken, within them it is as accurate as elsewhere."""
        case = normal(self.N, 300, 2)
        X, Y, h = (factor * case.X).astype("f4"), (factor * case.queries).astype("f4"), 0.1 * factor * case.h
        found = pairs_passes.partial_sums(X, Y, h, "sum", Options("float32"))
        x, y, h = X.astype("f8") / factor, Y.astype("f8") / factor, h / factor
        want = reference.log_kde(x, y, h) - reference.log_constant(h, 2)
        near = reference.nearness(x, y, h)
        allowed = tolerances.log_error("cpu", "float32", near.exponent) + 2e-5
        error = np.abs(found.reference + np.log(found.total) - want - np.log(len(X)))
        tolerances.check(error[near.exponent < 1e4], allowed[near.exponent < 1e4], "log total")
