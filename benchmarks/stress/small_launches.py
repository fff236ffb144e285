"""Launch every kernel at small sizes that cross tile edges: what to run under compute-sanitizer.

Passes as a call asks for them come first, then what they did not choose: each specialisation that
``catalogue.kernels`` lists is launched, and every result is checked against float64.

compute-sanitizer --tool memcheck python -m benchmarks.stress.small_launches
compute-sanitizer --tool racecheck python -m benchmarks.stress.small_launches
"""

from __future__ import annotations

import argparse
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, get_args
from unittest import mock

import numpy as np

import cukde
from benchmarks.perf import launched
from cukde import catalogue
from cukde.bandwidth.gpu import leave_one_out as bandwidth_leave_one_out, passes as bandwidth_passes
from cukde.conv1d.gpu import direct, toeplitz as conv1d_toeplitz, weight_grad
from cukde.core.gpu import arrays as gpu_arrays, device as core_device, merge_sort
from cukde.core.gpu.launch import Specialisation
from cukde.core.plan import only
from cukde.density import backends
from cukde.density.domains.domain import domain_of
from cukde.density.domains.gpu import passes as domains_gpu
from cukde.density.kernel_density import kernel_density
from cukde.density.kernels import KERNELS, Kernel
from cukde.density.one_dimension import plan as one_dimension_plan
from cukde.density.one_dimension.gpu import passes as one_dimension_passes
from cukde.density.one_dimension.plan import TOLERANCE
from cukde.density.options import Options
from cukde.density.pairs.gpu import (
    centred as pairs_centred,
    difference,
    ends as pairs_ends,
    f16,
    f16_symmetric as pairs_f16_symmetric,
    f64,
    operands,
    passes as pairs_passes,
    small,
    splits,
    values as pairs_values,
    weights as pairs_weights,
    wide as pairs_wide,
    wide_f64,
)
from cukde.density.pairs.gpu.arguments import Arguments
from cukde.density.pairs.gpu.finish import Density
from cukde.density.pairs.gpu.skipping import (
    blocks as near_blocks_of_points,
    frame as near_frame,
    passes as near_passes,
    plan as near_plan,
    values as near_values,
)
from cukde.density.pairs.gpu.specialisation import OPERATION
from cukde.density.plan import gpu as plan_gpu, shape as plan_shape
from cukde.density.plane import plan as plane_plan
from cukde.density.plane.gpu import cells as plane_cells, choice as plane_choice
from cukde.density.sums import Epilogue, Output, PartialSums, merge
from cukde.kendall import sign_tiles, statistics
from cukde.kendall.cpu import passes as kendall_cpu
from cukde.kendall.gpu import (
    inversions,
    passes as kendall_gpu,
    ranks as kendall_ranks,
    sign_products as kendall_sign_products,
)
from cukde.kendall.statistics import VARIANTS, Null
from cukde.perf import _loads_gpu, _wait_gpu
from cukde.piecewise import plan as piecewise_plan
from cukde.piecewise.gpu import passes as piecewise_passes
from cukde.piecewise.pieces import Pieces
from tests import reference, tolerances
from tests.conv1d import cases as conv1d_cases, toeplitz_cases, weight_grad_cases
from tests.conv1d.cases import check as check_conv1d
from tests.density.samples import (
    DOUBLE,
    GRID,
    ORDERED,
    SHIFT,
    SYMMETRIC,
    TOTAL,
    Sample,
    as_float,
    in_order,
    verify,
)
from tests.kendall.sign_cases import TIES, by_brute_force, has_ties, ranks
from tests.perf import peak_results
from tests.piecewise.gpu_cases import (
    allowed as allowed_of_pieces,
    coefficients_of,
    expected as values_of_pieces,
    knots_of,
)
from tests.tolerances import DENSITY, SD_DENSITY, check_log

N, M = 200, 70
OF_BLOCK = 130  # of the data, where they are two blocks
ROWS_OF_SPLITS = 600  # data that the difference kernels split, for which one of N rows is too few

# Of the data: off the edges of groups of 4, 8 and 16 and of chunks, and on them.
DIMENSIONS = (1, 3, 5, 8, 16, 20, 33, 64, 65)
VALUES = (1, 7, 16, 30, 64, 65, 130)  # columns
OUTPUTS: tuple[Output, ...] = tuple(OPERATION)
MANY = {65: "float32", 100: "float64"}  # dimensions, of data of a type

# One float16 term keeps 11 bits of a point. The symmetric pass has tolerances of its own.
_ALLOWED = {precision: DENSITY["gpu", precision].value for precision in ("float32", "ieee", "float64")} | {"tf32": 1e-2}

# In one dimension the transform is right to its tolerance.
_ALLOWED_1D = {(False, precision): _ALLOWED[precision] for precision in ("float32", "float64")} | {
    (True, precision): TOLERANCE[precision] + 2.0**-24 * (precision == "float32")
    for precision in ("float32", "float64")
}

SORTED = (900, 1800, 3000, 2 * 8192 + 5)  # samples in a tile of every size, and in three tiles

_LIMIT = 700.0  # of the scaled squared radius: beyond that of any sample
_FORMS = {1: "tf32", 3: "float32", 4: "float32"}  # precision of the products of an exponent


@functools.cache
def sample(d: int, weighted: bool = False, dtype: str = "float32", itself: bool = False, n: int = N) -> Sample:
    """Data, and queries or the data once more."""
    made = Sample(n, M, d, weighted=weighted, dtype=dtype)
    if itself:
        made.Y = made.X
    return made


class Device:
    """A sample's arrays on the device, as the launchers take them."""

    def __init__(self, of: Sample, output: Output, k: int) -> None:
        self.h, self.output = of.h, output
        self.X = gpu_arrays.asarray(of.X)
        self.Y = None if of.Y is of.X else gpu_arrays.asarray(of.Y)
        self.values = gpu_arrays.asarray(of.V[:, :k]) if output == "values" else None
        self.log_weights = None if of.log_weights is None else gpu_arrays.asarray(of.log_weights)
        self.centre = self.X.mean(axis=0, dtype=np.float64)

    def sums(self, precision: str, squared_radius: float | None = None) -> PartialSums:
        """By the engine that the arguments choose."""
        return pairs_passes.partial_sums(
            self.X,
            self.Y,
            self.h,
            self.output,
            Options(precision, log_weights=self.log_weights, squared_radius=squared_radius),
            values=self.values,
        )

    def sums_in_shape(self, shape: splits.Shape, products: int) -> PartialSums:
        """By the ordered float16 engine in one of its shapes, the data in two splits where they are enough."""
        with _two_splits(shape, len(self.X if self.Y is None else self.Y)):
            return f16.take(
                self.arguments(Options("float32", self.log_weights, self.centre, 0.0)),
                self.output,
                self.values,
                ratio=self.Y is None,
                form=plan_gpu.Form(products, _LIMIT),
            )

    def sums_in_layout(self, of_tiles: pairs_wide.Layout, terms: int, ratio: bool) -> PartialSums:
        """By the engine of many dimensions in one layout: several blocks of powers, the radius unknown."""
        with mock.patch.multiple(pairs_wide, _STAGED_ROWS=128, _STAGED_BYTES=2**16):
            of = self.arguments(Options("tf32" if terms == 1 else "float32", self.log_weights, self.centre))
            of = of._replace(options=of.options._replace(squared_radius=None))
            return pairs_wide.take(of, self.output, self.values, ratio=ratio, tiling=of_tiles)

    def arguments(self, options: Options) -> Arguments:
        """The arguments of a pass."""
        return pairs_passes.prepare(self.X, self.Y, self.h, options)


@contextmanager
def planned(plan: Callable[..., splits.Plan]) -> Iterator[None]:
    """Let ``plan`` split the data of passes within the block, not ``splits.plan``, and keep none of its plans."""
    f16._plan.cache_clear()
    try:
        with mock.patch.object(splits, "plan", plan):
            yield
    finally:
        f16._plan.cache_clear()


def _two_splits(shape: splits.Shape, m: int = M) -> AbstractContextManager[None]:
    """Fix the shape of the passes of ``m`` queries within the block, with the data in two splits or nearly so."""
    half = -(-N // 2 // shape.tile) * shape.tile
    plan = splits.Plan(shape, -(-m // shape.queries), -(-N // half), half)
    return planned(lambda *_: plan)


class Launches:
    """What has been launched so far, of what is known."""

    def __init__(self, found: set[launched.Kernel]) -> None:
        self.found = found
        self.known = set(catalogue.kernels()) | {chosen.kernel[:3] for chosen in one_dimension_passes.specialisations()}

    def lacks(self, chosen: Specialisation) -> bool:
        """Whether a kernel is listed and has not been launched."""
        return chosen[:3] in self.known - self.found


def check(of: Sample, output: str, sums: PartialSums, allowed: float, k: int) -> None:
    """Compare sums on the device with float64, by the documented measures of error."""
    verify(of, output, _on_host(sums), allowed, k)


def check_symmetric(of: Sample, sums: PartialSums, mode: str) -> None:
    """The same for the symmetric pass, whose moments are good to 11 bits of their terms."""
    of_host = _on_host(sums)
    log_total = reference.log_kde(of.X, of.X, of.h) - of.log_scale
    # Exact sums are as good as the exponents, which a device makes less well than the emulation that TOTAL is for.
    allowed = _ALLOWED["float32"] if mode == "exact" else TOTAL[mode].value
    tolerances.check(np.abs(of_host.reference + np.log(of_host.total) - log_total), np.asarray(allowed), "log total")
    shift = of_host.moments / of_host.total[:, None] / of.h
    tolerances.check(np.abs(shift - of.h * reference.score(of.X, of.X, of.h)), np.asarray(SHIFT[mode].value), "shift")


def check_once(of: Sample, sums: PartialSums) -> None:
    """The same where pairs are left out: a factor is a multiple of 1/256 of a unit, or less exact (``GRID``)."""
    of_host = _on_host(sums)
    log_total = reference.log_kde(of.X, of.X, of.h) - of.log_scale
    allowed = TOTAL["split"].value + _ALLOWED["float32"]
    tolerances.check(np.abs(of_host.reference + np.log(of_host.total) - log_total), np.asarray(allowed), "log total")
    shift = of_host.moments / of_host.total[:, None] / of.h
    allowed = SHIFT["split"].value + GRID.value
    tolerances.check(np.abs(shift - of.h * reference.score(of.X, of.X, of.h)), np.asarray(allowed), "shift")


def check_order(keys: np.ndarray, order: Any) -> None:
    """Assert that equal keys keep their order."""
    np.testing.assert_array_equal(gpu_arrays.asnumpy(order), np.argsort(keys, kind="stable"))


def check_ranks(columns: np.ndarray, ranked: kendall_ranks.Ranks) -> None:
    """Compare ranks on the device with positions in the sorted columns."""
    for got, column in zip(gpu_arrays.asnumpy(ranked.values), columns, strict=True):
        np.testing.assert_array_equal(got, np.searchsorted(np.sort(column), column))


def check_reversed(n: int, sums: Sequence[int]) -> None:
    """Of two permutations and their reverses and of one pair of constants: discordant, concordant, tied."""
    pairs = n * (n - 1) // 2
    np.testing.assert_array_equal(sums, (2 * pairs, 0, pairs, pairs))


def _on_host(sums: PartialSums) -> PartialSums:
    return PartialSums(*(None if a is None else gpu_arrays.asnumpy(a) for a in sums))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stress.small_launches", description=__doc__)
    names = [run.__name__ for run in PASSES]
    parser.add_argument("passes", nargs="*", help=f"only some, for tools that take long: {', '.join(names)}")
    wanted = parser.parse_args(arguments).passes
    if unknown_passes := set(wanted) - set(names):
        parser.error(f"there is no pass {', '.join(sorted(unknown_passes))}")
    # Samples are small: but for a pass of their own, they are for the engines of larger problems.
    with launched.noted() as found, mock.patch.object(backends, "small", return_value=None):
        launches = Launches(found)
        for run in PASSES:
            if not wanted or run.__name__ in wanted:
                run(launches)
    if wanted:
        print(f"{len(found)} kernels launched by {', '.join(wanted)}; every result is within its tolerance")
        return
    missing, unknown = launches.known - found, found - launches.known
    assert not missing, f"never launched: {sorted(missing)}"
    assert not unknown, f"launched, but not among those that are known: {sorted(unknown)}"
    print(f"{len(found)} kernels launched, all that are known; every result is within its tolerance")


def whole_calls(launches: Launches) -> None:
    """What the public functions launch around the passes, with the survey of the data and without."""
    for depth, dtype, check_finite in itertools.product(ORDERED, ("float32", "float64"), (True, False)):
        s = sample(ORDERED[depth], dtype=dtype)
        on = Device(s, "sum", 1)
        for call, exact, tolerance in (
            (cukde.kde, reference.log_kde, _ALLOWED["float32"]),
            (cukde.sd_kde, functools.partial(reference.sd_kde, log=True), SD_DENSITY["float32"].value),
        ):
            got = call(on.X, on.Y, s.h, log=True, precision="float32", check_finite=check_finite)
            want = exact(s.X, s.Y, s.h)
            check_log(gpu_arrays.asnumpy(got), want, np.full(M, tolerance))
        got = cukde.laplace_kde(on.X, on.Y, s.h, precision="float32", check_finite=check_finite)
        value, size = reference.laplace(s.X, s.Y, s.h)
        off = np.abs(gpu_arrays.asnumpy(got) - value)
        tolerances.check(off, _ALLOWED["float32"] * size + np.finfo(dtype).tiny, "Laplace density")


def weights_of_calls(launches: Launches) -> None:
    """What a call asks of its weights: their range, and logarithms of shares; in one part and in several."""
    for n, dtype in itertools.product((1, N, 5000), ("float32", "float64")):
        s = sample(1, n=n)
        w = gpu_arrays.asarray(np.abs(s.V[:, 0]).astype(dtype))
        of_host = gpu_arrays.asnumpy(w).astype(np.float64)
        _, _, [found] = gpu_arrays.look(w[:, None], None, None, [], [w])
        logs = gpu_arrays.asnumpy(pairs_weights.logarithms(w))
        tolerances.check(np.subtract(found, (of_host.min(), of_host.max())), np.zeros(2), "range")
        tolerances.check(np.abs(logs - np.log(of_host / of_host.sum())), np.full(n, 1e-13), "log weights")


def ends_of_sums(launches: Launches) -> None:
    """Densities, gradients and moved points from the sums of one split of the data and of several."""
    s = sample(5, True, n=ROWS_OF_SPLITS)
    log_density, scores = reference.density_and_score(s.X, s.Y, s.h, s.w)
    value, size = reference.laplace(s.X, s.Y, s.h, s.w)
    reach = reference.nearness(s.X, s.Y, s.h, s.w).reach
    allowed = np.full(M, _ALLOWED["ieee"])

    def check_scores(got: np.ndarray) -> None:
        tolerances.check_score(np.linalg.norm(s.h * (got - scores), axis=1), allowed, reach)

    for several, dtype in itertools.product((False, True), map(np.dtype, ("float32", "float64"))):

        def sums(output: Output, several: bool = several) -> Any:
            on = Device(s, output, 1)
            arguments = pairs_passes.prepare(on.X, on.Y, s.h, Options("ieee", log_weights=on.log_weights))
            if several:
                return difference.take(arguments, output, None, ratio=False)
            return pairs_passes.run(arguments, output)

        epilogue = Epilogue(s.log_scale, False, dtype)
        logs = pairs_ends.density(sums("sum"), epilogue._replace(log=True))
        check_log(gpu_arrays.asnumpy(logs), log_density, allowed)
        corrected = gpu_arrays.asnumpy(pairs_ends.density(sums("laplace"), epilogue, "laplace"))
        tolerances.check(np.abs(corrected - value), allowed * size + np.finfo(dtype).tiny, "Laplace density")
        check_scores(gpu_arrays.asnumpy(pairs_ends.gradient(sums("moments"), s.h, dtype)))
        moved = pairs_ends.debiased(gpu_arrays.asarray(s.Y.astype(dtype)), sums("moments"), 0.5)
        check_scores((gpu_arrays.asnumpy(moved) - s.Y) / (0.5 * s.h**2))


def chosen_by_a_call(launches: Launches) -> None:
    """Passes as a call chooses them, the scaled squared radius known or to be found."""
    kinds = [(output, precision, "float32") for output in OUTPUTS for precision in ("float32", "tf32")]
    kinds.append(("sum", "float32", "float64"))
    for depth, (output, precision, dtype) in itertools.product(ORDERED, kinds):
        for weighted, itself, squared_radius in itertools.product((False, True), (False, True), (None, 50.0)):
            if weighted and output == "values":
                continue
            symmetric = output == "moments" and itself and not weighted
            s = sample((SYMMETRIC if symmetric else ORDERED)[depth], weighted, dtype, itself)
            sums = Device(s, output, 7).sums(precision, squared_radius)
            if symmetric:
                check_symmetric(s, sums, "split" if precision == "float32" else "one-term")
            else:
                check(s, output, sums, _ALLOWED[precision], 7)


def splits_merged(launches: Launches) -> None:
    """Enough data for the difference kernels to split them."""
    s = sample(5, n=ROWS_OF_SPLITS)
    for output in ("sum", "moments"):
        check(s, output, Device(s, output, 1).sums("ieee"), _ALLOWED["ieee"], 1)


def small_problems(launches: Launches) -> None:
    """Densities, scores and moved points in one launch: of data that are split and that are not, with weights."""
    for d, dtype, weighted, n in itertools.product(
        (1, 2, 7, 16, 21, 40, 150), ("float32", "float64"), (False, True), (N, 1030)
    ):
        s = sample(d, weighted, dtype, n=n)
        Y = s.Y[:5]
        X, queries, w = (None if a is None else gpu_arrays.asarray(a) for a in (s.X, Y, s.w))
        near = reference.nearness(s.X, Y, s.h, s.w)
        allowed = tolerances.log_error("gpu", dtype, near.exponent)
        with mock.patch.object(backends, "small", return_value=small):
            log_p, score = cukde.density_and_score(X, queries, float(s.h), weights=w)
            alone = cukde.kde(X, queries, float(s.h), weights=w, log=True)
            corrected = {
                precision: cukde.laplace_kde(X, queries, float(s.h), weights=w, precision=precision)
                for precision in {"float32", dtype}
            }
            of_moved = cukde.sd_kde(X, queries, float(s.h), weights=w, log=True)
        for got in (log_p, alone):
            check_log(gpu_arrays.asnumpy(got), reference.log_kde(s.X, Y, s.h, s.w), allowed)
        error = s.h * np.linalg.norm(gpu_arrays.asnumpy(score) - reference.score(s.X, Y, s.h, s.w), axis=1)
        tolerances.check_score(error, allowed, near.reach)
        scaled = reference.scaled_laplace(s.X, Y, s.h, s.w)
        for precision, got in corrected.items():
            of_precision = tolerances.log_error("gpu", precision, near.exponent)
            tolerances.check_scaled(gpu_arrays.asnumpy(got), *scaled, of_precision, "Laplace density")
        want = reference.sd_kde(s.X, Y, s.h, weights=s.w, log=True)
        check_log(gpu_arrays.asnumpy(of_moved), want, SD_DENSITY[dtype].value * np.maximum(1, near.exponent))


def differences(launches: Launches) -> None:
    moments: Output = "laplace_moments"  # which no other engine has
    tasks = [*_tasks(), *((moments, d, 1) for d in DIMENSIONS)]
    for (output, d, k), precision, dtype in itertools.product(tasks, ("ieee", "float64"), ("float32", "float64")):
        chosen = difference.specialise(output, precision, np.dtype(dtype), d, k)
        if launches.lacks(chosen.kernel):
            s = sample(d, output != "values", dtype)
            with only("difference"):
                check(s, output, Device(s, output, k).sums(precision), _ALLOWED[precision], k)


def f64_products(launches: Launches) -> None:
    """As a call chooses, and every tile shape."""
    for d, output in itertools.product(DOUBLE.values(), OUTPUTS):
        for k in (7, 64) if output == "values" else (1,):
            s = sample(d, output != "values", "float64")
            on = Device(s, output, k)
            check(s, output, on.sums("float64", 50.0), _ALLOWED["float64"], k)
            task = f64.task(output, d, k)
            for shape in task.every_shape:
                if launches.lacks(f64.specialise(task, shape)):
                    with _two_splits(shape):
                        check(s, output, on.sums("float64", 50.0), _ALLOWED["float64"], k)


def f64_of_many_dimensions(launches: Launches) -> None:
    """As a call chooses, with blocks so small that of the data at themselves some lie off the diagonal."""
    cases = itertools.product(OUTPUTS, (False, True), (False, True), (None, 50.0, 1000.0, 5000.0))
    with mock.patch.object(wide_f64, "_STAGED_ROWS", 128):
        for output, weighted, itself, squared_radius in cases:
            s = sample(70, weighted and output != "values", "float64", itself)
            check(s, output, Device(s, output, 7).sums("float64", squared_radius), _ALLOWED["float64"], 7)


def without_own_rows(launches: Launches) -> None:
    """By every engine that leaves out the pair of a row with itself; powers in several blocks."""
    cases = itertools.product((5, 70), ("float32", "ieee", "float64"), ("sum", "moments", "laplace"))
    every = only("centred", "wide", "wide_f64")
    with every, mock.patch.object(wide_f64, "_STAGED_ROWS", 128), mock.patch.object(pairs_wide, "_STAGED_ROWS", 128):
        for d, precision, output in cases:
            s = sample(d, dtype="float64" if precision == "float64" else "float32", itself=True)
            on, n = Device(s, output, 1), len(s.X)
            options = Options(precision, None, on.centre, 50.0, own=gpu_arrays.asarray(np.arange(n)))
            sums = pairs_passes.sums_without_own(on.X, None, s.h, output, options)
            log_p = gpu_arrays.asnumpy(sums.reference) + np.log(gpu_arrays.asnumpy(sums.total))
            others = [reference.log_kde(np.delete(s.X, i, axis=0), s.X[i : i + 1], s.h) for i in range(0, n, 9)]
            want = np.concatenate(others) + math.log(n - 1) + 0.5 * d * math.log(2 * math.pi * s.h**2)
            check_log(log_p[::9], want, np.full(len(want), 2 * _ALLOWED[precision]))


def _tasks() -> Iterator[tuple[Output, int, int]]:
    """Output, dimensions and columns of the values that kernels may be specialised for."""
    for output, d in itertools.product(OUTPUTS, DIMENSIONS):
        for k in VALUES if output == "values" else (1,):
            yield output, d, k


def f16_ordered(launches: Launches) -> None:
    """Every tile shape of every task."""
    for d, output, products, weighted in itertools.product(ORDERED.values(), OUTPUTS, _FORMS, (False, True)):
        if (weighted and output == "values") or (products == 4 and d > ORDERED[16]):
            continue
        for k in (7, 30, 65) if output == "values" else (1,):
            task = f16.task(output, products, operands.depth_of(d), k, weighted)
            for shape in task.every_shape:
                if launches.lacks(f16.specialise(task, shape)):
                    s = sample(d, weighted)
                    sums = Device(s, output, k).sums_in_shape(shape, products)
                    check(s, output, sums, _ALLOWED[_FORMS[products]], k)


def f16_ordered_mean_shift(launches: Launches) -> None:
    """The same for the mean shift of the data at themselves, whose sums are those of the symmetric pass."""
    for d, products in itertools.product(SYMMETRIC.values(), (1, 3)):
        task = f16.task("moments", products, operands.depth_of(d), d, False, of_themselves=True)
        for shape in task.every_shape:
            if launches.lacks(f16.specialise(task, shape)):
                s = sample(d, itself=True)
                sums = Device(s, "moments", 1).sums_in_shape(shape, products)
                check_symmetric(s, sums, "one-term" if products == 1 else "split")


def f16_symmetric(launches: Launches) -> None:
    """The data against themselves, with exact sums and with rounded ones, in every layout."""
    for d, split, exact_sums in itertools.product(SYMMETRIC.values(), (False, True), (False, True)):
        s = sample(d, itself=True)
        on = Device(s, "moments", 1)
        operand, _ = operands.prepare(on.X, None, on.centre, s.h, split=split, symmetric=True)
        for of in pairs_f16_symmetric.every_layout(operands.depth_of(d), 3 if split else 1):
            S, T = pairs_f16_symmetric.launch(operand, exact_sums=exact_sums, tiling=of)
            sums = pairs_f16_symmetric.finish(operand, S, T, N, d, s.h)
            check_symmetric(s, sums, "one-term" if not split else "exact" if exact_sums else "split")


def f16_mutual(launches: Launches) -> None:
    """Two blocks of data against each other beside each against itself, in every layout."""
    for d, split, exact_sums in itertools.product(SYMMETRIC.values(), (False, True), (False, True)):
        s = sample(d, itself=True)
        on = Device(s, "moments", 1)
        blocks = on.X[:OF_BLOCK], on.X[OF_BLOCK:]
        both = operands.prepare_two(*blocks, on.centre, s.h, split=split)
        own_rows = operands.padded(OF_BLOCK)
        for of in pairs_f16_symmetric.every_layout(operands.depth_of(d), 3 if split else 1):
            S, T = pairs_f16_symmetric.launch(both, own_rows=own_rows, exact_sums=exact_sums, tiling=of)
            parts = []
            for block, rows in zip(blocks, (slice(own_rows), slice(own_rows, None)), strict=True):
                operand = both.rows(rows)
                sums = operand, S[rows], T[rows]
                others = pairs_f16_symmetric.finish(*sums, len(block), d, s.h, self_interaction=False)
                sums = operand, *pairs_f16_symmetric.launch(operand, exact_sums=exact_sums, tiling=of)
                parts.append(merge([others, pairs_f16_symmetric.finish(*sums, len(block), d, s.h)], gpu_arrays.xp))
            sums = PartialSums(*(gpu_arrays.xp.concatenate(of_parts) for of_parts in zip(*parts, strict=True)))
            check_symmetric(s, sums, "one-term" if not split else "exact" if exact_sums else "split")


def f16_symmetric_values(launches: Launches) -> None:
    """Values by self-interaction (Y = X)."""
    for d, k, dtype in itertools.product(SYMMETRIC.values(), (7, 30), ("float32", "float64")):
        s = sample(d, dtype=dtype, itself=True)
        on = Device(s, "values", k)
        operand, _ = operands.prepare(on.X, None, on.centre, s.h, split=True, symmetric=True)
        V = pairs_values.contiguous(on.values)
        for of in pairs_f16_symmetric.every_layout(operands.depth_of(d), 3, pairs_values.columns_of(k)):
            S, T = pairs_f16_symmetric.launch(operand, pairs_values.prepare(V), tiling=of)
            check(s, "values", pairs_f16_symmetric.finish_values(V, S, T), _ALLOWED["float32"], k)


def wide(launches: Launches) -> None:
    """Many dimensions, in every layout; with weights, at queries, and at the data for moments themselves or a ratio."""
    cases = ((True, False, False), (False, False, False), (False, True, False), (False, True, True))
    for (d, dtype), terms, output in itertools.product(MANY.items(), (1, 2), OUTPUTS):
        for (weighted, itself, ratio), k in itertools.product(cases, (7, 65) if output == "values" else (1,)):
            if (weighted and output == "values") or (ratio and output != "moments"):
                continue
            s = sample(d, weighted, dtype, itself)
            for of in pairs_wide.every_layout(pairs_wide.task(output, terms, of_themselves=ratio)):
                sums = Device(s, output, k).sums_in_layout(of, terms, ratio)
                if ratio:
                    check_symmetric(s, sums, "one-term" if terms == 1 else "split")
                else:
                    check(s, output, sums, _ALLOWED["tf32" if terms == 1 else "float32"], k)


def _density(on: Device, output: Output, dtype: np.dtype) -> Density:
    m = len(on.X if on.Y is None else on.Y)
    return Density(gpu_arrays.xp.empty(m, dtype), 0.0, False, "kde" if output == "sum" else "laplace")


def centred(launches: Launches) -> None:
    """Blocks with centres of their own: sums at queries, mean shifts of the data for a ratio, and densities."""
    cases: tuple[tuple[Output, bool], ...] = ("sum", False), ("laplace", False), ("moments", False), ("moments", True)
    dtypes = np.dtype(np.float32), np.dtype(np.float64)
    for d, dtype, (output, ratio) in itertools.product((2, 20, 40, 64), dtypes, cases):
        s = sample(d, not ratio, dtype, ratio)
        on = Device(s, output, 1)
        of = on.arguments(Options("float32", on.log_weights))
        sums = pairs_centred.take(of, output, ratio=ratio)
        if ratio:
            check_symmetric(s, sums, "one-term")
            continue
        check(s, output, sums, _ALLOWED["float32"], 1)
        if output != "moments":
            pairs_centred.take(of, output, density=_density(on, output, dtype))


def centred_f64(launches: Launches) -> None:
    """The same in float64: sums at queries and at the data, a datum far from the others among them, and densities."""
    outputs: tuple[Output, ...] = "sum", "laplace", "moments"
    dtypes = np.dtype(np.float32), np.dtype(np.float64)
    for (d, output), itself in itertools.product(itertools.product(DOUBLE.values(), outputs), (False, True)):
        s = sample(d, not itself, "float64", itself)
        s.X[0] += 1000 * s.h  # by differences
        on = Device(s, output, 1)
        of = on.arguments(Options("float64", on.log_weights))
        check(s, output, pairs_centred.take(of, output), _ALLOWED["float64"], 1)
        if output != "moments":
            for dtype in dtypes:
                pairs_centred.take(of, output, density=_density(on, output, dtype))


def near_pairs(launches: Launches) -> None:
    """Passes that leave out pairs, of all widths: sums, and mean shifts that take each pair once and that do not."""
    cases: tuple[tuple[Output, bool, bool, bool], ...] = (
        *((output, itself, False, False) for output in ("sum", "moments", "laplace") for itself in (False, True)),
        ("moments", True, True, False),
        ("sum", False, False, True),  # a datum far from the others leaves pairs to kernels for wide blocks
    )
    dtypes = ("float32", "float64")
    for d, precision, dtype in itertools.product((2, 3, 4, 5, 8, 16, 32, 64, 128), dtypes, dtypes):
        for output, itself, ratio, far in cases:
            if not plan_gpu.skipping_serves(output, precision, d, core_device.capability()):
                continue
            s = sample(d, False, dtype, itself)
            if far:
                s.X[0] += 1000 * s.h
            on = Device(s, output, 1)
            frame = near_frame.frame(near_frame.sample(on.X))
            tolerance = plan_shape.TOLERANCE[precision]
            prepared = near_plan.prepare(on.X, on.Y, s.h, output, Options(precision), frame, tolerance, ratio=ratio)
            sums = near_passes.run(prepared)
            if ratio and precision == "float32":
                check_once(s, sums)
                continue
            check(s, output, sums, _ALLOWED[precision] + tolerance, 1)


def near_columns(launches: Launches) -> None:
    """Sums of values that leave out pairs, of both signs, at other points and at the data."""
    for d, precision, (k, itself) in itertools.product(
        (2, 5, 8, 32, 64), ("float32", "float64"), ((1, True), (3, False))
    ):
        s = sample(d, False, precision, itself)
        on = Device(s, "values", k)
        frame = near_frame.frame(near_frame.sample(on.X))
        tolerance = plan_shape.TOLERANCE[precision]
        columns = near_values.columns_of(on.values)
        prepared = near_values.prepare(on.X, on.Y, on.values, s.h, Options(precision), frame, tolerance, columns)
        sums = _on_host(near_values.run(prepared))
        total, size = reference.kernel_sum(s.X, s.V[:, :k], s.Y, s.h)
        error = np.abs(np.exp(sums.reference)[:, None] * sums.moments - total)
        tolerances.check(error, (_ALLOWED[precision] + tolerance) * size, "values")


def other_kernels(launches: Launches) -> None:
    """Every kernel beside the Gaussian, with weights and without, the data whole and in splits."""
    for kernel, dtype, weighted, n in itertools.product(
        KERNELS, ("float32", "float64"), (False, True), (N, ROWS_OF_SPLITS)
    ):
        check_other_kernel(kernel, sample(5, weighted, dtype, n=n), 4.0)


def near_blocks(launches: Launches) -> None:
    """Kernels beside the Gaussian over the blocks that matter to queries, in one part of the data and in several."""
    with mock.patch.object(near_blocks_of_points, "_BLOCKS_OF_SPLIT", 2), only("radial skipping"):
        for kernel, dtype, (d, n), weighted in itertools.product(
            KERNELS, ("float32", "float64"), ((1, N), (2, ROWS_OF_SPLITS), (5, N), (17, N)), (False, True)
        ):
            bandwidths = 0.05 if kernel == "exponential" else 1.5 if d < 3 else 4.0
            check_other_kernel(kernel, sample(d, weighted, dtype, n=n), bandwidths)


def check_other_kernel(kernel: Kernel, s: Sample, bandwidths: float) -> None:
    """Check a density by a kernel beside the Gaussian, of so many of the sample's bandwidths."""
    h, dtype = bandwidths * s.h, str(s.X.dtype)
    w = None if s.w is None else gpu_arrays.asarray(s.w)
    got = kernel_density(*map(gpu_arrays.asarray, (s.X, s.Y)), h, kernel=kernel, weights=w)
    want, size = reference.kernel_density(s.X, s.Y, h, kernel, s.w)
    allowed = tolerances.KERNEL_DENSITY[dtype].value * want + tolerances.KERNEL_DENSITY_OF_SIZE.value * size
    tolerances.check(np.abs(gpu_arrays.asnumpy(got) - want), allowed, f"density by {kernel}")


def factors_of_points(launches: Launches) -> None:
    """Densities and scores with a factor of the bandwidth for each point, of every arithmetic and storage."""
    for (dtype, precision), n in itertools.product(
        (("float32", "float32"), ("float64", "float32"), ("float64", "float64")), (N, ROWS_OF_SPLITS)
    ):
        s = sample(5, dtype=dtype, n=n)
        factors = 3.0 ** np.random.default_rng(n).uniform(-1, 1, n)
        arrays = [gpu_arrays.asarray(a) for a in (s.X, s.Y)]
        options = {"local_factors": gpu_arrays.asarray(factors), "precision": precision}
        got = cukde.kde(*arrays, s.h, log=True, **options)
        want = reference.local(s.X, s.Y, s.h, factors)
        base = _ALLOWED["ieee" if precision == "float32" else precision]
        allowed = base + np.finfo(dtype).eps * np.abs(want.log)
        tolerances.check(np.abs(gpu_arrays.asnumpy(got) - want.log), allowed, "density with factors")
        error = np.linalg.norm(gpu_arrays.asnumpy(cukde.score(*arrays, s.h, **options)) - want.score, axis=1)
        relative = base + np.finfo(dtype).eps
        tolerances.check(s.h * error, relative * np.maximum(1, want.steepness), "score with factors")


def products_of_columns(launches: Launches) -> None:
    """Domains of all kinds of columns by products, the data whole and in splits; of moments, two groups of columns."""
    bounds = [(0.0, 1.0), None, (0.0, None), None, (None, 1.0), (0.0, 1.0), None, None, None]
    periods = [None, 1.1, None, None, None, None, 1.2, None, None]
    h = np.array([0.2, 0.4, 0.3, 0.2, 0.7, 2.0, 0.1, 0.3, 0.3])
    for n, weighted in itertools.product((N, ROWS_OF_SPLITS), (False, True)):
        rng = np.random.default_rng(n)
        X, Y, w = rng.random((n, 9)), rng.random((M, 9)), rng.random(n) if weighted else None
        want = reference.in_domain(X, Y, h, bounds, periods, w)
        domain = domain_of(bounds, periods, 9)
        assert domain is not None
        log_weights = None if w is None else gpu_arrays.asarray(np.log(w / w.sum()))
        constant = reference.log_constant(h, 9) - (np.log(n) if w is None else 0)
        points = [domain.anchored(gpu_arrays.asarray(a), gpu_arrays.xp) for a in (X, Y)]
        outputs: tuple[Output, ...] = ("sum", "moments", "laplace")
        for output in outputs:
            sums = domains_gpu.product_sums(*points, h, domain, output, log_weights=log_weights, unlike=80.0)
            log_total = gpu_arrays.asnumpy(sums.reference + gpu_arrays.xp.log(sums.total)) + constant
            tolerances.check(abs(log_total - want.log), np.full(M, 1e-11), f"products, {output}")
            if output == "sum":
                continue
            ratio = gpu_arrays.asnumpy(sums.moments / sums.total[:, None])
            if output == "moments":
                tolerances.check(abs(ratio / h**2 - want.score), np.full((M, 1), 1e-10), "their score")
            else:
                tolerances.check(abs(ratio[:, 0] / want.laplace - 1), np.full(M, 1e-11), "their Laplace sum")


def stacks(launches: Launches) -> None:
    """Members with data, queries, bandwidths and weights of their own, of one tile and of several."""
    for d, (dtype, precision), output in itertools.product(
        (3, 20), (("float32", "float32"), ("float64", "float32"), ("float64", "float64")), OUTPUTS[:3]
    ):
        members = [sample(d, True, dtype, n=n) for n in (N, N + 1)]
        rows = min(len(s.X) for s in members)
        X, Y = (np.stack(of) for of in (([s.X[:rows] for s in members]), [s.Y for s in members]))
        h = np.array([s.h * factor for s, factor in zip(members, (1.0, 1.5), strict=True)])
        w = np.random.default_rng(d).uniform(0, 1, (2, rows))
        got = of_stack(output, *map(gpu_arrays.asarray, (X, Y)), h, gpu_arrays.asarray(w), precision)
        for i in range(2):
            check_stack(output, gpu_arrays.asnumpy(got[i]), (X[i], Y[i], h[i], w[i]), _ALLOWED[precision])


def of_stack(output: Output, X: Any, Y: Any, h: Any, w: Any, precision: str) -> Any:
    """What a public function makes of an output."""
    if output == "moments":
        return cukde.score(X, Y, h, weights=w, precision=precision)
    function = cukde.kde if output == "sum" else cukde.laplace_kde
    return function(X, Y, h, weights=w, precision=precision)


def check_stack(output: Output, got: np.ndarray, of: tuple[Any, ...], allowed: float) -> None:
    """Compare a member with float64."""
    near, h = reference.nearness(*of), of[2]
    error = np.maximum(allowed, np.finfo(got.dtype).eps) * np.ones(len(got))
    if output == "moments":
        tolerances.check(np.linalg.norm(got - reference.score(*of), axis=1) * h, error * near.reach, "score")
    elif output == "sum":
        tolerances.check(np.abs(got / reference.kde(*of) - 1), error, "density")
    else:
        value, size = reference.laplace(*of)
        tolerances.check(np.abs(got - value), error * size, "Laplace-corrected density")


def leave_one_out(launches: Launches) -> None:
    """Of few bandwidths and of several passes, of one chunk of dimensions and of more."""
    for d, dtype, weighted, bandwidths in itertools.product((3, 20), ("float32", "float64"), (False, True), (2, 27)):
        s = sample(d, weighted, dtype, n=ROWS_OF_SPLITS)
        scales = np.geomspace(0.1, 1, bandwidths) / (2 * s.h**2)
        X, w = (s.X, None) if s.w is None else (s.X[s.w > 0], s.w[s.w > 0] / s.w.sum())
        got, _ = bandwidth_leave_one_out.symmetric(
            gpu_arrays.asarray(X), scales, None if w is None else gpu_arrays.asarray(w)
        )
        for scale, logs in zip(scales, gpu_arrays.asnumpy(got), strict=True):
            want = reference.leave_one_out(X.astype(np.float64), scale, w)
            check_log(logs, want.log, tolerances.leave_one_out_error("gpu", dtype, want), "leave-one-out sum")


def cross_validation(launches: Launches) -> None:
    """Sums over the other rows and over pairs of rows, and their gradients, with weights and without."""
    coefficients = np.array([1.5, -0.7, 0.06, -1.0, 0.3])
    for dtype, weighted, d in itertools.product(("float32", "float64"), (False, True), (5, 20)):
        s = sample(d, dtype=dtype)
        exact, scale = s.X.astype(np.float64), 1 / (2 * s.h**2)
        w = np.arange(1.0, N + 1) / (N * (N + 1) / 2) if weighted else None
        shift = reference.mean_shift(exact, scale, w)
        X, weights, *on_device = [None if a is None else gpu_arrays.asarray(a) for a in (s.X, w, *shift)]
        passes = bandwidth_passes
        alone, moved = reference.leave_one_out(exact, scale, w), reference.debiased_leave_one_out(exact, scale, w)
        unsettled = gpu_arrays.asarray(np.ones((1, N), bool))
        logs = passes.settle(X, np.array([scale]), weights, gpu_arrays.asarray(np.zeros((1, N))), unsettled)
        for got, want in ((logs[0], alone), (passes.debiased_leave_one_out(X, *on_device, scale, weights), moved)):
            check_log(gpu_arrays.asnumpy(got), want.log, tolerances.leave_one_out_error("gpu", dtype, want))
        allowed = _ALLOWED["ieee" if dtype == "float32" else dtype]
        sums = reference.least_squares(exact, scale, coefficients, w)
        got = passes.least_squares(X, np.full(5, scale), np.tile(coefficients, (5, 1)), weights)
        tolerances.check(np.abs(got - sums.value), np.full((), allowed * sums.size), "sum over pairs")
        got = passes.least_squares_gradient(X, scale, coefficients, weights)
        tolerances.check(np.abs(got - sums.by_dimension), allowed * sums.size_by_dimension, "gradient")
        got = passes.likelihood_gradient(X, scale, logs[0], weights)
        relative = functools.partial(np.full_like, fill_value=2 * allowed)
        gradient, off = reference.likelihood_gradient(exact, scale, alone.log, w, relative)
        tolerances.check(np.abs(got - gradient), off, "gradient")


def one_dimension(launches: Launches) -> None:
    """Fast Gauss transform and sums over pairs, of every output; whole calls for what ends in a density or a shift."""
    kinds = (("float32", "float32"), ("float32", "float64"), ("float64", "float64"))
    ways = (("line",), ())
    for way, (precision, dtype), output, weighted in itertools.product(ways, kinds, OUTPUTS, (False, True)):
        # The transform's kernels do not differ by the weights.
        if way and weighted != (output in ("moments", "values")):
            continue
        s = sample(1, weighted and output != "values", dtype)
        on = Device(s, output, 3)
        log_weights = gpu_arrays.asarray(np.zeros(N)) if weighted and output == "values" else on.log_weights
        with only(*way):
            sums = one_dimension_passes.partial_sums(
                on.X, on.Y, s.h, output, Options(precision, log_weights=log_weights), values=on.values
            )
        check(s, output, sums, _ALLOWED_1D[bool(way), precision], 3)
    for way, (precision, dtype) in itertools.product((*ways, ("small",)), (*kinds, ("float64", "float32"))):
        s = sample(1, dtype=dtype)
        on = Device(s, "sum", 1)
        with only(*way):
            for call, exact, allowed in (
                (cukde.kde, reference.kde, _ALLOWED_1D["line" in way, precision]),
                (cukde.sd_kde, reference.sd_kde, SD_DENSITY[precision].value),
            ):
                got = gpu_arrays.asnumpy(call(on.X, on.Y, s.h, precision=precision))
                want = np.log(exact(s.X, s.Y, s.h))
                tolerances.check_density(got, want, np.full(M, allowed))


def one_dimension_of_few_boxes(launches: Launches) -> None:
    """Clusters far apart, whose occupied boxes are listed; and boxes of so few points that no expansion pays."""
    rng = np.random.default_rng(0)
    X = (1e6 * rng.integers(4, size=N) + rng.standard_normal(N)).astype(np.float64)
    Y = np.concatenate((X[: M - 2] + 0.3, [5e5, -1e7]))
    for few_boxes, points_per_box in ((N, 8), (10, N)):
        with (
            only("line"),
            mock.patch.multiple(one_dimension_plan, FEW_BOXES=few_boxes, POINTS_PER_BOX=points_per_box),
        ):
            got = gpu_arrays.asnumpy(cukde.kde(gpu_arrays.asarray(X), gpu_arrays.asarray(Y), 0.5, log=True))
        exponent = reference.nearness(X, Y, 0.5).exponent
        check_log(got, reference.log_kde(X, Y, 0.5), tolerances.log_error("gpu", "float64", exponent))


def distribution_functions(launches: Launches) -> None:
    """By the transform, with weights and without; a query far to the left among the others."""
    for (precision, dtype), weighted in itertools.product(
        (("float32", "float32"), ("float32", "float64"), ("float64", "float64")), (False, True)
    ):
        s = sample(1, weighted, dtype, n=N // 2)  # in Numba's simulator each point takes a while
        Y = np.concatenate((s.Y[:-1:2], s.X.min(axis=0, keepdims=True) - 30 * s.h)).astype(dtype)
        with only("line"):
            got = cukde.log_cdf(
                gpu_arrays.asarray(s.X),
                gpu_arrays.asarray(Y),
                s.h,
                weights=None if s.w is None else gpu_arrays.asarray(s.w),
                precision=precision,
            )
        below, above = reference.log_distribution(s.X, Y, s.h, s.w)
        want = np.where(below < -math.log(2), below, np.log1p(-np.exp(np.minimum(above, -math.log(2)))))
        check_log(gpu_arrays.asnumpy(got), want, np.full(len(want), _ALLOWED_1D[True, precision]))


def plane_to_a_tolerance(launches: Launches) -> None:
    """Transforms of two and three columns, with weights and without, of cells of many points and of few."""
    rng = np.random.default_rng(0)
    for d, weighted, dtype in itertools.product(plane_plan.COLUMNS, (False, True), ("float32", "float64")):
        X = np.concatenate([0.1 * rng.standard_normal((N // 2, d)), 2 + rng.standard_normal((N // 2, d))])
        Y = np.concatenate([X[: M - 2], np.array([[50.0, 0.0, 0.0], [-1.0, 30.0, 0.0]])[:, :d]])
        w = np.arange(1.0, N + 1) if weighted else None
        X, Y = X.astype(dtype), Y.astype(dtype)
        data, queries, weights = (None if a is None else gpu_arrays.asarray(a) for a in (X, Y, w))
        extent = plane_cells.Extent.of(data)
        ends = np.stack((X.min(axis=0), X.max(axis=0))).astype(np.float64)
        tolerances.check(np.abs(extent.whole - ends), np.zeros(()), "extremes")

        def laid(X: Any, options: Options, plan: Any, shape: Any, ends: np.ndarray = ends) -> Any:
            return plane_choice.Chosen(plane_cells.grid(ends, plan), of_all=True)

        with only("plane"), mock.patch.object(plane_choice, "chosen", laid):
            log_p = gpu_arrays.asnumpy(cukde.kde(data, queries, 0.8, weights=weights, rtol=1e-5, log=True))
            score = gpu_arrays.asnumpy(cukde.score(data, queries, 0.8, weights=weights, rtol=1e-5))
        near = reference.nearness(X, Y, 0.8, w)
        allowed = tolerances.log_error("gpu", dtype, near.exponent) + 1.1e-5
        check_log(log_p, reference.log_kde(X, Y, 0.8, w), allowed)
        error = 0.8 * np.linalg.norm(score - reference.score(X, Y, 0.8, w), axis=1)
        tolerances.check_score(error, allowed + 1.5e-5, near.reach)


def values_in_two_terms(launches: Launches) -> None:
    """Operands of values, whose terms add up to them."""
    for k, dtype in itertools.product(VALUES, ("float32", "float64")):
        V = sample(3, dtype=dtype).V[:, :k]
        values = pairs_values.prepare(gpu_arrays.asarray(V))
        hi, lo = (in_order(as_float(gpu_arrays.asnumpy(term)))[:N, :k] for term in values)
        tolerances.check(np.abs(hi + lo - V), 2.0**-17 * np.abs(V), "values in two terms")


def ranks_of_columns(launches: Launches) -> None:
    """Of every type and in every size of tile, of few values, and of several tiles."""
    rng = np.random.default_rng(0)
    for n, dtype in itertools.product(SORTED, ("float64", "float32", "float16", "int8")):
        columns = rng.integers(-60, 60, (2, n)).astype(dtype)
        check_ranks(columns, kendall_ranks.ranks(gpu_arrays.asarray(columns)))


def keys_in_order(launches: Launches) -> None:
    """Keys of four bytes with their positions, of few values, in every size of tile and in several tiles."""
    for n in SORTED:
        keys = np.random.default_rng(0).integers(60, size=n).astype(np.uint32)
        _, order = merge_sort.in_order(gpu_arrays.asarray(keys))
        check_order(keys, order)


def counts_of_pairs(launches: Launches) -> None:
    """By rows and by rows that are named, of permutations and of few values."""
    rng = np.random.default_rng(0)
    for n in SORTED:
        x = np.stack([rng.permutation(n), np.zeros(n), np.arange(n)]).astype(np.uint32)
        y = n - 1 - x  # reversed: all pairs that are not tied are discordant
        rows = gpu_arrays.asarray(np.array([2, 0, 1]))
        for named in ((), (rows, rows)):
            got = inversions.counts(gpu_arrays.asarray(x), gpu_arrays.asarray(y), *named)
            check_reversed(
                n, [gpu_arrays.asnumpy(a).sum() for a in (got.discordant, got.concordant, got.x.pairs, got.y.pairs)]
            )


def sign_products(launches: Launches) -> None:
    """Both kinds of signs, both tiles, rows with ties and without; several launches and parts."""
    for bits, rows, ties in itertools.product((False, True), (70, 150), TIES.values()):
        x = ranks(rows, 100, ties(rows))
        with (
            mock.patch.object(kendall_sign_products, "in_bits", return_value=bits),
            mock.patch.multiple(sign_tiles, _PLANE_BYTES=2**16, _FEWEST_SLABS=16),
        ):
            got = kendall_sign_products.products(gpu_arrays.asarray(x), None, x.shape[1], has_ties(x), None)
        for sums, want in zip(got, by_brute_force(x, x), strict=True):
            tolerances.check(np.abs(gpu_arrays.asnumpy(sums) - want), np.zeros(()), "counts of pairs")


def kendall_statistics(launches: Launches) -> None:
    """Of pairs and of matrices, with p-values and without, more of them than a block has threads; exact and normal."""
    rng = np.random.default_rng(0)
    for n, variant, ties in itertools.product((20, 50), VARIANTS, (False, True)):
        A, B = rng.standard_normal((n, 20)), (rng.integers(5, size=(n, 15)) if ties else rng.standard_normal((n, 15)))
        null = Null("auto", "less")
        for counts, got in (
            (
                kendall_cpu.matrix(A, B, deletion=False),
                kendall_gpu.matrix(*map(gpu_arrays.asarray, (A, B)), deletion=False),
            ),
            (
                kendall_cpu.pairs(A.T[:15], B.T),
                kendall_gpu.pairs(*map(gpu_arrays.asarray, (A.T[:15], B.T))),
            ),
        ):
            want = statistics.statistics(counts, variant, null, 0)
            for result, expected in zip(kendall_gpu.statistics(got, variant, null, 0), want, strict=True):
                tolerances.check(np.abs(gpu_arrays.asnumpy(result) - expected), np.full((), 1e-12), "tau and p")
            tau, none = kendall_gpu.statistics(got, variant, None, n + 1)
            assert none is None
            assert np.isnan(gpu_arrays.asnumpy(tau)).all()


def kendall_comparisons(launches: Launches) -> None:
    """A block for a pair and several, tiles that are shared and one after another; keys of both widths, and NaN."""
    rng = np.random.default_rng(0)
    null = Null("auto", "greater")
    for n, dtype in itertools.product((0, 50, 300, 2100), ("float32", "float64", "int8")):
        A, B = (rng.integers(-9, 9, (n, columns)).astype(dtype) for columns in (3, 2))
        if dtype == "float64":
            A[::7, 1] = np.nan
        a, b = map(gpu_arrays.asarray, (A, B))
        for pairing, axis, x, y, counts in (
            ("upper", 0, a, a, kendall_cpu.matrix(A, None, deletion=True)),
            ("all", 0, a, b, kendall_cpu.matrix(A, B, deletion=True)),
            ("alike", 1, a.T[:2], b.T, kendall_cpu.pairs(A.T[:2], B.T)),
        ):
            got = kendall_gpu.statistics_of_few(x, y, pairing, axis, "b", null, 0)
            for result, expected in zip(got, statistics.statistics(counts, "b", null, 0), strict=True):
                found = gpu_arrays.asnumpy(result)
                difference = np.where(np.isnan(expected), ~np.isnan(found), found - expected)
                tolerances.check(np.abs(difference), np.full((), 1e-12), "tau and p")


def piecewise_polynomials(launches: Launches) -> None:
    """Every search, in tables in shared memory and too large for it; degrees with kernels of their own and others."""
    kinds = itertools.product(("uniform", "guide", "tree"), ("float16", "float32", "float64"), (3, 8000), (2, 3, 4, 9))
    for search, dtype, m, k in kinds:
        if search == "guide" and (dtype == "float64" or m > 3):
            continue  # a tree
        knots = knots_of("whole", m, dtype)
        x = np.random.default_rng(0).uniform(-5, 7, 20_003).astype(dtype)
        with (
            mock.patch.object(piecewise_passes, "_is_uniform", return_value=True),
            mock.patch.object(piecewise_plan, "CELLS_A_PIECE", (1,)),
            only(search),
        ):
            for columns, mode in ((1, "clamp"), (1, "periodic"), (3, False)):
                pieces = Pieces(coefficients_of(k, m, columns, dtype), knots, True)
                prepared = piecewise_passes.prepare(pieces, dtype)
                got = gpu_arrays.asnumpy(piecewise_passes.evaluate(prepared, gpu_arrays.asarray(x), mode)).reshape(
                    -1, columns
                )
                want, size = values_of_pieces(pieces, x, mode)
                inside = np.isfinite(want)
                error = np.abs(got[inside].astype(np.float64) - want[inside])
                tolerances.check(error, allowed_of_pieces(pieces, x.dtype, want, size)[inside], "piecewise polynomial")


def infinite_points(launches: Launches) -> None:
    """Limits, for which a kernel reads the coefficients once more."""
    for dtype, k, columns in itertools.product(("float16", "float32", "float64"), (4, 9), (1, 3)):
        c = coefficients_of(k, 3, columns, dtype)
        c[: k - 1] = 0
        x = gpu_arrays.asarray(np.tile(np.array([np.inf, 0.5, -np.inf], dtype), 5001))
        prepared = piecewise_passes.prepare(Pieces(c, knots_of("whole", 3, dtype), True), dtype)
        got = gpu_arrays.asnumpy(piecewise_passes.evaluate(prepared, x, True)).reshape(-1, columns)
        for point, piece in ((0, -1), (2, 0)):
            tolerances.check(np.abs(got[point] - c[-1, piece]), 1e-3 * np.abs(c[-1, piece]), "a limit")


def reduced_arguments(launches: Launches) -> None:
    """exp and log."""
    for name, dtype in itertools.product(("exp", "log"), ("float16", "float32", "float64")):
        p = cukde.functions.polynomial(name)
        with mock.patch.object(piecewise_passes, "_is_uniform", return_value=True):
            prepared = piecewise_passes.prepare(Pieces(p.c[..., None], p.x, True, name), dtype)
        x = np.random.default_rng(0).uniform(0.01, 9, 20_003).astype(dtype)
        got, want = (
            gpu_arrays.asnumpy(piecewise_passes.evaluate(prepared, gpu_arrays.asarray(x), True)),
            getattr(np, name)(x),
        )
        tolerances.check(np.abs(got - want), 1e-3 * np.maximum(1, np.abs(want)), name)


def lookups(launches: Launches) -> None:
    """All float16 numbers from a table."""
    pieces = Pieces(coefficients_of(6, 9, 1, "float16"), knots_of("whole", 9, "float16"), True)
    x = gpu_arrays.asarray(np.arange(2**16 + 3).astype(np.uint16).view(np.float16))
    prepared = piecewise_passes.prepare(pieces, "float16")
    want = gpu_arrays.asnumpy(piecewise_passes.evaluate(prepared, x, "clamp"))
    with mock.patch.object(piecewise_plan, "FEWEST_LOOKUPS", 0):
        for part in (slice(None), slice(3, None)):
            got = gpu_arrays.asnumpy(piecewise_passes.evaluate(prepared, x[part], "clamp"))
            numbers = ~np.isnan(want[part])
            tolerances.check(np.abs(got - want[part])[numbers], 0.0, "a value that is looked up")


def conv1d_weight_gradients(launches: Launches) -> None:
    """Both layouts, strides, short rows and ragged ones, with taps of every class of blocks."""
    for dtype, taps in itertools.product(weight_grad_cases.DTYPES, (4, 16, 31)):
        geometries = [weight_grad_cases.geometry(600, taps, last=last) for last in (False, True)]
        short = (weight_grad_cases.geometry(length, taps, batch=45) for length in (61, 64))
        others = weight_grad_cases.geometry(603, taps), weight_grad_cases.geometry(90, taps, stride=2)
        for of in (*geometries, *short, *others):
            x, dy = weight_grad_cases.arrays(of, dtype)
            got = weight_grad.weight_grad(gpu_arrays.asarray(x), gpu_arrays.asarray(dy), of, True)
            weight_grad_cases.check(*map(gpu_arrays.asnumpy, got), x, dy, of)


def depthwise_convolutions(launches: Launches) -> None:
    """Along rows, of few taps and of more than are staged at once, short ones, along positions, strided."""
    geometry = conv1d_cases.geometry
    shapes = (
        *(geometry(2, 3, 2100, taps) for taps in (3, 4, 31, 300)),
        *(geometry(5, 5, length, taps, before=1) for taps in (2, 3, 4) for length in (8, 40, 304, 600, 3000)),
        *(geometry(2, 3, 2047, taps, before=taps // 2, after=taps - 1 - taps // 2) for taps in (4, 31)),
        *(geometry(2, channels, 70, taps, last=True) for channels in (8, 9, 300) for taps in (4, 37)),
        *(geometry(37, 3, length, taps) for length in (61, 64) for taps in (6, 64)),
        *(geometry(3, 40, 61, 5, stride=3, dilation=2, last=last) for last in (False, True)),
    )
    for dtype, g in itertools.product(("float16", "float32", "float64"), shapes):
        x, w, bias = conv1d_cases.sample(g, g.length, dtype)
        got = gpu_arrays.asnumpy(direct.forward(*map(gpu_arrays.asarray, (x, w, bias)), g, "gelu"))
        check_conv1d(got, conv1d_cases.activated(conv1d_cases.expected(x, w, bias, g), "gelu"), g, g.taps)
        dy = conv1d_cases.sample(g, g.outputs, dtype)[0]
        got = gpu_arrays.asnumpy(direct.input_grad(gpu_arrays.asarray(dy), gpu_arrays.asarray(w), g))
        check_conv1d(got, conv1d_cases.expected_grad(dy, w, g), g, g.taps)


def toeplitz_convolutions(launches: Launches) -> None:
    """Few taps and many, in several chunks, rows that begin anywhere, and what tensor cores cannot sum."""
    sizes = itertools.product(("float16", "float32"), (5, 40, 900), (77, 2100), (False, True))
    for dtype, taps, length, newer in sizes:
        g = toeplitz_cases.geometry_of(2, 3, length, taps, taps // 2, taps)
        x, w = toeplitz_cases.numbers(dtype, 2, 3, length), toeplitz_cases.numbers(dtype, 3, taps)
        x[0, 0, 50], x[0, 1, 9] = np.inf, 1e-7
        with mock.patch.object(conv1d_toeplitz, "_newer", return_value=newer):
            got = gpu_arrays.asnumpy(
                conv1d_toeplitz.forward(gpu_arrays.asarray(x), gpu_arrays.asarray(w), None, g, None)
            )
        want, size = conv1d_cases.expected(x, w, None, g)
        finite = np.isfinite(want)
        relative, absolute = toeplitz_cases.ROUNDING[dtype]
        allowed = toeplitz_cases.SUMS[dtype] * size + relative * np.abs(want) + absolute
        tolerances.check(np.abs(got[finite].astype(np.float64) - want[finite]), allowed[finite], "convolution")


def waiting(launches: Launches) -> None:
    """No time and some."""
    for milliseconds in (0.0, 0.1):
        check_wait(_wait_gpu.wait(milliseconds), milliseconds)


def check_wait(waited: Any, milliseconds: float) -> None:
    """As long as asked for, or longer."""
    assert int(waited[0]) >= 1e6 * milliseconds


def peaks(launches: Launches) -> None:
    """What peaks are measured by."""
    chains = map(peak_results.of_chains, get_args(_loads_gpu.Chained))
    products = map(peak_results.of_products, get_args(_loads_gpu.Product))
    for got, want, allowed in itertools.chain(*chains, *products, peak_results.of_reads()):
        tolerances.check(np.abs(got - want), np.full((), allowed), "peaks")


PASSES = [run for run in globals().values() if getattr(run, "__annotations__", {}).get("launches") == "Launches"]
"""In the order of this file: what calls ask for comes before what they did not choose."""


if __name__ == "__main__":
    main()
