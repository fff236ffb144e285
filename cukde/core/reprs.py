"""Results in a line or two, however large their arrays are."""

from __future__ import annotations

import html
from typing import Any, TypeVar

import numpy as np

from cukde.core.frames.libraries import library_of

T = TypeVar("T")

_FEW = 6  # entries of an array that are shown


def readable(cls: type[T]) -> type[T]:
    """Have named tuples print in a line or two, and show their frames in notebooks."""
    cls.__repr__ = _text  # type: ignore[method-assign]
    cls._repr_html_ = _html  # type: ignore[attr-defined]
    return cls


def _text(result: Any) -> str:
    """Numbers and few entries as they are, of other arrays their kind and shape."""
    fields = zip(result._fields, result, strict=True)
    return f"{type(result).__name__}({', '.join(f'{name}={_shown(value)}' for name, value in fields)})"


def _html(result: Any) -> str | None:
    """The frames as their library draws them; None without any, which shows the text."""
    fields = zip(result._fields, result, strict=True)
    frames = [(name, value._repr_html_()) for name, value in fields if hasattr(value, "_repr_html_")]
    drawn = "".join(f"<p>{name}</p>{frame}" for name, frame in frames)
    return f"<pre>{html.escape(repr(result))}</pre>{drawn}" if frames else None


def _shown(value: Any) -> str:
    if isinstance(value, np.generic) or (getattr(value, "shape", None) == () and hasattr(value, "item")):
        return repr(value.item())
    if isinstance(value, np.ndarray) and value.size <= _FEW:
        return " ".join(np.array2string(value, separator=", ", precision=4).split())
    is_frame = library_of(value) is not None
    shape = getattr(value, "shape", (len(value),) if is_frame else None)  # arrays of Arrow have none
    if shape is None:
        return repr(value)
    library = type(value).__module__.partition(".")[0].replace("jaxlib", "jax")
    dtype = f", {value.dtype}" if hasattr(value, "dtype") else ""
    return f"<{library} {type(value).__name__ if is_frame else 'array'} of shape {tuple(shape)}{dtype}>"
