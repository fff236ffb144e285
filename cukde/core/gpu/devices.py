"""Tasks on several devices of one process, a thread for each device."""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import cupy as cp

from cukde.core.gpu import device as core_device
from cukde.core.warnings import DeviceWarning, of_user

T = TypeVar("T")


def several(devices: str | tuple[int, ...]) -> tuple[int, ...]:
    """Numbers of the devices that a call is asked to work on, the current one first; none where it is the only one.

    ``devices`` are checked numbers, or "all".
    """
    count, home = int(cp.cuda.runtime.getDeviceCount()), core_device.current()
    numbers = tuple(range(count)) if isinstance(devices, str) else devices
    beyond = [number for number in numbers if number >= count]
    if beyond:
        raise ValueError(f"devices must be numbers of GPUs that are there, from 0 to {count - 1}; got {beyond[0]}")
    numbers = tuple(sorted(numbers, key=lambda number: number != home))
    return () if numbers == (home,) else numbers


def spread(tasks: Sequence[Callable[[], T]], devices: Sequence[int]) -> list[T]:
    """Call each task on one of the devices, as its current device, and return their results where they are.

    Device i begins with task i; then each takes the next task when it has done one. A task ends when its device has
    done its work. The first device works in the caller's thread, on its current stream; what the caller has launched
    there is done before any task begins. The others have streams of their own, so that their copies from the first wait
    for none of its work.

    A device whose task ends in an error of CUDA, or without memory, takes no more tasks: others take those that it had,
    and a :class:`cukde.DeviceWarning` says so. Other errors, and those of the last device, are raised: so are errors
    after which no device of the process works.
    """
    cp.cuda.get_current_stream().synchronize()
    work = _Work(tasks)
    working = list(devices)
    while work.left:
        begin = [work.take() for _ in working]
        threads = [_thread(work.on, number, i) for number, i in list(zip(working, begin, strict=True))[1:]]
        try:
            work.on(working[0], begin[0], cp.cuda.get_current_stream())
        finally:
            for thread in threads:
                thread.join()
        if work.error is not None:
            raise work.error
        working = [number for number in working if number not in work.lost]
        if not working:
            raise next(iter(work.lost.values()))
    for number, error in work.lost.items():
        text = f"GPU {number} failed, and the other devices computed its share: {error}"
        of_user(text, DeviceWarning)
    return work.results


_streams: dict[int, Any] = {}
"""Of devices in other threads than the caller's: the memory that CuPy keeps is for one stream."""


def _stream(number: int) -> Any:
    """Stream of the current device, of this number."""
    if number not in _streams:
        _streams[number] = cp.cuda.Stream(non_blocking=True)
    return _streams[number]


def _thread(target: Callable[..., None], *args: Any) -> threading.Thread:
    """Start a thread that has the caller's context, such as what NumPy says of overflows."""
    thread = threading.Thread(target=contextvars.copy_context().run, args=(target, *args), daemon=True)
    thread.start()
    return thread


class _Work(Generic[T]):
    """Tasks, their results so far, and which devices have been lost."""

    def __init__(self, tasks: Sequence[Callable[[], T]]) -> None:
        self._tasks = tasks
        self._waiting = deque(range(len(tasks)))
        self._done: dict[int, tuple[int, T]] = {}  # device and result of each task
        self._lock = threading.Lock()
        self.lost: dict[int, Exception] = {}
        self.error: BaseException | None = None

    @property
    def left(self) -> bool:
        """Whether any task is left."""
        return bool(self._waiting)

    @property
    def results(self) -> list[T]:
        """Results in the order of the tasks."""
        return [self._done[i][1] for i in range(len(self._tasks))]

    def on(self, number: int, taken: int | None, stream: Any = None) -> None:
        """Work on a device from a task on until nothing is left, or it is lost; on a stream, or on the device's."""
        try:
            with cp.cuda.Device(number), _stream(number) if stream is None else stream:
                while taken is not None:
                    result = self._tasks[taken]()
                    cp.cuda.get_current_stream().synchronize()
                    with self._lock:
                        self._done[taken] = number, result
                    taken = self.take()
        except (RuntimeError, MemoryError) as error:  # CUDA's errors are RuntimeErrors
            self._lose(number, taken, error)
        except BaseException as error:
            self._stop(error)

    def take(self) -> int | None:
        """Return the next task, or None."""
        with self._lock:
            return self._waiting.popleft() if self._waiting else None

    def _lose(self, number: int, taken: int | None, error: Exception) -> None:
        """Give back the tasks of a device, also those that it has done: their results are there."""
        with self._lock:
            self.lost[number] = error
            again = {i for i, (holder, _) in self._done.items() if holder == number}
            for i in again:
                del self._done[i]
            self._waiting.extend(sorted(again if taken is None else again | {taken}))

    def _stop(self, error: BaseException) -> None:
        with self._lock:
            self.error = error
            self._waiting.clear()
