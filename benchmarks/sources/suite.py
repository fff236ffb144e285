"""The sections by their numbers: runs those that are wanted, one after the other, and keeps what each leaves."""

from __future__ import annotations

import contextlib
import gc
import importlib
import math
import sys
import time
import traceback
from collections.abc import Collection
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.sources import formats, report, section_file
from benchmarks.sources.section import Outcome, Section, Setting
from benchmarks.tools import calibration
from benchmarks.tools.records import made
from cukde.cli import info, progress

MODULES: dict[int, str] = {
    1: "runtime",
    2: "utilisation",
    3: "line",
    4: "oracle",
    5: "batches",
    6: "cost_error",
    7: "anomalies",
    8: "operations",
}
"""Modules beside this one, each with its ``SECTION``, imported when it is run."""

_EVERY = 10.0
"""Seconds after which the machine is calibrated again: of short sections one calibration serves several."""

_UNCERTAIN = ", of a checkout with changes: name it by --section if they have changed since"


def run(
    folder: Path, numbers: Collection[int] | None = None, *, quick: bool = False, tracebacks: bool = False
) -> list[int]:
    """Run sections, write the report of all that the folder has, and return the numbers of those that failed.

    Those whose numbers are given are run whatever is there. Otherwise all are, but for those that the folder has of
    this commit, machine, versions and sizes.
    """
    wanted = sorted(MODULES if numbers is None else set(numbers))
    works, state = info.gpu()
    setting = Setting(quick, None if works else state)
    now = section_file.origin(made([]), *setting)
    calibrated = _Calibrated()
    failed = []
    try:
        with progress.stages() as doing:

            def say(number: int, what: str) -> None:
                doing("")
                print(f"section {number}, {MODULES[number]}: {what}", file=sys.stderr)

            faults = {number: _fault(folder, number, now) for number in MODULES}
            for number in wanted:
                doing(f"section {number}, {MODULES[number]}")
                fault = faults[number]
                if fault is None and numbers is None:
                    say(number, f"there already{_UNCERTAIN if now['commit'].endswith(section_file.CHANGED) else ''}")
                else:
                    if fault:
                        say(number, f"run anew, as what is there {fault}")
                    error, took = _run(folder, number, setting, tracebacks, calibrated)
                    say(number, f"failed after {took}: {error}" if error else took)
                    if error:
                        failed.append(number)
            for number, fault in faults.items():
                if fault and number not in wanted:
                    say(number, f"not run, though what is there {fault}")
    finally:  # after Ctrl-C too: what is done is kept, and reported
        report.write(folder)
    return failed


def _fault(folder: Path, number: int, now: dict[str, Any]) -> str | None:
    """What is wrong with what the folder has of a section; empty where it has nothing, None where nothing is wrong."""
    file = section_file.path(folder, number)
    if not file.exists():
        return ""
    try:
        there = section_file.read(file)
    except ValueError as error:
        return f"is damaged: {error}"
    if there.error:
        return "failed"
    differences = section_file.differences(section_file.origin(there.record, there.quick, there.no_gpu), now)
    return f"is of another run: {'; '.join(differences)}" if differences else None


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
    """Run a section and keep what it leaves, or its error; return the error and the time it took."""
    section = Section(number, MODULES[number], "", _nothing)  # all that is known of one that cannot be imported
    failure = None
    calibrated()
    started = time.perf_counter()
    try:
        section = _section(number)
        outcome = section.run(setting)
        seconds = time.perf_counter() - started
        content = section_file.text(section, outcome, setting, seconds, calibration=calibrated())
    except (Exception, SystemExit) as error:
        failure = _failure(error)
        if tracebacks:
            traceback.print_exc()
        content = section_file.text(section, Outcome(), setting, time.perf_counter() - started, error=failure)
    section_file.write(folder, number, content)
    took = formats.duration(time.perf_counter() - started)
    _release(setting)
    return failure, took


def _section(number: int) -> Section:
    section: Section = importlib.import_module(f"benchmarks.sources.{MODULES[number]}").SECTION
    if section.number != number:
        raise ValueError(f"SECTION of {MODULES[number]}.py must have the number {number}; got {section.number}")
    return section


def _nothing(setting: Setting) -> Outcome:
    return Outcome()


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
