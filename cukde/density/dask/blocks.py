"""What tasks do with one block of rows, and with a pair of blocks: a pass of the block's backend."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from cukde.core import dispatch
from cukde.core.dask import check as dask_check
from cukde.core.dask.devices import computing
from cukde.density import (
    backends,
    check as density_check,
    leave_one_out as density_leave_one_out,
    sums as density_sums,
)
from cukde.density.dask.declared import Declared, outside
from cukde.density.dask.memory import WithinMemory
from cukde.density.domains import check as domains_check
from cukde.density.domains.domain import Domain
from cukde.density.options import Options
from cukde.density.plan import compositions as plan_compositions
from cukde.density.problem import Problem, least_factor, log_weights, moved, squared_radius
from cukde.density.sums import Output, PartialSums
from cukde.density.whitening import Whitening

# A squared radius from radii and the distance of two centres may be rounded down.
_ROUNDING = 1 + 1e-9


class Place(NamedTuple):
    """Which block of an array rows are."""

    name: str  # of the array
    number: int
    start: int | None = None  # place of its first row, where that is known

    def errors(self) -> AbstractContextManager[None]:
        """Name the block in errors."""
        return dask_check.of_block(self.name, self.number)

    def refuse(self, a: Any, name: str | None = None) -> None:
        """Raise for the rows of an array that hold NaN or infinity; of one beside the points by its own ``name``."""
        backend = dispatch.backend(a)
        bad = ~backend.xp.isfinite(a.reshape(len(a), -1)).all(axis=1)
        dask_check.finite(name or self.name, self.number, np.flatnonzero(backend.asnumpy(bad)).tolist(), self.start)


class Block(NamedTuple):
    """Rows of data or queries, checked, in arrays of the backend that computes on them."""

    number: int
    points: Any  # (n, d)
    whitening: Whitening
    centre: np.ndarray | None  # (d,), on the host; None: the points are unchecked
    radius: float  # largest distance to the centre, in bandwidths
    log_mass: float  # logarithm of the sum of the weights; of the number of rows where there are none
    log_weights: Any = None  # (n,), of weights divided by their sum
    values: Any = None  # (n, k)
    local_factors: Any = None  # (n,)
    narrowest: float = 1.0  # least of the factors and 1
    domain: Domain | None = None  # of the points, which are then taken from its origin
    outside: Any = None  # (n,): rows that do not lie in it
    rows: tuple[int, int] | None = None  # the first and the end of those of the block of this number; None: all

    def halves(self) -> list[Block]:
        """The first rows and the others, with the centre and the weight of all."""
        n = len(self.points)
        return [self._some(0, n // 2), self._some(n // 2, n)]

    def _some(self, first: int, end: int) -> Block:
        rows, start = slice(first, end), 0 if self.rows is None else self.rows[0]

        def some(a: Any) -> Any:
            return None if a is None else a[rows]

        return self._replace(
            points=self.points[rows],
            log_weights=some(self.log_weights),
            values=some(self.values),
            local_factors=some(self.local_factors),
            outside=some(self.outside),
            rows=(start + first, start + end),
        )


class HostBlock(NamedTuple):
    """Rows of data as they came, in host memory; points, values and factors are unchecked."""

    place: Place
    points: np.ndarray  # (n, d)
    others: dict[str, np.ndarray]  # weights, V and local_factors, a row for each point, by name
    log_mass: float  # see Block
    layout: Layout  # of the blocks that its pieces become

    @property
    def number(self) -> int:
        """Of the block."""
        return self.place.number

    @property
    def whitening(self) -> Whitening:
        """Of the bandwidth that the data are laid out for."""
        return self.layout.whitening

    @property
    def arrays(self) -> list[np.ndarray]:
        """All that goes to the GPU."""
        return [self.points, *self.others.values()]

    @property
    def dtypes(self) -> list[np.dtype]:
        """What the arrays are converted to on their way."""
        storage = self.layout.storage
        return [storage, *(storage if name == "V" else np.dtype(np.float64) for name in self.others)]


class Layout(NamedTuple):
    """How blocks are brought into arrays."""

    whitening: Whitening
    storage: np.dtype  # of coordinates and values
    gpu: bool  # blocks that are not on a GPU are moved there
    check_finite: bool
    domain: Domain | None = None


def prepare(*arrays: Any, place: Place, layout: Layout, declared: Declared | None = None) -> Block:
    """Check a block of points and of the arrays beside them, see :func:`formed`, and lay it out."""
    backend = dispatch.named("gpu") if layout.gpu else dispatch.backend(arrays[0])
    with backend.device_of(arrays[0]):
        x, others = formed(*arrays, place=place, backend=backend)
        block = laid_out(x, others, layout, place)
        if declared is not None:
            as_declared(declared, place, block.points, block.log_mass, check=layout.check_finite)
        backend.synchronize()  # another GPU may read it
        return block


def formed(points: Any, *beside: Any, place: Place, backend: ModuleType) -> tuple[Any, dict[str, Any]]:
    """Check the forms of the arrays of a block; return points (n, d), and what there is beside them by name.

    These are weights, V and local factors, of which any may be None.
    """
    with place.errors():
        x = density_check.points(place.name, points, backend)
        others = {}
        for name, a in zip(("weights", "V", "local_factors"), beside, strict=False):
            if a is not None and name == "V":
                v = density_check.values(a, len(x), backend)
                others[name] = v[:, None] if v.ndim == 1 else v
            elif a is not None:
                others[name] = density_check.weights(a, len(x), backend, name)
    return x[:, None] if x.ndim == 1 else x, others


def laid_out(x: Any, others: dict[str, Any], layout: Layout, place: Place, source: HostBlock | None = None) -> Block:
    """Points of a block (n, d), and what is beside them, checked where they are; errors name rows of the ``source``."""
    xp = dispatch.backend(x).xp
    x, outside = _in_domain(x, layout, place, x.dtype if source is None else source.points.dtype)
    x, n = xp.ascontiguousarray(x, dtype=layout.storage), len(x)
    block = Block(place.number, x, layout.whitening, None, 0.0, log_rows(n), domain=layout.domain, outside=outside)
    block = placed(block, layout, place, others, source)
    w, v, factors = (others.get(key) for key in ("weights", "V", "local_factors"))
    with place.errors():
        if w is not None and n:
            block = _weighted(block, w, xp, layout.check_finite)
        if v is not None:
            block = block._replace(values=xp.ascontiguousarray(v, dtype=layout.storage))
        if factors is not None and n:
            narrowest = least_factor(factors) if layout.check_finite else 1.0
            block = block._replace(local_factors=factors.astype(xp.float64, copy=False), narrowest=narrowest)
    return block


def _in_domain(x: Any, layout: Layout, place: Place, dtype: np.dtype) -> tuple[Any, Any]:
    """Points of a block (n, d) in the layout's domain, from its origin, and which lie outside; None without a domain.

    ``dtype`` is that of the array, where the points have been brought to another: a bound is as it rounds it.
    """
    domain = layout.domain
    if domain is None:
        return x, None
    backend = dispatch.backend(x)
    with np.errstate(all="ignore"):  # of unchecked points
        outside = domain.outside(x.astype(dtype, copy=False), backend.xp)
        if layout.check_finite and len(x):
            # Infinite points might be brought onto a bound: here they are looked for first.
            if not bool(backend.xp.isfinite(x).all()):
                place.refuse(x)
            if place.name == "X":
                with place.errors():
                    domains_check.inside(backend.asnumpy(outside.sum(axis=0)), len(x), domain.low, domain.high)
        return domain.anchored(x, backend.xp), outside.any(axis=1)


def placed(
    block: Block, layout: Layout, place: Place, others: dict[str, Any], source: HostBlock | None = None
) -> Block:
    """Return a block with centre and radius; its points, and the arrays beside it, must be finite."""
    x = block.points
    if not layout.check_finite or not len(x):
        return block
    backend, whitening = dispatch.backend(x), layout.whitening
    with np.errstate(over="ignore", invalid="ignore"):  # of data that are refused
        centre = backend.mean(x)
    radius, flags, _ = backend.look(x, None, centre if whitening.plain else None, list(others.values()))
    points, beside = (x, others) if source is None else (source.points, source.others)
    for (label, a), flag in zip(({place.name: points} | beside).items(), flags, strict=False):
        if not flag:
            place.refuse(a, label)
    scaled = radius / whitening.h**2 if whitening.plain else squared_radius(backend, x, None, centre, whitening)
    return block._replace(centre=backend.asnumpy(centre), radius=math.sqrt(scaled))


def as_declared(declared: Declared, place: Place, points: Any, log_mass: float, *, check: bool) -> None:
    """Raise unless the points of a block, (n, d), are where its box says, and have its weight."""
    backend = dispatch.backend(points)
    if not declared.holds(place.name, place.number, points, backend):
        if check and not backend.xp.isfinite(points).all():
            place.refuse(points)
        raise outside(place.name, place.number)
    declared.refuse_mass(place.number, log_mass)


def _weighted(block: Block, w: Any, xp: Any, check: bool) -> Block:
    """The block with its weights; a block may be without any weight, as long as others have some."""
    if check:
        density_check.weight_range(float(w.min()), math.inf)
    if not (w > 0).any():
        return block._replace(log_weights=xp.zeros(len(w)), log_mass=-math.inf)
    logs, log_mass = log_weights(w, xp)
    return block._replace(log_weights=logs, log_mass=float(log_mass))


def log_rows(rows: int) -> float:
    """Logarithm of the weight of rows without weights."""
    return math.log(rows) if rows else -math.inf


def log_weight(w: Any) -> float:
    """Logarithm of the sum of some weights."""
    largest = float(w.max())
    if largest <= 0:
        return -math.inf
    total = float((w / largest).sum(dtype=np.float64))
    return math.log(total) + math.log(largest) if total > 0 else math.nan  # of unchecked weights


def mass(block: Block | HostBlock) -> float:
    """Logarithm of the weight of a block."""
    return block.log_mass


def log_total(masses: list[float], *, weighted: bool) -> float:
    """Logarithm of the weight of all blocks."""
    total = density_sums.log_sum(masses)
    if total == -math.inf:
        no_weight(weighted=weighted)
    return total


def no_weight(*, weighted: bool) -> None:
    """Raise for data without any weight: weights of zero, or no rows."""
    if weighted:
        density_check.weight_range(0.0, 0.0)
    dask_check.some_data(0)


def some_weight(sums: PartialSums, *, weighted: bool) -> None:
    """Raise for sums at queries that are those of data without any weight, whose ratios are NaN."""
    if len(sums.total) and not bool(sums.total.any()):
        no_weight(weighted=weighted)


def pairs(y: Block, data: list[Block], **options: Any) -> PartialSums:
    """Sums over some blocks of data, or none, at one block of queries, merged as they come; options of :func:`pair`."""
    if not data:
        with computing(y.points) as backend:
            return nothing(len(y.points), y.points.shape[1], None, options["output"], backend.xp)
    smaller = within_memory(dispatch.backend(data[0].points))
    compute = partial(pair, **options)
    sums = smaller(compute, y, data[0])
    for x in data[1:]:
        sums = merged([sums, smaller(compute, y, x)])
    smaller.report(y.number)
    return whole(sums)


def among(blocks: list[Block], **options: Any) -> tuple[list[PartialSums]]:
    """Moments over all of some blocks at the points of each; options of :func:`mutual`."""
    backend = dispatch.backend(blocks[0].points)
    alone, smaller = within_memory(backend), _mutual_within_memory(backend)
    within = partial(pair, output="moments", itself=True, **options)
    sums = [alone(within, x, x) for x in blocks]
    for i, j in itertools.combinations(range(len(blocks)), 2):
        at_i, at_j = smaller(partial(mutual, **options), blocks[i], blocks[j])
        sums[i], sums[j] = merged([sums[i], at_i]), merged([sums[j], at_j])
    for used in (alone, smaller):
        used.report(blocks[0].number)
    return ([whole(total) for total in sums],)


def between(
    blocks: list[Block], others: list[Block], *, options: Options, ratio: bool
) -> tuple[list[PartialSums], list[PartialSums]]:
    """Moments over all the others at the points of each block, and over all blocks at those of the others.

    They are going to be merged with the sums of points over their own block. Of passes in single precision they are in
    single precision too, to travel light: a moment of checked points, within the limit of the scaled squared radius, is
    below 1e31 times the rows.
    """
    smaller = _mutual_within_memory(dispatch.backend(blocks[0].points))
    compute = partial(mutual, options=options, ratio=ratio)
    sums: tuple[dict[int, PartialSums], ...] = ({}, {})
    for (i, x), (j, y) in itertools.product(enumerate(blocks), enumerate(others)):
        for done, number, new in zip(sums, (i, j), smaller(compute, x, y), strict=True):
            done[number] = merged([done[number], new]) if number in done else new
    smaller.report(blocks[0].number)
    checked = all(block.centre is not None or not len(block.points) for block in (*blocks, *others))
    light = options.precision in ("float32", "tf32") and checked
    at_blocks, at_others = ([whole(_light(total) if light else total) for total in done.values()] for done in sums)
    return at_blocks, at_others


def _mutual_within_memory(backend: ModuleType) -> WithinMemory[tuple[PartialSums, PartialSums]]:
    """What computes :func:`mutual` by parts where memory runs out: one block is in parts, and the other whole."""
    return WithinMemory(
        backend.release_memory,
        lambda parts: (joined([at_x for at_x, _ in parts]), merged([at_y for _, at_y in parts])),
        lambda parts: (merged([at_x for at_x, _ in parts]), joined([at_y for _, at_y in parts])),
    )


def mutual(x: Block, y: Block, *, options: Options, ratio: bool) -> tuple[PartialSums, PartialSums]:
    """Moments over block ``y`` at the points of ``x``, and over ``x`` at ``y``; the device of ``x`` computes them."""
    backend = dispatch.backend(x.points)
    xp = backend.xp
    with backend.device_of(x.points):
        if not len(x.points) or not len(y.points):
            k = x.points.shape[1]
            return density_sums.nothing(len(x.points), k, xp), density_sums.nothing(len(y.points), k, xp)
        middle = _middle(x, y)
        double = options.precision == "float64"
        far = middle is not None and plan_compositions.reaches_far(middle[1]) and not x.whitening.plain and double
        if middle is None or far:
            # Unchecked: passes find the radius. Or whitened points reach far, which those of pairs of blocks allow for.
            compute = partial(pair, output="moments", options=options, itself=False, ratio=ratio)
            return compute(x, y), compute(y, x)
        centre, radius = middle
        density_check.squared_radius(radius, single=not double)
        centre = backend.asarray(centre)
        of_x, of_y = (x.whitening.apply(backend.asarray(block.points), centre, xp) for block in (x, y))
        options = options._replace(centre=x.whitening.image(centre, xp), squared_radius=radius)
        return backends.pairs(backend).mutual_sums(of_x, of_y, x.whitening.h, options, ratio=ratio)


def _middle(x: Block, y: Block) -> tuple[np.ndarray, float] | None:
    """Where a pair of blocks is centred, on the host, and its scaled squared radius; None of unchecked points."""
    if x.centre is None or y.centre is None:
        return None
    with np.errstate(over="ignore", invalid="ignore"):  # of points that are refused
        step = 0.5 * (y.centre - x.centre)
        half = x.whitening.apply(step[None], np.zeros(len(step)), np) / x.whitening.h
        radius = float((max(x.radius, y.radius) + np.sqrt((half * half).sum())) ** 2 * _ROUNDING)
    return x.centre + step, radius


def _light(sums: PartialSums) -> PartialSums:
    with dispatch.backend(sums.total).device_of(sums.total):
        return PartialSums(sums.reference, sums.total.astype(np.float32), sums.moments.astype(np.float32))


def whole(sums: PartialSums) -> PartialSums:
    """The sums when they are computed, see :func:`cukde.core.dask.devices.computing`."""
    with computing(sums.total):
        return sums


def within_memory(backend: ModuleType) -> WithinMemory[PartialSums]:
    """What computes :func:`pair` by parts where memory runs out."""
    return WithinMemory(backend.release_memory, joined, merged)


def pair(
    y: Block,
    x: Block,
    *,
    output: Output,
    options: Options,
    itself: bool,
    ratio: bool = False,
    everywhere: bool = False,
    leave_one_out: bool = False,
    summed: Callable[[Problem], PartialSums] | None = None,
) -> PartialSums:
    """Sums over one block of data at one block of queries; ``itself`` says that blocks of one number are the same.

    A pair is centred between its two blocks, and its radius follows from those of the blocks. In a domain the least
    sum of the pair alone says which images matter: no more are left out than beside the sum of all blocks.
    ``everywhere`` takes queries outside of it where they were brought to, at its ends. With ``leave_one_out`` a row of
    the data adds nothing to the sum at the query of its number; parts of a block are the same rows then, or others.
    ``summed`` takes the place of the pass for ``output``.
    """
    backend = dispatch.backend(x.points)
    xp = backend.xp
    d = x.points.shape[1]
    with backend.device_of(x.points):
        if not len(x.points) or not len(y.points) or x.log_mass == -math.inf:
            return nothing(len(y.points), d, x.values, output, xp)
        whitening = x.whitening
        centre, radius = None, None
        middle = _middle(x, y)
        if middle is not None:
            centre, radius = backend.asarray(middle[0]), middle[1]
            density_check.squared_radius(radius / x.narrowest**2, single=options.precision != "float64")
        elif not whitening.plain:
            with np.errstate(over="ignore", invalid="ignore"):  # of unchecked data
                centre = backend.mean(x.points)
        same = x.number == y.number and x.rows == y.rows
        one = itself and same
        # Debiased data are in double precision, queries in that of the call.
        Y = None if one else backend.asarray(y.points).astype(x.points.dtype, copy=False)
        options = options._replace(
            log_weights=x.log_weights, centre=centre, squared_radius=radius, local_factors=x.local_factors
        )
        outside = None if y.outside is None or everywhere else backend.asarray(y.outside)
        of_block = backend, x.points, Y, y.points.shape, x.points.dtype, options, whitening
        problem = Problem(*of_block, domain=x.domain, outside=outside)
        with problem.device:
            if leave_one_out and same:
                sums = density_leave_one_out.sums_of_others(problem, output)
            elif summed is not None:
                sums = summed(problem)
            else:
                sums = problem.sums(output, x.values, ratio=ratio)
        return sums if x.log_weights is None else sums._replace(reference=sums.reference + x.log_mass)


def nothing(m: int, d: int, values: Any, output: Output, xp: Any) -> PartialSums:
    """Sums over no data of ``d`` columns and their values at ``m`` queries."""
    return density_sums.nothing(m, density_sums.moment_columns(output, d, values) or None, xp)


def joined(blocks: list[PartialSums]) -> PartialSums:
    """Put together the sums at queries that come one after the other."""
    backend = dispatch.backend(blocks[0].total)
    with backend.device_of(blocks[0].total):
        return density_sums.joined(blocks, backend.xp)


def merge(blocks: list[PartialSums]) -> PartialSums:
    """Merge sums over several blocks of data at the same queries, on the device of the first."""
    return whole(merged(blocks))


def merged(blocks: list[PartialSums]) -> PartialSums:
    backend = dispatch.backend(blocks[0].total)
    with backend.device_of(blocks[0].total), np.errstate(invalid="ignore"):  # of unchecked data
        return density_sums.merge([here(sums, backend) for sums in blocks], backend.xp)


def here(sums: PartialSums, backend: Any) -> PartialSums:
    """Sums on the current device."""
    return PartialSums(*(None if a is None else backend.asarray(a) for a in sums))


def shift(block: Block, sums: PartialSums, *, whitening: Whitening) -> Any:
    """Debiased points of a block, float64, from sums of all data at them with the block's own bandwidth."""
    backend = dispatch.backend(block.points)
    with backend.device_of(block.points):
        if not len(block.points):
            return block.points.astype(np.float64)
        sums = here(sums, backend)
        some_weight(sums, weighted=block.log_weights is not None)
        with np.errstate(divide="ignore", invalid="ignore"):  # of unchecked data
            points = moved(block.points, sums, whitening, block.whitening, backend.xp)
            return points if block.domain is None else block.domain.folded(points, backend.xp)


def debiased(block: Block, sums: PartialSums, *, layout: Layout, by: Whitening | None = None) -> Block:
    """The block with its points debiased, ready to be data of the layout's bandwidth; ``by`` is the step's own."""
    points = shift(block, sums, whitening=layout.whitening if by is None else by)
    with computing(points):
        return placed(block._replace(points=points, whitening=layout.whitening), layout, Place("X", block.number), {})
