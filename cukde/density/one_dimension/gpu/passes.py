"""The density family in one dimension on the GPU: a fast Gauss transform, O(n + m) beside a sort, by Numba kernels.

See :mod:`cukde.density.one_dimension.plan` for the method and its bound. A pass finds the bounds of the boxes, sums
their moments, translates them to the boxes of the queries and evaluates. Sums run in double precision for every dtype,
and in one order on every run. All pairs are summed where the transform does not pay, or would have to wait and must
not.

Numba is imported by the first call.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import device, survey, transfers
from cukde.density.kept import Kept, kept
from cukde.density.one_dimension import cdf_pairs, plan as one_dimension_plan
from cukde.density.one_dimension.gpu import boxes as one_dimension_boxes
from cukde.density.one_dimension.gpu.boxes import Boxes, Points
from cukde.density.options import Options
from cukde.density.pairs.gpu import finish, operands, small
from cukde.density.plan import gpu as plan_gpu
from cukde.density.sums import Epilogue, Output, PartialSums

if TYPE_CHECKING:
    from cukde.core.gpu.numba_cuda import Specialisation

# Threads of a block. With 64 in the transform SD-KDE of 4 million points takes 0.83 ms on an H200, with 128 0.94.
_THREADS = 64
_MORE = 2  # times as many where all pairs are summed, and where moments are translated: 17 us for 26 of 2^20 points

# Chunks of the data, a block each: so many points or more, and so many chunks or fewer.
_POINTS_PER_CHUNK = 1024
_MOST_CHUNKS = 2048

# Sums over pairs: blocks of a multiprocessor that the data are split for, the tiles that a split has at least, and
# the numbers that all splits leave in memory at most (64 MB).
_BLOCKS_PER_MULTIPROCESSOR = 16
_TILES_PER_SPLIT = 2
_MOST_NUMBERS = 2**23

_NAMES = {dtype: dtype.name for dtype in (np.dtype(np.float32), np.dtype(np.float64))}
_LARGEST = {dtype: float(np.log(np.finfo(dtype).max)) for dtype in _NAMES}

# Smallest sum of kernels that counts, where they are float32 and float64; below it they are summed by log-sum-exp.
_LEAST = {"float32": 2.0**-80, "float64": 2.0**-900}

_ORDER = "order of a line"  # the name of points that are kept

# Bandwidths of which squares of float32 quotients stay in its range.
_SINGLE = (1e-30, 1e30)


def partial_sums(
    X: Any, Y: Any | None, h: float, output: Output, options: Options, *, values: Any = None, ratio: bool = False
) -> PartialSums:
    """Sum kernels of the data ``X`` (n, 1) at the queries ``Y`` (m, 1), or at the data where it is None.

    Arguments and results are those of :func:`cukde.density.pairs.gpu.passes.partial_sums`; every run gives the same
    bits. Output "laplace_moments" is theirs.

    Notes
    -----
    Waits for the device once, for the centre or the range of the data, and again where most boxes are empty. While a
    stream is captured nothing may wait: then all pairs are summed.
    """
    if output == "laplace_moments":
        from cukde.density.pairs.gpu import passes as pairs_passes  # no other call needs them

        return pairs_passes.partial_sums(X, Y, h, output, options)
    arguments = _prepare(X, Y, h, options)
    k = {"moments": 1, "laplace": 1, "values": 0 if values is None else values.shape[1]}.get(output, 0)
    if arguments.m == 0:
        return finish.empty(0, k)
    out = cp.empty((2 + k, arguments.m))
    end = _End(output if output in ("moments", "laplace", "cdf") else "sums", out)
    values = None if values is None else cp.ascontiguousarray(values, dtype=arguments.X.dtype)
    if _transformed(arguments, output, values, end) is None:
        if output == "cdf":
            import cukde.core.gpu.arrays

            return cdf_pairs.sums(arguments.X, arguments.Y, h, options.log_weights, cukde.core.gpu.arrays)
        _sum_pairs(arguments, output, values, end)
    return PartialSums(out[0], out[1], cp.ascontiguousarray(out[2:].T) if k else None)


def density(
    X: Any, Y: Any | None, h: float, options: Options, epilogue: Epilogue, *, points: Points | None = None
) -> Any:
    """See :func:`cukde.density.pairs.gpu.passes.density`."""
    arguments = _prepare(X, Y, h, options)
    out = cp.empty((1, arguments.m), epilogue.dtype)
    if arguments.m:
        end = _End("density", out, epilogue.log_constant, epilogue.log)
        if _transformed(arguments, "sum", None, end, points) is None:
            _sum_pairs(arguments, "sum", None, end)
    return out[0]


def debias(X: Any, Y: Any, h: float, score_h: float, options: Options) -> tuple[Any, Any, Points | None]:
    """See :func:`cukde.density.pairs.gpu.passes.debias`.

    Without weights, moved data may come back in ascending order.
    """
    arguments = _prepare(X, None, score_h, options.at_ratio(h / score_h))
    step = 0.5 * (h / score_h) ** 2
    out = cp.empty((1, arguments.m))
    end = _End("shift", out, step)
    points = _transformed(arguments, "moments", None, end, at_points=options.log_weights is None)
    if points is None:
        _sum_pairs(arguments, "moments", None, end)
    else:
        # Where the step is at most 1, moved points are in order, as the shift's derivative is 1 - step + step (variance
        # of the shares in the mean shift) / score_h^2; and they lie between the data, as means of them.
        ordered = options.log_weights is None and step <= 1
        points = points._replace(x=out[0], exact=False) if ordered else None
    return out.reshape(-1, 1), Y.astype(np.float64, copy=False), points


def precision(arrays: Sequence[Any], asked: Any) -> str | None:
    """The precision of arrays that are in order and of one dtype; None for others, and where it is another's."""
    dtype = arrays[0].dtype
    if not (small.in_order(*arrays) and all(a.dtype == dtype for a in arrays)):
        return None
    own = small.PRECISIONS[dtype]
    return own if asked is None or (type(asked) is str and asked == own) else None


def look(X: Any, Y: Any | None, h: float, precision: str, rtol: float | None) -> tuple[Kept, float] | None:
    """Put data (n, 1) in order whose values are unchecked, for passes to come, and look where they end.

    Returns what keeps them, and the largest absolute value of data and queries, infinite or NaN where one of these is;
    None where no pass asks for an order. Arrays are C-contiguous, of the precision's dtype. Waits for the device.
    """
    if _prepare(X, Y, h, Options(precision, rtol=rtol)).takes_pairs():
        return None
    points = Points.sorted(X, None, None, -math.inf, math.inf)
    low, high, most = survey.ends(points.x, points.x[:0] if Y is None else Y.reshape(-1))
    store = Kept(device.stream)
    kept(store, _ORDER, (X, None), None, lambda: points._replace(low=low, high=high, tight=True))
    return store, max(most, abs(low), abs(high)) if high == high else math.nan


def specialisations() -> Iterator[Specialisation]:
    """Every kernel of this module."""
    from cukde.core.gpu.numba_cuda import Specialisation
    from cukde.density.one_dimension.gpu import (
        expansions as one_dimension_expansions,
        pairs as one_dimension_pairs,
        queries as one_dimension_queries,
    )

    dtypes, (single, double) = ("float32", "float64"), one_dimension_boxes.ORDERS
    expanded = (single, "float32"), (single, "float64"), (double, "float64")
    for powers in one_dimension_boxes.ORDERS:
        yield Specialisation(one_dimension_expansions.translate, (powers,))
    for dtype in dtypes:
        yield Specialisation(one_dimension_expansions.bounds, (dtype,))
    for powers, dtype in expanded:
        yield Specialisation(one_dimension_expansions.moments, (powers, dtype))
        yield Specialisation(one_dimension_queries.evaluate, (powers, "cdf", dtype, "float64"))
    for powers, dtype in (*expanded, (0, "float32"), (0, "float64")):
        for end in ("sums", "moments", "laplace", "shift"):
            yield Specialisation(one_dimension_queries.evaluate, (powers, end, dtype, "float64"))
        for result in dtypes[: 1 if dtype == "float32" else 2]:
            yield Specialisation(one_dimension_queries.evaluate, (powers, "density", dtype, result))
    for real, dtype in (("float32", "float32"), ("float32", "float64"), ("float64", "float64")):
        for output, weighted in itertools.product(one_dimension_pairs.QUERIES, (False, True)):
            yield Specialisation(one_dimension_pairs.pairs, (output, weighted, real, dtype))


class _Arguments(NamedTuple):
    """The arguments of a pass, but for what it sums."""

    X: Any
    Y: Any | None
    h: float
    options: Options
    m: int  # queries
    single: bool  # whether pairs are taken in single precision

    def takes_pairs(self, output: Output = "sum") -> bool:
        """Whether all pairs are summed. Beside this, they are where the range of the data is found to be too much."""
        smallest, largest = one_dimension_plan.BANDWIDTHS
        fast = one_dimension_plan.serves(self.options.precision, self.options.rtol) and smallest < self.h < largest
        few = plan_gpu.line_takes_pairs(len(self.X), self.m, self.options.precision, cdf=output == "cdf")
        return few or not fast or device.capturing()

    def sorted(self, values: Any | None) -> Points:
        """Sort the data; where the scaled squared radius is known it says between what they lie.

        Of data that are kept in order the ends are looked at, once.
        """
        options, centre = self.options, None
        if options.kept is not None and values is None:
            arrays = self.X, options.log_weights
            return kept(
                options.kept,
                _ORDER,
                arrays,
                None,
                lambda: Points.sorted(*arrays, None, -math.inf, math.inf).tightened(),
            )
        if options.squared_radius is not None and options.centre is not None:
            centre = transfers.Coming(options.centre)  # while the host asks for the sort
        points = Points.sorted(self.X, options.log_weights, values, -math.inf, math.inf)
        if centre is None or options.squared_radius is None:
            return points
        middle, radius = float(centre.numbers()[0]), math.sqrt(options.squared_radius) * self.h
        return points._replace(low=middle - radius, high=middle + radius)


class _End(NamedTuple):
    """Epilogue of a pass, see :mod:`cukde.density.one_dimension.gpu.queries`."""

    name: str
    out: Any
    constant: float = 0.0
    logarithm: bool = False

    @property
    def largest(self) -> float:
        """Logarithm of the largest number that the result holds."""
        return _LARGEST[self.out.dtype]

    def launch(
        self, order: int, arrays: tuple[Any, ...], numbers: tuple[float, ...], counts: tuple[int | bool, ...]
    ) -> None:
        """Launch the kernel that ends the pass, with its parameters in groups but for those that are here."""
        from cukde.core.gpu import numba_cuda
        from cukde.density.one_dimension.gpu import queries as one_dimension_queries

        y, x, *_ = arrays
        numba_cuda.launch(
            numba_cuda.Specialisation(
                one_dimension_queries.evaluate, (order, self.name, _NAMES[x.dtype], _NAMES[self.out.dtype])
            ),
            _grid(y.size),
            _THREADS,
            *(*arrays, self.out, *numbers, self.constant, self.largest, *counts, self.logarithm),
        )


def _prepare(X: Any, Y: Any | None, h: float, options: Options) -> _Arguments:
    X, Y = operands.of_one_dtype(X, Y)
    single = options.precision != "float64" and _SINGLE[0] < h < _SINGLE[1]
    return _Arguments(X, Y, h, options, int((X if Y is None else Y).shape[0]), single)


def _transformed(
    arguments: _Arguments,
    output: Output,
    values: Any | None,
    end: _End,
    points: Points | None = None,
    *,
    at_points: bool = False,
) -> Points | None:
    """Run a pass by the transform, and return the data in order; None where all pairs are to be summed.

    ``points`` are the data where their order is known. With ``at_points`` the queries are the data in that order.
    """
    if arguments.takes_pairs(output):
        return None
    plan = one_dimension_plan.plan(arguments.h, output, one_dimension_plan.TOLERANCE[arguments.options.precision])
    points, boxes = one_dimension_boxes.boxes(points or arguments.sorted(values), plan)
    if boxes is None:
        return None
    queries = arguments.X if arguments.Y is None else arguments.Y
    y = points.x if at_points else queries.reshape(-1)
    _transform(plan, output, points, boxes, y, arguments.Y is None, end)
    return points


def _transform(
    plan: one_dimension_plan.Plan, output: Output, points: Points, boxes: Boxes, y: Any, at_data: bool, end: _End
) -> None:
    """Launch the kernels of the fast Gauss transform; ``at_data`` says that all queries are in boxes of the data."""
    from cukde.core.gpu import numba_cuda
    from cukde.density.one_dimension.gpu import expansions as one_dimension_expansions

    launch = numba_cuda.launch
    n, dtype = points.x.size, _NAMES[points.x.dtype]
    powers = one_dimension_boxes.order(plan)
    columns = 1 if points.values is None else 1 + points.values.shape[1]
    sums = 2 if output == "laplace" else columns
    weighted, listed = points.log_weights is not None, boxes.ids is not None
    # What is not there is not read: another array of the type stands for it.
    table = one_dimension_boxes.table(plan.bandwidth, output, plan.tolerance, numba_cuda.place())
    x = points.x
    log_weights = points.log_weights if weighted else table
    values = points.x.reshape(-1, 1) if points.values is None else points.values
    summed = points.masses_before() if output == "cdf" else points.masses()
    masses = table if summed is None else summed
    ids = boxes.ids if listed else table

    if not one_dimension_boxes.crowded(boxes, points):
        target_ids, listed, first_target = table, False, math.nan
        expansions = cp.empty((1, 1, 1))
    else:
        chunk = max(_POINTS_PER_CHUNK, -(-n // _MOST_CHUNKS))
        chunks = -(-n // chunk)
        target_ids, first_target, targets = ids, boxes.first, boxes.number
        if listed and not at_data:
            places = cp.unique(one_dimension_boxes.box_of(y, plan.width))
            target_ids, targets = places, len(places)
        elif not at_data:
            first_target, targets = boxes.first - plan.reach, boxes.number + 2 * plan.reach
        starts = cp.empty(boxes.number + 1, np.int64)
        moments = cp.empty((columns, chunks + boxes.number, powers + 1))
        expansions = cp.empty((sums, targets, powers))
        launch(
            numba_cuda.Specialisation(one_dimension_expansions.bounds, (dtype,)),
            _grid(boxes.number + 1),
            _THREADS,
            *(x, ids, starts, boxes.number, boxes.first, plan.width, listed),
        )
        launch(
            numba_cuda.Specialisation(one_dimension_expansions.moments, (powers, dtype)),
            (chunks, columns),
            _THREADS,
            *(x, log_weights, values, ids, starts, moments),
            *(chunk, boxes.number, boxes.first, plan.width, weighted, listed),
        )
        launch(
            numba_cuda.Specialisation(one_dimension_expansions.translate, (powers,)),
            (targets, sums),
            _MORE * _THREADS,
            *(moments, ids, starts, target_ids, masses, table, expansions, n, chunk, boxes.number, boxes.first),
            *(first_target, plan.reach, plan.tolerance, plan.beyond, weighted, listed, output == "cdf"),
        )
    end.launch(
        powers,
        (y, x, log_weights, values, target_ids, masses, expansions),
        (first_target, plan.width, 1 / plan.width, plan.bandwidth, plan.tolerance, 0.0),
        (columns, weighted, listed),
    )


@functools.cache
def _nothing(of_device: int) -> Any:
    """An array of a number of a device, the current one, that nothing is read from."""
    return cp.empty(1)


def _sum_pairs(arguments: _Arguments, output: Output, values: Any | None, end: _End) -> None:
    """Launch the kernels of the sum over all pairs."""
    from cukde.core.gpu import numba_cuda
    from cukde.density.one_dimension.gpu import pairs as one_dimension_pairs

    n, m = arguments.X.shape[0], arguments.m
    real, storage = ("float32", arguments.X.dtype) if arguments.single else ("float64", np.dtype(np.float64))
    X = arguments.X.astype(storage, copy=False)
    columns = 1 if values is None else 1 + values.shape[1]
    weighted = arguments.options.log_weights is not None
    entries = 2 if output in ("moments", "laplace") else columns
    queries = one_dimension_pairs.QUERIES[output]
    threads = _MORE * _THREADS
    blocks = -(-m // (threads * queries)), -(-columns // one_dimension_pairs.COLUMNS)
    rows = _rows_of_split(n, m * entries, math.prod(blocks), one_dimension_pairs.TILE)
    splits = -(-n // rows)

    x = X.reshape(-1)
    y = x if arguments.Y is None else arguments.Y.astype(storage, copy=False).reshape(-1)
    sums = cp.empty((splits, entries, m))
    # What is not there is not read: another array of the type stands for it.
    empty = _nothing(device.current())
    log_weights = arguments.options.log_weights if weighted else empty
    values = X if values is None else values.astype(storage, copy=False)
    numba_cuda.launch(
        numba_cuda.Specialisation(one_dimension_pairs.pairs, (output, weighted, real, _NAMES[storage])),
        (blocks[0], splits, blocks[1]),
        threads,
        # The square of a difference times the last is an exponent of 2.
        *(y, x, log_weights, values, sums, rows, math.sqrt(0.5 * math.log2(math.e)) / arguments.h),
    )
    end.launch(
        0,
        (y, x, log_weights, values, empty, empty, sums),
        (0.0, 1.0, 1.0, arguments.h, 1.0, _LEAST[real]),
        (columns, weighted, False),
    )


def _rows_of_split(n: int, numbers: int, blocks: int, tile: int) -> int:
    """Rows of the data, in whole tiles, so that the device is busy; a split leaves so many ``numbers``."""
    tiles = -(-n // tile)
    target_splits = _BLOCKS_PER_MULTIPROCESSOR * device.multiprocessors() // blocks
    splits = max(1, min(target_splits, tiles // _TILES_PER_SPLIT, _MOST_NUMBERS // numbers))
    return -(-tiles // splits) * tile


def _grid(items: int) -> tuple[int]:
    """Blocks with a thread for each item."""
    return (-(-items // _THREADS),)
