"""Discordant pairs of samples as inversions of a permutation, O(n log n).

In the order of y, with its ties in the order of x, a pair of samples is discordant where the larger x comes first: an
inversion of the sequence of ranks of x (Knight, 1966, *J. Amer. Statist. Assoc.* 61, 436-439). Knight counts them in a
merge sort. Ranks, once ties are broken by position, are a permutation of 0 to n - 1, so that nothing need be sorted:
each rank asks a tree of counters how many greater ones came before it, without a branch that could be predicted wrong.
That takes a third to a quarter of a merge sort's time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from cukde.core.cpu.jit import njit

_JIT: dict[str, Any] = {"nogil": True, "error_model": "numpy", "cache": True}

# Ranks that share a tree of counters, 2^20 of them: 170 KiB.
_GROUP = 20
_WORD = 6  # 2^6 bits

# Three counters of a node; after the fourth part comes none, and shifted by its 63 bits nothing is left.
_FIELD = np.uint64(21)
_MASK = np.uint64(2**21 - 1)
_ONES = np.uint64(1 + 2**21 + 2**42)


@intrinsic
def population(typing: Any, word: Any) -> Any:
    """Bits that are set in a word of 64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@njit(**_JIT)
def discordant(
    x_order: Any, x_rank: Any, x_tied: Any, y_order: Any, y_rank: Any, y_tied: Any, n: Any, scratch: Any
) -> Any:
    """Discordant pairs of n samples, and pairs that are tied in both, from orders and ranks; ``scratch`` is (3, n)."""
    ranks, others, places = scratch[0], scratch[1], scratch[2]
    joint = 0
    if not y_tied:
        for k in range(n):
            ranks[k] = x_rank[y_order[k]]
    elif not x_tied:  # an inversion is one from either side
        for k in range(n):
            ranks[k] = y_rank[x_order[k]]
    else:
        joint = _by_both(x_order, x_rank, y_rank, n, ranks, places)
    if x_tied or y_tied:
        _break_ties(ranks, n, places)
    return _inversions(ranks, others, n), joint


@njit(**_JIT)
def _by_both(x_order: Any, x_rank: Any, y_rank: Any, n: Any, ranks: Any, ends: Any) -> Any:
    """Write the ranks of x in the order of y, and of x where y is tied; return the pairs that are tied in both."""
    for k in range(n):
        ends[k] = k
    for k in range(n):
        i = x_order[k]
        group = y_rank[i]
        ranks[ends[group]] = x_rank[i]
        ends[group] += 1
    joint = 0
    start = 0
    while start < n:
        end = ends[start]
        equal = 0
        for k in range(start + 1, end):
            equal = equal + 1 if ranks[k] == ranks[k - 1] else 0
            joint += equal
        start = end
    return joint


@njit(**_JIT)
def _break_ties(ranks: Any, n: Any, places: Any) -> None:
    """Number equal ranks in the order in which they come: a permutation, without an inversion more."""
    for k in range(n):
        places[k] = k
    for k in range(n):
        rank = ranks[k]
        ranks[k] = places[rank]
        places[rank] += 1


@njit(**_JIT)
def _inversions(ranks: Any, others: Any, n: Any) -> Any:
    """Inversions of a permutation of 0 to n - 1, which is used up, as ``others`` is."""
    inversions = 0
    bits = _GROUP
    while n >> bits:
        bits += 1
    for bit in range(bits - 1, _GROUP - 1, -1):
        inversions += _part(ranks, others, n, bit)
        ranks, others = others, ranks
    for first in range(0, n, 1 << _GROUP):
        inversions += _insert(ranks, first, min(first + (1 << _GROUP), n))
    return inversions


@njit(**_JIT)
def _part(ranks: Any, others: Any, n: Any, bit: Any) -> Any:
    """Move zeros of a bit before ones in every group that agrees in the bits above; return how many ones zeros pass."""
    passed = 0
    half = 1 << bit
    for first in range(0, n, 2 * half):
        ones = 0
        for k in range(first, min(first + 2 * half, n)):
            rank = ranks[k]
            one = (rank >> bit) & 1
            # Arithmetic for a choice: the bit is as good as random, and would be predicted wrong every other time.
            passed += ones & (one - 1)
            place = (k - ones) + ((first + half + 2 * ones - k) & -one)
            others[np.uint64(place)] = rank
            ones += one
    return passed


@njit(**_JIT)
def _insert(ranks: Any, first: Any, last: Any) -> Any:
    """Inversions of a permutation of ``first`` to ``last - 1`` in its place: of each, how many before it are greater.

    Those that came are a set of bits. Its words are the leaves of a tree, nodes[k] above nodes[4 k + 1] to
    nodes[4 k + 4]: it holds how many came below those after the first, after the second and after the third.
    """
    leaves = 1
    while leaves << _WORD < last - first:
        leaves *= 4
    leaf = np.uint64(leaves // 3)  # nodes before the leaves, 1 + 4 + 16 and so on
    nodes = np.zeros(leaves // 3 + ((last - first - 1) >> _WORD) + 1, np.uint64)
    inversions = np.uint64(0)
    for k in range(first, last):
        rank = np.uint64(ranks[k] - first)
        node = leaf + (rank >> np.uint64(_WORD))
        bit = rank & np.uint64(63)
        inversions += population(nodes[node] >> bit)
        nodes[node] |= np.uint64(1) << bit
        while node != 0:
            node -= np.uint64(1)
            part = (node & np.uint64(3)) * _FIELD
            node >>= np.uint64(2)
            inversions += (nodes[node] >> part) & _MASK
            nodes[node] += _ONES & ((np.uint64(1) << part) - np.uint64(1))
    return np.int64(inversions)
