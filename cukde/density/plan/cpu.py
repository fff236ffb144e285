"""Which pass takes the pairs of a call on the CPU: every predicate and threshold, and the times that they compare.

Times are of the table ``rates_cpu.json``, measured on two cores with AVX-512. No more than their ratios counts.

A call of the Gaussian asks its candidates in this order:

1. "few queries": one pass over the data as they are given, before their values have been inspected;
2. "few": NumPy alone, for few pairs, which a process without Numba need not load it for;
3. "plane" or "line": the fast Gauss transform of one to three columns;
4. "skipping": leaves out pairs that cannot matter, where samples of the points say that it pays;
5. "each pair once", of data at themselves; else "product float64" of many columns, "difference float32" or
   "difference float64".

While a pass is compiled for the first time, "few" answers calls that it takes in less time than that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cukde.core.plan import Candidate, Plan, wanted
from cukde.density.plan import rates as plan_rates
from cukde.density.plan.shape import Shape
from cukde.density.sums import Output

_RATES = plan_rates.table("cpu")
_OF_ALL, _SKIPPING, _EXPONENTIAL = _RATES["all pairs"], _RATES["skipping"], _RATES["exponential"]

# --- Limits of accuracy: scaled squared radii, squared distances to the centre in bandwidths ---

# Differences in single precision take half the time of those in double: of two cores 0.26 ns a pair beside 0.47 of 8
# columns, 0.72 beside 1.25 of 64. A query's exponent is off by 0.5 to 0.9 eps of itself, at worst by 3: from the first
# on, and up to the second, from where the error that is promised grows with the exponent, it is taken in double.
_FAR, _FARTHER = 32.0, 80.0

_FEW_IN_DOUBLE = 2**18  # coordinates of pairs

# Squared distances by a product of points about the centre, in double, have terms that cancel. Scaled squared radius
# times sqrt(d) up to which they serve double precision: worst density error measured at the limit 3e-13. Single
# precision allows as many times as much.
_RADIUS_OF_PRODUCT, _PRODUCT_OF_SINGLE = 2500.0, 1e6

# Points in double are rounded about the centre, up to the first scaled squared radius, and of queries whose exponent is
# more than it over the second: the rounding of coordinates counts times distances.
RADIUS_OF_ROUNDED, _RADII_OF_FARTHER = 450.0, 20.0
_LEAST_SQUARE, _LARGEST_SQUARE = 1e-24, 1e35  # of a bandwidth, and of a distance to the centre, in single precision

# Sums of absolute coordinates beyond which a point may lie farther out than is allowed, in bandwidths, and beyond which
# squares may leave single precision.
_MOST_BANDWIDTHS, _MOST_SINGLE = 1e13, 1e17

# A sample of queries tells whether all are so far from the data, or most are taken in double anyway; it pays from so
# many queries and columns on, or pairs: of so many columns or fewer, of more columns fewer pairs.
_LEAST_QUERIES, _LEAST_COLUMNS, _MANY_PAIRS, _COLUMNS_OF_MANY = 64, 8, 2**20, 32

# --- Work of threads ---

QUERIES_OF_BLOCK = 256
"""Queries of a tile, for which columns of the data are written once."""
_QUERIES_OF_RATE = 250  # of a block, where the rates of the table were measured

# Up to so many queries, and one for so many columns, take data row by row, of so many columns or more.
QUERIES_BY_ROWS, COLUMNS_OF_QUERY, COLUMNS_BY_ROWS = 32, 4, 32

_LEAST_WORK = 2**22  # multiply-adds that are worth a thread
_QUERIES_OF_COPY = 64  # that take about as long as a copy of the data

# Columns and queries from which a product takes less time than differences in double: of 1,000 queries 0.7 of it in 40
# columns, 0.6 from 128 on, where differences in single precision take 0.5. And coordinates of pairs from which it pays
# to limit BLAS to one thread, which takes 0.3 ms.
_COLUMNS_OF_PRODUCT, _QUERIES_OF_PRODUCT, _LEAST_PRODUCT = 40, 128, 2**25

# Rows for each thread from which data at themselves take each exponential once: a third less time, where blocks are
# large enough for rounds in which no two threads add to the same sums; and where pairs are left out, in smaller rounds.
_ONCE: tuple[Output, ...] = ("sum", "moments")
_ROWS_ONCE, _ROWS_SKIPPING_ONCE = 1024, 2048

# --- Few pairs ---

# Pairs, and their multiply-adds, up to which NumPy takes no more than half as long again as compiled loops do in two
# threads: of 3 columns 45 us beside 110 of 32,768 pairs, 90 beside 160 of 65,536 (AVX-512; 110 and 230 where NumPy's
# exponential has AVX2 alone). And pairs of a block, and multiply-adds up to which BLAS takes its product in the
# caller's thread: OpenBLAS's own limit.
_MOST_FEW_PAIRS, _MOST_FEW_PRODUCTS = 2**16, 2**20
PAIRS_OF_BLOCK, PRODUCTS_OF_BLOCK = 2**15, 2**18

# Coordinates of pairs up to which differences take less time than the operands of a product do; and up to which they
# take no more than 1.7 times as long as compiled loops, where there may be no product.
_FEW_DIFFERENCES, _MOST_DIFFERENCES = 2**11, 2**17

# Data and queries of one column that are few; pairs of the distribution function that take no longer than a transform.
_MOST_LINE_POINTS, _MOST_CDF_PAIRS = 2**12, 2**12

# --- While a pass is compiled: work that NumPy does in less time ---

# Multiply-adds of all pairs, of which an exponential takes as long as so many; with local factors compiled loops are
# few, of all pairs alone: most calls wait for them. The second is of calls that wait for a pass that leaves out pairs.
_MOST_MEANWHILE, _MOST_BEFORE_SKIPPING, _EXPONENTIAL_PRODUCTS, _LOCAL_BITS = 2**32, 2**37, 16, 5
_MOST_RADIAL_MEANWHILE, _RADIAL_PRODUCTS = 2**30, 8
_MOST_LINE_MEANWHILE = 2**20  # data and queries together, times columns of values

# --- Passes that leave out pairs ---

_FEW_SKIPPING_PAIRS = 2**22  # up to so many, all are taken before points could be brought in order
# Shares of the time of all pairs that leaving out may take: as queries that were tried say, and as samples do, of few
# columns and of many, of whose boxes they say nothing. Of 285 drawn calls whose pairs take 2.5 to 60 ms, the time is
# then 1.06 times that of the better way, and 1.8 times at worst.
_SKIPPING_GAIN, _HOPE, _HOPE_OF_MANY = 0.85, 1.0, 1.1
_MOST_TRIED, _ONE_TRIED_IN = 32, 64  # queries that are tried, at most, and of so many one
SCREENED_FROM = 6
"""Columns from which on boxes are so wide that squared distances in single precision pay, before those in double."""

_FEW_RADIAL_PAIRS, _FEW_RADIAL_QUERIES = 2**20, 128
# Up to so many columns blocks are faster than tiles of all pairs of a kernel of bounded support even if they leave out
# none, and beyond where no larger share of the pairs of a sample lies within a bandwidth.
FEW_COLUMNS, _MOST_BOUNDED_SHARE = 3, 0.2
# Of the exponential kernel: gain and hope, as above. Up to FEW_COLUMNS boxes are so narrow that the share of single
# pairs foretells them. Beyond, queries are tried, where points are put in order in so short a time that it may be in
# vain: short, or not long and pairs are few.
_EXPONENTIAL_GAIN, _EXPONENTIAL_HOPE, _MORE_COLUMNS = 0.8, 0.9, 6
_SHORT, _LONG, _FEW_EXPONENTIAL = 0.04, 0.08, 0.05

# --- Transforms ---

_FEW_PLANE_PAIRS, _FEW_PLANE_QUERIES = 2**22, 128  # that are summed as fast as points are brought in order
LINE_PAIRS = 2**20
"""Pairs of one column that are summed as fast: 0.7 ns each and 0.2 ms a call, beside 0.9 ms and some 10 ns a point."""
CDF_PAIRS = 16
"""A pair of the distribution function, exponentials and Mills' ratio, takes as long as so many: 20 ns."""

_PAIRS_OF_OWN = 2**22  # of leave-one-out in one to three columns, that pairs take in about the time of a transform


def few_serve(n: int, m: int, columns: int) -> bool:
    """Whether pairs of so many data and queries are few, with points, or values, of so many columns."""
    if wanted("few") is not None:
        return bool(wanted("few")) and n * m > 0
    return _are_few(n, m, columns)


def _are_few(n: int, m: int, columns: int) -> bool:
    pairs, width = n * m, columns + 2
    if pairs <= PAIRS_OF_BLOCK and pairs * width <= PRODUCTS_OF_BLOCK:  # of one block
        return pairs > 0
    fit = n <= PAIRS_OF_BLOCK and n * width <= PRODUCTS_OF_BLOCK  # those of a query
    return fit and pairs <= _MOST_FEW_PAIRS and pairs * width <= _MOST_FEW_PRODUCTS


# Queries up to which one pass over the data as they are takes less time than to inspect these first, by columns; of two
# and three columns than a transform. Measured on two threads with 2,000 to 1,000,000 data. All queries, up to as many
# pairs as nothing else than all of them is for.
_MOST_QUERIES = {3: 8, 47: 16, 399: 64, math.inf: 128}


def few_queries_serve(n: int, m: int, d: int, precision: str, *, has_loops: bool) -> bool:
    """Whether one pass over the data as they are takes few queries; few pairs where a process has compiled loops."""
    if d < 2 or n * m == 0:
        return False
    if wanted("few queries") is not None:
        return bool(wanted("few queries"))
    if _are_few(n, m, d):
        return has_loops
    if precision == "float64" and product_pays(n, m, d):
        return False
    if n * m <= min(_FEW_SKIPPING_PAIRS, _FEW_PLANE_PAIRS):
        return True
    return m <= next(queries for columns, queries in _MOST_QUERIES.items() if d <= columns)


# Pairs of which one array takes less time than to begin a loop over tiles, and coordinates of them for moments; and a
# squared distance in bandwidths beyond which a point may lie farther out than is allowed.
_PAIRS_OF_ARRAY, _COORDINATES_OF_ARRAY, _MOST_SQUARE = 2**13, 2**17, 1e29


def one_array_pays(n: int, m: int, d: int, *, moments: bool) -> bool:
    """Whether so few pairs are one array."""
    return n * m <= _PAIRS_OF_ARRAY and (not moments or n * m * d <= _COORDINATES_OF_ARRAY)


def most_square(h: float) -> float:
    """Squared distance below which nothing that is refused is among values that nobody has inspected."""
    return _MOST_SQUARE * h * h


def few_may_multiply(n: int, m: int, d: int) -> bool:
    """Whether operands of a product of few pairs take no more time than their differences do."""
    return n * m * d > _FEW_DIFFERENCES


def few_may_pass_on(n: int, m: int, d: int) -> bool:
    """Whether compiled loops take such pairs where there may be no product."""
    return n * m * d > _MOST_DIFFERENCES


def line_is_few(n: int, m: int) -> bool:
    """Whether data and queries of one column are few."""
    if wanted("line few") is not None:
        return bool(wanted("line few")) and m > 0
    return m > 0 and n + m <= _MOST_LINE_POINTS


def line_takes_pairs(n: int, m: int, *, cdf: bool = False) -> bool:
    """Whether the sum of all pairs of one column is as fast as the transform, of the distribution function or not."""
    if wanted("line") is not None:
        return n * m == 0 or not wanted("line")
    return n * m <= (0 if cdf else LINE_PAIRS)


def few_of_line_take_pairs(n: int, m: int, *, cdf: bool) -> bool:
    """The same of data and queries that are few."""
    if cdf and wanted("line"):
        return False
    return n * m <= _MOST_CDF_PAIRS if cdf else _are_few(n, m, 1)


def answers_meanwhile(n: int, m: int, columns: int, *, local: bool) -> bool:
    """Whether NumPy takes pairs in less time than compiling does."""
    return n * m * (_EXPONENTIAL_PRODUCTS + columns) <= _MOST_MEANWHILE >> (_LOCAL_BITS if local else 0)


def skips_meanwhile(n: int, m: int, d: int) -> bool:
    """Whether all pairs take less time than compiling the pass that leaves out some."""
    return n * m * (_EXPONENTIAL_PRODUCTS + d) <= _MOST_BEFORE_SKIPPING


def answers_radial_meanwhile(n: int, m: int, d: int) -> bool:
    """Whether NumPy takes pairs of another kernel in less time than compiling does."""
    return n * m * (_RADIAL_PRODUCTS + d) <= _MOST_RADIAL_MEANWHILE


def answers_line_meanwhile(n: int, m: int, columns: int) -> bool:
    """Whether NumPy makes the transform of one column in less time than compiling does."""
    return (n + m) * columns <= _MOST_LINE_MEANWHILE


# --- Precision of all pairs ---


def single_serves(precision: str, coordinates: int, squared_radius: float, h: float, *, local: bool) -> bool:
    """Whether differences in single precision may be accurate; not with factors, whose logarithms may be large.

    Few pairs take no longer in double, as some of their queries would be taken again.
    """
    if not _may_be_single(precision, coordinates, local=local) or wanted("product float64"):
        return False
    return h * h > _LEAST_SQUARE and max(1.0, squared_radius) * h * h < _LARGEST_SQUARE  # not of what is no number


def _may_be_single(precision: str, coordinates: int, *, local: bool) -> bool:
    return precision in ("float32", "tf32") and not local and coordinates > _FEW_IN_DOUBLE


def product_is_accurate(squared_radius: float, d: int, *, single: bool = False) -> bool:
    """Whether squared distances may come from a product in double; of results in ``single`` precision, or in double."""
    return squared_radius * math.sqrt(d) <= _RADIUS_OF_PRODUCT * (_PRODUCT_OF_SINGLE if single else 1.0)


def rounded_serves(squared_radius: float, least_exponent: float) -> bool:
    """Whether points in double may be rounded to single precision, for queries of such an exponent at least."""
    return squared_radius <= RADIUS_OF_ROUNDED or least_exponent > squared_radius / _RADII_OF_FARTHER


def sample_pays(m: int, d: int) -> bool:
    """Whether a sample of the queries is worth its time."""
    return m >= _LEAST_QUERIES and d >= _LEAST_COLUMNS


def single_is_sampled(n: int, m: int, d: int) -> bool:
    """Whether pairs take so long that a sample tells whether most queries are taken in double anyway."""
    return n * m * max(d, _COLUMNS_OF_MANY) > _MANY_PAIRS * _COLUMNS_OF_MANY


def single_is_far(exponent: float, spread: float) -> bool:
    """Whether queries of such an exponent are taken in double; ``spread``, of the logarithms of weights."""
    return _FAR < exponent < _FARTHER + spread


def taken_in_double(squared_radius: float, spread: float, *, rounded: bool) -> tuple[float, float]:
    """Between which exponents queries are taken in double, after single precision.

    These are of the largest term, with its weight: the nearest point's may be less by the ``spread``.
    """
    least, most = _FAR, _FARTHER
    if rounded and squared_radius > RADIUS_OF_ROUNDED:
        least, most = -math.inf, max(most, squared_radius / _RADII_OF_FARTHER)
    return least, most + spread


def far_distance() -> float:
    """Bandwidths from all data at which a query without weights is taken again."""
    return math.sqrt(_FAR + _FARTHER)


def product_pays(n: int, m: int, d: int) -> bool:
    """Whether a product takes less time than differences in double."""
    if wanted("product float64") is not None:
        return bool(wanted("product float64"))
    return d >= _COLUMNS_OF_PRODUCT and m >= _QUERIES_OF_PRODUCT and n * m * d >= _LEAST_PRODUCT


def of_double(n: int, m: int, d: int) -> str:
    """Name of the pass over all pairs in double, of data near their mean."""
    return "product float64" if product_pays(n, m, d) else "difference float64"


def others_are_far(exponent: float) -> bool:
    """Whether rows without their own pairs are so far from others that most would be taken again."""
    return exponent > _FAR


def least_of_single() -> float:
    """Sum of kernels below which queries are taken in double."""
    return math.exp(-_FAR)


def most_unchecked(h: float, *, single: bool) -> float:
    """Sum of absolute coordinates below which nothing that is refused is among values that nobody has inspected."""
    return min(_MOST_BANDWIDTHS * h, _MOST_SINGLE if single else math.inf)


def copy_costs(m: int) -> bool:
    """Whether so few queries take less time than a copy of the data in double precision."""
    return m <= _QUERIES_OF_COPY


def threads_pay(n: int, m: int, d: int) -> bool:
    """Whether pairs take so long that other threads than the caller's are worth waking: 0.1 ms."""
    return n > rows_of_thread(d, m)


def rows_of_thread(d: int, queries: int) -> int:
    """Data rows that are worth a thread, at so many queries."""
    return _LEAST_WORK // ((_EXPONENTIAL_PRODUCTS + d) * max(1, queries))


# --- Each pair of the data once ---


def once_pays(output: Output, n: int, threads: int) -> bool:
    """Whether there are so many data that each of their pairs is taken once."""
    if output not in _ONCE or wanted("each pair once") is not None:
        return output in _ONCE and bool(wanted("each pair once"))
    return n >= _ROWS_ONCE * threads


def skips_once(output: Output, n: int, threads: int) -> bool:
    """Whether a pass that leaves out pairs takes those of data at themselves once: in fewer rows threads would wait."""
    return output == "moments" and n >= _ROWS_SKIPPING_ONCE * threads


# --- Passes that leave out pairs ---


class Skipping(NamedTuple):
    """How long a pass that leaves out pairs takes beside one that takes all of them."""

    output: Output
    n: int
    m: int
    d: int
    k: int  # columns of values
    of_all: str  # the pass that takes all
    single: bool  # whether pairs are summed in single precision
    once: bool  # each pair of the data serves both of its points
    again: float = 0.0  # share of queries that the pass over all pairs would take again in double

    @property
    def serves(self) -> bool:
        """Whether points could be brought in order before all pairs are taken."""
        if wanted("skipping") is False or self.output not in ("sum", "moments", "laplace", "values"):
            return False
        return self.n * self.m > _FEW_SKIPPING_PAIRS or bool(wanted("skipping"))

    @property
    def of_all_ns(self) -> float:
        """Nanoseconds of all pairs."""
        rate = dense_rate(self.of_all, self.output, self.d, self.k)
        if self.again:
            double = of_double(self.n, round(self.again * self.m), self.d)
            rate += self.again * dense_rate(double, self.output, self.d, self.k)
        return self.n * self.m * rate

    def ns(self, screened: float, summed: float, *, ordered: bool) -> float:
        """Nanoseconds where shares of the pairs are screened and summed; ``ordered``: without the order."""
        d, n, m, once = self.d, self.n, self.m, self.once
        ordering = 0.0 if ordered else order_ns(d, n, 0 if once else m, once=once)
        screened = max(screened, summed) if once else screened  # queries that are tried take other pairs
        summing = summed_rate(self.output, d, self.k, single=self.single, once=once)
        taken = n * m * (summed * summing + screened * screened_rate(d, once=once))
        return ordering + boxes_ns(d, n, m, once=once) + taken

    def may_pay(self, share: float, reached: Callable[[], float]) -> bool:
        """Whether it is worth bringing points in order, if such a share of single pairs counts.

        ``reached`` is about the share that blocks of neighbours take: of clusters, curves and duplicates few more.
        """
        if wanted("skipping"):
            return True
        hope = (_HOPE if self.d < SCREENED_FROM else _HOPE_OF_MANY) * self.of_all_ns - _RATES["skipping"]["trial"]
        if self.ns(0.0, share, ordered=False) >= hope:
            return False
        return self.ns(*_expected(share, reached(), self.d), ordered=False) < hope

    def pays(self, screened: float, summed: float) -> bool:
        """Whether it is faster than all pairs, by what a few queries take."""
        return bool(wanted("skipping")) or self.ns(screened, summed, ordered=True) < _SKIPPING_GAIN * self.of_all_ns


def _expected(share: float, reached: float, d: int) -> tuple[float, float]:
    """About the shares of pairs that are screened and summed, if such shares of single pairs count and are reached."""
    if d < SCREENED_FROM:
        return 0.0, min(1.0, 0.01 + (1.2 if d <= 3 else 2.5) * share, max(share, reached))
    return reached, min(1.0, 0.01 + 3 * share, max(share, reached))


def dense_ns(name: str, output: Output, n: int, m: int, d: int, k: int = 0, *, single: bool) -> float:
    """Nanoseconds of a pass that takes all pairs; the table's rates have queries enough to write columns for."""
    kind = "float32" if single else "float64"
    if name == "each pair once":
        return n * m * dense_rate(f"{name} {kind}", output, d, k)
    if takes_rows(m, d):
        coordinate, pair, product = _RATES["rows"][kind]
        return n * (coordinate * d + m * (pair + product * d + _of_values(_OF_ALL[f"values {kind}"], k)))
    # Columns are written once for each block of queries.
    columns = _RATES["columns"][kind] * d * (-(-m // QUERIES_OF_BLOCK) - m / _QUERIES_OF_RATE)
    by = "product float64" if name == "product float64" else f"difference {kind}"
    return n * (m * dense_rate(by, output, d, k) + columns)


def takes_rows(m: int, d: int) -> bool:
    """Whether so few queries take data row by row: columns would take longer to write than all pairs do."""
    return d >= COLUMNS_BY_ROWS and m <= min(QUERIES_BY_ROWS, d // COLUMNS_OF_QUERY)


def few_ns(n: int, m: int) -> float:
    """Nanoseconds of few pairs by NumPy, on one core."""
    return float(_RATES["few"] * n * m)


def call_ns(names: Sequence[str], weights: int, *, loops: bool) -> float:
    """Nanoseconds, on one core, of Python's work in a call whose passes have these names, and of its weights."""
    calls = _RATES["calls"]
    further = sum(calls["line" if name == "line" else "further pass"] for name in names[1:])
    first = calls.get(names[0], calls["pairs"]) + loops * calls["loops"]
    return float(first + further + _RATES["weight"] * weights)


def result_ns(m: int) -> float:
    """Nanoseconds, on one core, of densities and so on of the sums of queries."""
    return float(_RATES["result"] * m)


def survey_ns(n: int, m: int, d: int, itemsize: int) -> float:
    """Nanoseconds, on one core, of the mean of the data, and of the look at all points."""
    row, coordinate = _RATES["look"]
    return float(_RATES["mean"][itemsize] * n * d + (row + coordinate * d) * (n + m))


def copy_ns(n: int, d: int) -> float:
    """Nanoseconds, on one core, of a copy of the data in double."""
    return float(_RATES["copy"] * n * d)


def sample_ns() -> float:
    """Nanoseconds, on one core, of samples that tell which share of the pairs can matter."""
    return float(_RATES["sample"])


def dense_rate(name: str, output: Output, d: int, k: int = 0) -> float:
    """Nanoseconds a pair of a pass that takes all of them."""
    rates = _OF_ALL[name]
    values = _of_values(_OF_ALL["values float32" if name.endswith("float32") else "values float64"], k)
    in_fours = name.startswith("difference")  # columns, which loops take four at a time
    single = d % 4 * _OF_ALL[f"column {name[-7:]}"] if in_fours else 0.0
    return _at(rates.get("moments" if "moments" in output else "sum", rates["moments"]), d) + single + values


def summed_rate(output: Output, d: int, k: int = 0, *, single: bool, once: bool) -> float:
    """Nanoseconds of a pair that is not left out; ``once``: for the sums at both of its points."""
    kind = "float32" if single else "float64"
    if once:
        return _of_columns(_SKIPPING[f"once {kind}"], d)
    rate = _of_columns(_SKIPPING[kind], d) + _of_values(_SKIPPING[f"values {kind}"], k)
    return rate + _of_columns(_SKIPPING["moments"], d) if output == "moments" else rate


def screened_rate(d: int, *, once: bool) -> float:
    """Nanoseconds of a pair whose squared distance is found in single precision, to tell whether it counts."""
    return _of_columns(_SKIPPING["once screened" if once else "screened"], d)


def order_ns(d: int, n: int, m: int, *, once: bool = False) -> float:
    """Nanoseconds to put points in order."""
    return (n + m) * _of_columns(_SKIPPING["once order" if once else "order"], d)


def queries_tried(m: int) -> int:
    """How many queries are tried, to find whether all pairs take longer."""
    return max(4, min(_MOST_TRIED, m // _ONE_TRIED_IN))


def tried_ns(d: int, m: int) -> float:
    """Nanoseconds to try some queries."""
    return queries_tried(m) * _of_columns(_SKIPPING["tried"], d)


def boxes_ns(d: int, n: int, m: int, *, once: bool = False) -> float:
    """Nanoseconds to find the blocks that are near queries."""
    query, side = _SKIPPING["once boxes" if once else "boxes"]
    return float(m * (query + side * d * n / 64))


def _of_columns(rates: tuple[float, float], d: int) -> float:
    """What one takes, and what each of its columns does."""
    return rates[0] + rates[1] * d


def _of_values(rates: tuple[float, float], k: int) -> float:
    """Nanoseconds a pair with values: for any of them, and for each column."""
    return rates[0] + rates[1] * k if k else 0.0


def _at(rates: dict[int, float], d: int) -> float:
    """The rate of ``d`` columns, between those of the table in proportion; beyond the last, in proportion to it."""
    most = max(rates)
    if d > most:
        return rates[most] * d / most
    above = next(columns for columns in rates if columns >= d)
    below = max((columns for columns in rates if columns <= d), default=above)
    part = (d - below) / (above - below) if above > below else 0.0
    return rates[below] + part * (rates[above] - rates[below])


# --- Other kernels ---


def radial_may_skip(n: int, m: int) -> bool:
    """Whether there are so many pairs and queries of another kernel that points are brought in order for them."""
    if wanted("radial skipping") is not None:
        return bool(wanted("radial skipping"))
    return n * m > _FEW_RADIAL_PAIRS and m > _FEW_RADIAL_QUERIES


def bounded_pays(share: float) -> bool:
    """Whether so few pairs of a sample lie within the bandwidth that blocks are left out, of more than 3 columns."""
    return share <= _MOST_BOUNDED_SHARE or bool(wanted("radial skipping"))


class Exponential(NamedTuple):
    """How long sums of the exponential kernel take that leave out pairs, in parts of the time of all."""

    n: int
    m: int
    d: int
    itemsize: int

    @property
    def _kind(self) -> str:
        return "float32" if self.itemsize == 4 else "float64"

    @property
    def order(self) -> float:
        """Of putting points in order."""
        row, coordinate = _EXPONENTIAL[f"point {self._kind}"]
        return float((row + coordinate * self.d) * (self.n + self.m) / (self.n * self.m))

    @property
    def pair(self) -> float:
        """Of a pair that is not left out."""
        return plan_rates.at(_EXPONENTIAL[self._kind], self.d)

    def may_pay(self, share: float) -> bool:
        """Whether points are brought in order, by the share of single pairs of a sample that can matter."""
        if wanted("radial skipping"):
            return True
        order, pair, boxes, d = self.order, self.pair, _EXPONENTIAL["boxes"], self.d
        if d <= FEW_COLUMNS:
            return bool(order + pair * (min(1.0, 1.2 * share + 0.02) + boxes) < _EXPONENTIAL_HOPE)
        in_vain = _LONG if d <= _MORE_COLUMNS and share < _FEW_EXPONENTIAL else _SHORT
        return bool(order <= in_vain and order + pair * (2 * share + 0.1 + boxes) <= _EXPONENTIAL_HOPE)

    def pays(self, screened: float, summed: float) -> bool:
        """Whether all pairs take longer, by the shares that a few queries screen and sum."""
        if wanted("radial skipping"):
            return True
        screening = (self.d + 1) / (self.d + 10)  # of the time of a pair: its squared distance
        time = self.pair * (screening * screened + (1 - screening) * summed + _EXPONENTIAL["boxes"])
        return bool(time < _EXPONENTIAL_GAIN)


# --- Two and three columns ---


def plane_may_pay(n: int, m: int) -> bool:
    """Whether there are so many pairs and queries of two or three columns that a transform may be faster."""
    if wanted("plane") is not None:
        return bool(wanted("plane"))
    return n * m > _FEW_PLANE_PAIRS and m > _FEW_PLANE_QUERIES


def plane_pays(n: int, m: int, d: int, output: Output, itemsize: int, share: float) -> bool:
    """Whether a transform is faster than the pairs that can matter, of which a sample tells the share."""
    pairs_of_point = _RATES["plane"][d][output][itemsize]
    return bool(wanted("plane")) or bool(share * n * m > pairs_of_point * (n + m))


def own_pairs_are_few(n: int) -> bool:
    """Whether all pairs of leave-one-out take about as little time as a transform of one to three columns."""
    return n**2 <= _PAIRS_OF_OWN


def radii() -> tuple[float, ...]:
    """Scaled squared radii that stand for all others: of single and of double precision."""
    return 0.0, 2 * RADIUS_OF_ROUNDED, 2e8


# --- The whole plan, for people and for the performance model ---


def plan(shape: Shape) -> Plan:
    """All candidates for a pass, in the order in which they are asked."""
    if shape.kernel != "gaussian":
        found = _radial(shape)
    else:
        found = [*_few(shape), *_transform(shape), *_skipping(shape), *_all_pairs(shape)]
    return Plan(str(shape), tuple(found))


def _few(shape: Shape) -> list[Candidate]:
    if shape.local:
        return []
    n, m, d = shape.n, shape.m, max(shape.d, shape.k)
    of_density = shape.output in ("sum", "moments", "laplace") and not (shape.itself or shape.own_out)
    if of_density and few_queries_serve(n, m, d, shape.precision, has_loops=True):
        few = [Candidate("few queries", condition="a number as bandwidth; few pairs where loops are compiled")]
    elif of_density:
        few = [
            Candidate(
                "few queries",
                refused=f"more than {_FEW_SKIPPING_PAIRS:,} pairs and {min(_MOST_QUERIES.values())} queries",
            )
        ]
    else:
        few = []
    if few_serve(n, m, d):
        condition = "products or differences serve" if few_may_pass_on(n, m, shape.d) else ""
        return [*few, Candidate("few", condition=condition)]
    if d == 1 and line_is_few(n, m):
        return [*few, Candidate("line few", condition="boxes are few")]
    return [*few, Candidate("few", refused="compiled loops are faster")]


def _transform(shape: Shape) -> list[Candidate]:
    n, m, d = shape.n, shape.m, shape.d
    if d > 3 or shape.local or shape.precision == "ieee" or shape.rtol == 0:
        return []
    if d == 1:
        if line_takes_pairs(n, m, cdf=shape.output == "cdf"):
            return [Candidate("line", refused=f"all pairs are as fast up to {LINE_PAIRS:,}")]
        return [Candidate("line", condition="a bandwidth for whose boxes numbers suffice")]
    if shape.output not in ("sum", "moments") or shape.own_out:
        return []
    if not plane_may_pay(n, m):
        return [Candidate("plane", refused=f"no more than {_FEW_PLANE_PAIRS:,} pairs or {_FEW_PLANE_QUERIES} queries")]
    return [Candidate("plane", condition="so wide a bandwidth that a large share of pairs can matter")]


def _skipping(shape: Shape) -> list[Candidate]:
    if shape.d == 1 or shape.output in ("laplace_moments", "cdf"):
        return []
    if shape.tolerance <= 0:
        return [Candidate("skipping", refused="nothing may be left out")]
    if shape.n * shape.m <= _FEW_SKIPPING_PAIRS:
        return [Candidate("skipping", refused=f"no more than {_FEW_SKIPPING_PAIRS:,} pairs")]
    least = 1e-6 * order_ns(shape.d, shape.n, shape.m)
    return [Candidate("skipping", condition=f"samples say that few pairs can matter; at least {least:.3g} ms")]


def _all_pairs(shape: Shape) -> list[Candidate]:
    single = _may_be_single(shape.precision, shape.n * shape.m * shape.d, local=shape.local)
    kind = "float32" if single else "float64"

    def candidate(name: str, condition: str = "") -> Candidate:
        rate = dense_rate(f"{name} {kind}" if "float" not in name else name, shape.output, shape.d, shape.k)
        return Candidate(name, 1e-6 * shape.n * shape.m * rate, condition)

    n, m, d = shape.n, shape.m, shape.d
    found = []
    once = shape.itself and not (shape.weighted or shape.local) and shape.output in _ONCE
    product = not shape.local and shape.precision != "ieee" and product_pays(n, m, d)
    if once and (single or not product):
        found.append(candidate("each pair once", f"{_ROWS_ONCE:,} rows a thread"))
    if single:
        condition = "numbers within single precision; queries of exponents from 32 to 80 are taken again"
        found.append(candidate("difference float32", condition))
    if product:
        condition = "points near their mean, and most exponents from 32 to 80" if single else "points near their mean"
        found.append(candidate("product float64", condition))
    return [*found, candidate("difference float64")]


def _radial(shape: Shape) -> list[Candidate]:
    n, m, d = shape.n, shape.m, shape.d
    if few_serve(n, m, d):
        return [Candidate("radial few")]
    if not radial_may_skip(n, m) or shape.own_out:
        return [Candidate("radial skipping", refused="few pairs or queries, or leave-one-out"), Candidate("radial")]
    return [Candidate("radial skipping", condition="samples say that few pairs can matter"), Candidate("radial")]
