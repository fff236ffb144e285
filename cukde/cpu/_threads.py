"""Threads over blocks of work, with BLAS held to one thread each so that the two do not multiply."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from numba import config
from threadpoolctl import ThreadpoolController

T = TypeVar("T")


def count() -> int:
    """Threads to use: the cores this process may run on, or fewer by ``NUMBA_NUM_THREADS``."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        cores = os.cpu_count() or 1
    return max(1, min(cores, int(config.NUMBA_NUM_THREADS)))


def run(task: Callable[[Any], T], arguments: Iterable[Any]) -> list[T]:
    """Call ``task`` on each argument over :func:`count` threads; return the results in order."""
    arguments = list(arguments)
    workers = min(count(), len(arguments))
    with _single_threaded_blas:
        if workers <= 1:
            return [task(argument) for argument in arguments]
        with ThreadPoolExecutor(workers, thread_name_prefix="cukde") as pool:
            return list(pool.map(task, arguments))


class _SingleThreadedBlas:
    """Holds BLAS to one thread while any call is inside, which also makes its sums the same on every run.

    The limit belongs to the process: of calls that overlap in several Python threads the first to enter sets
    it and the last to leave takes it back. threadpoolctl lets a library be set only by the thread that set
    it last, while that one lives; so a passing thread does either.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limit = _in_passing_thread(lambda: _controller().limit(limits=1, user_api="blas"))
            self._inside += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                _in_passing_thread(lambda: self._limit.__exit__(None, None, None))


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looks through the loaded libraries: once is enough


def _in_passing_thread(function: Callable[[], Any]) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


_single_threaded_blas = _SingleThreadedBlas()
