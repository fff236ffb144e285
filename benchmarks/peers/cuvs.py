"""The density kernel of cuVS (RAPIDS), in float32, built from its source; CuPy arrays.

``CUVS_SOURCE`` of the environment names a checkout of https://github.com/rapidsai/cuvs. Of it
``cpp/src/distance/kde.cu`` is read: distances, log kernels and both kernels are cut out as they stand and compiled by
NVRTC. What launches them there needs all of RAFT, and is done here by the same arithmetic: 512 threads, one query
each; 64 data a tile; data in parts where queries are too few to fill the device. CuPy compiles with ``-ftz=true``,
which can only be faster.
"""

from __future__ import annotations

import functools
import math
import os
import re
from pathlib import Path
from typing import Any

import cupy as cp
import numpy as np

_FILE = Path("cpp/src/distance/kde.cu")
_THREADS, _TILE, _FEATURES, _BLOCKS = 512, 64, 64, 4  # _BLOCKS: of a multiprocessor, to fill it

# A text in the first declaration of each part of the file that is needed, and one in the comment that follows the part.
_PARTS = (
    ("struct DistOp;", "Host-side normalization functions"),
    ("__global__ void kde_tiled_kernel", "Double dispatch"),
)
_ENUMS = ("DistanceType", "DensityKernelType")
_LIMITS = """
#define M_PI 3.14159265358979323846
namespace cuda { namespace std {
template <typename T> struct numeric_limits;
template <> struct numeric_limits<float> { __host__ __device__ static float lowest() { return -3.402823466e+38f; } };
} }
"""
_SPACE = "cuvs::distance::"
_OF = f"{_SPACE}DistanceType::L2SqrtUnexpanded, {_SPACE}DensityKernelType::Gaussian"
_SUMS = f"{_SPACE}kde_tiled_kernel<float, {_OF}, {_TILE}>"
_MERGE = f"{_SPACE}kde_reduce_kernel<float>"


def kde(X: Any, Y: Any, h: float) -> Any:
    """Density."""
    return cp.exp(log_kde(X, Y, h))


def log_kde(X: Any, Y: Any, h: float) -> Any:
    """Log density: what its kernel computes."""
    sums, merge = _kernels()
    X, Y = cp.ascontiguousarray(X, np.float32), cp.ascontiguousarray(Y, np.float32)
    (n, d), m = X.shape, len(Y)
    constant = np.float32(math.log(n) + d * math.log(h) + 0.5 * d * math.log(2 * math.pi))
    features = min(_FEATURES, d)
    shared = 4 * features * _TILE
    blocks, parts, rows = layout(n, m, _multiprocessors())
    out = cp.empty(m, np.float32)
    sizes = (np.int32(m), np.int32(n), np.int32(d), np.float32(h), np.float32(2), constant, np.int32(rows))
    if parts == 1:
        arguments = (Y, X, np.intp(0), out, np.intp(0), *sizes, np.int32(features))
        sums((blocks,), (_THREADS,), arguments, shared_mem=shared)
        return out
    most, total = cp.empty((m, parts), np.float32), cp.empty((m, parts), np.float32)
    sums((blocks, parts), (_THREADS,), (Y, X, np.intp(0), most, total, *sizes, np.int32(features)), shared_mem=shared)
    merge((blocks,), (_THREADS,), (most, total, out, np.int32(m), np.int32(parts), constant))
    return out


def layout(n: int, m: int, multiprocessors: int) -> tuple[int, int, int]:
    """Blocks of queries, parts of the data, and rows of a part."""
    blocks = math.ceil(m / _THREADS)
    parts = min(max(1, _BLOCKS * multiprocessors // blocks), max(1, n // (4 * _TILE)))
    if parts == 1:
        return blocks, 1, n
    rows = math.ceil(math.ceil(n / parts) / _TILE) * _TILE
    return blocks, math.ceil(n / rows), rows


def source(text: str) -> str:
    """What is compiled of the text of its ``kde.cu``; ValueError where the text does not have it."""
    parts = []
    for first, after in _PARTS:
        start, stop = text.find(first), text.find(after)
        if not 0 < start < stop:
            raise ValueError(f"{_FILE.name} of cuVS must have {first!r} before {after!r}; this version has not")
        parts.append(text[text.rindex("template", 0, start) : text.rindex("\n// ==", 0, stop)])
    body = "\n".join(parts)
    enums = (f"enum class {name} : int {{ {', '.join(_members(name, body))} }};" for name in _ENUMS)
    return "\n".join((_LIMITS, "namespace cuvs { namespace distance {", *enums, body, "} }"))


def _members(enum: str, text: str) -> list[str]:
    """Members of an enumeration that a text names."""
    return sorted(set(re.findall(rf"\b{enum}::(\w+)", text)))


@functools.cache
def _multiprocessors() -> int:
    return int(cp.cuda.Device().attributes["MultiProcessorCount"])


@functools.cache
def _kernels() -> tuple[Any, Any]:
    checkout = os.environ.get("CUVS_SOURCE")
    if not checkout:
        raise LookupError("CUVS_SOURCE of the environment must name a checkout of rapidsai/cuvs; it is not set")
    code = source((Path(checkout) / _FILE).read_text(encoding="utf-8"))
    module = cp.RawModule(code=code, options=("-std=c++17",), name_expressions=(_SUMS, _MERGE))
    return module.get_function(_SUMS), module.get_function(_MERGE)
