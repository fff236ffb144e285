"""Records of measured runs as JSON: machine, versions, command and rows, in one form for all benchmarks."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.tools import pace
from benchmarks.tools.checkout import source
from cukde._version import __version__
from cukde.core.cpu import processor
from cukde.core.gpu import kernel_cache

_PACKAGES = (
    *("numpy", "scipy", "numba", "scikit-learn", "pandas", "torch", "pykeops", "KDEpy", "statsmodels"),
    *("arviz", "arviz-stats", "fastkde", "xarray-spatial"),
    *("cupy-cuda12x", "cupy-cuda13x", "numba-cuda"),
)

_PARTS: dict[str, type] = {"date": str, "commit": str, "machine": dict, "versions": dict, "command": str, "rows": list}
"""Parts of a record."""


def write(path: str | Path, rows: Sequence[Mapping[str, Any]], *, calibration: Mapping[str, Any] | None = None) -> None:
    """Write the rows of one run to a file, with date, commit, machine, versions and command.

    Rows have "op", "backend", "shape", "dtype", "precision", those of :meth:`cukde.perf.Times.row`, and anything else
    that JSON can hold; numbers are written with all digits. The calibration is that before and after the run.

    The commit is that of the checkout of cukde, in full. A copy without git takes it from the environment variable
    ``CUKDE_COMMIT``; otherwise the version of cukde stands for it.

    A record belongs to the code of its commit. A checkout is changed if a tracked file of ``cukde``, ``kernels_cu``,
    ``benchmarks`` or ``tests``, or ``pyproject.toml``, differs from the commit; ``benchmarks/results``, other folders
    and untracked files do not count. A changed checkout is a RuntimeError, unless ``CUKDE_DIRTY=1`` is set in the
    environment; the record then has ``"changed": true``. A name in ``CUKDE_COMMIT`` that ends in ``-dirty``, as
    ``git describe --always --dirty`` writes it, means a changed checkout.
    """
    text = json.dumps(made(rows, calibration), indent=1) + "\n"
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")


def made(rows: Sequence[Mapping[str, Any]], calibration: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Make the record of rows that were measured here and now."""
    for row in rows:
        if not isinstance(row, Mapping):
            raise TypeError(f"rows must be dictionaries, one a measurement; got a {type(row).__name__}")
    measured = {} if calibration is None else {"calibration": pace.checked(calibration, "calibration")}
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        **source(),
        "machine": machine(),
        "versions": _versions(),
        "command": _command(),
        **measured,
        "rows": list(rows),
    }


def read(path: str | Path) -> dict[str, Any]:
    """Read a record that :func:`write` wrote; ValueError, which says what is missing, for another file."""
    try:
        run = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:  # in the encoding or in JSON
        raise ValueError(f"{path} must be a record of benchmarks.tools.records; it is no JSON: {error}") from None
    return checked(run, str(path))


def checked(run: Any, name: str) -> dict[str, Any]:
    """Return a record as it is, or raise where it is invalid."""
    if not isinstance(run, dict):
        raise ValueError(f"{name} must be a record, a dictionary or the path of one; got a {type(run).__name__}")
    missing = [part for part, kind in _PARTS.items() if not isinstance(run.get(part), kind)]
    if missing:
        raise ValueError(f"{name} must be a record of benchmarks.tools.records; it has no {', '.join(missing)}")
    if not all(isinstance(row, dict) for row in run["rows"]):
        raise ValueError(f"{name} must be a record of benchmarks.tools.records; its rows are not all dictionaries")
    if "calibration" in run:
        pace.checked(run["calibration"], f"the calibration of {name}")
    return run


def machine() -> dict[str, Any]:
    """The machine of a run: the processor, and GPU, driver and clocks where there is a GPU."""
    out: dict[str, Any] = {"cpu": processor.name(), "cores": processor.cores()}
    query = "--query-gpu=name,driver_version,clocks.sm,clocks.max.sm"
    gpu = _output("nvidia-smi", query, "--format=csv,noheader,nounits")
    if gpu:
        name, driver, clock, most = (field.strip() for field in gpu.splitlines()[0].split(","))
        clocks = {"sm_clock_mhz": clock, "sm_clock_max_mhz": most}  # a virtual GPU may have none
        out |= {"gpu": name, "driver": driver} | {key: int(mhz) for key, mhz in clocks.items() if mhz.isdigit()}
        out["cuda"] = _cuda_version()
    return out


def _command() -> str:
    """The command as a person would write it, without folders of the machine."""
    module = getattr(sys.modules["__main__"], "__spec__", None)  # None for a program that was not started by -m
    program = Path(sys.argv[0]).name
    if module:
        start = ["python", "-m", module.name.removesuffix(".__main__")]
    else:  # a script, or a program that a package installs
        start = ["python", program] if program.endswith(".py") else [program or "python"]
    return shlex.join([*start, *(Path(a).name if Path(a).is_absolute() else a for a in sys.argv[1:])])


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "cukde": __version__}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _cuda_version() -> str | None:
    try:
        kernel_cache.ensure()
        import cupy

        version = cupy.cuda.runtime.runtimeGetVersion()
    except (ImportError, RuntimeError, OSError):
        return None
    return f"{version // 1000}.{version % 1000 // 10}"


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
