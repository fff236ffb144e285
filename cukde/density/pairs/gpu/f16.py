"""All pairs of queries and data on the tensor cores, in float16 terms: the launcher of ``f16.cuh``."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile, device, survey
from cukde.core.gpu.launch import C_TYPE, FLOAT, Specialisation, begin
from cukde.core.gpu.scratch import Layout, Spec
from cukde.density.kept import Kept, kept
from cukde.density.pairs.gpu import (
    difference,
    finish as pairs_finish,
    operands as pairs_operands,
    splits as pairs_splits,
    tiles as pairs_tiles,
    values as pairs_values,
)
from cukde.density.pairs.gpu.arguments import Arguments
from cukde.density.pairs.gpu.operands import Operand
from cukde.density.pairs.gpu.specialisation import OPERATION, TiledTask, shapes
from cukde.density.plan.gpu import Form
from cukde.density.sums import Epilogue, Output, PartialSums, moment_columns

# Sums without a reference that are smaller may have lost parts below float32's range, and are taken again.
LEAST = 2.0**-80

# Of 16 exponentials, how many the multiply-add pipe takes over from the special function unit, by products and depth:
# each takes the issue slots of eight others, and more products leave none.
SOFT_EXP = {(1, 16): 4, (1, 32): 2}

# Bits that kernels scale 2^e up by: to stay clear of underflow, and no more, since exponents are rounded with them; of
# moments, to be a normal float16 down to e = -27.
_SHIFT: dict[Output, float] = {"sum": 31, "moments": 13, "values": 0}

# Outputs that need no reference: where their totals are large enough, nothing that counts has underflowed.
OF_DENSITIES: tuple[Output, ...] = ("sum", "laplace")

SHARED_BYTES = 48 * 1024  # that a block may have


@dataclass(frozen=True)
class Task(TiledTask):
    """What a kernel of the engine is specialised for, beside its tile shape."""

    ENGINE: ClassVar[str] = "f16"

    output: Output
    products: int  # see Form
    depth: int  # columns of the operands
    columns: int = 0  # of a block of values
    moment_terms: int = 0  # of the operands of the moments or values
    has_reference: bool = False  # that follows the largest exponent
    weights_apart: bool = False
    soft_exp: int = 0

    def shared_bytes(self, tile: int) -> int:
        """Bytes of static shared memory of a block: two tiles of ``tile`` data rows."""
        row = (2 if self.products > 1 else 1) * (2 * self.depth + 16) + 4
        return 2 * (tile * (row + (2 * (2 * self.columns + 16) if self.output == "values" else 0)) + 64)


@functools.cache
def specialise(task: Task, shape: pairs_splits.Shape) -> Specialisation:
    """The kernel of a task in one of its shapes."""
    name = f"{OPERATION[task.output]}_{'f16x2' if task.products > 1 else 'f16'}"
    defines = core_compile.macros(
        KERNEL=name,
        OUTPUT=task.output.upper(),
        TERMS=task.products,
        DEPTH=task.depth,
        COLUMNS=task.columns,
        MOMENT_TERMS=task.moment_terms,
        HAS_REFERENCE=task.has_reference,
        WEIGHTS_APART=task.weights_apart,
        SOFT_EXP=task.soft_exp,
        WARPS=shape.warps,
        ROW_TILES=shape.row_tiles,
        TILE=shape.tile,
        BLOCKS=shape.blocks,
    )
    return Specialisation("density/pairs", name, defines, "13P 4q 2f")


def task(output: Output, products: int, depth: int, k: int, weighted: bool, *, of_themselves: bool = False) -> Task:
    """Pose the task of a pass: operands of ``depth`` columns, ``k`` values.

    ``of_themselves`` asks for the mean shift by self-interaction (Y = X) without weights, whose largest exponent is 0:
    that of a point with itself.
    """
    columns = pairs_values.columns_of(k) if output == "values" else 0
    moment_terms = 0
    if output == "moments":
        moment_terms = 1 if of_themselves or products == 1 else 2
    elif output == "values":
        moment_terms = 2
    soft_exp = SOFT_EXP.get((products, depth), 0) if output in OF_DENSITIES else 0
    has_reference = output in ("moments", "values") and not of_themselves
    weights_apart = output == "laplace" and weighted
    return _task(output, products, depth, columns, moment_terms, has_reference, weights_apart, soft_exp)


_task = functools.cache(Task)


def tasks() -> Iterator[Task]:
    """What the engine can be asked for."""
    for depth, output in itertools.product(range(16, pairs_operands.MOST_DIMENSIONS + 1, 16), OPERATION):
        choices = itertools.product((1, 3, 4), (True, False), pairs_values.COLUMNS, (True, False))
        for products, weighted, k, of_themselves in choices:
            if products == 4 and depth > 16:  # only small dimensions want four
                continue
            if of_themselves and (output != "moments" or weighted or products == 4):
                continue
            yield task(output, products, depth, k, weighted, of_themselves=of_themselves)


def take(of: Arguments, output: Output, values: Any | None, *, ratio: bool) -> PartialSums:
    """Take a pass."""
    return _take(of, output, values, None, None, ratio=ratio)


def take_density(of: Arguments, form: pairs_finish.DensityForm, points: Points | None, epilogue: Epilogue) -> Any:
    """Take a pass that ends in densities; ``points`` are operands that are there already."""
    out = cp.empty(of.m, epilogue.dtype)
    _take(of, pairs_finish.OUTPUT_OF[form], None, points, Density(out, epilogue.log_constant, epilogue.log, form))
    return out


def _take(
    of: Arguments,
    output: Output,
    values: Any | None,
    points: Points | None,
    density: Density | None,
    *,
    ratio: bool = False,
) -> PartialSums:
    arguments, more = (of.X, of.Y, of.h, output, values, of.options.log_weights), of.options
    return run(
        *arguments,
        form=of.form(output),
        centre=more.centre,
        ratio=ratio,
        points=points,
        density=density,
        store=more.kept,
    )


@core_compile.listed
def specialisations() -> Iterator[Specialisation]:
    """Every kernel of this module."""
    for kernel_task in tasks():
        yield from (specialise(kernel_task, shape) for shape in kernel_task.every_shape)
        yield _finish_kernel(kernel_task)
    for output, density in itertools.product(OF_DENSITIES, C_TYPE):
        yield _finish_kernel(task(output, 1, 16, 0, False), density)


@functools.cache
def _finish_kernel(kernel_task: Task, density: np.dtype | None = None) -> Specialisation:
    """The kernel that merges the splits of a task, perhaps to a density of a dtype."""
    defines = core_compile.macros(OUTPUT=kernel_task.output.upper(), COLUMNS=_columns(kernel_task))
    if density is None:
        return Specialisation("density/finish", "finish_f16", defines, "11P q 4i 2f d")
    defines += core_compile.macros(DENSITY=C_TYPE[density])
    return Specialisation("density/finish", "finish_f16", defines, "12P d i q 4i 2f d")


def _columns(kernel_task: Task) -> int:
    """Columns of the moments that a block leaves."""
    if kernel_task.output == "laplace":
        return 1
    return kernel_task.depth if kernel_task.output == "moments" else kernel_task.columns


class Points(NamedTuple):
    """Operands of data and queries, and the scaled squared radius on the device where the host is told of it later."""

    data: Operand
    queries: Operand
    squared_radius: Any | None = None  # (1,) float32


class Density(NamedTuple):
    """Epilogue of a pass: the density of its sums times exp(log_constant + reference), or its logarithm.

    The logarithm of a negative density is NaN.
    """

    out: Any  # (m,) float32 or float64
    log_constant: float
    log: bool
    form: pairs_finish.DensityForm = "kde"

    @property
    def arguments(self) -> tuple[Any, float, int]:
        """As the kernel takes it."""
        return self.out, self.log_constant, pairs_finish.wanted(self.form, log=self.log)


def prepare(
    X: Any,
    Y: Any | None,
    h: float,
    log_weights: Any,
    *,
    form: Form,
    centre: Any,
    weights_apart: bool = False,
    squared_radius: Any | None = None,
    memory: Sequence[Any] | None = None,
) -> Points:
    """Make the operands of a pass; ``squared_radius`` is raised to theirs, and ``memory`` are pieces for them."""
    data, queries = pairs_operands.prepare(
        X,
        Y,
        centre,
        h,
        split=form.split,
        exact_hi=form.exact_hi,
        log_weights=log_weights,
        weights_apart=weights_apart,
        squared_radius=squared_radius,
        memory=memory,
    )
    return Points(data, queries, squared_radius)


def _prepare_queries(
    X: Any,
    Y: Any,
    h: float,
    log_weights: Any,
    *,
    form: Form,
    centre: Any,
    weights_apart: bool,
    squared_radius: Any | None,
    memory: Sequence[Any],
    store: Kept,
) -> Points:
    """Make the operands of the queries, and of the data unless they are kept, which lie within the limit."""
    make = functools.partial(pairs_operands.prepare_one, centre=centre, h=h, split=form.split, exact_hi=form.exact_hi)
    data = kept(
        store,
        "operand",
        (X, centre, log_weights),
        ("f16", h, form.split, form.exact_hi, weights_apart),
        lambda: make(X, log_weights=log_weights, weights_apart=weights_apart),
    )
    return Points(data, make(Y, squared_radius=squared_radius, memory=memory), squared_radius)


class Passed(NamedTuple):
    """What the pass left for each split of the data."""

    references: Any | None  # (splits, m)
    total: Any  # (splits, m)
    moments: Any | None  # (blocks of columns, splits, m, columns)


class _Plan(NamedTuple):
    """What a pass of given sizes takes beside its arrays and its bandwidth."""

    task: Task
    cut: pairs_splits.Plan  # tile shape and splits
    kernel: Specialisation
    beside: tuple[Specialisation, ...]  # what is launched before and after it
    grid: tuple[int, ...]
    block: tuple[int, ...]
    finish: Specialisation
    finish_grid: tuple[int, ...]
    shift: float
    stands_in: bool  # the difference kernel, for queries
    layout: Layout  # operands, what the pass leaves, splits of the difference kernel, sums, centre; zero, the radius


class _Given(NamedTuple):
    """What a pass is given, or makes."""

    data: bool  # operands
    queries: bool
    centre: bool
    radius: bool  # nobody asks for the scaled squared radius, or it comes with the operands


@functools.lru_cache(maxsize=1024)
def _plan(
    output: Output,
    products: int,
    storage: np.dtype,
    n: int,
    m: int,
    d: int,
    k: int,
    weighted: bool,
    itself: bool,
    of_themselves: bool,
    given: _Given,
    density: np.dtype | None,
    multiprocessors: int,
    table: pairs_tiles.Table,
) -> _Plan:
    """Plan a pass.

    Parameters
    ----------
    storage : dtype
        Of the points.
    weighted : bool
        The data have weights.
    itself : bool
        The queries are the data.
    of_themselves : bool
        See :func:`task`.
    density : dtype, optional
        Of the density that is wanted in place of the sums.
    """
    depth = pairs_operands.depth_of(d)
    kernel_task = task(output, products, depth, k, weighted, of_themselves=of_themselves)
    columns, blocks = _columns(kernel_task), _blocks(kernel_task, k)
    cut = pairs_splits.plan(shapes(kernel_task, table), n, m, blocks * columns + 1, multiprocessors, blocks)
    # Sums without a reference may have underflowed.
    stands_in = output in OF_DENSITIES
    exact_parts, finish = 1, _finish_kernel(kernel_task, density)
    beside = [finish]
    if not given.queries:
        beside.append(pairs_operands.kernel(storage, depth))
    if not given.centre:
        beside.append(survey.kernel_of_mean(storage))
    if stands_in:
        beside.append(difference.specialise(output, "float32", storage, d, k).kernel)
        exact_parts = difference.parts("float32", storage, n, m, d, output, k, multiprocessors)
    operands: list[Spec | None] = []
    if given.data and not given.queries:
        operands = pairs_operands.specs(m, d, split=products > 1)
    elif not given.data:
        operands = pairs_operands.specs_of_both(
            n,
            None if itself else m,
            d,
            split=products > 1,
            weighted=weighted,
            weights_apart=kernel_task.weights_apart,
        )
    of_split = (cut.splits, m), FLOAT
    passed = [
        of_split if kernel_task.has_reference else None,
        of_split,
        ((blocks, cut.splits, m, columns), FLOAT) if columns else None,
    ]
    sums = [] if density is None else pairs_finish.specs(m, k)
    centre = [] if given.centre else survey.specs_of_mean(n, d, multiprocessors)
    return _Plan(
        kernel_task,
        cut,
        specialise(kernel_task, cut.shape),
        tuple(beside),
        (cut.query_blocks, cut.splits, blocks),
        (cut.shape.threads,),
        finish,
        pairs_finish.finish_grid(m),
        _shift(output, d),
        stands_in,
        Layout(
            [operands, passed, pairs_finish.specs(m, k, exact_parts), sums, centre],
            [None if given.radius else ((1,), FLOAT)],
        ),
    )


def _blocks(kernel_task: Task, k: int) -> int:
    """Blocks of columns of the values."""
    return -(-k // kernel_task.columns) if kernel_task.output == "values" else 1


def run(
    X: Any,
    Y: Any | None,
    h: float,
    output: Output,
    values: Any,
    log_weights: Any,
    *,
    form: Form,
    centre: Any,
    ratio: bool = False,
    points: Points | None = None,
    density: Density | None = None,
    store: Kept | None = None,
    report: Callable[[Any], None] | None = None,
) -> PartialSums:
    """Sum over all pairs.

    Parameters
    ----------
    X, Y : array, shape (n, d) and (m, d)
        Of one dtype; ``Y`` None are the data themselves.
    form : Form
        What :func:`form` chose: unless ``report`` is given, the scaled squared radius is within its limit.
    centre : array, optional
        Default the mean of the data.
    ratio : bool
        Of output "moments" only moments / total is wanted: by self-interaction (Y = X) without weights 2^e then is
        one float16 number, as in the symmetric pass, in moments and total alike.
    points : Points, optional
        The operands, where they have been made.
    density : Density, optional
        With output "sum" or "laplace", as its form wants: write the density there; then the sums that are returned
        are not complete.
    store : Kept, optional
        Keeps the operand of the data, which lie within the limit, where the queries are others.
    report : callable, optional
        Takes the largest |z|^2 as it stands in the device's memory, (1,) float32, once the operands are made: of the
        queries alone where those of the data are kept. Where that is beyond the limit, infinite or NaN, the results are
        void, and nothing takes long.

    Notes
    -----
    Queries whose sums may have underflowed are taken again by the difference kernel; that, too, is decided on the
    device. Launches: preparation of points and of values, pass, difference kernel where it may be needed, finish.
    """
    n, d = X.shape
    m = n if Y is None else Y.shape[0]
    k = moment_columns(output, d, values)
    of_themselves = ratio and output == "moments" and Y is None and log_weights is None
    if of_themselves and form.split:
        form = form._replace(products=3)  # as in the symmetric pass: 2^e keeps 11 bits, and the moments one term
    weighted, made = log_weights is not None, points is not None
    if made or Y is None:
        store = None
    given = _Given(made or store is not None, made, made or centre is not None, made or report is None)
    dtype = None if density is None else density.out.dtype
    of_device = device.multiprocessors(), pairs_tiles.table()
    arguments = X.dtype, n, m, d, k, weighted, Y is None, of_themselves, given, dtype, *of_device
    plan = _plan(output, form.products, *arguments)
    begin(plan.kernel, *plan.beside)
    operands, left, splits, sums, of_centre, (zero,) = plan.layout.allocate()
    if of_centre:
        centre = survey.mean(X, of_centre)
    apart = plan.task.weights_apart
    if store is not None:
        points = _prepare_queries(
            X,
            Y,
            h,
            log_weights,
            form=form,
            centre=centre,
            weights_apart=apart,
            squared_radius=zero,
            memory=operands,
            store=store,
        )
    elif points is None:
        points = prepare(
            X,
            Y,
            h,
            log_weights,
            form=form,
            centre=centre,
            weights_apart=apart,
            squared_radius=zero,
            memory=operands,
        )
    data, queries, squared_radius = points
    if report is not None:
        report(squared_radius)
    V = None if values is None else pairs_values.prepare(values)
    passed = Passed(*left)
    plan.kernel.launch(
        plan.grid,
        plan.block,
        *(*data.terms, data.weights, *queries.terms),
        *((None, None) if V is None else V),
        *(squared_radius, *passed),
        *(n, m, 0 if V is None else V.hi.shape[1], plan.cut.split_rows, form.length_limit, plan.shift),
    )

    out = pairs_finish.empty(m, k) if density is None else PartialSums(*sums)
    exact = None
    if plan.stands_in:
        guard = difference.Guard(fast_total=passed.total, least=LEAST)
        exact = difference.launch("float32", X, Y, h, output, values, log_weights, out=out, guard=guard, memory=splits)
    plan.finish.launch(
        plan.finish_grid,
        (pairs_finish.FINISH_THREADS,),
        *(*passed, queries.hi, queries.lo),
        *((None, None, None) if exact is None else exact.sums),
        *out,
        *(() if density is None else density.arguments),
        *(m, k, plan.cut.splits, 1 if exact is None else exact.parts, of_themselves),
        *(LEAST, plan.shift, 1 / pairs_operands.scale_of(h)),
    )
    return out


@functools.cache
def _shift(output: Output, d: int) -> float:
    """Return the shift of a pass. That of "laplace" makes an exponent, in bits, the factor of the kernel."""
    if output != "laplace":
        return _SHIFT[output]
    shift = (1 + d / 2) / math.log(2)
    high = float(np.float16(shift))
    return high + float(np.float16(shift - high))  # as the kernel takes it
