"""Passes of float16 operands by a plan of one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

from cukde.density.pairs.gpu import f16, splits


@contextmanager
def planned(plan: Callable[..., splits.Plan]) -> Iterator[None]:
    """Let ``plan`` split the data of passes within the block, not ``splits.plan``, and keep none of its plans."""
    f16._plan.cache_clear()
    try:
        with mock.patch.object(splits, "plan", plan):
            yield
    finally:
        f16._plan.cache_clear()
