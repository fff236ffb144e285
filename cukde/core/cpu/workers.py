"""A worker pool that an interrupt of the caller cannot leave in an inconsistent state.

KeyboardInterrupt may come to the main thread between any two steps of Python. Executors, futures and conditions take
their locks in Python: an interrupt at that moment leaves a lock taken, and threads wait for it forever. Here each step
of the main thread is a single call in C: starting a thread, putting into a queue, or taking a plain lock.
"""

from __future__ import annotations

import _thread
import queue
import threading
from collections.abc import Callable

Call = Callable[[], object]


class WorkerPool:
    """Threads that run calls from a queue, started at the first call. Calls must handle their own errors."""

    def __init__(self, size: Callable[[], int], name: str = "cukde") -> None:
        self._size, self._name = size, name
        self._started, self._complete = 0, False
        self._lock = threading.Lock()
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._closed: queue.SimpleQueue[None] = queue.SimpleQueue()

    def put(self, call: Call) -> None:
        """Queue a call."""
        if not self._complete:
            self._start()
        self._calls.put(call)

    def close(self) -> None:
        """Wait for all queued calls, and end the threads. Later calls start new ones."""
        with self._lock:
            ending, self._started, self._complete = self._started, 0, False
        for _ in range(ending):
            self._calls.put(None)
        for _ in range(ending):
            self._closed.get()

    def _start(self) -> None:
        with self._lock:
            for _ in range(self._size() - self._started):
                _thread.start_new_thread(self._start_one, ())
                self._started += 1
            self._complete = True

    def _start_one(self) -> None:
        # In a thread of its own, which soon ends: start() waits for the new thread by a lock that is taken in Python.
        try:
            threading.Thread(target=self._serve, name=self._name, daemon=True).start()
        except RuntimeError:  # no more threads are available
            self._serve()

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call  # or its data would stay alive until the next call
        self._closed.put(None)
