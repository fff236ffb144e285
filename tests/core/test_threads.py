"""Threads of the CPU backend: errors, interrupts, and processes that are forked."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

import cukde
from cukde.core.cpu import blas
from cukde.core.plan import only
from cukde.density.pairs.cpu import differences, passes as pairs_passes, radial_tiles
from cukde.density.pairs.cpu.skipping import compact, queries as skipping_queries
from tests import processes
from tests.private import WorkerPool, threads
from tests.reference import kde as exact_kde

_THREADS = 3
_MOST = 20  # seconds after which a task that should have been given up is a failure


@pytest.fixture(autouse=True)
def interrupts() -> Iterator[None]:
    """Interrupts as at a terminal; what a shell starts in the background ignores them, and so do its children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before or signal.SIG_DFL)


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerPool]:
    """Threads, as many on any machine."""
    pool = WorkerPool(lambda: _THREADS)
    monkeypatch.setattr(threads, "count", lambda: _THREADS)
    monkeypatch.setattr(threads, "_workers", pool)
    yield pool
    pool.close()


class Tasks:
    """What became of tasks: the first does something, the others go on until they are given up."""

    def __init__(self, first: Callable[[], None]) -> None:
        self.begun: list[int] = []
        self.running = 0
        self.late = False  # whether one had to end by itself
        self._first, self._all_run, self._lock = first, threading.Barrier(_THREADS, timeout=_MOST), threading.Lock()

    def __call__(self, index: int) -> None:
        with self._lock:
            self.begun.append(index)
            self.running += 1
        try:
            if index < _THREADS:
                self._all_run.wait()
            if index == 0:
                self._first()
            _until(threads.checkpoint)
        except AssertionError:
            self.late = True
            raise
        finally:
            with self._lock:
                self.running -= 1


def _until(over: Callable[[], object]) -> None:
    """Wait until a condition holds, or what looks at it raises."""
    latest = time.monotonic() + _MOST
    while not over():
        assert time.monotonic() < latest, "too long"


def _blas_threads() -> list[int]:
    """The threads of each BLAS. Those of Apple's Accelerate, which NumPy uses on ARM, nobody can tell or limit."""
    return [library["num_threads"] for library in ThreadpoolController().info() if library["user_api"] == "blas"]


def _fail() -> None:
    raise ValueError("of the first")


def _press_ctrl_c() -> None:
    if sys.platform == "win32":  # where os.kill would end this process
        signal.raise_signal(signal.SIGINT)
    else:
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize(("event", "error"), [(_fail, ValueError), (_press_ctrl_c, KeyboardInterrupt)])
def test_after_an_error_no_thread_works_on_and_the_next_call_is_right(
    event: Callable[[], None], error: type[BaseException]
) -> None:
    before = _blas_threads()
    tasks = Tasks(event)
    with pytest.raises(error):
        threads.run(tasks, range(100), blas=True)
    begun = len(tasks.begun)
    assert (tasks.running, tasks.late) == (0, False)
    assert begun == _THREADS
    time.sleep(0.05)
    assert (tasks.running, len(tasks.begun)) == (0, begun)
    assert before or sys.platform == "darwin"
    assert _blas_threads() == before
    assert threads.run(lambda i: 2 * i, range(100), blas=True) == list(range(0, 200, 2))


@pytest.mark.usefixtures("workers")
def test_threads_that_rest_hold_no_arrays() -> None:
    a = np.ones(3)
    held = weakref.ref(a)
    threads.run(lambda i, a=a: float(a.sum()), range(9), blas=True)  # type: ignore[misc]
    del a
    gc.collect()
    assert held() is None


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize("order", [range(_THREADS), range(_THREADS)[::-1]], ids=["first fails first", "last"])
def test_of_several_errors_that_of_the_first_task_comes(order: Sequence[int]) -> None:
    all_run = threading.Barrier(_THREADS, timeout=_MOST)

    def fail(index: int) -> None:
        all_run.wait()
        time.sleep(0.05 * order[index])
        raise ValueError(f"of task {index}")

    with pytest.raises(ValueError, match="of task 0"):
        threads.run(fail, range(_THREADS), blas=True)


@pytest.mark.usefixtures("workers")
def test_an_error_holds_no_arrays() -> None:
    a = np.ones(3)
    held = weakref.ref(a)

    def fail(index: int, a: np.ndarray = a) -> None:
        raise ValueError(a.shape)

    gc.disable()
    try:
        with pytest.raises(ValueError, match="3"):
            threads.run(fail, range(9), blas=True)
        del a, fail
        assert held() is None
    finally:
        gc.enable()


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="threads cannot be kept from signals here")
@pytest.mark.usefixtures("workers")
def test_an_interrupt_that_the_system_gives_to_another_thread_is_seen() -> None:
    tasks = Tasks(_press_ctrl_c)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    threads._workers.put(lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT}))
    try:
        with pytest.raises(KeyboardInterrupt):
            threads.run(tasks, range(100), blas=True)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    assert (tasks.running, tasks.late) == (0, False)


@pytest.mark.usefixtures("workers")
def test_a_second_interrupt_does_not_wait_and_blas_is_free_once_all_have_ended() -> None:
    before = _blas_threads()
    leave = threading.Event()

    def stubborn(index: int) -> None:
        if index == 0:
            _press_ctrl_c()
            time.sleep(0.3)
            _press_ctrl_c()
        leave.wait(_MOST)

    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        threads.run(stubborn, range(100), blas=True)
    assert time.monotonic() - start < _MOST / 2
    assert _blas_threads() == [1] * len(before)
    leave.set()
    _until(lambda: _blas_threads() == before)


_AT_ANY_TIME = """
import random, signal, time
import numpy as np
import cukde
from cukde.core.cpu import threads as core_threads
from threadpoolctl import ThreadpoolController

def interrupt(*_):
    global again
    if again:
        signal.setitimer(signal.ITIMER_REAL, later.uniform(1e-6, 1e-4))
    again = False
    raise KeyboardInterrupt

def threads():
    return [library["num_threads"] for library in ThreadpoolController().info() if library["user_api"] == "blas"]

core_threads.count = lambda: 3
X = np.random.default_rng(0).normal(size=(300, 3))
core_threads.run(str, range(60), blas=True)  # which loads all libraries of BLAS
want, free = cukde.kde(X, X, 0.5, deterministic=True), threads()  # compiled before it returns
signal.signal(signal.SIGALRM, interrupt)
later = random.Random(0)
for repeat in range(200):
    again = repeat % 4 == 3
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, later.uniform(1e-5, 3e-3))
            while True:
                cukde.kde(X, X, 0.5) if repeat % 2 else core_threads.run(str, range(60), blas=True)
        except KeyboardInterrupt:
            time.sleep(1e-3)
    except KeyboardInterrupt:
        pass
    latest = time.monotonic() + 20  # a second interrupt does not wait for the end
    while threads() != free:
        assert time.monotonic() < latest, repeat
    assert np.array_equal(cukde.kde(X, X, 0.5), want), repeat
print("right")
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no signals of a clock here")
def test_interrupts_at_any_time_leave_threads_and_blas_as_they_were() -> None:
    assert processes.finished(processes.start("-c", _AT_ANY_TIME)) == ("right\n", "")


def test_threads_that_are_closed_have_called_all_and_may_be_used_again() -> None:
    pool, called = WorkerPool(lambda: 2), []
    for rounds in (1, 2):
        for _ in range(5):
            pool.put(lambda: (time.sleep(0.01), called.append(True)))
        pool.close()
        assert len(called) == 5 * rounds


def test_where_no_more_threads_are_to_be_had_calls_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    pool, called = WorkerPool(lambda: 2), threading.Event()
    monkeypatch.setattr(threading.Thread, "start", refuse)
    pool.put(called.set)
    assert called.wait(_MOST)
    pool.close()


_AT_EXIT = """
import threading, time
from cukde.core.cpu import threads

def task(index):
    begun.set()
    time.sleep(0.3)
    print(index, flush=True)

begun = threading.Event()
threading.Thread(target=threads.run, args=(task, [0]), kwargs={"blas": True}, daemon=True).start()
begun.wait()
"""


def test_python_ends_after_tasks_that_run() -> None:
    assert processes.finished(processes.start("-c", _AT_EXIT)) == ("0\n", "")


def _holding(monkeypatch: pytest.MonkeyPatch, before: Callable[[], None]) -> None:
    """Have something happen when BLAS is about to be held."""
    controller = blas.controller()

    class Watched:
        def limit(self, **limits: str) -> object:
            before()
            return controller.limit(**limits)

    monkeypatch.setattr(blas, "controller", Watched)


@pytest.mark.parametrize(("event", "error"), [(_fail, ValueError), (_press_ctrl_c, KeyboardInterrupt)])
def test_after_an_error_while_blas_is_being_held_it_is_free(
    monkeypatch: pytest.MonkeyPatch, event: Callable[[], None], error: type[BaseException]
) -> None:
    before = _blas_threads()
    with monkeypatch.context() as patch:
        _holding(patch, event)
        with pytest.raises(error):
            threads.run(lambda i: i, range(2), blas=True)
    assert threads.run(lambda i: _blas_threads(), [0], blas=True) == [[1] * len(before)]
    assert _blas_threads() == before


@pytest.mark.usefixtures("workers")
@pytest.mark.parametrize(
    ("kernel", "asked", "module", "step"),
    [
        ("gaussian", "", differences, "add_sums"),
        ("tophat", "", radial_tiles, "add_values"),
        ("gaussian", "skipping", skipping_queries, "sums"),
        ("tophat", "radial skipping", compact, "_add"),
    ],
)
def test_a_block_ends_at_its_next_tile(
    monkeypatch: pytest.MonkeyPatch, kernel: str, asked: str, module: ModuleType, step: str
) -> None:
    """Where all pairs are taken, and where those that can matter are."""
    monkeypatch.setattr(pairs_passes, "_TILES_OF_STRETCH", 1)
    data = np.random.default_rng(0).normal(size=(400_000, 4)).astype(np.float32)
    fitted = cukde.KernelDensity(kernel=kernel, bandwidth=0.1 if asked else 10.0).fit(data)
    tiles, lock = 0, threading.Lock()
    compiled = getattr(module, step)

    def interrupting(*arguments: object) -> None:
        nonlocal tiles
        with lock:
            tiles += 1
            number = tiles
        compiled(*arguments)
        if number == 3:
            _press_ctrl_c()
        end = time.monotonic() + _MOST
        while number >= 3 and not threads._this_thread.task.calls.cancelled and time.monotonic() < end:
            time.sleep(0.001)

    monkeypatch.setattr(module, step, interrupting)
    with only(asked), pytest.raises(KeyboardInterrupt):
        fitted.score_samples(data[: 256 * _THREADS])  # 391 tiles in each thread
    assert 3 <= tiles <= 2 + _THREADS


_INTERRUPTED = """
import gc, os, signal, threading, time
import numpy as np
import cukde

X = np.random.default_rng(0).normal(size=(400_000, 8))
want = cukde.kde(X, X[:9], 0.3, deterministic=True)  # which compiles, if it must, before it returns
threads = threading.active_count()
gc.collect()  # what Numba left: Python drops an interrupt that comes while such things are disposed of
threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    cukde.kde(X, X, 0.3, rtol={rtol})  # many seconds
except KeyboardInterrupt:
    used = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - used < 0.1, "a thread works on"
    assert threading.active_count() <= threads + os.cpu_count(), threading.enumerate()
    assert np.array_equal(cukde.kde(X, X[:9], 0.3, deterministic=True), want)
    print("interrupted")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of another kind")
@pytest.mark.parametrize("rtol", [0, None], ids=["all pairs", "pairs left out"])
def test_a_long_call_is_interrupted_soon(rtol: float | None) -> None:
    assert processes.finished(processes.start("-c", _INTERRUPTED.format(rtol=rtol))) == ("interrupted\n", "")


_COMMAND = """
import sys
from cukde.cli import density, main

def evaluate(*arguments, **options):
    print("begun", flush=True)
    return begun(*arguments, **options)

begun, density.evaluate = density.evaluate, evaluate
sys.exit(main.main(sys.argv[1:]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of another kind")
def test_an_interrupted_command_says_so_and_leaves_its_output_as_it_was(tmp_path: Path) -> None:
    np.save(tmp_path / "train.npy", np.random.default_rng(0).normal(size=(1_000_000, 4)))
    (tmp_path / "out.npy").write_text("old")
    command = ("-c", _COMMAND, "density", "train.npy", "--bandwidth", "0.3", "--out", "out.npy")
    process = processes.start(*command, cwd=tmp_path)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    threading.Timer(0.5, process.send_signal, (signal.SIGINT,)).start()
    _, err = processes.finished(process, code=130)
    assert err == "cukde: interrupted\n"
    assert {path.name for path in tmp_path.iterdir()} == {"train.npy", "out.npy"}
    assert (tmp_path / "out.npy").read_text() == "old"


X, Y = np.random.default_rng(1).normal(size=(2, 900, 3))


def _density(shift: float) -> np.ndarray:
    return cukde.kde(X + shift, Y + shift, 0.5)


# Apple's libraries abort in children of a process that has threads.
_METHODS = {"fork", "spawn"} - ({"fork"} if sys.platform == "darwin" else set())


@pytest.mark.parametrize("method", sorted(_METHODS.intersection(multiprocessing.get_all_start_methods())))
def test_children_of_a_process_that_has_computed_compute(method: str) -> None:
    want = exact_kde(X, Y, 0.5)
    np.testing.assert_allclose(_density(0), want, rtol=1e-11)  # threads have been started
    with multiprocessing.get_context(method).Pool(1) as pool:
        for got in pool.map_async(_density, [0.0, 1.0, 2.0]).get(timeout=100):
            np.testing.assert_allclose(got, want, rtol=1e-11)
    np.testing.assert_allclose(_density(0), want, rtol=1e-11)


_FORKED = """
import os, threading, time
import numpy as np
import cukde
from cukde.core.cpu import jit, threads as core_threads
from threadpoolctl import ThreadpoolController

def threads():
    return [library["num_threads"] for library in ThreadpoolController().info() if library["user_api"] == "blas"]

X = np.random.default_rng(0).normal(size=(2000, 3))
core_threads.run(str, range(60), blas=True)  # which loads all libraries of BLAS
want, free = cukde.kde(X, X, 0.5, deterministic=True), threads()  # compiled before it returns
inside, leave = threading.Event(), threading.Event()

def task(index):
    inside.set()
    leave.wait(20)

calling = threading.Thread(target=core_threads.run, args=(task, [0]), kwargs={"blas": True})
calling.start()
inside.wait()
assert threads() == [1] * len(free)

@jit.njit()
def compiled(a):
    return len(a)

compiling = threading.Thread(target=lambda: [compiled((1.0,) * length) for length in range(1, 9)])
compiling.start()
while not compiled.signatures:
    time.sleep(0.001)
child = os.fork()
if child == 0:
    assert threads() == free, threads()
    assert compiled((1, 2)) == 2
    assert np.array_equal(cukde.kde(X, X, 0.5), want)
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
leave.set()
calling.join()
compiling.join()
assert threads() == free
assert np.array_equal(cukde.kde(X, X, 0.5), want)
print("both")
"""


@pytest.mark.skipif(not hasattr(os, "fork") or sys.platform == "darwin", reason="no fork, or none beside threads, here")
def test_a_fork_while_other_threads_compute_and_compile() -> None:
    assert processes.finished(processes.start("-W", "ignore::DeprecationWarning", "-c", _FORKED))[0] == "both\n"


@pytest.mark.usefixtures("workers")
def test_what_the_caller_says_of_floating_point_errors_holds_in_tasks() -> None:
    with np.errstate(divide="raise", invalid="ignore"):
        wanted = np.geterr()
        assert threads.run(lambda i: np.geterr(), range(5), blas=True) == [wanted] * 5
    assert threads.run(lambda i: np.geterr(), range(5), blas=True) == [np.geterr()] * 5 != [wanted] * 5
