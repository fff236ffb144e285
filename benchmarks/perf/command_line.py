"""``cukde density`` of a large file, beside a script that makes the one call itself; both in processes of their own.

python -m benchmarks.perf.command_line [--rows N] [--runs N] [--record benchmarks/results/NAME.json]

The file has heights and weights of people beside their age, and the density is that of the first two. The command
reads it, computes, and writes a line for each row. The script reads the same columns with numpy.loadtxt, makes the call
and writes its lines; of both, the row has the time from the start of the process to its end, and of the script also
that of the call alone. The two alternate, and their results are compared first.
"""

from __future__ import annotations

import argparse
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
begun = time.perf_counter()
density = cukde.kde(X, X, cukde.bandwidth.silverman(X))
print(time.perf_counter() - begun, file=sys.stderr)
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
    times: dict[str, list[float]] = {"command": [], "script": [], "call": []}
    programs = {
        "command": ["-m", "cukde", "density", str(path), "--columns", "height,weight"],
        "script": ["-c", _SCRIPT, str(path)],
    }
    lines = {}
    for _ in range(1 + runs):  # the first fills the caches
        for name, program in programs.items():
            begun = time.perf_counter()
            with out.open("w") as file:
                done = subprocess.run([sys.executable, *program], stdout=file, stderr=subprocess.PIPE, text=True)
            done.check_returncode()
            times[name].append(1e3 * (time.perf_counter() - begun))
            lines[name] = out.read_text()
        times["call"].append(1e3 * float(done.stderr))
        assert lines["command"] == lines["script"], "the command's numbers are not those of the call"
    found = {name: perf.Times.of(each[1:]).row() for name, each in times.items()}
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
    of_script, of_call = (row["median_ms"] / row[name]["median_ms"] for name in ("script", "call"))
    print(f"{record.line(row)}  ({of_script:.2f} times the script, {of_call:.2f} times the call alone)")
    session.write([row])


if __name__ == "__main__":
    main()
