"""Sizes and numbers of convolutions on tensor cores, and by how much their sums may differ."""

from __future__ import annotations

import numpy as np

from tests.private import Geometry

# Of the sum of absolute terms: see cukde/conv1d/gpu/toeplitz.py.
SUMS = {"float16": 2.0**-18, "float32": 1e-6}
# A rounding of the result: relative, and absolute where it is denormal.
ROUNDING = {"float16": (2.0**-11, 2.0**-25), "float32": (2.0**-24, 2.0**-126)}


def geometry_of(
    batch: int, channels: int, length: int, taps: int, before: int, after: int | None = None, *, flip: bool = False
) -> Geometry:
    after = taps - 1 - before if after is None else after
    return Geometry(batch, channels, length, taps, 1, 1, before, max(after, 0), False, flip)


def numbers(dtype: str, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)
