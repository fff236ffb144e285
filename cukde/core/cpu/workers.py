"""Threads that call what is put before them, which an interrupt of the caller cannot leave half-way.

An interrupt, KeyboardInterrupt, comes to the main thread between any two steps of Python. The locks of executors,
futures and conditions are taken in Python: interrupted just then they stay taken, and threads wait for them for good.
What stands here is one step each to the main thread, by C: to start a thread, put into a queue, take a plain lock.
"""

from __future__ import annotations

import _thread
import queue
import threading
from collections.abc import Callable

Call = Callable[[], object]


class Crew:
    """So many threads, which are started when there is something to call. Calls must see to their own errors."""

    def __init__(self, size: Callable[[], int], name: str = "cukde") -> None:
        self._size, self._name = size, name
        self._started, self._complete = 0, False
        self._lock = threading.Lock()
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._closed: queue.SimpleQueue[None] = queue.SimpleQueue()

    def put(self, call: Call) -> None:
        """Have one of the threads call this, after what was put before."""
        if not self._complete:
            self._start()
        self._calls.put(call)

    def close(self) -> None:
        """Wait until all that was put has been called, and end the threads. What is put later starts others."""
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
        # In a thread of its own, which ends at once: this waits for the new thread, by a lock as those above.
        try:
            threading.Thread(target=self._serve, name=self._name, daemon=True).start()
        except RuntimeError:  # no more threads are to be had
            self._serve()

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call  # or what it holds would be held until the next one
        self._closed.put(None)
