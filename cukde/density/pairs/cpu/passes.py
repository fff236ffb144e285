"""Sums of Gaussian kernels over all pairs on the CPU: BLAS tiles, a Numba exp2 in place, BLAS again.

Each thread takes a block of queries through the data tile by tile, keeping the largest exponent of each
query (log-sum-exp, so nothing under- or overflows) and its sums in float64. Memory is O((n + m) d) beside
one tile a thread.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple, Protocol

import numpy as np

from cukde.core.cpu import meanwhile, survey, threads
from cukde.density.kept import Kept, kept
from cukde.density.options import Options
from cukde.density.pairs import tolerance as pairs_tolerance
from cukde.density.pairs.cpu import few, few_queries_loops, gram as pairs_gram, mutual, operands, query_blocks, tiles
from cukde.density.pairs.cpu.skipping import choice as skipping_choice, passes as skipping_passes
from cukde.density.pairs.cpu.weighted import nothing_of, weighted
from cukde.density.sums import Epilogue, Output, PartialSums, laplace_constant, moment_columns, put, ready, to_density

_LOG2_E = math.log2(math.e)

# Dimensions that share a norm in the operands of the product, see _Gram: small groups cost columns, and are needed as
# the scaled squared radius grows. One norm serves while that times sqrt(d) is at most the limit of _ONE_GROUP, eight
# dimensions share one up to that of _EIGHT, and beyond four do.
_ONE_GROUP = {np.float32: 170.0, np.float64: 4000.0}
_EIGHT = {np.float32: 44.0, np.float64: 0.0}

# Largest scaled squared radius at which exponents may come from a product, whose terms cancel; beyond it they come from
# double precision or from differences. In single precision the running sum of many dimensions rounds too, hence the
# second limit, divided by sqrt(d), and the squared radius of any four dimensions has a limit of its own, as clusters
# may lie along few. Points may be duplicates, so that no rounding averages out. Worst density errors
# measured at the limits (python -m benchmarks.density.gram_error): 7e-6 single, 6e-13 double.
_SINGLE_GRAM_RADIUS = 150.0
_SINGLE_GRAM_RADIUS_ROOT_D = 600.0
_SINGLE_GRAM_RADIUS_OF_FOUR = 88.0

# The same of data at themselves, times sqrt(d), and at most the second: the exponents that count there are small, so
# that running sums are, and groups of dimensions round independently.
_OWN_GRAM_RADIUS_ROOT_D, _MOST_OF_OWN = 27.0, 1000.0

# Local factors stand in the operands, which round once more.
_RADIUS_OF_FACTORS = 0.5

# Queries of single precision products whose largest exponent is below minus this (or minus the second, divided by
# sqrt(d)) are taken in double: an exponent's own rounding counts there, which is that of the running sum, and that of
# coordinates times the distance. They are not from the third on, where the error that is promised grows with the
# exponent, and from the radius times the radius of any four dimensions over the fourth: products in single precision of
# any radius then serve them. (What groups of dimensions round adds up as independent errors do.)
_FAR, _FAR_ROOT_D = 20.0, 160.0
_FARTHER, _RADII_OF_FARTHER = 80.0, 2.0

# Columns up to which differences in single precision take less time than products in double, of two cores: 0.24 ns a
# pair beside 0.57 of 8 columns, 0.67 beside 1.1 of 32, 1.2 beside 1.9 of 64; of points as they are given whatever their
# radius, and up to the second of those that are rounded about the centre. A query's exponent is off by some 0.3 eps of
# itself, at worst by 1: from the third on, and up to _FARTHER, it is taken in double.
_COLUMNS_OF_DIFFERENCES, _RADIUS_OF_ROUNDED, _FAR_OF_DIFFERENCES = 64, 450.0, 40.0
_LEAST_SQUARE, _LARGEST_SQUARE = 1e-24, 1e35  # of a bandwidth, and of a distance to the centre, in single precision

# A sample of queries tells whether all are so far from the data; it pays from so many queries and columns on.
_SAMPLE, _LEAST_QUERIES, _LEAST_COLUMNS = 8, 128, 96

# Some hundredths of a second of work of a thread, between which it checks for an interrupt.
_TILES_OF_STRETCH = 32

# Multiply-adds of all pairs that take less than compiling the pass that leaves out some; an exponential takes as long
# as so many.
_MOST_MEANWHILE, _EXPONENTIAL = 2**37, 16

_RADIUS_OF_DOUBLE = pairs_tolerance.PRODUCTS_IN_DOUBLE["float32"]

_NO_EXPONENT = -1e305  # of a pair that is left out: below that of any two points

# Rows for each thread from which self-interaction (Y = X) takes each exponential once: a quarter less time, where
# blocks are large enough for rounds in which no two threads add to the same sums.
_OWN_ROWS = 2048


class _Running(NamedTuple):
    """Sums of some queries over the data so far.

    The shift, minus a query's largest exponent in bits, is kept in the dtype of the tiles: the largest term's weight is
    then exactly 1, and no rounding is common to all the terms of a query.
    """

    shift: np.ndarray  # (q,)
    total: np.ndarray  # (q,) float64
    moments: np.ndarray  # (q, k) float64

    @classmethod
    def none(cls, q: int, k: int, dtype: np.dtype) -> _Running:
        return cls(np.full(q, np.finfo(dtype).max, dtype), np.zeros(q), np.zeros((q, k)))


class _Pairs(Protocol):
    """How pairs are computed: a stretch of data for some queries."""

    dtype: np.dtype
    m: int
    stretch: int  # data rows between two checks for an interrupt
    columns: int  # of what moments are made of

    def add_sums(self, rows: slice, data: slice, to: _Running) -> None:
        """Add sums of weights."""

    def add_laplace(self, rows: slice, data: slice, constant: float, log2_weights: np.ndarray, to: _Running) -> None:
        """Add sums of weights, and of weights times Laplace factors: 1 + d/2, the constant, less half of a square.

        Log2 weights are those of all data.
        """

    def add_laplace_moments(
        self, rows: slice, data: slice, constant: float, log2_weights: np.ndarray, to: _Running
    ) -> None:
        """Add sums of weights, and moments about the queries of weights times such factors, in the data's own unit."""

    def add_values(self, rows: slice, data: slice, values: np.ndarray, to: _Running) -> None:
        """Add sums of weights, and of weights times values of all data, (n, k)."""

    def add_moments(self, rows: slice, data: slice, to: _Running) -> None:
        """Add sums of weights, and of what moments are made of by them."""

    def about_queries(self, rows: slice, total: np.ndarray, moments: np.ndarray) -> np.ndarray:
        """Turn those sums into moments about the queries, in the data's own unit."""


class _Gram:
    """Exponents by one BLAS product: sum over groups g of -|z_x|^2/2 + z_y . z_x - |z_y|^2/2, + log2 w.

    The halves of the squared norms are further columns of the operands, before and behind the dimensions they belong
    to. So each group adds -|z_y - z_x|^2/2 of its dimensions, and for close points the running sum stays small: with
    groups of four dimensions three times (d = 16) to eight times (d = 64) less rounding than with one.
    """

    def __init__(
        self,
        X: np.ndarray,
        Y: np.ndarray | None,
        h: float,
        centre: np.ndarray,
        log2_weights: Any,
        dtype: Any,
        group: int,
        local_factors: np.ndarray | None,
        store: Kept | None,
        *,
        own: np.ndarray | None = None,
        of_gradient: bool,
    ) -> None:
        self._own = np.empty(0, np.int64) if own is None else own
        self.dtype = np.dtype(dtype)
        self.unit = h / math.sqrt(_LOG2_E)  # exponents are then in bits
        self._centre, self._group, self.d = centre, group, X.shape[1]
        self._X, self._points = X, X if Y is None else Y
        self._softness = None if local_factors is None else (1 / (local_factors * local_factors))[:, None]
        self._of_gradient = of_gradient and local_factors is not None
        self.columns = self.d + self._of_gradient
        self.m = len(self._points)
        self.shape = self.m, len(X)
        width = self.d + 2 * -(-self.d // group)
        self._step = query_blocks.tile_columns(self.dtype)
        self.stretch = _TILES_OF_STRETCH * self._step

        def operand() -> tuple[np.ndarray, float]:
            out = np.empty((len(X), width), dtype)
            norm = operands.operand(X, centre, self.unit, group, True, out)
            if self._softness is not None:  # every term of an exponent has a factor among the data's operands
                out *= self._softness
            out[:, self._places[-1] // (group + 2) * (group + 2)] += log2_weights
            return out, norm

        self._store = store
        key = h, centre.tobytes(), group
        self._data, norm = kept(store, f"operand {self.dtype}", X, key, operand)
        self._queries = np.empty((self.m, width), dtype)
        self.norm = max(norm, operands.operand(self._points, centre, self.unit, group, False, self._queries))

    @functools.cached_property
    def _basis(self) -> np.ndarray:
        """Coordinates of the data, (n, d), as they stand among the operands, for the gradient beside their factor.

        Otherwise local factors are taken out of them.
        """

        def basis() -> np.ndarray:
            coordinates = self._data[:, self._places]
            softness = self._softness
            if softness is not None:
                coordinates = np.hstack([coordinates, softness]) if self._of_gradient else coordinates / softness
            return np.ascontiguousarray(coordinates)

        return kept(self._store, "basis", self._data, None, basis)

    @functools.cached_property
    def _query_basis(self) -> np.ndarray:
        """Coordinates of the queries, (m, d), as they stand among the operands."""
        alike = self._points is self._X and self._softness is None
        return self._basis if alike else np.ascontiguousarray(self._queries[:, self._places])

    @property
    def _places(self) -> list[int]:
        return [k + 1 + 2 * (k // self._group) for k in range(self.d)]

    def _tile(self, rows: slice, data: slice) -> tuple[np.ndarray, int, np.ndarray]:
        """Memory of a tile, its data rows, and those that queries leave out."""
        return query_blocks.scratch(self.dtype), self._step, self._own[rows] - data.start

    def add_sums(self, rows: slice, data: slice, to: _Running) -> None:
        pairs_gram.add_sums(self._queries[rows], self._data[data], *self._tile(rows, data), to.shift, to.total)

    def add_laplace(self, rows: slice, data: slice, constant: float, log2_weights: np.ndarray, to: _Running) -> None:
        queries, weights = self._queries[rows], log2_weights[data]
        pairs_gram.add_laplace(queries, self._data[data], weights, constant, *self._tile(rows, data), *to)

    def add_laplace_moments(
        self, rows: slice, data: slice, constant: float, log2_weights: np.ndarray, to: _Running
    ) -> None:
        queries, points = (self._queries[rows], self._query_basis[rows]), (self._data[data], self._basis[data])
        operands_, weights = (queries[0], points[0], queries[1], points[1]), log2_weights[data]
        pairs_gram.add_laplace_moments(*operands_, weights, constant, self.unit, *self._tile(rows, data), *to)

    def add_values(self, rows: slice, data: slice, values: np.ndarray, to: _Running) -> None:
        self._add_values(rows, data, values, -math.inf, to)

    def add_moments(self, rows: slice, data: slice, to: _Running) -> None:
        self._add_values(rows, data, self._basis, tiles.NEGLIGIBLE[self.dtype.type], to)

    def _add_values(self, rows: slice, data: slice, values: np.ndarray, least: float, to: _Running) -> None:
        queries, points = self._queries[rows], self._data[data]
        pairs_gram.add_values(queries, points, values[data], least, *self._tile(rows, data), *to)

    def about_queries(self, rows: slice, total: np.ndarray, moments: np.ndarray) -> np.ndarray:
        if self._of_gradient:
            total, moments = moments[:, -1], moments[:, :-1]
        return self._about(self._points[rows], total, moments)

    def add_mutual(self, rows: slice, data: slice, totals: tuple[Any, Any], moments: tuple[Any, Any]) -> None:
        queries, points = (self._queries[rows], self._query_basis[rows]), (self._data[data], self._basis[data])
        sums = totals[0][rows], totals[1][data], moments[0][rows], moments[1][data]
        pairs_gram.add_mutual(queries[0], points[0], queries[1], points[1], *self._tile(rows, data), *sums)

    def add_own(self, rows: slice, data: slice, total: np.ndarray, moments: np.ndarray) -> None:
        sums = _Running.none(rows.stop - rows.start, self.d, self.dtype)
        self.add_moments(rows, data, sums)
        scale = np.exp2(-sums.shift.astype(np.float64))
        total[rows] += scale * sums.total
        moments[rows] += scale[:, None] * sums.moments

    def about_both(self, sums: tuple[PartialSums, PartialSums]) -> tuple[PartialSums, PartialSums]:
        at_queries, at_data = (
            part._replace(moments=self._about(points, part.total, part.moments))
            for points, part in zip((self._points, self._X), sums, strict=True)
        )
        return at_queries, at_data

    def _about(self, points: np.ndarray, total: np.ndarray, moments: np.ndarray) -> np.ndarray:
        z = (points - self._centre) / self.unit
        return (moments - total[:, None] * z) * self.unit


class _Differences:
    """Exponents by squared differences: accurate however far the data reach.

    The points stay as they were given: a difference of two of them is then rounded once. In single precision those that
    were given in double are rounded about the ``centre``. To those of whitened points that reach far, the difference of
    what these have lost is added.
    """

    def __init__(
        self,
        X: np.ndarray,
        Y: np.ndarray | None,
        h: float,
        log2_weights: Any,
        local_factors: np.ndarray | None,
        store: Kept | None,
        *,
        own: np.ndarray | None = None,
        of_gradient: bool,
        lost: tuple[Any, Any] | None = None,
        dtype: Any = np.float64,
        centre: np.ndarray,
    ) -> None:
        self.dtype = np.dtype(dtype)
        self.stretch = query_blocks.tile_columns(self.dtype)
        self._own = own
        self._scale = self.dtype.type(0.5 * _LOG2_E / h**2)
        self._softness = None if local_factors is None else 1 / (local_factors * local_factors)
        self._of_gradient, self.columns = of_gradient, X.shape[1]
        self._log2_weights = np.full(len(X), log2_weights, self.dtype)

        def rounded(A: np.ndarray) -> np.ndarray:
            return A - centre if A.dtype.itemsize > self.dtype.itemsize else A

        self._data = kept(
            store, f"columns {self.dtype}", X, None, lambda: np.ascontiguousarray(rounded(X).T, self.dtype)
        )
        self._queries = np.ascontiguousarray(rounded(X if Y is None else Y), self.dtype)
        self._lost = lost and (lost[0], lost[0] if lost[1] is None else lost[1])
        self.m = len(self._queries)

    def add_sums(self, rows: slice, data: slice, to: _Running) -> None:
        tiles.sum_weights(self._exponents(rows, data), to.shift, to.total)

    def add_laplace(self, rows: slice, data: slice, constant: float, log2_weights: np.ndarray, to: _Running) -> None:
        tiles.weigh_laplace(self._exponents(rows, data), to.shift, constant, log2_weights[data], to.total, to.moments)

    def add_laplace_moments(
        self, rows: slice, data: slice, constant: float, log2_weights: np.ndarray, to: _Running
    ) -> None:
        tile, (rescale, sizes) = self._exponents(rows, data), np.empty((2, len(to.total)))
        tiles.weigh_by_laplace(tile, to.shift, rescale, constant, log2_weights[data], to.total, sizes)
        to.moments[:] *= rescale[:, None]
        self._soften(tile, data)
        self._add_differences(tile, rows, data, to.moments)

    def add_values(self, rows: slice, data: slice, values: np.ndarray, to: _Running) -> None:
        tile = self._weigh(rows, data, -math.inf, to)
        to.moments[:] += np.dot(tile, values[data])

    def add_moments(self, rows: slice, data: slice, to: _Running) -> None:
        tile = self._weigh(rows, data, tiles.NEGLIGIBLE[self.dtype.type], to)
        self._soften(tile, data)
        self._add_differences(tile, rows, data, to.moments)

    def about_queries(self, rows: slice, total: np.ndarray, moments: np.ndarray) -> np.ndarray:
        return moments

    def _columns(self, data: slice) -> np.ndarray:
        """Columns of some data, contiguous: loops over others take ten times as long."""
        return np.ascontiguousarray(self._data[:, data])

    def _exponents(self, rows: slice, data: slice) -> np.ndarray:
        """One tile, in bits."""
        queries, points, weights = self._queries[rows], self._columns(data), self._log2_weights[data]
        tile = query_blocks.scratch_tile(len(queries), len(weights), self.dtype)
        of_tile = weights if self._softness is None else np.zeros_like(weights)
        if self._lost is None:
            tiles.differences(queries, points, self._scale, of_tile, tile)
        else:
            of_data, of_queries = self._lost[0][data].T.copy(), np.ascontiguousarray(self._lost[1][rows])
            tiles.whitened_differences(queries, points, of_queries, of_data, self._scale, of_tile, tile)
        if self._softness is not None:
            tile *= self._softness[data]
            tile += weights
        if self._own is not None:
            nothing = _NO_EXPONENT if self.dtype == np.float64 else pairs_gram.NO_EXPONENT
            tiles.leave_out(tile, self._own[rows] - data.start, nothing)
        return tile

    def _add_differences(self, tile: np.ndarray, rows: slice, data: slice, moments: np.ndarray) -> None:
        tiles.add_difference_moments(tile, self._queries[rows], self._columns(data), moments)
        if self._lost is not None:
            of_data, of_queries = self._lost
            moments += tile @ of_data[data] - tile.sum(axis=1)[:, None] * of_queries[rows]

    def _soften(self, tile: np.ndarray, data: slice) -> None:
        """Turn weights into those of a gradient's moments, where these are wanted."""
        if self._of_gradient and self._softness is not None:
            tile *= self._softness[data]

    def _weigh(self, rows: slice, data: slice, least: float, to: _Running) -> np.ndarray:
        """One tile of weights, whose sums are added."""
        tile, rescale = self._exponents(rows, data), np.empty(len(to.total))
        tiles.weigh(tile, to.shift, rescale, to.total, least)
        to.moments[:] *= rescale[:, None]
        return tile


@meanwhile.answered_by(few.many)
def partial_sums(
    X: np.ndarray,
    Y: np.ndarray | None,
    h: float,
    output: Output,
    options: Options,
    *,
    values: np.ndarray | None = None,
    ratio: bool = False,
) -> PartialSums:
    """Sum kernels of the data ``X`` (n, d) at the queries ``Y`` (m, d), or at the data where it is None.

    See :class:`cukde.density.sums.PartialSums` for the outputs. Centre and scaled squared radius are computed where the
    options leave them out. Every run of the same call on the same machine gives the same bits, without
    ``deterministic`` once all is compiled; ``ratio`` changes nothing here.

    With local factors the logarithms of weights are those of weights over the factors' power d, and pairs are taken in
    double.
    """
    given = (X, Y, h, output, options), {"values": values, "ratio": ratio}
    options = _located(options, X, Y, h)
    log2_weights: Any = 0.0
    largest = 0.0  # logarithm of a weight, without which those of the others add no rounding
    if options.log_weights is not None:
        Y = X if Y is None else Y
        X, values, options = weighted(X, values, options)
        if len(X) == 0:
            return nothing_of(output, len(Y), X.shape[1], values)
        largest = float(options.log_weights.max())
        log2_weights = (options.log_weights - largest) * _LOG2_E
    alike = Y is None and not options.own_out  # and without weights
    work = len(X) * len(X if Y is None else Y) * (_EXPONENTIAL + X.shape[1])
    attempt = meanwhile.Attempt(work <= _MOST_MEANWHILE and not options.deterministic)
    distant = _farther_than(X, Y, h, options)
    chosen = np.float32 if distant > _FARTHER else None
    with attempt:
        product = chosen or _product(X.shape[1], options, own=alike)
        if _takes_single_differences(X, Y, h, options):
            product = np.float32  # about as fast
        near = skipping_choice.posed(X, Y, h, output, options, product=product, values=values)
        if near is not None:
            return skipping_passes.run(near)
    pairs = _pairs(X, Y, h, log2_weights, options, chosen, single=True)
    if chosen is not None and not distant > _least_of_farther(pairs, options):
        pairs, chosen = _pairs(X, Y, h, log2_weights, options, single=True), None
    if output == "moments" and alike and isinstance(pairs, _Gram) and len(X) >= _OWN_ROWS * threads.count():
        sums: PartialSums = mutual.run_own(pairs)
    else:
        sums = _Sums(pairs, output, values, log2_weights, X.shape).run()
        if pairs.dtype == np.float32:
            served = -math.inf if chosen is not None else _served(pairs, X.shape[1])
            farther = math.inf if options.log_weights is not None else _least_of_farther(pairs, options)
            far = np.flatnonzero((sums.reference < -served) & (sums.reference > -farther))
            if len(far):
                some = options._replace(own=options.own[far]) if options.own_out else options
                double = None if options.squared_radius > _RADIUS_OF_DOUBLE else np.float64
                pairs = _pairs(X, (X if Y is None else Y)[far], h, log2_weights, some, double)
                put(sums, far, _Sums(pairs, output, values, log2_weights, X.shape).run())
        if largest:
            sums = sums._replace(reference=sums.reference + largest)
    attempt.later(partial_sums, *given)
    return sums


sums_without_own = partial_sums


def mutual_sums(
    A: np.ndarray, B: np.ndarray, h: float, options: Options, *, ratio: bool
) -> tuple[PartialSums, PartialSums]:
    """Sum kernels of the data ``B`` (m, d) at the points ``A`` (n, d), and of ``A`` at ``B``: output "moments" of both.

    Each exponential is taken once where exponents come from a product. Where points lie too far apart for that, these
    are two passes of :func:`partial_sums`.

    References are 0 in the first case, as no exponent without weights is more. A total may underflow, to 0 or to few
    bits. That is accurate beside the sums over a block of data that has the point itself: their total is at least 1,
    and these are merged with them.
    """
    options = _located(options, A, B, h)
    pairs = _pairs(B, A, h, 0.0, options)
    if isinstance(pairs, _Gram):
        return mutual.run(pairs)
    at_a, at_b = (partial_sums(X, Y, h, "moments", options, ratio=ratio) for X, Y in ((B, A), (A, B)))
    return at_a, at_b


def density(
    X: np.ndarray, Y: np.ndarray | None, h: float, options: Options, epilogue: Epilogue, *, points: None = None
) -> np.ndarray:
    """Return the density at the queries, shape (m,), or its logarithm."""
    return to_density(partial_sums(X, Y, h, "sum", options), *epilogue, np)


def debias(
    X: np.ndarray, Y: np.ndarray, h: float, score_h: float, options: Options
) -> tuple[np.ndarray, np.ndarray, None]:
    """Return the data moved by half of (h / score_h)^2 of their mean shift, (n, d), and the queries, both in float64.

    The third result is for backends that prepare the next pass.
    """
    sums = partial_sums(X, None, score_h, "moments", options.at_ratio(h / score_h))
    return *ready(X, Y, sums, h, score_h), None


def squared_radii(precision: str, d: int) -> tuple[float, ...]:
    """Scaled squared radii that stand for all others: of single and double precision products, and of differences."""
    return 0.0, 2 * _SINGLE_GRAM_RADIUS, 2 * pairs_tolerance.PRODUCTS_IN_DOUBLE["float32"]


def _located(options: Options, X: np.ndarray, Y: np.ndarray | None, h: float) -> Options:
    """Return the options with a centre, by default the mean of ``X``, and the scaled squared radius about it."""
    centre, squared_radius = options.centre, None if options.bounded else options.squared_radius
    if centre is not None and squared_radius is not None:
        return options
    if centre is None:
        centre = X.mean(axis=0, dtype=np.float64)
    if squared_radius is None:
        squared_radius = max(survey.look(points, centre)[0] for points in (X, Y) if points is not None) / h**2
    return options._replace(centre=centre, squared_radius=squared_radius, bounded=False)


def _product(d: int, options: Options, *, own: bool = False) -> Any:
    """Pick how exponents of all pairs are formed, by precision and scaled squared radius: the only place that decides.

    ``own`` says that queries are the data, with their own terms and without weights. Return the dtype of the product
    that gives them, or None: by differences.
    """
    precision, squared_radius = options.precision, _squared_radius(options)
    if precision in ("float32", "tf32"):
        # Logarithms of factors may be large: single precision is not enough for exponents that have them.
        if options.local_factors is None and squared_radius <= _most_of_single(d, own=own):
            return np.float32
        if squared_radius <= pairs_tolerance.PRODUCTS_IN_DOUBLE[precision]:
            return np.float64
    elif precision == "float64" and squared_radius <= pairs_tolerance.PRODUCTS_IN_DOUBLE[precision]:
        return np.float64
    return None


def _most_of_single(d: int, *, own: bool) -> float:
    """Largest scaled squared radius of products in single precision, of data at themselves or not."""
    if own:
        return min(_MOST_OF_OWN, max(_SINGLE_GRAM_RADIUS, _OWN_GRAM_RADIUS_ROOT_D * math.sqrt(d)))
    return min(_SINGLE_GRAM_RADIUS, _SINGLE_GRAM_RADIUS_ROOT_D / math.sqrt(d))


def _served(pairs: _Pairs, d: int) -> float:
    """Smallest exponent of a query up to which single precision serves it."""
    return min(_FAR, _FAR_ROOT_D / math.sqrt(d)) if isinstance(pairs, _Gram) else _FAR_OF_DIFFERENCES


def _takes_single_differences(X: np.ndarray, Y: np.ndarray | None, h: float, options: Options) -> bool:
    """Whether differences in single precision are accurate, and take less time than products in double."""
    given = all(A is None or A.dtype == np.float32 for A in (X, Y))
    radius = float(options.squared_radius)
    return (
        options.precision in ("float32", "tf32")
        and options.local_factors is None
        and X.shape[1] <= _COLUMNS_OF_DIFFERENCES
        and radius < (math.inf if given else _RADIUS_OF_ROUNDED)
        and h * h > _LEAST_SQUARE
        and max(1.0, radius) * h * h < _LARGEST_SQUARE
    )


def _least_of_farther(pairs: _Pairs, options: Options) -> float:
    """Smallest exponent of a query from which single precision serves it, whatever the radius."""
    if not isinstance(pairs, _Gram):
        return _FARTHER
    squared_radius_of_four = 2 / _LOG2_E * pairs.norm
    return max(_FARTHER, math.sqrt(squared_radius_of_four * options.squared_radius) / _RADII_OF_FARTHER)


def _farther_than(X: np.ndarray, Y: np.ndarray | None, h: float, options: Options) -> float:
    """Smallest exponent of a sample of queries that products in double would serve; 0 where it does not pay."""
    d = X.shape[1]
    if (
        Y is None
        or len(Y) < _LEAST_QUERIES
        or d < _LEAST_COLUMNS
        or options.precision not in ("float32", "tf32")
        or options.log_weights is not None
        or options.local_factors is not None
        or not _most_of_single(d, own=False) < options.squared_radius < math.inf
    ):
        return 0.0
    some = Y[:: len(Y) // _SAMPLE][:_SAMPLE].astype(np.float64)
    squares = np.empty((len(some), len(X)))
    few_queries_loops.squares(X, some, squares)
    return float(squares.min()) / (2 * h * h)


def _squared_radius(options: Options) -> float:
    """The scaled squared radius, in bandwidths of the narrowest point."""
    if options.local_factors is None:
        return float(options.squared_radius)
    narrowest = _RADIUS_OF_FACTORS * min(1.0, float(options.local_factors.min())) ** 2
    return options.squared_radius / narrowest if narrowest else math.inf  # of unchecked factors


def _pairs(
    X: np.ndarray,
    Y: np.ndarray | None,
    h: float,
    log2_weights: Any,
    options: Options,
    dtype: Any = None,
    *,
    single: bool = False,
) -> _Pairs:
    """How pairs are computed; ``dtype`` that of a product, by default what their radius asks for.

    ``single``: differences in single precision may be taken in place of double.
    """
    more: dict[str, Any] = {"own": options.own, "of_gradient": options.of_gradient}
    own = Y is None and not options.own_out  # and without weights
    given, others = dtype, (options.local_factors, options.kept)
    dtype = given or _product(X.shape[1], options, own=own)
    by_differences: dict[str, Any] = {"lost": options.lost, "centre": options.centre, **more}
    single = single and given is None and _takes_single_differences(X, Y, h, options)
    if single and dtype != np.float32:
        return _Differences(X, Y, h, log2_weights, *others, dtype=np.float32, **by_differences)
    if dtype is None:
        return _Differences(X, Y, h, log2_weights, *others, **by_differences)
    group = _group(X.shape[1], _squared_radius(options), dtype)
    with meanwhile.within(meanwhile.WAITING if options.deterministic else meanwhile.mode.get()):
        pairs = _Gram(X, Y, h, options.centre, log2_weights, dtype, group, *others, **more)
    if given is None and dtype == np.float32 and pairs.norm > 0.5 * _LOG2_E * _SINGLE_GRAM_RADIUS_OF_FOUR:
        if single:
            return _Differences(X, Y, h, log2_weights, *others, dtype=np.float32, **by_differences)
        return _pairs(X, Y, h, log2_weights, options, np.float64)
    return pairs


def _group(d: int, squared_radius: float, dtype: Any) -> int:
    """Dimensions that share a norm."""
    if squared_radius * math.sqrt(d) <= _ONE_GROUP[dtype]:
        return d
    return 8 if squared_radius <= _EIGHT[dtype] else 4


class _Sums:
    """One pass over all tiles."""

    def __init__(self, pairs: _Pairs, output: Output, values: Any, log2_weights: Any, shape: tuple[int, int]) -> None:
        self._pairs = pairs
        self._output = output
        self._n, self._d = shape
        self._constant = laplace_constant(output, self._d)
        if self._constant is not None:
            # Contiguous and writable, or the loops would take one number after the other.
            self._log2_weights = np.full(self._n, log2_weights, pairs.dtype)
        self._k = moment_columns(output, self._d, values)
        self._columns = pairs.columns if output == "moments" else self._k
        if output == "values":
            self._values = np.require(values, pairs.dtype, ["C", "W"])

    def run(self) -> PartialSums:
        pairs = self._pairs
        return query_blocks.run(self._block, self._n, pairs.m, self._k, pairs.dtype)

    def _block(self, rows: slice, data: slice) -> PartialSums:
        """Sums of a block of queries over a stretch of the data."""
        pairs = self._pairs
        sums = _Running.none(rows.stop - rows.start, self._columns, pairs.dtype)
        for start in range(data.start, data.stop, pairs.stretch):
            threads.checkpoint()
            self._add(rows, slice(start, min(start + pairs.stretch, data.stop)), sums)
        moments = sums.moments
        if self._output == "moments":
            moments = pairs.about_queries(rows, sums.total, moments)
        reference = sums.shift.astype(np.float64) * -math.log(2)
        return PartialSums(reference, sums.total, moments if self._k else None)

    def _add(self, rows: slice, data: slice, sums: _Running) -> None:
        pairs = self._pairs
        if self._constant is not None:
            add = pairs.add_laplace if self._output == "laplace" else pairs.add_laplace_moments
            add(rows, data, self._constant, self._log2_weights, sums)
        elif self._output == "values":
            pairs.add_values(rows, data, self._values, sums)
        elif self._output == "moments":
            pairs.add_moments(rows, data, sums)
        else:
            pairs.add_sums(rows, data, sums)
