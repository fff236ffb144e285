"""Rows of measured runs: a call beside its peers, for people a line of each, an exception in one, and a file of all."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.peers import reason

if TYPE_CHECKING:
    from benchmarks.peers import Peer  # which imports this module
    from cukde import perf

ON_CPU = ("scikit-learn", "SciPy", "pandas")
"""How names of peers begin that compute on the CPU, whatever they are beside."""


class Case(NamedTuple):
    """What :func:`compared` and the fixture ``compare`` are given."""

    call: Callable[[], Any]
    row: dict[str, Any]
    peers: Mapping[str, Peer | str]


def target(path: str) -> Path:
    """The file of an option ``--record``, before anything is measured: an error for a checkout with changes."""
    from benchmarks.tools.checkout import begin

    try:
        begin()
    except RuntimeError as changed:
        raise argparse.ArgumentTypeError(str(changed)) from None
    return Path(path)


def arguments(name: str, description: str | None) -> argparse.ArgumentParser:
    """Options of ``python -m benchmarks.NAME``, ``--record`` among them."""
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--record", type=target, help="write the rows to this JSON file")
    return parser


def kept(
    rows: Iterable[dict[str, Any]],
    path: Path | None,
    text: Callable[[dict[str, Any]], str],
    more: Callable[[list[dict[str, Any]]], Sequence[dict[str, Any]]] = lambda rows: (),
) -> list[dict[str, Any]]:
    """Print rows as they come, and ``more`` that are made of them all; write the record, where one is wanted."""
    found: list[dict[str, Any]] = []
    for each in (lambda: rows, lambda: more(found)):
        for row in each():
            print(text(row), flush=True)
            found.append(row)
    if path is not None:
        from benchmarks.tools import records

        records.write(path, found)
        print(f"written to {path}")
    return found


class Session:
    """A run that is to be recorded, with what the machine was able to do before and after it."""

    def __init__(self, path: Path | None) -> None:
        """Begin; without a path nothing is measured or written."""
        self._path = path
        if path is not None:
            from benchmarks.tools import calibration

            self._before = calibration.calibrate()

    def write(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the rows, and say where."""
        if self._path is None:
            return
        from benchmarks.tools import calibration, records

        try:
            measured = calibration.calibrate(self._before)
        except Exception as failed:  # of hours of measurements nothing may be lost
            measured = self._before
            print(f"no calibration after the run: {reason(failed)}")
        records.write(self._path, rows, calibration=measured)
        print(f"written to {self._path}")


def line(row: dict[str, Any]) -> str:
    """One row for people: operation, sizes, median and spread, bound, error, peer; or why there is no measurement."""
    shape = " ".join(f"{k}={v}" for k, v in row["shape"].items())
    text = f"{row['op']:<12} {row['backend']:<5} {shape:<28} {row['precision']:<8} "
    peer = row.get("peer", {})
    if "reason" in peer:
        return f"{text}no row of {peer['name']}: {peer['reason']}"
    if "reason" in row:
        return f"{text}no row: {row['reason']}"
    if "timing" in row:
        text += f"{row['timing']:<6}"
    text += f"{row['median_ms']:>10.3f} ms [{row['q1_ms']:.3f}, {row['q3_ms']:.3f}] x{row['runs']}"
    if row.get("pairs_per_s"):
        text += f"  {row['pairs_per_s']:.2e} pairs/s"
    if row.get("bound_ms"):
        text += f"  {100 * row['bound_ms'] / row['median_ms']:.0f}% of {row['bound']}"
    if row.get("rel_err_max") is not None:
        text += f"  error {row['rel_err_max']:.1e}"
    if row.get("peak_mb"):
        text += f"  peak {row['peak_mb']:.0f} MB"
    if peer:
        text += f"  {peer['median_ms'] / row['median_ms']:.1f} times {peer['name']} ({peer['median_ms']:.2f} ms"
        text += f", error {peer['rel_err_max']:.1e})" if peer.get("rel_err_max") is not None else ")"
    return text


def compared(
    call: Callable[[], Any],
    row: dict[str, Any],
    peers: Mapping[str, Peer | str],
    *,
    calls: int = 1,
    seconds: float = 1.5,
    times: perf.Times | None = None,
) -> list[dict[str, Any]]:
    """Time a call, unless its ``times`` are there, and its peers, and return a row for each.

    A peer is its call and its error, or the reason why there is none; a peer that fails leaves its reason too. A time
    is a part of that of ``calls`` in a row.
    """
    from cukde import perf  # here, so that programs that time the import can print rows

    gpu = row["backend"] == "gpu"
    ours = row | (times or perf.measure(call, gpu=gpu, calls=calls, seconds=seconds)).row()
    if "m" in row["shape"]:
        ours["pairs_per_s"] = 1e3 * row["shape"]["n"] * row["shape"]["m"] / ours["median_ms"]
    if row.get("bound_ms"):
        ours["bound_fraction"] = row["bound_ms"] / ours["median_ms"]
    beside = [_beside(name, peer, gpu, calls, seconds) for name, peer in peers.items()]
    measured = [ours | {"peer": peer} for peer in beside if "median_ms" in peer]
    return (measured or [ours]) + [named(row) | {"peer": peer} for peer in beside if "median_ms" not in peer]


def checked(row: dict[str, Any], tolerance: float) -> dict[str, Any]:
    """Return a row whose result is as exact as it must be, and raise for any other: nothing wrong is timed."""
    if not row["rel_err_max"] <= tolerance:
        raise ArithmeticError(
            f"{row['op']} of {row['shape']}, {row['dtype']}, must be right to {tolerance:.3g}; "
            f"got an error of {row['rel_err_max']:.3g}: mend it before it is timed"
        )
    return row


def named(row: dict[str, Any]) -> dict[str, Any]:
    """What a row is about, without results."""
    return {key: row[key] for key in ("op", "backend", "shape", "dtype", "precision")}


def _beside(name: str, peer: Peer | str, gpu: bool, calls: int, seconds: float) -> dict[str, Any]:
    """A peer's part of a row: its error and times, or the reason why it has none."""
    if isinstance(peer, str):
        return {"name": name, "reason": peer}
    from cukde import perf

    call, error, *part = peer
    try:
        on_gpu = gpu and not name.startswith(ON_CPU)
        times = perf.measure(call, gpu=on_gpu, most=10, calls=calls, seconds=seconds).row()
    except Exception as failed:  # ours is measured all the same
        return {"name": name, "reason": reason(failed)}
    for taken in part:
        times |= {key: value / taken for key, value in times.items() if key.endswith("_ms")}
        name = f"{name} (from {taken:.2%} of the queries)"
    return {"name": name, "rel_err_max": error} | times
