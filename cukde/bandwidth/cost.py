"""Costs of cross-validation and of the improved Sheather-Jones rule.

Cross-validation passes over all pairs of rows, and takes each distance once for many bandwidths. It is counted for a
grid that is not extended, without the search for one deviation a column.
Exponentials that a GPU leaves out of likelihoods of many rows are counted too: how many depends on the data.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cukde.bandwidth.scores import proportional
from cukde.bandwidth.search import CROSS_VALIDATED
from cukde.core import dispatch
from cukde.core.cost import arguments, elementwise, host
from cukde.core.cost.cost import Counted, Part, Unit
from cukde.core.cost.peaks import Peaks
from cukde.density import check as density_check
from cukde.density.cost import calls as cost_calls, formulas as cost_formulas, waiting
from cukde.density.estimates import NOT_NEGATIVE
from cukde.density.grids.cost import TRANSFORMS
from cukde.density.mass_sizes import SAMPLES
from cukde.density.rules_by_name import ABRAMSON

# Rows of one column from which kde takes a fast transform for each bandwidth, as in {cpu,gpu}/passes.py.
LEAST_ROWS_OF_LINE = {"cpu": 4_096, "gpu": 65_536}

_SOURCE = "pairs, exponentials and sums of the formulas of cukde.bandwidth.cross_validate"

_TILE = 64  # rows and columns of the pairs whose points are read together

# Operations of a pair: the distance takes a difference and a multiply-add in each dimension; the kernel of a bandwidth
# takes the exponent, weights and sums for both rows; a least-squares term takes two polynomials and their products. A
# pair without a row takes its shares, their rest and its square.
_DISTANCE, _KERNEL, _TERM = 3, 6, 14
_SHARE = 16

# The same in instructions of a GPU, two operations each, with loads and steps of loops; and what a pair takes once for
# all bandwidths. In double a share takes a full power and division. Measured on an H200, 100,000 rows of 4 and of 16
# columns.
_DISTANCE_GPU, _PAIR_GPU = 10, 20
_WITHOUT_GPU, _SHARE_GPU, _SHARE_GPU_F64 = 14, 54, 270

# Copies that a pass of cross-validation waits for: the range of the data, what it left unsettled or how far points
# reach, and the scores. Array operations beside: points, and mean shifts without a row, become lines of numbers, and
# logarithms become a score.
_WAITS, _BEGUN = 3, 25

# Parts of the rates that kernels and least squares reach in single and double precision, measured there with 64
# bandwidths. Sums over lanes take turns with exponentials; in double more work stands beside an exponential than in the
# loop that measures its rate.
_GPU_KERNELS, _GPU_TERMS = {True: 0.9, False: 0.58}, {True: 0.82, False: 0.55}

# Part of the rate of exponentials in the fastest cache that a CPU reaches: it loads distances and adds sums besides.
# Measured on two cores of 5.0e9 a second in single and 1.5e9 in double precision, 32 bandwidths: 0.53 to 0.63.
_POWERS = 0.55

# Without a row the CPU works in double. Two differences and their squares, for each dimension of a pair, take as long
# as so many operations one at a time: 0.66 ns on the same cores.
_OPERATIONS = 3


# Rows that are binned at a time by the improved Sheather-Jones rule; launches for them: cells and shares of the rows,
# two histograms with what CuPy looks at before, two sums. CuPy asks for the least and the largest cell of each
# histogram before it counts.
_BLOCK, _LAUNCHES, _WAITS_OF_BLOCK = 2**20, 17, 4

# Cells of the first grid. To count rows in them each block of CUB's histogram, of so many threads, has counters of its
# own in memory, which it clears and reads again one after another: so many cycles for both, by the latency of memory.
_CELLS, _THREADS, _COUNTERS = 2**17, 384, 900

# So many operations one at a time take as long as NumPy's two histograms of a row, 8 ns on a core of 3e9 a second.
_SCALAR_OF_ROW = 24

# Seconds of a transform of 2^17 cells and of some 30 evaluations of six functionals, on one core of the host.
_ROOT = 4e-3


def cross_validation(
    on: Peaks,
    *,
    n: int,
    d: int,
    bandwidths: int = CROSS_VALIDATED.size,
    directions: int = 1,
    method: str = "kde",
    objective: str = "likelihood",
    dtype: Any = "float64",
    precision: str | None = None,
    weighted: bool = False,
) -> Counted:
    """Count the scores of ``bandwidths``; those of each of the ``directions`` are multiples of each other."""
    if bandwidths < 1 or not 1 <= directions <= bandwidths:
        raise ValueError(
            f"bandwidths must be 1 or more, and directions no more of them; got {bandwidths} and {directions}"
        )
    promoted = density_check.result_dtype(np.empty(0, dtype))
    single = density_check.precision(precision, promoted) != "float64"
    least_squares = objective == "least_squares"
    look = cost_formulas.bandwidth(on, n=n, d=d, dtype=dtype, weighted=weighted).parts[0]
    pairs = float(n) * (n - 1) / 2
    if method == "kde" and d == 1 and n >= LEAST_ROWS_OF_LINE[on.backend]:
        of_line = cost_formulas.kde(on, n=n, m=n, d=1, dtype="float64", weighted=weighted, at_data=True)
        # The integral of the square, for least squares, takes another transform.
        times = bandwidths * (2 if least_squares else 1)
        return Counted((look, *(part.times(times) for part in of_line.parts)), _SOURCE, pairs)
    if method != "sd":
        called = waiting.calls("calls", on, directions, _WAITS, _BEGUN)
        return Counted((look, *called, _pass(on, n, d, bandwidths, directions, single, least_squares)), _SOURCE, pairs)
    of_score = cost_formulas.debias(on, n=n, d=d, dtype="float32" if single else "float64", weighted=weighted)
    parts = [part.times(bandwidths) for part in (*of_score.parts, *_without_each(on, n, d, single))]
    parts += waiting.calls("calls", on, bandwidths, _WAITS, _BEGUN)
    if least_squares:
        # Debiased points are others for each bandwidth.
        parts.append(_pass(on, n, d, bandwidths, bandwidths, single, True))
    return Counted((look, *parts), _SOURCE, pairs)


def _pass(on: Peaks, n: int, d: int, bandwidths: int, directions: int, single: bool, least_squares: bool) -> Part:
    """Sums over unordered pairs, whose distances are computed once for each direction."""
    item = 4 if single else 8
    each = _TERM if least_squares else _KERNEL
    gpu = on.backend == "gpu"
    once = _DISTANCE_GPU * d + _PAIR_GPU if gpu else _DISTANCE * d
    results = 0.0 if least_squares else 8.0 * n * bandwidths
    return Part(
        "pairs",
        float(item * d) * n * directions + results,
        _work(single, float(n) * (n - 1) / 2, float(bandwidths), once * directions + each * bandwidths),
        _read(n, item * d) * directions + results,
        efficiency=(_GPU_TERMS if least_squares else _GPU_KERNELS)[single] if gpu else _POWERS,
    )


def _without_each(on: Peaks, n: int, d: int, single: bool) -> list[Part]:
    """Parts of the pass that leaves each row out of the debiased points of all others."""
    pairs, gpu = float(n) * n, on.backend == "gpu"
    row = (4 if single else 8) * d + 8 * d + 16  # a point, its mean shift, its sum and its weight
    traffic, read = float(row) * n + 8.0 * n, _read(n, row)
    if gpu:
        work = _work(single, pairs, 2.0, _WITHOUT_GPU * d + (_SHARE_GPU if single else _SHARE_GPU_F64))
        return [Part("without each", traffic, work, read, launches=3)]
    differences = Part("without each: differences", traffic, {"scalar": _OPERATIONS * d * pairs}, read)
    return [differences, Part("without each: powers", work=_work(False, pairs, 2.0, _SHARE), efficiency=_POWERS)]


def _work(single: bool, pairs: float, exponentials: float, operations: float) -> dict[Unit, float]:
    power: Unit = "exponential" if single else "exponential_f64"
    real: Unit = "fma" if single else "float64"
    return {power: exponentials * pairs, real: operations * pairs}


def _read(n: int, row: int) -> float:
    """Bytes that tiles ask for; ``row`` is the bytes of a row."""
    return float(n) * row * -(-n // _TILE)


def of_cross_validation(
    X: Any,
    method: str = "kde",
    bandwidths: Any = None,
    objective: str = "likelihood",
    *,
    weights: Any = None,
    per_dimension: bool = False,
    covariance: bool = False,
    precision: str | None = None,
    bounds: Any = None,
    periods: Any = None,
    n_eff: Any = None,
    kinds: Any = None,
) -> dict[str, Any]:
    """Sizes of a call; a default grid has not been extended, and neither images nor a search by gradients count.

    Columns of categories, by their ``kinds``, count as such of numbers.
    """
    sizes = cost_calls.of_bandwidth(X, weights=weights)
    count, directions = CROSS_VALIDATED.size, 1
    if bandwidths is not None:
        given = arguments.shape(bandwidths)
        count, directions = given[0], _directions(bandwidths) if len(given) > 1 else 1
    return sizes | {
        "bandwidths": count,
        "directions": directions,
        "method": method,
        "objective": objective,
        "precision": precision,
    }


def _directions(bandwidths: Any) -> int:
    """The number of sets of proportional bandwidths."""
    return len(list(proportional(np.asarray(dispatch.to_host(bandwidths), np.float64))))


def isj(on: Peaks, *, n: int, d: int = 1, dtype: Any = "float64", weighted: bool = False) -> Counted:
    """Count the rule, see ``cukde/bandwidth/improved_sheather_jones.py``."""
    if d != 1:
        raise ValueError(f"d must be 1 for the improved Sheather-Jones rule; got {d}")
    rows = float(n)
    look = cost_formulas.bandwidth(on, n=n, d=1, dtype=dtype, weighted=weighted).parts[0]
    # Offsets taken (2 arrays) where there are weights (2), ranges (3), scaled (2).
    size = elementwise.passes("size", on, 5 * rows, 9 * 8.0 * rows, launches=6, work={"float64": 3 * rows})
    # Arrays read and written: least and largest (2), moved to 0 (2), in steps (2), cells (2), shares (3), histograms
    # (3); with weights those (2), normalised (2), and the shares times them (3).
    passes = 14 + 7 * weighted
    blocks = -(-n // _BLOCK)
    work: dict[Unit, float] = {"float64": (4 + 2 * weighted) * rows}
    gpu = on.backend == "gpu"
    if not gpu:
        work["scalar"] = _SCALAR_OF_ROW * rows
    bins = elementwise.passes(
        "bins", on, passes / 2 * rows, 8.0 * passes * rows, launches=5 + _LAUNCHES * blocks, work=work
    )
    passed = [look, size, bins]
    if gpu:
        if not weighted:  # weights are added by atomics
            passed.append(Part("counters", cycles=float(blocks * (_CELLS // _THREADS) * _COUNTERS), launches=0))
        passed.append(host.waits("waits", on, _WAITS_OF_BLOCK * blocks + 6, _LAUNCHES * blocks))
    else:  # NumPy's passes run on one core
        passed = [dataclasses.replace(part, blocks=1.0) for part in passed]
    parts = (*passed, host.waits("root", on, 0, seconds=_ROOT))
    return Counted(
        parts, "passes over the data counted in cukde/bandwidth/improved_sheather_jones.py; the root as measured"
    )


# Launches for a column of a chain, and copies that the host waits for: the largest entry, the first autocovariance
# twice, the first pair that is not positive, whether it is, and the autocorrelations before it.
_LAUNCHES_OF_COLUMN, _WAITS_OF_COLUMN = 30, 6


def effective_size(on: Peaks, *, n: int, d: int, dtype: Any = "float64", weighted: bool = False) -> Counted:
    """Count autocorrelations by transforms, a column at a time, see ``cukde/bandwidth/chains.py``."""
    if weighted:
        raise ValueError("weighted must be False: the effective size of a chain takes no weights")
    gpu = on.backend == "gpu"
    entries, padded = float(n) * d, d * 2.0 ** math.ceil(math.log2(2 * n))
    # Arrays written: columns, centred, their sizes, scaled, less the mean of the chain, padded; squares of both parts
    # and their sum, half of the padded; autocovariances and correlations (5), their pairs (2, of half as many).
    written = 11 * entries + 2.5 * padded
    launches = (1 + _LAUNCHES_OF_COLUMN * d) * gpu
    # Three more read entries: means twice, and the largest.
    columns = elementwise.passes("columns", on, written, 16 * written + 24 * entries, launches=launches)
    flops = 2 * 2.5 * padded * math.log2(padded / d)
    transforms = Part("transforms", 64 * padded, {"float64": flops}, efficiency=TRANSFORMS, launches=4 * d * gpu)
    parts = [columns, transforms]
    if gpu:
        parts = [*(host.begun(part, on) for part in parts), host.waits("waits", on, 1 + _WAITS_OF_COLUMN * d)]
    else:  # NumPy's passes run on one core
        parts = [dataclasses.replace(part, blocks=1.0) for part in parts]
    return Counted(tuple(parts), "transforms and passes counted in cukde/bandwidth/chains.py")


_FOLDS, _TRIED = 5, 11  # folds, and bandwidths that a method tries on smooth data

# Of a method on a GPU: passes that the host calls and waits for, but those that a formula counts itself; array
# operations that bring data and queries to a bandwidth of 1, move data, correct densities, check factors, and add up.
_CALLS_OF = {"kde": (1, 10), "sd": (2, 24), "positive": (1, 25), ABRAMSON: (1, 26)}


def selection(
    on: Peaks,
    *,
    n: int,
    d: int,
    methods: Sequence[str] = (*NOT_NEGATIVE, ABRAMSON),
    most_rows: int = 10_000,
    bandwidths: int = _TRIED,
    dtype: Any = "float64",
    weighted: bool = False,
) -> Counted:
    """Count the densities of left-out rows by ``methods``, each at so many ``bandwidths``: the data decide how many."""
    m = min(n, most_rows)
    scored = max(1, m // _FOLDS)
    fitted = max(1, m - scored)
    each: dict[str, Any] = {"n": fitted, "d": d, "dtype": dtype, "weighted": weighted}
    parts = [cost_formulas.bandwidth(on, n=n, d=d, dtype=dtype, weighted=weighted).parts[0]]
    pairs = 0.0
    for method in methods:
        counted = [
            *([cost_formulas.debias(on, **each)] if method == "sd" else []),
            *([cost_formulas.abramson(on, **each)] if method == ABRAMSON else []),
            cost_formulas.positive_kde(on, m=scored, **each, samples=SAMPLES)
            if method == "positive"
            else cost_formulas.kde(on, m=scored, **each, local=method == ABRAMSON),
        ]
        pairs += sum(one.pairs for one in counted) * _FOLDS * bandwidths
        calls, operations = _CALLS_OF[method]
        called = waiting.calls("calls", on, calls, copies=1, operations=operations / calls)
        parts += [
            dataclasses.replace(part.times(_FOLDS * bandwidths), name=f"{method}: {part.name}")
            for part in (*called, *(part for one in counted for part in one.parts))
        ]
    return Counted(tuple(parts), "densities of the folds of cukde.bandwidth.select", pairs)


def of_selection(
    X: Any,
    methods: Sequence[str] = (*NOT_NEGATIVE, ABRAMSON),
    *,
    most_rows: int = 10_000,
    random_state: Any = None,
    weights: Any = None,
    bounds: Any = None,
    periods: Any = None,
    n_eff: Any = None,
) -> dict[str, Any]:
    """Sizes of a call; images are not counted."""
    return cost_calls.of_bandwidth(X, weights=weights) | {"methods": tuple(methods), "most_rows": most_rows}
