"""``cukde.core.gpu.transfers`` on the host: streams that do what they are given as late as they may."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest


class Stream:
    """Work that waits until somebody asks for it: what relies on its being done by then shows."""

    def __init__(self) -> None:
        self._given: deque[Callable[[], None]] = deque()
        self.count = 0  # of all that has been given
        self._done = 0

    def do(self, work: Callable[[], None]) -> None:
        """Give the stream some work."""
        self._given.append(work)
        self.count += 1

    def advance(self, until: int) -> None:
        """Do what was given until there had been so much."""
        while self._done < until:
            self._done += 1
            self._given.popleft()()

    def wait_event(self, event: Event) -> None:
        """Wait in the stream, not on the host."""
        self.do(event.synchronize)

    def synchronize(self) -> None:
        """Wait on the host."""
        self.advance(self.count)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *raised: object) -> None:
        pass


class Event:
    """What a stream had been given."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._until = stream.count

    def synchronize(self) -> None:
        """Wait on the host."""
        self._stream.advance(self._until)


class _Prompt(Stream):
    """The stream of emulated kernels, which have run when their launch returns."""

    def do(self, work: Callable[[], None]) -> None:
        work()


class _Copying(Stream):
    """A stream of copies; a kernel that is launched on it finds them done."""

    def __enter__(self) -> Stream:
        self.synchronize()
        return self


def send(pinned: np.ndarray, out: np.ndarray, stream: Stream) -> None:
    """Copy when the stream comes to it."""
    assert pinned.shape == out.shape
    assert pinned.dtype == out.dtype
    stream.do(lambda: np.copyto(out, pinned))


class Coming:
    """An array that is on the host."""

    def __init__(self, a: np.ndarray) -> None:
        self._numbers = a.copy()

    def numbers(self) -> np.ndarray:
        """Return it."""
        return self._numbers


def use(monkeypatch: pytest.MonkeyPatch, transfers: ModuleType) -> None:
    """Let copies from the host be made between NumPy arrays."""
    computing = _Prompt()
    replaced: dict[str, Any] = {
        "stream": _Copying,
        "current": lambda: computing,
        "pinned": lambda shape, dtype: np.full(shape, -1).astype(dtype),
        "as_argument": lambda pinned: pinned,
        "send": send,
        "Coming": Coming,
        "collect": lambda arrays: [a.copy() for a in arrays],
        "mark": Event,
    }
    for name, function in replaced.items():
        monkeypatch.setattr(transfers, name, function)
