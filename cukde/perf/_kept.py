"""The file of measured peaks, with an entry for each device by its name."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

from cukde.core import files as core_files
from cukde.core.cost.peaks import Peaks

VARIABLE = "CUKDE_PEAKS"


def path() -> Path:
    """The path of the file: ``CUKDE_PEAKS``, or else ``cukde/peaks.json`` in the user's folder of caches."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen)
    folder = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME")
    # The standard for that variable tells programs to ignore relative paths.
    caches = Path(folder) if folder and Path(folder).is_absolute() else Path("~/.cache").expanduser()
    return caches / "cukde" / "peaks.json"


def load() -> dict[str, Peaks]:
    """All entries; none without a valid file. A file that cannot be read is a warning."""
    try:
        entries = json.loads(path().read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, RuntimeError) as error:  # the latter for a user without a home
        _warn("read", error)
        return {}
    except ValueError:  # neither JSON nor text
        return {}
    entries = {name: _peaks(name, entry) for name, entry in entries.items()} if isinstance(entries, dict) else {}
    return {name: peaks for name, peaks in entries.items() if peaks is not None}


def keep(peaks: Peaks) -> bool:
    """Put an entry in the file, in place of an older one with its name; False, and a warning, if that fails."""
    try:
        entries = {name: _entry(other) for name, other in load().items()} | {peaks.name: _entry(peaks)}
        core_files.replace(path(), (json.dumps(entries, indent=1) + "\n").encode())
    except (OSError, RuntimeError) as error:
        _warn("written", error)
        return False
    return True


def _entry(peaks: Peaks) -> dict[str, Any]:
    return {name: value for name, value in dataclasses.asdict(peaks).items() if name != "name"}


def _peaks(name: str, entry: Any) -> Peaks | None:
    """Read an entry; None if it is invalid."""
    try:
        peaks = Peaks(
            name=name,
            **entry
            | {
                "rates": {unit: float(rate) for unit, rate in entry["rates"].items()},
                "quartiles": {unit: (float(low), float(high)) for unit, (low, high) in entry["quartiles"].items()},
                "capability": (int(entry["capability"][0]), int(entry["capability"][1])),
            },
        )
        numbers = (*peaks.rates.values(), peaks.launch, peaks.multiprocessors, peaks.clock, peaks.cache_bytes)
    except (TypeError, ValueError, KeyError, IndexError, AttributeError):
        return None
    usable = all(isinstance(number, int | float) and number > 0 for number in numbers)
    return peaks if usable and peaks.backend in ("gpu", "cpu") else None


def _warn(what: str, error: Exception) -> None:
    warnings.warn(
        f"the file of measured peaks could not be {what}: {error}; name another one by the environment variable "
        f"{VARIABLE}",
        stacklevel=3,
    )
