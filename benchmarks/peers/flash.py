"""Flash-SD-KDE (Triton), in one dimension or 16, called as its own entry points call its kernels.

Settings are those of https://github.com/Elliotepsteino/Flash-SD-KDE at a333b872 (flash-sd-kde 0.1.1):

- ``kde``, ``laplace_kde`` and ``sd_kde`` are its public ``kde_eval``, ``kde_eval_linearized`` and
  ``emp_sd_kde_fit_transform`` with their defaults: split-K kernels, autotuned, norms computed once; debiasing by the
  backend ``flash_sd_kde``, 64 x 2048 tiles, 2 warps.
- Its debiasing of one dimension, ``empirical_sd_kde_triton``, chooses its own bandwidth, on the host. Here its kernel
  is given the bandwidth and that function's own tiles, 64 x 128 with one warp, which are read from its signature.
- ``paper_`` is what its ``experiments/runtime/benchmark_triton_kde.py`` times for the figures of the paper:
  ``gaussian_kde_triton`` (128 x 128, 4 warps) after that debiasing, or in 16 dimensions ``gaussian_kde_triton_nd``
  (64 x 64, 4 warps) after ``empirical_sd_kde_triton_nd``, neither synchronised.

The default mode, ``fast_tf32``, multiplies in TF32. ``ieee_`` is the mode ``fp32_ieee``, in which its default debiasing
of 16 dimensions still multiplies in TF32, for that backend takes no mode. ``split_`` and ``symmetric_`` debias by its
backends ``ordered_splitk`` and ``symmetric_atomic``, which take it. One dimension has no product: it is float32 in
either mode. Triton's autotuner knows a call by its sizes: the first mode that is called chooses for the others.
"""

from __future__ import annotations

import inspect
from typing import Any

import cupy as cp
import torch
from flash_sd_kde import emp_sd_kde_fit_transform, kde_eval, kde_eval_linearized
from kernels.flash_sd_kde import (
    empirical_sd_kde_triton,
    empirical_sd_kde_triton_nd,
    gaussian_kde_score_triton,
    gaussian_kde_triton,
    gaussian_kde_triton_nd,
)

_IEEE = {"precision_mode": "fp32_ieee"}
_SPLIT = {"emp_score_backend": "ordered_splitk"}
_SYMMETRIC = {"emp_score_backend": "symmetric_atomic"}
_TILES = ("block_m", "block_n", "num_warps", "num_stages")

_tuned: set[int] = set()  # numbers of points for which the symmetric backend has chosen its tiles


def kde(X: Any, Y: Any, h: float) -> Any:
    """Density."""
    return cp.from_dlpack(kde_eval(_tensor(X), _tensor(Y), h))


def laplace_kde(X: Any, Y: Any, h: float) -> Any:
    """Laplace-corrected density, fused in one kernel."""
    return cp.from_dlpack(kde_eval_linearized(_tensor(X), _tensor(Y), h))


def sd_kde(X: Any, Y: Any, h: float) -> Any:
    """Density of the debiased data."""
    return _sd_kde(X, Y, h, {}, {})


def ieee_kde(X: Any, Y: Any, h: float) -> Any:
    """Density in the mode ``fp32_ieee``."""
    return cp.from_dlpack(kde_eval(_tensor(X), _tensor(Y), h, **_IEEE))


def ieee_laplace_kde(X: Any, Y: Any, h: float) -> Any:
    """Laplace-corrected density in the mode ``fp32_ieee``."""
    return cp.from_dlpack(kde_eval_linearized(_tensor(X), _tensor(Y), h, **_IEEE))


def ieee_sd_kde(X: Any, Y: Any, h: float) -> Any:
    """Density of the debiased data in the mode ``fp32_ieee``, by its default backends."""
    return _sd_kde(X, Y, h, _IEEE, _IEEE)


def ieee_split_sd_kde(X: Any, Y: Any, h: float) -> Any:
    """Density of the debiased data, all in the mode ``fp32_ieee``, debiased with partial sums in memory."""
    return _sd_kde(X, Y, h, _IEEE | _SPLIT, _IEEE)


def symmetric_sd_kde(X: Any, Y: Any, h: float) -> Any:
    """Density of the debiased data, each pair of them summed once."""
    return _symmetric(X, Y, h, {})


def ieee_symmetric_sd_kde(X: Any, Y: Any, h: float) -> Any:
    """Density of the debiased data, all in the mode ``fp32_ieee``, each pair of them summed once."""
    return _symmetric(X, Y, h, _IEEE)


def paper_kde(X: Any, Y: Any, h: float) -> Any:
    """Density by the kernels that the paper's figures time."""
    return cp.from_dlpack(_paper_density(_tensor(X), _tensor(Y), h))


def paper_sd_kde(X: Any, Y: Any, h: float) -> Any:
    """Density of the debiased data by the kernels that the paper's figures time."""
    x = _tensor(X)
    if x.ndim == 1:
        moved = _debiased_line(x, h)
    else:
        moved, _ = empirical_sd_kde_triton_nd(x, h, return_tensor=True, synchronize=False)
    return cp.from_dlpack(_paper_density(moved, _tensor(Y), h))


def _paper_density(x: Any, y: Any, h: float) -> Any:
    density = gaussian_kde_triton if x.ndim == 1 else gaussian_kde_triton_nd
    return density(x, y, h, synchronize=False)


def _symmetric(X: Any, Y: Any, h: float, mode: dict[str, str]) -> Any:
    """Its autotuner adds every trial to the first result of a size: that one is not used."""
    if len(X) not in _tuned:
        emp_sd_kde_fit_transform(_tensor(X), h, **mode, **_SYMMETRIC)
        _tuned.add(len(X))
    return _sd_kde(X, Y, h, mode | _SYMMETRIC, mode)


def _sd_kde(X: Any, Y: Any, h: float, debiasing: dict[str, str], density: dict[str, str]) -> Any:
    x = _tensor(X)
    moved = _debiased_line(x, h) if x.ndim == 1 else emp_sd_kde_fit_transform(x, h, **debiasing)
    return cp.from_dlpack(kde_eval(moved, _tensor(Y), h, **density))


def _debiased_line(x: Any, h: float) -> Any:
    own = inspect.signature(empirical_sd_kde_triton).parameters
    tiles = {name: own[name].default for name in _TILES}
    return x + 0.5 * h * h * gaussian_kde_score_triton(x, x, h, **tiles, synchronize=False)[0]


def _tensor(A: Any) -> Any:
    """One dimension is a vector."""
    tensor = torch.from_dlpack(A)
    return tensor[:, 0] if tensor.ndim == 2 and tensor.shape[1] == 1 else tensor
