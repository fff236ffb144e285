"""Points in an order that puts near ones together: launchers of ``skipping_order.cu`` and ``skipping_points.cu``."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile, merge_sort
from cukde.core.gpu.launch import C_TYPE, Specialisation, at_least
from cukde.density.pairs.gpu.operands import LOG2_E
from cukde.density.pairs.gpu.skipping.frame import Frame

BLOCK = 64
MOST_DIMENSIONS = 128
FEW_DIMENSIONS = 5  # up to so many boxes decide alone
_PITCHES = (4, 8, 16, 32, 64, 128)  # of coordinates in memory
MOST_SQUARE = 1700.0
"""Largest squared distance to a centre, in bits of an exponent, that products of two float16 terms are good for."""

_FINE_OF_SUMS = 100.0  # the same without the product of second terms, of sums; as squared distances over h^2
_MOST_HALF = 5000.0  # squared lengths of operands in float16 that most points stay below
_THREADS_OF_CODES = 256

OWN, COMMON = 1, 2
"""Kinds of blocks (``skipping_points.cu``): with a centre of their own, and with the common one or better."""

_CHUNK = 32  # points
CHUNKS_WIDTH = 32
"""Widest pitch of the kernels of chunks."""


class Operands(NamedTuple):
    """Operands of products in two terms of float16; None where they are not needed."""

    first: Any | None = None
    rest: Any | None = None


class Needed(NamedTuple):
    """Which operands a pass needs, of more than a few dimensions; those for screening it always does."""

    left: bool = False
    right: bool = False
    across: bool = False
    chunks: bool = False
    rounded: bool = False  # 2^e is rounded to float16: fine blocks may be wider


_NOTHING = Needed()


class Rows(NamedTuple):
    """Rows of points in order, and their codes."""

    order: Any  # (n,) int64
    codes: Any  # (n,) uint32, ascending


class Ordered(NamedTuple):
    """Points in order, in blocks of 64, the last filled up; ``skipping_points.cu`` says what the arrays are."""

    given: Any  # (., d), float32 or float64
    order: Any  # (n,) int64: the rows of these points
    codes: Any  # (n,) uint32, ascending
    source: Any  # (rows,) int32
    local: Any
    weights: Any
    centres: Any
    low: Any
    high: Any
    parts: Any | None
    most: Any
    reach: Any
    halves: Any | None
    left: Operands  # of queries
    right: Operands  # of data
    across: Any | None
    norms: Any | None
    squares: Any | None
    exponents: Any | None
    kinds: Any
    chunks: Any | None

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return int(self.most.shape[0])


def pitch(d: int) -> int:
    """Columns of coordinates in memory."""
    return at_least(d, _PITCHES)


def groups(d: int) -> int:
    """Groups of 16 dimensions of the products that screen; 0 where boxes decide alone."""
    return 0 if d <= FEW_DIMENSIONS else -(-pitch(d) // 16)


def scale_of(h: float) -> float:
    """Factor of coordinates that makes minus a squared distance an exponent in bits."""
    return math.sqrt(LOG2_E / 2) / h


def shrink(frame: Frame, h: float) -> float:
    """Power of two that keeps products of most points in float16."""
    return 2.0 ** -max(0, math.ceil(0.5 * math.log2(max(1.0, frame.square * LOG2_E / h**2 / _MOST_HALF))))


def ordered(X: Any, h: float, log_weights: Any, frame: Frame, needed: Needed, rows: Rows | None = None) -> Ordered:
    """Put points in order; ``log_weights`` are natural logarithms, float64, at most 0, or None.

    ``rows`` are those of some of the points, in the order of :func:`in_order`; default all.
    """
    return _placed(X, h, log_weights, frame, needed, *(in_order(X, h, frame, needed) if rows is None else rows))


def in_order(X: Any, h: float, frame: Frame, needed: Needed = _NOTHING) -> Rows:
    """Rows in an order that puts near points together, and far ones behind the others."""
    d = X.shape[1]
    limits = (_fine_square(d, needed), MOST_SQUARE) if groups(d) else (math.inf, math.inf)
    of_points = codes(X, frame, limits, scale_of(h))
    in_order, order = merge_sort.in_order(of_points)
    return Rows(order, in_order)


def codes(X: Any, frame: Frame, limits: tuple[float, float] = (math.inf, math.inf), scale: float = 1.0) -> Any:
    """Morton codes, (n,) uint32; larger ones of points that ``scale`` times are farther out than ``limits`` squared."""
    n, d = X.shape
    out = cp.empty(n, np.uint32)
    _codes(X.dtype).launch(
        (-(-n // _THREADS_OF_CODES),),
        (_THREADS_OF_CODES,),
        *(X, frame.centre, frame.axes, frame.edges, out, n, d, frame.axes.shape[0], frame.bits, *limits, scale),
    )
    return out


def order_of(X: Any, frame: Frame) -> Any:
    """An order of the points, (n,) int64, in which near ones are together, whatever operands are made of them."""
    return merge_sort.in_order(codes(X, frame))[1]


def again(points: Ordered, h: float, log_weights: Any, frame: Frame, needed: Needed) -> Ordered:
    """The same points with other operands."""
    return _placed(points.given, h, log_weights, frame, needed, points.order, points.codes)


def _placed(X: Any, h: float, log_weights: Any, frame: Frame, needed: Needed, order: Any, codes: Any) -> Ordered:
    n, d = len(order), X.shape[1]
    blocks, width, box_axes = -(-n // BLOCK), pitch(d), frame.box_axes.shape[0]
    rows = blocks * BLOCK
    screened = groups(d)
    float32 = np.float32

    def fragments(wanted: bool) -> Any | None:
        return cp.empty((blocks, 4, screened, 32, 4), np.uint32) if screened and wanted else None

    chunk_words = _CHUNK * (16 * screened + 2)
    out = Ordered(
        X,
        order,
        codes,
        cp.empty(rows, np.int32),
        cp.empty((rows, width), float32),
        cp.empty(rows, float32),
        cp.empty((blocks, width), float32),
        cp.empty((box_axes, blocks), float32),
        cp.empty((box_axes, blocks), float32),
        None if screened else cp.empty((2, box_axes, 2 * blocks), float32),
        cp.empty(blocks, float32),
        cp.empty(blocks, float32),
        fragments(True),
        Operands(fragments(needed.left), fragments(needed.left)),
        Operands(fragments(needed.right), fragments(needed.right)),
        cp.empty((blocks, 4, width // 8, 2, 32, 2), np.uint32) if screened and needed.across else None,
        cp.empty((blocks, 32, 4), np.uint16) if screened else None,
        cp.empty(rows, float32) if screened else None,
        cp.empty((rows, 2), float32) if screened else None,
        cp.empty(blocks, np.uint8),
        cp.empty((2 * blocks, chunk_words), np.uint32) if screened and needed.chunks else None,
    )
    _points(X.dtype, width, screened).launch(
        (blocks,),
        (BLOCK,),
        *(X, order, log_weights, frame.centre, frame.box_axes, *out[3:13], *out.left, *out.right, *out[15:]),
        *(MOST_SQUARE, _fine_square(d, needed), shrink(frame, h)),
        *(n, blocks, d, box_axes, scale_of(h)),
    )
    return out


def _fine_square(d: int, needed: Needed) -> float:
    """Largest squared distance to a centre that two terms are good for without their smallest product, in bits.

    These are the limits of the dense engine of three products (``cukde.density.pairs.gpu.f16``). Tensor cores cut off
    each product at 2^-25 of that distance, twice, so that sums of 2^e themselves take less.
    """
    return 0.5 * LOG2_E * min(180.0 if needed.rounded else _FINE_OF_SUMS, 850 / math.sqrt(d))


def kernels(storage: np.dtype, d: int, n: int) -> tuple[Specialisation, ...]:
    """What :func:`ordered` launches for ``n`` points of a dtype."""
    return _points(storage, pitch(d), groups(d)), *merge_sort.kernels_of_order(n), _codes(storage)


@core_compile.specialised(C_TYPE)
def _codes(storage: np.dtype) -> Specialisation:
    defines = core_compile.macros(STORAGE=C_TYPE[storage])
    return Specialisation("density/skipping_order", "morton_codes", defines, "5P q 3i 3f")


@core_compile.specialised(
    cases=lambda: ((storage, pitch(d), groups(d)) for storage in C_TYPE for d in (3, 5, 8, 16, 32, 64, 128))
)
def _points(storage: np.dtype, width: int, screened: int) -> Specialisation:
    defines = core_compile.macros(STORAGE=C_TYPE[storage], DIM=width, GROUPS=screened)
    return Specialisation("density/skipping_points", "order_points", defines, "25P 3f q 3i d")
