"""The errors a user of density ratios can cause in the denominator, raised before anything is computed."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from cukde import _validate, _validate_columns


def denominator(Z: Any, d: int, backend: ModuleType) -> Any:
    """Check the data of the denominator; return them with shape (k, d)."""
    out = _validate.points("Z", Z, backend)
    if out.shape[0] == 0:
        raise ValueError(f"Z must have at least one row; got shape {out.shape}")
    if (out.shape[1] if out.ndim == 2 else 1) != d:
        raise ValueError(f"Z must have {d} columns like X; got shape {out.shape}")
    return out[:, None] if out.ndim == 1 else out


def bandwidth(h: Any, own: Any, d: int) -> Any:
    """Return the bandwidth of the denominator on the host; without one of its own it is that of the numerator."""
    return h if own is None else _validate_columns.bandwidth(own, d, "denominator_bandwidth")


def weights(w: Any, k: int, backend: ModuleType) -> Any:
    """Check the form of the denominator's weights."""
    out = _validate.array("denominator_weights", w, backend)
    if out.shape != (k,):
        raise ValueError(f"denominator_weights must have shape ({k},), one for each row of Z; got {out.shape}")
    return out
