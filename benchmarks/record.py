"""The one writer of measured runs: machine, versions, command and rows as JSON, as docs and README read them."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

_PACKAGES = (
    "cukde",
    "numpy",
    "scipy",
    "numba",
    "scikit-learn",
    "cupy-cuda12x",
    "cupy-cuda13x",
    "numba-cuda",
    "torch",
    "pykeops",
    "KDEpy",
    "pandas",
)

_LONGEST_REASON = 300  # characters


def machine() -> dict[str, Any]:
    """What the run ran on: GPU, driver, clocks where there is a GPU, and the processor."""
    out: dict[str, Any] = {"cpu": _processor(), "cores": len(os.sched_getaffinity(0))}
    gpu = _output(
        "nvidia-smi",
        "--query-gpu=name,driver_version,clocks.sm,clocks.max.sm",
        "--format=csv,noheader,nounits",
    )
    if gpu:
        name, driver, clock, most = (field.strip() for field in gpu.splitlines()[0].split(","))
        out |= {"gpu": name, "driver": driver, "sm_clock_mhz": int(clock), "sm_clock_max_mhz": int(most)}
        out["cuda"] = _cuda_version()
    return out


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write one run to ``path``."""
    run = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": os.environ.get("CUKDE_COMMIT") or _output("git", "describe", "--always", "--dirty"),
        "machine": machine(),
        "versions": {"python": platform.python_version()} | _versions(),
        "command": _command(),
        "rows": rows,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(run, indent=1) + "\n")


def _command() -> str:
    """The command as a person would write it: no folders of the machine."""
    module = sys.modules["__main__"].__spec__  # None of a program that was not started by -m
    start = ["-m", module.name.removesuffix(".__main__")] if module else [Path(sys.argv[0]).name]
    return shlex.join(["python", *start, *(Path(a).name if Path(a).is_absolute() else a for a in sys.argv[1:])])


def reason(error: BaseException) -> str:
    """An exception in one line, without folders of the machine."""
    text = re.sub(r"(?<![\w:])(?:/[\w.+@~-]+)+/", "", f"{type(error).__name__}: {error}")
    return " ".join(text.split())[:_LONGEST_REASON]


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


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((entry.split(":", 1)[1].strip() for entry in lines if entry.startswith("model name")), "")


def _cuda_version() -> str | None:
    try:
        import cupy

        version = cupy.cuda.runtime.runtimeGetVersion()
    except (ImportError, RuntimeError):
        return None
    return f"{version // 1000}.{version % 1000 // 10}"


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
