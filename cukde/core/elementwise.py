"""Functions of an array, entry by entry, by their names: the family that has them adds them, others look them up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

BY_NAME: dict[str, Callable[[Any], Any]] = {}


def name_of(function: Any) -> str | None:
    """Return the name of a function that was added, or None for anything else."""
    return next((name for name, one in BY_NAME.items() if one is function), None)
