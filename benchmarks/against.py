"""The small set of this checkout beside another commit, in one run: which operations have become slower?

python -m benchmarks.against main

Both run the set of this checkout (``benchmarks/small``), each with its own ``cukde``: this checkout as it is, and the
commit in a temporary folder. Their processes take turns, pytest-benchmark times, and the ratio of two medians is that
of processes next to each other, so that a machine that slows down slows both. An operation is slower if the median of
the ratios is above 1 by the threshold, the lower end of its 95 percent bootstrap interval is above 1, and both hold in
a second set of turns of that operation alone. For a quiet machine; less than three minutes on two cores.

The exit code is 1 where an operation is slower, 2 where something could not be measured.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cukde.perf import _measure

ROOT = Path(__file__).resolve().parents[1]
SET = "benchmarks/small/bench_small.py"
_SHARED = ("benchmarks", "tests")  # folders of this checkout that both run
_OPTIONS = ("--benchmark-only", "--benchmark-disable-gc", "--benchmark-max-time=0.1")
_SETTINGS = ("addopts=", "python_files=bench_*.py", "python_functions=bench_*")  # an older commit may have others
_CONFIDENCE = 0.95

Medians = Mapping[str, float]
Run = Callable[[Path, Collection[str]], Medians]
"""Measures operations, or all for an empty collection, with the package of a folder: seconds by operation."""


class Failure(Exception):
    """What could not be measured, and why."""


class Change(NamedTuple):
    """Time of this checkout over that of the commit: the median of the turns, and its confidence interval."""

    ratio: float
    low: float
    high: float
    base: float  # seconds
    head: float

    def slower(self, threshold: float) -> bool:
        """Beyond the noise of the turns, and beyond the threshold."""
        return self.low > 1 and self.ratio > 1 + threshold

    def faster(self, threshold: float) -> bool:
        """As :meth:`slower`, the other way round."""
        return self.high < 1 and self.ratio < 1 / (1 + threshold)


class Comparison(NamedTuple):
    """What became of each operation; which are slower, and which the commit has no time of."""

    changes: dict[str, Change]
    slower: Sequence[str]
    alone: Sequence[str]


def changes(base: Sequence[Medians], head: Sequence[Medians]) -> dict[str, Change]:
    """What became of each operation that every turn of both has."""
    found = {}
    for name in head[0]:
        if not all(name in run for run in (*base, *head)):
            continue
        before, after = (np.array([run[name] for run in runs]) for runs in (base, head))
        ratios = after / before
        low, high = _measure.median_interval(ratios, _CONFIDENCE, np.random.default_rng(0))
        found[name] = Change(float(np.median(ratios)), low, high, float(np.median(before)), float(np.median(after)))
    return found


def compared(run: Run, base: Path, head: Path, count: int, threshold: float) -> Comparison:
    """Measure both in so many turns; what seems slower, in as many again."""
    before, after = _turns(run, base, head, count)
    found = changes(before, after)
    suspects = [name for name, change in found.items() if change.slower(threshold)]
    if suspects:
        found |= changes(*_turns(run, base, head, count, suspects))
    slower = [name for name in suspects if found[name].slower(threshold)]
    return Comparison(found, slower, [name for name in after[0] if name not in found])


def _turns(
    run: Run, base: Path, head: Path, count: int, only: Collection[str] = ()
) -> tuple[list[Medians], list[Medians]]:
    """Measure base, head, head, base and so on, so that neither is always the second."""
    medians: tuple[list[Medians], list[Medians]] = ([], [])
    for turn in range(count):
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            medians[side].append(run((base, head)[side], only))
    return medians


def report(of: Comparison, commit: str, threshold: float) -> str:
    """A line of each operation, and which are slower."""
    lines = [f"{'operation':<28} {'base, ms':>10} {'here, ms':>10}  {'here/base':>9}  95% interval"]
    for name, change in of.changes.items():
        verdict = "  slower" if name in of.slower else "  faster" * change.faster(threshold)
        lines.append(
            f"{name:<28} {1e3 * change.base:>10.4g} {1e3 * change.head:>10.4g}  {change.ratio:>9.3f}"
            f"  [{change.low:.3f}, {change.high:.3f}]{verdict}"
        )
    lines += [f"{name}: {commit} has no time" for name in of.alone]
    return "\n".join([*lines, f"slower than {commit}: {', '.join(of.slower) or 'nothing'}"])


def unpacked(commit: str, folder: Path) -> Path:
    """The package of a commit in a folder, with the benchmarks of this checkout."""
    packed = subprocess.run(["git", "archive", "--format=tar", commit], cwd=ROOT, capture_output=True)
    if packed.returncode:
        raise Failure(f"expected a commit of this checkout; got {commit!r}: {packed.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as tar:
        tar.extractall(folder, filter="data")
    for name in _SHARED:
        shutil.rmtree(folder / name, ignore_errors=True)
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "results"))
    return folder


def run_set(folder: Path, only: Collection[str] = (), *options: str) -> Medians:
    """Run the set by pytest-benchmark, in a process that imports the package of the folder."""
    chosen = [f"{SET}::bench_small[{name}]" for name in only] or [SET]
    settings = [part for setting in _SETTINGS for part in ("-o", setting)]
    with tempfile.TemporaryDirectory() as out:
        saved = Path(out, "run.json")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--confcutdir=benchmarks/small"]
        command += [*settings, *(options or (*_OPTIONS, f"--benchmark-json={saved}")), *chosen]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        environment["PYTHONPATH"] = str(folder)
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        if done.returncode not in (0, 1) or (done.returncode and folder == ROOT):  # an older commit may lack some
            where = "here" if folder == ROOT else "at the commit"
            raise Failure(f"the small set fails {where}:\n{done.stdout[-4000:]}{done.stderr[-1000:]}")
        if options:
            return {}
        rows = json.loads(saved.read_text())["benchmarks"]
    return {row["param"]: row["stats"]["median"] for row in rows}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.against", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commit", nargs="?", default="HEAD", help="what to compare with; default: HEAD")
    parser.add_argument("--turns", type=int, default=6, help="processes of each; default: 6")
    parser.add_argument("--threshold", type=float, default=5.0, metavar="PERCENT", help="default: 5")
    wanted = parser.parse_args(arguments)
    if wanted.turns < 5 or wanted.threshold < 0:
        parser.error("expected --turns of 5 or more, or there is no interval, and a --threshold from 0")
    threshold = wanted.threshold / 100
    with tempfile.TemporaryDirectory(prefix="cukde-base-") as folder:
        try:
            base = unpacked(wanted.commit, Path(folder).resolve())
            for side in (base, ROOT):
                run_set(side, (), "--benchmark-disable")  # compiles, and checks results
            found = compared(run_set, base, ROOT, wanted.turns, threshold)
        except Failure as failed:
            print(f"benchmarks.against: {failed}", file=sys.stderr)
            return 2
    print(report(found, wanted.commit, threshold))
    return int(bool(found.slower))


if __name__ == "__main__":
    sys.exit(main())
