"""Arrays of PyTorch, JAX and other libraries of the array API standard."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from cukde.core import dispatch
from cukde.core.entry import check

_OURS = ("numpy", "cupy", "dask")


def is_foreign(a: Any) -> bool:
    """Whether an array is of a library that results are brought to, neither NumPy nor CuPy."""
    kind: Any = type(a)
    return _is_foreign(kind)


@functools.lru_cache(maxsize=512)
def _is_foreign(kind: type) -> bool:
    if kind.__module__.partition(".")[0] in _OURS:
        return False
    return is_tensor(kind) or hasattr(kind, "__array_namespace__")


def taken(argument: str, a: Any) -> Any:
    """Return an array of NumPy or CuPy over the same memory, where its library lets others read it."""
    if getattr(a, "requires_grad", False) is True:
        torch = sys.modules.get("torch") if is_tensor(type(a)) else None
        check.no_gradient(argument, torch is None or torch.is_grad_enabled())
        a = a.detach()
    if hasattr(a, "resolve_neg"):
        a = a.resolve_neg()
    try:
        backend = dispatch.backend(a, argument)
        with backend.device_of(a):
            return backend.asarray(a)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:  # a dtype or a layout that others do not have
        raise check.not_taken(argument, a, error) from None


def like(array: Any, a: Any) -> Any:
    """Bring a result to the library of ``a``, on its own device; as it is where that has not the dtype.

    JAX without ``jax_enable_x64`` has no float64, in which small p-values are not 0, and no int64, which counts need.
    """
    namespace = sys.modules["torch"] if is_tensor(type(a)) else a.__array_namespace__()
    given = np.asarray(array) if isinstance(array, np.generic) else array
    try:
        out = namespace.from_dlpack(given)
    except (TypeError, ValueError, RuntimeError, BufferError):  # a dtype that is not exchanged, such as booleans
        out = namespace.asarray(given)
    return out if getattr(out.dtype, "itemsize", given.itemsize) == given.itemsize else array


def mapped(result: Any, a: Any) -> Any:
    """Bring each array of a result to the library of ``a``."""
    return each_array(result, functools.partial(like, a=a))


def each_array(result: Any, to: Callable[[Any], Any]) -> Any:
    """Bring each array of a result elsewhere; results are arrays and named tuples with arrays."""
    if isinstance(result, tuple):
        each = [each_array(part, to) for part in result]
        return type(result)(*each) if hasattr(result, "_fields") else tuple(each)
    is_array = isinstance(result, np.ndarray | np.generic) or dispatch.is_gpu_array(result)
    return to(result) if is_array else result


def is_tensor(kind: type) -> bool:
    """Whether a type is PyTorch's tensor, or of a subclass."""
    return any(each.__name__ == "Tensor" and each.__module__.partition(".")[0] == "torch" for each in kind.__mro__)
