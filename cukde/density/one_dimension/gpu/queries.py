"""Numba kernels that end a pass: from expansions, or from sums over pairs, to what was asked of each query.

A query that neither serves (its box is not accepted, or all its kernels are tiny) is summed again by its whole block:
by log-sum-exp over the data outward from it, until those that are left add less than the tolerance to the sum of the
absolute terms.

Device functions and kernels that share them are in one file: Numba's cache on disk looks at that one alone.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from numba import float64, int32, int64

from cukde.core.gpu.numba_cuda import cuda
from cukde.density.one_dimension import erfcx

THREADS = 128  # of a block, at most: a power of two

_NONE = -1.7e308  # reference before any term: finite, so that differences of exponents stay numbers
_NO_WEIGHT = -1e29  # logarithms of weights below this stand for a weight of zero
_MOST_PLACE = 2.0**42  # boxes beyond this are in reach of no data
_LARGEST_FACTOR = 700.0  # of which exp is finite
_WHOLE = 8.5  # bandwidths to the left from which on the normal distribution function is rounded to 1
_LEFT_OUT = 1e-3  # part of the tolerance that points left out of it may make up
_ROOT_HALF = math.sqrt(0.5)


@functools.cache
def evaluate(order: int, end: str, points: str, result: str) -> Any:
    """Make the kernel that ends a pass; a thread takes a query.

    ``source`` are expansions B[sum, target, l] where there is an ``order``, and sums (split, entry, query) where it is
    0, in the data's own order. Sums and entries are a column each; but "laplace" has the sum and that with Laplace
    factors, over pairs the sum and that of exponents, and "moments" over pairs sum and moment.

    What is written to ``out``, by ``end``::

        "sums"     reference, total, and a row for each column of values
        "moments"  reference, total, moments
        "laplace"  reference, total, sum with Laplace factors
        "density"  exp(constant) times the sum, or the logarithm of that
        "shift"    the query moved by ``constant`` times moments / total
        "cdf"      reference, total; ``masses`` are those left of each datum, where there are weights
    """
    of_pairs = order == 0
    powers = order
    with_moments, with_laplace = end in ("moments", "shift"), end == "laplace"
    with_density, with_shift = end == "density", end == "shift"
    with_cdf = end == "cdf"
    outward = _outward_cdf if with_cdf else _outward

    @cuda.jit(cache=True)
    def evaluate(  # type: ignore[no-untyped-def]
        y,
        x,
        log_weights,
        values,
        target_ids,
        masses,
        source,
        out,
        first_target,
        width,
        per_width,
        h,
        tolerance,
        least,
        constant,
        largest,
        columns,
        weighted,
        listed,
        logarithm,
    ):
        waiting = cuda.shared.array(THREADS, int32)
        thread, threads = cuda.threadIdx.x, cuda.blockDim.x
        first = int64(cuda.blockIdx.x) * threads
        i = first + thread
        inside = i < y.size
        query = float64(y[i]) if inside else 0.0
        target = int64(-1)
        beta = 0.0
        if not of_pairs:
            position = query * per_width
            if inside and abs(position) < _MOST_PLACE:
                box = _box_of(query, position, width)
                beta = (query - (box + 0.5) * width) * (2.0 * per_width)
                if listed:
                    target = _target_of(target_ids, box)
                elif first_target <= box < first_target + source.shape[1]:
                    target = int64(box - first_target)
        reference_of_all = 0.0
        for column in range(columns):
            reference, total, moment = 0.0, math.nan, 0.0
            if of_pairs:
                if inside:
                    total = 0.0
                    for split in range(source.shape[0]):
                        total += source[split, column, i]
                    if with_moments or with_laplace:
                        for split in range(source.shape[0]):
                            moment += source[split, 1, i]
                    served = total >= least if column == 0 else reference_of_all == 0.0
                    if with_laplace:
                        moment += 1.5 * total
                    if not served:
                        total = math.nan
            elif target >= 0:
                total = source[column, target, powers - 1]
                if with_laplace:
                    moment = source[1, target, powers - 1]
                for k in range(powers - 1):
                    if with_moments:
                        moment = moment * beta + total
                    if with_laplace:
                        moment = moment * beta + source[1, target, powers - 2 - k]
                    total = total * beta + source[column, target, powers - 2 - k]
                if with_moments:
                    moment *= h * h * (2.0 * per_width)
            lacking = int32(1) if inside and math.isnan(total) else int32(0)
            waiting[thread] = lacking
            if cuda.syncthreads_count(lacking) > 0:
                if of_pairs or with_cdf:
                    mass = math.inf
                else:
                    mass = masses[column] if weighted or column > 0 else float64(x.size)
                for other in range(threads):
                    if waiting[other]:
                        sums = outward(
                            float64(y[first + other]),
                            x,
                            log_weights,
                            masses,
                            values,
                            column,
                            mass,
                            h,
                            tolerance,
                            weighted,
                            with_laplace,
                            of_pairs,
                        )
                        if thread == other:
                            reference, total, moment = sums
            cuda.syncthreads()
            if inside:
                if with_density:
                    out[0, i] = _density(reference, total, constant, largest, logarithm)
                elif with_shift:
                    out[0, i] = query + constant * moment / total
                elif column == 0:
                    reference_of_all = reference
                    out[0, i] = reference
                    out[1, i] = total
                    if with_moments or with_laplace:
                        out[2, i] = moment
                else:
                    out[1 + column, i] = total * math.exp(min(reference - reference_of_all, _LARGEST_FACTOR))

    return evaluate


@cuda.jit(device=True, inline="always")
def _density(reference, total, constant, largest, logarithm):  # type: ignore[no-untyped-def]
    """Density of a sum, or its logarithm; ``largest``: logarithm of the largest number that the result holds."""
    value = reference + (math.log(total) if total > 0.0 else -math.inf if total == 0.0 else math.nan)
    value += constant
    if not logarithm:
        value = math.exp(value) if value < largest else value if math.isnan(value) else math.inf
    return value


@cuda.jit(device=True, inline="always")
def _box_of(query, position, width):  # type: ignore[no-untyped-def]
    """Which box, as a float; ``position``, the query in widths, is rounded, products of a box and the width are not."""
    box = float64(math.floor(position))
    if query < box * width:
        box -= 1.0
    elif query >= (box + 1.0) * width:
        box += 1.0
    return box


@cuda.jit(device=True, inline="always")
def _number_below(ascending, bound):  # type: ignore[no-untyped-def]
    """Number of entries below a bound."""
    low, high = int64(0), int64(ascending.size)
    while low < high:
        middle = (low + high) >> 1
        if ascending[middle] < bound:
            low = middle + 1
        else:
            high = middle
    return low


@cuda.jit(device=True, inline="always")
def _target_of(target_ids, box):  # type: ignore[no-untyped-def]
    """Where a box is among those listed, or -1."""
    low = _number_below(target_ids, box)
    return low if low < target_ids.size and target_ids[low] == box else int64(-1)


@cuda.jit(device=True, inline="always")
def _add_up(references, sums):  # type: ignore[no-untyped-def]
    """Add up the sums (k, threads) of a block, of each thread beside its reference; those of all are the first's."""
    thread, half = cuda.threadIdx.x, cuda.blockDim.x >> 1
    cuda.syncthreads()
    while half > 0:
        if thread < half:
            top = max(references[thread], references[thread + half])
            scale = math.exp(references[thread] - top)
            others = math.exp(references[thread + half] - top)
            for row in range(sums.shape[0]):
                sums[row, thread] = scale * sums[row, thread] + others * sums[row, thread + half]
            references[thread] = top
        cuda.syncthreads()
        half >>= 1


@cuda.jit(device=True, inline="always")
def _outward(query, x, log_weights, masses, values, column, mass, h, tolerance, weighted, laplace, unordered):  # type: ignore[no-untyped-def]
    """Reference, total and moment of one query, or the sum with Laplace factors, by all threads of the block.

    They take a stretch of the data next to what they have taken, on the nearer side, twice as many each time.
    """
    references = cuda.shared.array(THREADS, float64)
    sums = cuda.shared.array((3, THREADS), float64)
    thread, threads = cuda.threadIdx.x, cuda.blockDim.x
    n = int64(x.size)
    left = int64(0) if unordered else _number_below(x, query)  # what is taken is [left, right)
    right = left
    log_left = math.log(mass) if mass > 0.0 else -math.inf
    log_tolerance = math.log(tolerance)
    reference, total, moment, size = _NONE, 0.0, 0.0, 0.0
    span = int64(threads)
    enough = False
    while not enough:
        to_left = query - x[left - 1] if left > 0 else math.inf
        to_right = x[right] - query if right < n else math.inf
        if right == n or (left > 0 and to_left < to_right):
            begin, end = max(int64(0), left - span), left
            left = begin
        else:
            begin, end = right, min(n, right + span)
            right = end
        span *= 2
        for i in range(begin + thread, end, threads):
            difference = x[i] - query
            u = difference / h
            exponent = -0.5 * u * u
            if weighted:
                if log_weights[i] < _NO_WEIGHT:
                    continue
                exponent += log_weights[i]
            value = float64(values[i, column - 1]) if column > 0 else 1.0
            if exponent > reference:
                factor = math.exp(reference - exponent)
                total *= factor
                moment *= factor
                size *= factor
                reference = exponent
            kernel = math.exp(exponent - reference)
            size += kernel * abs(value)
            moment += kernel * ((1.5 - 0.5 * u * u) if laplace else difference)
            total += kernel * value

        references[thread] = reference
        sums[0, thread], sums[1, thread], sums[2, thread] = total, moment, size
        _add_up(references, sums)
        merged = references[0], sums[0, 0], sums[1, 0]
        size_of_all = sums[2, 0]
        cuda.syncthreads()

        to_left = query - x[left - 1] if left > 0 else math.inf
        to_right = x[right] - query if right < n else math.inf
        u = max(0.0, min(to_left, to_right)) / h
        enough = left == 0 and right == n
        if not enough and size_of_all > 0.0:
            log_most = log_left + math.log(2.5 + 0.5 * u * u) - 0.5 * u * u  # of terms times 1 + |factor|
            enough = log_most <= log_tolerance + merged[0] + math.log(size_of_all)
    return merged


_half_erfcx = cuda.jit(device=True, inline="always")(erfcx.half_erfcx)


@cuda.jit(device=True, inline="always")
def _outward_cdf(query, x, log_weights, masses, values, column, mass, h, tolerance, weighted, laplace, unordered):  # type: ignore[no-untyped-def]
    """Reference and total of the distribution function at one query, by all threads of the block.

    What is far to the left counts whole; then stretches of the data are taken from there to the right, twice as many
    each time, until those that are left add next to nothing. Arguments are those of :func:`_outward`.
    """
    references = cuda.shared.array(THREADS, float64)
    sums = cuda.shared.array((1, THREADS), float64)
    thread, threads = cuda.threadIdx.x, cuda.blockDim.x
    n = int64(x.size)
    right = _number_below(x, query - _WHOLE * h)
    before, whole = float64(right), float64(n)
    if weighted:
        before, whole = masses[right], masses[n]
    log_whole = math.log(whole) if whole > 0.0 else -math.inf
    log_tolerance = math.log(_LEFT_OUT * tolerance)
    reference, total = _NONE, 0.0
    if thread == 0 and before > 0.0:
        reference, total = math.log(before), 1.0
    span = int64(threads)
    enough = False
    while not enough:
        begin, end = right, min(n, right + span)
        right = end
        span *= 2
        for i in range(begin + thread, end, threads):
            if weighted and log_weights[i] < _NO_WEIGHT:
                continue
            u = (query - x[i]) / h
            exponent = -0.5 * u * u
            term = _half_erfcx(abs(u) * _ROOT_HALF)
            if u >= 0.0:
                term = 1.0 - math.exp(exponent) * term
                exponent = 0.0
            if weighted:
                exponent += log_weights[i]
            if exponent > reference:
                total *= math.exp(reference - exponent)
                reference = exponent
            total += math.exp(exponent - reference) * term

        references[thread] = reference
        sums[0, thread] = total
        _add_up(references, sums)
        merged = references[0], sums[0, 0], 0.0
        cuda.syncthreads()

        enough = right == n
        if not enough and merged[1] > 0.0:
            u = max(0.0, x[right] - query) / h
            enough = log_whole - 0.5 * u * u <= log_tolerance + merged[0] + math.log(merged[1])
    return merged
