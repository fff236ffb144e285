"""Rows of a section, measured as calls come: this takes the place of the benchmarks' fixture ``compare``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from benchmarks import record

if TYPE_CHECKING:
    from benchmarks.peers import Peer


class Kept(list[dict[str, Any]]):
    """A list of rows that times what it is called with, for about ``seconds`` each, and keeps the rows."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def __call__(
        self, call: Callable[[], Any], row: dict[str, Any], peers: Mapping[str, Peer | str], calls: int = 1
    ) -> list[dict[str, Any]]:
        """Time a call beside its peers; return the rows that come of it."""
        rows = record.compared(call, row, peers, calls=calls, seconds=self.seconds)
        self.extend(rows)
        return rows

    def of(self, benchmark: Callable[..., None], *arguments: Any) -> list[dict[str, Any]]:
        """Run a benchmark of one call, which takes ``compare`` first; return the rows that come of it."""
        first = len(self)
        benchmark(self, *arguments)
        return self[first:]


def peers(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Peers in rows of one call: those with times, then those with reasons."""
    return [row["peer"] for row in rows if "peer" in row]


def peer(rows: list[dict[str, Any]], name: str, of: str = "median_ms") -> Any:
    """A peer's number in rows of one call, or the reason why there is none."""
    return next((found.get(of, found.get("reason")) for found in peers(rows) if found["name"] == name), None)


def ours(rows: list[dict[str, Any]], of: str = "median_ms") -> Any:
    """Our number in rows of one call."""
    return next(row[of] for row in rows if of in row)
