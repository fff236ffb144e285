"""Malformed calls of every public function: each gives a right result, or an error that says what is wrong.

    python -m benchmarks.stress.malformed --calls 1000000 --processes 8 --record benchmarks/results/malformed_cpu.json
    python -m benchmarks.stress.malformed --first 3560 --calls 1

Call number k damages a good call of ``tests/public_calls.py`` as k says, so that any call can be made again; each tenth
call has frames that fit or do not, beside the same call of arrays (``tests/framed_calls.py``). A fault is
an error that is neither a TypeError nor a ValueError nor documented, or that the library does not raise itself and that
names no argument; an undocumented warning; changed arguments; numbers that the same call of plain arrays does not give;
NaN out of finite arguments; the end of the process; a call of more than ``LIMIT_S`` seconds.
"""

from __future__ import annotations

import inspect
import multiprocessing
import random
import re
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

from benchmarks import record
from tests.array_api import Tensor
from tests.framed_calls import FRAMED, framed, silently_wrong
from tests.malformed_calls import broken_promise, malformed
from tests.public_calls import CALLS, Call, Draw, sandbox

LIMIT_S = 120.0
_TOLERANCE = 1e-3
_RANDOM = ("sample", "integrate_box")  # without a seed, such as None
_OF_PYTHON = re.compile(r"\(\):? (takes|missing|got an unexpected|got multiple|too many|got some positional)")
_NAMES, _FRAMED = [*CALLS], sorted(FRAMED)


def call_of(number: int) -> tuple[str, Call]:
    """Draw a call."""
    rng, name = random.Random(number), _NAMES[number % len(_NAMES)]
    return name, malformed(name, rng.choice, rng.randrange(1000))


def outcome_of(number: int) -> tuple[str, str, str | None]:
    """Function, what came, and the fault, if any, of a call."""
    if number % 10 == 9:
        rng, name = random.Random(number), _FRAMED[number // 10 % len(_FRAMED)]
        return name, "frames", silently_wrong(framed(name, rng.choice, rng.randrange(1000)))
    name, call = call_of(number)
    return name, *fault(name, call)


def fault(name: str, call: Call) -> tuple[str, str | None]:
    """What a call came to, and what it did that it may not do."""
    outcome: list[Any] = []

    def made() -> Any:
        try:
            outcome.append(call())
        except Exception as error:
            outcome.append(error)
            raise

    broken = broken_promise(name, replace(call, function=lambda *args, **kwargs: made()))
    if broken is None and isinstance(outcome[0], Exception):
        return type(outcome[0]).__name__, _unclear(name, call, outcome[0])
    return "result", broken or _wrong(name, call, outcome[0])


def _unclear(name: str, call: Call, error: Exception) -> str | None:
    """Whether an error is that of an implementation: it is raised elsewhere, and names no argument."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    if "/cukde/" in last.filename and (last.line or "").startswith("raise"):
        return None
    if any("/sklearn/" in each.filename for each in frames) or isinstance(error, OSError | np.linalg.LinAlgError):
        return None  # its checks of estimators; errors of files, and of SciPy's class as it says
    if _OF_PYTHON.search(str(error)) or any(callable(a) for a in (*call.args, *call.kwargs.values())):
        return None  # whose error it may be
    eager = CALLS.get(name.removeprefix("dask.").removeprefix("torch."), CALLS[name])(Draw(0)).function
    arguments = {*inspect.signature(eager).parameters, *call.kwargs}
    if any(re.search(rf"\b{re.escape(argument)}\b", str(error)) for argument in arguments):
        return None
    return f"{type(error).__name__} of {last.filename.rsplit('/', 1)[-1]}:{last.lineno} names no argument: {error}"


def _wrong(name: str, call: Call, result: Any) -> str | None:
    """Whether plain arrays give other numbers, or finite ones NaN."""
    if any(hasattr(a, "__next__") for a in (*call.args, *call.kwargs.values())):
        return None  # which are read once
    unseeded = any(call.kwargs.get(source, 0) is None for source in ("random_state", "seed"))
    if unseeded or name.startswith(("perf.", "plot.")) or name.endswith(_RANDOM):
        return None
    plain = replace(call, args=tuple(map(_plain, call.args)), kwargs={k: _plain(a) for k, a in call.kwargs.items()})
    got = [*_numbers(result)]
    may_be_nan = ("laplace" in name and call.kwargs.get("log")) or call.kwargs.get("bounds") is not None
    given = (*plain.args, *plain.kwargs.values())
    known = call.kwargs.get("check_finite") is True and all(map(_finite, given)) and not may_be_nan
    if known and any(np.isnan(a).any() for a in got):
        return "NaN out of finite arguments"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = [*_numbers(plain())]
    except Exception as error:
        return f"a result, but for plain arrays {type(error).__name__}: {error}"
    if len(got) != len(want):
        return f"{len(got)} arrays, but of plain arrays {len(want)}"
    for a, b in zip(got, want, strict=True):
        scale = np.nanmax(np.abs(b), initial=0, where=np.isfinite(b)) if b.size else 0.0
        if a.shape != b.shape or not np.allclose(
            a, b, rtol=_TOLERANCE, atol=_TOLERANCE * scale + 1e-37, equal_nan=True
        ):
            return f"{a.ravel()[:3]}, but of plain arrays {b.ravel()[:3]}"
    return None


def _plain(a: Any) -> Any:
    """The same numbers in an array of its own; what is none stays."""
    if isinstance(a, np.ma.MaskedArray) and np.ma.is_masked(a):
        return a
    if isinstance(a, np.ndarray | memoryview | Tensor):
        out = np.array(a, order="C")
        if out.dtype.kind in "iub" and out.ndim:
            return out.astype(np.float64) if (abs(out.astype(float)) <= 2**53).all() else a
        return out.astype(out.dtype.newbyteorder("=")) if out.dtype.kind == "f" and out.ndim else a
    return a


def _finite(a: Any) -> bool:
    """Whether an argument is known to hold neither NaN nor infinity."""
    return not hasattr(a, "shape") or (type(a) is np.ndarray and a.dtype.kind == "f" and bool(np.isfinite(a).all()))


def _numbers(result: Any) -> Iterator[np.ndarray]:
    """Arrays of numbers of a result."""
    if isinstance(result, np.ndarray | float | np.generic):
        if np.asarray(result).dtype.kind in "fiub":
            yield np.asarray(result, np.float64)
    elif isinstance(result, list | tuple):
        for each in result:
            yield from _numbers(each)


def _child(first: int, stop: int, step: int, until: float, now: Any, out: Connection) -> None:
    """Make every ``step``-th call, and send what it came to."""
    with sandbox():
        for number in range(first, stop, step):
            if time.time() > until:
                break
            now[0], now[1] = number, time.time()
            try:
                out.send((number, *outcome_of(number)))
            except Exception as error:  # of this program
                out.send((number, "none", "error", f"not judged: {type(error).__name__}: {error}"))


class _Process:
    """A process that makes calls, and is replaced when it ends before its time."""

    def __init__(self, first: int, stop: int, step: int, until: float) -> None:
        context = multiprocessing.get_context("spawn")
        self._of = stop, step, until
        self.now = context.Array("d", [first, time.time() + 60], lock=False)
        self.out, end = context.Pipe(duplex=False)
        self.process = context.Process(target=_child, args=(first, stop, step, until, self.now, end), daemon=True)
        self.process.start()
        end.close()

    def late(self) -> bool:
        """Whether a call takes too long; then the process is ended."""
        if time.time() - self.now[1] > LIMIT_S:
            self.process.kill()
            return True
        return False

    def again(self) -> _Process:
        """A process that goes on behind the call that this one ended in."""
        return _Process(int(self.now[0]) + self._of[1], *self._of)


def outcomes(first: int, calls: int, processes: int, seconds: float) -> Iterator[tuple[int, str, str, str | None]]:
    """Number, function, what came, and the fault, if any, of each call."""
    until = time.time() + seconds
    running = {k: _Process(first + k, first + calls, processes, until) for k in range(processes)}
    while running:
        ready = wait([each.out for each in running.values()], timeout=1)
        for k, each in [*running.items()]:
            late = each.late()
            if each.out not in ready and not late:
                continue
            try:
                yield each.out.recv()
                continue
            except EOFError:
                each.process.join()
            if each.process.exitcode == 0:
                del running[k]
                continue
            number = int(each.now[0])
            how = f"took more than {LIMIT_S:g} s" if late else f"ended the process: {each.process.exitcode}"
            yield number, "none", "none", how
            running[k] = each.again()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = record.arguments("stress.malformed", __doc__)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument(
        "--first", type=int, default=None, help="number of the first call; otherwise by the time of day"
    )
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no call after so many")
    options = parser.parse_args(arguments)
    first = int(time.time()) if options.first is None else options.first
    begun, came = time.monotonic(), Counter[str]()
    faults: list[dict[str, Any]] = []
    for number, name, outcome, text in outcomes(first, options.calls, options.processes, options.seconds):
        came[outcome] += 1
        if text is not None:
            faults.append({"number": number, "function": name, "fault": text})
            print(f"{number} {name}: {text[:300]}", flush=True)
    seconds = time.monotonic() - begun
    shape = {"calls": came.total(), "functions": len(_NAMES), "first": first}
    row: dict[str, Any] = {
        "op": "malformed calls",
        "backend": "cpu",
        "shape": shape,
        "dtype": "any",
        "precision": "any",
    }
    row |= {"seconds": seconds, "outcomes": dict(came), "faults": faults}
    print(f"{came.total():,} calls of {len(_NAMES)} functions in {seconds:.0f} s: {dict(came)}; {len(faults)} faults")
    record.kept([row], options.record, lambda row: "")
    return int(bool(faults))


if __name__ == "__main__":
    raise SystemExit(main())
