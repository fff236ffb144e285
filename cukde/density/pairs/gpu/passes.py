"""The density family on the GPU: one pass over all pairs, by the engine that suits it."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import device, scratch, survey
from cukde.core.gpu.launch import FLOAT
from cukde.density import results
from cukde.density.pairs.gpu import (
    difference,
    engine as pairs_engine,
    f16,
    f16_symmetric,
    f64,
    finish as pairs_finish,
    operands as pairs_operands,
    radial,
    tf32,
    values as pairs_values,
    wide,
    wide_f64,
)
from cukde.density.sums import Output, PartialSums, debiased, to_density


def partial_sums(
    X: Any,
    Y: Any | None,
    h: float,
    output: Output,
    *,
    values: Any = None,
    ratio: bool = False,
    log_weights: Any = None,
    precision: str,
    centre: Any = None,
    spread: float | None = None,
    deterministic: bool = False,
    local_factors: Any = None,
) -> PartialSums:
    """Sum over all data rows for each query, on the current device and stream; nothing waits for the result.

    Parameters
    ----------
    X : array, shape (n, d)
        Data, float32 or float64, C-contiguous.
    Y : array, shape (m, d), optional
        Queries, likewise; None are the data themselves.
    h : float
        Bandwidth, in the units of ``X``.
    output : {"sum", "moments", "laplace", "values"}
        What to sum; see :class:`cukde.density.sums.PartialSums`.
    values : array, shape (n, k)
        For output "values".
    ratio : bool
        Of output "moments" only moments / total is wanted: the total alone may then be off by 2.4e-4.
    log_weights : array, shape (n,), optional
        Float64; -1e30 stands for the logarithm of zero.
    precision : {"float32", "tf32", "ieee", "float64"}
        Arithmetic of the pairs. "float32" and "tf32" run on the tensor cores, in two float16 terms of each
        point or in one, where d is at least 2 and the spread at most 700 (in two terms of 2 to 64 dimensions the
        larger of 3500/d and 1100/sqrt(d), beyond 16 dimensions 850/sqrt(d), where that is less); otherwise, as "ieee"
        does, by differences, where float64 arrays keep 48 bits of each coordinate. "float64" runs there too, and where
        d is larger by a library's products on any device, up to a spread of 620 (350 for "values"); otherwise by
        differences.
    centre : array, shape (d,), optional
        Where the tensor cores take points from; default the mean of ``X``.
    spread : float, optional
        Largest squared distance to the centre, in bandwidths. Where it is not known, the device finds it and
        decides which kernel works.
    deterministic : bool
        Sum in one order, to the same bits on every run. Only the pass of data of 2 to 64 dimensions against
        themselves is the slower for it.
    local_factors : array, shape (n,), optional
        Float64, for output "sum": factors of ``h``. ``log_weights`` are then those of weights over their power d, and
        pairs are taken by differences.

    Notes
    -----
    Memory beside the result: operands of the size of X, Y and the values, and what the splits of the data leave,
    at most 64 MB where there is more than one.
    """
    if local_factors is not None:
        return radial.local_sums(X, Y, h, local_factors, log_weights=log_weights, precision=precision)
    return _pose(X, Y, h, log_weights, precision, centre, spread, deterministic).sums(output, values, ratio=ratio)


def mutual_sums(
    A: Any,
    B: Any,
    h: float,
    *,
    ratio: bool,
    precision: str,
    centre: Any = None,
    spread: float | None = None,
) -> tuple[PartialSums, PartialSums]:
    """Output "moments" of all rows of ``B`` at the points of ``A``, and of all rows of ``A`` at those of ``B``.

    For blocks of one data set without weights: at the points of a block, these merge (:func:`cukde.density.sums.merge`)
    with those of the other blocks and, by :func:`partial_sums`, of the block itself. Nothing waits for the result.

    Parameters
    ----------
    A, B : array, shape (n, d) and (m, d)
        Points, float32 or float64, C-contiguous, at least one of each.
    h : float
        Bandwidth, in the units of the points.
    ratio : bool
        Only moments / total of the merged sums is wanted: totals alone may then be off by 2.4e-4.
    precision : {"float32", "tf32", "ieee", "float64"}
        As for :func:`partial_sums`.
    centre : array, shape (d,), optional
        Float64, where the tensor cores take points from; default the mean of all rows, or of the data of each pass.
    spread : float, optional
        Largest squared distance of a row of either to the centre, in bandwidths. Where it is not known, the device
        finds it and decides which kernel works.

    Returns
    -------
    at_A, at_B : PartialSums
        Of n and of m queries.

    Notes
    -----
    Where the pass of the data at their own points would take each exponential once, one pass does for both sums: with
    "float32" and "tf32" of 2 to 64 dimensions, up to the spread which that pass is good for. References are then 0
    however far the blocks lie apart, and a total is 0 where no exponent is above about -96 (with ``ratio`` -26). That
    is right for sums that are merged with those of the block itself, where each point adds 1. Sums are added up in no
    fixed order: two runs differ in their last bits.

    Otherwise there are two passes, :func:`partial_sums` of either block at the other; of one dimension
    :mod:`cukde.density.one_dimension.gpu.passes` has faster ones.

    Cost of the one pass: n m exponentials, and on the tensor cores 6 d' or with one term 2 d' operations a pair for
    exponents and 4 d' for moments, d' being d rounded up to a multiple of 16. Errors are those of the pass of the data
    at their own points: of the total 3e-5 of the merged one (2.4e-4 with ``ratio``), of the merged mean shift 1.5e-4
    bandwidths times the root of the spread; of "tf32" 2e-3 and 4e-4 up to a spread of 110
    (``tests/density/test_mutual_sums_gpu.py``). Memory beside the result: 8 d' + 8 bytes a row, or 6 d' + 8 with one term.
    """
    A, B = pairs_operands.of_one_dtype(A, B)
    n, m, d = A.shape[0], B.shape[0], A.shape[1]
    engine = pairs_engine.engine(
        "moments",
        precision,
        2
        * pairs_operands.padded(max(n, m)),  # rows of both together, and as many pairs of chunks as the one has chunks
        d,
        d,
        spread=spread,
        capability=device.capability(),
        symmetric=True,
        exact=not ratio,
    )
    if engine == "f16_symmetric":
        return _mutual_score(A, B, h, precision, centre, spread, exact_sums=not ratio)
    at_A = _pose(B, A, h, None, precision, centre, spread, deterministic=False).sums("moments", None, ratio=ratio)
    at_B = _pose(A, B, h, None, precision, centre, spread, deterministic=False).sums("moments", None, ratio=ratio)
    return at_A, at_B


def density(
    X: Any,
    Y: Any | None,
    h: float,
    *,
    log_constant: float,
    log: bool,
    dtype: np.dtype,
    log_weights: Any = None,
    precision: str,
    centre: Any = None,
    spread: float | None = None,
    deterministic: bool = False,
    points: Any = None,
    local_factors: Any = None,
) -> Any:
    """Return ``exp(log_constant)`` times the sums of the kernel, shape (m,), or the logarithm of that.

    ``points`` is what :func:`debias` returned beside these data. All else is as for :func:`partial_sums`.
    """
    if local_factors is not None:
        sums = radial.local_sums(X, Y, h, local_factors, log_weights=log_weights, precision=precision)
        return to_density(sums, log_constant, log, dtype, cp)
    posed = _pose(X, Y, h, log_weights, precision, centre, spread, deterministic)
    out = posed.finished("sum", points, log_constant, log, dtype)
    return to_density(posed.sums("sum", None), log_constant, log, dtype, cp) if out is None else out


def laplace_density(
    X: Any, Y: Any | None, h: float, *, log_constant: float, log: bool, dtype: np.dtype, **options: Any
) -> Any:
    """Return ``exp(log_constant)`` times the sums of the Laplace-corrected kernel, (m,), or the logarithm of that.

    Negative sums stay, and have no logarithm: NaN. ``options`` are those of :func:`partial_sums` that are of all
    outputs.
    """
    posed = _pose(X, Y, h, **options)
    out = posed.finished("laplace", None, log_constant, log, dtype)
    if out is None:
        sums = posed.sums("laplace", None)
        out, _ = results.laplace(sums, log_constant, clip=False, log=log, dtype=dtype, xp=cp)
    return out


def debias(
    X: Any,
    Y: Any,
    h: float,
    score_h: float,
    *,
    log_weights: Any = None,
    precision: str,
    centre: Any = None,
    spread: float | None = None,
    deterministic: bool = False,
) -> tuple[Any, Any, Any]:
    """Data moved by half of (h / score_h)^2 of their mean shift, ready for :func:`density` at the queries ``Y``.

    Returns
    -------
    moved, queries : array, shape (n, d) and (m, d)
        Float64.
    points : object
        What the pass over them can start from, or None.
    """
    own_spread = None if spread is None else spread * (h / score_h) ** 2
    estimate = _pose(X, None, score_h, log_weights, precision, centre, own_spread, deterministic)
    posed = _pose(X, Y, h, log_weights, precision, estimate.centre, spread, deterministic)
    if posed.m and posed.engine("sum", 0) == "f16" and estimate.engine("moments", X.shape[1]) == "f16_symmetric":
        return _moved_operands(posed, estimate)
    sums = estimate.sums("moments", None, ratio=True)
    return debiased(X, sums, h, score_h), Y.astype(np.float64, copy=False), None


def spreads(precision: str, d: int) -> tuple[float, ...]:
    """Spreads that stand for all others: between them every engine and form that a pass may take is taken."""
    return pairs_engine.spreads(precision, d, device.capability())


class _Posed(NamedTuple):
    """The arguments of a pass, but for what it sums."""

    X: Any
    Y: Any | None
    h: float
    log_weights: Any | None
    precision: str
    centre: Any
    spread: float | None
    deterministic: bool

    @property
    def m(self) -> int:
        """Number of queries."""
        return int((self.X if self.Y is None else self.Y).shape[0])

    def engine(self, output: Output, k: int, *, exact: bool = False) -> pairs_engine.Engine:
        """Which engine takes the pass; ``k`` columns of moments or values, ``exact`` totals of moments."""
        n, d = self.X.shape
        return pairs_engine.engine(
            output,
            self.precision,
            n,
            d,
            k,
            spread=self.spread,
            capability=device.capability(),
            symmetric=self.Y is None and self.log_weights is None and not self.deterministic,
            exact=exact,
        )

    def form(self, output: Output) -> f16.Form:
        """How the float16 engines make exponents."""
        form = f16.form(self.precision, self.X.shape[1], self.spread, output)
        assert form is not None  # or the engine would be another
        return form

    def sums(self, output: Output, values: Any | None, *, ratio: bool = False) -> PartialSums:
        """Run the pass."""
        d = self.X.shape[1]
        k = pairs_finish.columns_of(output, d, values)
        if self.m == 0:
            return pairs_finish.empty(0, k)
        engine = self.engine(output, k, exact=not ratio)
        if engine == "f16":
            return self.in_f16(output, values, None, None, ratio=ratio)
        if engine == "f16_symmetric" and output == "values":
            return _symmetric_values(self, values)
        if engine == "f16_symmetric":
            memory = _MemoryOfScore.allocate(self.X.shape, None, self.form(output).split, self.spread is not None)
            return _SymmetricScore.launch(self, exact_sums=not ratio, memory=memory).finish()
        taken = self.X, self.Y, self.h, output, values, self.log_weights
        known = self.spread is not None
        if engine == "wide":
            terms = 1 if self.precision == "tf32" else 2
            return wide.run(*taken, terms=terms, centre=self.centre, spread_known=known, ratio=ratio)
        if engine == "f64":
            return f64.run(*taken, centre=self.centre, spread_known=known)
        if engine == "wide_f64":
            return wide_f64.run(*taken, centre=self.centre, spread=self.spread)
        if engine == "tf32":
            return tf32.run(*taken, self.centre)
        out = pairs_finish.empty(self.m, k)
        return pairs_finish.merge(difference.launch(self.precision, *taken, out=out), out)

    def finished(self, output: Output, points: Any, log_constant: float, log: bool, dtype: np.dtype) -> Any | None:
        """Run the pass where it ends in the density itself, and return that; otherwise None, and nothing is run."""
        if not self.m or self.engine(output, 0) != "f16":
            return None
        out = cp.empty(self.m, dtype)
        self.in_f16(output, None, points, f16.Density(out, log_constant, log))
        return out

    def in_f16(
        self, output: Output, values: Any | None, points: Any, density: f16.Density | None, *, ratio: bool = False
    ) -> PartialSums:
        """Run the pass by the ordered float16 engine."""
        return f16.run(
            self.X,
            self.Y,
            self.h,
            output,
            values,
            self.log_weights,
            form=self.form(output),
            centre=self.centre,
            spread_known=self.spread is not None,
            ratio=ratio,
            points=points,
            density=density,
        )


def _pose(
    X: Any,
    Y: Any | None,
    h: float,
    log_weights: Any,
    precision: str,
    centre: Any,
    spread: float | None,
    deterministic: bool,
) -> _Posed:
    X, Y = pairs_operands.of_one_dtype(X, Y)
    if centre is None:
        centre = survey.mean(X)
    return _Posed(X, Y, h, log_weights, precision, centre, spread, deterministic)


class _MemoryOfScore(NamedTuple):
    """What the mean shift of the data at their own points needs, and what moving them along it does, in one chunk."""

    operands: list[Any]
    sums: Any
    exact: list[Any] | None  # where the sums by differences are not returned
    moved: list[Any]
    spread: Any | None  # zero, as is the next: where the host does not know them
    spread_of_moved: Any | None

    @classmethod
    def allocate(cls, shape: tuple[int, int], m: int | None, split: bool, spread_known: bool) -> _MemoryOfScore:
        """Allocate it for data of a shape, and ``m`` queries if they are going to be moved."""
        operands, (sums,), exact, moved, spreads = _layout_of_score(*shape, m, split, spread_known).allocate()
        return cls(operands, sums, exact or None, moved, *spreads)


@functools.lru_cache(maxsize=1024)
def _layout_of_score(n: int, d: int, m: int | None, split: bool, spread_known: bool) -> scratch.Layout:
    operands = pairs_operands.specs_of_both(
        n, None, d, split=split, symmetric=True, weighted=False, weights_apart=False
    )
    sums = f16_symmetric.spec_of_sums(n, d)
    spread = None if spread_known else ((1,), FLOAT)
    if m is None:
        return scratch.Layout([operands, [sums], [], []], [spread, None])
    exact = [] if spread_known else pairs_finish.specs(n, d)
    moved = pairs_operands.specs_of_moved(n, m, d, split=split)
    return scratch.Layout([operands, [sums], exact, moved], [spread, spread])


class _SymmetricScore(NamedTuple):
    """Mean shift of the data at their own points, each exponential taken once; not yet finished."""

    posed: _Posed
    operand: pairs_operands.Operand
    S: Any
    T: Any
    spread: Any | None  # (1,) float32, where the host does not know it
    exact: PartialSums | None  # what differences leave where the spread is beyond the limit

    @classmethod
    def launch(cls, posed: _Posed, *, exact_sums: bool, memory: _MemoryOfScore) -> _SymmetricScore:
        """Launch the pass, which writes to ``memory``."""
        X, h = posed.X, posed.h
        form = posed.form("moments")
        spread, sums, limit = memory.spread, memory.sums, form.length_limit
        operand, _ = pairs_operands.prepare(
            X,
            None,
            posed.centre,
            h,
            split=form.split,
            spread=spread,
            symmetric=True,
            sums=sums,
            memory=memory.operands,
        )
        S, T = f16_symmetric.launch(operand, exact_sums=exact_sums, spread=spread, limit=limit, sums=sums)
        exact = None
        if spread is not None:
            exact = _by_difference(X, None, h, spread, limit, memory.exact)
        return cls(posed, operand, S, T, spread, exact)

    def finish(self) -> PartialSums:
        """Return the sums."""
        n, d = self.posed.X.shape
        return f16_symmetric.finish(
            self.operand,
            self.S,
            self.T,
            n,
            d,
            self.posed.h,
            spread=self.spread,
            limit=self.posed.form("moments").length_limit,
            out=self.exact,
        )

    @property
    def shift(self) -> pairs_operands.Shift:
        """What the points are moved along."""
        return pairs_operands.Shift(
            self.S, self.T, self.posed.h, self.spread, self.posed.form("moments").length_limit, self.exact
        )


def _mutual_score(
    A: Any, B: Any, h: float, precision: str, centre: Any, spread: float | None, *, exact_sums: bool
) -> tuple[PartialSums, PartialSums]:
    """Mean shift of two blocks of data at the points of each other, each exponential taken once."""
    n, m, d = A.shape[0], B.shape[0], A.shape[1]
    if centre is None:
        centre = (survey.total(A) + survey.total(B)) / (n + m)
    form = f16.form(precision, d, spread, "moments")
    assert form is not None  # or the engine would be another
    limit = form.length_limit
    found = None if spread is not None else cp.zeros(1, np.float32)
    operand = pairs_operands.prepare_two(A, B, centre, h, split=form.split, spread=found)
    own_rows = pairs_operands.padded(n)
    S, T = f16_symmetric.launch(operand, exact_sums=exact_sums, spread=found, limit=limit, own_rows=own_rows)

    def finished(Y: Any, X: Any, rows: slice) -> PartialSums:
        of = operand.rows(rows), S[rows], T[rows], Y.shape[0], d, h
        exact = None if found is None else _by_difference(X, Y, h, found, limit)
        return f16_symmetric.finish(*of, spread=found, limit=limit, out=exact, own=False)

    return finished(A, B, slice(own_rows)), finished(B, A, slice(own_rows, None))


def _by_difference(
    X: Any, Y: Any | None, h: float, spread: Any, limit: float, memory: list[Any] | None = None
) -> PartialSums:
    """Output "moments" where the device finds the spread beyond the limit; otherwise what another engine is to fill.

    ``memory`` is for the sums, default new arrays.
    """
    out = pairs_finish.empty((X if Y is None else Y).shape[0], X.shape[1]) if memory is None else PartialSums(*memory)
    guard = difference.Guard(spread, limit, None, f16.LEAST)
    difference.launch("float32", X, Y, h, "moments", None, None, out=out, guard=guard, one_split=True)
    return out


def _symmetric_values(posed: _Posed, values: Any) -> PartialSums:
    """Sums of values of the data at their own points, each exponential taken once."""
    V = pairs_values.contiguous(values)
    operand, _ = pairs_operands.prepare(posed.X, None, posed.centre, posed.h, split=True, symmetric=True)
    S, T = f16_symmetric.launch_values(operand, pairs_values.prepare(V))
    return f16_symmetric.finish_values(V, S, T)


def _moved_operands(posed: _Posed, estimate: _Posed) -> tuple[Any, Any, f16.Points]:
    """:func:`debias` by launches that leave the operands of the next pass: prepare, pass, prepare."""
    memory = _MemoryOfScore.allocate(
        posed.X.shape, posed.m, estimate.form("moments").split, estimate.spread is not None
    )
    score = _SymmetricScore.launch(estimate, exact_sums=False, memory=memory)
    moved, queries, data, of_queries = pairs_operands.prepare_moved(
        score.operand,
        posed.X,
        posed.Y,
        posed.centre,
        posed.h,
        score.shift,
        memory=memory.moved,
        exact_hi=posed.form("sum").exact_hi,
        spread=memory.spread_of_moved,
    )
    return moved, queries, f16.Points(data, of_queries, memory.spread_of_moved)
