"""Flash-SD-KDE (Triton, one dimension or 16), with its own defaults, or with its precision mode ``fp32_ieee``.

In either mode its default debiasing of 16 dimensions multiplies in TF32: that backend takes no precision mode. Its
backend ``ordered_splitk`` does, and is the one that makes all of ``sd_kde`` IEEE float32.
"""

from __future__ import annotations

from typing import Any

import cupy as cp
import torch
from flash_sd_kde import emp_sd_kde_fit_transform, kde_eval
from kernels.flash_sd_kde import gaussian_kde_score_triton

_IEEE = {"precision_mode": "fp32_ieee"}


def sd_kde(X: Any, Y: Any, h: float) -> Any:
    """Density of the debiased data."""
    return _sd_kde(X, Y, h, {}, {})


def kde(X: Any, Y: Any, h: float) -> Any:
    """Density."""
    return cp.from_dlpack(kde_eval(_tensor(X), _tensor(Y), h))


def ieee_sd_kde(X: Any, Y: Any, h: float) -> Any:
    """Density of the debiased data in the mode ``fp32_ieee``, by its default backends."""
    return _sd_kde(X, Y, h, _IEEE, _IEEE)


def ieee_kde(X: Any, Y: Any, h: float) -> Any:
    """Density in the mode ``fp32_ieee``."""
    return cp.from_dlpack(kde_eval(_tensor(X), _tensor(Y), h, **_IEEE))


def ieee_split_sd_kde(X: Any, Y: Any, h: float) -> Any:
    """Density of the debiased data in the mode ``fp32_ieee``, debiased by the backend that has the mode."""
    return _sd_kde(X, Y, h, _IEEE | {"emp_score_backend": "ordered_splitk"}, _IEEE)


def _sd_kde(X: Any, Y: Any, h: float, debiasing: dict[str, str], density: dict[str, str]) -> Any:
    x = _tensor(X)
    if x.ndim == 1:  # its debiasing of one dimension chooses its own bandwidth: this is the same, with the one given
        moved = x + 0.5 * h * h * gaussian_kde_score_triton(x, x, h, synchronize=False)[0]
    else:
        moved = emp_sd_kde_fit_transform(x, h, **debiasing)
    return cp.from_dlpack(kde_eval(moved, _tensor(Y), h, **density))


def _tensor(A: Any) -> Any:
    """One dimension is a vector."""
    tensor = torch.from_dlpack(A)
    return tensor[:, 0] if tensor.ndim == 2 and tensor.shape[1] == 1 else tensor
