"""Arrays on a device. Imported only where a caller already holds one."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable
from typing import Any

import cupy as cp
import numpy as np

from cukde.core.gpu import device as core_device, transfers, upload as upload
from cukde.core.gpu.devices import several as several, spread as spread
from cukde.core.gpu.survey import look as look, mean as mean

name = "gpu"
xp = cp

_HERE = contextlib.nullcontext()

_DLPACK_CUDA = (2, 13)  # DLPack's codes of CUDA device and managed memory


def asarray(a: Any) -> Any:
    """Take an array-like as a CuPy array of the current device, without a copy where it is there already.

    A host array of a dtype that CuPy does not have (text, objects) comes back as it is: it is refused by
    name where arguments are checked.
    """
    out = _view(a)
    if out is None:
        host = np.from_dlpack(a) if _only_dlpack(a) else np.asarray(a)
        return cp.asarray(host) if host.dtype.kind in "biufc" else host
    # A copy lands on the current device.
    return out if out.device.id == cp.cuda.runtime.getDevice() else out.copy()


def asnumpy(a: Any) -> np.ndarray:
    """Copy to the host."""
    return cp.asnumpy(a)


def asnumpy_together(*arrays: Any) -> list[Any]:
    """Copy small arrays of the current device to the host, waiting once; anything else comes back as it is."""
    number = core_device.current()
    here = [a for a in arrays if isinstance(a, cp.ndarray) and core_device.holder(a) == number]
    copies = dict(zip(map(id, here), transfers.collect(list(map(cp.ascontiguousarray, here))), strict=True))
    return [copies.get(id(a), a) for a in arrays]


def device_of(a: Any) -> contextlib.AbstractContextManager[Any]:
    """Make the device of ``a`` the current one; of an array-like that is on no GPU, the current stays."""
    # The usual case: to make a device the current one, and the last one again, takes several times as long as to ask.
    if type(a) is cp.ndarray and core_device.holder(a) == core_device.current():
        return _HERE
    # cuDF makes its columns one array on request, and always on the current device.
    out = None if hasattr(a, "to_cupy") else _view(a)
    return _HERE if out is None else out.device


def device(turn: int) -> contextlib.AbstractContextManager[Any]:
    """Make one of the devices the current one, by turns that go round all of them."""
    return cp.cuda.Device(turn % cp.cuda.runtime.getDeviceCount())


def device_key() -> Hashable:
    """Key of things made for the current device: its number."""
    return "gpu", core_device.current()


def place() -> Hashable:
    """Key of the work that comes in one order: that of the current stream."""
    return core_device.stream()


def synchronize() -> None:
    """Wait until the current stream of the current device has done what it was given."""
    cp.cuda.get_current_stream().synchronize()


def erfcx(a: Any) -> Any:
    """Scaled complementary error function, exp(a^2) erfc(a)."""
    return special().erfcx(a)


def special() -> Any:
    """Return the module of special functions."""
    from cupyx.scipy import special

    return special


def release_memory() -> None:
    """Give the memory that CuPy keeps for later back to the device and to the host."""
    cp.get_default_memory_pool().free_all_blocks()
    cp.get_default_pinned_memory_pool().free_all_blocks()


def _view(a: Any) -> Any | None:
    """The CuPy array over the memory of a GPU array-like, on whichever device; None for all others."""
    if isinstance(a, cp.ndarray):
        return a
    if hasattr(a, "to_cupy"):
        return a.to_cupy()
    if hasattr(a, "__cuda_array_interface__"):
        return cp.asarray(a)
    if hasattr(a, "__dlpack_device__") and int(a.__dlpack_device__()[0]) in _DLPACK_CUDA:
        return cp.from_dlpack(a)
    return None


def _only_dlpack(a: Any) -> bool:
    return hasattr(a, "__dlpack__") and not hasattr(a, "__array__")
