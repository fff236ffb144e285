"""Depthwise convolution of Dask arrays: blocks of the batch and of channels, each with whole sequences."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import dask.array as da
import numpy as np

from cukde.conv1d import check, state as conv1d_state
from cukde.conv1d.geometry import Geometry
from cukde.core import dispatch
from cukde.core.check import flag
from cukde.core.cpu import arrays as host
from cukde.core.dask import check as dask_check
from cukde.core.dask.arrays import collected, empty_like, stand_in, unknown_rows
from cukde.core.dask.devices import computing
from cukde.core.over_dask import dask_form, is_dask, meta, plain
from cukde.core.types import Array, ArrayLike


@dask_form()
def depthwise_conv1d(
    x: ArrayLike,
    w: ArrayLike,
    *,
    bias: ArrayLike | None = None,
    activation: str | Callable[[Any], Any] | None = None,
    state: ArrayLike | None = None,
    return_state: bool = False,
    **options: Any,
) -> Array | Any:
    """Compute :func:`cukde.depthwise_conv1d` of Dask arrays, lazily.

    Direct sums have the same bits as those of plain arrays; transforms have the same accuracy. Each block of the batch
    and of channels costs one call on plain arrays.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import cukde.dask
    >>> x = da.from_array(np.array([[[1.0, 2.0, 4.0, 8.0]]]), chunks=1)
    >>> cukde.dask.depthwise_conv1d(x, np.array([[-1.0, 1.0]])).compute()
    array([[[1., 1., 2., 4.]]])
    """
    checked_options = check.options(**options)
    check.activation(activation)
    return_state = flag("return_state", return_state)
    arguments = {"x": x, "w": check.per_channel(w), "bias": bias, "state": state}
    arrays = {name: collected(name, a) for name, a in arguments.items() if a is not None or name in ("x", "w")}
    x, w = arrays["x"], arrays["w"]
    dispatch.backend(meta(x), "x", **{name: meta(a) for name, a in arrays.items() if name != "x"})

    for name, a in arrays.items():
        dask_check.sizes(name, a.shape, first=name in ("x", "state"))
    unknown = unknown_rows(x, arrays.get("state"))
    g, dtype = check.operands(
        stand_in(x, unknown),
        stand_in(w),
        stand_in(arrays.get("bias")),
        stand_in(arrays.get("state"), unknown),
        host,
        checked_options,
        return_state,
    )[4:]
    layout = checked_options.layout
    kinds = {"x": layout.lower(), "w": "ck", "bias": "c", "state": layout.lower().replace("l", "s")}
    signals = _signals(x, layout)
    chunks = dict(zip(kinds["x"], signals.chunks, strict=True))
    operands: list[Any] = [signals, kinds["x"]]
    for name, a in list(arrays.items())[1:]:
        operands += [_aligned(name, a, kinds[name], chunks, unknown), kinds[name]]
    common = {"dtype": dtype, "meta": empty_like(x, 3, dtype), "concatenate": True, "align_arrays": False}
    y = da.blockwise(
        partial(_convolved, names=tuple(arrays)[2:], options=options | {"activation": activation}),
        kinds["x"],
        *operands,
        adjust_chunks={"l": g.outputs},
        token="cukde-conv1d",
        **common,
    )
    if not return_state:
        return y
    following = da.blockwise(
        partial(_following, geometry=g, dtype=dtype),
        kinds["x"],
        *operands[:2],
        *(operands[-2:] if state is not None else []),
        adjust_chunks={"l": g.reach},
        token="cukde-conv1d-state",
        **common,
    )
    return y, following


def _signals(x: Any, layout: str) -> da.Array:
    """Return signals with each sequence in one block, and no block without channels."""
    if not is_dask(x):
        return da.from_array(x, chunks=-1)
    channels = tuple(size for size in x.chunks[layout.index("C")] if size)
    return _rechunked(x, {layout.index("L"): (x.shape[layout.index("L")],), layout.index("C"): channels})


def _aligned(name: str, a: Any, axes: str, chunks: dict[str, tuple[int, ...]], unknown: bool) -> da.Array:
    """Return an array with x's blocks of the batch and of channels, and one block along other axes."""
    keeps_batch = axes[0] == "b" and unknown
    if keeps_batch:
        dask_check.alignable(name, False, a.numblocks[0] if is_dask(a) else None, len(chunks["b"]), of="x")
    if not is_dask(a):
        a = da.from_array(a, chunks=-1)
    sizes = {axis: chunks[letter] if letter in "bc" else (a.shape[axis],) for axis, letter in enumerate(axes)}
    if keeps_batch:
        del sizes[0]
    return _rechunked(a, sizes)


def _rechunked(a: da.Array, sizes: dict[int, tuple[int, ...]]) -> da.Array:
    """Rechunk the axes whose blocks differ from ``sizes``."""
    changed = {axis: blocks for axis, blocks in sizes.items() if a.chunks[axis] != blocks}
    return a.rechunk(changed) if changed else a


def _convolved(x: Any, w: Any, *others: Any, names: tuple[str, ...], options: dict[str, Any]) -> Any:
    with computing(x):
        return plain("depthwise_conv1d")(x, w, **dict(zip(names, others, strict=True)), **options)


def _following(x: Any, state: Any = None, *, geometry: Geometry, dtype: np.dtype) -> Any:
    """Return the state after a block."""
    with computing(x) as backend, np.errstate(over="ignore"):
        xp = backend.xp
        g = geometry._replace(batch=x.shape[0], channels=x.shape[1 if not geometry.channels_last else 2])
        state = xp.zeros(g.shape(g.reach), dtype) if state is None else backend.asarray(state)
        return conv1d_state.following(xp, x, state, g).astype(dtype, copy=False)
