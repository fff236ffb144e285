"""What is no array and no frame in memory, and the call that makes one of it."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet
from typing import Any

_READ = ("__array__", "__dlpack__", "__cuda_array_interface__", "__array_interface__", "__buffer__", "to_cupy")

# Methods of sparse arrays, of Spark's frames, of polars' lazy frames, of relations of DuckDB, and of ibis.
_METHODS = ("toarray", "to_dense", "todense", "toPandas", "collect", "df", "to_pandas", "execute", "compute")


def call(a: Any, argument: str = "it") -> str | None:
    """What to write for it; None for what is an array, a sequence or a frame, or nothing of the kind."""
    kind: Any = type(a)
    how = _call(kind)
    return None if how is None else f"write {how.format(argument)}"


@functools.lru_cache(maxsize=512)
def _call(kind: type) -> str | None:
    """The call, in which braces stand for the argument."""
    if issubclass(kind, Sequence) or any(hasattr(kind, name) for name in _READ):
        return None
    if method := next((name for name in _METHODS if hasattr(kind, name)), None):
        return f"{{}}.{method}()"
    if issubclass(kind, Mapping):
        return "numpy.column_stack(list({}.values()))"
    if issubclass(kind, Iterable) and (issubclass(kind, AbstractSet) or not hasattr(kind, "__getitem__")):
        return "list({})"
    return None
