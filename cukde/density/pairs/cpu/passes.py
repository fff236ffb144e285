"""Sums of Gaussian kernels over all pairs on the CPU: tiles of squared differences, and a Numba exp2 in place.

Each thread takes a block of queries through the data tile by tile, keeping the largest exponent of each
query (log-sum-exp, so nothing under- or overflows) and its sums in float64. Memory is O((n + m) d) beside
one tile a thread.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cukde.core.cpu import meanwhile, survey, threads
from cukde.core.plan import note
from cukde.density.options import Options
from cukde.density.pairs.cpu import (
    differences,
    few,
    few_queries_loops,
    mutual,
    products,
    query_blocks,
    tiles,
)
from cukde.density.pairs.cpu.skipping import choice as skipping_choice, passes as skipping_passes
from cukde.density.pairs.cpu.weighted import log2_weights, nothing_of, weighted
from cukde.density.plan import cpu as plan_cpu
from cukde.density.sums import Epilogue, Output, PartialSums, laplace_constant, moment_columns, put, ready, to_density

_LOG2_E = math.log2(math.e)

# Some hundredths of a second of work of a thread, between which it checks for an interrupt.
_TILES_OF_STRETCH = 32

_SAMPLE = 8  # queries, and one in so many data

# Coordinates of a tile's data that stay in cache, and the fewest rows that are worth a tile.
_MOST_COORDINATES, _LEAST_STEP = 2**17, 512


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


class Differences:
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
        *,
        unchecked: bool = False,
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
        self._points = differences.Points(
            np.require(queries - centre if self.rounded else queries, self.dtype, ["C", "W"]),
            # Loops for data of another dtype are compiled beside others. Few queries take less time than a copy.
            np.require(
                X, None if self.rounded or (unchecked and plan_cpu.copy_costs(self.m)) else self.dtype, ["C", "W"]
            ),
            centre,
            log2_weights(options).astype(self.dtype),
            none[0] if factors is None else 1 / (factors * factors),
            none[1] if lost is None else np.require(lost[0] if lost[1] is None else lost[1], None, ["C", "W"]),
            none[1] if lost is None else np.require(lost[0], None, ["C", "W"]),
            np.empty(0, np.int64) if options.own is None else options.own,
            self.dtype.type(0.5 * _LOG2_E / h**2),
            tiles.NOTHING[self.dtype.type],
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
    alike = Y is None and options.lost is None  # and without weights
    n, m = len(X), len(X if Y is None else Y)
    is_short = plan_cpu.skips_meanwhile(n, m, X.shape[1])
    attempt = meanwhile.Attempt(is_short and not options.deterministic)
    single = _takes_single(X, Y, h, options)
    once = alike and plan_cpu.once_pays(output, n, threads.count())
    takes_product = _takes_product(X, m, options)  # where pairs are taken in double
    product = takes_product and not single
    once = once and not product
    with attempt:
        near = skipping_choice.prepared(X, Y, h, output, options, single=single, product=product, values=values)
        if near is not None:
            return skipping_passes.run(near)
    if once and not (options.own_out and plan_cpu.others_are_far(float(np.median(_sampled(X, None, h, options))))):
        note("each pair once", output=output)
        pairs = Differences(X, None, h, options, np.float32 if single else np.float64)
        sums: PartialSums = mutual.run_own(pairs, n, moment_columns(output, X.shape[1]))
        if options.own_out:
            far = np.flatnonzero(sums.total < _least_once(pairs.dtype, n))
            _again(sums, far, X, X, h, output, options, values)
    else:
        single = single and not _most_are_far(X, Y, h, options)
        product = takes_product and not single
        note("product float64" if product else f"difference {'float32' if single else 'float64'}", output=output)
        sums = _sums(X, Y, h, output, options, values, single=single, product=product)
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
    product: bool = False,
    most: float = math.inf,
) -> Any:
    """Sums of all pairs, in ``single`` precision but for those of queries that it does not serve, or by a ``product``.

    None where a sum of absolute coordinates is not below ``most``.
    """
    if product:
        sums = products.sums(X, Y, h, output, options, values)
    else:
        pairs = Differences(X, Y, h, options, np.float32 if single else np.float64, unchecked=most < math.inf)
        sums = _Sums(pairs, output, values, X.shape).run()
        if not all(size < most for size in pairs.sizes) and most < math.inf:
            return None
    if options.log_weights is not None:
        sums = sums._replace(reference=sums.reference + float(options.log_weights.max()))
    if single:
        least, most_far = plan_cpu.taken_in_double(options.squared_radius, _spread(options), rounded=pairs.rounded)
        far = np.flatnonzero((sums.reference < -least) & (sums.reference > -most_far))
        if not _again(sums, far, X, X if Y is None else Y, h, output, options, values, most):
            return None
    return sums


def _again(
    sums: PartialSums,
    far: np.ndarray,
    X: np.ndarray,
    Y: np.ndarray,
    h: float,
    output: Output,
    options: Options,
    values: np.ndarray | None,
    most: float = math.inf,
) -> bool:
    """Put sums in double precision in place of those of some queries; False where :func:`_sums` gives None."""
    if not len(far):
        return True
    note("again", output=output, again=len(far) / len(Y))
    some = options._replace(own=options.own[far]) if options.own_out else options
    product = most == math.inf and _takes_product(X, len(far), options)  # else the centre is unknown
    again = _sums(X, Y[far], h, output, some, values, single=False, product=product, most=most)
    if again is not None:
        put(sums, far, again)
    return again is not None


def _least_once(dtype: np.dtype, n: int) -> float:
    """Total without a row's own pair below which terms that were left out may count, or its exponent is too large."""
    left_out = n * 2.0 ** float(tiles.NEGLIGIBLE[dtype.type])
    return max(left_out / float(np.finfo(dtype).eps), plan_cpu.least_of_single() if dtype == np.float32 else 0.0)


def sums_of_unchecked(X: np.ndarray, Y: np.ndarray, h: float, output: Output, options: Options) -> PartialSums | None:
    """Return sums of data and queries whose values nobody has looked at; None where these have to be looked at."""
    single = _takes_single(X, Y, h, options._replace(squared_radius=0.0))
    if single and X.dtype != np.float32:
        single = False  # centre and radius are unknown
    single = single and not _most_are_far(X, Y, h, options)
    if not single and options.precision != "ieee" and plan_cpu.product_pays(len(X), len(Y), X.shape[1]):
        return None  # which needs the mean of the data, and takes less time
    most = plan_cpu.most_unchecked(h, single=single)
    if not np.abs(Y).sum(dtype=np.float64) < most:
        return None
    sums: PartialSums | None = _sums(X, Y, h, output, options, single=single, most=most)
    return sums


def mutual_sums(
    A: np.ndarray, B: np.ndarray, h: float, options: Options, *, ratio: bool
) -> tuple[PartialSums, PartialSums]:
    """Sum kernels of the data ``B`` (m, d) at the points ``A`` (n, d), and of ``A`` at ``B``: output "moments" of both.

    Each exponential is taken once. References are 0, as no exponent without weights is more. A total may underflow, to
    0 or to few bits. That is accurate beside the sums over a block of data that has the point itself: their total is at
    least 1, and these are merged with them.
    """
    options = _located(options, A, B, h)
    single = _takes_single(B, A, h, options)
    return mutual.run(Differences(B, A, h, options, np.float32 if single else np.float64), len(A), len(B), A.shape[1])


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
    """Whether differences in single precision are accurate."""
    radius, local = float(options.squared_radius), options.local_factors is not None
    coordinates = X.size * len(X if Y is None else Y)
    if not plan_cpu.single_serves(options.precision, coordinates, radius, h, local=local):
        return False
    if all(A is None or A.dtype == np.float32 for A in (X, Y)) or plan_cpu.rounded_serves(radius, 0.0):
        return True
    return options.log_weights is None and plan_cpu.rounded_serves(radius, float(_sampled(X, Y, h, options).min()))


def _takes_product(X: np.ndarray, m: int, options: Options) -> bool:
    """Whether squared distances in double come from a product."""
    if options.local_factors is not None or options.lost is not None or options.precision == "ieee":
        return False
    rounded = options.precision in ("float32", "tf32")
    d, radius = X.shape[1], float(options.squared_radius)
    return plan_cpu.product_pays(len(X), m, d) and plan_cpu.product_is_accurate(radius, d, single=rounded)


def _most_are_far(X: np.ndarray, Y: np.ndarray | None, h: float, options: Options) -> bool:
    """Whether a sample says that most queries would be taken again in double."""
    if not plan_cpu.single_is_sampled(len(X), len(X if Y is None else Y), X.shape[1]):
        return False
    return plan_cpu.single_is_far(float(np.median(_sampled(X, Y, h, options))), _spread(options))


def _spread(options: Options) -> float:
    """How far apart logarithms of weights are."""
    return 0.0 if options.log_weights is None else float(np.ptp(options.log_weights))


def _sampled(X: np.ndarray, Y: np.ndarray | None, h: float, options: Options) -> np.ndarray:
    """Smallest exponents of a sample of queries beside one of the data; 0 where it does not pay."""
    queries = X if Y is None else Y
    if (Y is None and not options.own_out) or not plan_cpu.sample_pays(len(queries), X.shape[1]):
        return np.zeros(1)
    step = len(queries) // _SAMPLE
    some, data = queries[::step][:_SAMPLE].astype(np.float64), X[::_SAMPLE].copy()
    squares = np.empty((len(some), len(data)))
    few_queries_loops.squares(data, some, squares)
    if Y is None:
        squares[step * np.arange(len(some))[:, None] == _SAMPLE * np.arange(len(data))] = math.inf
    least: np.ndarray = squares.min(axis=1) / (2 * h * h)
    return least


class _Sums:
    """One pass over all tiles."""

    def __init__(self, pairs: Differences, output: Output, values: Any, shape: tuple[int, int]) -> None:
        self._pairs = pairs
        self._output = output
        self._n, self._d = shape
        self._constant = laplace_constant(output, self._d)
        self._k = moment_columns(output, self._d, values)
        if output == "values":
            self._values = np.require(values, pairs.dtype, ["C", "W"])

    def run(self) -> PartialSums:
        pairs = self._pairs
        least = query_blocks.rows_of_thread(self._d, pairs.m, pairs.dtype)
        sizes, blas = (self._n, pairs.m, self._k), self._output == "values"
        alone = not blas and not plan_cpu.threads_pay(self._n, pairs.m, self._d)
        return query_blocks.run(self._block, *sizes, pairs.dtype, blas=blas, least=least, alone=alone)

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
