"""Causal convolution of a sequence that comes in chunks."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from cukde.conv1d.geometry import Geometry


def forward(
    passes: ModuleType, xp: Any, x: Any, w: Any, bias: Any, state: Any, geometry: Geometry, activation: str | None
) -> Any:
    """Convolve a chunk causally, ``geometry``'s, with the ``geometry.reach`` inputs of ``state`` before it.

    Only the outputs that meet the state are computed from a copy, of the state and as many inputs; x is not copied.
    """
    g = geometry
    axis = 1 if g.channels_last else 2
    meeting = -(-g.reach // g.stride)  # outputs
    if meeting == 0:
        return passes.forward(x, w, bias, g, activation)
    head = min(g.length, meeting * g.stride)
    joined = xp.concatenate([state, _of(x, axis, slice(0, head))], axis)
    alone = g._replace(length=g.reach + head, before=0)
    first = passes.forward(xp.ascontiguousarray(joined), w, bias, alone, activation)
    if g.outputs <= meeting:
        return first
    y = passes.forward(x, w, bias, g, activation)
    _of(y, axis, slice(0, meeting))[...] = first
    return y


def following(xp: Any, x: Any, state: Any, geometry: Geometry) -> Any:
    """Return the last ``geometry.reach`` inputs of the state and the chunk after it, in new memory."""
    g = geometry
    axis = 1 if g.channels_last else 2
    kept = max(0, g.reach - g.length)
    old = _of(state, axis, slice(g.reach - kept, g.reach))
    return xp.concatenate([old, _of(x, axis, slice(g.length - (g.reach - kept), g.length))], axis)


def _of(a: Any, axis: int, part: slice) -> Any:
    return a[:, part] if axis == 1 else a[:, :, part]
