"""All pairs of queries and data on the tensor cores, in float16 terms: the launcher of ``f16.cuh``."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from cukde.core.gpu import compile as core_compile, device, survey
from cukde.core.gpu.launch import C_TYPE, FLOAT, Specialisation, begin
from cukde.core.gpu.scratch import Layout, Spec
from cukde.density.kept import kept
from cukde.density.pairs.gpu import (
    difference,
    finish as pairs_finish,
    operands as pairs_operands,
    splits as pairs_splits,
    tiles as pairs_tiles,
    values as pairs_values,
)
from cukde.density.pairs.gpu.arguments import Arguments
from cukde.density.pairs.gpu.finish import Density
from cukde.density.pairs.gpu.operands import Operand
from cukde.density.pairs.gpu.specialisation import OPERATION, TiledTask, shapes
from cukde.density.plan.gpu import MOST_COLUMNS, Form
from cukde.density.sums import Output, PartialSums, moment_columns

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

ENDS_IN_DENSITIES = True


@dataclass(frozen=True)
class Task(TiledTask):
    """What a kernel of the engine is specialised for, beside its tile shape."""

    ENGINE: ClassVar[str] = "f16"

    products: int = 1  # see Form
    moment_terms: int = 0  # of the operands of the moments or values
    has_reference: bool = False  # that follows the largest exponent
    weights_apart: bool = False
    soft_exp: int = 0

    def shared_bytes(self, tile: int) -> int:
        """Bytes of static shared memory of a block: two tiles of ``tile`` data rows."""
        row = (2 if self.products > 1 else 1) * (2 * self.depth + 16) + 4
        return 2 * (tile * (row + (2 * (2 * self.columns + 16) if self.output == "values" else 0)) + 64)


def task(output: Output, products: int, depth: int, k: int, weighted: bool, *, of_themselves: bool = False) -> Task:
    """The task of a pass over operands of ``depth`` columns, ``k`` values.

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
    return _task(output, depth, columns, products, moment_terms, has_reference, weights_apart, soft_exp)


_task = functools.cache(Task)


def tasks() -> Iterator[Task]:
    """What the engine can be asked for."""
    for depth, output in itertools.product(range(16, MOST_COLUMNS + 1, 16), OPERATION):
        choices = itertools.product((1, 3, 4), (True, False), pairs_values.COLUMNS, (True, False))
        for products, weighted, k, of_themselves in choices:
            if products == 4 and depth > 16:  # only small dimensions want four
                continue
            if of_themselves and (output != "moments" or weighted or products == 4):
                continue
            yield task(output, products, depth, k, weighted, of_themselves=of_themselves)


@core_compile.specialised(cases=lambda: ((one, shape) for one in tasks() for shape in one.every_shape))
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


def _ends() -> Iterator[tuple[Output, int, np.dtype | None]]:
    yield from ((one.output, one.moment_columns, None) for one in tasks())
    yield from itertools.product(("sum",), (0,), C_TYPE)
    yield from itertools.product(("laplace",), (1,), C_TYPE)


@core_compile.specialised(cases=_ends)
def _finish_kernel(output: Output, columns: int, density: np.dtype | None) -> Specialisation:
    """The kernel that merges the splits of a pass, perhaps to a density of a dtype."""
    defines = core_compile.macros(OUTPUT=output.upper(), COLUMNS=columns)
    if density is None:
        return Specialisation("density/finish", "finish_f16", defines, "11P q 4i 2f d")
    defines += core_compile.macros(DENSITY=C_TYPE[density])
    return Specialisation("density/finish", "finish_f16", defines, "12P d i q 4i 2f d")


class Points(NamedTuple):
    """Operands of data and queries, and the scaled squared radius on the device where the host is told of it later."""

    data: Operand
    queries: Operand
    squared_radius: Any | None = None  # (1,) float32


class _Plan(NamedTuple):
    """What a pass of given sizes takes beside its arrays and its bandwidth."""

    task: Task
    cut: pairs_splits.Plan  # tile shape and splits
    kernel: Specialisation
    beside: tuple[Specialisation, ...]  # what is launched before and after it
    grid: tuple[int, ...]
    finish: Specialisation
    shift: float
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
    storage: np.dtype,  # of the points
    n: int,
    m: int,
    d: int,
    k: int,
    weighted: bool,
    itself: bool,  # the queries are the data
    of_themselves: bool,  # see task
    given: _Given,
    density: np.dtype | None,  # of what is wanted in place of the sums
    multiprocessors: int,
    table: pairs_tiles.Table,
) -> _Plan:
    depth, split = pairs_operands.depth_of(d), products > 1
    kernel_task = task(output, products, depth, k, weighted, of_themselves=of_themselves)
    columns, apart = kernel_task.moment_columns, kernel_task.weights_apart
    blocks = -(-k // kernel_task.columns) if output == "values" else 1  # of columns of the values
    cut = pairs_splits.plan(shapes(kernel_task, table), n, m, blocks * columns + 1, multiprocessors, blocks)
    finish = _finish_kernel(output, columns, density)
    beside, exact_parts = [finish], 1
    if not given.queries:
        beside.append(pairs_operands.kernel(storage, depth))
    if not given.centre:
        beside.append(survey.kernel_of_mean(storage))
    if output in OF_DENSITIES:  # sums without a reference may have underflowed
        beside.append(difference.specialise(output, "float32", storage, d, k).kernel)
        exact_parts = difference.parts("float32", storage, n, m, d, output, k, multiprocessors)
    operands: list[Spec | None] = []
    if given.data and not given.queries:
        operands = pairs_operands.specs(m, d, split=split)
    elif not given.data:
        of_queries = None if itself else m
        operands = pairs_operands.specs_of_both(n, of_queries, d, split=split, weighted=weighted, weights_apart=apart)
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
        finish,
        _shift(output, d),
        Layout(
            [operands, passed, pairs_finish.specs(m, k, exact_parts), sums, centre],
            [None if given.radius else ((1,), FLOAT)],
        ),
    )


def _shift(output: Output, d: int) -> float:
    """Return the shift of a pass. That of "laplace" makes an exponent, in bits, the factor of the kernel."""
    if output != "laplace":
        return _SHIFT[output]
    shift = (1 + d / 2) / math.log(2)
    high = float(np.float16(shift))
    return high + float(np.float16(shift - high))  # as the kernel takes it


def take(
    of: Arguments,
    output: Output,
    values: Any | None = None,
    *,
    ratio: bool = False,
    density: Density | None = None,
    form: Form | None = None,
    points: Points | None = None,
    report: Callable[[Any], None] | None = None,
) -> PartialSums:
    """Take a pass.

    Parameters
    ----------
    ratio : bool
        Of output "moments" only moments / total is wanted: by self-interaction (Y = X) without weights 2^e then is
        one float16 number, as in the symmetric pass, in moments and total alike.
    density : Density, optional
        With output "sum" or "laplace": write the density there; then the sums that are returned are not complete.
    form : Form, optional
        Default that of the scaled squared radius.
    points : Points, optional
        The operands, where they have been made.
    report : callable, optional
        Takes the largest |z|^2 as it stands in the device's memory, (1,) float32, once the operands are made: of the
        queries alone where those of the data are kept. Where that is beyond the limit of the form, infinite or NaN, the
        results are void, and nothing takes long.

    Notes
    -----
    Queries whose sums may have underflowed are taken again by the difference kernel; that, too, is decided on the
    device. Launches: preparation of points and of values, pass, difference kernel where it may be needed, finish.
    """
    X, Y, h, options, _ = of
    (n, d), m, k = X.shape, of.m, moment_columns(output, of.X.shape[1], values)
    centre, log_weights = options.centre, options.log_weights
    form = of.form(output) if form is None else form
    of_themselves = ratio and output == "moments" and Y is None and log_weights is None
    if of_themselves and form.split:
        form = form._replace(products=3)  # as in the symmetric pass: 2^e keeps 11 bits, and the moments one term
    made = points is not None
    store = None if made or Y is None else options.kept  # of data at other queries
    given = _Given(made or store is not None, made, made or centre is not None, made or report is None)
    dtype = None if density is None else density.out.dtype
    of_pass = n, m, d, k, log_weights is not None, Y is None, of_themselves, given, dtype
    plan = _plan(output, form.products, X.dtype, *of_pass, device.multiprocessors(), pairs_tiles.table())
    begin(plan.kernel, *plan.beside)
    operands, (references, total, moments), splits, sums, of_centre, (zero,) = plan.layout.allocate()
    if of_centre:
        centre = survey.mean(X, of_centre)
    if points is None:
        terms: dict[str, Any] = {"centre": centre, "h": h, "split": form.split, "exact_hi": form.exact_hi}
        weights: dict[str, Any] = {"log_weights": log_weights, "weights_apart": plan.task.weights_apart}
        if store is None:
            both = pairs_operands.prepare(X, Y, **terms, **weights, squared_radius=zero, memory=operands)
            points = Points(*both, zero)
        else:
            key = "f16", h, form.split, form.exact_hi, plan.task.weights_apart
            make = functools.partial(pairs_operands.prepare_one, X, **terms, **weights)
            data = kept(store, "operand", (X, centre, log_weights), key, make)
            points = Points(data, pairs_operands.prepare_one(Y, **terms, squared_radius=zero, memory=operands), zero)
    data, queries, squared_radius = points
    if report is not None:
        report(squared_radius)
    V = None if values is None else pairs_values.prepare(values)
    plan.kernel.launch(
        plan.grid,
        (plan.cut.shape.threads,),
        *(*data.terms, data.weights, *queries.terms),
        *((None, None) if V is None else V),
        *(squared_radius, references, total, moments),
        *(n, m, 0 if V is None else V.hi.shape[1], plan.cut.split_rows, form.length_limit, plan.shift),
    )

    out = pairs_finish.empty(m, k) if density is None else PartialSums(*sums)
    exact = None
    if output in OF_DENSITIES:
        guard = difference.Guard(fast_total=total, least=LEAST)
        exact = difference.launch("float32", X, Y, h, output, values, log_weights, out=out, guard=guard, memory=splits)
    plan.finish.launch(
        pairs_finish.finish_grid(m),
        (pairs_finish.FINISH_THREADS,),
        *(references, total, moments, queries.hi, queries.lo),
        *((None, None, None) if exact is None else exact.sums),
        *out,
        *(() if density is None else density.arguments),
        *(m, k, plan.cut.splits, 1 if exact is None else exact.parts, of_themselves),
        *(LEAST, plan.shift, 1 / pairs_operands.scale_of(h)),
    )
    return out
