"""Nsight Compute: its command for a kernel of a program of this folder, and the table that it prints."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable
from typing import Any


def command(module: str, name: str, kernel: str, *options: str) -> tuple[str, ...]:
    """Count launches of ``kernel`` in what ``python -m module --launch name`` does, with more options."""
    return (
        *("ncu", "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none"),
        *options,
        *("--kernel-name", kernel),
        *(sys.executable, "-m", module, "--launch", name),
    )


def twice(call: Callable[[], Any]) -> None:
    """Make a call twice, each to its end: the first compiles."""
    import cupy as cp

    for _ in range(2):
        call()
        cp.cuda.Device().synchronize()


def table(text: str, least: int, errors: str = "") -> tuple[list[str], list[list[str]]]:
    """Names of the columns that were printed, and the launches; lines of at most ``least`` cells are other words."""
    rows = [row for row in csv.reader(io.StringIO(text)) if len(row) > least]
    if len(rows) < 3:  # names, units, launches
        raise ValueError(f"ncu counted no launch: {(text + errors).strip()[-300:]}")
    return rows[0], rows[2:]
