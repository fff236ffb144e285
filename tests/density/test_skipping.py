"""Passes that leave out pairs against float64: their accuracy, and what they leave out; emulated, and on a GPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from cukde.density.options import Options
from cukde.density.sums import Output, PartialSums
from tests import reference, tolerances
from tests.conftest import Backend
from tests.density.samples import TOTAL

DIMENSIONS = (2, 3, 4, 5, 6, 8, 15, 16, 17, 33, 64, 100, 128)
OUTPUTS: tuple[Output, ...] = ("sum", "moments", "laplace")
MODES = [
    pytest.param("float32", "float32", id="float32"),
    pytest.param("float32", "float64", id="float32-of-float64"),
    pytest.param("float64", "float64", id="float64"),
    pytest.param("float64", "float32", id="float64-of-float32"),
]
"""Precision and dtype of the points."""
MOST_IN_DOUBLE = 64

DEFAULT = {"float32": 1e-5, "float64": 1e-13}
"""Tolerances of what is left out."""

SIZES = [(1, 1), (1, 130), (2, 63), (63, 2), (65, 129), (129, 65), (64, 128), (700, 130), (130, 700)]
"""Rows of data and queries: off the blocks of 64 and on them, the one longer and the other."""


class Case(NamedTuple):
    X: np.ndarray
    Y: np.ndarray | None  # None: the data themselves
    h: float
    w: np.ndarray | None = None

    @property
    def queries(self) -> np.ndarray:
        """The points of the queries."""
        return self.X if self.Y is None else self.Y

    def of(self, dtype: str) -> Case:
        """Return the same with points rounded to a dtype."""
        return self._replace(X=self.X.astype(dtype), Y=None if self.Y is None else self.Y.astype(dtype))


@pytest.fixture
def gpu(device: Backend) -> SimpleNamespace:
    """The modules under test, and arrays for them."""
    from cukde.density.pairs.gpu.skipping import frame, passes, points

    return SimpleNamespace(
        frame=frame,
        passes=passes,
        points=points,
        asarray=device.asarray,
        asnumpy=device.asnumpy,
        size=device.size,
    )


def log_weights_of(case: Case) -> np.ndarray | None:
    """As the launcher takes them."""
    if case.w is None:
        return None
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(case.w / case.w.sum()), -1e30)


def computed(
    gpu: SimpleNamespace, case: Case, output: Output, precision: str, tolerance: float | None = None, **options: object
) -> PartialSums:
    """By the pass under test, on the host."""
    X, Y, log_weights = (gpu.asarray(a) for a in (case.X, case.Y, log_weights_of(case)))
    frame = gpu.frame.frame(gpu.frame.sample(X))
    chosen = Options(precision, log_weights, **options)
    tolerance = DEFAULT[precision] if tolerance is None else tolerance
    sums = gpu.passes.run(X, Y, case.h, output, chosen, frame, tolerance)
    found = PartialSums(*(None if a is None else gpu.asnumpy(a) for a in sums))
    m, d = case.queries.shape
    assert found.reference.shape == found.total.shape == (m,)
    assert found.reference.dtype == found.total.dtype == np.float64
    assert (found.moments is None) == (output != "moments")
    if found.moments is not None:
        assert found.moments.shape == (m, d)
        assert found.moments.dtype == np.float64
    return found


class Formula(NamedTuple):
    """Sums by their formula, and what arithmetic is allowed."""

    log: np.ndarray  # natural logarithm of sum_j w_j exp(-r^2 / 2 h^2)
    near: reference.Nearness
    allowed: np.ndarray  # error of the logarithm by rounding


def formula(case: Case, precision: str) -> Formula:
    """Sums of densities, and their errors: of exponents, and of logarithms of weights, which are part of them."""
    X, Y, h, w = case.X, case.queries, case.h, case.w
    log = reference.log_kde(X, Y, h, w) - reference.log_constant(h, X.shape[1]) + (np.log(len(X)) if w is None else 0)
    near = reference.nearness(X, Y, h, w)
    return Formula(log, near, tolerances.log_error("gpu", precision, np.maximum(near.exponent, -log)))


def check(found: PartialSums, case: Case, output: Output, precision: str, tolerance: float | None = None) -> None:
    """Compare with the formula: what rounding is allowed, and beside it what may be left out."""
    left_out = DEFAULT[precision] if tolerance is None else tolerance
    want = formula(case, precision)
    if output == "laplace":
        check_laplace(found, case, want.allowed + left_out)
        return
    allowed = want.allowed + left_out
    if output == "moments" and precision == "float32" and case.Y is None:
        allowed = allowed + TOTAL["split"].value  # products take the terms of 11 bits
    tolerances.check(np.abs(found.reference + np.log(found.total) - want.log), allowed, "log total")
    if found.moments is None:
        return
    X, Y, h, w = case.X, case.queries, case.h, case.w
    error = found.moments / found.total[:, None] / h - h * reference.score(X, Y, h, w)
    # A pair that is left out counts by its distance, too, which its exponent bounds, or its weight does not matter.
    furthest = np.sqrt(2 * (np.maximum(want.near.exponent, -want.log) + np.log(len(X) / left_out) + 10))
    tolerances.check_score(np.linalg.norm(error, axis=1), allowed + left_out * furthest, want.near.reach)


def check_laplace(found: PartialSums, case: Case, allowed: np.ndarray) -> None:
    """Laplace-corrected sums, relative to the sum of absolute terms."""
    X, w = case.X, case.w
    log_scale, total, size = reference.scaled_laplace(X, case.queries, case.h, w)
    log_scale = log_scale - reference.log_constant(case.h, X.shape[1]) + (np.log(len(X)) if w is None else 0)
    error = np.abs(np.exp(found.reference - log_scale) * found.total - total)
    tolerances.check(error, allowed * size, "Laplace-corrected total")


def normal(gpu: SimpleNamespace, n: int, m: int | None, d: int, *, at: float = 0.0) -> Case:
    """Normal data and queries near them, of which the last are far."""
    rng = np.random.default_rng([n, m or 0, d])
    X = at + rng.standard_normal((n, d))
    h = 0.3 * d**0.5 * max(n, 2) ** (-1 / (d + 4))
    if m is None:
        return Case(X, None, h)
    Y = at + 0.9 * (X[rng.integers(n, size=m)] - at) + 0.1 * rng.standard_normal((m, d))
    Y[-(-9 * m // 10) :] += 12
    return Case(X, Y, h)


@pytest.mark.parametrize("itself", [False, True], ids=["queries", "itself"])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize(("precision", "dtype"), MODES)
@pytest.mark.parametrize("d", DIMENSIONS)
def test_sums_match_the_formula(
    gpu: SimpleNamespace, d: int, precision: str, dtype: str, output: Output, itself: bool
) -> None:
    if precision == "float64" and d > MOST_IN_DOUBLE:
        assert gpu.passes.serves("sum", precision, d) is False
        return
    n, m = gpu.size(5000, 190), gpu.size(1500, 129)
    case = normal(gpu, n, None if itself else m, d).of(dtype)
    check(computed(gpu, case, output, precision), case, output, precision)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("precision", DEFAULT)
@pytest.mark.parametrize("d", [2, 5, 6, 17, 64])
@pytest.mark.parametrize(("n", "m"), [*SIZES, (1, None), (63, None), (65, None), (129, None)])
def test_sizes_off_the_blocks(
    gpu: SimpleNamespace, n: int, m: int | None, d: int, precision: str, output: Output
) -> None:
    case = normal(gpu, n, m, d).of(precision)
    check(computed(gpu, case, output, precision), case, output, precision)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize(("precision", "at"), [("float32", 100.0), ("float64", 1e4)])
@pytest.mark.parametrize("d", [2, 5, 8, 33])
def test_data_far_from_zero(gpu: SimpleNamespace, d: int, precision: str, at: float, output: Output) -> None:
    case = normal(gpu, gpu.size(3000, 190), gpu.size(1000, 129), d, at=at).of(precision)
    check(computed(gpu, case, output, precision), case, output, precision)


@pytest.mark.parametrize("known", [10.0, 500.0, 1e5], ids=["near", "at-the-limit", "beyond"])
@pytest.mark.parametrize("itself", [False, True], ids=["queries", "itself"])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("d", [3, 6, 16, 40, 64, 128])
def test_a_known_radius(gpu: SimpleNamespace, d: int, output: Output, itself: bool, known: float) -> None:
    """Where it is small all blocks have one centre."""
    case = normal(gpu, gpu.size(3000, 190), None if itself else gpu.size(1000, 129), d)
    largest = ((case.X - case.X.mean(axis=0)) ** 2).sum(axis=1).max()
    case = case._replace(h=(largest / known) ** 0.5).of("float32")
    found = computed(gpu, case, output, "float32", squared_radius=known)
    check(found, case, output, "float32")


def hard(name: str, n: int, m: int, d: int, dtype: str) -> Case:
    """Data that bounds and formats may not be made for."""
    rng = np.random.default_rng([n, m, d])
    X = rng.standard_normal((n, d))
    h = (4 / (d + 2) / n) ** (1 / (d + 4))
    Y = X[rng.integers(n, size=m)] + 0.3 * h * rng.standard_normal((m, d))
    steps = np.geomspace(1, 10, m)[:, None]
    towards = rng.standard_normal((m, d))
    towards /= np.linalg.norm(towards, axis=1)[:, None]
    first = np.eye(1, d)

    def outlier(at: float) -> Case:
        moved = X.copy()
        moved[n // 2] = at * first
        return Case(moved, np.concatenate((Y[1:], at * first + 0.5 * h)), h)

    def weighted(w: np.ndarray, Y: np.ndarray = Y) -> Case:
        return Case(X, Y, h, w)

    half = np.where(np.arange(n)[:, None] % 2, X, X[:1])
    heavy_tail = X / np.sqrt(rng.chisquare(1.5, (n, 1)) / 1.5)
    clusters = 1e-2 * X + 1e5 * h * (np.arange(n)[:, None] % 2) * first
    scales = np.geomspace(1e-3, 1e3, d)
    constant = X * (np.arange(d) > 0)
    decades = 10.0 ** -rng.uniform(0, 30, n)
    one_at = np.where(np.arange(n) == n // 3, 1.0, 1e-20)
    far_one = X + 8 * (np.arange(n)[:, None] == n // 3)
    return {
        "queries at 30 deviations": lambda: Case(X, 30 * towards * steps**0.1, h),
        "queries at 100 to 1000 deviations": lambda: Case(X, 100 * towards * steps, h),
        "all equal": lambda: Case(np.full((n, d), 3.7), None, h),
        "all equal, queries elsewhere": lambda: Case(np.full((n, d), 3.7), 3.7 + Y, h),
        "half equal": lambda: Case(half, None, h),
        "every point alone": lambda: Case(X, None, 1e-4 * h),
        "queries between lone points": lambda: Case(X, Y, 0.02 * h),
        "outlier at 1e3": lambda: outlier(1e3),
        "outlier at 1e6": lambda: outlier(1e6),
        "outlier at 1e9": lambda: outlier(1e9 if dtype == "float64" else 1e7),
        "heavy tail": lambda: Case(heavy_tail, None, h),
        "queries of a heavy tail": lambda: Case(heavy_tail, heavy_tail[rng.integers(n, size=m)] + 0.5 * h * towards, h),
        "clusters 1e5 bandwidths apart": lambda: Case(clusters, clusters[:m] + 0.5 * h * towards[: min(n, m)], h),
        "constant column": lambda: Case(constant, Y * (np.arange(d) > 0), h),
        "scales 1e-3 to 1e3": lambda: Case(X * scales, Y * scales, h),
        "scales 1e-3 to 1e3, wide": lambda: Case(X * scales, None, 300 * h),
        "weights over 30 decades": lambda: weighted(decades),
        "weights over 30 decades, itself": lambda: Case(X, None, h, decades),
        "zero weights": lambda: weighted(np.where(np.arange(n) % 3, decades, 0.0)),
        "equal weights": lambda: weighted(np.ones(n)),
        "all weight on one far point": lambda: Case(far_one, Y, h, one_at),
        "weight of one alone": lambda: weighted(np.where(np.arange(n) == n // 3, 1.0, 0.0)),
        "0.01 of Silverman's": lambda: Case(X, Y, 0.01 * h),
        "0.1 of Silverman's": lambda: Case(X, None, 0.1 * h),
        "10 of Silverman's": lambda: Case(X, Y, 10 * h),
        "10 of Silverman's, itself": lambda: Case(X, None, 10 * h),
    }[name]()


HARD = (
    "queries at 30 deviations",
    "queries at 100 to 1000 deviations",
    "all equal",
    "all equal, queries elsewhere",
    "half equal",
    "every point alone",
    "queries between lone points",
    "outlier at 1e3",
    "outlier at 1e6",
    "outlier at 1e9",
    "heavy tail",
    "queries of a heavy tail",
    "clusters 1e5 bandwidths apart",
    "constant column",
    "scales 1e-3 to 1e3",
    "scales 1e-3 to 1e3, wide",
    "weights over 30 decades",
    "weights over 30 decades, itself",
    "zero weights",
    "equal weights",
    "all weight on one far point",
    "weight of one alone",
    "0.01 of Silverman's",
    "0.1 of Silverman's",
    "10 of Silverman's",
    "10 of Silverman's, itself",
)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("d", [2, 5, 6, 33])
@pytest.mark.parametrize("precision", DEFAULT)
@pytest.mark.parametrize("name", HARD)
def test_hard_data(gpu: SimpleNamespace, name: str, precision: str, d: int, output: Output) -> None:
    case = hard(name, gpu.size(4000, 321), gpu.size(1000, 150), d, precision).of(precision)
    check(computed(gpu, case, output, precision), case, output, precision)
