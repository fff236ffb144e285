"""Passes on the CPU that leave out pairs against float64: their accuracy, and what they leave out."""

from __future__ import annotations

import math

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
from tests.density.test_skipping import DEFAULT, DEFEATING, HARD, SIZES, Case

OUTPUTS: tuple[Output, ...] = ("sum", "moments", "laplace")
DIMENSIONS = (2, 3, 4, 5, 6, 7, 16, 17, 33, 100)


def posed(
    case: Case,
    output: Output,
    precision: str,
    tolerance: float | None = None,
    frame: np.ndarray | None = None,
    **options: int,
) -> passes.Posed:
    """The pass of a case; ``frame`` are the points that its frame is of, by default the data."""
    X, log_weights = case.X, cases.log_weights_of(case)
    Y = X if case.Y is None and log_weights is not None else case.Y
    if log_weights is not None:
        counted = log_weights > -1e29
        X, log_weights = X[counted], log_weights[counted]
    of = pairs_frame.frame(X if frame is None else frame)
    chosen = DEFAULT[precision] if tolerance is None else tolerance
    return passes.pose(X, Y, case.h, output, Options(precision, log_weights), of, chosen, **options)


def check(case: Case, output: Output, precision: str, tolerance: float | None = None) -> PartialSums:
    """Take the pass, and where there is one also that which takes each pair once."""
    of = posed(case, output, precision, tolerance, once=True)
    if of.once:
        cases.check(passes.run(of), case, output, precision, tolerance, device="cpu")
        of = of._replace(once=False)  # its points serve both
    found = passes.run(of)
    assert {a.dtype for a in found if a is not None} == {np.dtype(np.float64)}
    assert (found.moments is None) == (output == "sum")
    cases.check(found, case, output, precision, tolerance, device="cpu")
    return found


def normal(n: int, m: int | None, d: int, *, at: float = 0.0) -> Case:
    return cases.normal(None, n, m, d, at=at)


@pytest.mark.parametrize("itself", [False, True], ids=["queries", "itself"])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("precision", DEFAULT)
def test_sums_match_the_formula(precision: str, dtype: str, d: int, output: Output, itself: bool) -> None:
    check(normal(900, None if itself else 300, d).of(dtype), output, precision)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("d", [2, 6])
@pytest.mark.parametrize("precision", DEFAULT)
@pytest.mark.parametrize(("n", "m"), [*SIZES, (1, None), (63, None), (65, None), (129, None)])
def test_sizes_off_the_blocks(n: int, m: int | None, d: int, precision: str, output: Output) -> None:
    check(normal(n, m, d).of(precision), output, precision)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("d", [2, 6, 17])
@pytest.mark.parametrize(("precision", "at"), [("float32", 100.0), ("float64", 1e4)])
def test_data_far_from_zero(d: int, precision: str, at: float, output: Output) -> None:
    check(normal(900, 300, d, at=at).of(precision), output, precision)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("d", [2, 6])
@pytest.mark.parametrize("precision", DEFAULT)
@pytest.mark.parametrize("name", HARD)
def test_hard_data(name: str, precision: str, d: int, output: Output) -> None:
    check(cases.hard(name, 800, 150, d, precision).of(precision), output, precision)


@pytest.mark.parametrize("output", ["sum", "laplace"])
@pytest.mark.parametrize(("precision", "tolerance"), cases.TOLERANCES)
@pytest.mark.parametrize("d", [5, 6])
@pytest.mark.parametrize("name", DEFEATING)
def test_what_is_left_out_is_at_most_the_tolerance(
    name: str, d: int, precision: str, tolerance: float, output: Output
) -> None:
    case = cases.defeating(name, 1024, 96, d, tolerance).of(precision)
    found = check(case, output, precision, tolerance)
    if output == "sum":  # nothing is added, beside what rounding may add
        want = cases.formula(case, precision, "cpu")
        tolerances.check(found.reference + np.log(found.total) - want.log, want.allowed, "excess")


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
    check(case, "sum", "float64", tolerance)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("d", [2, 3, 6, 40])
@pytest.mark.parametrize("precision", DEFAULT)
def test_far_pairs_are_left_out(precision: str, d: int, output: Output) -> None:
    """Of eight clusters that do not see each other an eighth of the pairs counts, and blocks at the borders of two."""
    rng = np.random.default_rng(d)
    X = (30 * rng.standard_normal((8, d)))[np.arange(2048) % 8] + 0.2 * rng.standard_normal((2048, d))
    for case in (Case(X, X[:256] + 0.05, 0.5).of(precision), Case(X[:1024], None, 0.5).of(precision)):
        check(case, output, precision)
        of = posed(case, output, precision)
        taken = passes.tried(of, np.arange(len(of.queries)))
        assert max(taken) < 0.3 * len(case.X) * len(of.queries)


@pytest.mark.parametrize(("shift", "factor"), [(0.3, 0.9), (30.0, 1.0), (0.0, 1e-3), (-5.0, 1e3)])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("d", [2, 6, 40])
def test_a_frame_of_other_data(d: int, output: Output, shift: float, factor: float) -> None:
    case = normal(600, 200, d)
    found = passes.run(posed(case, output, "float64", frame=shift + factor * case.X))
    cases.check(found, case, output, "float64", device="cpu")


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
        passes.pose(case.X, case.Y, case.h, "sum", options, pairs_frame.frame(case.X), DEFAULT[precision])
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
        return passes.run(passes.pose(case.X, case.Y, case.h, output, chosen, frame, tolerance))

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
        of = choice.posed(X, Y, 0.05, "moments", options, single=False)
        assert of is not None
        found.append(of.tolerance)
    assert found == pytest.approx([1e-6, 1e-6 * factors.min()])


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("d", [3, 6])
def test_every_number_of_threads_gives_the_same_bits(d: int, output: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    of, found = posed(normal(4500, None, d), output, "float64", once=True), []
    assert of.once == (output == "moments")
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
        return choice.posed(X, Y, h, "sum", of, single=X.dtype == np.float32) is not None

    @pytest.mark.parametrize(("d", "times"), [(2, 1), (3, 1), (5, 1), (8, 10)])
    def test_small_bandwidths_leave_out_pairs(self, d: int, times: int) -> None:
        case = normal(self.N * times, self.M * times, d)
        assert self.taken(case.X, case.queries, 0.1 * case.h)

    @pytest.mark.parametrize("d", [5, 8, 16, 64])
    def test_wide_ones_take_all(self, d: int) -> None:
        case = normal(self.N, self.M, d)
        assert not self.taken(case.X, case.queries, 10 * d**0.5)

    @pytest.mark.parametrize("dtype", ["f4", "f8"])
    @pytest.mark.parametrize("d", [20, 48])
    def test_data_on_a_curve_are_tried(self, d: int, dtype: str) -> None:
        """Samples know no blocks: of points along a curve these are tight in any number of dimensions."""
        rng = np.random.default_rng(0)
        rates, phases = rng.uniform(1, 9, (2, d))

        def drawn(rows: int) -> np.ndarray:
            return (np.sin(rng.uniform(0, 1, (rows, 1)) * rates + phases) + 0.02 * rng.normal(size=(rows, d))).astype(
                dtype
            )

        assert self.taken(drawn(self.N), drawn(4 * self.M), 0.12)

    @pytest.mark.parametrize("options", [{"rtol": 0.0}, {"squared_radius": math.inf}, {"squared_radius": math.nan}])
    def test_not_where_nothing_may_be_left_out(self, options: dict[str, float]) -> None:
        case = normal(self.N, self.M, 2)
        assert not self.taken(case.X, case.queries, 0.1 * case.h, **options)

    def test_not_for_few_pairs(self) -> None:
        case = normal(1000, 1000, 2)
        assert not self.taken(case.X, case.queries, 0.1 * case.h)

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
