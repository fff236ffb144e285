"""Rivals of a sweep: scikit-learn on the CPU, those of :mod:`benchmarks.peers`, and an end to what takes too long."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.peers import Peer
from benchmarks.sources.truth import Task, Truth

SCIKIT_LEARN = "scikit-learn KernelDensity"


class Patience:
    """Leaves out calls that would take longer than some seconds, judging by what the last ones took."""

    def __init__(self, seconds: float) -> None:
        self._most = seconds
        self._seen: dict[tuple[str, str], tuple[float, float, str]] = {}

    def refusal(self, op: str, name: str, work: float) -> str | None:
        """Why a call is not made, of which the work is known relative to others of its name; None where it is."""
        if (op, name) not in self._seen:
            return None
        before, seconds, then = self._seen[op, name]
        expected = seconds * work / before
        if expected <= self._most:
            return None
        # At the next size the last one that was measured is what counts still, and the reason is the same.
        return f"left out: more than {self._most:g} s a call expected, by the {seconds:.2g} s of {then}"

    def note(self, rows: Iterable[Mapping[str, Any]], work: float, size: str) -> None:
        """Remember the times of rivals in rows of a record, which are in the order of their sizes."""
        for row in rows:
            peer = row.get("peer", {})
            if "median_ms" in peer:
                self._seen[row["op"], peer["name"]] = work, peer["median_ms"] / 1e3, size
            elif "reason" in peer and "a call expected" not in peer["reason"]:
                self._seen.pop((row["op"], peer["name"]), None)


def scikit_learn(task: Task, truth: Truth, *, pairs: float, rtol: float = 0.0) -> dict[str, Peer | str]:
    """KDE by its tree, for as many of the queries as make so many pairs: it takes each query by itself."""
    try:
        from sklearn.neighbors import KernelDensity

        X, Y = (A.reshape(len(A), -1) for A in task[:2])
        some = Y[: min(len(Y), max(8, int(pairs / len(X))))]
        fitted = KernelDensity(bandwidth=task.h, algorithm="kd_tree", rtol=rtol).fit(X)
        error = truth.error("kde", np.exp(fitted.score_samples(some)))
    except Exception as failed:  # whatever it is, the record says it
        return {SCIKIT_LEARN: peers.reason(failed)}
    call = functools.partial(fitted.score_samples, some)
    return {SCIKIT_LEARN: (call, error) if len(some) == len(Y) else (call, error, len(some) / len(Y))}


def on_gpu(
    op: str, names: Sequence[str], task: Task, truth: Truth, patience: Patience, work: float
) -> dict[str, Peer | str]:
    """Those that run there and do not take too long; of others the reason."""
    refused = {name: patience.refusal(op, name, work) for name in names}
    asked = tuple(name for name in names if refused[name] is None)
    found = peers.rivals(op, asked, *task, error=functools.partial(truth.error, op))
    return {name: refused[name] or found[name] for name in names}
