"""Discordant pairs of samples as inversions of a permutation, O(n log n).

Sort the samples by y, and ties of y by x. A pair is discordant where the larger x comes first: an inversion of the
sequence of ranks of x (Knight, 1966, *J. Amer. Statist. Assoc.* 61, 436-439), who counts these in a merge sort. With
ties broken by position, ranks are a permutation of 0 to n - 1, which needs no sorting: a tree of counters tells how
many greater ranks came before each, without branches to mispredict. It takes a quarter to a third of a merge sort's
time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from cukde.core.cpu.jit import OPTIONS as _JIT, njit

# A tree of counters holds 2^20 ranks, in 170 KiB.
_GROUP = 20
_WORD = 6  # 2^6 bits

# Three counters of a node. The fourth part needs none: a shift by its 63 bits leaves nothing.
_FIELD = np.uint64(21)
_MASK = np.uint64(2**21 - 1)
_ONES = np.uint64(1 + 2**21 + 2**42)


@intrinsic
def population(typing: Any, word: Any) -> Any:
    """Count the bits that are set in a word of 64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@njit(**_JIT)
def discordant(
    x_order: Any, x_rank: Any, x_tied: Any, y_order: Any, y_rank: Any, y_tied: Any, n: Any, scratch: Any
) -> Any:
    """Count discordant pairs of n samples, and pairs tied in both, from orders and ranks; ``scratch`` is (3, n)."""
    ranks, others, places = scratch[0], scratch[1], scratch[2]
    joint = 0
    if not y_tied:
        for k in range(n):
            ranks[k] = x_rank[y_order[k]]
    elif not x_tied:  # x and y may swap roles
        for k in range(n):
            ranks[k] = y_rank[x_order[k]]
    else:
        joint = _by_both(x_order, x_rank, y_rank, n, ranks, places)
    if x_tied or y_tied:
        _break_ties(ranks, n, places)
    return _inversions(ranks, others, n), joint


@njit(**_JIT)
def _by_both(x_order: Any, x_rank: Any, y_rank: Any, n: Any, ranks: Any, ends: Any) -> Any:
    """Write the ranks of x in the order of y, ties of y in the order of x; return the pairs that are tied in both."""
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
    """Make ranks a permutation: number equal ranks in their order, which adds no inversion."""
    for k in range(n):
        places[k] = k
    for k in range(n):
        rank = ranks[k]
        ranks[k] = places[rank]
        places[rank] += 1


@njit(**_JIT)
def _inversions(ranks: Any, others: Any, n: Any) -> Any:
    """Count the inversions of a permutation of 0 to n - 1, which is overwritten, like ``others``."""
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
    """Move zeros of a bit before its ones in each group that agrees in higher bits; return the inversions removed."""
    removed = 0
    half = 1 << bit
    for first in range(0, n, 2 * half):
        ones = 0
        for k in range(first, min(first + 2 * half, n)):
            rank = ranks[k]
            one = (rank >> bit) & 1
            # Arithmetic in place of a branch, which would be mispredicted every other time.
            removed += ones & (one - 1)
            place = (k - ones) + ((first + half + 2 * ones - k) & -one)
            others[np.uint64(place)] = rank
            ones += one
    return removed


@njit(**_JIT)
def _insert(ranks: Any, first: Any, last: Any) -> Any:
    """Count the inversions among the entries ``first`` to ``last - 1``, a permutation of these numbers.

    The ranks inserted so far are a set of bits, whose words are the leaves of a tree. Node k is the parent of nodes
    4 k + 1 to 4 k + 4. Its three counters hold how many ranks are in the parts after the first, second and third.
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
