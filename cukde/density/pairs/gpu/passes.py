"""The density family on the GPU: one pass over all pairs, by the engine that suits it."""

from __future__ import annotations

import functools
import importlib
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import cupy as cp

from cukde.core.gpu import survey
from cukde.core.gpu.launch import DOUBLE, begin
from cukde.core.plan import note
from cukde.density.options import Options
from cukde.density.pairs.gpu import (
    difference,
    ends,
    f16,
    f16_symmetric,
    finish as pairs_finish,
    operands as pairs_operands,
)
from cukde.density.pairs.gpu.apart import Apart, options_of
from cukde.density.pairs.gpu.arguments import Arguments, located, prepare
from cukde.density.pairs.gpu.shape import shape_of
from cukde.density.pairs.gpu.skipping import (
    choice as skipping_choice,
    passes as skipping_passes,
    values as skipping_values,
)
from cukde.density.plan import gpu as plan_gpu
from cukde.density.sums import Epilogue, Output, PartialSums, merge, moment_columns, put


def partial_sums(
    X: Any,
    Y: Any | None,
    h: float,
    output: Output,
    options: Options,
    *,
    values: Any = None,
    ratio: bool = False,
    choose: Choose | None = None,
) -> PartialSums:
    """Sum over all data rows for each query, on the current device and stream; nothing waits for the result.

    Where the scaled squared radius is unknown, it is found first, and the call waits for it (:func:`located`).

    Parameters
    ----------
    X : array, shape (n, d)
        Data, float32 or float64, C-contiguous.
    Y : array, shape (m, d), optional
        Queries, likewise; None are the data themselves.
    h : float
        Bandwidth, in the units of ``X``.
    output : {"sum", "moments", "laplace", "laplace_moments", "values"}
        What to sum; see :class:`cukde.density.sums.PartialSums`. "laplace_moments" are always summed by differences.
    options : Options
        ``deterministic`` slows down only the pass of data of 2 to 64 dimensions against themselves. With local factors
        ``log_weights`` are those of weights over the factors' power d, and all pairs are taken, by differences; not of
        output "values".
    values : array, shape (n, k)
        For output "values". Where such a pass leaves out pairs, totals are NaN.
    ratio : bool
        Only moments / total of output "moments" is wanted: the total alone may then be off by 2.4e-4.
    choose : callable, optional
        Chooses the pairs that the pass takes in place of ``skipping.choice.near``, but for output "values".

    Notes
    -----
    :mod:`cukde.density.plan.gpu` says which pass takes a call, by its sizes, its precision and its squared radius. In
    "ieee" differences take all, where float64 arrays keep 48 bits of each coordinate. Where a few rows lie beyond the
    limits of products, they are taken apart, by differences: that takes copies of the others.

    Memory beside the result: operands of the size of X, Y and the values, and what the splits of the data leave,
    at most 64 MB where there is more than one.
    """
    if options.local_factors is not None:
        return _differences(*pairs_operands.of_one_dtype(X, Y), h, output, options, values)
    arguments = prepare(X, Y, h, options)
    if values is not None:
        near = skipping_choice.near_values(arguments, values)
    else:
        near = (choose or skipping_choice.near)(arguments, output, ratio=ratio)
    return run(arguments, output, values, ratio=ratio, near=near)


def sums_without_own(X: Any, Y: Any | None, h: float, output: Output, options: Options) -> PartialSums | None:
    """Return :func:`partial_sums` with own rows; None where a pass over some pairs is faster: none knows own ones."""
    if options.local_factors is not None:
        return _differences(*pairs_operands.of_one_dtype(X, Y), h, output, options)
    arguments = prepare(X, Y, h, options)
    return run(arguments, output) if skipping_choice.near(arguments, output).takes_all else None


def mutual_sums(A: Any, B: Any, h: float, options: Options, *, ratio: bool) -> tuple[PartialSums, PartialSums]:
    """Output "moments" of all rows of ``B`` at the points of ``A``, and of all rows of ``A`` at those of ``B``.

    For blocks of one data set without weights: at the points of a block, these merge (:func:`cukde.density.sums.merge`)
    with those of the other blocks and, by :func:`partial_sums`, of the block itself. Nothing waits for the result; for
    an unknown scaled squared radius the call waits, as that one does.

    Parameters
    ----------
    A, B : array, shape (n, d) and (m, d)
        Points, float32 or float64, C-contiguous, at least one of each.
    options : Options
        Precision, centre and scaled squared radius, of the rows of either. The default centre is the mean of all rows.
    ratio : bool
        Only moments / total of the merged sums is wanted: totals alone may then be off by 2.4e-4.

    Returns
    -------
    at_A, at_B : PartialSums
        Of n and of m queries.

    Notes
    -----
    Where the pass of self-interaction (Y = X) would take each exponential once, one pass does for both sums, in no
    fixed order; otherwise there are two passes. References of the one are 0 however far the blocks lie apart, and a
    total is 0 where no exponent is above about -96 (with ``ratio`` -26): accurate for sums that are merged with those
    of the block itself, where each point adds 1. No pairs are left out, since what may be follows from the merged sums.

    Cost of the one pass: n m exponentials, and on the tensor cores 6 d' or with one term 2 d' operations a pair for
    exponents and 4 d' for moments, d' being d rounded up to a multiple of 16. Memory beside the result: 8 d' + 8 bytes
    a row, or 6 d' + 8 with one term. Errors are those of the pass of self-interaction, of the merged sums: of the total
    3e-5 (2.4e-4 with ``ratio``), of the mean shift 1.5e-4 bandwidths times the root of the scaled squared radius; of
    "tf32" 2e-3 and 4e-4 up to a scaled squared radius of 110 (``tests/density/test_mutual_sums.py``).
    """
    A, B = pairs_operands.of_one_dtype(A, B)
    n, m, d = A.shape[0], B.shape[0], A.shape[1]
    if options.centre is None:
        options = options._replace(centre=(survey.total(A) + survey.total(B)) / (n + m))
    options = located(A, B, h, options)
    rows = 2 * pairs_operands.padded(max(n, m))  # of both, and as many pairs of chunks as the one has chunks
    once = shape_of("moments", rows, rows, d, options._replace(deterministic=False), itself=True, ratio=ratio)
    if plan_gpu.served(once, options.squared_radius).name != "f16_symmetric":
        options = options._replace(deterministic=False)
        at_A = run(prepare(B, A, h, options), "moments", ratio=ratio)
        at_B = run(prepare(A, B, h, options), "moments", ratio=ratio)
        return at_A, at_B
    split = Arguments(A, B, h, options, once).form("moments").split
    operand = pairs_operands.prepare_two(A, B, options.centre, h, split=split)
    own_rows = pairs_operands.padded(n)
    S, T = f16_symmetric.launch(operand, exact_sums=not ratio, own_rows=own_rows)

    def finished(m: int, rows: slice) -> PartialSums:
        return f16_symmetric.finish(operand.rows(rows), S[rows], T[rows], m, d, h, self_interaction=False)

    return finished(n, slice(own_rows)), finished(m, slice(own_rows, None))


def density(
    X: Any,
    Y: Any | None,
    h: float,
    options: Options,
    epilogue: Epilogue,
    *,
    points: Any = None,
    choose: Choose | None = None,
) -> Any:
    """Return the density at the queries, shape (m,), or its logarithm.

    ``points`` is what :func:`debias` returned beside these data; ``choose`` as for :func:`partial_sums`.
    """
    return _density(X, Y, h, options, epilogue, "kde", _Start() if points is None else points, choose)


def laplace_density(
    X: Any,
    Y: Any | None,
    h: float,
    options: Options,
    epilogue: Epilogue,
    *,
    positive: bool = False,
    choose: Choose | None = None,
) -> Any:
    """Return the Laplace-corrected density at the queries, (m,), or its logarithm; or the ``positive`` density.

    Negative densities stay, and have no logarithm: NaN. ``choose`` is that of :func:`partial_sums`.
    """
    return _density(X, Y, h, options, epilogue, "positive" if positive else "laplace", _Start(), choose)


def _density(
    X: Any,
    Y: Any | None,
    h: float,
    options: Options,
    epilogue: Epilogue,
    form: pairs_finish.DensityForm,
    start: _Start,
    choose: Choose | None,
) -> Any:
    """Run a pass that ends in densities, or one and what makes densities of its sums."""
    output = pairs_finish.OUTPUT_OF[form]
    if options.local_factors is not None:
        return ends.density(partial_sums(X, Y, h, output, options), epilogue, form)
    of = prepare(X, Y, h, start.located(options))
    near = choose(of, output) if choose is not None else skipping_choice.near(of, output, look=start.look)
    if near.takes_all and of.m:
        name = of.engine(output).name
        module = _pass(name)
        if getattr(module, "ENDS_IN_DENSITIES", False):
            note(name, output=output)
            density = pairs_finish.Density(cp.empty(of.m, epilogue.dtype), epilogue.log_constant, epilogue.log, form)
            prepared = {} if start.operands is None else {"points": start.operands}
            module.take(of, output, density=density, **prepared)
            return density.out
    begin(ends.kernel_of_density(epilogue.dtype))
    return ends.density(_unmerged(of, output, None, ratio=False, near=near), epilogue, form)


def debias(X: Any, Y: Any, h: float, score_h: float, options: Options) -> tuple[Any, Any, Any]:
    """Data moved by half of (h / score_h)^2 of their mean shift, ready for :func:`density` at the queries ``Y``.

    Returns
    -------
    moved, queries : array, shape (n, d) and (m, d)
        Float64.
    points : object
        What the pass over them can start from, or None.
    """
    of = prepare(X, Y, h, options)
    estimate = prepare(X, None, score_h, of.options.at_ratio(h / score_h))
    # About a given centre points that move at most half way to a mean of the data move no farther out.
    radius = of.options.squared_radius if options.centre is not None and h <= score_h else None
    near = skipping_choice.near(estimate, "moments", ratio=True, following=of.Y)
    if (
        near.prepared is None
        and of.m
        and of.engine("sum").name == "f16"
        and estimate.engine("moments", ratio=True).name == "f16_symmetric"
    ):  # launches leave the operands of the next pass: prepare, pass, prepare
        begin(pairs_operands.kernel(of.X.dtype, pairs_operands.depth_of(of.X.shape[1]), moved=True))
        operand, S, T, memory = f16_symmetric.score(estimate, exact_sums=False, moved_at=of.m)
        moved, queries, *operands = pairs_operands.prepare_moved(
            operand,
            *(of.X, of.Y, of.options.centre, h, (S, T, score_h)),
            memory=memory,
            exact_hi=of.form("sum").exact_hi,
        )
        return moved, queries, _Start(f16.Points(*operands), near.look, radius)
    begin(ends.kernel_of_points(DOUBLE, X.dtype))
    sums = _unmerged(estimate, "moments", None, ratio=True, near=near)
    return *ends.ready(X, Y, sums, h, score_h), _Start(None, near.look, radius)


class _Start(NamedTuple):
    """What the pass over debiased data can start from."""

    operands: f16.Points | None = None
    look: skipping_choice.Look | None = None
    squared_radius: float | None = None  # that theirs does not exceed

    def located(self, options: Options) -> Options:
        """Return the options of that pass."""
        return options if self.squared_radius is None else options._replace(squared_radius=self.squared_radius)


class Choose(Protocol):
    """Chooses which pairs a pass takes, as :func:`cukde.density.pairs.gpu.skipping.choice.near` does."""

    def __call__(self, arguments: Arguments, output: Output, *, ratio: bool = False) -> skipping_choice.Chosen: ...


def run(
    of: Arguments,
    output: Output,
    values: Any | None = None,
    *,
    ratio: bool = False,
    near: skipping_choice.Chosen = skipping_choice.ALL_PAIRS,
) -> PartialSums:
    """Run the pass; ``near`` is what :func:`cukde.density.pairs.gpu.skipping.choice.near` has chosen."""
    sums = _unmerged(of, output, values, ratio=ratio, near=near)
    if isinstance(sums, PartialSums):
        return sums
    out = (
        PartialSums(*sums.sums)
        if sums.parts == 1
        else pairs_finish.empty(of.m, moment_columns(output, of.X.shape[1], values))
    )
    return pairs_finish.merge(sums, out)


def _unmerged(
    of: Arguments, output: Output, values: Any | None, *, ratio: bool, near: skipping_choice.Chosen
) -> PartialSums | pairs_finish.Splits:
    """Run the pass, and leave the splits of differences to who takes the sums further."""
    if isinstance(near.prepared, skipping_values.Prepared):
        return skipping_values.run(near.prepared)
    if near.prepared is not None:
        return skipping_passes.run(near.prepared)
    if near.apart is not None:
        return _sums_apart(of, output, near.apart, ratio=ratio)
    k = moment_columns(output, of.X.shape[1], values)
    if of.m == 0:
        return pairs_finish.empty(0, k)
    name = of.engine(output, k=0 if values is None else k, ratio=ratio).name
    note(name, output=output)
    sums: PartialSums | pairs_finish.Splits = _pass(name).take(of, output, values, ratio=ratio)
    return sums


@functools.cache
def _pass(name: str) -> ModuleType:
    """The module of a pass over all pairs, which has its name in the plan."""
    return importlib.import_module(f"cukde.density.pairs.gpu.{name}")


def _sums_apart(of: Arguments, output: Output, apart: Apart, *, ratio: bool) -> PartialSums:
    """Run the pass by products of the points near the centre, and by differences of the few others."""
    X, h, options = of.X, of.h, of.options
    data, queries = apart.data, apart.queries
    Y = X if of.Y is None else of.Y
    near = X[data.near]
    radius = min(options.squared_radius, apart.squared_radius)
    of_data = options_of(options, data.near)._replace(squared_radius=radius)
    of_near = prepare(near, None if of.Y is None else Y[queries.near], h, of_data)
    parts = [run(of_near, output, ratio=ratio)]
    if len(data.far):
        at = near if of_near.Y is None else of_near.Y
        parts.append(_differences(X[data.far], at, h, output, options_of(options, data.far)))
    at_near = merge(parts, cp)
    if not len(queries.far):
        return at_near
    at_far = _differences(X, Y[queries.far], h, output, options)
    out = pairs_finish.empty(of.m, moment_columns(output, X.shape[1], None))
    put(out, queries.near, at_near)
    put(out, queries.far, at_far)
    return out


def _differences(
    X: Any, Y: Any | None, h: float, output: Output, options: Options, values: Any | None = None
) -> PartialSums:
    out = pairs_finish.empty(len(X if Y is None else Y), moment_columns(output, X.shape[1], values))
    if not len(out.total):
        return out
    operands = X, Y, h, output, values, options.log_weights
    of_rows = {"local_factors": options.local_factors, "of_gradient": options.of_gradient, "own_out": options.own_out}
    return pairs_finish.merge(difference.launch(options.precision, *operands, out=out, **of_rows), out)
