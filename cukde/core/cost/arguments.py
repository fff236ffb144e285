"""Shapes and dtypes of arguments on any device. Arrays that have these are neither copied nor moved."""

from __future__ import annotations

from typing import Any

import numpy as np


def shape(a: Any) -> tuple[int, ...]:
    """The shape of an array or of what can be made one."""
    if hasattr(a, "shape"):
        return tuple(a.shape)
    interface = getattr(a, "__cuda_array_interface__", None)
    return np.shape(a) if interface is None else tuple(interface["shape"])


def dtype(a: Any) -> np.dtype:
    """The dtype of the entries."""
    given = getattr(a, "dtype", None)
    if given is not None:
        try:
            return np.dtype(given)
        except TypeError:  # a dtype of PyTorch, or of a series
            if type(given).__module__ == "torch":
                return np.dtype(str(given).removeprefix("torch."))
    interface = getattr(a, "__cuda_array_interface__", None)
    return np.asarray(a).dtype if interface is None else np.dtype(interface["typestr"])


def promoted(*arrays: Any) -> str:
    """The name of the dtype that arrays are promoted to."""
    return str(np.result_type(*map(dtype, arrays)))


def floating(*arrays: Any) -> str:
    """The name of the floating dtype that arrays are taken as together: integers are float64."""
    return as_floating(promoted(*arrays)).name


def as_floating(dtype: Any) -> np.dtype:
    """The floating dtype that numbers of a dtype are taken as."""
    given = np.dtype(dtype)
    return given if given.kind == "f" else np.dtype(np.float64)
