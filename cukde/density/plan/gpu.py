"""Which pass takes the pairs of a call on a GPU: every predicate and threshold, and the times that they compare.

Times are of the table ``rates_gpu.json``, measured on an H200. Other GPUs take other times in much the same ratios,
and no more than the ratios counts here.

A call of the Gaussian asks its candidates in this order:

1. "small": one launch from unchecked arrays to the result, for few pairs;
2. "f16 ahead": products of all pairs, launched before the values have been inspected;
3. "plane" or "line": the fast Gauss transform of one to three columns;
4. "skipping": leaves out pairs that cannot matter, where samples of the points say that it pays;
5. "apart": the few rows that are too far out for products by differences, the others by products;
6. one of the passes of :func:`dense`, which take all pairs that can matter.

What only the data can tell comes to the functions here as numbers: the scaled squared radius, shares of pairs.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from cukde.core.plan import Candidate, Plan, asked, wanted
from cukde.density.plan import rates as plan_rates
from cukde.density.plan.shape import Device, Shape
from cukde.density.sums import Output

_RATES = plan_rates.table("gpu")
_OF_ALL, _SKIPPING, _FAR_COLUMNS = _RATES["all pairs"], _RATES["skipping"], _RATES["differences beyond 64 columns"]
_FEW, _FEW_FAR = _RATES["few pairs"], _RATES["small beyond 32 columns"]

_TENSOR_CORES = (8, 0)  # lowest compute capability whose tensor cores passes use
MOST_COLUMNS = 64
"""Of passes whose operands lie in registers; with more, inner products come from a loop over the columns."""

# --- Limits of accuracy: largest scaled squared radius, the squared distance to the centre in bandwidths ---

# Of exponents by products of two float16 terms a point. The tensor cores truncate what they add up to about 2^-25 of
# the largest; what that leaves of the density stays below 3e-5 up to these limits, on an H200, at the furthest points
# themselves too. One term keeps 11 bits: the percent that "tf32" is meant for.
_MOST_F16, _MOST_F16_TIMES_COLUMNS = 700.0, 3500.0
_MOST_F16_TIMES_ROOT = {16: 1100.0, 64: 850.0}  # up to so many columns

# Up to 16 columns a fourth product, lo . lo, lets the others add up exactly. Three are enough up to these limits, less
# for what is rounded or added up once more; and as far as lo . lo itself is small: up to a limit for each column.
_MOST_THREE_PRODUCTS: dict[Output, float] = {"sum": 215, "laplace": 215, "moments": 180, "values": 120}
_MOST_WITHOUT_LOWEST = 50.0

# Of float64, where powers of 2 need no reference (``f64.cuh``). The density is off by 2e-13 there, of the 1e-12 that is
# allowed (2 to 64 columns, emulated).
MOST_F64: dict[Output, float] = {"sum": 620.0, "moments": 620.0, "laplace": 620.0, "values": 350.0}

# Beyond 64 columns in float64 with references: up to the first exponents are added up from norms, up to the second
# points are split in two terms (``wide_f64.py``).
MOST_NORMS_F64, MOST_WIDE_F64 = 1500.0, 1e6

_ANY = math.nextafter(math.inf, 0.0)  # of finite points

# --- Limits of memory and of numbers ---

# The symmetric kernel counts rows in int32, and a grid's 65,535 rows of blocks take two chunks of 8,192 columns each.
MOST_SYMMETRIC_ROWS = 2 * 65_535 * 8192
# Values that the symmetric pass serves. Of more the sums of a row leave registers for so few rows that the ordered pass
# is as fast: 7.6 ms against 7.2 to 7.5 for 64 values of 65,536 points of 16 dimensions, on an H200.
MOST_SYMMETRIC_VALUES = 32

MOST_SKIPPING_VALUES = 32
"""Columns of values whose sums and references lie in memory together, of passes that leave out pairs."""

# Columns that the centred pass takes, by the shared memory that a block needs for them.
_CENTRED_COLUMNS = {"moments": ((227, 64), (163, 32), (99, 16)), "sum": ((163, 64), (99, 48)), "float64": ((99, 64),)}

SKIPPING_COLUMNS = max(_SKIPPING["screen"])
"""Of passes that leave out pairs, at most."""

SMALL_COLUMNS = 1024
"""Of the launch for few pairs, at most: queries lie in shared memory."""
_LAUNCH_COLUMNS = 32  # of points that its threads hold

# The one launch for few pairs is asked first where it takes at most so many milliseconds, by whether it sums pairs in
# float64. Where it takes longer, other passes are faster on an H200 (python -m benchmarks.density.bench_seams).
_MOST_SMALL_MS = {False: 0.16, True: 0.28}

# Of more than 64 columns: bytes of powers that are staged at a time, and their queries, also in double.
STAGED_BYTES, STAGED_ROWS, STAGED_ROWS_F64, _STAGED_TILE, _MOST_TIMES_ROWS = 2**26, 4096, 2048, 128, 4

# Of the symmetric kernel: the most tiles that a block adds up before its sums leave the accumulators of the tensor
# cores, which truncate (8,192 columns, but 2,048 for values, whose four products in two terms each then lose 8e-6); and
# what a block costs beside its tiles, in tiles, with and without work on two tiles at a time.
MOST_TILES, MOST_TILES_OF_VALUES, BLOCK_OVERHEAD = 128, 32, {True: 2.0, False: 0.7}

# --- Seams of time ---

# Milliseconds of all pairs below which samples cost more than they may save: by differences, and by faster passes.
_LEAST_MS, _LEAST_OF_FAST_MS = 5.0, 15.0
_SKIPPING_GAIN = 0.9  # of the time of all pairs, at most
_MOST_SHARE = 0.5  # of pairs of a sample that can matter: then nothing is inspected further
_MOST_APART = 1 / 16  # of the rows, that are summed by differences and all others by products
_RATHER_APART = 1.5  # times the time of products of nearly all rows, from which it is inspected which are far
_F64_COLUMNS_AT_DATA = 32  # up to which products about one centre take less time than the centred pass

# Few pairs of more than 64 columns by differences: pairs of a tile, and tiles under way at a time (fewer take as long).
_FAR_TILE, _FAR_TILES, _FAR_BLOCK = 64, 264, 64

_LEAST_PLANE_MS = 2.2  # of all pairs: below it inspecting the data takes too much of what a transform may save
_PLANE_GAIN = 0.9  # of the time of pairs, at most: the rates are rough
_PLANE_PRODUCTS = 1700.0  # scaled squared radius up to which products take all pairs
_OF_BLOCKS = 3.0  # times the pairs that can matter are taken: blocks hold others, and data are not spread evenly
_FILLED = {2: 0.45, 3: 0.2}  # share of a grid's cells with an expansion, of a normal distribution

# Up to so many pairs of one column their sum is as fast as the transform with its launches, sort and wait: on an H200
# that takes 0.45 ms for a density however few points there are, 2^14 points at as many queries 0.27 ms pair by pair,
# 2^15 0.55 ms. A pair in double takes four times as long. Of the distribution function none: array operations take its
# pairs, 0.9 ms for 256 points at 256 queries, where the transform takes 0.5 ms.
LINE_PAIRS, LINE_PAIRS_CDF, _LINE_DOUBLE = 2**29, 0, 4

# Kernels of bounded support: milliseconds of all pairs below which nothing is put in order, and no sample is counted;
# up to so many columns blocks are taken whatever the bandwidth, and beyond up to a share of a sample's pairs.
_LEAST_BOUNDED_MS, _LEAST_BOUNDED_SAMPLE_MS = 2.0, 5.0
FEW_COLUMNS = 3
_MOST_BOUNDED_SHARE = 0.1
# The exponential kernel: up to FEW_COLUMNS a sample foretells what boxes leave out. Beyond, queries are tried where the
# order takes so small a part of the time of all pairs that it may be in vain, and few of the sample's pairs can matter.
_LEAST_EXPONENTIAL_MS, _IN_VAIN, _MOST_EXPONENTIAL_SHARE = 5.0, 0.05, 0.1
_EXPONENTIAL_HOPE, _EXPONENTIAL_GAIN = 0.6, 0.8  # of the time of all pairs: as foretold, and by queries that are tried

_SHARED_PAIRS = 2e10  # below which one of several GPUs takes the whole pass, in some tens of milliseconds
_PAIRS_OF_OWN = 2**30  # of leave-one-out in one to three columns, that pairs take in about the time of a transform


class Form(NamedTuple):
    """How float16 passes make exponents, and the scaled squared radius up to which that will do."""

    products: int  # float16 products of an exponent: 1, or 3 or 4 of two terms a point
    limit: float

    @property
    def split(self) -> bool:
        """Whether points have two terms."""
        return self.products > 1

    @property
    def exact_hi(self) -> bool:
        """Whether products of higher terms are to add up exactly, which leaves more to the lower ones."""
        return self.products == 4

    @property
    def length_limit(self) -> float:
        """The limit as kernels see it: a squared length of operands."""
        return self.limit * math.log2(math.e)


@functools.lru_cache(maxsize=1024)
def form(precision: str, d: int, squared_radius: float, output: Output = "sum") -> Form | None:
    """Choose the form for a scaled squared radius; None where none will do. Its limit is that of the last form."""
    all_forms = forms(precision, d, output)
    chosen = next((one for one in all_forms if squared_radius <= one.limit), None)
    return chosen and chosen._replace(limit=all_forms[-1].limit)


@functools.cache
def forms(precision: str, d: int, output: Output) -> tuple[Form, ...]:
    """The forms of an output, each with the scaled squared radius up to which it will do, from the least one on."""
    if not 2 <= d <= MOST_COLUMNS:
        return ()
    if precision == "tf32":
        return (Form(1, _MOST_F16),)
    root = next(root for most, root in _MOST_F16_TIMES_ROOT.items() if d <= most)
    limit = min(_MOST_F16, max(_MOST_F16_TIMES_COLUMNS / d, root / math.sqrt(d)))
    of_three = min(_MOST_THREE_PRODUCTS[output], _MOST_WITHOUT_LOWEST * d)
    if d > 16 or of_three >= limit:
        return (Form(3, limit),)
    return Form(3, of_three), Form(4, limit)


def most_of_fast_three(d: int) -> float:
    """Scaled squared radius up to which the three products of the symmetric pass make totals that are wanted."""
    return min(_MOST_F16_TIMES_COLUMNS / d, _MOST_WITHOUT_LOWEST * d)


class Dense(NamedTuple):
    """A pass over all pairs, or all that can matter, and the data that it takes."""

    name: str
    limit: float = math.inf  # largest scaled squared radius
    blind: bool = True  # whether it takes data of an unknown radius

    @property
    def is_product(self) -> bool:
        """Whether exponents come of products about one centre."""
        return self.name not in ("difference", "centred")


_DIFFERENCE, _WIDE = Dense("difference"), Dense("wide")


def dense(shape: Shape) -> tuple[Dense, ...]:
    """The passes over all pairs, in order: the first that takes the data's scaled squared radius serves."""
    return _dense(shape, few=shape.d > MOST_COLUMNS and not wanted("wide") and differences_are_few(shape))


@functools.lru_cache(maxsize=4096)
def _dense(shape: Shape, *, few: bool) -> tuple[Dense, ...]:
    found = [*_products(shape)]
    if found == [_WIDE]:
        return (_DIFFERENCE if few else _WIDE,)
    found.append(_DIFFERENCE)
    if _centred_serves(shape):
        faster = {one.name: centred_is_faster(shape, one.name) for one in found}
        found = [Dense("centred", min(one.limit, _ANY)) if faster[one.name] else one for one in found]
        if not faster["difference"]:  # which needs not to be told that a radius is not known
            found[-1] = _DIFFERENCE._replace(blind=False)
            found.append(Dense("centred", -1.0))
        else:
            found.append(_DIFFERENCE)
    return tuple(found)


@functools.lru_cache(maxsize=4096)
def _products(shape: Shape) -> tuple[Dense, ...]:
    """Passes by products about one centre, in order, whatever their time."""
    output, precision, d = shape.output, shape.precision, shape.d
    if output == "laplace_moments" or shape.local:
        return ()
    if precision == "float64" and d > MOST_COLUMNS:  # by a library, on any device
        return (Dense("wide_f64", MOST_WIDE_F64, blind=False),)
    if precision == "ieee" or _device(shape).capability < _TENSOR_CORES:
        return ()
    if d > MOST_COLUMNS:
        return (_WIDE,)
    found: list[Dense] = []
    if precision == "float64":
        if d >= 2:
            found.append(Dense("f64", MOST_F64[output], blind=False))
    elif not shape.own_out and (all_forms := forms(precision, d, output)):
        limit = all_forms[-1].limit
        if shape.once and shape.n <= MOST_SYMMETRIC_ROWS:
            found.append(Dense("f16_symmetric", min(limit, _most_symmetric(shape)), blind=False))
        found.append(Dense("f16", limit, blind=False))
    return tuple(one for one in found if one.limit > 0)


def _centred_serves(shape: Shape) -> bool:
    return not shape.local and centred_serves(shape.output, shape.precision, shape.d, _device(shape))


def _most_symmetric(shape: Shape) -> float:
    """Largest scaled squared radius of the pass that takes each pair once; 0: it does not serve."""
    d, precision = shape.d, shape.precision
    if shape.output == "moments":
        # Its three products are added up the fast way, which takes a total less far than the careful one of f16.cuh.
        total = _MOST_F16 if precision == "tf32" else _MOST_F16_TIMES_COLUMNS / d
        return math.inf if shape.ratio else total
    # For "tf32" the ordered pass has a third of the products with values.
    if shape.output == "values" and precision == "float32" and shape.k <= MOST_SYMMETRIC_VALUES:
        return most_of_fast_three(d)
    return 0.0


def served(shape: Shape, squared_radius: float | None) -> Dense:
    """The first pass over all pairs that takes data of a scaled squared radius; None: it is unknown."""
    passes = dense(shape)
    if wanted("difference") is not None:
        centred = (Dense("centred", _ANY),) if _centred_serves(shape) else ()
        asked = (one for one in (*_products(shape), *centred, _DIFFERENCE) if wanted(one.name))
        passes = *asked, *passes
    if squared_radius is not None:
        for one in passes:
            if squared_radius <= one.limit:
                return one
    return next(one for one in passes if one.blind)


@functools.cache
def radii(precision: str, d: int, device: Device) -> tuple[float, ...]:
    """Scaled squared radii that stand for all others: one of each range in which all passes are the same."""
    if d == 1:  # few boxes, and more than numbers suffice for
        return 1.0, 1e26
    outputs: tuple[Output, ...] = ("sum", "moments", "laplace", "values")
    ends = {0.0}
    for output, itself, ratio in itertools.product(outputs, (False, True), (False, True)):
        shape = Shape(output, 2, 2, d, precision, int(output == "values"), itself=itself, ratio=ratio, device=device)
        ends |= {one.limit for one in dense(shape)} | {one.limit for one in forms(precision, d, output)}
        if precision == "float64":
            ends |= {MOST_F64[output], MOST_NORMS_F64}
    limits = sorted(end for end in ends if 0 <= end < _ANY)
    return *(0.5 * (low + high) for low, high in itertools.pairwise(limits)), 2 * limits[-1] + 1


def centred_serves(output: Output, precision: str, d: int, device: Device) -> bool:
    """Whether there are kernels of the centred pass."""
    if output not in ("sum", "moments", "laplace") or precision == "ieee" or device.capability < _TENSOR_CORES:
        return False
    kind = "float64" if precision == "float64" else "moments" if output == "moments" else "sum"
    kilobytes = device.shared_bytes // 1024
    return 2 <= d <= next((columns for least, columns in _CENTRED_COLUMNS[kind] if kilobytes >= least), 0)


def centred_is_faster(shape: Shape, other: str) -> bool:
    """Whether the centred pass takes less time than another that takes all pairs.

    Of data at themselves it leaves out more than pays for the moments.
    """
    if other in ("f16", "f16_symmetric"):
        return False
    if other == "f64":
        return shape.itself and shape.d > _F64_COLUMNS_AT_DATA
    own = shape._replace(output="sum") if shape.itself else shape
    return centred_ms() + dense_ms("centred", own) < dense_ms(other, shape)


def centred_ms() -> float:
    """Milliseconds that the centred pass takes beside its pairs: order, blocks and tiles, in some twenty launches."""
    return float(_RATES["centred_ms"])


def call_ms(name: str) -> float:
    """Milliseconds of Python's work in a call whose pass has this name, which kernels do not hide.

    Medians of what random calls on an H200 take beyond their kernels. A density by the fast Gauss transform of one
    column takes 0.45 ms however few its points are.
    """
    calls = _RATES["calls_ms"]
    return float(calls.get(name, calls["others"]))


def dense_ms(name: str, shape: Shape) -> float:
    """Milliseconds of all pairs by a pass."""
    return 1e-9 * shape.n * shape.m * dense_rate(name, shape.precision, shape.d, shape.output, shape.k)


def dense_rate(name: str, precision: str, d: int, output: Output, k: int = 0) -> float:
    """Picoseconds a pair of a pass that takes all of them, with ``k`` columns of values or with moments."""
    double = precision == "float64" and name in ("centred", "difference")
    if name == "difference" and d > MOST_COLUMNS:
        return far_rate(d, k or d, double=double)
    rates = _OF_ALL[f"{name} float64" if double else name]
    rate = plan_rates.at(rates.get(output if output == "moments" else "sum", rates["sum"]), d)
    if not k:
        return rate
    of_columns = rates.get("values", _OF_ALL["f16"]["values"])
    return -(-k // max(of_columns)) * (rate + plan_rates.at(of_columns, k))


def far_rate(d: int, columns: int, *, double: bool = False) -> float:
    """Picoseconds a pair of differences beyond 64 columns, with so many columns of moments or values beside the sum."""
    terms = -(-columns // _FAR_BLOCK) * (d + _FAR_BLOCK) if columns else d
    rate: float = _FAR_COLUMNS["term float64" if double else "term"]
    return terms * rate


def differences_are_few(shape: Shape) -> bool:
    """Whether differences in float32 take few pairs of more than 64 columns in less time than the tensor cores do."""
    n, m, d = shape.n, shape.m, shape.d
    columns = {"moments": d, "laplace_moments": d, "values": shape.k}.get(shape.output, 0)
    blocks = -(-columns // _FAR_BLOCK) if columns else 1
    tiles = -(-n // _FAR_TILE) * -(-m // _FAR_TILE) + _FAR_TILES / blocks
    wide = _FAR_COLUMNS["wide staged_ms" if columns else "wide_ms"] + 1e-9 * n * m * d * _FAR_COLUMNS["wide"]
    return bool(1e-9 * tiles * _FAR_TILE**2 * far_rate(d, columns) < wide)


def staged_block(queries: int, data: int, rows: int, numbers: int, *, symmetric: bool) -> tuple[int, int]:
    """Rows and columns of a block of so many numbers, whole tiles: ``rows`` of them, or of few data up to four times.

    Each block is launched for, and what launches it takes longer than a small block. A ``symmetric`` matrix is cut in
    squares.
    """
    if not symmetric:
        rows = min(_MOST_TIMES_ROWS * rows, max(rows, numbers // data // _STAGED_TILE * _STAGED_TILE))
    rows = min(queries, rows)
    return rows, min(data, numbers // rows // _STAGED_TILE * _STAGED_TILE)


# --- Few pairs, and passes that are launched before the values have been inspected ---


def small_serves(n: int, m: int, d: int, precision: str, output: Output = "sum", *, itemsize: int) -> bool:
    """Whether one launch takes a problem of this size; see :func:`small_ms`."""
    asked, double = wanted("small"), sums_in_double(d, precision)
    if asked is False or not (0 < d <= SMALL_COLUMNS and n and m):
        return False
    if output == "moments" and itemsize == 8 and not double:
        return False
    return bool(asked) or small_ms(n, m, d, precision, output, itemsize=itemsize) <= _MOST_SMALL_MS[double]


@functools.lru_cache(maxsize=4096)
def small_ms(n: int, m: int, d: int, precision: str, output: Output = "sum", *, itemsize: int) -> float:
    """Milliseconds of one launch for few pairs, of points whose coordinates are stored in so many bytes."""
    double = sums_in_double(d, precision)
    name = "small float64" if double else "small"
    of = "split" if itemsize == 8 and not double else output
    if d <= _LAUNCH_COLUMNS:
        rates = _FEW[name]
        ps = plan_rates.at(rates.get(of, rates["sum"]), d)
    else:
        rates = _FEW_FAR[name]
        least, of_column = rates.get(of, rates["sum"])
        ps = least + of_column * d
    return 1e-9 * m * (n * ps + plan_rates.at(_RATES["small queries"], d))


def sums_in_double(d: int, precision: str) -> bool:
    """Whether one launch sums pairs in double: on a line always, for densities that are good to 1e-6."""
    return d == 1 or precision == "float64"


def ahead_serves(shape: Shape) -> bool:
    """Whether products take points near the centre, and all pairs so fast that nothing has to be inspected before."""
    return wanted("f16 ahead") is not False and _ahead_serves(shape)


@functools.lru_cache(maxsize=4096)
def _ahead_serves(shape: Shape) -> bool:
    n, m, d, precision = shape.n, shape.m, shape.d, shape.precision
    if not (n and m and precision in ("float32", "tf32") and 2 <= d <= MOST_COLUMNS):
        return False
    first = dense(shape)[0]
    return first.name in ("f16", "f16_symmetric") and dense_ms(first.name, shape) < _LEAST_OF_FAST_MS


# --- Passes that leave out pairs ---


def takes_all(shape: Shape, squared_radius: float | None) -> bool:
    """Whether no pass of its own leaves out pairs, whatever the data are."""
    if squared_radius == math.inf or shape.precision == "ieee" or shape.output == "laplace_moments":
        return True
    if wanted("skipping") is not None:
        return not (wanted("skipping") or wanted("apart"))
    slowest = 1e-9 * shape.n * shape.m * _slowest(shape.d)
    by_itself = shape.precision == "float64" and _centred_serves(shape)  # the centred pass leaves them out
    return slowest <= min(_LEAST_MS, _LEAST_OF_FAST_MS) or by_itself


@functools.cache
def _slowest(d: int) -> float:
    """Picoseconds a pair of the slowest pass."""
    single = (dense_rate(name, "float32", d, "moments") for name in _OF_ALL if " " not in name)
    return max(dense_rate("difference", "float64", d, "sum"), *single)


def skipping_serves(output: Output, precision: str, d: int, capability: tuple[int, int]) -> bool:
    """Whether there are kernels that leave out pairs; in float64 for sums alone, which values take."""
    double = precision == "float64"
    outputs = ("sum",) if double else ("sum", "moments", "laplace")
    if capability < _TENSOR_CORES or output not in outputs or precision not in ("float32", "tf32", "float64"):
        return False
    wide = double or capability != (9, 0)  # 128 columns take nearly all registers
    return 2 <= d <= (SKIPPING_COLUMNS // 2 if wide else SKIPPING_COLUMNS)


def may_leave_out(shape: Shape, of_all: str, squared_radius: float | None) -> bool:
    """Whether samples of the points are worth their time: whether a pass that leaves out pairs could be faster."""
    output: Output = "sum" if shape.output == "values" else shape.output
    asked, least = wanted("skipping"), _LEAST_MS if of_all == "difference" else _LEAST_OF_FAST_MS
    return (
        (dense_ms(of_all, shape) >= least if asked is None else asked)
        and shape.tolerance > 0
        and squared_radius is not None
        and not (of_all == "centred" and shape.own_out)
        and (shape.output != "values" or 0 < shape.k <= MOST_SKIPPING_VALUES)
        and skipping_serves(output, shape.precision, shape.d, _device(shape).capability)
        and not shape.captured
    )


def apart_serves(shape: Shape, squared_radius: float | None, of_all: str = "difference") -> Dense | None:
    """The pass of products that takes all rows but a few, where ``of_all`` would take long for all; None: none."""
    if (
        squared_radius is None
        or of_all not in ("difference", "centred")
        or (of_all == "centred" and shape.own_out)
        or shape.captured
        or wanted("apart") is False
        or (wanted("apart") is None and dense_ms("difference", shape._replace(output="sum", k=0)) < _LEAST_MS)
        or (shape.precision == "float64" and _centred_serves(shape))
    ):
        return None
    products = [one for one in dense(shape._replace(own_out=False)) if one.is_product and one.limit < math.inf]
    if not products:
        return None
    limit = max(one.limit for one in products)
    return next(one for one in products if one.limit == limit)


def apart_is_few(far: int, rows: int) -> bool:
    """Whether so few rows are far that differences of these take less time than products of the others save."""
    return far <= _MOST_APART * rows


def apart_is_likely(share: float) -> bool:
    """Whether the share of a sample that is far lets few rows be far."""
    return share <= 2 * _MOST_APART


class Skipping(NamedTuple):
    """How long a pass that leaves out pairs takes beside one that takes all of them."""

    shape: Shape
    of_all: str  # the pass that takes all
    products: bool  # whether products serve pairs that are summed
    once: bool  # each pair of the data serves both of its points
    apart: Dense | None  # the pass that could take nearly all rows by products

    def ms(self, share: float, tight: float) -> float:
        """Milliseconds, where a share of the pairs is summed, and products are good for a share of blocks."""
        shape = self.shape
        of_summed = summing(shape.precision, shape.d, tight if self.products else 0.0, once=self.once)
        return order_ms() + 1e-9 * shape.n * shape.m * (screening(shape.d) + share * of_summed)

    def pays(self, share: float, tight: float) -> bool:
        """Whether it is faster than all pairs."""
        if wanted("skipping") is not None:
            return bool(wanted("skipping"))
        return self.ms(share, tight) < _SKIPPING_GAIN * dense_ms(self.of_all, self.shape)

    def rather_apart(self, share: float, tight: float) -> bool:
        """Whether products of nearly all rows are likely to be faster."""
        if self.apart is None or wanted("skipping"):
            return False
        return self.ms(share, tight) > _RATHER_APART * dense_ms(self.apart.name, self.shape._replace(output="sum", k=0))

    def decided(self, share: float) -> bool:
        """Whether so many pairs of a sample can matter that nothing is inspected further: a pass takes no fewer."""
        return (share > _MOST_SHARE or not self.pays(share, 1.0)) and not wanted("skipping")


def values_take_all(of_all: str, share: float) -> bool:
    """Whether so many pairs of a sample can matter that a fast pass over values takes all of them."""
    return of_all != "difference" and share > _MOST_SHARE and not wanted("skipping")


def skipping_values_pay(
    shape: Shape, of_all: str, columns: Sequence[tuple[int, int]], share: float, tight: float, *, products: bool
) -> bool:
    """Whether a pass over values that leaves out pairs is faster; columns are numbers of values and of their signs."""
    if wanted("skipping"):
        return True
    n, m, d = shape.n, shape.m, shape.d
    values = sum(count for count, _ in columns)
    of_columns = sum(column_ms(m * count, signs) for count, signs in columns)
    of_summed = summing(shape.precision, d, tight if products else 0.0, once=False)
    of_pairs = 1e-9 * m * (values * screening(d) + n * len(columns) * share * of_summed)
    return order_ms() + of_columns + of_pairs < _SKIPPING_GAIN * dense_ms(of_all, shape)


def order_ms() -> float:
    """Milliseconds for order, bounds and samples of the data, however many there are."""
    return float(_SKIPPING["order_ms"])


def column_ms(pairs: float, signs: int = 1) -> float:
    """Milliseconds for the bounds and the order of a column of values, which has one sign or both."""
    return signs * float(_SKIPPING["sign_ms"]) + 1e-9 * pairs * float(_SKIPPING["column"])


def screened(d: int) -> bool:
    """Whether a product a pair tells what is left out; in fewer columns boxes do."""
    return d > max(_SKIPPING["boxes"])


def screening(d: int) -> float:
    """Picoseconds for each of all pairs."""
    return plan_rates.at(_SKIPPING["screen"], d) if screened(d) else 0.0


def summing(precision: str, d: int, tight: float, *, once: bool) -> float:
    """Picoseconds for each pair that is not left out; products are good for a share ``tight`` of blocks.

    ``once`` says that a pass takes each pair once where they are; it counts twice.
    """
    by_boxes = not screened(d)
    slow = _SKIPPING["boxes" if by_boxes else "differences"]
    fast = _SKIPPING["boxes by products" if by_boxes else "products"]
    if once and d <= max(_SKIPPING["products once"]):
        fast = _SKIPPING["boxes once" if by_boxes else "products once"]
    rate = tight * plan_rates.at(fast, d) + (1 - tight) * plan_rates.at(slow, d)
    return rate * (float(_SKIPPING["float64"]) if precision == "float64" else 1)


# --- Two and three columns: the fast Gauss transform ---


def plane_is_too_small(n: int, m: int, precision: str, squared_radius: float | None) -> bool:
    """Whether all pairs of two or three columns take so little time that no transform is tried."""
    if wanted("plane") is not None:
        return not wanted("plane")
    return plane_pairs_ms(n, m, precision, squared_radius) < _LEAST_PLANE_MS


def plane_pairs_ms(n: int, m: int, precision: str, squared_radius: float | None) -> float:
    """About what all pairs take; by products where the radius is unknown: while a stream is captured."""
    by_products = squared_radius is None or squared_radius <= _PLANE_PRODUCTS
    rate = _RATES["plane"]["pair by products_ms" if by_products else "pair_ms"][_arithmetic(precision)]
    return float(rate) * n * m


def plane_near_ms(shape: Shape, sides: Sequence[float], squared_radius: float | None) -> float:
    """About what pairs take: all, or those that can matter of data spread evenly over a box of so many bandwidths."""
    plane, arithmetic = _RATES["plane"], _arithmetic(shape.precision)
    squared_reach = 2 * math.log(shape.n / shape.tolerance)  # within which a pair counts, in bandwidths
    volume = math.prod(max(side, math.sqrt(squared_reach)) for side in sides)
    ball = math.pi * squared_reach if shape.d == 2 else 4 / 3 * math.pi * squared_reach**1.5
    share = min(1.0, _OF_BLOCKS * ball / volume)
    near = plane["near pair_ms"][shape.d][arithmetic][shape.output == "moments"] * share * shape.n * shape.m
    near += plane["near_ms"][arithmetic] + plane["near point_ms"] * (shape.n + shape.m)
    return float(min(near, plane_pairs_ms(shape.n, shape.m, shape.precision, squared_radius)))


def plane_most_ms(of_pairs: float) -> float:
    """Milliseconds below which a transform is taken."""
    return math.inf if wanted("plane") else _PLANE_GAIN * of_pairs


def plane_transform_ms(shape: Shape, products: float, far: float) -> float:
    """About what the transform takes with so many multiply-adds, and a share of data outside of its grid."""
    plane = _RATES["plane"]
    of_points = plane["transform_ms"] + plane["point_ms"] * (shape.n + shape.m)
    of_far = plane["far pair_ms"][_arithmetic(shape.precision)] * (far * shape.n * shape.m)
    return float(of_points + plane["multiply-add_ms"] * products + of_far)


def plane_filled(columns: int) -> float:
    """About the share of the cells of a grid with an expansion."""
    return _FILLED[columns]


def _arithmetic(precision: str) -> str:
    return "float64" if precision == "float64" else "float32"


# --- One column ---


def line_takes_pairs(n: int, m: int, precision: str, *, cdf: bool = False) -> bool:
    """Whether the sum of all pairs of one column is as fast as the transform, of the distribution function or not."""
    if wanted("line") is not None:
        return n * m == 0 or not wanted("line")
    if cdf:
        return n * m <= LINE_PAIRS_CDF
    return n * m * (_LINE_DOUBLE if precision == "float64" else 1) <= LINE_PAIRS


# --- Other kernels ---


def bounded_may_skip(shape: Shape) -> bool:
    """Whether blocks that no query reaches may be left out of sums of a kernel of bounded support."""
    asked, least = wanted("radial skipping"), _LEAST_BOUNDED_MS if shape.d <= FEW_COLUMNS else _LEAST_BOUNDED_SAMPLE_MS
    return (
        (_radial_ms(shape) > least if asked is None else asked) and shape.d <= SKIPPING_COLUMNS and not shape.captured
    )


def bounded_pays(share: float) -> bool:
    """Whether so few pairs of a sample lie within the bandwidth that blocks are left out, of more than 3 columns."""
    return share <= _MOST_BOUNDED_SHARE or bool(wanted("radial skipping"))


def exponential_may_skip(shape: Shape, squared_radius: float | None) -> bool:
    """Whether pairs that cannot matter may be left out of sums of the exponential kernel, of checked points."""
    if squared_radius is None or max(shape.tolerance, shape.atol) <= 0 or shape.d > SKIPPING_COLUMNS or shape.captured:
        return False
    if wanted("radial skipping") is not None:
        return bool(wanted("radial skipping"))
    most = _EXPONENTIAL_HOPE if shape.d <= FEW_COLUMNS else _IN_VAIN
    return _radial_ms(shape) > _LEAST_EXPONENTIAL_MS and exponential_order(shape) <= most


def exponential_order(shape: Shape) -> float:
    """What putting points in order takes of the time of all pairs."""
    points = _RATES["exponential"]["point_ms"] * (shape.n + shape.m)
    return float((order_ms() + points) / _radial_ms(shape))


def exponential_is_hopeless(shape: Shape, share: float, with_boxes: float) -> bool:
    """Whether all pairs are faster by a sample: the share of its pairs that can matter, and with what boxes add."""
    if wanted("radial skipping"):
        return False
    if shape.d <= FEW_COLUMNS:
        return exponential_order(shape) + with_boxes > _EXPONENTIAL_HOPE
    return share > _MOST_EXPONENTIAL_SHARE


def exponential_pays(share: float) -> bool:
    """Whether few enough pairs are taken by queries that were tried."""
    return share <= _EXPONENTIAL_GAIN or bool(wanted("radial skipping"))


def _radial_ms(shape: Shape) -> float:
    """Milliseconds of all pairs of another kernel: roots take as long as moments."""
    return dense_ms("difference", shape._replace(output="moments", k=0))


# --- Several passes ---


def devices_pay(n: int, m: int, count: int) -> bool:
    """Whether a pass takes so long that each of several GPUs should have a share."""
    asked = wanted("devices")
    return m >= count > 0 and (n * m >= _SHARED_PAIRS if asked is None else asked)


def own_pairs_are_few(n: int) -> bool:
    """Whether all pairs of leave-one-out take about as little time as a transform of one to three columns."""
    return n**2 <= _PAIRS_OF_OWN


# --- The whole plan, for people and for the performance model ---


def plan(shape: Shape) -> Plan:
    """All candidates for a pass, in the order in which they are asked."""
    return _plan(shape) if asked() is None else _plan.__wrapped__(shape)  # what is asked for is not kept


@functools.lru_cache(maxsize=1024)
def _plan(shape: Shape) -> Plan:
    found = [_small(shape), _ahead(shape), _transform(shape), _skipping(shape), _apart(shape), *_all_pairs(shape)]
    if shape.kernel != "gaussian":
        found = [*_radial(shape)]
    return Plan(str(shape), tuple(one for one in found if one is not None))


def _small(shape: Shape) -> Candidate | None:
    if shape.local or shape.output in ("values", "laplace_moments", "cdf"):
        return None
    of = shape.n, shape.m, shape.d, shape.precision, shape.output
    if not small_serves(*of, itemsize=shape.itemsize):
        reasons = f"more than {SMALL_COLUMNS:,} columns, dtypes that it does not take, or other passes are faster"
        return Candidate("small", refused=reasons)
    return Candidate("small", small_ms(*of, itemsize=shape.itemsize), "C-contiguous arrays, a number as bandwidth")


def _ahead(shape: Shape) -> Candidate | None:
    if shape.d == 1 or shape.itself or shape.weighted or shape.local or shape.output in ("values", "laplace_moments"):
        return None
    first = dense(shape)[0]
    if not ahead_serves(shape):
        return Candidate("f16 ahead", refused="products do not serve, or take so long that samples of the data may pay")
    limit = f"scaled squared radius up to {first.limit:.4g}, C-contiguous arrays, a number as bandwidth"
    return Candidate("f16 ahead", dense_ms(first.name, shape), limit)


def _transform(shape: Shape) -> Candidate | None:
    if shape.d > 3 or shape.local or shape.precision == "ieee" or shape.rtol == 0:
        return None
    if shape.d == 1:
        if line_takes_pairs(shape.n, shape.m, shape.precision, cdf=shape.output == "cdf"):
            return Candidate("line", refused=f"all pairs are as fast up to {LINE_PAIRS:,}")
        return Candidate("line", condition="a bandwidth for whose boxes numbers suffice")
    if shape.output not in ("sum", "moments") or shape.captured:
        return None
    if plane_is_too_small(shape.n, shape.m, shape.precision, 0.0):
        return Candidate("plane", refused=f"all pairs take less than {_LEAST_PLANE_MS:g} ms")
    return Candidate("plane", condition="so wide a bandwidth that cells are few")


def _skipping(shape: Shape) -> Candidate | None:
    if shape.d == 1 or shape.local or shape.own_out:
        return None
    first = served(shape, 0.0).name
    if takes_all(shape, 0.0) or not may_leave_out(shape, first, 0.0):
        return Candidate("skipping", refused=f"all pairs take less than {_LEAST_OF_FAST_MS:g} ms, or no kernel serves")
    return Candidate("skipping", condition=f"samples say that few pairs can matter; at least {order_ms():g} ms")


def _apart(shape: Shape) -> Candidate | None:
    if shape.d == 1 or shape.local or shape.output == "values":
        return None
    products = apart_serves(shape, 0.0)
    if products is None:
        return None
    return Candidate("apart", dense_ms(products.name, shape), "at most one row in 16 is too far out for products")


def _all_pairs(shape: Shape) -> list[Candidate]:
    if shape.d == 1 and not shape.local:
        return [Candidate("line pairs")]
    passes, out = dense(shape), []
    for one in passes:
        condition = ""
        if one.limit < 0:
            condition = "the scaled squared radius is unknown"
        elif one.limit < _ANY:
            condition = f"scaled squared radius up to {one.limit:.4g}"
        elif one.limit < math.inf:
            condition = "finite points"
        elif not one.blind:
            condition = "the scaled squared radius is known"
        out.append(Candidate(one.name, dense_ms(one.name, shape), condition))
    return out


def _radial(shape: Shape) -> list[Candidate]:
    may = exponential_may_skip(shape, 0.0) if shape.kernel == "exponential" else bounded_may_skip(shape)
    of_all = Candidate("radial", _radial_ms(shape))
    if not may:
        return [Candidate("radial skipping", refused="all pairs take little time, or nothing may be left out"), of_all]
    return [Candidate("radial skipping", condition="samples say that few pairs can matter"), of_all]


def _device(shape: Shape) -> Device:
    if shape.device is None:
        raise ValueError("a plan for a GPU needs a shape with a device")
    return shape.device
