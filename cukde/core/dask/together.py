"""Calls on Dask collections that several GPUs of one process share: one task, which has all blocks."""

from __future__ import annotations

import importlib
from typing import Any

import dask.array as da
from dask import delayed

from cukde.core import check as core_check, dispatch
from cukde.core.dask.arrays import collected, same, whole_rows
from cukde.core.dask.devices import computing
from cukde.core.over_dask import is_dask


def together(function: tuple[str, str], outline: Any, given: dict[str, Any], devices: Any) -> Any:
    """Return the result of a public function as one block, or several such.

    ``function`` is its module and its name. ``outline`` is the result of the Dask form, lazy, whose checks have been
    made, and which says what shape it has.
    """
    options: dict[str, Any] = {"devices": core_check.devices(devices)}
    blocks: dict[str, list[Any]] = {}
    for name, value in given.items():
        before = next((other for other in blocks if same(given[other], value)), None)
        if before is not None:
            options[name] = _Same(before)
        elif is_dask(value):
            beside = None if name in ("X", "Y") else given.get("X")  # whose rows it belongs to
            blocks[name] = whole_rows(collected(name, value, beside)).to_delayed().ravel().tolist()
        else:
            options[name] = value
    call = delayed(_called, pure=True)(function, blocks, options)
    if not isinstance(outline, tuple):
        return _array(call, outline)
    parts = [_array(call[i], one) if is_dask(one) else one for i, one in enumerate(outline)]
    return type(outline)(*parts) if hasattr(outline, "_fields") else tuple(parts)


class _Same(str):
    """The name of another argument, which has the same blocks."""

    __slots__ = ()


def _array(value: Any, like: da.Array) -> da.Array:
    return da.from_delayed(value, like.shape, dtype=like.dtype, meta=like._meta)


def _called(function: tuple[str, str], blocks: dict[str, list[Any]], options: dict[str, Any]) -> Any:
    """Call a public function on arrays made of all blocks, on the device of the first that is on a GPU."""
    module, name = function
    every = [block for parts in blocks.values() for block in parts]
    first = next(filter(dispatch.is_gpu_array, every), every[0])
    with computing(first) as backend:
        arrays = {of: _joined(list(map(backend.asarray, parts)), backend.xp) for of, parts in blocks.items()}
        options = {of: arrays[value] if isinstance(value, _Same) else value for of, value in options.items()}
        return getattr(importlib.import_module(module), name)(**arrays, **options)


def _joined(parts: list[Any], xp: Any) -> Any:
    return parts[0] if len(parts) == 1 else xp.concatenate(parts)
