"""Tasks over blocks of work on several threads, with BLAS limited to one thread each where they call it."""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import threading
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba import config

from cukde.core.cpu import meanwhile, processor
from cukde.core.cpu.blas import SingleThreadedBlas
from cukde.core.cpu.workers import WorkerPool

T = TypeVar("T")

_POLL = 0.1  # seconds after which a waiting caller notices an interrupt that the system gave to another thread


def count() -> int:
    """Return the number of threads: the cores of this process, or fewer by ``NUMBA_NUM_THREADS``."""
    return max(1, min(processor.cores(), int(config.NUMBA_NUM_THREADS)))


def run(task: Callable[[Any], T], arguments: Iterable[Any], *, blas: bool = False) -> list[T]:
    """Call ``task`` on each argument over :func:`count` threads; return the results in order.

    Tasks that call BLAS need ``blas=True``, which limits it to one thread each and takes 0.3 ms. If a task fails or the
    caller is interrupted, waiting tasks do not begin and running tasks end at their next :func:`checkpoint`. The error
    is raised after all have ended, so that no thread works on; of several errors, that of the first argument.
    """
    arguments = list(arguments)
    alone = meanwhile.mode.get() == meanwhile.IN_BACKGROUND  # the threads are for calls that a user waits for
    if not arguments or alone or (not blas and min(count(), len(arguments)) == 1):
        return [task(argument) for argument in arguments]
    global _latest
    _latest = calls = _Calls(task, arguments, blas)
    try:
        calls.begin()
        calls.wait()
    except BaseException:
        calls.cancelled = True  # first of all: another interrupt may come before the next call
        calls.cancel()
        raise
    finally:
        _latest = None
    return calls.results()


def part_done() -> float | None:
    """Return which part of the tasks of the latest run has ended, for messages; None if that is over."""
    calls = _latest
    return None if calls is None else calls.part_done()


def checkpoint() -> None:
    """End this task if its run was cancelled. Tasks of more than about a second call it between their parts."""
    task = getattr(_this_thread, "task", None)
    if task is not None and task.calls.ended_before(task.number):
        raise _Cancelled


class _Cancelled(Exception):
    """Ends a task whose result is not needed any more."""


class _Task(NamedTuple):
    calls: _Calls
    number: int


_this_thread = threading.local()
_latest: _Calls | None = None


class _Calls:
    """The calls of a task and their results.

    The caller may be interrupted at any point of :func:`run`. So worker threads, which no signal interrupts, set and
    remove the limit of BLAS and finish the run.
    """

    def __init__(self, task: Callable[[Any], Any], arguments: list[Any], blas: bool) -> None:
        self._task, self._arguments, self._blas = task, arguments, blas
        self._floating_errors, self._mode = np.geterr(), meanwhile.mode.get()  # a thread has its own
        self._results: list[Any] = [None] * len(arguments)
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._begun = self._running = 0
        self._end = len(arguments)  # index of the first call that failed
        self.cancelled = self._limits_blas = self._over = self._finished = False
        self._signal: queue.SimpleQueue[None] = queue.SimpleQueue()

    def begin(self) -> None:
        """Start the threads."""
        if self._blas:
            _controlling_thread.put(self._limit_blas)
        else:
            self._share()

    def wait(self) -> None:
        """Return when all calls have ended."""
        while not self._finished:  # an interrupted wait may have consumed the signal
            with contextlib.suppress(queue.Empty):
                self._signal.get(timeout=_POLL)

    def cancel(self) -> None:
        """Wait for the running calls; ``cancelled`` is set, and no more begin."""
        _controlling_thread.put(self._finish_if_over)  # perhaps no worker has started and none would finish the run
        self.wait()
        self._error = None

    def ended_before(self, index: int) -> bool:
        """Whether the result of a call is not needed any more."""
        return self.cancelled or index >= self._end

    def part_done(self) -> float:
        """Return the number of calls that have ended, relative to all."""
        return (self._begun - self._running) / len(self._arguments)

    def results(self) -> list[Any]:
        """Return the results in order, or raise the first error."""
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
            return self._results
        finally:
            del error  # or its traceback would keep it and the arrays of this call alive

    def _limit_blas(self) -> None:
        try:
            _single_threaded_blas.enter()
            self._limits_blas = True
            self._share()
        except BaseException as error:
            self._fail(0, error)
            self._finish_if_over()

    def _share(self) -> None:
        for _ in range(min(count(), len(self._arguments))):
            _workers.put(self._work)

    def _work(self) -> None:
        meanwhile.mode.set(self._mode)
        while (index := self._next()) is not None:
            _this_thread.task = _Task(self, index)
            try:
                with np.errstate(**self._floating_errors):
                    self._results[index] = self._task(self._arguments[index])
            except BaseException as error:
                self._fail(index, error)
            finally:
                _this_thread.task = None  # or the thread would keep the arrays of the task alive until its next one
            with self._lock:
                self._running -= 1
        self._finish_if_over()

    def _next(self) -> int | None:
        with self._lock:
            if self.ended_before(self._begun):
                return None
            self._begun += 1
            self._running += 1
            return self._begun - 1

    def _fail(self, index: int, error: BaseException) -> None:
        with self._lock:
            if index < self._end:
                self._error, self._end = error, index

    def _finish_if_over(self) -> None:
        """Finish the run if the last call has ended."""
        with self._lock:
            if self._over or self._running > 0 or not self.ended_before(self._begun):
                return
            self._over = True
        if self._limits_blas:
            _controlling_thread.put(self._release_blas)
        else:
            self._finish()

    def _release_blas(self) -> None:
        try:
            _single_threaded_blas.leave()
        finally:
            self._finish()

    def _finish(self) -> None:
        self._finished = True
        self._signal.put(None)


def _fresh() -> None:
    """Create the objects of this process; a forked child has no threads of its parent and is in none of its calls."""
    global _workers, _controlling_thread, _single_threaded_blas
    # Permanent threads: starting them, and touching fresh memory in each, would take a third of a small call's time.
    _workers, _controlling_thread = WorkerPool(count), WorkerPool(lambda: 1, "cukde-blas")
    _single_threaded_blas = SingleThreadedBlas()


def _after_fork() -> None:
    try:
        _single_threaded_blas.restore()
    finally:
        _fresh()


def _at_exit() -> None:
    """Wait for tasks that an interrupted caller or a daemon thread left, before Python shuts down."""
    _workers.close()
    _controlling_thread.close()


_workers: WorkerPool
_controlling_thread: WorkerPool
_single_threaded_blas: SingleThreadedBlas
_fresh()
atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
