"""What a look at data before a pass finds, on either backend."""

from __future__ import annotations

from typing import NamedTuple


class Look(NamedTuple):
    """Pre-pass reductions."""

    squared: float  # the largest squared distance of points to a centre
    finite: list[bool]  # whether all entries are: of X, of Y if there is one, and of other arrays
    ranges: list[tuple[float, float]]  # least and largest entry of those whose ranges are asked for
