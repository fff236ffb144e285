"""Threads over blocks of work, with BLAS held to one thread each so that the two do not multiply."""

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

from cukde.core.cpu import processor
from cukde.core.cpu.blas import SingleThreadedBlas
from cukde.core.cpu.workers import Crew

T = TypeVar("T")

_LOOK = 0.1  # seconds after which a waiting caller sees an interrupt that the system gave to another thread


def count() -> int:
    """Threads to use: the cores this process may run on, or fewer by ``NUMBA_NUM_THREADS``."""
    return max(1, min(processor.cores(), int(config.NUMBA_NUM_THREADS)))


def run(task: Callable[[Any], T], arguments: Iterable[Any], *, blas: bool = True) -> list[T]:
    """Call ``task`` on each argument over :func:`count` threads; return the results in order.

    To hold BLAS takes 0.3 ms, which tasks without it need not wait for. Where a task fails, or the caller is
    interrupted, tasks that wait are not begun, those that run are given up at their next :func:`checkpoint`, and the
    error comes when all have ended: no thread works on after it. Of several errors that of the first argument comes.
    """
    arguments = list(arguments)
    if not arguments or (not blas and min(count(), len(arguments)) == 1):
        return [task(argument) for argument in arguments]
    calls = _Calls(task, arguments, blas)
    try:
        calls.begin()
        calls.wait()
    except BaseException:
        calls.given_up = True  # at once: another interrupt may come before the next call
        calls.give_up()
        raise
    return calls.results()


def checkpoint() -> None:
    """End this task if its run has been given up. Tasks of more than about a second call it between their parts."""
    task = getattr(_this_thread, "task", None)
    if task is not None and task.calls.ended_before(task.number):
        raise _GivenUp


class _GivenUp(Exception):
    """Ends a task that nobody waits for."""


class _Task(NamedTuple):
    calls: _Calls
    number: int


_this_thread = threading.local()


class _Calls:
    """Calls of a task, and what became of them.

    Threads of ours, which no signal interrupts, hold BLAS and let go of it, and see to the end: the caller may be
    interrupted at any point of :func:`run`.
    """

    def __init__(self, task: Callable[[Any], Any], arguments: list[Any], blas: bool) -> None:
        self._task, self._arguments, self._blas = task, arguments, blas
        self._floating_errors = np.geterr()  # a thread has its own
        self._results: list[Any] = [None] * len(arguments)
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._begun = self._running = 0
        self._end = len(arguments)  # of the first call that failed
        self.given_up = self._holds_blas = self._over = self._at_rest = False
        self._said: queue.SimpleQueue[None] = queue.SimpleQueue()

    def begin(self) -> None:
        """Have the threads at it."""
        if self._blas:
            _controlling_thread.put(self._hold_blas)
        else:
            self._share()

    def wait(self) -> None:
        """Return when all have ended."""
        while not self._at_rest:  # what was said may have been heard by a wait that was interrupted
            with contextlib.suppress(queue.Empty):
                self._said.get(timeout=_LOOK)

    def give_up(self) -> None:
        """Wait for the calls that go on; ``given_up`` has been set, and no more are begun."""
        _controlling_thread.put(self._look)  # perhaps no thread has heard of them, and none would look
        self.wait()
        self._error = None

    def ended_before(self, index: int) -> bool:
        """Say whether nobody waits for a call."""
        return self.given_up or index >= self._end

    def results(self) -> list[Any]:
        """Return the results in order, or raise the first error."""
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
            return self._results
        finally:
            del error  # or it would hold itself, and the arrays of this call, by its traceback

    def _hold_blas(self) -> None:
        try:
            _single_threaded_blas.enter()
            self._holds_blas = True
            self._share()
        except BaseException as error:
            self._fail(0, error)
            self._look()

    def _share(self) -> None:
        for _ in range(min(count(), len(self._arguments))):
            _workers.put(self._work)

    def _work(self) -> None:
        while (index := self._next()) is not None:
            _this_thread.task = _Task(self, index)
            try:
                with np.errstate(**self._floating_errors):
                    self._results[index] = self._task(self._arguments[index])
            except BaseException as error:
                self._fail(index, error)
            finally:
                _this_thread.task = None  # or the thread would hold the arrays of the task until its next one
            with self._lock:
                self._running -= 1
        self._look()

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

    def _look(self) -> None:
        """See to what comes after the last call, where that has ended."""
        with self._lock:
            if self._over or self._running > 0 or not self.ended_before(self._begun):
                return
            self._over = True
        if self._holds_blas:
            _controlling_thread.put(self._release_blas)
        else:
            self._rest()

    def _release_blas(self) -> None:
        try:
            _single_threaded_blas.leave()
        finally:
            self._rest()

    def _rest(self) -> None:
        self._at_rest = True
        self._said.put(None)


def _fresh() -> None:
    """Make what a process has one of; a forked child has none of its parent's threads, and is in no call of theirs."""
    global _workers, _controlling_thread, _single_threaded_blas
    # Threads that stay: to start them, and to touch fresh memory in each, costs a small call a third of its time.
    _workers, _controlling_thread = Crew(count), Crew(lambda: 1, "cukde-blas")
    _single_threaded_blas = SingleThreadedBlas()


def _after_fork() -> None:
    try:
        _single_threaded_blas.restore()
    finally:
        _fresh()


def _at_exit() -> None:
    """Let tasks end that an interrupted caller or a daemon thread left: Python is taken down next."""
    _workers.close()
    _controlling_thread.close()


_workers: Crew
_controlling_thread: Crew
_single_threaded_blas: SingleThreadedBlas
_fresh()
atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
