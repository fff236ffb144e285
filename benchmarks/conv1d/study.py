"""The source's stages of depthwise convolution: launcher of ``kernels_cu/study/conv1d_study.cu``.

Arrays are float32 and contiguous: sequences (B, C, L), weights (C, K). The convolution is causal.
"""

from __future__ import annotations

from typing import Any

import cupy as cp
import numpy as np

from benchmarks.conv1d import study_cost
from benchmarks.conv1d.study_cost import PATHS, VARIANTS
from cukde.core.gpu import compile as core_compile
from cukde.core.gpu.launch import Specialisation
from cukde.perf import declare

__all__ = ["PATHS", "STEM", "VARIANTS", "forward", "input_grad", "kernel", "weight_grad"]

STEM = "study/conv1d_study"
_THREADS, _WARPS, _SEGMENT = 256, 8, 128  # of a block; outputs of a warp
_ACROSS, _ALONG = 32, 8  # threads of a block of two dimensions
_MOST_TAPS, _WARP_TAPS = 32, 8  # of a block that sums weights


@declare(study_cost.forward, study_cost.forward_sizes, "study.conv1d_forward")
def forward(variant: str, x: Any, w: Any) -> Any:
    """y (B, C, L)."""
    return _convolve("forward", variant, x, w)


@declare(study_cost.forward, study_cost.forward_sizes, "study.conv1d_input_grad")
def input_grad(variant: str, dy: Any, w: Any) -> Any:
    """dx (B, C, L)."""
    return _convolve("input_grad", variant, dy, w)


@declare(study_cost.weight_grad, study_cost.weight_grad_sizes, "study.conv1d_weight_grad")
def weight_grad(variant: str, x: Any, dy: Any, taps: int) -> Any:
    """dw (C, taps)."""
    B, C, L = x.shape
    out = cp.empty((C, taps), np.float32)
    block: tuple[int, ...] = (_THREADS,)
    if variant == "naive":
        grid, block = (_parts(C, _ACROSS), _parts(taps, _ALONG)), (_ACROSS, _ALONG)
    elif variant == "naive-by-row":
        grid = (_parts(C * taps, _THREADS),)
    elif variant == "coalesced":
        grid, block = (taps, C), (_ACROSS, _ALONG)
    elif variant == "blocked":
        grid = (_parts(taps, min(_MOST_TAPS, _floor_power_of_two(2 * taps - 1))), C)
    else:
        grid = (_parts(taps, _WARP_TAPS), C)
    kernel("weight_grad", variant).launch(grid, block, x, dy, out, B, C, L, taps)
    return out


def kernel(path: str, variant: str, shared_bytes: int = 0) -> Specialisation:
    """What computes a path by a stage."""
    defines = core_compile.macros(VARIANT=variant.upper().replace("-", "_"))
    return Specialisation(STEM, f"conv1d_{path}", defines, "3P 4i", shared_bytes)


def _convolve(path: str, variant: str, sequences: Any, w: Any) -> Any:
    (B, C, L), K = sequences.shape, w.shape[1]
    grid: tuple[int, ...]
    block: tuple[int, ...] = (_ACROSS, _ALONG)
    floats = 0  # of shared memory
    if variant == "naive":
        grid = (_parts(C, _ACROSS), _parts(L, _ALONG), B)
    elif variant == "naive-by-row":
        grid, block = (_parts(B * C * L, _THREADS),), (_THREADS,)
    elif variant == "coalesced":
        grid = (_parts(L, _ACROSS), _parts(C, _ALONG), B)
    elif variant == "blocked":
        tile = min(_THREADS, 32 * _parts(L, 32))
        grid, block, floats = (_parts(L, tile), C, B), (tile,), tile + 2 * K - 1
    else:
        grid, block = (_parts(B * C * _parts(L, _SEGMENT), _WARPS),), (_THREADS,)
        floats = _WARPS * (_SEGMENT + 8 * _parts(K, 4))
    out = cp.empty_like(sequences)
    kernel(path, variant, 4 * floats).launch(grid, block, sequences, w, out, B, C, L, K)
    return out


def _parts(of: int, size: int) -> int:
    return -(-of // size)


def _floor_power_of_two(of: int) -> int:
    return 1 << (of.bit_length() - 1)
