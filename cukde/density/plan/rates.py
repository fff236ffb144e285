"""The tables of measured rates that plans compare: ``rates_gpu.json`` and ``rates_cpu.json``.

``python -m benchmarks.density.rates`` measures them.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


@functools.cache
def table(backend: str) -> Mapping[str, Any]:
    """The table of a backend; keys that are numbers of columns are integers."""
    path = Path(__file__).with_name(f"rates_{backend}.json")
    found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"), object_hook=_numbered)
    return found


def at(rates: Mapping[int, float], d: int) -> float:
    """The rate of the first number of columns that is not below ``d``, else of the last."""
    for most, rate in rates.items():
        if d <= most:
            return rate
    return rate


def _numbered(one: dict[str, Any]) -> dict[Any, Any]:
    return {int(key): value for key, value in one.items()} if all(map(str.isdigit, one)) else one
