"""What a launcher asks about the device it is on."""

from __future__ import annotations

import functools
import threading
from collections.abc import Hashable
from typing import Any

import cupy as cp

_STEP_OF_SHARED_BYTES = 2048

_PER_THREAD = 2  # cudaStreamPerThread

_CLOCK_RATE = 13  # cudaDevAttrClockRate, in kHz: newer properties have no clock


@functools.cache
def _properties(device: int) -> dict[str, Any]:
    properties: dict[str, Any] = cp.cuda.runtime.getDeviceProperties(device)
    return properties


def current() -> int:
    """Number of the current device."""
    return int(cp.cuda.runtime.getDevice())


def stream() -> Hashable:
    """Key of the current stream; CUDA calls the default streams of all threads by one number."""
    number = int(cp.cuda.get_current_stream().ptr)
    return (number, threading.get_ident()) if number == _PER_THREAD else number


def capability() -> tuple[int, int]:
    """Compute capability of the current device, such as (9, 0)."""
    properties = _properties(current())
    return int(properties["major"]), int(properties["minor"])


def multiprocessors() -> int:
    """Number of multiprocessors of the current device."""
    return int(_properties(current())["multiProcessorCount"])


def name() -> str:
    """What the current device is called, such as "NVIDIA H200"."""
    return str(_properties(current())["name"].decode())


def cache_bytes() -> int:
    """Size of the last cache before the current device's memory."""
    return int(_properties(current())["l2CacheSize"])


def memory_bytes() -> int:
    """Size of the current device's memory, used or not."""
    return int(_properties(current())["totalGlobalMem"])


def rated_clock() -> float:
    """Cycles a second that the current device's multiprocessors reach at most."""
    return 1e3 * float(cp.cuda.runtime.deviceGetAttribute(_CLOCK_RATE, current()))


def rounded_shared_bytes(needed: int) -> int:
    """So many bytes of shared memory or a few more: calls of any sizes ask for few amounts, each a kernel to load."""
    return -(-needed // _STEP_OF_SHARED_BYTES) * _STEP_OF_SHARED_BYTES


def shared_bytes_of_block() -> int:
    """Shared memory that a block of the current device can ask for."""
    return int(_properties(current())["sharedMemPerBlockOptin"])


def capturing() -> bool:
    """Whether the current stream is being captured: then nothing may wait for it."""
    return bool(cp.cuda.get_current_stream().is_capturing())


def address(a: Any) -> int:
    """Where an array begins in the device's memory."""
    return int(a.data.ptr)


def holder(a: Any) -> int:
    """Number of the device whose memory an array lies in."""
    return int(a.data.device_id)
