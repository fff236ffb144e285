"""Numbers and sizes as reports print them."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from typing import Any

_PREFIXES = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}

_NOUNS = {
    "memory": "B",
    "cache": "B",
    "shared": "B",
    "instruction": "instr",
    "scalar": "op",
    "exponential": "exp",
    "exponential_f64": "exp",
    "tensor_s8": "op",
    "tensor_b1": "op",
}


def noun(unit: str) -> str:
    """The noun for the work of a unit."""
    return _NOUNS.get(unit, "flop")


def si(number: float, noun: str) -> str:
    """A number to three digits, with the prefix of its unit: "4.20 TB/s"."""
    if not math.isfinite(number):
        return str(number)
    rounded = float(f"{number:.3g}")
    exponent = 3 * math.floor(math.log10(abs(rounded)) / 3) if rounded else 0
    exponent = min(max(exponent, min(_PREFIXES)), max(_PREFIXES))
    scaled = rounded / 10.0**exponent
    digits = max(0, 2 - math.floor(math.log10(abs(scaled)))) if scaled else 0
    return f"{scaled:.{digits}f} {_PREFIXES[exponent]}{noun}".rstrip()


def sizes(shapes: Mapping[str, Any]) -> str:
    """Sizes in one line, such as "n=4,096 d=16 float32", without those that are None or False."""
    words = []
    for name, value in shapes.items():
        if value is True:
            words.append(name)
        elif isinstance(value, int | float) and value is not False:
            words.append(f"{name}={value:,}")
        elif value is not None and value is not False:
            words.append(str(value))
    return " ".join(words)


def shortened(text: str, width: int) -> str:
    """The text, cut to so many characters."""
    return text if len(text) <= width else text[: width - 3].rstrip() + "..."


def wrapped(text: str, indent: str, width: int = 100) -> list[str]:
    """Lines of a sentence, indented."""
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent + "  ")
