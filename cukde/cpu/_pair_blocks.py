"""All unordered pairs of rows cut into pairs of blocks for the threads; how many there are changes no order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from cukde.cpu import _threads

T = TypeVar("T")

# Blocks of fewer rows would take less time than it takes to hand one to a thread; more blocks keep no more threads busy
# than there are, and each has a result.
_LEAST_ROWS = 256
_MOST_BLOCKS = 128


def run(task: Callable[[slice, slice], T], n: int) -> list[T]:
    """Call ``task`` on each pair of blocks of ``n`` rows, the second the same block or a later one.

    No two calls that run at the same time have a block in common, and the calls that a block is in always come in the
    same order: what a task adds to sums of its own two blocks needs no lock, and has the same bits on every run and
    with any number of threads. Results are in a fixed order too.
    """
    size = max(_LEAST_ROWS, -(-n // _MOST_BLOCKS))
    blocks = [slice(start, min(start + size, n)) for start in range(0, n, size)]
    done: list[T] = []
    for pairs in rounds(len(blocks)):
        done += _threads.run(lambda pair: task(blocks[pair[0]], blocks[pair[1]]), pairs, blas=False)
    return done


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
