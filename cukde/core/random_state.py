"""Sources of random numbers, given as NumPy, SciPy and scikit-learn take them."""

from __future__ import annotations

import operator
from typing import Any, TypeAlias

import numpy as np


class _Default(int):
    """An integer that no caller writes, so that it can be told whether the argument was given."""


RandomState: TypeAlias = int | np.integer[Any] | np.random.Generator | np.random.RandomState | None

DEFAULT = _Default(0)
"""0, the default of functions whose results are the same from call to call."""

_END = 2**63  # of integers that a generator draws


def integer(random_state: RandomState, seed: RandomState = None) -> int:
    """Return a seed: an integer itself, or one drawn from a generator; None draws from NumPy's global one.

    ``seed`` is another name of ``random_state``.
    """
    name = "random_state"
    if seed is not None:
        if random_state is not DEFAULT:
            raise TypeError("random_state and seed must not both be given: seed is another name of random_state")
        random_state, name = seed, "seed"
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(_END))
    if random_state is None:
        random_state = np.random.mtrand._rand  # as scikit-learn and SciPy do
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(0, _END, dtype=np.int64))
    try:
        out = None if isinstance(random_state, bool) else operator.index(random_state)
    except TypeError:
        out = None
    if out is None:
        raise TypeError(f"{name} must be an integer, a NumPy Generator or RandomState, or None; got {random_state!r}")
    if not 0 <= out < 2**64:
        raise ValueError(f"{name} must be from 0 to {2**64 - 1}; got {out}")
    return out
