"""``cukde density`` of a large file, beside a script that makes the one call itself; both in processes of their own.

python -m benchmarks.perf.command_line [--rows N] [--runs N] [--record benchmarks/results/NAME.json]

The file has heights and weights of people beside their age, and the density is that of the first two. The command
reads it, computes, and writes a line for each row. The script reads the same columns with numpy.loadtxt, makes the call
and writes its lines; of both, the row has the time from the start of the process to its end, and of the script also
that of the call alone. ``processor_ms`` is the time on all cores, which other work on the machine changes little. The
two alternate, and their results are compared.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import record
from cukde import perf

_SCRIPT = """
import sys, time
import numpy as np, cukde
X = np.loadtxt(sys.argv[1], delimiter=",", skiprows=1, usecols=[0, 1])
begun = time.perf_counter(), time.process_time()
density = cukde.kde(X, X, cukde.bandwidth.silverman(X))
print(time.perf_counter() - begun[0], time.process_time() - begun[1], file=sys.stderr)
sys.stdout.writelines(f"{number}\\n" for number in density.tolist())
"""


def write(path: Path, rows: int) -> None:
    """Write the file."""
    rng = np.random.default_rng(0)
    height = rng.normal(170, 10, rows)
    table = np.column_stack([height, 0.9 * (height - 100) + rng.normal(0, 8, rows), rng.integers(18, 90, rows)])
    np.savetxt(path, table, fmt="%.2f,%.2f,%d", header="height,weight,age", comments="")


def run(path: Path, out: Path, runs: int) -> dict[str, Any]:
    """Time both; the row of a record."""
    times: dict[str, list[tuple[float, float]]] = {"command": [], "script": [], "call": []}
    programs = {
        "command": ["-m", "cukde", "density", str(path), "--columns", "height,weight"],
        "script": ["-c", _SCRIPT, str(path)],
    }
    lines = {}
    for _ in range(1 + runs):  # the first fills the caches
        for name, program in programs.items():
            begun = _clocks()
            with out.open("w") as file:
                done = subprocess.run([sys.executable, *program], stdout=file, stderr=subprocess.PIPE, text=True)
            done.check_returncode()
            times[name].append(tuple(1e3 * (after - before) for before, after in zip(begun, _clocks(), strict=True)))
            lines[name] = out.read_text()
        wall, processor = map(float, done.stderr.split())
        times["call"].append((1e3 * wall, 1e3 * processor))
        assert lines["command"] == lines["script"], "the command's numbers are not those of the call"
    found: dict[str, dict[str, Any]] = {}
    for name, each in times.items():
        wall_ms, processor_ms = zip(*each[1:], strict=True)
        found[name] = perf.Times.of(wall_ms).row() | {"processor_ms": float(np.median(processor_ms))}
    return {
        "op": "cukde density",
        "backend": "cpu",
        "shape": {"n": lines["command"].count("\n"), "d": 2},
        "dtype": "float64",
        "precision": "float64",
        **found["command"],
        "script": found["script"],
        "call": found["call"],
    }


def _clocks() -> tuple[float, float]:
    """Seconds that have passed, and those of processes that have ended on all cores."""
    children = os.times()
    return time.perf_counter(), children.children_user + children.children_system


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.perf.command_line", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000, help="of the file")
    parser.add_argument("--runs", type=int, default=3, help="processes of each kind")
    parser.add_argument("--record", type=record.target, help="write the row to this JSON file")
    given = parser.parse_args()
    session = record.Session(given.record)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "people.csv")
        write(path, given.rows)
        row = run(path, Path(folder, "density.txt"), given.runs)
    ratios = [
        f"{row[key] / row[name][key]:.2f} times {what}{unit}"
        for key, unit in (("median_ms", ""), ("processor_ms", " on all cores"))
        for name, what in (("script", "the script"), ("call", "the call alone"))
    ]
    print(f"{record.line(row)}  ({', '.join(ratios)})")
    session.write([row])


if __name__ == "__main__":
    main()
