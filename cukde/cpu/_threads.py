"""Threads over blocks of work, with BLAS held to one thread each so that the two do not multiply."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from numba import config
from threadpoolctl import ThreadpoolController

from cukde import _processor

T = TypeVar("T")


def count() -> int:
    """Threads to use: the cores this process may run on, or fewer by ``NUMBA_NUM_THREADS``."""
    return max(1, min(_processor.cores(), int(config.NUMBA_NUM_THREADS)))


def run(task: Callable[[Any], T], arguments: Iterable[Any], *, blas: bool = True) -> list[T]:
    """Call ``task`` on each argument over :func:`count` threads; return the results in order.

    To hold BLAS takes 0.3 ms, which tasks without it need not wait for.
    """
    arguments = list(arguments)
    with single_threaded_blas() if blas else contextlib.nullcontext():
        if min(count(), len(arguments)) <= 1:
            return [task(argument) for argument in arguments]
        return list(_workers().map(task, arguments))


def single_threaded_blas() -> contextlib.AbstractContextManager[None]:
    """Hold BLAS to one thread, for several calls of :func:`run` one after the other."""
    return _single_threaded_blas


@functools.cache
def _workers() -> ThreadPoolExecutor:
    """Threads that stay: to start them, and to touch fresh memory in each, costs a small call a third of its time."""
    return ThreadPoolExecutor(count(), thread_name_prefix="cukde")


@functools.cache
def _controlling_thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, thread_name_prefix="cukde-blas")


class _SingleThreadedBlas:
    """Holds BLAS to one thread while any call is inside, which also makes its sums the same on every run.

    The limit belongs to the process: of calls that overlap in several Python threads the first to enter sets
    it and the last to leave takes it back. threadpoolctl lets a limit be taken back only by the thread that set
    it; so a thread of our own does both.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limit = _controlling_thread().submit(_limit_blas).result()
            self._inside += 1

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                _controlling_thread().submit(self._limit.__exit__, None, None, None).result()


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looks through the loaded libraries: once is enough


def _limit_blas() -> Any:
    limit = _controller().limit(limits=1, user_api="blas")
    limit.__enter__()
    return limit


_single_threaded_blas = _SingleThreadedBlas()


def _after_fork() -> None:
    """A forked child has none of its parent's threads: it makes its own."""
    global _single_threaded_blas
    _workers.cache_clear()
    _controlling_thread.cache_clear()
    _single_threaded_blas = _SingleThreadedBlas()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
