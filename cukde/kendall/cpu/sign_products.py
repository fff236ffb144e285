"""Signs of all pairs of samples as bits, multiplied for all pairs of columns.

For samples i < j of a column, bit (i, j) of g is [a_j > a_i], and bit (i, j) of u is [a_j != a_i]. For two columns

    discordant = |(g ^ g') & u & u'|        concordant + discordant = |u & u'|

Row i of g is the set of samples with greater values. The samples leave this set in their order, and the words of the
set from sample i's on are copied. So g takes n^2 / 128 words for a column, and u as many again; without ties u is all
ones and is left out. With AVX2 a pair of columns takes 0.3 ns for each word, and 0.6 ns with u.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.core.cpu import threads
from cukde.core.cpu.jit import OPTIONS as _JIT, njit
from cukde.kendall.cpu.inversions import population
from cukde.kendall.cpu.ranks import Columns

# Words in memory at a time, 32 MiB. Each part of the rows walks all samples again, so parts should be few.
_ROOM = 2**22

# Columns of a tile, and words of theirs that are multiplied at a time: two tiles stay in the cache of a core.
_TILE = 16
_STRIP = 1024


def count(
    x: Columns, y: Columns, columns_x: np.ndarray, columns_y: np.ndarray, concordant: np.ndarray, discordant: np.ndarray
) -> None:
    """Count pairs of samples of some columns of x with some of y, all without NaN.

    Adds to rows ``columns_x`` and columns ``columns_y`` of ``concordant`` and ``discordant`` (p, q); if y is x, only on
    and above the diagonal.
    """
    n = x.order.shape[1]
    tied = bool((x.ties.pairs[columns_x] > 0).any() or (y.ties.pairs[columns_y] > 0).any())
    sides = [(x, columns_x)] if y is x else [(x, columns_x), (y, columns_y)]
    planes = 2 if tied else 1
    width = (n + 63) // 64  # of a row
    starts = _offset(np.arange(n + 1, dtype=np.int64), width)
    share = _ROOM // (planes * sum(len(columns) for _, columns in sides))
    room = min(max(width, share), starts[n])
    bits = [np.empty((len(columns), planes, room), np.uint64) for _, columns in sides]
    first = 0
    while first < n:
        last = int(np.searchsorted(starts, starts[first] + room, side="right")) - 1
        words = starts[last] - starts[first]
        pairs = (last - first) * (2 * n - first - last - 1) // 2

        def write(task: tuple[int, slice], first: int = first, last: int = last) -> None:
            side, block = task
            columns, chosen = sides[side]
            _write(columns.order, columns.rank, chosen[block], first, last, bits[side][block])

        def multiply(block: slice, words: int = words, pairs: int = pairs) -> None:
            begin, end, ties = block.start, block.stop, (x.ties.pairs, y.ties.pairs)
            _multiply(
                bits[0], bits[-1], columns_x, columns_y, *ties, concordant, discordant, words, pairs, begin, end, y is x
            )

        threads.run(
            write,
            [(side, block) for side, (_, columns) in enumerate(sides) for block in _tiles(len(columns))],
        )
        threads.run(multiply, _tiles(len(columns_x)))
        first = last


def _tiles(count: int) -> list[slice]:
    return [slice(first, min(first + _TILE, count)) for first in range(0, count, _TILE)]


def _offset(i: Any, width: Any) -> Any:
    """Words in the rows before row i; row r begins with the word of sample r."""
    q = i >> 6
    return i * width - 32 * q * (q - 1) - q * (i & 63)


_compiled_offset = njit(**_JIT)(_offset)


@njit(**_JIT)
def _write(order: Any, rank: Any, columns: Any, first: Any, last: Any, out: Any) -> None:
    """Write rows ``first`` to ``last - 1`` of g, and of u if ``out`` (columns, planes, words) has two planes."""
    n = order.shape[1]
    width = (n + 63) >> 6
    start = _compiled_offset(first, width)
    tied = out.shape[1] == 2
    greater = np.empty(width, np.uint64)
    other = np.empty(width, np.uint64)
    for c in range(columns.size):
        samples, ranks = order[columns[c]], rank[columns[c]]
        g, u = out[c, 0], out[c, -1]
        for w in range(width):
            greater[w] = other[w] = ~np.uint64(0)
        greater[width - 1] >>= np.uint64(-n & 63)
        other[width - 1] = greater[width - 1]
        begin = 0
        while begin < n:
            end = begin
            while end < n and ranks[samples[end]] == begin:
                i = samples[end]
                sample = np.uint64(1) << np.uint64(i & 63)
                greater[i >> 6] &= ~sample
                other[i >> 6] &= ~sample
                end += 1
            for k in range(begin, end):
                i = samples[k]
                if first <= i < last:
                    begin_word = i >> 6
                    after = ~((np.uint64(2) << np.uint64(i & 63)) - np.uint64(1))
                    row = _compiled_offset(i, width) - start - begin_word
                    for w in range(begin_word, width):
                        g[row + w] = greater[w]
                    g[row + begin_word] &= after
                    if tied:
                        for w in range(begin_word, width):
                            u[row + w] = other[w]
                        u[row + begin_word] &= after
            for k in range(begin, end):
                i = samples[k]
                other[i >> 6] |= np.uint64(1) << np.uint64(i & 63)
            begin = end


@njit(**_JIT)
def _multiply(
    bits_x: Any, bits_y: Any, columns_x: Any, columns_y: Any, ties_x: Any, ties_y: Any, concordant: Any,
    discordant: Any, words: Any, pairs: Any, first: Any, last: Any, symmetric: Any,
) -> None:  # fmt: skip
    """Add the counts of columns ``first`` to ``last - 1`` of x with all of y, or if symmetric with those from each on.

    The bits (columns, planes, at least ``words``) are of ``pairs`` pairs of samples.
    """
    q = columns_y.size
    for begin in range(first if symmetric else 0, q, _TILE):
        for start in range(0, words, _STRIP):
            stop = min(start + _STRIP, words)
            for a in range(first, last):
                i = columns_x[a]
                for b in range(max(begin, a) if symmetric else begin, min(begin + _TILE, q)):
                    j = columns_y[b]
                    g, h = bits_x[a, 0, start:stop], bits_y[b, 0, start:stop]
                    if ties_x[i] == 0 and ties_y[j] == 0:
                        against = _differ(g, h)
                        untied = pairs if start == 0 else 0
                    else:
                        against, untied = _differ_untied(g, bits_x[a, 1, start:stop], h, bits_y[b, 1, start:stop])
                    discordant[i, j] += against
                    concordant[i, j] += untied - against


@njit(**_JIT)
def _differ(g: Any, h: Any) -> Any:
    """Count the bits that differ."""
    differ = np.uint64(0)
    for w in range(g.size):
        differ += population(g[w] ^ h[w])
    return np.int64(differ)


@njit(**_JIT)
def _differ_untied(g: Any, u: Any, h: Any, v: Any) -> Any:
    """Count the pairs that are untied in both columns and differ, and all that are untied in both."""
    differ = np.uint64(0)
    total = np.uint64(0)
    for w in range(g.size):
        untied = u[w] & v[w]
        total += population(untied)
        differ += population((g[w] ^ h[w]) & untied)
    return np.int64(differ), np.int64(total)
