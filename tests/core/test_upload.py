"""Pieces of host arrays on their way to a device: none is lost, and no memory is taken from who still needs it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from tests.conftest import Backend
from tests.host_emulation import _streams

upload: Any = pytest.importorskip("cukde.core.gpu.upload", reason="needs CuPy")

RNG = np.random.default_rng(5)


def sources(*rows: int, d: int = 3) -> list[list[np.ndarray]]:
    """Points and a number for each."""
    return [[RNG.standard_normal((n, d)), RNG.integers(0, 100, n)] for n in rows]


KINDS = [(3,), ()], [np.dtype(np.float32), np.dtype(np.float64)]


def pieces(given: list[list[np.ndarray]], rows: int, look: Callable[..., Any]) -> Iterator[Any]:
    with upload.turn() as copying, closing(upload.pieces(given, upload.Slots(rows, *KINDS), copying, look)) as some:
        yield from some


@pytest.mark.parametrize("rows", [1, 7, 10, 64])
def test_all_rows_come_in_order(device: Backend, rows: int) -> None:
    given = sources(10, 1, 0, 23)
    came: list[list[list[np.ndarray]]] = [[] for _ in given]

    def look(number: int, of: slice, arrays: list[Any]) -> None:
        assert of.stop - of.start == len(arrays[0]) == len(arrays[1]) <= rows
        assert [a.dtype for a in arrays] == KINDS[1]
        came[number].append([device.asnumpy(a).copy() for a in arrays])

    for _ in pieces(given, rows, look):
        pass
    for parts, arrays in zip(came, given, strict=True):
        for i, a in enumerate(arrays):
            got = np.concatenate([part[i] for part in parts]) if parts else a[:0]
            np.testing.assert_array_equal(got, a.astype(KINDS[1][i]))


class Streams:
    """A device whose streams, that of the kernels too, do what they are given as late as they may."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.computing = _streams.Stream()
        self.copying: list[_streams.Stream] = []
        transfers = upload.transfers
        _streams.use(monkeypatch, transfers)
        monkeypatch.setattr(transfers, "current", lambda: self.computing)
        monkeypatch.setattr(transfers, "stream", self._stream)
        monkeypatch.setattr(upload.core_device, "current", lambda: -2)
        monkeypatch.setattr(upload, "cp", np)
        monkeypatch.setattr(upload, "_idle", {})

    def _stream(self) -> _streams.Stream:
        self.copying.append(_streams.Stream())
        return self.copying[-1]


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> Streams:
    return Streams(monkeypatch)


@pytest.mark.parametrize("first", ["kernels", "copies", "neither"])
def test_no_memory_is_taken_too_early(streams: Streams, first: str) -> None:
    """Whichever stream runs ahead of the other, as far as events let it."""
    given = sources(40)
    sums: list[np.ndarray] = []

    def look(number: int, rows: slice, arrays: list[np.ndarray]) -> np.ndarray:
        made = np.empty_like(arrays[0])
        streams.copying[0].do(lambda: np.multiply(arrays[0], arrays[1][:, None], out=made))
        return made

    for piece in pieces(given, 6, look):
        streams.computing.do(lambda piece=piece: sums.append(piece.sum(axis=0)))
        if first == "kernels":
            streams.computing.synchronize()
        if first == "copies":
            streams.copying[0].synchronize()
    streams.computing.synchronize()
    points, numbers = given[0]
    want = (points.astype(np.float32) * numbers[:, None]).sum(axis=0)
    assert len(sums) == 7
    np.testing.assert_allclose(np.sum(sums, axis=0), want, rtol=1e-4)


def test_a_piece_is_copied_while_the_one_before_is_computed_on(streams: Streams) -> None:
    """When the third is asked for, the host has waited for neither pass."""
    done: list[int] = []
    with closing(pieces(sources(30), 10, lambda *of: None)) as some:
        for i in range(2):
            next(some)
            streams.computing.do(lambda i=i: done.append(i))
        assert done == []
        next(some)
        assert done == []
    assert done == [0]  # whose memory the third took


def test_what_look_made_lives_until_its_pass_is_done(streams: Streams) -> None:
    alive: set[int] = set()

    class Made:
        def __init__(self, i: int) -> None:
            self.i = i
            alive.add(i)

        def __del__(self) -> None:
            alive.discard(self.i)

    made = iter(range(9))
    some = pieces(sources(30), 10, lambda *of: Made(next(made)))
    next(some)
    assert alive == {0}
    next(some)
    assert alive == {0, 1}
    next(some)
    assert alive == {1, 2}


def test_memory_that_earlier_kernels_still_read(streams: Streams) -> None:
    slots = upload.Slots(10, *KINDS)
    before = [room.copy() for slot in slots.pair for room in slot.device]
    read: list[np.ndarray] = []
    streams.computing.do(lambda: read.extend(room.copy() for slot in slots.pair for room in slot.device))
    with upload.turn() as copying, closing(upload.pieces(sources(10), slots, copying, lambda *of: None)) as some:
        next(some)
        copying.synchronize()
    streams.computing.synchronize()
    for got, want in zip(read, before, strict=True):
        np.testing.assert_array_equal(got, want)


def test_memory_made_by_look_waits_for_the_last_pass(streams: Streams) -> None:
    """What the next to have the stream makes on it may take that memory."""
    done: list[str] = []
    for _ in pieces(sources(10), 10, lambda *of: None):
        streams.computing.do(lambda: done.append("pass"))
    assert done == []
    with upload.turn() as copying:
        copying.do(lambda: done.append("made"))
        copying.synchronize()
    assert done == ["pass", "made"]


def test_an_error_gives_the_stream_back(streams: Streams) -> None:
    def fails(number: int, rows: slice, arrays: list[np.ndarray]) -> None:
        if rows.start:
            raise ValueError("the second piece")

    for _ in range(3 * upload._AT_ONCE):
        with (
            pytest.raises(ValueError, match="the second piece"),
            closing(pieces(sources(20), 10, fails)) as some,
        ):
            list(some)
    assert len(streams.copying) == 1
    assert streams.copying[0]._done >= streams.copying[0].count - 1  # all but the last wait for the kernels


def test_two_threads_at_a_time(streams: Streams) -> None:
    most, running, lock = 0, 0, threading.Lock()
    both = threading.Barrier(upload._AT_ONCE, timeout=20)

    def run(begin: Callable[[], Any]) -> None:
        nonlocal most, running
        with closing(begin()) as some:
            next(some)
            with lock:
                running += 1
                most = max(most, running)
            both.wait()
            with lock:
                running -= 1

    def begin() -> Iterator[None]:
        return pieces(sources(5), 5, lambda *of: None)

    threads = [threading.Thread(target=run, args=(begin,)) for _ in range(3 * upload._AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == upload._AT_ONCE == len(streams.copying)


def test_rows_of_a_piece() -> None:
    f4, f8 = np.dtype(np.float32), np.dtype(np.float64)
    assert upload.rows_of_piece([(16,)], [f4]) == 2**20
    assert upload.rows_of_piece([(2,)], [f8]) == 2**20
    assert upload.rows_of_piece([(1,)], [f4]) == 2**22
    assert upload.rows_of_piece([(16,), ()], [f4, f8]) == 2**26 // 72
    assert upload.rows_of_piece([(100_000,)], [f8]) == 1024


def test_no_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy

    def fails(size: int) -> None:
        raise error

    error = cupy.cuda.runtime.CUDARuntimeError(2)
    monkeypatch.setattr(cupy.cuda, "alloc_pinned_memory", fails)
    with pytest.raises(MemoryError, match="no pinned memory for 6 numbers of float32"):
        upload.transfers.pinned((2, 3), np.dtype(np.float32))
    error = cupy.cuda.runtime.CUDARuntimeError(3)
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError):
        upload.transfers.pinned((2, 3), np.dtype(np.float32))
