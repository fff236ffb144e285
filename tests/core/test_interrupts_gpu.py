"""Ctrl-C in calls on a GPU: no process stays behind, and no memory of the device."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests import processes

pytestmark = pytest.mark.gpu

# About a second of work a call. Ctrl-C is seen when the kernel that runs has ended: CUDA does not stop one.
_CALLS = """
import gc, os, signal, threading
import cupy
import cukde

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have ignored it for what runs behind it
X = cupy.random.default_rng(0).standard_normal((1_500_000, 16), dtype=cupy.float32)
few = X[:1000]

def call():
    return cukde.sd_kde(few, few, 1.0, deterministic=True)

def long_calls():
    for _ in range(1000):
        cukde.sd_kde(X, X, 1.0).get()

expected = call()
"""

_CAUGHT = f"""{_CALLS}
cukde.sd_kde(X[:20_000], X[:20_000], 1.0).get()  # engines are loaded
used = cupy.get_default_memory_pool().used_bytes()
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    long_calls()
except KeyboardInterrupt:
    print("interrupted")
gc.collect()
print(cupy.get_default_memory_pool().used_bytes() - used)
print(bool((call() == expected).all()))
"""

_NOT_CAUGHT = f"""{_CALLS}
print("begins", flush=True)
long_calls()
"""


def test_a_caught_interrupt_leaves_no_memory_and_the_next_call_is_right() -> None:
    assert processes.finished(processes.start("-c", _CAUGHT)) == ("interrupted\n0\nTrue\n", "")


@pytest.mark.skipif("PYTEST_XDIST_WORKER" in os.environ, reason="counts the memory of the GPU, which others take, too")
def test_an_interrupted_process_ends_and_gives_its_memory_back() -> None:
    import cupy

    def taken() -> int:
        free, total = cupy.cuda.runtime.memGetInfo()
        return int(total - free)

    before = taken()
    process = processes.start("-c", _NOT_CAUGHT)
    assert process.stdout is not None
    assert process.stdout.readline() == "begins\n"
    time.sleep(0.5)
    assert taken() - before > 96e6  # the data alone
    process.send_signal(signal.SIGINT)
    _, err = processes.finished(process, code=-signal.SIGINT)
    assert err.endswith("KeyboardInterrupt\n")
    latest = time.monotonic() + 20  # the driver frees what a process leaves a little after its end
    while taken() - before > 2**20 and time.monotonic() < latest:
        time.sleep(0.1)
    assert taken() - before <= 2**20
