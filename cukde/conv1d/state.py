"""Causal convolution of a sequence in chunks."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from cukde.conv1d.geometry import Geometry


def forward(
    passes: ModuleType, xp: Any, x: Any, w: Any, bias: Any, state: Any, geometry: Geometry, activation: str | None
) -> Any:
    """Convolve a chunk causally, preceded by the ``geometry.reach`` inputs of ``state``.

    Only the outputs that depend on the state are computed from a copy, of the state and the first inputs.
    """
    g = geometry
    axis = 1 if g.channels_last else 2
    dependent = -(-g.reach // g.stride)  # outputs that depend on the state
    if dependent == 0:
        return passes.forward(x, w, bias, g, activation)
    head = min(g.length, dependent * g.stride)
    joined = xp.concatenate([state, _slice(x, axis, 0, head)], axis)
    first = passes.forward(
        xp.ascontiguousarray(joined), w, bias, g._replace(length=g.reach + head, before=0), activation
    )
    if g.outputs <= dependent:
        return first
    y = passes.forward(x, w, bias, g, activation)
    _slice(y, axis, 0, dependent)[...] = first
    return y


def following(xp: Any, x: Any, state: Any, geometry: Geometry) -> Any:
    """Return the last ``geometry.reach`` inputs of the state followed by the chunk, in new memory."""
    g = geometry
    axis = 1 if g.channels_last else 2
    kept = max(0, g.reach - g.length)
    old, new = _slice(state, axis, g.reach - kept, g.reach), _slice(x, axis, g.length - (g.reach - kept), g.length)
    return xp.concatenate([old, new], axis)


def _slice(a: Any, axis: int, start: int, stop: int) -> Any:
    return a[:, start:stop] if axis == 1 else a[:, :, start:stop]
