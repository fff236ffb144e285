"""Sums of Gaussian kernels over all pairs on the CPU: BLAS tiles, a Numba exp2 in place, BLAS again.

Each thread takes a block of queries through the data tile by tile, keeping the largest exponent of each
query (log-sum-exp, so nothing under- or overflows) and its sums in float64. Memory is O((n + m) d) beside
one tile a thread.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cukde.core.cpu import meanwhile, survey, threads
from cukde.density.kept import Kept, kept
from cukde.density.options import Options
from cukde.density.pairs import tolerance as pairs_tolerance
from cukde.density.pairs.cpu import (
    differences,
    few,
    few_queries_loops,
    gram as pairs_gram,
    mutual,
    operands,
    query_blocks,
    tiles,
)
from cukde.density.pairs.cpu.skipping import choice as skipping_choice, passes as skipping_passes
from cukde.density.pairs.cpu.weighted import nothing_of, weighted
from cukde.density.sums import Epilogue, Output, PartialSums, laplace_constant, moment_columns, put, ready, to_density

_LOG2_E = math.log2(math.e)

# Dimensions that share a norm in the operands of the product, see _Gram: small groups cost columns, and are needed as
# the scaled squared radius grows. One norm serves while that times sqrt(d) is at most the limit of _ONE_GROUP, eight
# dimensions share one up to that of _EIGHT, and beyond four do.
_ONE_GROUP = {np.float32: 170.0, np.float64: 4000.0}
_EIGHT = {np.float32: 44.0, np.float64: 0.0}

# Largest scaled squared radius at which exponents may come from a product in single precision, whose terms cancel: the
# running sum of many dimensions rounds too, hence the second limit, divided by sqrt(d), and the squared radius of any
# four dimensions has a limit of its own, as clusters may lie along few. Of data at themselves it is the fourth, times
# sqrt(d), and at most the fifth: the exponents that count there are small, so that running sums are, and groups of
# dimensions round independently. Worst density errors measured at the limits (python -m benchmarks.density.gram_error):
# 7e-6 single, 6e-13 double.
_SINGLE_GRAM_RADIUS, _SINGLE_GRAM_RADIUS_ROOT_D, _SINGLE_GRAM_RADIUS_OF_FOUR = 150.0, 600.0, 88.0
_OWN_GRAM_RADIUS_ROOT_D, _MOST_OF_OWN = 27.0, 1000.0

# Differences in single precision take half the time of those in double: of two cores 0.26 ns a pair beside 0.47 of 8
# columns, 0.72 beside 1.25 of 64. A query's exponent is off by 0.3 eps of itself, at worst by 1: from the first on, and
# up to the second, from where the error that is promised grows with the exponent, it is taken in double.
_FAR, _FARTHER = 32.0, 80.0

# Points in double are rounded about the centre, up to the first scaled squared radius, and of queries whose exponent is
# more than it over the second: the rounding of coordinates counts times distances.
_RADIUS_OF_ROUNDED, _RADII_OF_FARTHER = 450.0, 20.0
_LEAST_SQUARE, _LARGEST_SQUARE = 1e-24, 1e35  # of a bandwidth, and of a distance to the centre, in single precision

# A sample of queries tells whether all are so far from the data, or most are taken in double anyway; it pays from so
# many queries and columns on.
_SAMPLE, _LEAST_QUERIES, _LEAST_COLUMNS = 8, 64, 8

_MANY_PAIRS = 2**20

# Some hundredths of a second of work of a thread, between which it checks for an interrupt.
_TILES_OF_STRETCH = 32

# Sums of absolute coordinates beyond which a point may lie farther out than is allowed, in bandwidths, and beyond which
# squares may leave single precision.
_MOST_BANDWIDTHS, _MOST_SINGLE = 1e13, 1e17

# Multiply-adds that are worth a thread.
_LEAST_WORK = 2**22

# Coordinates of a tile's data that stay in cache, and the fewest rows that are worth a tile.
_MOST_COORDINATES, _LEAST_STEP = 2**17, 256

# Multiply-adds of all pairs that take less than compiling the pass that leaves out some; an exponential takes as long
# as so many.
_MOST_MEANWHILE, _EXPONENTIAL = 2**37, 16

_NO_EXPONENT, _NO_SINGLE_EXPONENT = -1e305, np.float32(-1e30)  # of pairs that are left out: below any other

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
        dtype: Any,
        group: int,
        store: Kept | None,
    ) -> None:
        self.dtype = np.dtype(dtype)
        self.unit = h / math.sqrt(_LOG2_E)  # exponents are then in bits
        self._centre, self._group, self.d = centre, group, X.shape[1]
        self._X, self._points = X, X if Y is None else Y
        self.shape = len(self._points), len(X)
        width = self.d + 2 * -(-self.d // group)
        self._step = query_blocks.tile_columns(self.dtype)
        self.stretch = _TILES_OF_STRETCH * self._step

        def operand() -> tuple[np.ndarray, float]:
            out = np.empty((len(X), width), dtype)
            return out, operands.operand(X, centre, self.unit, group, True, out)

        key = h, centre.tobytes(), group
        self._data, norm = kept(store, f"operand {self.dtype}", X, key, operand)
        self._basis = kept(store, "basis", self._data, None, lambda: self._coordinates(self._data))
        self._queries = np.empty((self.shape[0], width), dtype)
        self.norm = max(norm, operands.operand(self._points, centre, self.unit, group, False, self._queries))
        self._query_basis = self._basis if Y is None else self._coordinates(self._queries)

    def _coordinates(self, operand: np.ndarray) -> np.ndarray:
        """Coordinates of points, (rows, d), as they stand among the operands."""
        return np.ascontiguousarray(operand[:, [k + 1 + 2 * (k // self._group) for k in range(self.d)]])

    def about_queries(self, rows: slice, total: np.ndarray, moments: np.ndarray) -> np.ndarray:
        return self._about(self._points[rows], total, moments)

    def add_mutual(self, rows: slice, data: slice, totals: tuple[Any, Any], moments: tuple[Any, Any]) -> None:
        queries, points = (self._queries[rows], self._query_basis[rows]), (self._data[data], self._basis[data])
        sums, room = (totals[0][rows], totals[1][data], moments[0][rows], moments[1][data]), self._room
        pairs_gram.add_mutual(queries[0], points[0], queries[1], points[1], *room, *sums)

    def add_own(self, rows: slice, data: slice, total: np.ndarray, moments: np.ndarray) -> None:
        sums = _Running.none(rows.stop - rows.start, self.d, self.dtype)
        points, least = (self._queries[rows], self._data[data], self._basis[data]), tiles.NEGLIGIBLE[self.dtype.type]
        pairs_gram.add_moments(*points, least, *self._room, *sums)
        scale = np.exp2(-sums.shift.astype(np.float64))
        total[rows] += scale * sums.total
        moments[rows] += scale[:, None] * sums.moments

    @property
    def _room(self) -> tuple[np.ndarray, int]:
        """Memory of a tile, and its data rows."""
        return query_blocks.scratch(self.dtype), self._step

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
        options: Options,
        dtype: Any,
    ) -> None:
        self.dtype, d = np.dtype(dtype), X.shape[1]
        self.m = len(X if Y is None else Y)
        self._step = min(query_blocks.tile_columns(self.dtype), max(_LEAST_STEP, _MOST_COORDINATES // d))
        self.stretch = _TILES_OF_STRETCH * self._step
        self.of_gradient = options.of_gradient
        self.sizes: list[float] = []  # sums of absolute coordinates of the stretches that were taken
        none = np.empty(0), np.empty((0, d))
        queries = X if Y is None else Y
        self.rounded = max(X.itemsize, queries.itemsize) > self.dtype.itemsize
        centre = options.centre if self.rounded else none[0]
        factors, lost = options.local_factors, options.lost
        log2_weights = np.empty(0)
        if options.log_weights is not None:  # less the largest, as those of the others then add no rounding
            log2_weights = (options.log_weights - options.log_weights.max()) * _LOG2_E
        self._points = differences.Points(
            np.require(queries - centre if self.rounded else queries, self.dtype, ["C", "W"]),
            np.require(X, None if self.rounded else self.dtype, ["C", "W"]),  # or all would be compiled anew
            centre,
            log2_weights.astype(self.dtype),
            none[0] if factors is None else 1 / (factors * factors),
            none[1] if lost is None else np.require(lost[0] if lost[1] is None else lost[1], None, ["C", "W"]),
            none[1] if lost is None else np.require(lost[0], None, ["C", "W"]),
            np.empty(0, np.int64) if options.own is None else options.own,
            self.dtype.type(0.5 * _LOG2_E / h**2),
            _NO_EXPONENT if self.dtype == np.float64 else _NO_SINGLE_EXPONENT,
        )

    def add(self, loop: Any, rows: slice, data: slice, to: tuple[Any, ...], *more: Any) -> None:
        """Add some data to sums of some queries, by one of the loops."""
        of, d = self._points, self._points.data.shape[1]
        of = of._replace(queries=of.queries[rows], lost_queries=of.lost_queries[rows], own=of.own[rows])
        columns = np.empty(d * min(self._step, data.stop - data.start), self.dtype)
        room = differences.Room(query_blocks.scratch(self.dtype), columns, self._step, np.zeros(1))
        loop(of, data.start, data.stop, room, *more, *to)
        self.sizes.append(float(room.size[0]))


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
    if options.log_weights is not None:
        Y = X if Y is None else Y
        X, values, options = weighted(X, values, options)
        if len(X) == 0:
            return nothing_of(output, len(Y), X.shape[1], values)
    alike = Y is None and not options.own_out  # and without weights
    work = len(X) * len(X if Y is None else Y) * (_EXPONENTIAL + X.shape[1])
    attempt = meanwhile.Attempt(work <= _MOST_MEANWHILE and not options.deterministic)
    single = _takes_single(X, Y, h, options)
    with attempt:
        near = skipping_choice.posed(X, Y, h, output, options, single=single, values=values)
        if near is not None:
            return skipping_passes.run(near)
    once = output == "moments" and alike and len(X) >= _OWN_ROWS * threads.count()
    gram = _gram(X, None, h, options) if once else None
    if gram is not None:
        sums: PartialSums = mutual.run_own(gram)
    else:
        if single and len(X) * len(X if Y is None else Y) > _MANY_PAIRS:
            sampled = float(np.median(_sampled(X, Y, h)))
            single = not _FAR < sampled < (_FARTHER if options.log_weights is None else math.inf)
        sums = _sums(X, Y, h, output, options, values, single=single)
    attempt.later(partial_sums, *given)
    return sums


sums_without_own = partial_sums


def _sums(
    X: np.ndarray,
    Y: np.ndarray | None,
    h: float,
    output: Output,
    options: Options,
    values: np.ndarray | None = None,
    *,
    single: bool,
    most: float = math.inf,
) -> Any:
    """Sums by differences, in ``single`` precision but for those of queries that it does not serve.

    None where a sum of absolute coordinates is not below ``most``.
    """
    pairs = _Differences(X, Y, h, options, np.float32 if single else np.float64)
    sums = _Sums(pairs, output, values, X.shape).run()
    if not all(size < most for size in pairs.sizes) and most < math.inf:
        return None
    if options.log_weights is not None:
        sums = sums._replace(reference=sums.reference + float(options.log_weights.max()))
    if single:
        farther, served = _FARTHER, _FAR
        if pairs.rounded and options.squared_radius > _RADIUS_OF_ROUNDED:
            farther, served = max(farther, options.squared_radius / _RADII_OF_FARTHER), -math.inf
        farther = math.inf if options.log_weights is not None else farther
        far = np.flatnonzero((sums.reference < -served) & (sums.reference > -farther))
        if len(far):
            some = options._replace(own=options.own[far]) if options.own_out else options
            put(sums, far, _sums(X, (X if Y is None else Y)[far], h, output, some, values, single=False))
    return sums


def sums_of_unchecked(X: np.ndarray, Y: np.ndarray, h: float, output: Output, options: Options) -> PartialSums | None:
    """Return sums of data and queries whose values nobody has looked at; None where these have to be looked at."""
    single = _takes_single(X, Y, h, options._replace(squared_radius=0.0))
    if single and X.dtype != np.float32:
        single = False  # centre and radius are unknown
    most = min(_MOST_BANDWIDTHS * h, _MOST_SINGLE if single else math.inf)
    if not np.abs(Y).sum(dtype=np.float64) < most:
        return None
    sums: PartialSums | None = _sums(X, Y, h, output, options, single=single, most=most)
    return sums


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
    pairs = _gram(B, A, h, options)
    if pairs is not None:
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
    """Scaled squared radii that stand for all others: of single and double precision."""
    return 0.0, 2 * _RADIUS_OF_ROUNDED, 2 * pairs_tolerance.PRODUCTS_IN_DOUBLE["float32"]


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


def _takes_single(X: np.ndarray, Y: np.ndarray | None, h: float, options: Options) -> bool:
    """Whether differences in single precision are accurate: the only place that decides."""
    if options.precision not in ("float32", "tf32") or options.local_factors is not None:
        return False  # logarithms of factors may be large
    radius = float(options.squared_radius)
    if not (h * h > _LEAST_SQUARE and max(1.0, radius) * h * h < _LARGEST_SQUARE):  # nor of what is not a number
        return False
    if radius <= _RADIUS_OF_ROUNDED or all(A is None or A.dtype == np.float32 for A in (X, Y)):
        return True
    return options.log_weights is None and float(_sampled(X, Y, h).min()) > radius / _RADII_OF_FARTHER


def _sampled(X: np.ndarray, Y: np.ndarray | None, h: float) -> np.ndarray:
    """Smallest exponents of a sample of queries beside one of the data; 0 where it does not pay."""
    if Y is None or len(Y) < _LEAST_QUERIES or X.shape[1] < _LEAST_COLUMNS:
        return np.zeros(1)
    some, data = Y[:: len(Y) // _SAMPLE][:_SAMPLE].astype(np.float64), X[::_SAMPLE].copy()
    squares = np.empty((len(some), len(data)))
    few_queries_loops.squares(data, some, squares)
    return squares.min(axis=1) / (2 * h * h)


def _gram(X: np.ndarray, Y: np.ndarray | None, h: float, options: Options) -> _Gram | None:
    """Products that take each exponential once for both of its points; None where points lie too far apart.

    In single precision those in double take longer than differences do.
    """
    radius, d = float(options.squared_radius), X.shape[1]
    single = options.precision in ("float32", "tf32")
    dtype = np.float32 if single else np.float64
    most = min(_SINGLE_GRAM_RADIUS, _SINGLE_GRAM_RADIUS_ROOT_D / math.sqrt(d))
    if Y is None:
        most = min(_MOST_OF_OWN, max(_SINGLE_GRAM_RADIUS, _OWN_GRAM_RADIUS_ROOT_D * math.sqrt(d)))
    if options.precision == "ieee" or not radius <= (most if single else pairs_tolerance.PRODUCTS_IN_DOUBLE["float64"]):
        return None
    with meanwhile.within(meanwhile.WAITING if options.deterministic else meanwhile.mode.get()):
        pairs = _Gram(X, Y, h, options.centre, dtype, _group(d, radius, dtype), options.kept)
    return None if single and pairs.norm > 0.5 * _LOG2_E * _SINGLE_GRAM_RADIUS_OF_FOUR else pairs


def _group(d: int, squared_radius: float, dtype: Any) -> int:
    """Dimensions that share a norm."""
    if squared_radius * math.sqrt(d) <= _ONE_GROUP[dtype]:
        return d
    return 8 if squared_radius <= _EIGHT[dtype] else 4


class _Sums:
    """One pass over all tiles."""

    def __init__(self, pairs: _Differences, output: Output, values: Any, shape: tuple[int, int]) -> None:
        self._pairs = pairs
        self._output = output
        self._n, self._d = shape
        self._constant = laplace_constant(output, self._d)
        self._k = moment_columns(output, self._d, values)
        if output == "values":
            self._values = np.require(values, pairs.dtype, ["C", "W"])

    def run(self) -> PartialSums:
        pairs = self._pairs
        least = _LEAST_WORK // ((_EXPONENTIAL + self._d) * max(1, min(pairs.m, query_blocks.TILE_QUERIES)))
        least = max(least, query_blocks.tile_columns(pairs.dtype))
        sizes, blas = (self._n, pairs.m, self._k), self._output == "values"
        return query_blocks.run(self._block, *sizes, pairs.dtype, blas=blas, least=least)

    def _block(self, rows: slice, data: slice) -> PartialSums:
        """Sums of a block of queries over a stretch of the data."""
        pairs = self._pairs
        sums = _Running.none(rows.stop - rows.start, self._k, pairs.dtype)
        for start in range(data.start, data.stop, pairs.stretch):
            threads.checkpoint()
            self._add(rows, slice(start, min(start + pairs.stretch, data.stop)), sums)
        reference = sums.shift.astype(np.float64) * -math.log(2)
        return PartialSums(reference, sums.total, sums.moments if self._k else None)

    def _add(self, rows: slice, data: slice, sums: _Running) -> None:
        add, soften = self._pairs.add, self._pairs.of_gradient
        if self._output == "laplace":
            add(differences.add_laplace, rows, data, sums, self._constant)
        elif self._output == "laplace_moments":
            add(differences.add_laplace_moments, rows, data, sums, self._constant, soften)
        elif self._output == "values":
            add(differences.add_values, rows, data, sums, self._values)
        elif self._output == "moments":
            add(differences.add_moments, rows, data, sums, tiles.NEGLIGIBLE[self._pairs.dtype.type], soften)
        else:
            add(differences.add_sums, rows, data, sums[:2])
