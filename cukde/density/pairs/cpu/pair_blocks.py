"""All pairs of rows cut into pairs of blocks for the threads, such that none needs a lock for what it adds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TypeVar

from cukde.core.cpu import threads

T = TypeVar("T")

# Blocks of fewer rows would take less time than it takes to hand one to a thread; more blocks keep no more threads busy
# than there are, and each has a result.
_LEAST_ROWS = 256
_MOST_BLOCKS = 128

# Of two arrays: blocks of each for every thread, so that a round ends for all threads at about the same time, and the
# fewest rows worth a task.
_BLOCKS_A_THREAD = 4
_LEAST_ROWS_OF_TWO = 64

# Blocks of one array: the fewest, and those of each thread.
_LEAST_BLOCKS, _OWN_BLOCKS_A_THREAD = 8, 2


def run(task: Callable[[slice, slice], T], n: int, *, least: int = _LEAST_ROWS, most: int = _MOST_BLOCKS) -> list[T]:
    """Call ``task`` on each pair of blocks of ``n`` rows, the second the same block or a later one.

    There are at most ``most`` blocks, none but the last of fewer than ``least`` rows.

    No two calls that run at the same time have a block in common, and the calls that a block is in always come in the
    same order: what a task adds to sums of its own two blocks needs no lock, and has the same bits on every run and
    with any number of threads. Results are in a fixed order too.
    """
    size = max(least, -(-n // most))
    blocks = [slice(start, min(start + size, n)) for start in range(0, n, size)]
    return _in_rounds(task, blocks)


def run_own(task: Callable[[slice, slice], None], n: int) -> None:
    """Call ``task`` as :func:`run` does, on pairs of fewer and larger blocks."""
    _in_rounds(task, _cut(n, max(_LEAST_BLOCKS, _OWN_BLOCKS_A_THREAD * threads.count())))


def _in_rounds(task: Callable[[slice, slice], T], blocks: list[slice]) -> list[T]:
    done: list[T] = []
    for pairs in rounds(len(blocks)):
        done += threads.run(lambda pair: task(blocks[pair[0]], blocks[pair[1]]), pairs)
    return done


def run_between(task: Callable[[slice, slice], None], n: int, m: int) -> None:
    """Call ``task`` on each block of the ``n`` rows of one array with each of the ``m`` rows of another.

    As of :func:`run`: no two calls that run at the same time have a block of either in common, and the order of those
    that have is fixed, so that every run gives the same bits.
    """
    most = _BLOCKS_A_THREAD * threads.count()
    of_n, of_m = _cut(n, most), _cut(m, most)
    swapped = len(of_n) > len(of_m)
    few, many = (of_m, of_n) if swapped else (of_n, of_m)
    for turn in range(len(many)):  # all of the fewer stand opposite as many others, one further each time
        pairs = [(rows, many[(index + turn) % len(many)]) for index, rows in enumerate(few)]
        threads.run(lambda pair: task(*(pair[::-1] if swapped else pair)), pairs)


def _cut(size: int, most: int) -> list[slice]:
    """At most so many blocks, none of too few rows."""
    count = max(1, min(most, size // _LEAST_ROWS_OF_TWO))
    edges = [size * i // count for i in range(count + 1)]
    return [slice(*edge) for edge in itertools.pairwise(edges)]


def rounds(count: int) -> Iterator[list[tuple[int, int]]]:
    """Yield rounds in which no number occurs twice, until every i <= j < ``count`` has met.

    First each meets itself. Then they meet as the players of a tournament: all but the first move round a table by one
    seat each time, and who sit opposite meet; with an odd count one seat stays empty.
    """
    yield [(i, i) for i in range(count)]
    seats = list(range(count + count % 2))
    for _ in range(len(seats) - 1):
        opposite = zip(seats[: len(seats) // 2], reversed(seats), strict=False)
        yield [(min(pair), max(pair)) for pair in opposite if max(pair) < count]
        seats.insert(1, seats.pop())
