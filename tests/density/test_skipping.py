"""Passes that leave out pairs against float64: their accuracy, and what they leave out.

Test bodies run on the CPU, in the emulation, and on a GPU, where in float64 it is the centred pass.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest
from _pytest.mark import ParameterSet

from cukde.core.plan import traced
from cukde.density.options import Options
from cukde.density.pairs import frame as pairs_frame
from cukde.density.pairs.cpu.skipping import passes as cpu_passes
from cukde.density.plan import gpu as plan_gpu
from cukde.density.sums import Output, PartialSums
from tests import reference, tolerances
from tests.conftest import Backend
from tests.density import laplace_sums
from tests.density.conftest import Modules, gpu_of
from tests.density.samples import GRID
from tests.tolerances import Tolerance

NO_KERNELS = "on devices but those of compute capability 9.0 kernels serve up to 64 dimensions, from 8.0 on"

DIMENSIONS = (2, 3, 4, 5, 6, 8, 15, 16, 17, 33, 64, 100, 128)


def beyond(*values: object) -> list[ParameterSet]:
    """Values of a parameter that runs without ``-m kernels`` leave out."""
    return [pytest.param(value, marks=pytest.mark.kernels) for value in values]


Wanted = Literal["sum", "moments", "ratio", "laplace"]
WANTED: tuple[Wanted, ...] = ("sum", "moments", "ratio", "laplace")
"""Outputs; "ratio" is "moments" of which only the ratio to the total is wanted."""

MOST_IN_DOUBLE = 64
MODES = [
    pytest.param(precision, dtype, d, id=f"{precision}-of-{dtype}-d{d}")
    for d in DIMENSIONS
    for precision in ("float32", "float64")
    for dtype in ("float32", "float64")
    if precision == "float32" or d <= MOST_IN_DOUBLE
]
"""Precision, dtype of the points, dimensions."""

DEFAULT = {"float32": 1e-5, "float64": 1e-13}
"""Tolerances of what is left out."""

TOLERANCES = [(precision, tolerance) for precision, least in DEFAULT.items() for tolerance in (1e-2, least)]

TERMS = Tolerance(8e-6, "two float16 terms hold z to 2^-19, four deviations of which move an exponent by 8e-6 r/h")
"""Error of a logarithm over the reach in float32, beyond five dimensions."""

ROUNDED = Tolerance(4.9e-4, "2^e is one float16 number, off by 2^-11, and so is a sum of equal terms")
"""Error of a total of pairs that are taken once; the ratio of moments to it does not have it."""

UNDERFLOW = -690.0
"""Natural logarithm of a kernel beside a query's largest: smaller ones are 0 in double precision, in every pass."""

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


def log_weights_of(case: Case) -> np.ndarray | None:
    """As the launcher takes them."""
    if case.w is None:
        return None
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(case.w / case.w.sum()), -1e30)


def has_kernels(output: Output, precision: str, d: int) -> bool:
    """Whether a pass under test is for the current device; that of sums in double has centres of its own."""
    from cukde.density.pairs.gpu.shape import current

    device = current()
    if precision == "float64":
        return plan_gpu.centred_serves(output, precision, d, device)
    return plan_gpu.skipping_serves(output, precision, d, device.capability)


def computed(
    gpu: Modules,
    case: Case,
    output: Wanted,
    precision: str,
    tolerance: float | None = None,
    frame: Any = None,
    **options: object,
) -> PartialSums:
    """By the pass under test, on the host; ``frame`` is that of the data if it is not given."""
    X, Y, log_weights = (gpu.asarray(a) for a in (case.X, case.Y, log_weights_of(case)))
    tolerance = DEFAULT[precision] if tolerance is None else tolerance
    chosen = Options(precision, log_weights, rtol=tolerance, **options)
    of_pass: Output = "moments" if output == "ratio" else output
    if not has_kernels(of_pass, precision, X.shape[1]):
        pytest.skip(NO_KERNELS)
    if precision == "float64":
        sums = gpu.centred.take(gpu.arguments.prepare(X, Y, case.h, chosen), of_pass)
    else:
        frame = gpu.skipping.frame.frame(gpu.skipping.frame.sample(X)) if frame is None else frame
        prepared = gpu.skipping.plan.prepare(X, Y, case.h, of_pass, chosen, frame, tolerance, ratio=output == "ratio")
        sums = gpu.skipping.passes.run(prepared)
    found = PartialSums(*(None if a is None else gpu.asnumpy(a) for a in sums))
    m, d = case.queries.shape
    assert found.reference.shape == found.total.shape == (m,)
    assert found.reference.dtype == found.total.dtype == np.float64
    assert (found.moments is None) == (of_pass == "sum")
    if found.moments is not None:
        assert found.moments.shape == (m, d if of_pass == "moments" else 1)
        assert found.moments.dtype == np.float64
    return found


class Formula(NamedTuple):
    """Sums by their formula, and what arithmetic is allowed."""

    log: np.ndarray  # natural logarithm of sum_j w_j exp(-r^2 / 2 h^2)
    near: reference.Nearness
    allowed: np.ndarray  # error of the logarithm by rounding


def formula(case: Case, precision: str, device: str = "gpu") -> Formula:
    """Sums of densities, and their errors: of exponents, and of logarithms of weights, which are part of them."""
    X, Y, h, w = case.X, case.queries, case.h, case.w
    log = reference.log_kde(X, Y, h, w) - reference.log_constant(h, X.shape[1]) + (np.log(len(X)) if w is None else 0)
    near = reference.nearness(X, Y, h, w)
    allowed = tolerances.log_error(device, precision, np.maximum(near.exponent, -log))
    if device == "gpu" and precision == "float32" and X.shape[1] > 5:
        allowed = allowed + TERMS.value * near.reach
    return Formula(log, near, allowed)


def check(
    found: PartialSums,
    case: Case,
    output: Wanted,
    precision: str,
    tolerance: float | None = None,
    device: str = "gpu",
) -> None:
    """Compare with the formula: what rounding is allowed, and beside it what may be left out."""
    left_out = DEFAULT[precision] if tolerance is None else tolerance
    want = formula(case, precision, device)
    allowed, d = want.allowed + left_out, case.X.shape[1]
    if output == "laplace":
        laplace_sums.check(found, case.X, case.queries, case.h, case.w, want.allowed, left_out)
        return
    once = output == "ratio" and (device, precision) == ("gpu", "float32") and case.Y is None and case.w is None
    if once:
        allowed = allowed + ROUNDED.value
    tolerances.check(np.abs(found.reference + np.log(found.total) - want.log), allowed, "log total")
    if found.moments is None:
        return
    X, Y, h, w = case.X, case.queries, case.h, case.w
    error = found.moments / found.total[:, None] / h - h * reference.score(X, Y, h, w)
    # A pair that is left out counts by its distance, too, which its exponent bounds, or its weight does not matter.
    furthest = np.sqrt(2 * (np.maximum(want.near.exponent, -want.log) + np.log(len(X) / left_out) + 10))
    allowed = (allowed + left_out * furthest) * want.near.reach
    if once and 5 < d <= 32:  # a point's own term is exact
        allowed = allowed + GRID.value * d**0.5 * -np.expm1(-np.maximum(want.log, 0))
    tolerances.check(np.linalg.norm(error, axis=1), allowed, "score")


def check_values(
    found: PartialSums,
    case: Case,
    V: np.ndarray,
    precision: str,
    tolerance: float | None = None,
    *,
    device: str = "gpu",
) -> None:
    """Compare every column with all pairs in double: by rounding and the tolerance, of its own absolute terms."""
    left_out = DEFAULT[precision] if tolerance is None else tolerance
    X, Y, V = (np.asarray(a, float) for a in (case.X, case.queries, V))
    log_w, size = log_weights_of(case), np.abs(V)
    assert found.moments is not None
    step = max(1, 2**16 // len(X))  # queries whose pairs stay in the processor's cache
    for rows in (slice(start, start + step) for start in range(0, len(Y), step)):
        exponents = reference.exponents(X, Y[rows], case.h)
        logs = -exponents if log_w is None else log_w - exponents
        spent = exponents if log_w is None else exponents + np.abs(np.maximum(log_w, -1e29))
        terms = np.exp(np.minimum(logs - found.reference[rows, None], 700.0))
        rounding = tolerances.log_error(device, precision, np.minimum(spent, 1e30))
        if device == "gpu" and precision == "float32" and X.shape[1] > 5:
            rounding = rounding + TERMS.value * np.sqrt(2 * exponents)
        lost = terms * (logs - logs.max(axis=1, keepdims=True) < UNDERFLOW)
        allowed = (terms * rounding + lost) @ size + left_out * (terms @ size)
        tolerances.check(np.abs(found.moments[rows] - terms @ V), allowed + 1e-300, "values")


def normal(n: int, m: int | None, d: int, *, at: float = 0.0) -> Case:
    """Normal data and queries near them, of which the last are far."""
    rng = np.random.default_rng([n, m or 0, d])
    X = at + rng.standard_normal((n, d))
    h = 0.3 * d**0.5 * max(n, 2) ** (-1 / (d + 4))
    if m is None:
        return Case(X, None, h)
    Y = at + 0.9 * (X[rng.integers(n, size=m)] - at) + 0.1 * rng.standard_normal((m, d))
    Y[-(-9 * m // 10) :] += 12
    return Case(X, Y, h)


class Passes:
    """The passes under test of a backend; ``share`` is that of the pairs which the last of them took."""

    def __init__(self, backend: Backend) -> None:
        self.device = backend.device
        self._name = backend.name
        if self.device == "gpu":
            self._gpu = gpu_of(backend)
        self.share = 1.0

    def size(self, gpu: int, emulated: int, cpu: int) -> int:
        """A number of rows."""
        return {"cupy": gpu, "emulated": emulated, "numpy": cpu}[self._name]

    def check(
        self,
        case: Case,
        output: Wanted,
        precision: str,
        tolerance: float | None = None,
        frame: np.ndarray | None = None,
        **options: object,
    ) -> PartialSums:
        """Take a pass, and compare its sums with the formula; ``frame`` are points whose frame is that of the pass."""
        found = (self._on_gpu if self.device == "gpu" else self._on_cpu)(
            case, output, precision, tolerance, frame, **options
        )
        check(found, case, output, precision, tolerance, self.device)
        return found

    def _on_gpu(
        self, case: Case, output: Wanted, precision: str, tolerance: float | None, points: Any, **options: object
    ) -> PartialSums:
        gpu, frame = self._gpu, None
        if points is not None:
            frame = gpu.skipping.frame.frame(gpu.skipping.frame.sample(gpu.asarray(points.astype(np.float32))))
        with traced() as ran:
            found = computed(gpu, case, output, precision, tolerance, frame=frame, **options)
        shares = [one.found["share"]() for one in ran if "share" in one.found]
        self.share = shares[-1] if shares else 0.0  # of float64 no share is counted
        return found

    def _on_cpu(
        self, case: Case, output: Wanted, precision: str, tolerance: float | None, points: Any, **options: object
    ) -> PartialSums:
        """ "ratio" takes each pair once, where the pass does."""
        of = prepared_on_cpu(case, output, precision, tolerance, points, **options)
        self.share = max(cpu_passes.tried(of, np.arange(len(of.queries)))) / (len(case.X) * len(of.queries))
        return cpu_passes.run(of)


def prepared_on_cpu(
    case: Case, output: Wanted, precision: str, tolerance: float | None = None, points: Any = None, **options: Any
) -> cpu_passes.Prepared:
    X, log_weights = case.X, log_weights_of(case)
    Y = X if case.Y is None and log_weights is not None else case.Y
    if log_weights is not None:
        counted = log_weights > -1e29
        X, log_weights = X[counted], log_weights[counted]
    of = pairs_frame.frame(X if points is None else points)
    chosen = DEFAULT[precision] if tolerance is None else tolerance
    of_pass: Output = "moments" if output == "ratio" else output
    chosen_options = Options(precision, log_weights, **options)
    return cpu_passes.prepare(X, Y, case.h, of_pass, chosen_options, of, chosen, once=output == "ratio")


@pytest.fixture
def passes(backend: Backend) -> Passes:
    return Passes(backend)


ITSELF = pytest.mark.parametrize("itself", [False, True], ids=["queries", "itself"])


@ITSELF
@pytest.mark.parametrize("output", WANTED)
@pytest.mark.parametrize(("precision", "dtype", "d"), MODES)
def test_sums_match_the_formula(
    passes: Passes, precision: str, dtype: str, d: int, output: Wanted, itself: bool
) -> None:
    n, m = passes.size(5000, 190, 900), passes.size(1500, 129, 300)
    passes.check(normal(n, None if itself else m, d).of(dtype), output, precision)


@pytest.mark.parametrize("output", WANTED)
@pytest.mark.parametrize("precision", DEFAULT)
@pytest.mark.parametrize("d", [2, 6])
@pytest.mark.parametrize(("n", "m"), [*SIZES, (1, None), (63, None), (65, None), (129, None)])
def test_sizes_off_the_blocks(passes: Passes, n: int, m: int | None, d: int, precision: str, output: Wanted) -> None:
    passes.check(normal(n, m, d).of(precision), output, precision)


@pytest.mark.parametrize("output", WANTED)
@pytest.mark.parametrize(("precision", "at"), [("float32", 100.0), ("float64", 1e4)])
@pytest.mark.parametrize("d", [2, 5, 8, 33])
def test_data_far_from_zero(passes: Passes, d: int, precision: str, at: float, output: Wanted) -> None:
    n, m = passes.size(3000, 190, 900), passes.size(1000, 129, 300)
    passes.check(normal(n, m, d, at=at).of(precision), output, precision)


@pytest.mark.parametrize("known", [10.0, 500.0, 1e5], ids=["near", "at-the-limit", "beyond"])
@ITSELF
@pytest.mark.parametrize("output", WANTED)
@pytest.mark.parametrize("d", [3, 6, 16, 40, 64, 128])
def test_a_known_radius(gpu: Modules, d: int, output: Wanted, itself: bool, known: float) -> None:
    """Where it is small all blocks have one centre."""
    case = normal(gpu.size(3000, 190), None if itself else gpu.size(1000, 129), d)
    largest = ((case.X - case.X.mean(axis=0)) ** 2).sum(axis=1).max()
    case = case._replace(h=(largest / known) ** 0.5).of("float32")
    found = computed(gpu, case, output, "float32", squared_radius=known)
    check(found, case, output, "float32")


def hard(n: int, m: int, d: int, dtype: str) -> dict[str, Callable[[], Case]]:
    """Data that bounds and formats may not be made for, by name."""
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
    }


HARD = tuple(hard(2, 2, 2, "float64"))


@pytest.mark.parametrize("output", WANTED)
@pytest.mark.parametrize("d", [2, 6])
@pytest.mark.parametrize("precision", DEFAULT)
@pytest.mark.parametrize("name", HARD)
def test_hard_data(passes: Passes, name: str, precision: str, d: int, output: Wanted) -> None:
    n, m = passes.size(4000, 321, 800), passes.size(1000, 150, 150)
    passes.check(hard(n, m, d, precision)[name]().of(precision), output, precision)


def on_shells(radii: np.ndarray, d: int, rng: np.random.Generator) -> np.ndarray:
    """Points at these distances from zero, in directions of their own."""
    directions = rng.standard_normal((len(radii), d))
    return radii[:, None] * directions / np.linalg.norm(directions, axis=1)[:, None]


def radius_of(bits: np.ndarray | float) -> np.ndarray:
    """Distance of points whose exponent is minus this many bits, with h = 1."""
    return np.sqrt(2 * np.log(2) * np.asarray(bits, float))


def defeating(n: int, m: int, d: int, tolerance: float) -> dict[str, Callable[[], Case]]:
    """Data of which a bound that is not one leaves out too much, by name; h = 1."""
    rng = np.random.default_rng([n, m, d])
    threshold = np.log2(n / tolerance)  # bits between a nearest datum alone and what may be left out
    here = 1e-6 * rng.standard_normal((m, d))
    normal = rng.standard_normal((n, d))

    def alone(at: float, beyond: float) -> Case:
        radii = np.full(n, radius_of(at + threshold + beyond))
        radii[n // 2] = radius_of(at)
        return Case(on_shells(radii, d, rng), here, 1.0)

    def shells(low: float, high: float) -> Case:
        bits = np.linspace(threshold + low, threshold + high, n)
        bits[:3] = 0.5
        return Case(on_shells(radius_of(bits), d, rng), here, 1.0)

    def equal_shell(at: float, beyond: float) -> Case:
        """Blocks of equal points, whose boxes say their distance exactly."""
        farther = np.log2(n / 64 / tolerance) + beyond
        radii = np.where(np.arange(n) < 64, radius_of(at), radius_of(at + farther))
        return Case(radii[:, None] * np.eye(1, d), np.zeros((m, d)), 1.0)

    def across() -> Case:
        """The nearest data are on the other side of the first of all splits; those on the same side are far."""
        side = np.where(np.arange(n)[:, None] % 8 == 0, 0.02, -6.0 - np.abs(normal[:, :1]))
        X = np.concatenate((side, 0.1 * normal[:, 1:]), axis=1)
        return Case(X, np.concatenate((np.full((m, 1), -0.02), 0.1 * rng.standard_normal((m, d - 1))), axis=1), 1.0)

    def growing(rate: float) -> Case:
        X = 5 * normal
        log_w = rate * 0.5 * (X**2).sum(axis=1)
        return Case(X, np.concatenate((here[: m // 2], X[: m - m // 2])), 1.0, np.exp(log_w - log_w.max()))

    def light_near() -> Case:
        """Near data hardly weigh; a far one counts as much as all of them."""
        bits = np.linspace(60, 60 + threshold + 2, n)
        radii = radius_of(bits)
        radii[: n // 2] = 0.1
        return Case(on_shells(radii, d, rng), here, 1.0, np.where(np.arange(n) < n // 2, 2.0**-60, 1.0))

    def large_norms(square: float) -> Case:
        """Where products are large float16 is coarse: most data are at zero, some at this squared norm in bits."""
        X = 0.5 * normal
        some = np.arange(n) % 4 == 0
        at = radius_of(square) * np.eye(1, d)
        X[some] = at + 2.0 * normal[some]
        return Case(X, np.concatenate((at + 2.5 * rng.standard_normal((m - 5, d)), X[:5])), 1.0)

    def shells_of_large_norms(square: float) -> Case:
        """Only rounding of float16 could leave out what is within the threshold, 4 to 1 bits of it."""
        bits = np.linspace(threshold - 4, threshold - 1, n)
        bits[:3] = 0.5
        at = radius_of(square) * np.eye(1, d)
        X = np.where(np.arange(n)[:, None] % 4 < 2, 0.1 * normal, at + on_shells(radius_of(bits), d, rng))
        return Case(X, at + here, 1.0)

    def spread_norms() -> Case:
        squares = np.geomspace(100, 60000, n)
        X = radius_of(squares)[:, None] * np.eye(1, d) + normal
        return Case(X, X[rng.integers(n, size=m)] + rng.standard_normal((m, d)), 1.0)

    return {
        "one alone, the others just beyond": lambda: alone(0.1, 0.01),
        "one alone, the others just within": lambda: alone(0.1, -0.01),
        "one alone and far, the others just beyond": lambda: alone(300.0, 0.5),
        "shells below the threshold": lambda: shells(0.0, 2.0),
        "shells around the threshold": lambda: shells(-3.0, 1.0),
        "shells around the threshold of blocks": lambda: shells(-12.0, 0.0),
        "equal points near": lambda: equal_shell(0.0, 0.5),
        "equal points near, just within": lambda: equal_shell(0.0, -2.0),
        "equal points far": lambda: equal_shell(4e4, 0.5),
        "equal points far, just within": lambda: equal_shell(4e4, -2.0),
        "nearest data across a split": across,
        "weights that grow with the distance": lambda: growing(0.5),
        "weights that outgrow the distance": lambda: growing(1.2),
        "near data hardly weigh": light_near,
        "norms of 100": lambda: large_norms(100.0),
        "norms of 3000": lambda: large_norms(3000.0),
        "norms of 20000": lambda: large_norms(20000.0),
        "norms of 60000": lambda: large_norms(60000.0),
        "shells at norms of 100": lambda: shells_of_large_norms(100.0),
        "shells at norms of 3000": lambda: shells_of_large_norms(3000.0),
        "shells at norms of 14000": lambda: shells_of_large_norms(14000.0),
        "norms of 100 to 60000": spread_norms,
    }


DEFEATING = tuple(defeating(2, 2, 2, 0.5))


@pytest.mark.parametrize("output", ["sum", "laplace"])
@pytest.mark.parametrize(("precision", "tolerance"), TOLERANCES)
@pytest.mark.parametrize("d", [5, 6])
@pytest.mark.parametrize("name", DEFEATING)
def test_what_is_left_out_is_at_most_the_tolerance(
    passes: Passes, name: str, d: int, precision: str, tolerance: float, output: Wanted
) -> None:
    n, m = passes.size(2048, 384, 1024), passes.size(192, 70, 96)
    case = defeating(n, m, d, tolerance)[name]().of(precision)
    found = passes.check(case, output, precision, tolerance)
    if output == "sum":  # nothing is added, beside what rounding may add
        want = formula(case, precision, passes.device)
        tolerances.check(found.reference + np.log(found.total) - want.log, want.allowed, "excess")


@pytest.mark.parametrize("precision", DEFAULT)
def test_factors_of_both_signs(gpu: Modules, precision: str) -> None:
    """Two terms alike whose factors are 33 and -33: what is left out is little beside T, not beside absolute terms.

    All other data lie where the first of the two does, and together add to L 2.5 times the tolerance times T.
    """
    n, m, d, tolerance = gpu.size(2048, 384), gpu.size(192, 70), 64, 1e-2
    rng = np.random.default_rng(d)
    at_zero = 1 + d / 2
    bits = 2 * at_zero / np.log(2)
    X = 1e-6 * rng.standard_normal((n, d))
    X[1] += on_shells(radius_of(np.full(1, bits)), d, rng)[0]
    log_w = np.full(n, np.log2(2.5 * tolerance * 2 / at_zero / n) - bits)
    log_w[:2] = -bits, np.log2((at_zero - 1) / (at_zero + 1))  # L is T
    case = Case(X, X[0] + 1e-6 * rng.standard_normal((m, d)), 1.0, 2.0**log_w).of(precision)
    check(computed(gpu, case, "laplace", precision, tolerance), case, "laplace", precision, tolerance)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("square", [30.0, 300.0, 1000.0, 3000.0, 8000.0, 14000.0, 40000.0])
@pytest.mark.parametrize("d", [6, *beyond(33)])
def test_rounding_of_float16_leaves_out_no_pair(gpu: Modules, d: int, square: float, seed: int) -> None:
    """All points of a block are the same, so that one rounding decides on all of its pairs.

    Sums of queries that are data are known without rounding. Beside the block's own 64 points, each of six blocks adds
    the tolerance where it is left out, 4 bits above what may be.
    """
    tolerance, n = 1e-2, 1024
    rng = np.random.default_rng([d, int(square), seed])
    bits = np.log2(n / tolerance) - 6 - 4
    at = radius_of(square) * on_shells(np.ones(1), d, rng)
    others = on_shells(radius_of(np.full(6, bits)), d, rng)
    blocks = np.concatenate((at, at + others, np.zeros((9, d))))
    case = Case(np.repeat(blocks, 64, axis=0), None, 1.0)
    check(computed(gpu, case, "sum", "float64", tolerance), case, "sum", "float64", tolerance)


@pytest.mark.parametrize("output", WANTED)
@pytest.mark.parametrize("precision", DEFAULT)
@pytest.mark.parametrize("d", [2, 3, 5, 6, 16, 40])
def test_far_pairs_are_left_out(passes: Passes, d: int, precision: str, output: Wanted) -> None:
    """Of eight clusters that do not see each other an eighth of the pairs counts, and blocks at the borders of two."""
    rng = np.random.default_rng(d)
    centres = 30 * rng.standard_normal((8, d))
    n = passes.size(8192, 1024, 2048)
    X = centres[np.arange(n) % 8] + 0.2 * rng.standard_normal((n, d))
    for case in (Case(X, X[: n // 2] + 0.05, 0.5), Case(X, None, 0.5)):
        passes.check(case.of(precision), output, precision)
        assert passes.share < (0.3 if passes.device == "cpu" else 0.5)


@pytest.mark.parametrize("output", ["sum", "ratio"])
@pytest.mark.parametrize("d", [32, 40, 64])
def test_points_too_far_for_float16_leave_out_the_others(gpu: Modules, d: int, output: Wanted) -> None:
    """One in a hundred lies 100 deviations away, in a direction of its own: it sees itself alone."""
    rng = np.random.default_rng(d)
    n = gpu.size(8192, 1024)
    X = rng.standard_normal((n, d))
    X[::100] = on_shells(np.full(len(X[::100]), 100.0), d, rng)
    case = Case(X, None, 0.3).of("float32")
    with traced() as ran:
        check(computed(gpu, case, output, "float32"), case, output, "float32")
    own_units = 32 / n
    assert sum(one.found["share"]() for one in ran) < 1.2 * own_units


@pytest.mark.parametrize(("shift", "factor"), [(0.3, 0.9), (30.0, 1.0), (0.0, 1e-3), (-5.0, 1e3)])
@pytest.mark.parametrize("output", WANTED)
@pytest.mark.parametrize("d", [2, 6, 40])
def test_a_frame_of_other_data(passes: Passes, d: int, output: Wanted, shift: float, factor: float) -> None:
    """It steers what is left out; no sum depends on it, and that of near data is as good as their own."""
    precision = "float32" if passes.device == "gpu" else "float64"
    case = normal(passes.size(5000, 600, 600), passes.size(1500, 129, 200), d).of(precision)
    passes.check(case, output, precision, frame=shift + factor * case.X)


@ITSELF
@pytest.mark.parametrize("output", WANTED)
@pytest.mark.parametrize("precision", DEFAULT)
@pytest.mark.parametrize("d", [3, 6, 20, 64])
def test_deterministic_sums_are_the_same_on_every_run(
    gpu: Modules, d: int, precision: str, output: Wanted, itself: bool
) -> None:
    case = normal(gpu.size(6000, 260), None if itself else gpu.size(1500, 150), d).of(precision)
    first, again = (computed(gpu, case, output, precision, deterministic=True) for _ in range(2))
    check(first, case, output, precision)
    for a, b in zip(first, again, strict=True):
        if a is not None:
            np.testing.assert_array_equal(a.view(np.int64), b.view(np.int64))


ONCE = (2, 3, 4, 5, 6, 8, 9, 16, 17, 32)
"""Dimensions of mean shifts that take each pair once: all widths, and sizes beside them."""


@pytest.mark.parametrize(
    ("n", "d"), [(n, d) for i, d in enumerate(ONCE) for n in ((65, 130, 1), (193, 63, 320), (450, 127, 2))[i % 3]]
)
def test_each_pair_counts_once_on_both_sides(gpu: Modules, n: int, d: int) -> None:
    """Sizes off blocks and items, odd numbers of blocks: close points, and so few of them that each one shows."""
    case = normal(n, None, d).of("float32")
    check(computed(gpu, case, "ratio", "float32"), case, "ratio", "float32")


@pytest.mark.parametrize("n", [450, 130, 63, 193])
@pytest.mark.parametrize("d", ONCE)
def test_equal_points_are_counted(gpu: Modules, d: int, n: int) -> None:
    """At places that do not see each other, within what blocks with a common centre hold: totals are their numbers."""
    rng = np.random.default_rng([n, d])
    places = np.concatenate((np.eye(d), -np.eye(d))) * radius_of(49.0)  # 98 bits between neighbours
    share = 1.0 / np.arange(1, 2 * d + 1)
    at = rng.choice(2 * d, size=n, p=share / share.sum())
    case = Case(places[at] + 0.3, None, 1.0).of("float32")
    numbers = np.bincount(at, minlength=2 * d)[at]
    found = computed(gpu, case, "ratio", "float32")
    total = np.exp(found.reference) * found.total
    np.testing.assert_array_equal(np.rint(total), numbers)
    np.testing.assert_allclose(total, numbers, rtol=2.0**-12)
    assert found.moments is not None
    shift = np.linalg.norm(found.moments / found.total[:, None], axis=1)
    tolerances.check(shift, GRID.value * d**0.5 * (1 - 1 / numbers), "shift of equal points")


def of_kinds(n: int, d: int) -> dict[str, Callable[[], tuple[Case, set[int]]]]:
    """Data whose blocks have these kinds, beyond five dimensions (``skipping_points.cu``), by name."""
    rng = np.random.default_rng([n, d])
    X = rng.standard_normal((n, d))
    h = 0.5 * d**0.5 * n ** (-1 / (d + 4))
    unit = h * radius_of(1.0)  # of which an exponent is one bit
    fine = 0.5 / np.log(2) * min(180, 850 / d**0.5)
    halves = np.where(np.arange(n) < n // 2, -1.0, 1.0)[:, None]

    def around(squares: np.ndarray) -> Case:
        """Clumps around points at these squared distances from the middle of all, on each side of it and there."""
        where = np.repeat(unit * np.sqrt(squares), -(-n // len(squares)))[:n, None] * np.full(d, d**-0.5)
        side = np.array([-1.0, 0.0, 0.0, 0.0, 1.0])[np.arange(n) % 5, None]
        return Case(side * where + 0.3 * h * X / d**0.5, None, h)

    clumps = halves * 1e3 * h * np.eye(1, d) + 0.3 * h * X
    outlier = X.copy()
    outlier[n // 3] += 1e4 * h
    shell = on_shells(np.ones(n), d, rng) * unit
    tail = 0.2 * X / rng.uniform(size=(n, 1)) ** (1 / 0.8)
    constant = X.copy()
    constant[:, 1::2] = 3.7
    return {
        "clumps far apart": lambda: (Case(clumps, None, h), {1}),
        "one outlier": lambda: (Case(outlier, None, h), {0, 3}),
        "heavy tail": lambda: (Case(tail * h, None, h), {0, 3}),
        "at the border of fine": lambda: (around(fine + np.linspace(-8, 8, 8)), {2, 3}),
        "at the border of common": lambda: (around(1700 + np.linspace(-200, 40, 8)), {2}),
        "shells of all kinds": lambda: (
            Case(shell * np.repeat(np.sqrt([40.0, fine, 600.0, 4e4]), -(-n // 4))[:n, None], None, 2 * h),
            {2, 3},
        ),
        "offset of 1e4 bandwidths": lambda: (Case(X + 1e4 * h, None, h), {3}),
        "constant columns": lambda: (Case(constant, None, h), {3}),
    }


OF_KINDS = tuple(of_kinds(10, 2))


@pytest.mark.parametrize("output", ["ratio", "sum", "laplace"])
@pytest.mark.parametrize("name", OF_KINDS)
@pytest.mark.parametrize("d", [6, 17, 3, 5, 16, 32])
def test_kernels_share_the_pairs_of_blocks_of_all_kinds(gpu: Modules, d: int, name: str, output: Wanted) -> None:
    """What one leaves to the other is neither lost nor taken twice."""
    n = gpu.size(3000, 450)
    case, kinds = of_kinds(n, d)[name]()
    case = case.of("float32")
    check(computed(gpu, case, output, "float32"), case, output, "float32")
    if d > 5:
        X = gpu.asarray(case.X)
        frame = gpu.skipping.frame.frame(gpu.skipping.frame.sample(X))
        ordered = gpu.skipping.points.ordered(X, case.h, None, frame, gpu.skipping.points.Needed())
        found = {int(kind) for kind in gpu.asnumpy(ordered.kinds)}
        assert kinds <= found


DEFEATING_ONCE = (
    "one alone, the others just beyond",
    "one alone, the others just within",
    "shells around the threshold",
    "shells around the threshold of blocks",
    "equal points near",
    "equal points near, just within",
    "norms of 100",
    "norms of 3000",
    "shells at norms of 3000",
    "norms of 100 to 60000",
)


@pytest.mark.parametrize("tolerance", [1e-2, 1e-6])
@pytest.mark.parametrize("d", [6, 3, 17, 5])
@pytest.mark.parametrize("name", DEFEATING_ONCE)
def test_what_pairs_taken_once_leave_out_is_at_most_the_tolerance(
    gpu: Modules, name: str, d: int, tolerance: float
) -> None:
    """Beside a pass that leaves out nothing, whose rounding is the same, only pairs that are missing show."""
    n = gpu.size(2048, 512)
    case = defeating(n, 9, d, tolerance)[name]()._replace(Y=None).of("float32")
    found, whole = (computed(gpu, case, "ratio", "float32", least) for least in (tolerance, 1e-30))
    check(found, case, "ratio", "float32", tolerance)
    check_left_out(found, whole, tolerance)


def check_left_out(found: PartialSums, whole: PartialSums, tolerance: float) -> None:
    """Compare with sums over all pairs by the same kernels."""
    more = found.reference + np.log(found.total) - whole.reference - np.log(whole.total)
    tolerances.check(-more, np.full(len(more), -np.log1p(-tolerance) + 1e-6), "what is left out")
    tolerances.check(more, np.full(len(more), 1e-6), "excess")


def dense_and_lone(d: int, tolerance: float, sign: float) -> Case:
    """A block of points that are alone, between two places of many equal points; h = 1.

    Across the first axis: 64 equal points, 64 that hardly see each other, 256 equal points. To the point alone in the
    middle these add 2.7 times the tolerance, though they need no pair with it: their own sums are 64 and more. The
    first two blocks are one item.
    """
    n = 384
    lattice = sorted(itertools.product(range(4), repeat=min(d - 1, 4)), key=lambda k: np.square(k).sum())
    X = np.zeros((n, d))
    X[:128, 0] = -radius_of(np.log2(n / tolerance) - 2)
    X[:64, 0] -= radius_of(31)
    X[64:128, 1:5] = 0.5 + 3.4 * np.array(lattice[:64])
    return Case(sign * X, None, 1.0).of("float32")


@pytest.mark.parametrize("output", ["ratio", "sum", "queries"])
@pytest.mark.parametrize("sign", [1.0, -1.0], ids=["lone-first", "dense-first"])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-6])
@pytest.mark.parametrize("d", [6, 4, 5, 17])
def test_pairs_that_matter_to_one_side_alone(gpu: Modules, d: int, tolerance: float, sign: float, output: str) -> None:
    """Whichever side comes first, by a frame whose first axis tells the three places from each other."""
    case = dense_and_lone(d, tolerance, sign)
    if output == "queries":
        case = case._replace(Y=case.X[:128])
    k = min(d, 5)
    edges = np.tile(np.linspace(-20, 20, 257), (k, 1))
    edges[0] += 0.5 * case.X[64, 0]  # half of all intervals between the points that are alone and the larger place
    axes = [gpu.asarray(a.astype(np.float32)) for a in (np.eye(k, d), edges, np.eye(min(d, 16), d))]
    frame = gpu.skipping.frame.Frame(gpu.asarray(np.zeros(d)), *axes, bits=30 // k, square=200.0)
    wanted: Wanted = "ratio" if output == "ratio" else "sum"
    found, whole = (computed(gpu, case, wanted, "float32", least, frame=frame) for least in (tolerance, 1e-30))
    check(found, case, wanted, "float32", tolerance)
    check_left_out(found, whole, tolerance)


def sums_of_queries(name: str, n: int, m: int, d: int) -> Case:
    """Data and queries of sums by products of common blocks."""
    rng = np.random.default_rng([n, m, d])
    X = rng.standard_normal((n, d))
    h = 0.5 * d**0.5 * n ** (-1 / (d + 4))
    Y = X[rng.integers(n, size=m)] + 0.3 * h * rng.standard_normal((m, d))
    w = None
    if name == "weights over 30 decades":
        w = 10.0 ** -rng.uniform(0, 30, n)
    elif name == "one dominant weight":
        w = np.where(np.arange(n) == n // 3, 1.0, 1e-12)
    elif name == "far queries":
        Y[:: m // 5] = on_shells(np.geomspace(4, 40, len(Y[:: m // 5])) * h, d, rng)
    elif name == "data of all kinds":
        X[: n // 4] *= 40 * h
        X[0] += 1e5 * h
        Y[: m // 4] = X[rng.integers(n // 4, size=m // 4)] + 0.1 * h
    return Case(X, Y, h, w)


@pytest.mark.parametrize("output", ["sum", "laplace"])
@pytest.mark.parametrize("d", [17, 6, 9, 32])
@pytest.mark.parametrize(
    "name", ["data of all kinds", "weights over 30 decades", "one dominant weight", "far queries", "near queries"]
)
def test_sums_of_queries_by_chunks(gpu: Modules, name: str, d: int, output: Wanted) -> None:
    case = sums_of_queries(name, gpu.size(3000, 330), gpu.size(1000, 150), d).of("float32")
    check(computed(gpu, case, output, "float32"), case, output, "float32")


@pytest.mark.parametrize("name", ["data of all kinds", "equal"])
@pytest.mark.parametrize("d", [6, 17, 40, 5])
def test_weights_of_data_at_themselves(gpu: Modules, d: int, name: str) -> None:
    """They are the data's alone: a query's own weight is no factor of its sum."""
    n = gpu.size(3000, 330)
    case = sums_of_queries(name, n, 10, d)._replace(Y=None)
    case = case._replace(w=10.0 ** -np.random.default_rng(d).uniform(0, 3, n) if name != "equal" else np.full(n, 0.25))
    case = case.of("float32")
    check(computed(gpu, case, "sum", "float32"), case, "sum", "float32")


def without_near_data(name: str, n: int, m: int, d: int) -> Case:
    """Queries whose nearest data are far, for some or for all of them."""
    rng = np.random.default_rng([n, m, d])
    X, Y = rng.standard_normal((n, d)), rng.standard_normal((m, d))
    silverman = (4 / (d + 2) / n) ** (1 / (d + 4))
    h, w = 0.2 * silverman, None
    if name == "a hundredth of Silverman's":
        h = 0.01 * silverman
    elif name == "a few far outside":
        h = silverman
        Y[-5:] *= np.array([[8.0], [15.0], [30.0], [60.0], [120.0]]) / np.linalg.norm(Y[-5:], axis=1)[:, None]
    elif name == "t of 3 degrees":
        X, Y = (Z / np.sqrt(rng.chisquare(3, (len(Z), 1)) / 3) for Z in (X, Y))
    elif name == "weights over 60 decades":
        w = 10.0 ** -rng.uniform(0, 60, n)
    return Case(X, Y, h, w)


ISOLATED = (
    "a fifth of Silverman's",
    "a hundredth of Silverman's",
    "a few far outside",
    "t of 3 degrees",
    "weights over 60 decades",
)


@pytest.mark.parametrize(("output", "precision"), [("sum", "float32"), ("laplace", "float32"), ("sum", "float64")])
@pytest.mark.parametrize("name", ISOLATED)
@pytest.mark.parametrize("d", [2, 3, 5, 8, 16, 33, 100])
def test_bounds_of_queries_are_close(
    gpu: Modules, monkeypatch: pytest.MonkeyPatch, d: int, name: str, precision: str, output: Wanted
) -> None:
    """Below the sum, so that they are bounds; not far below its largest term, so that sums do not overflow."""
    from cukde.density.pairs.gpu.shape import current

    if not plan_gpu.skipping_serves(output, precision, d, current().capability):
        pytest.skip(NO_KERNELS)
    case = without_near_data(name, gpu.size(8000, 1200), gpu.size(1000, 130), d).of(precision)
    log_weights = log_weights_of(case)
    X, Y, given = (gpu.asarray(a) for a in (case.X, case.Y, log_weights))
    options = Options(precision, given)
    frame = gpu.skipping.frame.frame(gpu.skipping.frame.sample(X))
    prepared = gpu.skipping.plan.prepare(X, Y, case.h, output, options, frame, DEFAULT[precision])
    order = gpu.asnumpy(prepared.queries.order)
    bounds = gpu.asnumpy(gpu.skipping.bounds.bounds_of(prepared).reference)[: len(order)].astype(float)

    square = np.zeros((len(order), len(case.X)))
    for x, y in zip(case.X.T.astype(float), case.queries[order].T.astype(float), strict=True):
        square += ((y[:, None] - x) / case.h) ** 2 / 2
    log_w = np.zeros(len(case.X)) if log_weights is None else log_weights
    terms = log_w - square
    total, largest = np.logaddexp.reduce(terms, axis=1) / np.log(2), terms.max(axis=1) / np.log(2)
    assert (bounds <= total).all()
    # In few dimensions bounds from -10 bits on are good enough.
    below = (20 if d > 5 else 5) + 3e-6 * abs(largest)
    assert (bounds >= np.minimum(largest - below, log_w.max() / np.log(2) - 10 if d <= 5 else np.inf)).all()

    guards: list[Any] = []
    launch = gpu.skipping.passes.difference.launch

    def noted(*args: object, **named: Any) -> object:
        guards.append(named["guard"])
        return launch(*args, **named)

    monkeypatch.setattr(gpu.skipping.passes.difference, "launch", noted)
    gpu.skipping.passes.run(prepared)
    assert (gpu.asnumpy(guards[0].fast_total) == 1).all()
