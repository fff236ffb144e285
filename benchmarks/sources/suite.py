"""The sections by their numbers: runs those that are wanted, one after the other, and keeps what each leaves.

A section's file is a record of its rows, with the section's name, its tables, its sizes and its error beside them.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import math
import sys
import time
import traceback
from collections.abc import Collection
from pathlib import Path
from typing import Any

from benchmarks import peers, record
from benchmarks.sources.section import Outcome, Section, Setting
from benchmarks.tools import calibration, records
from benchmarks.tools.comparison import PASSING
from cukde.cli import info, progress
from cukde.core import files as core_files

MODULES: dict[int, str] = {
    1: "runtime",
    2: "utilisation",
    3: "line",
    4: "oracle",
    5: "batches",
    8: "operations",
}
"""Modules beside this one, each with its ``SECTION``, imported when it is run. Pages cite them by these numbers."""

_EVERY = 10.0
"""Seconds after which the machine is calibrated again: of short sections one calibration serves several."""


def run(
    folder: Path, numbers: Collection[int] | None = None, *, quick: bool = False, tracebacks: bool = False
) -> list[int]:
    """Run sections, and return the numbers of those that failed.

    Those whose numbers are given are run whatever is there. Otherwise all are, but for those that the folder has of
    this commit, machine, versions and sizes. What is done is kept, after Ctrl-C too.
    """
    works, state = info.gpu()
    setting = Setting(quick, None if works else state)
    now = _origin(records.made([]) | _about(setting))
    calibrated = _Calibrated()
    failed = []
    with progress.stages() as doing:
        for number in sorted(MODULES if numbers is None else set(numbers)):
            name = f"section {number}, {MODULES[number]}"
            doing(name)
            fault = _fault(folder / f"section-{number}.json", now)
            if fault is None and numbers is None:
                said = "there already"
                if now["commit"].endswith(_CHANGED):
                    said += ", of a checkout with changes: name it by --section if they have changed since"
            else:
                error, said = _run(folder, number, setting, tracebacks, calibrated)
                if error:
                    failed.append(number)
                    said = f"failed after {said}: {error}"
                if fault:
                    said += f" (what was there {fault})"
            doing("")
            print(f"{name}: {said}", file=sys.stderr)
    return failed


_CHANGED = " with changes"


def _about(setting: Setting) -> dict[str, Any]:
    return {"quick": setting.quick, "no_gpu": setting.no_gpu}


def _origin(run: dict[str, Any]) -> dict[str, Any]:
    """What two runs of a section must share: of what, where and how large."""
    machine = {key: value for key, value in run["machine"].items() if key not in PASSING}
    if run["no_gpu"] is not None:  # it may be there, and not work
        machine["gpu"] = None
    commit = f"{run['commit']}{_CHANGED if run.get('changed') else ''}"
    return {"commit": commit, "sizes": "quick" if run["quick"] else "full"} | machine | run["versions"]


def _fault(file: Path, now: dict[str, Any]) -> str | None:
    """What is wrong with what the folder has of a section; empty where it has nothing, None where nothing is wrong."""
    if not file.exists():
        return ""
    try:
        there = records.read(file)
        error, origin = there["error"], _origin(there)
    except (ValueError, KeyError) as damaged:
        return f"is damaged: {damaged!r}"
    if error:
        return "failed"
    differ = [f"{of} {origin.get(of)}, not {now.get(of)}" for of in origin | now if origin.get(of) != now.get(of)]
    return f"is of another run: {'; '.join(differ)}" if differ else None


class _Calibrated:
    """What the machine was able to do until now: measured before the first section, and again after long ones."""

    def __init__(self) -> None:
        self._found: dict[str, Any] | None = None
        self._last = -math.inf

    def __call__(self) -> dict[str, Any] | None:
        if time.perf_counter() - self._last > _EVERY:
            with contextlib.suppress(Exception):  # no section fails for it: a comparison says where it is missing
                self._found = calibration.calibrate(self._found)
            self._last = time.perf_counter()
        return self._found


def _run(
    folder: Path, number: int, setting: Setting, tracebacks: bool, calibrated: _Calibrated
) -> tuple[str | None, str]:
    """Run a section, print its rows and keep what it leaves, or its error; return the error and the time it took."""
    about: dict[str, Any] = {"section": {"number": number, "title": MODULES[number], "source": ""}} | _about(setting)
    failure = None
    calibrated()
    started = time.perf_counter()
    try:
        section: Section = importlib.import_module(f"benchmarks.sources.{MODULES[number]}").SECTION
        about["section"] = {"number": section.number, "title": section.title, "source": section.source}
        content = _content(section.run(setting), about, started, calibrated())
    except (Exception, SystemExit) as error:
        failure = _failure(error)
        if tracebacks:
            traceback.print_exc()
        content = _content(Outcome([]), about, started, None, failure)
    core_files.replace(folder / f"section-{number}.json", content.encode())
    took = f"{time.perf_counter() - started:.2g} s"
    _release(setting)
    return failure, took


def _content(
    outcome: Outcome, about: dict[str, Any], started: float, calibrated: dict[str, Any] | None, error: str | None = None
) -> str:
    """The text of a section's file; TypeError for what JSON does not have."""
    beside = about | {"seconds": round(time.perf_counter() - started, 3), "error": error}
    beside["tables"] = [table._asdict() for table in outcome.tables]
    text = json.dumps(records.made(outcome.rows, calibrated) | beside, indent=1, default=_plain)
    for row in outcome.rows:
        if "median_ms" in row or "reason" in row or "peer" in row:
            print(record.line(row))
    return text + "\n"


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    raise TypeError(f"rows and tables hold numbers and texts; got a {type(value).__name__}")


def _failure(error: BaseException) -> str:
    """An error in one line, with the place that raised it."""
    if isinstance(error, ModuleNotFoundError):
        return f"the package {error.name} is not installed: pip install -e '.[test,bench]'"
    *_, place = traceback.extract_tb(error.__traceback__)
    return f"{peers.reason(error)} ({Path(place.filename).name}, line {place.lineno})"


def _release(setting: Setting) -> None:
    """Give back what a section held of the GPU's memory, so that the next one has all of it."""
    gc.collect()
    if setting.no_gpu is None:
        import cupy

        cupy.get_default_memory_pool().free_all_blocks()
        if "torch" in sys.modules:
            sys.modules["torch"].cuda.empty_cache()
