"""Time, share skipped and errors of densities over dimensions, bandwidths and kinds of data, beside rivals.

python -m benchmarks.density.bench_map --record benchmarks/results/NAME.json
python -m benchmarks.figures.density_map benchmarks/results/NAME.json FIGURE.svg

A cell is a function, a number of dimensions, a kind of data (``map_data.py``) and a multiple of Silverman's
bandwidth. Its queries are drawn from the distribution of the data. Its time is that of calls from Python: one to warm
up, then three, or one where a call takes more than 300 ms. After a first call of more than a second nothing warms up.

Errors are against float64 (``map_reference.py``) at three sets of queries: 64 of all, drawn at random, the 64 of the
lowest density, and 16 that lie 30 to 100 standard deviations away. For the errors alone there is a call with
``log=True`` before, in which the far ones stand in place of the last 16 queries: the timed calls have none that are
unlike the data. At the first two sets the densities of the timed calls are checked, too. Where the smallest exponent
of a query is below 80, an error is that of the density; elsewhere that of its logarithm, in units of 8 eps times the
exponent, printed with an x.

On a GPU a further call is made for the memory that it takes beside its inputs.

The reference of ``sd_kde`` sums the points that ``debias`` returns; with ``--sd-errors`` those that carry weight are
debiased anew in float64, and the row has the least share of a query's sum that they hold.

Rivals on a GPU take all pairs: their times do not depend on data and bandwidth. They are measured once for each number
of dimensions and each function, at the first kind of data and Silverman's bandwidth. Each cell has the time of the
first of them beside its own. Those on a CPU are measured in every cell, as trees depend on both: once, where that takes
more than 300 ms. The record is written after each cell. Cells that the budget does not allow are listed with that
reason.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

import cukde
from benchmarks import memory, peers, record
from benchmarks.density import map_data, map_reference
from benchmarks.tools import calibration
from benchmarks.tools.records import made
from cukde import perf
from cukde.core import dispatch, files
from cukde.core.plan import Ran, traced
from cukde.perf import _clocks

DIMENSIONS = (2, 3, 5, 8, 16, 32, 64, 128)
FACTORS = (0.1, 0.3, 0.6, 1.0, 3.0)
FUNCTIONS = ("kde", "sd_kde")
N, M = 262_144, 32_768
CHECKED, FAR = 64, 16

RIVALS = {
    "torch": ("torch.compile, 4,096 rows at a time",),
    "cupy": ("CuPy",),
    "cuvs": ("cuVS",),
    "flash": ("Flash-SD-KDE, TF32", "Flash-SD-KDE, fp32_ieee"),
    "flash-split": ("Flash-SD-KDE, fp32_ieee, ordered_splitk",),
    "sklearn": ("scikit-learn",),
    "sklearn-rtol": ("scikit-learn, rtol=1e-4",),
    "scipy": ("SciPy",),
    "kdepy": ("KDEpy",),
}
_OF_BACKEND = {"gpu": "torch,cupy,cuvs,flash", "cpu": "sklearn-rtol,sklearn,scipy,kdepy"}
_OF_DENSITIES_ALONE = "cuVS", "scikit-learn", "SciPy", "KDEpy"
_OF_OTHER_BANDWIDTHS = {"SciPy": "its bandwidth is a multiple of the data's covariance: another density"}
_NOTE = "takes all pairs: measured once for each function and number of dimensions"

_RUNS, _LONG_MS = 3, 300.0
_WARM_MS = 5000.0  # a first call that takes longer needs no other to warm up


class Setting(NamedTuple):
    """What all cells of a run share."""

    backend: str
    precision: str
    n: int
    m: int
    sd_errors: bool

    @property
    def dtype(self) -> str:
        """Of data and queries."""
        return "float64" if self.precision == "float64" else "float32"

    @property
    def xp(self) -> ModuleType:
        """The module of the arrays."""
        return dispatch.named(self.backend).xp

    def clock(self, call: Callable[[], Any]) -> float:
        """Milliseconds of a call from Python, until the device has nothing to do."""
        return (_clocks.events if self.backend == "gpu" else _clocks.wall)(call)

    def release(self) -> None:
        """Give back what memory the pools keep."""
        dispatch.named(self.backend).release_memory()


class Cell(NamedTuple):
    """A place in the map."""

    op: str
    d: int
    data: str
    factor: float

    def row(self, setting: Setting) -> dict[str, Any]:
        """What a row of the cell is about."""
        shape = {"n": setting.n, "m": setting.m, "d": self.d, "data": self.data, "factor": self.factor}
        return _row(self.op, shape, setting)


class Drawn(NamedTuple):
    """Data of a kind on the device, queries of the same distribution, far ones, and Silverman's bandwidth."""

    X: Any
    Y: Any
    far: Any
    h: float

    @classmethod
    def of(cls, data: str, d: int, setting: Setting) -> Drawn:
        """Draw a kind of data, always the same ones."""
        X, Y = map_data.drawn(data, setting.n, setting.m, d, setting.dtype)
        asarray = setting.xp.asarray
        return cls(asarray(X), asarray(Y), asarray(map_data.far(X, FAR)), map_data.silverman(X))


class Kept:
    """A call that keeps its result."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self.result: Any = None

    def __call__(self) -> None:
        self.result = None  # its memory is free for the next
        self.result = self._call()


def share_skipped(ran: Sequence[Ran]) -> float:
    """Share of the pairs that the last passes of each output left out; 0 where all took all pairs."""
    last = {one.found["output"]: one.found["share"] for one in ran if one.name == "skipping"}
    shares = [share() for share in last.values()]
    return 1 - sum(shares) / len(shares) if shares else 0.0


def timed(call: Callable[[], Any], setting: Setting) -> dict[str, Any]:
    """Times of three calls, or of one where it takes more than 300 ms."""
    taken = [setting.clock(call)]
    while len(taken) < _RUNS and taken[0] <= _LONG_MS:
        taken.append(setting.clock(call))
    return perf.Times.of(taken).row()


def measured(cell: Cell, drawn: Drawn, setting: Setting) -> dict[str, Any]:
    """A row: errors first, then times and the share that is left out."""
    X, Y, h = drawn.X, drawn.Y, cell.factor * drawn.h
    function = functools.partial(getattr(cukde, cell.op), precision=setting.precision)
    asked = Y.copy()
    asked[-FAR:] = drawn.far
    logs = Kept(lambda: function(X, asked, h, log=True))
    first_ms = setting.clock(logs)
    density = Kept(lambda: function(X, Y, h))
    if first_ms <= _WARM_MS:
        density()
    with traced() as ran:
        times = timed(density, setting)
    skipped = share_skipped(ran)
    ran.clear()  # with their memory
    if setting.backend == "gpu":
        density.result = None
        times["memory_mb"] = memory.peak_mb(density)
    row = cell.row(setting) | {"h": h, "rel_err_max": None, "share_skipped": skipped} | times

    places = _places(logs.result, setting)
    reference = reference_of(cell.op, X, h, setting)
    for name, rows in places.items():
        exact = reference(asked[rows])
        found = map_reference.errors(exact, logs.result[rows], None if name == "far" else density.result[rows])
        row |= map_reference.fields(name, found)
        if exact.exact_share is not None:
            row[f"exact_share_{name}"] = exact.exact_share
    relative = [row[f"rel_err_{name}"] for name in places]
    row["rel_err_max"] = max((error for error in relative if error is not None), default=None)
    return row


def _places(log_density: Any, setting: Setting) -> dict[str, Any]:
    """Places of the queries that are checked, by the name of the set."""
    xp, drawn = setting.xp, setting.m - FAR
    count = min(CHECKED, drawn)
    random = np.sort(np.random.default_rng(0).choice(drawn, count, replace=False))
    ranked = xp.nan_to_num(log_density[:drawn].astype(xp.float64), nan=-xp.inf)  # first of all what is not a number
    return {
        "random": xp.asarray(random),
        "lowest": xp.argsort(ranked)[:count],
        "far": xp.arange(drawn, setting.m),
    }


def reference_of(op: str, X: Any, h: float, setting: Setting) -> Callable[[Any], map_reference.Reference]:
    """What the densities of queries are in float64."""
    if op == "kde":
        return lambda Y: map_reference.kde(X, Y, h)
    moved = cukde.debias(X, h, precision=setting.precision)
    return lambda Y: map_reference.sd_kde(X, moved, Y, h, setting.sd_errors)


def rivals(
    op: str, d: int, drawn: Drawn, names: Sequence[str], data: str, setting: Setting, factor: float = 1.0
) -> list[dict[str, Any]]:
    """Each rival's name, error and times, or the reason why it has none; at a multiple of Silverman's bandwidth."""
    X, Y, h = drawn.X, drawn.Y, factor * drawn.h
    places = setting.xp.asarray(np.sort(np.random.default_rng(0).choice(len(Y), min(CHECKED, len(Y)), replace=False)))
    exact = reference_of(op, X, h, setting)(Y[places])
    found = []
    for name in names:
        if not _has(name, op, d):
            continue
        beside = peers.rivals(op, (name,), X, Y, h, error=lambda p: map_reference.density_error(exact, p[places]))[name]
        peer: dict[str, Any] = {"name": name}
        try:
            if isinstance(beside, str):
                peer["reason"] = beside
            else:
                error = None if name in _OF_OTHER_BANDWIDTHS else beside[1]
                peer |= {"rel_err_max": error} | timed(beside[0], setting) | {"data": data, "h": h}
                note = _NOTE if setting.backend == "gpu" else _OF_OTHER_BANDWIDTHS.get(name)
                if note is not None:
                    peer["note"] = note
        except Exception as failed:  # the library is measured all the same
            peer["reason"] = peers.reason(failed)
        found.append(peer)
        setting.release()
    return found


def _has(name: str, op: str, d: int) -> bool:
    """Whether a rival has a function in so many dimensions."""
    if name.startswith("Flash-SD-KDE"):
        return d == 16 and (op == "sd_kde" or "ordered_splitk" not in name)  # a backend of debiasing
    return op == "kde" or not name.startswith(_OF_DENSITIES_ALONE)


def line(row: dict[str, Any]) -> str:
    """A cell for people: function, dimensions, data, factor, ms, share skipped, three errors, ratio to a rival."""
    shape = row["shape"]
    text = f"{row['op']:<6} {shape['d']:>3} {shape['data']:<9} {shape['factor']:<4g}"
    if "reason" in row:
        return f"{text} no row: {row['reason']}"
    share = row["share_skipped"]
    text += f" {row['median_ms']:>10.3f} ms  skipped {'-' if share is None else f'{share:.4f}'}  errors "
    text += "/".join(_error(row[f"rel_err_{name}"], row[f"log_err_{name}"]) for name in ("random", "lowest", "far"))
    peer = row.get("peer", {})
    return f"{text}  {peer['median_ms'] / row['median_ms']:.2f} times {peer['name']}" if peer else text


def _error(relative: float | None, of_log: float | None) -> str:
    of = (f"{relative:.0e}" if relative is not None else "", f"{of_log:.2g}x" if of_log is not None else "")
    return "+".join(filter(None, of))


def rival_line(row: dict[str, Any]) -> str:
    """A rival for people."""
    peer = row["peer"]
    text = f"{row['op']:<6} {row['shape']['d']:>3} {peer['name']}: "
    if "reason" in peer:
        return text + peer["reason"]
    error = peer["rel_err_max"]
    return f"{text}{peer['median_ms']:.3f} ms, error {'-' if error is None else f'{error:.0e}'}"


class Map:
    """The cells of a run, one after the other, and its record."""

    def __init__(self, setting: Setting, path: Path | None, budget_s: float) -> None:
        self.setting = setting
        self.rows: list[dict[str, Any]] = []
        self._path, self._budget_s = path, budget_s
        self._begun = time.perf_counter()
        self._cell_s = self._rivals_s = 0.0  # how long the last took
        self._record: dict[str, Any] = {}
        if path is not None:
            self._calibration = calibration.calibrate()
            self._record = made([], self._calibration)

    def fits(self, more_s: float = 0.0) -> bool:
        """Whether the budget allows another cell as long as the last one, and some seconds more."""
        return time.perf_counter() - self._begun + self._cell_s + more_s < self._budget_s

    def add(self, row: dict[str, Any], text: str) -> None:
        """Keep and print a row."""
        self.rows.append(row)
        print(text, flush=True)
        self.write()

    def write(self) -> None:
        """Write the record, whole."""
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        content = json.dumps(self._record | {"rows": self.rows}, indent=1) + "\n"
        files.replace(self._path, content.encode())

    def finish(self) -> None:
        """Write the record with a calibration after the run."""
        if self._path is None:
            return
        try:
            self._record["calibration"] = calibration.calibrate(self._calibration)
        except Exception as failed:  # of the measurements nothing may be lost
            print(f"no calibration after the run: {peers.reason(failed)}")
        self.write()
        print(f"written to {self._path}")

    def run(self, cells: Sequence[Cell], names: Sequence[str]) -> None:
        """Measure cells, those of the same data together."""
        left: list[Cell] = []
        for d, data, of in _grouped(cells):
            ops = self._without_rivals(d, of) if names and self.setting.backend == "gpu" else []
            if left or not self.fits(self._rivals_s if ops else 0.0):
                left += of
                continue
            drawn = Drawn.of(data, d, self.setting)
            if ops:
                self._rivals(d, data, drawn, ops, names)
            for cell in of:
                if left or not self.fits():
                    left.append(cell)
                else:
                    self._cell(cell, drawn, names if self.setting.backend == "cpu" else ())
            del drawn
            self.setting.release()
        if left:
            reason = f"not reached within {self._budget_s:g} s"
            self.rows += [record.named(cell.row(self.setting)) | {"reason": reason} for cell in left]
            print(f"{len(left)} cells {reason}, from {line(self.rows[-len(left)])}")

    def _cell(self, cell: Cell, drawn: Drawn, names: Sequence[str]) -> None:
        """Measure a cell, and beside it rivals whose times depend on its data."""
        begun = time.perf_counter()
        try:
            row = measured(cell, drawn, self.setting)
        except Exception as failed:  # the others are measured all the same
            row = record.named(cell.row(self.setting)) | {"reason": peers.reason(failed)}
            self.setting.release()
        else:
            of = [r["peer"] for r in self.rows if r["op"] == cell.op and r["shape"] == self._shape(cell.d)]
            beside = rivals(cell.op, cell.d, drawn, names, cell.data, self.setting, cell.factor) if names else of
            if peer := next((peer for peer in beside if "median_ms" in peer), None):
                row["peer"] = peer
            if names:
                row["peers"] = beside
        self._cell_s = time.perf_counter() - begun
        self.add(row, line(row))

    def _without_rivals(self, d: int, cells: Sequence[Cell]) -> list[str]:
        """Functions of the cells whose rivals have no rows yet."""
        there = {row["op"] for row in self.rows if row["shape"] == self._shape(d)}
        return [op for op in FUNCTIONS if op not in there and any(cell.op == op for cell in cells)]

    def _rivals(self, d: int, data: str, drawn: Drawn, ops: Sequence[str], names: Sequence[str]) -> None:
        begun = time.perf_counter()
        for op in ops:
            try:
                found = rivals(op, d, drawn, names, data, self.setting)
            except Exception as failed:  # of the reference
                found = [{"name": name, "reason": peers.reason(failed)} for name in names]
            for peer in found:
                row = _row(op, self._shape(d), self.setting) | {"peer": peer}
                self.add(row, rival_line(row))
        self._rivals_s = time.perf_counter() - begun

    def _shape(self, d: int) -> dict[str, Any]:
        """What a row of rivals is about: no data, no bandwidth."""
        return {"n": self.setting.n, "m": self.setting.m, "d": d}


def _row(op: str, shape: dict[str, Any], setting: Setting) -> dict[str, Any]:
    return {
        "op": op,
        "backend": setting.backend,
        "shape": shape,
        "dtype": setting.dtype,
        "precision": setting.precision,
    }


def _grouped(cells: Sequence[Cell]) -> Iterator[tuple[int, str, list[Cell]]]:
    """Cells by dimensions and data, in the order in which they are given."""
    groups: dict[tuple[int, str], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.d, cell.data), []).append(cell)
    for (d, data), of in groups.items():
        yield d, data, of


def _listed(kind: Callable[[str], Any], allowed: Sequence[Any] | None = None) -> Callable[[str], list[Any]]:
    """Read values with commas between them."""

    def values(text: str) -> list[Any]:
        found = [kind(part) for part in text.split(",") if part]
        wrong = [value for value in found if allowed is not None and value not in allowed]
        if wrong:
            raise argparse.ArgumentTypeError(f"expected some of {', '.join(map(str, allowed or ()))}; got {wrong[0]}")
        return found

    return values


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.density.bench_map", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--record", type=record.target, help="write the rows to this JSON file, after each of them")
    parser.add_argument("--d", type=_listed(int), default=DIMENSIONS, help="numbers of dimensions")
    parser.add_argument("--factors", type=_listed(float), default=FACTORS, help="multiples of Silverman's bandwidth")
    kinds = tuple(map_data.KINDS)
    parser.add_argument("--data", type=_listed(str, kinds), default=kinds, help=f"some of {', '.join(kinds)}")
    parser.add_argument("--functions", type=_listed(str, FUNCTIONS), default=FUNCTIONS, help="kde, sd_kde or both")
    parser.add_argument("--precision", choices=("float32", "tf32", "float64"), default="float32")
    parser.add_argument("--n", type=int, default=N, help="points")
    parser.add_argument("--m", type=int, default=M, help=f"queries, more than {FAR}")
    parser.add_argument("--rivals", type=_listed(str, tuple(RIVALS)), help=f"some of {', '.join(RIVALS)}; empty: none")
    parser.add_argument("--sd-errors", action="store_true", help="debias anew in float64 what carries weight")
    parser.add_argument("--budget-s", type=float, default=float("inf"), help="begin no cell that would end later")
    parser.add_argument("--backend", choices=("gpu", "cpu"), default="gpu")
    wanted = parser.parse_args(arguments)
    if wanted.m <= FAR:
        parser.error(f"--m must be more than the {FAR} far queries; got {wanted.m}")
    if wanted.backend == "gpu" and (reason := dispatch.why_no_gpu()):
        parser.error(f"{reason}: give --backend cpu")
    if wanted.rivals is None:
        wanted.rivals = _OF_BACKEND[wanted.backend].split(",")
    cells = [
        Cell(op, d, data, factor)
        for d in wanted.d
        for data in wanted.data
        for factor in wanted.factors
        for op in wanted.functions
    ]
    setting = Setting(wanted.backend, wanted.precision, wanted.n, wanted.m, wanted.sd_errors)
    of = Map(setting, wanted.record, wanted.budget_s)
    try:
        of.run(cells, [name for key in wanted.rivals for name in RIVALS[key]])
    finally:  # after Ctrl-C too
        of.finish()


if __name__ == "__main__":
    main()
