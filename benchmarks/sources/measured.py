"""Rows of a section: a density checked in float64, then timed beside its rivals; or why there is none."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import cukde
from benchmarks import record
from benchmarks.peers import Peer
from benchmarks.sources.rivals import Patience, on_gpu
from benchmarks.sources.truth import Task, Truth


def density(
    op: str,
    task: Task,
    truth: Truth,
    backend: str,
    *,
    seconds: float,
    precision: str = "float32",
    beside: Mapping[str, Peer | str] | None = None,
    **others: Any,
) -> list[dict[str, Any]]:
    """Rows of a public function of the library; ``others`` go into each."""
    call = functools.partial(getattr(cukde, op), *task, precision=precision)
    return variant(op, call, task, truth, backend, seconds=seconds, precision=precision, beside=beside, **others)


def variant(
    op: str,
    call: Callable[[], Any],
    task: Task,
    truth: Truth,
    backend: str,
    *,
    seconds: float,
    precision: str,
    called: str | None = None,
    rival: bool = False,
    beside: Mapping[str, Peer | str] | None = None,
    **others: Any,
) -> list[dict[str, Any]]:
    """Rows of a call that makes the same numbers; ``called`` stands for the precision in them.

    The error of a rival is recorded, whatever it is; one of ours is refused.
    """
    error = truth.error(op, call()) if rival else truth.check(op, call(), backend, precision)
    row = empty(op, task, backend, called or precision) | {"rel_err_max": error} | others
    return [found | others for found in record.compared(call, row, beside or {}, seconds=seconds)]


def missing(op: str, task: Task, backend: str, precision: str, reason: str, **others: Any) -> dict[str, Any]:
    """A row that says why there is no measurement."""
    return empty(op, task, backend, precision) | {"reason": reason} | others


def empty(op: str, task: Task, backend: str, precision: str) -> dict[str, Any]:
    """What a row is about."""
    return {
        "op": op,
        "backend": backend,
        "shape": {"n": len(task.X), "m": len(task.Y), "d": task.d},
        "dtype": "float32",
        "precision": precision,
    }


def raced(
    op: str,
    names: Sequence[str],
    task: Task,
    truth: Truth,
    patience: Patience,
    *,
    seconds: float,
    beside: Mapping[str, Peer | str] | None = None,
    **others: Any,
) -> list[dict[str, Any]]:
    """Rows of a public function on a GPU beside rivals, but those that would take too long."""
    n, m = len(task.X), len(task.Y)
    work = float(n * m + (n * n if op == "sd_kde" else 0))
    peers = on_gpu(op, names, task, truth, patience, work) | (beside or {})
    rows = density(op, task, truth, "gpu", seconds=seconds, beside=peers, **others)
    patience.note(rows, work, f"n = {n:,}, m = {m:,}")
    return rows
