"""A fitted estimator as one NPZ file: arrays, and text that says what they are. Nothing in it is ever executed."""

from __future__ import annotations

import json
from os import PathLike
from typing import Any

import numpy as np

from cukde import _dispatch

FORMAT = "cukde.KernelDensity 1"
_ABOUT = "about"
_PLAIN = (bool, int, float, str, type(None))


def write(path: str | PathLike[str], values: dict[str, Any]) -> None:
    """Write numbers, words, arrays, and dictionaries of them."""
    arrays: dict[str, np.ndarray] = {}
    about = json.dumps({"format": FORMAT, "values": _encoded(values, "value", arrays)})
    with open(path, "wb") as file:
        np.savez(file, **{_ABOUT: np.array(about)}, **arrays)  # type: ignore[arg-type]


def read(path: str | PathLike[str]) -> dict[str, Any]:
    """Read what :func:`write` wrote; ValueError for any other file."""
    with open(path, "rb") as file:
        try:
            with np.load(file, allow_pickle=False) as arrays:
                about = json.loads(str(arrays[_ABOUT]))
                if about["format"] != FORMAT:
                    raise ValueError(f"its format is {about['format']!r}, not {FORMAT!r}")
                values: dict[str, Any] = _decoded(about["values"], arrays)
                return values
        except Exception as error:  # a damaged file makes anything of the readers of NumPy, ZIP and JSON
            raise unreadable(path, error) from None


def unreadable(path: Any, error: Exception) -> ValueError:
    """Return the error of a file that holds no estimator."""
    return ValueError(
        f"{path} must be an undamaged file written by KernelDensity.save of this version; "
        f"{type(error).__name__}: {error}"
    )


def _encoded(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, dict):
        return {"dictionary": {key: _encoded(each, f"{name}.{key}", arrays) for key, each in value.items()}}
    array = np.asarray(_dispatch.to_host(value))
    if array.dtype.kind not in "fiubU":
        raise TypeError(f"save takes numbers, words and arrays of them; {name} is {value!r}: pickle the estimator")
    arrays[name] = array
    return {"array": name}


def _decoded(value: Any, arrays: Any) -> Any:
    if isinstance(value, _PLAIN):
        return value
    if "dictionary" in value:
        return {key: _decoded(each, arrays) for key, each in value["dictionary"].items()}
    return arrays[value["array"]]
